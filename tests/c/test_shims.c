/* Recorder and fault injector. */
#include "device/device.h"

#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 32768u

static uint32_t random_state = 1;

static uint32_t any(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

static struct device *memory(uint64_t size)
{
    struct device *d;

    CHECK(device_memory_new(size, 512, &d) == 0);
    return d;
}

static int put(struct device *d, uint64_t offset, size_t n, uint8_t value, uint32_t structure)
{
    struct device_tag tag = {0, 0, structure};
    uint8_t b[4096];

    memset(b, value, sizeof b);
    return device_write(d, offset, b, n, &tag);
}

static uint8_t get(struct device *d, uint64_t offset)
{
    uint8_t b[512];

    CHECK(device_read(d, offset, b, sizeof b) == 0);
    CHECK(b[0] == b[511]);
    return b[0];
}

/* ---- recorder ---- */

/* Random changes; after each one the whole device is kept, and rebuilt from the log in any order.
 */
static void test_rebuild(void)
{
    enum { STEPS = 120 };
    static uint8_t states[STEPS + 1][SIZE], b[SIZE];
    struct device *d = memory(SIZE), *r, *at[3] = {NULL, NULL, NULL};
    size_t held[3] = {0, 0, 0};

    CHECK(put(d, 4096, 4096, 50, DEVICE_DATA) == 0);
    CHECK(device_recorder_new(d, &r) == 0);
    CHECK((r->flags & DEVICE_TRACED) && !(r->flags & DEVICE_FRESH));
    for (int i = 0; i <= STEPS; i++) {
        uint64_t offset = any(SIZE / 512) * 512u;
        size_t n = 512 * (1 + any(8));

        CHECK(device_read(d, 0, states[i], SIZE) == 0);
        CHECK(device_recorder_count(r) == (size_t)i);
        n = n > SIZE - offset ? SIZE - offset : n;
        switch (i < STEPS ? any(8) : 8) {
        case 0:
            CHECK(device_flush(r) == 0);
            break;
        case 1:
            CHECK(device_zero(r, offset, n, NULL) == 0);
            break;
        case 2:
            CHECK(device_discard(r, offset, n, NULL) == 0);
            break;
        case 8:
            break;
        default:
            CHECK(put(r, offset, n, (uint8_t)(i + 1), DEVICE_DATA) == 0);
        }
    }
    for (int i = 0; i < 600; i++) { /* in order, then anywhere */
        size_t slot = any(3), count = i <= STEPS ? (size_t)i : any(STEPS + 1);

        device_unref(at[slot]);
        CHECK(device_recorder_at(r, count, &at[slot]) == 0);
        held[slot] = count;
        if (any(4) == 0) { /* what is done to a rebuilt state is nobody else's business */
            CHECK(put(at[slot], any(57) * 512, 4096, 0xEE, 0) == 0);
            CHECK(device_branch_discard(at[slot]) == 0);
        }
        for (slot = 0; slot < 3; slot++) {
            if (at[slot]) {
                CHECK(device_read(at[slot], 0, b, SIZE) == 0);
                CHECK(memcmp(b, states[held[slot]], SIZE) == 0);
            }
        }
    }
    CHECK(device_recorder_at(r, STEPS + 1, &at[0]) == -ENOENT);
    device_recorder_clear(r);
    CHECK(device_recorder_count(r) == 0);
    CHECK(put(r, 0, 512, 99, DEVICE_DATA) == 0);
    device_unref(at[0]);
    CHECK(device_recorder_at(r, 0, &at[0]) == 0);
    CHECK(device_read(at[0], 0, b, SIZE) == 0 && memcmp(b, states[STEPS], SIZE) == 0);
    device_unref(r); /* the states live on without the recorder */
    device_unref(d);
    for (int slot = 0; slot < 3; slot++) {
        CHECK(device_read(at[slot], 0, b, SIZE) == 0);
        device_unref(at[slot]);
    }
}

static void test_log(void)
{
    struct device *d = memory(SIZE), *r, *s, *upper;
    struct device_log_entry e;
    struct device_tag tag = {0, 0, DEVICE_BITMAP};
    const char *path;
    uint8_t b[1024];
    uint64_t object, op;

    CHECK(device_recorder_new(d, &r) == 0);
    CHECK(device_slice_new(r, 4096, 8192, &s) == 0 && (s->flags & DEVICE_TRACED));
    CHECK(device_recorder_new(s, &upper) == 0);
    tag.op = op = device_begin(upper, "mkdir", "/DCIM");
    tag.object = object = device_object(upper, "/DCIM");
    CHECK(tag.op != 0 && tag.object != 0);
    CHECK(device_begin(upper, "mkdir", "/DCIM") == op + 1); /* another call of the same */
    CHECK(device_object(upper, "/DCIM") == object && device_object(upper, "/x") != object);
    memset(b, 6, sizeof b);
    CHECK(device_write(upper, 512, b, 1024, &tag) == 0);
    CHECK(device_zero(upper, 0, 512, NULL) == 0);
    CHECK(device_discard(upper, 1024, 512, &tag) == 0 && device_flush(upper) == 0);
    /* The same numbers and names in both logs, the offsets of each. */
    CHECK(device_recorder_count(r) == 4 && device_recorder_count(upper) == 4);
    CHECK(device_recorder_entry(r, 0, &e) == 0 && e.kind == DEVICE_LOG_WRITE);
    CHECK(e.offset == 4096 + 512 && e.n == 1024 && e.tag.structure == DEVICE_BITMAP);
    CHECK(e.data[0] == 6 && e.data[1023] == 6);
    CHECK(strcmp(device_recorder_op(r, e.tag.op, &path), "mkdir") == 0 &&
          strcmp(path, "/DCIM") == 0);
    CHECK(strcmp(device_recorder_object(r, e.tag.object), "/DCIM") == 0);
    CHECK(device_recorder_entry(upper, 0, &e) == 0 && e.offset == 512);
    CHECK(strcmp(device_recorder_op(upper, e.tag.op, NULL), "mkdir") == 0);
    CHECK(strcmp(device_recorder_object(upper, e.tag.object), "/DCIM") == 0);
    CHECK(device_recorder_entry(r, 1, &e) == 0 && e.kind == DEVICE_LOG_ZERO && e.tag.op == 0);
    CHECK(e.offset == 4096 && e.n == 512 && !e.data);
    CHECK(device_recorder_entry(r, 2, &e) == 0 && e.kind == DEVICE_LOG_DISCARD);
    CHECK(device_recorder_entry(r, 3, &e) == 0 && e.kind == DEVICE_LOG_FLUSH);
    CHECK(device_recorder_entry(r, 4, &e) == -ENOENT);
    CHECK(!device_recorder_op(r, 12345, &path) && !path && !device_recorder_object(r, 0));
    CHECK(device_begin(upper, "sync", NULL) && device_recorder_op(r, op + 2, &path) && !path);
    device_unref(upper);
    device_unref(s);
    device_unref(r);
    device_unref(d);
}

/* ---- faults ---- */

static struct device *with_fault(struct device *d, struct device_fault rule)
{
    struct device *f;

    CHECK(device_faults_new(d, &f) == 0);
    CHECK(device_faults_add(f, &rule) == 0);
    return f;
}

static void test_which(void)
{
    struct device *d = memory(SIZE), *f;
    uint8_t b[512];

    /* The second and third write of the FAT. */
    f = with_fault(d, (struct device_fault){.ops = DEVICE_FAULT_WRITE,
                                            .nth = 2,
                                            .times = 2,
                                            .structure = DEVICE_FAT,
                                            .action = DEVICE_FAULT_FAIL,
                                            .error = ENOSPC});
    CHECK(put(f, 0, 512, 1, DEVICE_FAT) == 0 && put(f, 0, 512, 2, DEVICE_DATA) == 0);
    CHECK(put(f, 0, 512, 3, DEVICE_FAT) == -ENOSPC && get(d, 0) == 2);
    CHECK(put(f, 0, 512, 3, DEVICE_BOOT) == 0);
    CHECK(put(f, 0, 512, 4, DEVICE_FAT) == -ENOSPC && put(f, 0, 512, 5, DEVICE_FAT) == 0);
    CHECK(device_faults_count(f, DEVICE_FAULT_WRITE) == 6 && get(f, 0) == 5);
    CHECK(device_faults_count(f, DEVICE_FAULT_READ) == 1);
    CHECK(device_faults_count(f, DEVICE_FAULT_WRITE | DEVICE_FAULT_READ) == 7);
    device_unref(f);
    /* A bad spot, for reads and writes that touch it, for ever. */
    f = with_fault(d, (struct device_fault){.ops = DEVICE_FAULT_READ | DEVICE_FAULT_WRITE,
                                            .offset = 4096,
                                            .n = 512,
                                            .structure = -1,
                                            .action = DEVICE_FAULT_FAIL,
                                            .error = EIO});
    CHECK(device_read(f, 4096, b, 512) == -EIO && put(f, 0, 4096, 1, 0) == 0);
    CHECK(put(f, 3584, 1024, 1, 0) == -EIO && put(f, 4608, 512, 1, 0) == 0);
    CHECK(device_zero(f, 0, SIZE, NULL) == -EIO && device_flush(f) == 0);
    CHECK(device_discard(f, 4096, 512, NULL) == 0);
    device_faults_clear(f);
    CHECK(device_zero(f, 0, SIZE, NULL) == 0 && device_faults_count(f, DEVICE_FAULT_WRITE) == 5);
    device_unref(f);
    /* Only the first two, whichever they are. */
    f = with_fault(d, (struct device_fault){.ops = DEVICE_FAULT_FLUSH,
                                            .times = 2,
                                            .structure = -1,
                                            .action = DEVICE_FAULT_FAIL,
                                            .error = EIO});
    CHECK(device_flush(f) == -EIO && device_flush(f) == -EIO && device_flush(f) == 0);
    device_unref(f);
    device_unref(d);
}

static void test_what(void)
{
    struct device_fault tear = {.ops =
                                    DEVICE_FAULT_WRITE | DEVICE_FAULT_READ | DEVICE_FAULT_DISCARD,
                                .structure = -1,
                                .action = DEVICE_FAULT_TEAR,
                                .error = EIO,
                                .keep = 1100}; /* whole sectors: 1024 */
    struct device_fault drop = {.ops = 15, .structure = -1, .action = DEVICE_FAULT_DROP};
    struct device_fault die = {.ops = DEVICE_FAULT_FLUSH,
                               .nth = 2,
                               .structure = -1,
                               .action = DEVICE_FAULT_DIE,
                               .error = ENODEV};
    struct device_fault bad = drop;
    struct device *d = memory(SIZE), *f;
    uint8_t b[2048];

    CHECK(put(d, 0, 4096, 1, 0) == 0);
    f = with_fault(d, tear);
    CHECK(put(f, 0, 2048, 2, 0) == -EIO && get(d, 512) == 2 && get(d, 1024) == 1);
    CHECK(device_zero(f, 0, 2048, NULL) == -EIO && get(d, 512) == 0 && get(d, 1024) == 1);
    memset(b, 9, sizeof b);
    CHECK(device_read(f, 512, b, 2048) == -EIO && b[0] == 0 && b[512] == 1 && b[1024] == 0);
    CHECK(put(d, 0, 2048, 5, 0) == 0 && device_discard(f, 0, 2048, NULL) == -EIO);
    CHECK(get(d, 512) == 0 && get(d, 1024) == 5);
    device_faults_clear(f);
    tear.error = 0; /* torn, and nobody is told */
    CHECK(device_faults_add(f, &tear) == 0);
    CHECK(put(f, 0, 2048, 2, 0) == 0 && get(d, 512) == 2 && get(d, 1024) == 5);
    CHECK(put(f, 0, 512, 3, 0) == 0 && get(d, 0) == 3); /* shorter than what is kept */
    device_unref(f);
    f = with_fault(d, drop);
    CHECK(put(f, 0, 512, 9, 0) == 0 && get(d, 0) == 3 && get(f, 0) == 0);
    CHECK(device_zero(f, 0, 512, NULL) == 0 && device_discard(f, 0, 512, NULL) == 0);
    CHECK(device_flush(f) == 0 && get(d, 0) == 3);
    device_unref(f);
    f = with_fault(d, die);
    CHECK(device_flush(f) == 0 && put(f, 0, 512, 4, 0) == 0 && device_flush(f) == -ENODEV);
    CHECK(put(f, 0, 512, 5, 0) == -ENODEV && device_read(f, 0, b, 512) == -ENODEV);
    CHECK(device_zero(f, 0, 512, NULL) == -ENODEV && device_discard(f, 0, 512, NULL) == -ENODEV);
    device_faults_clear(f);
    CHECK(get(f, 0) == 4 && device_flush(f) == 0);
    bad.ops = 0;
    CHECK(device_faults_add(f, &bad) == -EINVAL);
    bad.ops = 16;
    CHECK(device_faults_add(f, &bad) == -EINVAL);
    bad = die;
    bad.error = 0;
    CHECK(device_faults_add(f, &bad) == -EINVAL);
    bad = drop;
    bad.structure = DEVICE_STRUCTURES;
    CHECK(device_faults_add(f, &bad) == -EINVAL && device_faults_add(d, &drop) == -EINVAL);
    device_unref(f);
    device_unref(d);
}

/* Rules count for themselves, and the first one added decides. A failed write is not in the log. */
static void test_together(void)
{
    struct device_fault first = {.ops = DEVICE_FAULT_WRITE,
                                 .nth = 2,
                                 .structure = -1,
                                 .action = DEVICE_FAULT_FAIL,
                                 .error = EIO};
    struct device_fault second = first;
    struct device *d = memory(SIZE), *r, *f;

    CHECK(device_recorder_new(d, &r) == 0);
    second.error = ENOSPC;
    second.times = 3;
    f = with_fault(r, first);
    CHECK(device_faults_add(f, &second) == 0 && (f->flags & DEVICE_TRACED));
    CHECK(device_object(f, "/a") == 1 && device_begin(f, "write", "/a") == 1);
    CHECK(put(f, 0, 512, 1, 0) == 0 && put(f, 0, 512, 2, 0) == -EIO);
    CHECK(put(f, 0, 512, 3, 0) == -ENOSPC && put(f, 0, 512, 4, 0) == -ENOSPC);
    CHECK(put(f, 0, 512, 5, 0) == 0 && device_recorder_count(r) == 2);
    device_unref(r);
    CHECK(get(f, 0) == 5);
    device_unref(f);
    device_unref(d);
}

int main(void)
{
    test_rebuild();
    test_log();
    test_which();
    test_what();
    test_together();
    return 0;
}
