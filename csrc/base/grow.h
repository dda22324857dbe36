/* Room in arrays that grow by doubling. */
#ifndef PYEXFAT_BASE_GROW_H
#define PYEXFAT_BASE_GROW_H

#include <stddef.h>

/* The array v, which holds n of *cap elements of `size` bytes, with room for `more` behind them: v
 * itself where it has the room, otherwise one of at least twice the elements (`first` of them to
 * begin with). NULL when there is no memory; v and *cap are then as before. `more` is at least 1.
 */
void *base_grow(void *v, size_t n, size_t more, size_t *cap, size_t first, size_t size);

#endif
