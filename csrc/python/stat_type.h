/* Stat: a struct volume_stat with lazy attributes. */
#ifndef PYEXFAT_PYTHON_STAT_TYPE_H
#define PYEXFAT_PYTHON_STAT_TYPE_H

#include "python/core.h"

#include "volume/volume.h"

PyObject *py_stat_new(struct py_state *st, const struct volume_stat *s, uint32_t cluster_size,
                      uint32_t serial);

#endif
