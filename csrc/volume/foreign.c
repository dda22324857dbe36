/* Recognising file systems that have no driver here, by their first sector. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "volume/internal.h"

enum { FIRST = 4096 }; /* bytes read: the largest sector of a device */

/* 1: buffer holds the start of the device; 0: the device is too small to hold anything. */
static int read_first(struct device *d, uint8_t buffer[FIRST])
{
    uint64_t n = base_min(d->size, FIRST);
    n -= n % d->sector_size;
    if (n < 512)
        return 0;
    memset(buffer, 0, FIRST);
    int rc = device_read(d, 0, buffer, (size_t)n);
    return rc < 0 ? rc : 1;
}

static bool is_sector_size(uint32_t n)
{
    return base_is_power_of_two(n) && n >= 512 && n <= 4096;
}

/* A padded label; bytes that are not ASCII need a code page that nobody tells. */
static void copy_label(char *out, size_t cap, const uint8_t *p, size_t n)
{
    while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == 0))
        n--;
    if (n >= cap)
        n = cap - 1;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < 0x20 || p[i] > 0x7e) {
            out[0] = '\0';
            return;
        }
        out[i] = (char)p[i];
    }
    out[n] = '\0';
}

int volume_detect_ntfs(struct device *d, struct volume_detected *out)
{
    uint8_t b[FIRST];
    uint64_t size;
    int rc = read_first(d, b);
    if (rc <= 0)
        return rc;
    if (memcmp(b + 3, "NTFS    ", 8) != 0 || base_le16(b + 510) != 0xAA55)
        return 0;
    snprintf(out->fs, sizeof out->fs, "ntfs");
    if (base_mul_overflows(base_le64(b + 40), base_le16(b + 11), &size))
        size = 0;
    out->size = size;
    out->damaged = size == 0 || !is_sector_size(base_le16(b + 11));
    return 1;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int volume_detect_xfs(struct device *d, struct volume_detected *out)
{
    uint8_t b[FIRST];
    uint64_t size, blocks;
    int rc = read_first(d, b);
    if (rc <= 0)
        return rc;
    if (memcmp(b, "XFSB", 4) != 0)
        return 0;
    snprintf(out->fs, sizeof out->fs, "xfs");
    blocks = (uint64_t)be32(b + 8) << 32 | be32(b + 12);
    if (base_mul_overflows(blocks, be32(b + 4), &size))
        size = 0;
    out->size = size;
    out->damaged = size == 0 || !base_is_power_of_two(be32(b + 4));
    memcpy(out->uuid, b + 32, sizeof out->uuid);
    out->has_uuid = true;
    copy_label(out->label, sizeof out->label, b + 108, 12);
    return 1;
}
