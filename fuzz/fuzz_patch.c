/* libFuzzer: the input says which bytes of a sound volume are changed, and checksums are made right
 * again.
 *
 * Byte 0: bit 0 repairs the boot checksum, bit 1 those of the entry sets, bit 2 cuts the image
 * short. Then patches of {area, position (2 bytes), length and that many bytes}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "device/device.h"
#include "exercise.h"
#include "volume/volume.h"

enum { IMAGE = 1 << 20, SECTOR = 512, BOOT_SECTORS = 12, ENTRY = 32 };
enum { REPAIR_BOOT = 1, REPAIR_SETS = 2, CUT = 4 };

static uint8_t sound[IMAGE], image[IMAGE];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void check(int status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "cannot make the sound volume: %s: %s\n", what, strerror(-status));
        exit(1);
    }
}

static void write_file(struct volume *v, const char *path, size_t n)
{
    static uint8_t content[60000];
    struct volume_handle *h;
    size_t done;
    memset(content, path[1], sizeof content);
    check(volume_file_open(v, path, VOLUME_OPEN_WRITE | VOLUME_OPEN_CREATE, &h, NULL), path);
    check(volume_file_write(h, 0, content, n, &done, NULL, NULL), path);
    check(volume_file_close(h, NULL), path);
    volume_file_unref(h);
}

/* Two files that grow in turns have FAT chains; the holes of removed files scatter the next. */
static void fill(struct volume *v)
{
    char path[64];
    check(volume_mkdir(v, "/directory", NULL), "mkdir");
    for (int i = 0; i < 30; i++) {
        snprintf(path, sizeof path, "/directory/a name of several entries, number %d", i);
        check(volume_touch(v, path, false, NULL), path);
        write_file(v, "/one.bin", (size_t)(i + 1) * 900);
        write_file(v, "/two.bin", (size_t)(i + 1) * 1700);
    }
    write_file(v, "/directory/deep.bin", 3000);
    check(volume_mkdir(v, "/empty", NULL), "mkdir");
    write_file(v, "/three.bin", 10000);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct env env;
    struct volume_format format;
    struct volume_options options;
    struct device *d;
    struct volume *v;
    env_init_fixed(&env, 7, 1700000000000000000, 0);
    volume_format_init(&format);
    format.fs = "exfat";
    format.cluster_size = 1024;
    format.label = "SOUND";
    format.env = &env;
    check(device_buffer_new(sound, sizeof sound, true, SECTOR, NULL, NULL, &d), "buffer");
    check(volume_format_device(d, &format, NULL), "format");
    volume_options_init(&options);
    options.writable = true;
    options.env = &env;
    check(volume_open(d, "exfat", &options, &v, NULL), "open");
    fill(v);
    check(volume_close(v, NULL), "close");
    volume_unref(v);
    device_unref(d);
    return 0;
}

/* Where an area of the sound volume begins: boot region, FAT, cluster heap, a place anywhere (in
 * steps of 16). */
static size_t area_start(uint8_t area)
{
    switch (area % 4) {
    case 0:
        return 0;
    case 1:
        return (size_t)base_le32(sound + 80) * SECTOR;
    default:
        return (size_t)base_le32(sound + 88) * SECTOR;
    }
}

static void repair_boot(void)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < 11 * SECTOR; i++) {
        if (i != 106 && i != 107 && i != 112) {
            sum = base_ror32_sum(sum, image + i, 1);
        }
    }
    for (size_t i = 11 * SECTOR; i < BOOT_SECTORS * SECTOR; i += 4) {
        base_put_le32(image + i, sum);
    }
}

static void repair_sets(void)
{
    for (size_t at = area_start(2); at + ENTRY <= IMAGE; at += ENTRY) {
        size_t n = ((size_t)image[at + 1] + 1) * ENTRY;
        if (image[at] != 0x85 || at + n > IMAGE) {
            continue;
        }
        uint16_t sum = base_ror16_sum(0, image + at, 2);
        base_put_le16(image + at + 2, base_ror16_sum(sum, image + at + 4, n - 4));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1) {
        return 0;
    }
    uint8_t mode = data[0];
    memcpy(image, sound, sizeof image);
    for (size_t i = 1; i + 4 <= n;) {
        size_t position = base_le16(data + i + 1) * (size_t)(data[i] % 4 == 3 ? 16 : 1);
        size_t at = area_start(data[i]) + position;
        size_t length = base_min(data[i + 3] % 32u, n - i - 4);
        if (at + length <= sizeof image) {
            memcpy(image + at, data + i + 4, length);
        }
        i += 4 + length;
    }
    if (mode & REPAIR_BOOT) {
        repair_boot();
    }
    if (mode & REPAIR_SETS) {
        repair_sets();
    }
    exercise_image(image, mode & CUT ? IMAGE / 2 : IMAGE);
    return 0;
}
