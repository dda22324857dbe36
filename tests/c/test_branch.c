/* Branches of branches, slices and files, against arrays; and what a model does not say. */
#define _GNU_SOURCE
#include "device/device.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define NODES 8
#define SIZE (9 * 4096 + 1536) /* not whole chunks */
#define SECTORS (SIZE / 512)

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

/* ---- the model: every device an array; a branch also knows which sectors it changed ---- */

struct node {
    struct device *d; /* NULL: free */
    int parent;       /* -1: the memory itself */
    size_t start, n;  /* sectors of the parent that it shows */
    uint8_t bytes[SIZE];
    bool changed[SECTORS];
};

static struct node nodes[NODES];

static void check_node(const struct node *k)
{
    static uint8_t b[SIZE];
    size_t at = any((uint32_t)k->n), n = 1 + any((uint32_t)(k->n - at));

    CHECK(device_read(k->d, at * 512, b, n * 512) == 0);
    CHECK(memcmp(b, k->bytes + at * 512, n * 512) == 0);
}

static void write_node(struct node *k)
{
    static uint8_t b[SIZE];
    size_t at = any((uint32_t)k->n), n = 1 + any((uint32_t)(any(3) ? 5 : k->n));
    bool zero = any(3) == 0;

    n = n > k->n - at ? k->n - at : n;
    for (size_t i = 0; i < n * 512; i++) {
        b[i] = zero ? 0 : (uint8_t)(random_state + i / 100);
    }
    CHECK((zero ? device_zero(k->d, at * 512, n * 512, NULL)
                : device_write(k->d, at * 512, b, n * 512, NULL)) == 0);
    memcpy(k->bytes + at * 512, b, n * 512);
    memset(k->changed + at, true, n);
}

static bool has_children(int i)
{
    for (int k = 0; k < NODES; k++) {
        if (nodes[k].d && nodes[k].parent == i) {
            return true;
        }
    }
    return false;
}

static void branch_node(int parent)
{
    const struct node *p = &nodes[parent];
    struct device *slice;

    for (int i = 0; i < NODES; i++) {
        struct node *k = &nodes[i];

        if (k->d) {
            continue;
        }
        k->parent = parent;
        k->start = any(2) ? 0 : any((uint32_t)p->n);
        k->n = k->start ? 1 + any((uint32_t)(p->n - k->start)) : p->n;
        if (k->start) { /* a branch of a slice */
            CHECK(device_slice_new(p->d, k->start * 512, k->n * 512, &slice) == 0);
            CHECK(device_branch_new(slice, &k->d) == 0);
            device_unref(slice);
        } else {
            CHECK(device_branch_new(p->d, &k->d) == 0);
        }
        memcpy(k->bytes, p->bytes + k->start * 512, k->n * 512);
        memset(k->changed, false, sizeof k->changed);
        return;
    }
}

static void finish_node(struct node *k, bool commit)
{
    struct node *p = &nodes[k->parent];

    for (size_t i = 0; commit && i < k->n; i++) {
        if (k->changed[i]) {
            memcpy(p->bytes + (k->start + i) * 512, k->bytes + i * 512, 512);
            p->changed[k->start + i] = true;
        }
    }
    CHECK((commit ? device_branch_commit(k->d) : device_branch_discard(k->d)) == 0);
    CHECK(device_branch_changed(k->d) == 0);
    memcpy(k->bytes, p->bytes + k->start * 512, k->n * 512);
    memset(k->changed, false, sizeof k->changed);
}

static void test_model(uint32_t seed)
{
    random_state = seed;
    nodes[0] = (struct node){.d = memory(SIZE), .parent = -1, .n = SECTORS};
    for (int step = 0; step < 4000; step++) {
        int i = (int)any(NODES);
        struct node *k = &nodes[i];

        if (!k->d) {
            continue;
        }
        switch (any(12)) {
        case 0:
            branch_node(i);
            break;
        case 1:
            if (i != 0 && !has_children(i)) {
                device_unref(k->d);
                k->d = NULL;
            }
            break;
        case 2:
            if (i != 0) {
                finish_node(k, any(2) == 0);
            }
            break;
        case 3:
        case 4:
        case 5:
        case 6:
            write_node(k);
            break;
        default:
            check_node(k);
        }
    }
    for (int i = 0; i < NODES; i++) { /* parents first: the children keep them */
        if (nodes[i].d) {
            for (int n = 0; n < 20; n++) {
                check_node(&nodes[i]);
            }
            device_unref(nodes[i].d);
            nodes[i].d = NULL;
        }
    }
}

/* ---- cases ---- */

static void put(struct device *d, uint64_t offset, uint8_t value)
{
    uint8_t b[512];

    memset(b, value, sizeof b);
    CHECK(device_write(d, offset, b, sizeof b, NULL) == 0);
}

static uint8_t get(struct device *d, uint64_t offset)
{
    uint8_t b[512];

    CHECK(device_read(d, offset, b, sizeof b) == 0);
    CHECK(b[0] == b[511]);
    return b[0];
}

static void test_huge(void)
{
    uint64_t size = UINT64_C(64) << 40;
    struct device *d = memory(size), *b, *c;

    CHECK(device_branch_new(d, &b) == 0);
    CHECK((b->flags & DEVICE_FRESH) && b->size == size);
    CHECK(device_zero(b, 512, size - 1024, NULL) == 0); /* a range, not chunks */
    CHECK(!(b->flags & DEVICE_FRESH) && (d->flags & DEVICE_FRESH));
    put(b, size / 2, 7);
    put(d, size / 2 + 512, 8);
    CHECK(get(b, size / 2) == 7 && get(b, size / 2 + 512) == 0);
    CHECK(device_branch_new(b, &c) == 0 && !(c->flags & DEVICE_FRESH));
    CHECK(device_branch_changed(c) == 0);
    device_unref(c);
    device_unref(b);
    device_unref(d);
}

static void test_resize(void)
{
    struct device *d = memory(16384), *b, *c;

    for (int i = 0; i < 32; i++) {
        put(d, (uint64_t)i * 512, (uint8_t)(i + 1));
    }
    CHECK(device_branch_new(d, &b) == 0);
    CHECK(device_resize(d, 512) == -EBUSY); /* the branch would lose what it shows */
    CHECK(device_resize(b, 4096 + 512) == 0);
    CHECK(device_resize(b, 32768) == 0);
    CHECK(get(b, 4096) == 9 && get(b, 4096 + 512) == 0 && get(b, 8192) == 0 && get(b, 16384) == 0);
    CHECK(get(d, 8192) == 17);
    put(b, 32768 - 512, 99);
    CHECK(device_branch_new(b, &c) == 0);
    CHECK(device_branch_discard(b) == -EBUSY); /* the size is that of before */
    device_unref(c);
    CHECK(device_branch_new(d, &c) == 0);
    CHECK(device_branch_commit(b) == -EBUSY); /* another branch stands on the parent */
    device_unref(c);
    CHECK(device_branch_commit(b) == 0 && d->size == 32768);
    CHECK(get(d, 4096) == 9 && get(d, 4096 + 512) == 0 && get(d, 32768 - 512) == 99);
    CHECK(device_resize(b, 1024) == 0 && device_branch_discard(b) == 0 && b->size == 32768);
    CHECK(device_resize(b, 1024) == 0 && device_branch_commit(b) == 0 && d->size == 1024);
    put(b, 512, 5); /* still linked: what the parent changes now is kept */
    put(d, 0, 77);
    CHECK(get(b, 0) == 1 && get(b, 512) == 5 && get(d, 512) == 2);
    device_unref(b);
    CHECK(device_resize(d, 512) == 0);
    device_unref(d);
}

static void test_failures(void)
{
    static const struct device_fault no_read = {
        .ops = DEVICE_FAULT_READ, .structure = -1, .action = DEVICE_FAULT_FAIL, .error = EIO};
    static const struct device_fault second_write = {.ops = DEVICE_FAULT_WRITE,
                                                     .nth = 2,
                                                     .structure = -1,
                                                     .action = DEVICE_FAULT_FAIL,
                                                     .error = ENOSPC};
    struct device *d = memory(65536), *f, *b;
    uint8_t many[16384];

    memset(many, 3, sizeof many);
    CHECK(device_write(d, 0, many, sizeof many, NULL) == 0);
    CHECK(device_faults_new(d, &f) == 0 && device_branch_new(f, &b) == 0);
    /* A write whose ends cannot be read changes nothing, whole chunks in the middle included. */
    CHECK(device_faults_add(f, &no_read) == 0);
    CHECK(device_write(b, 0, many, 4096 * 3 + 512, NULL) == -EIO);
    memset(many, 9, sizeof many);
    CHECK(device_write(b, 4096, many, 4096, NULL) == 0); /* needs no read */
    device_faults_clear(f);
    CHECK(get(b, 0) == 3 && get(b, 4096) == 9 && get(b, 8192) == 3);
    CHECK(device_branch_changed(b) == 4096);
    /* A commit that fails half-way keeps the changes and can be done again. */
    put(b, 32768, 4);
    CHECK(device_faults_add(f, &second_write) == 0);
    CHECK(device_branch_commit(b) == -ENOSPC);
    CHECK(device_branch_changed(b) == 4096 + 512 && get(b, 32768) == 4 && get(d, 32768) == 0);
    CHECK(device_branch_commit(b) == 0 && get(d, 32768) == 4 && get(d, 4096) == 9);
    device_unref(b);
    device_unref(f);
    device_unref(d);
}

/* What is written past the shims, straight to the disk below, is kept as well. */
static void test_beside(void)
{
    struct device *d = memory(65536), *s, *r, *b;

    put(d, 8192 + 512, 1);
    CHECK(device_slice_new(d, 8192, 32768, &s) == 0 && device_recorder_new(s, &r) == 0);
    CHECK(device_branch_new(r, &b) == 0);
    put(d, 8192 + 512, 2);
    CHECK(get(b, 512) == 1 && get(r, 512) == 2);
    put(s, 512, 3);
    put(r, 512, 4);
    CHECK(get(b, 512) == 1 && get(d, 8192 + 512) == 4);
    CHECK(device_branch_changed(b) == 0); /* kept, not changed */
    CHECK(device_branch_commit(b) == 0 && get(d, 8192 + 512) == 4 && get(b, 512) == 4);
    CHECK(device_close(d) == 0);
    uint8_t sector[512];
    CHECK(device_read(b, 0, sector, 512) == -EBADF);
    device_unref(d);
    device_unref(s);
    device_unref(r);
    device_unref(b);
}

/* A disk of call-backs: its read drops the branch that it is read for, its write reads a branch. */
static struct device *victim;

static int drop_read(void *owner, uint64_t offset, void *buffer, size_t n)
{
    uint8_t b[512];

    (void)owner;
    (void)offset;
    memset(buffer, 1, n);
    if (victim) {
        struct device *v = victim;

        CHECK(device_read(v, 0, b, 512) == -EDEADLK);
        victim = NULL;
        device_unref(v);
    }
    return 0;
}

static int drop_write(void *owner, uint64_t offset, const void *buffer, size_t n)
{
    (void)owner, (void)offset, (void)buffer, (void)n;
    return 0;
}

static void test_reentry(void)
{
    const struct device_callbacks c = {.read = drop_read, .write = drop_write};
    struct device *d, *b;

    CHECK(device_callbacks_new(&c, NULL, 65536, 512, &d) == 0);
    CHECK(device_branch_new(d, &b) == 0);
    CHECK(device_branch_new(d, &victim) == 0);
    put(d, 0, 2);
    CHECK(!victim && get(b, 0) == 1);
    device_unref(b);
    CHECK(d->branches == NULL);
    device_unref(d);
}

static void *write_parent(void *argument)
{
    for (int i = 0; i < 2000; i++) {
        put(argument, (uint64_t)(i % 64) * 512, (uint8_t)(i | 1));
    }
    return NULL;
}

static void *read_branches(void *argument)
{
    for (int i = 0; i < 500; i++) {
        struct device *b;
        uint8_t before[32768], after[32768];

        CHECK(device_branch_new(argument, &b) == 0);
        CHECK(device_read(b, 0, before, sizeof before) == 0);
        CHECK(device_read(b, 0, after, sizeof after) == 0);
        CHECK(memcmp(before, after, sizeof before) == 0);
        device_unref(b);
    }
    return NULL;
}

static void test_threads(void)
{
    struct device *d = memory(32768);
    pthread_t t[3];

    CHECK(pthread_create(&t[0], NULL, write_parent, d) == 0);
    CHECK(pthread_create(&t[1], NULL, read_branches, d) == 0);
    CHECK(pthread_create(&t[2], NULL, read_branches, d) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(t[i], NULL) == 0);
    }
    CHECK(d->branches == NULL);
    device_unref(d);
}

int main(void)
{
    for (uint32_t seed = 1; seed <= 20; seed++) {
        test_model(seed);
    }
    test_huge();
    test_resize();
    test_failures();
    test_beside();
    test_reentry();
    test_threads();
    return 0;
}
