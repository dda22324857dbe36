/* What went wrong in a call, beyond its errno: filled in by the layer that found it, carried to the
 * caller. */
#ifndef PYEXFAT_BASE_ERROR_H
#define PYEXFAT_BASE_ERROR_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* Damage (a structure of the disk breaks a rule of its format): every function that returns it also
 * fills in an error. */
#define BASE_ECORRUPT EUCLEAN
/* A valid image that uses a feature this library does not have. */
#define BASE_EUNSUPPORTED EOPNOTSUPP

enum base_error_kind {
    BASE_ERROR_NONE = 0,
    BASE_ERROR_DAMAGE,      /* structure, offset, field, found, expected are set */
    BASE_ERROR_UNSUPPORTED, /* structure names the feature */
    BASE_ERROR_ARGUMENT,    /* field names the argument, detail says why */
    BASE_ERROR_REFUSED,     /* found is an errno that says little, detail says why */
};

struct base_error {
    enum base_error_kind kind;
    uint64_t offset;    /* byte offset from the start of the volume */
    uint64_t found;     /* value found on the disk */
    uint64_t expected;  /* value that is right (0 when a range is right: see detail) */
    char structure[48]; /* "allocation bitmap", "entry set", … */
    char field[32];     /* field name in the terms of the specification */
    char detail[128];   /* one sentence for people */
};

/* Each fills *e (when e is not NULL and still empty: the first cause wins) and returns the negative
 * errno. */
int base_damage(struct base_error *e, const char *structure, uint64_t offset, const char *field,
                uint64_t found, uint64_t expected, const char *detail);
int base_unsupported(struct base_error *e, const char *feature, const char *detail);
int base_bad_argument(struct base_error *e, const char *argument, const char *detail);
int base_refused(struct base_error *e, int error, const char *detail); /* error: positive */
void base_error_clear(struct base_error *e);

#endif
