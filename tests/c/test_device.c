/* Devices: arguments, memory, files, buffers, call-backs, slices, claims. */
#define _GNU_SOURCE
#include "device/device.h"

#include "base/bytes.h"

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1u << 20)

static uint32_t random_state = 1;

static uint32_t any(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

static void fill(uint8_t *p, size_t n, uint8_t with)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(with + i * 7);
    }
}

static struct device *memory(uint64_t size)
{
    struct device *d;

    CHECK(device_memory_new(size, 512, &d) == 0);
    return d;
}

/* Whatever can be done to a device of 64 KiB, against an array. */
static void check_against_model(struct device *d)
{
    static uint8_t model[65536], buffer[65536];
    uint32_t sectors = 65536 / d->sector_size;

    CHECK(d->size == 65536);
    CHECK(device_read(d, 0, model, sizeof model) == 0);
    for (int i = 0; i < 3000; i++) {
        uint32_t at = any(sectors), count = 1 + any(any(4) ? 8 : sectors);
        size_t offset, n;

        count = count > sectors - at ? sectors - at : count;
        offset = (size_t)at * d->sector_size;
        n = (size_t)count * d->sector_size;
        switch (any(3)) {
        case 0:
            fill(buffer, n, (uint8_t)any(256));
            memcpy(model + offset, buffer, n);
            CHECK(device_write(d, offset, buffer, n, NULL) == 0);
            break;
        case 1:
            memset(model + offset, 0, n);
            CHECK(device_zero(d, offset, n, NULL) == 0);
            break;
        default:
            CHECK(device_read(d, offset, buffer, n) == 0);
            CHECK(memcmp(buffer, model + offset, n) == 0);
        }
    }
    CHECK(device_read(d, 0, buffer, sizeof buffer) == 0);
    CHECK(memcmp(buffer, model, sizeof model) == 0);
    CHECK(device_flush(d) == 0);
}

static void test_arguments(void)
{
    struct device *d = memory(MIB), *other;
    uint8_t b[1024] = {0};

    CHECK(device_memory_new(MIB + 1, 512, &other) == -EINVAL);
    CHECK(device_memory_new(MIB, 768, &other) == -EINVAL);
    CHECK(device_memory_new(MIB, 256, &other) == -EINVAL);
    CHECK(device_memory_new(MIB, 8192, &other) == -EINVAL);
    CHECK(device_write(d, 1, b, 512, NULL) == -EINVAL);
    CHECK(device_write(d, 0, b, 511, NULL) == -EINVAL);
    CHECK(device_write(d, MIB - 512, b, 1024, NULL) == -EINVAL);
    CHECK(device_write(d, UINT64_MAX - 511, b, 512, NULL) == -EINVAL);
    CHECK(device_read(d, MIB, b, 512) == -EIO);
    CHECK(device_read(d, UINT64_MAX - 511, b, 1024) == -EIO);
    CHECK(device_zero(d, MIB, 512, NULL) == -EINVAL);
    CHECK(device_discard(d, MIB, 512, NULL) == -EINVAL);
    CHECK(device_read(d, MIB, b, 0) == 0 && device_write(d, MIB, b, 0, NULL) == 0);
    CHECK(device_resize(d, 1000) == -EINVAL);
    CHECK(device_branch_commit(d) == -EINVAL && device_branch_changed(d) == 0);
    CHECK(device_recorder_count(d) == 0 && device_faults_count(d, 1) == 0);
    CHECK(device_begin(d, "mkdir", "/a") == 0 && device_object(d, "/a") == 0);
    CHECK(device_close(d) == 0 && device_close(d) == 0);
    CHECK(device_read(d, 0, b, 512) == -EBADF && device_write(d, 0, b, 512, NULL) == -EBADF);
    CHECK(device_zero(d, 0, 512, NULL) == -EBADF && device_flush(d) == -EBADF);
    CHECK(device_discard(d, 0, 512, NULL) == -EBADF && device_resize(d, 0) == -EBADF);
    CHECK(device_branch_new(d, &other) == -EBADF);
    device_unref(d);
    device_unref(NULL);
    for (int s = 0; s < DEVICE_STRUCTURES; s++) { /* every one has a name of its own */
        for (int t = 0; t < s; t++) {
            CHECK(strcmp(device_structure_name((enum device_structure)s),
                         device_structure_name((enum device_structure)t)) != 0);
        }
    }
}

static void test_memory(void)
{
    struct device *d = memory(UINT64_C(64) << 40);
    uint8_t b[4096], r[4096];
    size_t empty = device_memory_held(d);

    CHECK(empty == 0 && (d->flags & DEVICE_FRESH) && (d->flags & DEVICE_CHEAP_ZERO));
    fill(b, sizeof b, 3);
    CHECK(device_write(d, (UINT64_C(64) << 40) - 4096, b, 4096, NULL) == 0);
    CHECK(!(d->flags & DEVICE_FRESH) && device_memory_held(d) < 65536);
    CHECK(device_read(d, (UINT64_C(64) << 40) - 4096, r, 4096) == 0 && memcmp(b, r, 4096) == 0);
    /* Zeroing it all takes no longer than there are chunks, and gives the memory back. */
    CHECK(device_zero(d, 512, (UINT64_C(64) << 40) - 1024, NULL) == 0);
    CHECK(device_memory_held(d) > 0); /* the last sector is still there */
    CHECK(device_read(d, (UINT64_C(64) << 40) - 512, r, 512) == 0 && memcmp(b + 3584, r, 512) == 0);
    CHECK(device_discard(d, 0, UINT64_C(64) << 40, NULL) == 0 && device_memory_held(d) == 0);
    /* What is cut off does not come back. */
    CHECK(device_write(d, 0, b, 4096, NULL) == 0 && device_resize(d, 512) == 0);
    CHECK(device_resize(d, 4096) == 0 && device_read(d, 0, r, 4096) == 0);
    CHECK(memcmp(r, b, 512) == 0);
    for (int i = 512; i < 4096; i++) {
        CHECK(r[i] == 0);
    }
    device_unref(d);
    d = memory(65536);
    check_against_model(d);
    device_unref(d);
    CHECK(device_memory_new(65536, 4096, &d) == 0);
    check_against_model(d);
    device_unref(d);
}

/* Ranges of a memory device become dense and sparse again; what is held is what was written, but
 * for half of a range at most. */
static void test_memory_density(void)
{
    enum { SIZE = 8 << 20, CHUNK = 4096 };
    struct device *d = memory(SIZE);
    uint8_t *model = calloc(1, SIZE), *buffer = malloc(SIZE);
    bool there[SIZE / CHUNK] = {false};

    CHECK(model && buffer);
    for (int i = 0; i < 6000; i++) {
        bool fill_up = i / 1000 % 2 == 0;
        size_t offset = (size_t)any(SIZE / 512) * 512, n = 512 * (size_t)(1 + any(64));
        uint64_t count = 0;

        n = n > SIZE - offset ? SIZE - offset : n;
        if (any(8) < (fill_up ? 7 : 1)) {
            fill(buffer, n, (uint8_t)any(256));
            memcpy(model + offset, buffer, n);
            CHECK(device_write(d, offset, buffer, n, NULL) == 0);
            for (size_t k = offset / CHUNK; k <= (offset + n - 1) / CHUNK; k++) {
                there[k] = true;
            }
        } else {
            n = n * 8 > SIZE - offset ? SIZE - offset : n * 8;
            memset(model + offset, 0, n);
            CHECK(device_zero(d, offset, n, NULL) == 0);
            for (size_t k = (offset + CHUNK - 1) / CHUNK; k < (offset + n) / CHUNK; k++) {
                there[k] = false;
            }
        }
        for (size_t k = 0; k < SIZE / CHUNK; k++) {
            count += there[k];
        }
        CHECK(device_memory_held(d) >= count * CHUNK);
        CHECK(device_memory_held(d) <= 4 * 2 * MIB + 32 * 1024 && (count > 0 || i == 0));
        CHECK(device_memory_held(d) <= 8 * count * CHUNK + 32 * 1024);
        offset = any(SIZE);
        n = any(40000);
        n = n > SIZE - offset ? SIZE - offset : n;
        CHECK(device_read(d, offset, buffer, n) == 0 && memcmp(buffer, model + offset, n) == 0);
    }
    CHECK(device_read(d, 0, buffer, SIZE) == 0 && memcmp(buffer, model, SIZE) == 0);
    CHECK(device_zero(d, 0, SIZE, NULL) == 0 && device_memory_held(d) == 0);
    device_unref(d);
    free(model);
    free(buffer);
}

/* Reads of memory may begin and end anywhere, through whatever lies above it; writes may not. */
static void test_cheap_reads(void)
{
    struct device *d = memory(MIB), *above[4], *file;
    uint8_t b[4096], r[4096];

    fill(b, sizeof b, 7);
    CHECK(device_write(d, 8192, b, sizeof b, NULL) == 0);
    CHECK(device_slice_new(d, 4096, 65536, &above[0]) == 0);
    CHECK(device_recorder_new(above[0], &above[1]) == 0);
    CHECK(device_faults_new(above[1], &above[2]) == 0);
    CHECK(device_branch_new(above[2], &above[3]) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK(device_has(above[i], DEVICE_CHEAP_READ));
        CHECK(device_read(above[i], 4096 + 33, r, 1001) == 0 && memcmp(r, b + 33, 1001) == 0);
        CHECK(device_read(above[i], 4096 - 3, r, 5) == 0 && r[2] == 0 && r[3] == b[0]);
        CHECK(device_read(above[i], 65536 - 3, r, 4) == -EIO);
        CHECK(device_write(above[i], 33, b, 512, NULL) == -EINVAL);
        CHECK(device_write(above[i], 0, b, 33, NULL) == -EINVAL);
    }
    CHECK(device_write(above[3], 4096 + 512, r, 512, NULL) == 0); /* of the branch's own */
    CHECK(device_read(above[3], 4096 + 500, r, 600) == 0 && memcmp(r, b + 500, 12) == 0);
    CHECK(memcmp(r + 12 + 512, b + 1024, 76) == 0);
    for (int i = 3; i >= 0; i--) {
        device_unref(above[i]);
    }
    device_unref(d);
    char path[] = "/tmp/pyexfat-device-XXXXXX";
    CHECK(close(mkstemp(path)) == 0 && truncate(path, 65536) == 0);
    CHECK(device_file_open(path, true, false, 0, &file) == 0);
    CHECK(!device_has(file, DEVICE_CHEAP_READ) && device_read(file, 1, r, 512) == -EINVAL);
    CHECK(device_branch_new(file, &above[0]) == 0 && !device_has(above[0], DEVICE_CHEAP_READ));
    device_unref(above[0]);
    device_unref(file);
    CHECK(unlink(path) == 0);
}

static void test_file(void)
{
    char path[] = "/tmp/pyexfat-device-XXXXXX", other_path[64];
    struct device *d, *second;
    struct stat st;
    uint8_t b[512] = {1}, r[512];
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    CHECK(device_file_open(path, true, false, 0, &d) == 0);
    CHECK((d->flags & DEVICE_FRESH) && d->size == 0 && d->sector_size == 512);
    CHECK(device_resize(d, 65536) == 0 && (d->flags & DEVICE_FRESH));
    check_against_model(d);
    CHECK(!(d->flags & DEVICE_FRESH));
    /* One writer; readers as many as there are. */
    CHECK(device_file_open(path, true, false, 0, &second) == -EBUSY);
    CHECK(device_file_adopt(fd, true, 0, &second) == -EBUSY);
    CHECK(device_file_open(path, false, false, 0, &second) == 0);
    CHECK(second->flags == DEVICE_READONLY);
    CHECK(device_write(second, 0, b, 512, NULL) == -EROFS);
    CHECK(device_zero(second, 0, 512, NULL) == -EROFS);
    CHECK(device_discard(second, 0, 512, NULL) == -EROFS && device_resize(second, 0) == -EROFS);
    CHECK(device_write(d, 512, b, 512, NULL) == 0);
    CHECK(device_read(second, 512, r, 512) == 0 && memcmp(b, r, 512) == 0);
    CHECK(ftruncate(fd, 512) == 0); /* somebody cuts the image under us */
    CHECK(device_read(second, 512, r, 512) == -EIO);
    device_unref(second);
    /* Closing gives up the lock though there is a reference. */
    CHECK(device_close(d) == 0);
    CHECK(device_file_adopt(fd, true, 4096, &second) == 0 && second->size == 0);
    device_unref(d);
    CHECK(device_file_open(path, true, false, 0, &d) == -EBUSY);
    device_unref(second);
    CHECK(fcntl(fd, F_GETFD) >= 0); /* still the caller's, and not locked */
    CHECK(device_file_open(path, true, false, 0, &d) == 0 && d->size == 512);
    device_unref(d);
    CHECK(close(fd) == 0);
    fd = open(path, O_RDONLY);
    CHECK(device_file_adopt(fd, true, 0, &d) == -EBADF &&
          device_file_adopt(-1, true, 0, &d) == -EBADF);
    CHECK(device_file_adopt(fd, false, 0, &d) == 0);
    device_unref(d);
    close(fd);
    CHECK(device_file_open(path, false, false, 777, &d) == -EINVAL);
    CHECK(unlink(path) == 0);
    CHECK(device_file_open(path, true, false, 0, &d) == -ENOENT);
    snprintf(other_path, sizeof other_path, "%s.new", path);
    CHECK(device_file_open(other_path, true, true, 0, &d) == 0);
    CHECK(strcmp(d->name, strrchr(other_path, '/') + 1) == 0);
    /* Zeroing gives the space back where holes can be made. */
    CHECK(device_resize(d, MIB) == 0);
    for (int i = 0; i < 2048; i++) {
        CHECK(device_write(d, (uint64_t)i * 512, b, 512, NULL) == 0);
    }
    CHECK(device_zero(d, 0, MIB, NULL) == 0 && stat(other_path, &st) == 0 && st.st_size == MIB);
    CHECK(st.st_blocks == 0 || !(d->flags & DEVICE_CHEAP_ZERO));
    CHECK(device_read(d, 0, r, 512) == 0 && r[0] == 0);
    device_unref(d);
    CHECK(unlink(other_path) == 0);
}

struct object {
    uint8_t *bytes;
    int released, flushes, fail;
    struct device *self;
};

static int object_read(void *owner, uint64_t offset, void *buffer, size_t n)
{
    struct object *o = owner;

    memcpy(buffer, o->bytes + offset, n);
    return o->fail;
}

static int object_write(void *owner, uint64_t offset, const void *buffer, size_t n)
{
    struct object *o = owner;

    if (o->self) { /* writing to the device that is served here cannot end well */
        CHECK(device_write(o->self, 0, buffer, 512, NULL) == -EDEADLK);
        CHECK(device_resize(o->self, 512) == -EDEADLK);
        CHECK(device_close(o->self) == -EDEADLK);
        CHECK(device_claim(o->self) == -EDEADLK);
    }
    memcpy(o->bytes + offset, buffer, n);
    return o->fail;
}

static int object_flush(void *owner)
{
    ((struct object *)owner)->flushes++;
    return 0;
}

static int object_resize(void *owner, uint64_t size)
{
    return size <= 65536 ? ((struct object *)owner)->fail : -ENOSPC;
}

static void object_release(void *owner)
{
    ((struct object *)owner)->released++;
}

static void test_objects(void)
{
    static uint8_t bytes[65536 + 100];
    struct object o = {.bytes = bytes};
    struct device_callbacks c = {object_read, object_write, object_flush, object_resize,
                                 object_release};
    struct device *d;
    uint8_t b[512] = {9};

    CHECK(device_buffer_new(bytes, sizeof bytes, true, 0, object_release, &o, &d) == 0);
    check_against_model(d); /* which finds the size rounded down */
    CHECK(device_write(d, 1024, b, 512, NULL) == 0 && bytes[1024] == 9);
    CHECK(device_resize(d, 0) == -EOPNOTSUPP && o.released == 0);
    device_unref(d);
    CHECK(o.released == 1);
    CHECK(device_buffer_new(bytes, 512, true, 100, object_release, &o, &d) == -EINVAL);
    CHECK(o.released == 1);
    CHECK(device_buffer_new(bytes, 512, false, 0, NULL, NULL, &d) == 0);
    CHECK(device_write(d, 0, b, 512, NULL) == -EROFS);
    device_unref(d);

    CHECK(device_callbacks_new(&c, &o, 65536, 0, &d) == 0);
    check_against_model(d);
    CHECK(o.flushes == 1);
    o.self = d;
    CHECK(device_write(d, 0, b, 512, NULL) == 0);
    o.self = NULL;
    o.fail = -ENOSPC;
    CHECK(device_write(d, 0, b, 512, NULL) == -ENOSPC);
    CHECK(device_zero(d, 0, 512, NULL) == -ENOSPC);
    CHECK(device_resize(d, 512) == -ENOSPC && d->size == 65536);
    o.fail = 0;
    CHECK(device_resize(d, 512) == 0 && d->size == 512);
    device_unref(d);
    CHECK(o.released == 2);
    c = (struct device_callbacks){.read = object_read};
    CHECK(device_callbacks_new(&c, &o, 65536, 0, &d) == 0 && d->flags == DEVICE_READONLY);
    CHECK(device_flush(d) == 0 && device_close(d) == 0);
    device_unref(d);
    c.read = NULL;
    CHECK(device_callbacks_new(&c, &o, 65536, 0, &d) == -EINVAL);
}

static void test_slice(void)
{
    struct device *d = memory(MIB), *s, *t;
    uint8_t b[512] = {5}, r[512];

    CHECK(device_slice_new(d, 100, 512, &s) == -EINVAL);
    CHECK(device_slice_new(d, 512, MIB, &s) == -EINVAL);
    CHECK(device_slice_new(d, UINT64_MAX - 511, 1024, &s) == -EINVAL);
    CHECK(device_slice_new(d, 8192, 131072, &s) == 0);
    CHECK(device_slice_new(s, 512, 65536, &t) == 0);
    CHECK(!(t->flags & DEVICE_FRESH)); /* the disk may be written beside the slice */
    device_unref(s);
    check_against_model(t);
    CHECK(device_write(t, 512, b, 512, NULL) == 0);
    CHECK(device_read(d, 8192 + 512 + 512, r, 512) == 0 && r[0] == 5);
    CHECK(device_discard(t, 512, 512, NULL) == 0);
    CHECK(device_read(d, 8192 + 512 + 512, r, 512) == 0 && r[0] == 0);
    CHECK(device_write(t, 65536, b, 512, NULL) == -EINVAL && device_read(t, 65536, b, 512) == -EIO);
    CHECK(device_resize(t, 512) == -EOPNOTSUPP);
    device_unref(d); /* the slice keeps it */
    CHECK(device_read(t, 0, r, 512) == 0);
    device_unref(t);
}

static void test_claims(void)
{
    struct device *d = memory(MIB), *a, *b, *whole, *branch;

    CHECK(device_slice_new(d, 0, 65536, &a) == 0);
    CHECK(device_slice_new(d, 65536, 65536, &b) == 0);
    CHECK(device_recorder_new(b, &whole) == 0);
    CHECK(device_branch_new(d, &branch) == 0);
    CHECK(device_claim(a) == 0);
    CHECK(device_claim(a) == -EBUSY && device_claim(d) == -EBUSY);
    CHECK(device_claim(whole) == 0); /* beside it */
    CHECK(device_claim(b) == -EBUSY);
    CHECK(device_claim(branch) == 0); /* what is written there is written nowhere else */
    CHECK(device_claim(branch) == -EBUSY);
    device_release(whole);
    device_release(whole); /* once more does no harm */
    CHECK(device_claim(b) == 0);
    device_release(a);
    device_release(b);
    CHECK(device_claim(d) == 0 && device_claim(a) == -EBUSY);
    device_release(branch);
    device_unref(branch);
    device_unref(whole);
    device_unref(a);
    device_unref(b);
    device_unref(d); /* with a claim that nobody released */
}

/* A raw device of the system, where this machine lets us make one. */
static void test_block_device(void)
{
    char path[] = "/tmp/pyexfat-device-XXXXXX", command[128], name[64] = "";
    static uint8_t b[65536], r[65536];
    struct device *d, *second;
    int fd = mkstemp(path);
    FILE *p;

    CHECK(fd >= 0 && ftruncate(fd, 4 * MIB) == 0);
    snprintf(command, sizeof command, "losetup -f --show -b 4096 %s 2>/dev/null", path);
    p = geteuid() == 0 ? popen(command, "r") : NULL;
    if (p && fscanf(p, "%63s", name) == 1) {
        CHECK(device_file_open(name, true, false, 0, &d) == 0);
        CHECK(d->size == 4 * MIB && d->sector_size == 4096 && (d->flags & DEVICE_IS_BLOCK));
        CHECK(!(d->flags & (DEVICE_FRESH | DEVICE_READONLY)));
        CHECK(device_file_open(name, true, true, 0, &second) == -EBUSY); /* one writer */
        CHECK(device_file_open(name, false, false, 512, &second) == 0 &&
              second->sector_size == 512);
        fill(b, sizeof b, 1);
        CHECK(device_write(d, MIB, b, sizeof b, NULL) == 0 && device_flush(d) == 0);
        CHECK(device_read(second, MIB, r, sizeof r) == 0 && memcmp(b, r, sizeof b) == 0);
        CHECK(pread(fd, r, sizeof r, MIB) == (ssize_t)sizeof r && memcmp(b, r, sizeof b) == 0);
        CHECK(device_zero(d, MIB, 4096, NULL) == 0 && device_read(d, MIB, r, 8192) == 0);
        CHECK(r[0] == 0 && r[4095] == 0 && memcmp(r + 4096, b + 4096, 4096) == 0);
        CHECK(device_discard(d, MIB, 8192, NULL) == 0 && device_resize(d, MIB) == -EOPNOTSUPP);
        device_unref(second);
        device_unref(d);
        snprintf(command, sizeof command, "losetup -d %s", name);
        CHECK(system(command) == 0);
    } else {
        fprintf(stderr, "no loop device here: raw devices are not tested\n");
    }
    CHECK((!p || pclose(p) >= 0) && close(fd) == 0 && unlink(path) == 0);
}

/* ---- threads: a reader of a file that is closed under it, and writers of one device ---- */

struct shared {
    struct device *d;
    uint64_t offset;
    int bad;
};

static void *read_until_closed(void *argument)
{
    struct shared *s = argument;
    uint8_t b[4096];
    int rc;

    while ((rc = device_read(s->d, 0, b, sizeof b)) == 0) {
        CHECK(b[0] == 0 && b[4095] == 0);
    }
    s->bad = rc != -EBADF;
    return NULL;
}

static void *write_lots(void *argument)
{
    struct shared *s = argument;
    uint8_t b[4096];

    for (int i = 0; i < 300; i++) {
        memset(b, i, sizeof b);
        CHECK(device_write(s->d, s->offset, b, sizeof b, NULL) == 0);
        CHECK(device_read(s->d, s->offset, b, sizeof b) == 0);
        CHECK(b[0] == (uint8_t)i && b[4095] == (uint8_t)i);
        CHECK(device_zero(s->d, s->offset, sizeof b, NULL) == 0);
    }
    return NULL;
}

static void test_threads(void)
{
    char path[] = "/tmp/pyexfat-device-XXXXXX";
    struct shared s[3] = {{0}};
    pthread_t t[3];
    struct device *d;
    int fd = mkstemp(path);

    CHECK(fd >= 0 && ftruncate(fd, 65536) == 0 && close(fd) == 0);
    CHECK(device_file_open(path, true, false, 0, &d) == 0);
    for (int i = 0; i < 3; i++) {
        s[i].d = d;
        CHECK(pthread_create(&t[i], NULL, read_until_closed, &s[i]) == 0);
    }
    usleep(20000);
    CHECK(device_close(d) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(t[i], NULL) == 0 && !s[i].bad);
    }
    device_unref(d);
    CHECK(unlink(path) == 0);

    d = memory(65536);
    for (int i = 0; i < 3; i++) {
        s[i] = (struct shared){d, (uint64_t)i * 8192, 0};
        CHECK(pthread_create(&t[i], NULL, write_lots, &s[i]) == 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(t[i], NULL) == 0);
    }
    device_unref(d);
}

int main(void)
{
    test_arguments();
    test_memory();
    test_memory_density();
    test_cheap_reads();
    test_file();
    test_objects();
    test_slice();
    test_claims();
    test_block_device();
    test_threads();
    return 0;
}
