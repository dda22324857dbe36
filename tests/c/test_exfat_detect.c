/* Detection: what is told of a volume without mounting it, from at most 64 KiB. */
#include "exfat/exfat.h"

#include "check.h"

#include <errno.h>

#define MIB (UINT64_C(1) << 20)

/* A device that counts what is read, over one in memory. */
struct counted {
    struct device *below;
    uint64_t bytes;
    int fail_after; /* reads that succeed; -1: all */
};

static int counted_read(void *owner, uint64_t offset, void *buffer, size_t n)
{
    struct counted *c = owner;

    c->bytes += n;
    if (c->fail_after >= 0 && c->fail_after-- == 0) {
        return -EIO;
    }
    return device_read(c->below, offset, buffer, n);
}

static int detect(struct device *d, struct volume_detected *out, int fail_after)
{
    static const struct device_callbacks callbacks = {.read = counted_read};
    struct counted c = {d, 0, fail_after};
    struct device *watched;
    int rc;

    CHECK(device_callbacks_new(&callbacks, &c, d->size, d->sector_size, &watched) == 0);
    memset(out, 0xEE, sizeof *out);
    rc = exfat_detect(watched, out);
    CHECK(c.bytes <= 65536);
    device_unref(watched);
    return rc;
}

static struct device *formatted(uint32_t device_sector, uint32_t sector, uint32_t cluster,
                                const char *label)
{
    struct volume_format f;
    struct device *d;

    CHECK(device_memory_new(4 * MIB, device_sector, &d) == 0);
    volume_format_init(&f);
    f.sector_size = sector;
    f.cluster_size = cluster;
    f.label = label;
    f.has_serial = true;
    f.serial = 77;
    f.has_uuid = true;
    memset(f.uuid, 0x3C, sizeof f.uuid);
    CHECK(exfat_format(d, &f, NULL) == 0);
    return d;
}

static void edit(struct device *d, uint64_t at, const void *bytes, size_t n)
{
    uint8_t sector[4096];
    uint64_t start = at - at % d->sector_size;

    CHECK(device_read(d, start, sector, d->sector_size) == 0);
    memcpy(sector + (at - start), bytes, n);
    CHECK(device_write(d, start, sector, d->sector_size, NULL) == 0);
}

static void test_found(void)
{
    static const uint8_t uuid[16] = {0x3C, 0x3C, 0x3C, 0x3C, 0x3C, 0x3C, 0x3C, 0x3C,
                                     0x3C, 0x3C, 0x3C, 0x3C, 0x3C, 0x3C, 0x3C, 0x3C};

    for (uint32_t sector = 512; sector <= 4096; sector *= 2) {
        for (uint32_t of_device = 512; of_device <= sector; of_device *= 2) {
            struct device *d = formatted(of_device, sector, 0, "K\xC3\xA4se 1");
            struct volume_detected v;

            CHECK(detect(d, &v, -1) == 1);
            CHECK(strcmp(v.fs, "exfat") == 0 && v.size == 4 * MIB && !v.damaged);
            CHECK(v.has_serial && v.serial == 77 && strcmp(v.label, "K\xC3\xA4se 1") == 0);
            CHECK(v.has_uuid && memcmp(v.uuid, uuid, 16) == 0);
            device_unref(d);
        }
    }
}

/* The label need not be in the first cluster of the root directory. */
static void test_label_behind(void)
{
    static const uint8_t file[32] = {0x05};
    uint8_t label[32], link[4];
    struct device *d = formatted(512, 512, 512, "");
    struct exfat_geometry g;
    struct volume_detected v;
    uint64_t heap;
    uint32_t far = 4000;

    CHECK(exfat_boot_read(d, false, &g, NULL) == 0);
    heap = (uint64_t)g.heap_offset << 9;
    for (uint32_t i = 3; i < 16; i++) {
        edit(d, heap + (uint64_t)(g.root_cluster - 2) * 512 + i * 32, file, 32);
    }
    base_put_le32(link, far);
    edit(d, ((uint64_t)g.fat_offset << 9) + g.root_cluster * 4, link, 4);
    exfat_label_build(label, (const uint16_t[]){'f', 'a', 'r'}, 3);
    edit(d, heap + (far - 2) * 512, label, 32);
    CHECK(detect(d, &v, -1) == 1);
    CHECK(strcmp(v.label, "far") == 0 && !v.damaged);

    base_put_le32(link, g.root_cluster); /* a loop ends */
    edit(d, ((uint64_t)g.fat_offset << 9) + g.root_cluster * 4, link, 4);
    CHECK(detect(d, &v, -1) == 1);
    CHECK(v.label[0] == '\0' && !v.damaged);

    base_put_le32(link, 0xFFFFFFF7); /* so does a broken chain */
    edit(d, ((uint64_t)g.fat_offset << 9) + g.root_cluster * 4, link, 4);
    CHECK(detect(d, &v, -1) == 1);
    CHECK(v.label[0] == '\0');
    device_unref(d);
}

static void test_damaged(void)
{
    struct device *d = formatted(512, 512, 0, "whole"), *cut;
    struct exfat_geometry g;
    struct volume_detected v;

    edit(d, 106, "\x02", 1); /* a dirty volume is not a damaged one */
    CHECK(detect(d, &v, -1) == 1 && !v.damaged && strcmp(v.label, "whole") == 0);
    CHECK(exfat_boot_read(d, false, &g, NULL) == 0);
    edit(d, ((uint64_t)g.heap_offset << 9) + (uint64_t)(g.root_cluster - 2) * 4096 + 1, "\x10", 1);
    CHECK(detect(d, &v, -1) == 1 && !v.damaged && v.label[0] == '\0'); /* 16 units */

    CHECK(device_slice_new(d, 0, 2 * MIB, &cut) == 0);
    CHECK(detect(cut, &v, -1) == 1 && v.damaged && v.size == 4 * MIB);
    device_unref(cut);
    CHECK(device_slice_new(d, 0, 512, &cut) == 0);
    CHECK(detect(cut, &v, -1) == 1 && v.damaged && v.serial == 77);
    device_unref(cut);

    edit(d, 100, "\xFF", 1);
    CHECK(detect(d, &v, -1) == 1 && v.damaged);
    edit(d, 79, "\xFF", 1); /* more bytes than a number can say */
    CHECK(detect(d, &v, -1) == 1 && v.damaged && v.size == 0);
    edit(d, 108, "\xFF", 1);
    CHECK(detect(d, &v, -1) == 1 && v.damaged);
    edit(d, 3, "NTFS", 4);
    CHECK(detect(d, &v, -1) == 0);
    device_unref(d);
}

/* What cannot be read is an error where it is the boot region, and a missing label where it is the
 * root. */
static void test_read_errors(void)
{
    struct device *d = formatted(512, 512, 0, "label");
    struct volume_detected v;

    CHECK(detect(d, &v, 0) == -EIO);
    CHECK(detect(d, &v, 1) == -EIO);
    CHECK(detect(d, &v, 2) == 1 && v.label[0] == '\0' && !v.damaged);
    CHECK(detect(d, &v, 3) == 1 && strcmp(v.label, "label") == 0);
    device_unref(d);
}

int main(void)
{
    test_found();
    test_label_behind();
    test_damaged();
    test_read_errors();
    return 0;
}
