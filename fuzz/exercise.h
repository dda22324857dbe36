/* What a fuzzer does with an image: everything a reader can do, then, on a copy, what a writer can
 * do. */
#ifndef PYEXFAT_FUZZ_EXERCISE_H
#define PYEXFAT_FUZZ_EXERCISE_H

#include <stddef.h>
#include <stdint.h>

/* The image may be of any length; what is beyond its last whole sector is left out. `image` is not
 * changed. */
void exercise_image(uint8_t *image, size_t n);

#endif
