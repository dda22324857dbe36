/* A table's memory, accounted as its directory's, that grows where it is. Once it is large it has
 * address space to grow into, and large pages. */
#include "names/internal.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

#define LARGE_FROM (OS_LARGE / 2)
#define SPACE ((size_t)128 << 20)

static size_t rounded(size_t bytes)
{
    return (size_t)base_round_up(bytes, OS_LARGE);
}

/* From allocated memory to a region. */
static bool move_to_region(struct names_dir *d, struct names_arena *a, size_t bytes)
{
    uint8_t *p = NULL;
    if (!names_reserve(d, bytes)) {
        return false;
    }
    if ((p = os_reserve(SPACE)) == NULL || !os_commit(p, bytes)) {
        names_release(d, bytes);
        if (p != NULL) {
            os_unreserve(p, SPACE);
        }
        return false;
    }
    if (a->bytes > 0) {
        memcpy(p, a->p, a->bytes);
    }
    names_arena_free(d, a);
    *a = (struct names_arena){p, bytes, true};
    return true;
}

static bool extend_region(struct names_dir *d, struct names_arena *a, size_t bytes)
{
    size_t more = bytes - a->bytes;
    if (bytes > SPACE || !names_reserve(d, more)) {
        return false;
    }
    if (!os_commit(a->p + a->bytes, more)) {
        names_release(d, more);
        return false;
    }
    a->bytes = bytes;
    return true;
}

bool names_arena_grow(struct names_dir *d, struct names_arena *a, size_t bytes)
{
    if (bytes <= a->bytes) {
        return true;
    }
    if (a->region) {
        return extend_region(d, a, rounded(bytes));
    }
    if (bytes >= LARGE_FROM && bytes <= SPACE && move_to_region(d, a, rounded(bytes))) {
        return true;
    }
    if (!names_reserve(d, bytes - a->bytes)) {
        return false;
    }
    uint8_t *p = realloc(a->p, bytes);
    if (p == NULL) {
        names_release(d, bytes - a->bytes);
        return false;
    }
    memset(p + a->bytes, 0, bytes - a->bytes);
    *a = (struct names_arena){p, bytes, false};
    return true;
}

void names_arena_cut(struct names_dir *d, struct names_arena *a, size_t bytes)
{
    size_t kept = a->region ? rounded(bytes) : bytes;
    if (kept >= a->bytes || kept == 0) {
        return;
    }
    if (a->region) {
        os_decommit(a->p + kept, a->bytes - kept);
    } else {
        uint8_t *p = realloc(a->p, kept);
        if (p == NULL) {
            return;
        }
        a->p = p;
    }
    names_release(d, a->bytes - kept);
    a->bytes = kept;
}

void names_arena_free(struct names_dir *d, struct names_arena *a)
{
    if (a->region) {
        os_unreserve(a->p, SPACE);
    } else {
        free(a->p);
    }
    names_release(d, a->bytes);
    *a = (struct names_arena){0};
}
