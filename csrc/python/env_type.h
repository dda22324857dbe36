/* Env (clock and random numbers) and Pool (a memory budget over volumes). */
#ifndef PYEXFAT_PYTHON_ENV_TYPE_H
#define PYEXFAT_PYTHON_ENV_TYPE_H

#include "python/core.h"

#include "base/env.h"
#include "names/names.h"

struct env *py_env_c(PyObject *op);         /* of an Env; lives as long as it */
struct names_pool *py_pool_c(PyObject *op); /* of a Pool; borrowed */

#endif
