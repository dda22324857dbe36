/* What every driver's formatting needs: zeros over everything, and telling how far it is. */
#include <errno.h>

#include "base/bytes.h"
#include "volume/volume.h"

enum {
    PIECE = 8 << 20,     /* bytes between two calls of progress … */
    CHEAP_PIECES = 1024, /* … or pieces, where zeros cost nothing */
};

int volume_format_report(const struct volume_format *f, uint64_t done, uint64_t size)
{
    if (f->progress && f->progress(f->progress_context, done, size) != 0)
        return -EINTR;
    return 0;
}

int volume_format_zero(struct device *d, const struct volume_format *f, uint64_t size, uint64_t op)
{
    const struct device_tag tag = {op, 0, DEVICE_ZEROING};
    uint64_t piece = PIECE;
    if (device_has(d, DEVICE_CHEAP_ZERO))
        piece = base_max(piece, base_round_up(size / CHEAP_PIECES, PIECE));
    for (uint64_t at = 0; at < size; at += piece) {
        uint64_t n = base_min(piece, size - at);
        int rc = device_zero(d, at, n, &tag);
        if (rc == 0)
            rc = volume_format_report(f, at + n, size);
        if (rc < 0)
            return rc;
    }
    return 0;
}
