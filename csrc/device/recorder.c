/* The recorder: passes everything through and keeps an ordered log of what changes the device.
 *
 * An operation is logged when the device below has done it, and not when that failed; so a fault
 * injector belongs above the recorder. The state before the first entry is a branch of the device
 * below (`base`). To rebuild the state after some entries, they are replayed into a branch of it
 * (`cursor`), which stays and moves forward: going through all the states in order costs one
 * replay. What is handed out is a branch of the cursor, and keeps what it shows when the cursor
 * moves on.
 */
#include "base/checksum.h"
#include "base/grow.h"
#include "base/map.h"
#include "device/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A call name or a path, kept once. */
struct text {
    struct text *next; /* of the same hash */
    uint64_t object;   /* its number as an object, 0: none yet */
    char s[];
};

struct named_op {
    const char *call, *path;
};

struct recorder {
    struct device d; /* its lock guards all of this */
    struct device *base, *cursor;
    size_t cursor_count; /* entries that the cursor has */
    struct device_log_entry *log;
    size_t n, cap;
    struct base_map texts;   /* hash: struct text */
    struct base_map ops;     /* number: struct named_op */
    struct base_map objects; /* number: char of a text */
    uint64_t last_op, last_object;
    bool discard_zeroes; /* what is discarded below reads as zeros */
};

static struct recorder *recorder_of(struct device *d)
{
    return (struct recorder *)d;
}

/* ---- the log ---- */

static int reserve_entry(struct recorder *r)
{
    struct device_log_entry *log = base_grow(r->log, r->n, 1, &r->cap, 64, sizeof *log);

    if (!log) {
        return -ENOMEM;
    }
    r->log = log;
    return 0;
}

static void append(struct recorder *r, enum device_log_kind kind, uint64_t offset, uint64_t n,
                   const struct device_tag *tag, const uint8_t *data)
{
    struct device_log_entry *e = &r->log[r->n++];

    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->offset = offset;
    e->n = n;
    e->data = data;
    if (tag) {
        e->tag = *tag;
    }
}

static int recorder_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    return device_read(d->below, offset, buffer, n);
}

static int recorder_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                          const struct device_tag *tag)
{
    struct recorder *r = recorder_of(d);
    uint8_t *data = malloc(n);
    int rc = data ? reserve_entry(r) : -ENOMEM;

    if (rc == 0) {
        rc = device_write(d->below, offset, buffer, n, tag);
    }
    if (rc) {
        free(data);
        return rc;
    }
    memcpy(data, buffer, n);
    append(r, DEVICE_LOG_WRITE, offset, n, tag, data);
    return 0;
}

static int recorder_zero(struct device *d, uint64_t offset, uint64_t n,
                         const struct device_tag *tag)
{
    struct recorder *r = recorder_of(d);
    int rc = reserve_entry(r);

    if (rc == 0) {
        rc = device_zero(d->below, offset, n, tag);
    }
    if (rc == 0) {
        append(r, DEVICE_LOG_ZERO, offset, n, tag, NULL);
    }
    return rc;
}

static int recorder_discard(struct device *d, uint64_t offset, uint64_t n,
                            const struct device_tag *tag)
{
    struct recorder *r = recorder_of(d);
    int rc = reserve_entry(r);

    if (rc == 0) {
        rc = device_discard(d->below, offset, n, tag);
    }
    if (rc == 0) {
        append(r, DEVICE_LOG_DISCARD, offset, n, tag, NULL);
    }
    return rc;
}

static int recorder_flush(struct device *d)
{
    struct recorder *r = recorder_of(d);
    int rc = device_lock(d); /* the front takes it for changes only */

    if (rc) {
        return rc;
    }
    rc = reserve_entry(r);
    if (rc == 0) {
        rc = device_flush(d->below);
    }
    if (rc == 0) {
        append(r, DEVICE_LOG_FLUSH, 0, 0, NULL, NULL);
    }
    device_unlock(d);
    return rc;
}

static void forget_log(struct recorder *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free((void *)r->log[i].data);
    }
    r->n = 0;
}

/* ---- names ---- */

static struct text *intern(struct recorder *r, const char *s)
{
    size_t n = strlen(s) + 1;
    uint64_t hash = base_hash64(s, n, 0);
    struct text *first = base_map_get(&r->texts, hash), *t;

    for (t = first; t; t = t->next) {
        if (strcmp(t->s, s) == 0) {
            return t;
        }
    }
    t = malloc(sizeof *t + n);
    if (!t) {
        return NULL;
    }
    t->next = first;
    t->object = 0;
    memcpy(t->s, s, n);
    if (base_map_put(&r->texts, hash, t) != 0) {
        free(t);
        return NULL;
    }
    return t;
}

static bool name_op(struct recorder *r, uint64_t op, const char *call, const char *path)
{
    struct named_op *o = malloc(sizeof *o);
    struct text *c = o ? intern(r, call) : NULL;
    struct text *p = c && path ? intern(r, path) : NULL;

    if (!c || (path && !p) || base_map_put(&r->ops, op, o) != 0) {
        free(o);
        return false;
    }
    o->call = c->s;
    o->path = p ? p->s : NULL;
    return true;
}

/* A recorder below gives the numbers, so that both logs carry the same ones. 0: no memory for
 * names. */
static uint64_t recorder_begin(struct device *d, const char *call, const char *path)
{
    struct recorder *r = recorder_of(d);
    uint64_t op = device_begin(d->below, call, path);

    if (device_lock(d) != 0) {
        return op;
    }
    if (op == 0) {
        op = r->last_op + 1;
    }
    if (name_op(r, op, call, path)) {
        r->last_op = op;
    } else {
        op = 0;
    }
    device_unlock(d);
    return op;
}

static uint64_t recorder_object(struct device *d, const char *path)
{
    struct recorder *r = recorder_of(d);
    uint64_t object = device_object(d->below, path);
    struct text *t;

    if (device_lock(d) != 0) {
        return object;
    }
    t = intern(r, path);
    if (t && t->object == 0) {
        uint64_t number = object ? object : r->last_object + 1;

        if (base_map_put(&r->objects, number, t->s) == 0) {
            t->object = r->last_object = number;
        }
    }
    object = t ? t->object : 0;
    device_unlock(d);
    return object;
}

/* ---- life ---- */

static void recorder_destroy(struct device *d)
{
    struct recorder *r = recorder_of(d);
    size_t cursor = 0;
    struct text *t;
    void *op;

    device_unref(r->cursor);
    device_unref(r->base);
    forget_log(r);
    free(r->log);
    while ((op = base_map_next(&r->ops, &cursor, NULL))) {
        free(op);
    }
    cursor = 0;
    while ((t = base_map_next(&r->texts, &cursor, NULL))) {
        while (t) {
            struct text *next = t->next;

            free(t);
            t = next;
        }
    }
    base_map_free(&r->ops);
    base_map_free(&r->objects);
    base_map_free(&r->texts);
    free(r);
}

static const struct device_ops recorder_ops = {
    .read = recorder_read,
    .write = recorder_write,
    .zero = recorder_zero,
    .flush = recorder_flush,
    .discard = recorder_discard,
    .begin = recorder_begin,
    .object = recorder_object,
    .destroy = recorder_destroy,
};

int device_recorder_new(struct device *below, struct device **out)
{
    struct recorder *r = calloc(1, sizeof *r);
    struct device *base = NULL;
    int rc;

    if (!r) {
        return -ENOMEM;
    }
    rc = device_branch_new(below, &base);
    if (rc == 0) {
        rc = device_setup(&r->d, &recorder_ops, below, below->size, below->sector_size,
                          device_shim_flags(below) | DEVICE_TRACED, "recorder");
    }
    if (rc) {
        device_unref(base);
        free(r);
        return rc;
    }
    r->base = base;
    r->discard_zeroes = device_has(below, DEVICE_DISCARDS) && !device_has(below, DEVICE_IS_BLOCK);
    *out = &r->d;
    return 0;
}

/* ---- looking at the log ---- */

/* The recorder behind d with its lock held, or NULL. */
static struct recorder *lock_recorder(struct device *d)
{
    return d->ops == &recorder_ops && device_lock(d) == 0 ? recorder_of(d) : NULL;
}

size_t device_recorder_count(struct device *d)
{
    struct recorder *r = lock_recorder(d);
    size_t n = 0;

    if (r) {
        n = r->n;
        device_unlock(d);
    }
    return n;
}

int device_recorder_entry(struct device *d, size_t i, struct device_log_entry *out)
{
    struct recorder *r = lock_recorder(d);
    int rc = 0;

    if (!r) {
        return -EINVAL;
    }
    if (i < r->n) {
        *out = r->log[i];
    } else {
        rc = -ENOENT;
    }
    device_unlock(d);
    return rc;
}

const char *device_recorder_op(struct device *d, uint64_t op, const char **path)
{
    struct recorder *r = lock_recorder(d);
    const struct named_op *o = NULL;

    if (r) {
        o = base_map_get(&r->ops, op);
        device_unlock(d);
    }
    if (path) {
        *path = o ? o->path : NULL;
    }
    return o ? o->call : NULL;
}

const char *device_recorder_object(struct device *d, uint64_t object)
{
    struct recorder *r = lock_recorder(d);
    const char *s = NULL;

    if (r) {
        s = base_map_get(&r->objects, object);
        device_unlock(d);
    }
    return s;
}

/* The names stay, because later writes may still carry their numbers. */
void device_recorder_clear(struct device *d)
{
    struct recorder *r = lock_recorder(d);
    struct device *base = NULL, *old_base = NULL, *old_cursor = NULL;

    if (!r) {
        return;
    }
    /* Without memory for a new base the log stays: it would be wrong without its base. */
    if (device_branch_new(d->below, &base) == 0) {
        old_base = r->base;
        old_cursor = r->cursor;
        r->base = base;
        r->cursor = NULL;
        r->cursor_count = 0;
        forget_log(r);
    }
    device_unlock(d);
    device_unref(old_cursor);
    device_unref(old_base);
}

/* ---- rebuilding ---- */

static int replay(const struct recorder *r, const struct device_log_entry *e)
{
    switch (e->kind) {
    case DEVICE_LOG_WRITE:
        return device_write(r->cursor, e->offset, e->data, (size_t)e->n, &e->tag);
    case DEVICE_LOG_ZERO:
        return device_zero(r->cursor, e->offset, e->n, &e->tag);
    case DEVICE_LOG_DISCARD:
        return r->discard_zeroes ? device_zero(r->cursor, e->offset, e->n, &e->tag) : 0;
    case DEVICE_LOG_FLUSH:
        return 0;
    }
    return -EINVAL;
}

static void drop_cursor(struct recorder *r)
{
    device_unref(r->cursor);
    r->cursor = NULL;
    r->cursor_count = 0;
}

static int move_cursor(struct recorder *r, size_t count)
{
    int rc = 0;

    if (r->cursor && r->cursor_count > count) {
        drop_cursor(r);
    }
    if (!r->cursor) {
        rc = device_branch_new(r->base, &r->cursor);
    }
    while (rc == 0 && r->cursor_count < count) {
        rc = replay(r, &r->log[r->cursor_count]);
        r->cursor_count++;
    }
    if (rc) {
        drop_cursor(r);
    }
    return rc;
}

int device_recorder_at(struct device *d, size_t count, struct device **out)
{
    struct recorder *r = lock_recorder(d);
    int rc;

    if (!r) {
        return -EINVAL;
    }
    rc = count <= r->n ? move_cursor(r, count) : -ENOENT;
    if (rc == 0) {
        rc = device_branch_new(r->cursor, out);
    }
    device_unlock(d);
    return rc;
}
