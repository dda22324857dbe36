/* Filling in the details of an error. */
#include "base/error.h"

#include <stddef.h>
#include <string.h>

/* Copies s into out[size], cut at a character of UTF-8 when it is too long. */
static void copy_text(char *out, size_t size, const char *s)
{
    size_t n = s ? strlen(s) : 0;

    if (n >= size) {
        n = size - 1;
        while (n > 0 && ((unsigned char)s[n] & 0xC0) == 0x80) {
            n--;
        }
    }
    if (n > 0) {
        memcpy(out, s, n);
    }
    out[n] = '\0';
}

static bool is_free(const struct base_error *e)
{
    return e && e->kind == BASE_ERROR_NONE;
}

int base_damage(struct base_error *e, const char *structure, uint64_t offset, const char *field,
                uint64_t found, uint64_t expected, const char *detail)
{
    if (is_free(e)) {
        e->kind = BASE_ERROR_DAMAGE;
        e->offset = offset;
        e->found = found;
        e->expected = expected;
        copy_text(e->structure, sizeof e->structure, structure);
        copy_text(e->field, sizeof e->field, field);
        copy_text(e->detail, sizeof e->detail, detail);
    }
    return -BASE_ECORRUPT;
}

int base_unsupported(struct base_error *e, const char *feature, const char *detail)
{
    if (is_free(e)) {
        base_error_clear(e);
        e->kind = BASE_ERROR_UNSUPPORTED;
        copy_text(e->structure, sizeof e->structure, feature);
        copy_text(e->detail, sizeof e->detail, detail);
    }
    return -BASE_EUNSUPPORTED;
}

int base_bad_argument(struct base_error *e, const char *argument, const char *detail)
{
    if (is_free(e)) {
        base_error_clear(e);
        e->kind = BASE_ERROR_ARGUMENT;
        copy_text(e->field, sizeof e->field, argument);
        copy_text(e->detail, sizeof e->detail, detail);
    }
    return -EINVAL;
}

int base_refused(struct base_error *e, int error, const char *detail)
{
    if (is_free(e)) {
        base_error_clear(e);
        e->kind = BASE_ERROR_REFUSED;
        e->found = (uint64_t)error;
        copy_text(e->detail, sizeof e->detail, detail);
    }
    return -error;
}

void base_error_clear(struct base_error *e)
{
    if (e) {
        memset(e, 0, sizeof *e);
    }
}
