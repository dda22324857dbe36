#include "python/regional.h"

#include <stdlib.h>
#include <string.h>

#include "python/args.h"
#include "python/gil.h"

static bool is_given(PyObject *o)
{
    return o && o != Py_None;
}

void py_regional_done(struct py_regional *r)
{
    base_zone_free(&r->zone);
    free(r->codepage);
}

/* ---- time zones ---- */

static bool wrong_zone(const char *name)
{
    PyErr_Format(PyExc_ValueError,
                 "%s must be one or more pairs of a second and the minutes east of UTC from then "
                 "on, less than a day, in order of time",
                 name);
    return false;
}

static bool zone_item(PyObject *o, const char *name, struct base_zone_change *out)
{
    if (!PyTuple_Check(o) || PyTuple_Size(o) != 2) {
        return wrong_zone(name);
    }
    return py_i64(PyTuple_GetItem(o, 0), name, &out->from) &&
           py_i16(PyTuple_GetItem(o, 1), name, &out->minutes);
}

bool py_arg_zone(PyObject *o, const char *name, struct base_zone *out, bool *given)
{
    struct base_zone_change *items = NULL;
    PyObject *tuple;
    Py_ssize_t n;
    int rc = -EINVAL;
    bool ok = true;

    if (!is_given(o)) {
        return true;
    }
    tuple = PySequence_Tuple(o);
    if (!tuple) {
        return false;
    }
    n = PyTuple_Size(tuple);
    if (n > 0 && (size_t)n <= BASE_ZONE_CHANGES_MAX) {
        items = malloc((size_t)n * sizeof *items);
        rc = items ? 0 : -ENOMEM;
    }
    for (Py_ssize_t i = 0; rc == 0 && ok && i < n; i++) {
        ok = zone_item(PyTuple_GetItem(tuple, i), name, &items[i]);
    }
    if (rc == 0 && ok) {
        rc = base_zone_init(out, items, (size_t)n);
    }
    free(items);
    Py_DECREF(tuple);
    if (rc == -ENOMEM) {
        PyErr_NoMemory();
    } else if (rc < 0) {
        wrong_zone(name);
    }
    *given = rc == 0 && ok;
    return *given;
}

bool py_arg_zone_or_offset(PyObject *zone, PyObject *utc_offset, struct py_regional *r, bool *given)
{
    struct base_zone_change fixed = {0, 0};

    if (!is_given(utc_offset)) {
        return py_arg_zone(zone, "zone", &r->zone, given);
    }
    if (is_given(zone)) {
        PyErr_SetString(PyExc_ValueError, "zone and utc_offset can't be given together");
        return false;
    }
    if (!py_i16(utc_offset, "utc_offset", &fixed.minutes)) {
        return false;
    }
    if (base_zone_init(&r->zone, &fixed, 1) < 0) {
        PyErr_SetString(PyExc_ValueError, "utc_offset is out of range: it must be less than a day");
        return false;
    }
    *given = true;
    return true;
}

PyObject *py_zone_new(const struct base_zone *z)
{
    /* The first item's offset holds always: its second must only be before the others. */
    int64_t first = z->count > 0 && z->utc[0] <= 0 ? z->utc[0] - 1 : 0;
    PyObject *out = PyTuple_New((Py_ssize_t)z->count + 1);

    for (uint32_t i = 0; out && i <= z->count; i++) {
        PyObject *item = Py_BuildValue("(Li)", (long long)(i > 0 ? z->utc[i - 1] : first),
                                       (int)(i > 0 ? z->minutes[i - 1] : z->first));

        if (!item || PyTuple_SetItem(out, (Py_ssize_t)i, item)) {
            Py_CLEAR(out);
        }
    }
    return out;
}

int py_call_local_zone(void *context, struct base_zone *out)
{
    const struct py_regional *r = context;
    struct py_callback c;
    bool given = false;
    PyObject *zone;
    int rc = 0;

    py_callback_begin(&c);
    zone = PyObject_CallNoArgs(r->local_zone);
    if (!zone || !py_arg_zone(zone, "local_zone", out, &given)) {
        rc = py_callback_failed(&c, true);
    }
    Py_XDECREF(zone);
    py_callback_end(&c);
    return rc;
}

/* ---- code pages ---- */

bool py_arg_codepage(PyObject *o, struct py_regional *r)
{
    Py_buffer view;
    bool fits;

    if (!is_given(o)) {
        return true;
    }
    if (PyObject_GetBuffer(o, &view, PyBUF_SIMPLE)) {
        return false;
    }
    fits = (size_t)view.len == sizeof *r->codepage;
    r->codepage = fits ? malloc(sizeof *r->codepage) : NULL;
    if (r->codepage) {
        memcpy(r->codepage, view.buf, sizeof *r->codepage);
    }
    PyBuffer_Release(&view);
    if (!fits) {
        PyErr_Format(PyExc_ValueError, "codepage must be %zu bytes long", sizeof *r->codepage);
    } else if (!r->codepage) {
        PyErr_NoMemory();
    }
    return r->codepage != NULL;
}
