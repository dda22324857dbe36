/* A few reads within a budget. */
#include "volume/peek.h"

#include "base/bytes.h"

const uint8_t *volume_peek_at(struct volume_peek *p, uint64_t offset, size_t n)
{
    uint64_t sector = p->d->sector_size;
    uint64_t start = offset / sector * sector;
    uint64_t length = base_round_up(offset + n, sector) - start;
    if (length > p->left || device_read(p->d, start, p->buffer, (size_t)length) != 0)
        return NULL;
    p->left -= length;
    return p->buffer + (offset - start);
}
