/* Time zones and code pages, from Python to C. As for args.h: NULL or None is "not given", and
 * false comes with an exception. */
#ifndef PYEXFAT_PYTHON_REGIONAL_H
#define PYEXFAT_PYTHON_REGIONAL_H

#include "python/core.h"

#include "volume/volume.h"

/* What is given by an argument; all zero before, py_regional_done after. */
struct py_regional {
    struct base_zone zone;
    struct volume_codepage *codepage;
    PyObject *local_zone; /* borrowed */
};
void py_regional_done(struct py_regional *r);

/* A sequence of (second since 1970 UTC, minutes east), as base_zone_init has it. *given: r->zone
 * is set. */
bool py_arg_zone(PyObject *o, const char *name, struct base_zone *out, bool *given);
/* Only one of both can be given. */
bool py_arg_zone_or_offset(PyObject *zone, PyObject *utc_offset, struct py_regional *r,
                           bool *given);
PyObject *py_zone_new(const struct base_zone *z); /* the way back: a tuple of tuples */
/* volume_options.local_zone, with a struct py_regional as its context. */
int py_call_local_zone(void *context, struct base_zone *out);
/* A buffer as large as struct volume_codepage and laid out as it is. */
bool py_arg_codepage(PyObject *o, struct py_regional *r);

#endif
