/* Reading a GPT (UEFI 5.3). Both checksums must be right before anything is believed; then the
 * entries are checked one by one. The backup at the end of the disk is tried when the primary is
 * not sound. The sector size is that of the disk the image was made of: when the device's own leads
 * nowhere, others are tried. */
#include "device/partition.h"

#include "base/checksum.h"
#include "base/unicode.h"
#include "device/partition_internal.h"

#include <string.h>

#define ENTRY_SIZE_MAX 4096u
#define ARRAY_MAX (4u << 20) /* bytes; the usual array has 16 KiB */
#define SECTOR_MAX 4096u

struct gpt {
    uint32_t sector_size;
    uint64_t first_usable, last_usable; /* sectors */
    uint64_t array;                     /* byte offset */
    uint32_t count, entry_size;
};

/* What is known when no header was sound yet. */
struct search {
    struct base_error error; /* what is wrong with the first header that was there */
    int io;                  /* the first failure to read */
};

static int check_header(const uint8_t *h, uint64_t lba, uint32_t sector_size, struct base_error *e)
{
    static const uint8_t no_crc[4];
    uint64_t offset = lba * sector_size;
    uint32_t size = base_le32(h + GPT_HEADER_SIZE), crc;

    if (size < GPT_HEADER_END || size > sector_size) {
        return base_damage(e, "GPT header", offset + GPT_HEADER_SIZE, "HeaderSize", size,
                           GPT_HEADER_END, "it must be from 92 bytes to a sector");
    }
    crc = base_crc32(0, h, GPT_HEADER_CRC);
    crc = base_crc32(crc, no_crc, sizeof no_crc); /* the field itself counts as zeros */
    crc = base_crc32(crc, h + GPT_HEADER_CRC + 4, size - GPT_HEADER_CRC - 4);
    if (crc != base_le32(h + GPT_HEADER_CRC)) {
        return base_damage(e, "GPT header", offset + GPT_HEADER_CRC, "HeaderCRC32",
                           base_le32(h + GPT_HEADER_CRC), crc, "the checksum is wrong");
    }
    if (base_le64(h + GPT_MY_LBA) != lba) {
        return base_damage(e, "GPT header", offset + GPT_MY_LBA, "MyLBA", base_le64(h + GPT_MY_LBA),
                           lba, "it is the header of another sector");
    }
    return 0;
}

static int read_geometry(const struct device *d, const uint8_t *h, uint64_t offset, struct gpt *g,
                         struct base_error *e)
{
    uint64_t array_lba = base_le64(h + GPT_ARRAY_LBA), size;

    g->first_usable = base_le64(h + GPT_FIRST_USABLE);
    g->last_usable = base_le64(h + GPT_LAST_USABLE);
    g->count = base_le32(h + GPT_ARRAY_COUNT);
    g->entry_size = base_le32(h + GPT_ENTRY_SIZE);
    size = (uint64_t)g->count * g->entry_size;
    if (g->entry_size < GPT_ENTRY_LEAST || g->entry_size > ENTRY_SIZE_MAX ||
        g->entry_size % 8 != 0) {
        return base_damage(e, "GPT header", offset + GPT_ENTRY_SIZE, "SizeOfPartitionEntry",
                           g->entry_size, GPT_ENTRY_LEAST,
                           "it must be a multiple of 8 from 128 to 4096");
    }
    if (size > ARRAY_MAX) {
        return base_damage(e, "GPT header", offset + GPT_ARRAY_COUNT, "NumberOfPartitionEntries",
                           g->count, 128, "the array would have more than 4 MiB");
    }
    if (base_mul_overflows(array_lba, g->sector_size, &g->array) || g->array > d->size ||
        size > d->size - g->array) {
        return base_damage(e, "GPT header", offset + GPT_ARRAY_LBA, "PartitionEntryLBA", array_lba,
                           0, "the array lies outside the disk");
    }
    return 0;
}

static int check_array(struct device *d, const struct gpt *g, uint32_t expected,
                       struct base_error *e)
{
    uint64_t size = (uint64_t)g->count * g->entry_size;
    uint8_t part[4096];
    uint32_t crc = 0;

    for (uint64_t at = 0; at < size; at += sizeof part) {
        size_t n = (size_t)base_min(size - at, sizeof part);
        int rc = device_partition_read_bytes(d, g->array + at, part, n);

        if (rc) {
            return rc;
        }
        crc = base_crc32(crc, part, n);
    }
    if (crc != expected) {
        return base_damage(e, "GPT header", g->array, "PartitionEntryArrayCRC32", expected, crc,
                           "the checksum of the partition entries is wrong");
    }
    return 0;
}

/* Is there a sound GPT with its header in this sector? What is not there is no error. */
static bool try_header(struct device *d, uint64_t lba, struct gpt *g, struct search *s)
{
    uint8_t h[SECTOR_MAX];
    uint64_t offset = lba * g->sector_size;
    int rc = device_partition_read_bytes(d, offset, h, g->sector_size);

    if (rc == 0) {
        if (memcmp(h + GPT_SIGNATURE, GPT_MAGIC, 8) != 0) {
            return false;
        }
        rc = check_header(h, lba, g->sector_size, &s->error);
    }
    if (rc == 0) {
        rc = read_geometry(d, h, offset, g, &s->error);
    }
    if (rc == 0) {
        rc = check_array(d, g, base_le32(h + GPT_ARRAY_CRC), &s->error);
    }
    if (rc && rc != -BASE_ECORRUPT && s->io == 0) {
        s->io = rc;
    }
    return rc == 0;
}

static bool find(struct device *d, struct gpt *g, bool *from_backup, struct search *s)
{
    const uint32_t sizes[] = {d->sector_size, 512, 4096, 1024, 2048};

    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t sectors = d->size / sizes[i];

        g->sector_size = sizes[i];
        if (sectors < 2 || (i > 0 && sizes[i] == d->sector_size)) {
            continue;
        }
        *from_backup = false;
        if (try_header(d, 1, g, s)) {
            return true;
        }
        *from_backup = true;
        if (sectors > 2 && try_header(d, sectors - 1, g, s)) {
            return true;
        }
    }
    return false;
}

static void read_name(const uint8_t *p, char *out, size_t size)
{
    uint16_t units[GPT_ENTRY_NAME_UNITS];
    size_t n = 0;
    int length;

    while (n < GPT_ENTRY_NAME_UNITS && base_le16(p + 2 * n) != 0) {
        units[n] = base_le16(p + 2 * n);
        n++;
    }
    length = base_utf16_to_utf8(units, n, out, size - 1);
    out[length > 0 ? length : 0] = '\0';
}

static int read_entry(const uint8_t *p, uint32_t slot, const struct gpt *g,
                      struct device_partition_table *t, struct base_error *e)
{
    static const uint8_t unused[16];
    uint64_t offset = g->array + (uint64_t)slot * g->entry_size;
    uint64_t first = base_le64(p + GPT_ENTRY_FIRST), last = base_le64(p + GPT_ENTRY_LAST);
    struct device_partition out = {.number = slot + 1};

    if (memcmp(p + GPT_ENTRY_TYPE, unused, sizeof unused) == 0) {
        return 0;
    }
    if (first < g->first_usable || first > last) {
        return base_damage(e, "GPT partition entry", offset + GPT_ENTRY_FIRST, "StartingLBA", first,
                           g->first_usable, "the partition begins outside the usable sectors");
    }
    if (last > g->last_usable || last >= UINT64_MAX / g->sector_size) {
        return base_damage(e, "GPT partition entry", offset + GPT_ENTRY_LAST, "EndingLBA", last,
                           g->last_usable, "the partition ends outside the usable sectors");
    }
    out.offset = first * g->sector_size;
    out.length = (last - first + 1) * g->sector_size;
    out.bootable = (base_le64(p + GPT_ENTRY_ATTRIBUTES) >> 2 & 1) != 0; /* legacy BIOS bootable */
    memcpy(out.type_guid, p + GPT_ENTRY_TYPE, sizeof out.type_guid);
    memcpy(out.guid, p + GPT_ENTRY_GUID, sizeof out.guid);
    read_name(p + GPT_ENTRY_NAME, out.name, sizeof out.name);
    return device_partition_add(t, &out, e);
}

int device_partition_read_gpt(struct device *d, struct device_partition_table *t,
                              struct base_error *e)
{
    struct search s = {.io = 0};
    struct gpt g;
    int rc = 0;

    if (!find(d, &g, &t->from_backup, &s)) {
        t->from_backup = false;
        if (s.error.kind != BASE_ERROR_NONE) {
            return base_damage(e, s.error.structure, s.error.offset, s.error.field, s.error.found,
                               s.error.expected, s.error.detail);
        }
        return s.io;
    }
    t->scheme = DEVICE_SCHEME_GPT;
    for (uint32_t i = 0; i < g.count && rc == 0; i++) {
        uint8_t entry[GPT_ENTRY_LEAST];

        rc = device_partition_read_bytes(d, g.array + (uint64_t)i * g.entry_size, entry,
                                         sizeof entry);
        if (rc == 0) {
            rc = read_entry(entry, i, &g, t, e);
        }
    }
    return rc;
}
