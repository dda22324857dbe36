/* Room in arrays that grow by doubling. */
#include <stdint.h>
#include <stdlib.h>

#include "base/grow.h"

void *base_grow(void *v, size_t n, size_t more, size_t *cap, size_t first, size_t size)
{
    if (more <= *cap - n) {
        return v;
    }
    size_t most = SIZE_MAX / size;
    if (more > most - n) {
        return NULL;
    }
    size_t want = *cap > most / 2 ? most : *cap * 2;
    want = want < first ? first : want;
    want = want < n + more ? n + more : want;
    void *grown = realloc(v, want * size);
    if (grown) {
        *cap = want;
    }
    return grown;
}
