/* Lists and records from the core's structs. Each returns NULL with an exception set. */
#ifndef PYEXFAT_PYTHON_CONVERT_H
#define PYEXFAT_PYTHON_CONVERT_H

#include "python/core.h"

#include "device/partition.h"
#include "volume/volume.h"

PyObject *py_extents(struct py_state *st, const struct volume_extents *e);
/* [str] appended to `names`; 0 or -1. */
int py_add_names(PyObject *names, const struct volume_list *l);
/* [(str, Stat)] */
PyObject *py_dirents(struct py_state *st, const struct volume_list *l, uint32_t cluster_size,
                     uint32_t serial);
PyObject *py_statfs(struct py_state *st, const struct volume_statfs *s);
PyObject *py_detected(struct py_state *st, const struct volume_detected *d);
PyObject *py_partition_table(struct py_state *st, const struct device_partition_table *t);
PyObject *py_counters(const struct volume_counters *c);

/* Policies are dicts with a key for each field; choices are words. */
PyObject *py_policy_dict(const struct volume_policy *p);
bool py_policy_arg(PyObject *mapping,
                   struct volume_policy *p); /* changes what is named; None: nothing */
extern const char *const py_sync_names[3];

#endif
