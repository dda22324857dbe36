#include "python/convert.h"

#include <string.h>

#include "python/args.h"
#include "python/stat_type.h"

/* Takes over item; 0 or -1. */
static int append(PyObject *list, PyObject *item)
{
    int rc = item ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return rc;
}

/* ---- extents and directories ---- */

PyObject *py_extents(struct py_state *st, const struct volume_extents *e)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < e->n; i++) {
        const struct volume_extent *x = &e->v[i];
        PyObject *item =
            PyObject_CallFunction(st->extent, "KKKO", (unsigned long long)x->file_offset,
                                  (unsigned long long)x->device_offset,
                                  (unsigned long long)x->length, x->written ? Py_True : Py_False);

        if (append(list, item)) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *name_new(const struct volume_list *l, const struct volume_dirent *d)
{
    return py_text_new(l->names + d->name_offset, d->name_length);
}

int py_add_names(PyObject *names, const struct volume_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (append(names, name_new(l, &l->v[i]))) {
            return -1;
        }
    }
    return 0;
}

PyObject *py_dirents(struct py_state *st, const struct volume_list *l, uint32_t cluster_size,
                     uint32_t serial)
{
    PyObject *list = PyList_New((Py_ssize_t)l->n);

    for (size_t i = 0; list && i < l->n; i++) {
        PyObject *name = name_new(l, &l->v[i]), *pair = NULL;
        PyObject *stat = name ? py_stat_new(st, &l->v[i].stat, cluster_size, serial) : NULL;

        if (stat) {
            pair = PyTuple_Pack(2, name, stat);
        }
        Py_XDECREF(name);
        Py_XDECREF(stat);
        if (!pair || PyList_SetItem(list, (Py_ssize_t)i, pair)) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* ---- records ---- */

PyObject *py_statfs(struct py_state *st, const struct volume_statfs *s)
{
    return PyObject_CallFunction(st->statfs, "KKKIIKKI", (unsigned long long)s->total,
                                 (unsigned long long)s->used, (unsigned long long)s->free,
                                 (unsigned)s->cluster_size, (unsigned)s->sector_size,
                                 (unsigned long long)s->clusters,
                                 (unsigned long long)s->free_clusters, (unsigned)s->name_max);
}

static PyObject *guid_new(const uint8_t guid[16], bool given)
{
    return given ? PyBytes_FromStringAndSize((const char *)guid, 16) : Py_NewRef(Py_None);
}

PyObject *py_detected(struct py_state *st, const struct volume_detected *d)
{
    PyObject *serial = d->has_serial ? PyLong_FromUnsignedLong(d->serial) : Py_NewRef(Py_None);
    PyObject *label = py_text_new(d->label, strnlen(d->label, sizeof d->label));
    PyObject *uuid = guid_new(d->uuid, d->has_uuid), *out = NULL;

    if (serial && label && uuid) {
        out = PyObject_CallFunction(st->detected, "sKOOOO", d->fs, (unsigned long long)d->size,
                                    serial, label, uuid, d->damaged ? Py_True : Py_False);
    }
    Py_XDECREF(serial);
    Py_XDECREF(label);
    Py_XDECREF(uuid);
    return out;
}

static PyObject *partition_new(struct py_state *st, const struct device_partition *p, bool gpt)
{
    PyObject *type_guid = guid_new(p->type_guid, gpt), *guid = guid_new(p->guid, gpt);
    PyObject *name = py_text_new(p->name, strnlen(p->name, sizeof p->name)), *out = NULL;

    if (type_guid && guid && name) {
        out = PyObject_CallFunction(st->partition, "IKKIOOOO", (unsigned)p->number,
                                    (unsigned long long)p->offset, (unsigned long long)p->length,
                                    (unsigned)p->type, type_guid, guid, name,
                                    p->bootable ? Py_True : Py_False);
    }
    Py_XDECREF(type_guid);
    Py_XDECREF(guid);
    Py_XDECREF(name);
    return out;
}

PyObject *py_partition_table(struct py_state *st, const struct device_partition_table *t)
{
    static const char *const schemes[] = {
        [DEVICE_SCHEME_NONE] = NULL, [DEVICE_SCHEME_MBR] = "mbr", [DEVICE_SCHEME_GPT] = "gpt"};
    PyObject *list = PyList_New(0), *out = NULL;

    for (uint32_t i = 0; list && i < t->count; i++) {
        if (append(list, partition_new(st, &t->v[i], t->scheme == DEVICE_SCHEME_GPT))) {
            Py_CLEAR(list);
        }
    }
    if (list) {
        out = PyObject_CallFunction(st->partition_table, "zOOk", schemes[t->scheme], list,
                                    t->from_backup ? Py_True : Py_False,
                                    (unsigned long)t->disk_signature);
        Py_DECREF(list);
    }
    return out;
}

/* ---- counters ---- */

struct field {
    const char *name;
    size_t offset; /* of a uint64_t */
};
#define CACHE(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct volume_counters, cache.name)                                        \
    }
#define NAMES(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct volume_counters, names.name)                                        \
    }
#define VOLUME(name)                                                                               \
    {                                                                                              \
#name, offsetof(struct volume_counters, name)                                              \
    }
#define FIELDS(array) array, sizeof(array) / sizeof *(array)

static const struct field cache_fields[] = {
    CACHE(hits),         CACHE(misses),        CACHE(evictions),      CACHE(commits),
    CACHE(device_reads), CACHE(device_writes), CACHE(device_flushes), CACHE(device_discards),
    CACHE(bytes_read),   CACHE(bytes_written), CACHE(bytes_zeroed),
};
static const struct field names_fields[] = {
    NAMES(filter_tests),  NAMES(filter_rejects), NAMES(filter_false_positives),
    NAMES(filter_builds), NAMES(filter_drops),   NAMES(index_hits),
    NAMES(index_misses),  NAMES(index_builds),   NAMES(index_drops),
    NAMES(hole_hits),     NAMES(hole_drops),     NAMES(shrinks),
};
static const struct field volume_fields[] = {
    VOLUME(operations),         VOLUME(lookups),          VOLUME(lookups_missed),
    VOLUME(entries_visited),    VOLUME(sets_written),     VOLUME(entries_written),
    VOLUME(hint_hits),          VOLUME(hint_misses),      VOLUME(hint_drops),
    VOLUME(free_words_scanned), VOLUME(fat_entries_read), VOLUME(fat_entries_written),
    VOLUME(clusters_allocated), VOLUME(clusters_freed),
};

/* Takes over value; 0 or -1. */
static int set_item(PyObject *dict, const char *name, PyObject *value)
{
    int rc = value ? PyDict_SetItemString(dict, name, value) : -1;

    Py_XDECREF(value);
    return rc;
}

static PyObject *fields_dict(const struct volume_counters *c, const struct field *f, size_t n)
{
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict && i < n; i++) {
        uint64_t v;

        memcpy(&v, (const char *)c + f[i].offset, sizeof v);
        if (set_item(dict, f[i].name, PyLong_FromUnsignedLongLong(v))) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

static PyObject *structures_dict(const uint64_t counts[DEVICE_STRUCTURES])
{
    PyObject *dict = PyDict_New();

    for (int i = 0; dict && i < DEVICE_STRUCTURES; i++) {
        const char *name = device_structure_name((enum device_structure)i);

        if (set_item(dict, name, PyLong_FromUnsignedLongLong(counts[i]))) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

PyObject *py_counters(const struct volume_counters *c)
{
    PyObject *all = fields_dict(c, FIELDS(volume_fields));
    PyObject *cache = fields_dict(c, FIELDS(cache_fields));

    if (!all || !cache ||
        set_item(cache, "writes_by_structure", structures_dict(c->cache.writes_by_structure)) ||
        set_item(cache, "bytes_by_structure", structures_dict(c->cache.bytes_by_structure)) ||
        set_item(all, "names", fields_dict(c, FIELDS(names_fields))) ||
        PyDict_SetItemString(all, "cache", cache)) {
        Py_CLEAR(all);
    }
    Py_XDECREF(cache);
    return all;
}

/* ---- policies ---- */

const char *const py_sync_names[3] = {
    [VOLUME_LAZY] = "lazy", [VOLUME_DIRSYNC] = "dirsync", [VOLUME_SYNC] = "sync"};
static const char *const hints[] = {[VOLUME_HINT_OFF] = "off",
                                    [VOLUME_HINT_ONE_SHOT] = "one-shot",
                                    [VOLUME_HINT_RETAINED] = "retained"};
static const char *const entry_syncs[] = {[VOLUME_SYNC_ENTRY] = "entry", [VOLUME_SYNC_SET] = "set"};
static const char *const scans[] = {[VOLUME_SCAN_ELEMENT] = "element",
                                    [VOLUME_SCAN_BLOCK] = "block",
                                    [VOLUME_SCAN_INDEX] = "index"};

PyObject *py_policy_dict(const struct volume_policy *p)
{
    PyObject *d = PyDict_New();

    if (d && (set_item(d, "empty_hint", PyUnicode_FromString(hints[p->empty_hint])) ||
              set_item(d, "name_filter", PyBool_FromLong(p->name_filter)) ||
              set_item(d, "name_index", PyBool_FromLong(p->name_index)) ||
              set_item(d, "entry_sync", PyUnicode_FromString(entry_syncs[p->entry_sync])) ||
              set_item(d, "preallocate", PyBool_FromLong(p->preallocate)) ||
              set_item(d, "free_scan", PyUnicode_FromString(scans[p->free_scan])) ||
              set_item(d, "discard", PyBool_FromLong(p->discard)) ||
              set_item(d, "memory_budget", PyLong_FromUnsignedLongLong(p->memory_budget)))) {
        Py_CLEAR(d);
    }
    return d;
}

static bool set_field(PyObject *key, PyObject *value, struct volume_policy *p)
{
    static const char *const keys[] = {"empty_hint",  "name_filter", "name_index", "entry_sync",
                                       "preallocate", "free_scan",   "discard",    "memory_budget"};
    int which = 0, word = 0;
    bool ok = py_word(key, "policy", keys, sizeof keys / sizeof *keys, &which);

    if (!ok) {
        return false;
    }
    switch (which) {
    case 0:
        ok = py_word(value, keys[0], hints, 3, &word);
        p->empty_hint = (enum volume_empty_hint)word;
        return ok;
    case 1:
        return py_bool(value, &p->name_filter);
    case 2:
        return py_bool(value, &p->name_index);
    case 3:
        ok = py_word(value, keys[3], entry_syncs, 2, &word);
        p->entry_sync = (enum volume_entry_sync)word;
        return ok;
    case 4:
        return py_bool(value, &p->preallocate);
    case 5:
        ok = py_word(value, keys[5], scans, 3, &word);
        p->free_scan = (enum volume_free_scan)word;
        return ok;
    case 6:
        return py_bool(value, &p->discard);
    default:
        return py_u64(value, keys[7], &p->memory_budget);
    }
}

bool py_policy_arg(PyObject *mapping, struct volume_policy *p)
{
    PyObject *items, *key, *value;
    bool ok = true;

    if (!mapping || mapping == Py_None) {
        return true;
    }
    items = PyMapping_Check(mapping) && !PyUnicode_Check(mapping) ? PyMapping_Items(mapping) : NULL;
    if (!items) {
        /* A sequence passes for a mapping until it is asked for its items. */
        if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_SetString(PyExc_TypeError, "policy must be a mapping or None");
        }
        return false;
    }
    for (Py_ssize_t i = 0; ok && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);

        key = PySequence_GetItem(pair, 0);
        value = key ? PySequence_GetItem(pair, 1) : NULL;
        ok = value && set_field(key, value, p);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    Py_DECREF(items);
    return ok;
}
