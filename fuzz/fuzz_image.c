/* libFuzzer: the input is an image. Start it with real small images as seeds. */
#include <stdlib.h>
#include <string.h>

#include "exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *image = malloc(n + 1);
    if (image != NULL) {
        memcpy(image, data, n);
        exercise_image(image, n);
    }
    free(image);
    return 0;
}
