/* File systems recognised by first sectors that are written out by hand. */
#include "volume_help.h"

/* ---- recognition: first sectors written out by hand ---- */

static int detect_sector(const uint8_t sector[512], struct volume_detected *out)
{
    struct device *d;
    struct device_tag tag = {0};
    CHECK_RC(device_memory_new(MIB, 512, &d), 0);
    CHECK_RC(device_write(d, 0, sector, 512, &tag), 0);
    int rc = volume_detect(d, out);
    struct volume_options o;
    struct volume *v;
    struct base_error e;
    volume_options_init(&o);
    int opened_rc = volume_open(d, NULL, &o, &v, &e);
    CHECK(opened_rc == (rc == 1 ? -BASE_EUNSUPPORTED : -BASE_ECORRUPT));
    device_unref(d);
    return rc;
}

static void test_detect_others(void)
{
    uint8_t b[512] = {0};
    struct volume_detected found;
    CHECK(detect_sector(b, &found) == 0);
    memcpy(b + 3, "NTFS    ", 8);
    base_put_le16(b + 11, 512);
    base_put_le64(b + 40, 2047);
    CHECK(detect_sector(b, &found) == 0);
    base_put_le16(b + 510, 0xAA55);
    CHECK(detect_sector(b, &found) == 1);
    CHECK(strcmp(found.fs, "ntfs") == 0 && found.size == 2047 * 512 && !found.damaged);
    memset(b, 0, sizeof b);
    memcpy(b, "XFSB\0\0\x10\0\0\0\0\0\0\1\0\0", 16); /* 4096-byte blocks, 65536 of them */
    memcpy(b + 108, "archive\0\0\0\0\0", 12);
    b[32] = 0xAB;
    CHECK(detect_sector(b, &found) == 1);
    CHECK(strcmp(found.fs, "xfs") == 0 && found.size == 65536ull * 4096 && found.has_uuid);
    CHECK(found.uuid[0] == 0xAB && strcmp(found.label, "archive") == 0 && !found.damaged);
    struct device *d = formatted(8 * MIB);
    CHECK(volume_detect(d, &found) == 1 && strcmp(found.fs, "exfat") == 0 && !found.damaged);
    CHECK(found.size == 8 * MIB);
    device_unref(d);
    CHECK_RC(device_memory_new(0, 512, &d), 0);
    CHECK(volume_detect(d, &found) == 0);
    device_unref(d);
}

int main(void)
{
    test_detect_others();
    return 0;
}
