/* What surrounds a call: trace, memory, counters, devices that call back, threads. */
#include <pthread.h>

#include "volume_help.h"

/* ---- the trace ---- */

static void test_trace(void)
{
    struct device *d = formatted(8 * MIB), *r;
    struct device_log_entry entry;
    const char *path;
    bool seen = false;
    CHECK_RC(device_recorder_new(d, &r), 0);
    struct volume *v = opened(r, true, VOLUME_DIRSYNC);
    CHECK_RC(volume_mkdir(v, "/d", NULL), 0);
    device_recorder_clear(r);
    CHECK_RC(volume_touch(v, "/d/f", false, NULL), 0);
    size_t n = device_recorder_count(r);
    for (size_t i = 0; i < n; i++) {
        CHECK_RC(device_recorder_entry(r, i, &entry), 0);
        if (entry.kind != DEVICE_LOG_WRITE || entry.tag.structure != DEVICE_ENTRY_SET)
            continue;
        const char *call = device_recorder_op(r, entry.tag.op, &path);
        CHECK(call && strcmp(call, "touch") == 0 && path && strcmp(path, "/d/f") == 0);
        CHECK(strcmp(device_recorder_object(r, entry.tag.object), "/d/f") == 0);
        seen = true;
    }
    CHECK(seen);
    closed(v);
    device_unref(r);
    device_unref(d);
}

/* ---- memory and policy ---- */

static void test_idle_directories(void)
{
    struct volume *v = fresh();
    struct volume_policy p = v->policy;
    char path[32];
    size_t most, freed;
    p.memory_budget = 0;
    CHECK_RC(volume_set_policy(v, &p, NULL), 0);
    CHECK_RC(volume_mkdir(v, "/top", NULL), 0);
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof path, "/top/d%d", i);
        CHECK_RC(volume_mkdir(v, path, NULL), 0);
        snprintf(path, sizeof path, "/top/d%d/f", i);
        CHECK_RC(volume_touch(v, path, false, NULL), 0);
    }
    most = v->idle_count;
    CHECK(most >= 1 && most <= 32);
    CHECK(v->nodes.count <= most + 4); /* the root, /top, and the remembered directory */
    p.memory_budget = VOLUME_MEMORY_BUDGET_DEFAULT;
    CHECK_RC(volume_set_policy(v, &p, NULL), 0);
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof path, "/top/d%d/f", i);
        CHECK_RC(stat_rc(v, path), 0);
    }
    CHECK(v->idle_count >= 199);
    size_t held, before;
    CHECK_RC(volume_memory_held(v, &before, NULL), 0);
    CHECK_RC(volume_shrink(v, SIZE_MAX, &freed, NULL), 0);
    CHECK_RC(volume_memory_held(v, &held, NULL), 0);
    CHECK(v->idle_count == 0 && freed > 0 && held < before);
    for (int i = 0; i < 200; i += 50) {
        snprintf(path, sizeof path, "/top/d%d/F", i);
        CHECK_RC(stat_rc(v, path), 0);
    }
    closed(v);
}

static void test_counters(void)
{
    struct volume *v = fresh();
    CHECK_RC(volume_touch(v, "/f", false, NULL), 0);
    CHECK_RC(stat_rc(v, "/f"), 0);
    CHECK_RC(stat_rc(v, "/none"), -ENOENT);
    struct volume_counters c = counters(v);
    CHECK(c.operations == 3 && c.lookups == 3 && c.lookups_missed == 2);
    CHECK(counters(v).operations == 3);
    CHECK_RC(volume_counters_reset(v, NULL), 0);
    CHECK(counters(v).operations == 0 && counters(v).lookups == 0);
    closed(v);
}

/* ---- a device that calls back into the volume it serves ---- */

struct looped {
    struct device *below;
    struct volume *volume;
    struct volume_handle *drop; /* let go of in the middle of a call */
    int refused;
};

static int looped_read(void *owner, uint64_t offset, void *buffer, size_t n)
{
    struct looped *l = owner;
    if (l->volume) {
        l->refused += stat_rc(l->volume, "/f") == -EDEADLK;
        l->refused += volume_close(l->volume, NULL) == -EDEADLK;
        l->refused += volume_abandon(l->volume) == -EDEADLK;
        if (l->drop)
            volume_file_unref(l->drop);
        l->drop = NULL;
    }
    return device_read(l->below, offset, buffer, n);
}

static int looped_write(void *owner, uint64_t offset, const void *buffer, size_t n)
{
    struct device_tag tag = {0};
    return device_write(((struct looped *)owner)->below, offset, buffer, n, &tag);
}

static void test_reentrant_device(void)
{
    struct looped l = {.below = formatted(8 * MIB)};
    struct device_callbacks calls = {.read = looped_read, .write = looped_write};
    struct device *d;
    char b[16];
    size_t done, freed;
    CHECK_RC(device_callbacks_new(&calls, &l, l.below->size, 512, &d), 0);
    struct volume *v = opened(d, true, VOLUME_LAZY);
    put(v, "/f", "text");
    uint64_t before = free_bytes(v);
    put(v, "/gone", "old");
    l.drop = file(v, "/gone", READ);
    CHECK_RC(volume_unlink(v, "/gone", NULL), 0);
    CHECK_RC(volume_sync(v, NULL), 0);
    CHECK_RC(volume_shrink(v, SIZE_MAX, &freed, NULL), 0);
    l.volume = v;
    struct volume_handle *h = file(v, "/f", READ);
    CHECK_RC(volume_file_read(h, 0, b, 4, &done, NULL), 0);
    l.volume = NULL;
    CHECK(done == 4 && memcmp(b, "text", 4) == 0);
    CHECK(l.refused >= 3 && l.refused % 3 == 0 && l.drop == NULL && v->doomed == NULL);
    CHECK_RC(volume_sync(v, NULL), 0);
    CHECK(free_bytes(v) ==
          before); /* the handle that was dropped inside has given the space back */
    volume_file_unref(h);
    closed(v);
    device_unref(d);
    device_unref(l.below);
}

/* ---- threads ---- */

struct worker {
    struct volume *volume;
    struct volume_handle *shared;
    int number;
    int done;
    bool may_end;
};

/* Whether rc is a result, or the clean end of a volume closed under us. */
static bool goes_on(const struct worker *w, int rc)
{
    if (rc == -EBADF && w->may_end)
        return false;
    CHECK_RC(rc, 0);
    return true;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct volume *v = w->volume;
    char path[32], text[32], b[32];
    size_t done;
    for (int i = 0; i < 300; i++, w->done++) {
        struct volume_handle *h;
        snprintf(path, sizeof path, "/t%d/f%d", w->number, i % 7);
        snprintf(text, sizeof text, "%d:%d", w->number, i);
        if (!goes_on(w, volume_file_open(v, path, READ | WRITE | CREATE | TRUNCATE, &h, NULL)))
            break;
        bool on = goes_on(w, volume_file_write(h, 0, text, strlen(text), &done, NULL, NULL)) &&
                  goes_on(w, volume_file_read(h, 0, b, sizeof b, &done, NULL));
        CHECK(!on || (done == strlen(text) && memcmp(b, text, done) == 0));
        on = on && goes_on(w, volume_unlink(v, path, NULL));
        on = on && goes_on(w, volume_file_read(w->shared, 0, b, sizeof b, &done, NULL));
        CHECK(!on || (done == 6 && memcmp(b, "shared", 6) == 0));
        if (i % 2)
            on = on && goes_on(w, volume_file_close(h, NULL));
        volume_file_unref(h);
        if (!on)
            break;
    }
    volume_file_unref(w->shared);
    volume_unref(v);
    return NULL;
}

static void test_threads(bool close_early)
{
    enum { THREADS = 4 };
    struct worker w[THREADS];
    pthread_t thread[THREADS];
    struct device *d = formatted(8 * MIB);
    struct volume *v = opened(d, true, VOLUME_LAZY);
    char path[16];
    put(v, "/s", "shared");
    struct volume_handle *shared = file(v, "/s", READ);
    CHECK_RC(volume_sync(v, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        snprintf(path, sizeof path, "/t%d", i);
        CHECK_RC(volume_mkdir(v, path, NULL), 0);
        w[i] = (struct worker){volume_ref(v), volume_file_ref(shared), i, 0, close_early};
        CHECK(pthread_create(&thread[i], NULL, work, &w[i]) == 0);
    }
    volume_file_unref(shared);
    for (int i = 0; close_early && i < 200; i++)
        CHECK_RC(stat_rc(v, "/s"), 0);
    if (close_early)
        CHECK_RC(volume_close(v, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(thread[i], NULL) == 0);
        CHECK(close_early || w[i].done == 300);
    }
    if (!close_early)
        CHECK_RC(volume_close(v, NULL), 0);
    CHECK(v->doomed == NULL && v->refs == 1);
    volume_unref(v);
    v = opened(d, true, VOLUME_LAZY);
    CHECK(!v->was_dirty && holds(v, "/s", "shared"));
    closed(v);
    device_unref(d);
}

int main(void)
{
    test_trace();
    test_idle_directories();
    test_counters();
    test_reentrant_device();
    test_threads(false);
    test_threads(true);
    return 0;
}
