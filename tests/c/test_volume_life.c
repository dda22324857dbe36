/* Volumes from open to end: sync modes, read-only volumes, failing devices, closing and abandoning.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "volume_help.h"

/* ---- sync modes ---- */

static uint64_t flushes(struct volume *v)
{
    return counters(v).cache.device_flushes;
}

static void test_dirsync(void)
{
    struct device *d = formatted(8 * MIB);
    struct volume *v = opened(d, true, VOLUME_DIRSYNC);
    size_t done;
    uint64_t before;
    CHECK_RC(volume_touch(v, "/first", false, NULL), 0); /* the dirty mark has a flush of its own */
    before = flushes(v);
    CHECK_RC(volume_touch(v, "/f", false, NULL), 0);
    CHECK(flushes(v) == before + 1 && !cache_is_dirty(v->cache));
    CHECK_RC(volume_unlink(v, "/f", NULL), 0);
    CHECK(flushes(v) == before + 2 && !cache_is_dirty(v->cache));
    struct volume_handle *h = file(v, "/first", WRITE);
    CHECK(flushes(v) == before + 2);
    CHECK_RC(volume_file_write(h, 0, "data", 4, &done, NULL, NULL), 0);
    CHECK(flushes(v) == before + 2); /* data is not the business of dirsync */
    CHECK(v->dirty != NULL);
    CHECK_RC(volume_touch(v, "/g", false, NULL), 0);
    CHECK(v->dirty != NULL); /* nor does somebody else's create write that file's entry */
    CHECK_RC(stat_rc(v, "/none"), -ENOENT);
    CHECK_RC(volume_touch(v, "/g", false, NULL), -EEXIST);
    before = flushes(v);
    struct volume_name names[] = {{"m1", 2}, {"m2", 2}, {"m3", 2}};
    CHECK_RC(volume_create_many(v, "/", names, 3, &done, NULL), 0);
    CHECK(flushes(v) == before + 3);
    volume_file_unref(h);
    closed(v);
    v = opened(d, false, VOLUME_LAZY);
    CHECK(holds(v, "/first", "data"));
    closed(v);
    device_unref(d);
}

static void test_sync_mode(void)
{
    struct device *d = formatted(8 * MIB), *copy;
    struct volume *v = opened(d, true, VOLUME_SYNC);
    size_t done;
    struct volume_handle *h = file(v, "/f", WRITE | CREATE);
    CHECK_RC(volume_file_write(h, 0, "durable", 7, &done, NULL, NULL), 0);
    CHECK(!cache_is_dirty(v->cache) && v->dirty == NULL);
    /* What the device holds now is what a power cut would leave. */
    CHECK_RC(device_branch_new(d, &copy), 0);
    struct volume *after = opened(copy, false, VOLUME_LAZY);
    CHECK(holds(after, "/f", "durable") && after->was_dirty);
    closed(after);
    device_unref(copy);
    CHECK_RC(volume_set_sync(v, VOLUME_LAZY, NULL), 0);
    uint64_t before = flushes(v);
    CHECK_RC(volume_file_write(h, 0, "volatile", 8, &done, NULL, NULL), 0);
    CHECK(flushes(v) == before);
    CHECK_RC(volume_set_sync(v, VOLUME_SYNC, NULL), 0);
    CHECK(!cache_is_dirty(v->cache) && v->dirty == NULL);
    volume_file_unref(h);
    closed(v);
    v = opened(d, false, VOLUME_LAZY);
    CHECK(!v->was_dirty);
    closed(v);
    device_unref(d);
}

/* ---- read-only volumes, and volumes that end unwritten ---- */

static void check_all_refused(struct volume *v)
{
    struct volume_setattr how = {.mask = VOLUME_SET_MODIFIED};
    struct volume_name name = {"x", 1};
    uint64_t trimmed;
    size_t done;
    struct volume_handle *h = file(v, "/f", READ);
    CHECK_RC(volume_mkdir(v, "/x", NULL), -EROFS);
    CHECK_RC(volume_rmdir(v, "/d", NULL), -EROFS);
    CHECK_RC(volume_unlink(v, "/f", NULL), -EROFS);
    CHECK_RC(volume_rename(v, "/f", "/x", 0, NULL), -EROFS);
    CHECK_RC(volume_touch(v, "/f", true, NULL), -EROFS);
    CHECK_RC(volume_setattr_path(v, "/f", &how, NULL), -EROFS);
    CHECK_RC(volume_truncate_path(v, "/f", 0, NULL), -EROFS);
    CHECK_RC(volume_fallocate_path(v, "/f", 0, 9, true, NULL), -EROFS);
    CHECK_RC(volume_create_many(v, "/", &name, 1, &done, NULL), -EROFS);
    CHECK_RC(volume_remove_many(v, "/", &name, 1, &done, NULL), -EROFS);
    CHECK_RC(volume_label_set(v, "L", 1, NULL), -EROFS);
    CHECK_RC(volume_serial_set(v, 1, NULL), -EROFS);
    CHECK_RC(volume_trim(v, 0, &trimmed, NULL), -EROFS);
    CHECK_RC(open_rc(v, "/f", WRITE), -EROFS);
    CHECK_RC(open_rc(v, "/f", READ | WRITE | TRUNCATE), -EROFS);
    CHECK_RC(open_rc(v, "/x", READ | CREATE), -EROFS);
    CHECK_RC(open_rc(v, "/f", READ | CREATE), 0);
    CHECK_RC(volume_file_setattr(h, &how, NULL), -EROFS);
    CHECK_RC(volume_file_sync(h, NULL), 0);
    CHECK_RC(volume_sync(v, NULL), 0);
    volume_file_unref(h);
}

static void test_read_only(void)
{
    struct device *d = formatted(8 * MIB), *f;
    struct volume *v = opened(d, true, VOLUME_LAZY);
    put(v, "/f", "text");
    CHECK_RC(volume_mkdir(v, "/d", NULL), 0);
    closed(v);
    CHECK_RC(device_faults_new(d, &f), 0);
    for (int sync = VOLUME_LAZY; sync <= VOLUME_SYNC; sync++) {
        v = opened(f, false, (enum volume_sync)sync);
        check_all_refused(v);
        CHECK(holds(v, "/f", "text"));
        closed(v);
    }
    CHECK(device_faults_count(f, DEVICE_FAULT_WRITE) == 0);
    CHECK(device_faults_count(f, DEVICE_FAULT_FLUSH) == 0);
    CHECK(device_faults_count(f, DEVICE_FAULT_DISCARD) == 0);
    device_unref(f);
    device_unref(d);
}

static void test_abandon(void)
{
    struct device *d = formatted(8 * MIB), *f;
    size_t done;
    CHECK_RC(device_faults_new(d, &f), 0);
    for (int way = 0; way < 2; way++) {
        struct volume *v = opened(f, true, VOLUME_LAZY);
        put(v, "/lost", "text");
        CHECK_RC(volume_mkdir(v, "/dir", NULL), 0);
        struct volume_handle *h = file(v, "/gone", READ | WRITE | CREATE);
        CHECK_RC(volume_file_write(h, 0, "old", 3, &done, NULL, NULL), 0);
        CHECK_RC(volume_fallocate_path(v, "/lost", 0, MIB, true, NULL), 0);
        CHECK_RC(volume_unlink(v, "/gone", NULL), 0);
        uint64_t before = device_faults_count(f, DEVICE_FAULT_WRITE);
        if (way == 0)
            CHECK_RC(volume_abandon(v), 0);
        CHECK_RC(volume_file_read(h, 0, &done, 1, &done, NULL), way == 0 ? -EBADF : 0);
        volume_file_unref(h);
        if (way == 0)
            CHECK(device_faults_count(f, DEVICE_FAULT_WRITE) == before);
        volume_unref(v);
        CHECK(device_faults_count(f, DEVICE_FAULT_WRITE) == before);
        v = opened(f, true, VOLUME_LAZY); /* the claim has gone with it */
        CHECK_RC(stat_rc(v, "/lost"), -ENOENT);
        CHECK_RC(volume_abandon(v), 0);
        CHECK_RC(volume_abandon(v), 0);
        CHECK_RC(volume_close(v, NULL), 0);
        volume_unref(v);
    }
    device_unref(f);
    device_unref(d);
}

static void test_after_close(void)
{
    struct device *d = formatted(8 * MIB);
    struct volume *v = opened(d, true, VOLUME_LAZY);
    struct volume_stat st;
    struct volume_counters c;
    struct volume_handle *h = file(v, "/f", READ | WRITE | CREATE);
    size_t done;
    CHECK_RC(volume_file_write(h, 0, "kept", 4, &done, NULL, NULL), 0);
    CHECK_RC(volume_close(v, NULL), 0);
    CHECK_RC(volume_close(v, NULL), 0);
    CHECK_RC(stat_rc(v, "/f"), -EBADF);
    CHECK_RC(volume_touch(v, "/g", true, NULL), -EBADF);
    CHECK_RC(volume_counters_get(v, &c, NULL), -EBADF);
    CHECK_RC(open_rc(v, "/f", READ), -EBADF);
    CHECK_RC(volume_sync(v, NULL), -EBADF);
    CHECK_RC(volume_file_stat(h, &st, NULL), -EBADF);
    CHECK_RC(volume_file_close(h, NULL), -EBADF);
    volume_unref(v); /* the handle keeps the memory */
    CHECK_RC(volume_file_read(h, 0, &st, 1, &done, NULL), -EBADF);
    CHECK(volume_file_volume(h) == v);
    volume_file_unref(h);
    v = opened(d, false, VOLUME_LAZY);
    CHECK(holds(v, "/f", "kept") && !v->was_dirty);
    closed(v);
    device_unref(d);
}

/* ---- devices that fail ---- */

static void test_failing_device(void)
{
    struct device *d = formatted(8 * MIB), *f;
    struct device_fault fail = {
        .ops = DEVICE_FAULT_WRITE, .structure = -1, .action = DEVICE_FAULT_FAIL, .error = EIO};
    CHECK_RC(device_faults_new(d, &f), 0);
    struct volume *v = opened(f, true, VOLUME_LAZY);
    put(v, "/f", "one");
    CHECK_RC(volume_sync(v, NULL), 0);
    put(v, "/g", "two");
    CHECK_RC(device_faults_add(f, &fail), 0);
    CHECK_RC(volume_sync(v, NULL), -EIO);
    CHECK(v->failed);
    CHECK(holds(v, "/g", "two"));
    device_faults_clear(f);
    CHECK_RC(volume_sync(v, NULL), 0); /* nothing was lost: all of it is written now */
    closed(v);
    v = opened(d, true, VOLUME_LAZY);
    CHECK(v->was_dirty && holds(v, "/f", "one") && holds(v, "/g", "two"));
    closed(v);

    v = opened(f, true, VOLUME_LAZY);
    put(v, "/h", "three");
    CHECK_RC(device_faults_add(f, &fail), 0);
    CHECK_RC(volume_close(v, NULL), -EIO);
    CHECK_RC(volume_close(v, NULL), 0);
    CHECK_RC(stat_rc(v, "/h"), -EBADF);
    volume_unref(v);
    device_faults_clear(f);
    v = opened(f, true, VOLUME_DIRSYNC);
    CHECK(holds(v, "/f", "one"));
    CHECK_RC(device_faults_add(f, &fail), 0);
    CHECK_RC(volume_mkdir(v, "/dir", NULL), -EIO); /* in dirsync the call itself */
    CHECK_RC(volume_close(v, NULL), -EIO);
    volume_unref(v);
    device_unref(f);
    device_unref(d);
}

/* A file that is let go of when its entry cannot be reached: the next call tells, and nothing is
 * lost. */
static void test_failing_release(void)
{
    struct device *d = formatted(8 * MIB), *f;
    struct device_fault fail = {
        .ops = DEVICE_FAULT_READ, .structure = -1, .action = DEVICE_FAULT_FAIL, .error = EIO};
    size_t done, freed;
    CHECK_RC(device_faults_new(d, &f), 0);
    struct volume *v = opened(f, true, VOLUME_LAZY);
    struct volume_handle *h = file(v, "/f", WRITE | CREATE);
    CHECK_RC(volume_file_write(h, 0, "text", 4, &done, NULL, NULL), 0);
    CHECK(v->dirty != NULL);
    CHECK_RC(volume_shrink(v, SIZE_MAX, &freed, NULL), 0);
    CHECK_RC(device_faults_add(f, &fail), 0);
    volume_file_unref(h);
    CHECK(v->dirty != NULL && v->failed);
    CHECK_RC(volume_shrink(v, SIZE_MAX, &freed, NULL), -EIO);
    device_faults_clear(f);
    CHECK_RC(volume_sync(v, NULL), 0);
    CHECK(v->dirty == NULL && holds(v, "/f", "text"));
    closed(v);
    v = opened(d, false, VOLUME_LAZY);
    CHECK(v->was_dirty && holds(v, "/f", "text"));
    closed(v);
    device_unref(f);
    device_unref(d);
}

/* The same where a call waits for it. */
static void test_failing_close(void)
{
    struct device *d = formatted(8 * MIB), *f;
    struct device_fault fail = {
        .ops = DEVICE_FAULT_READ, .structure = -1, .action = DEVICE_FAULT_FAIL, .error = EIO};
    size_t done, freed;
    CHECK_RC(device_faults_new(d, &f), 0);
    struct volume *v = opened(f, true, VOLUME_SYNC);
    struct volume_handle *h = file(v, "/f", WRITE | CREATE);
    CHECK_RC(volume_set_sync(v, VOLUME_LAZY, NULL), 0);
    CHECK_RC(volume_file_write(h, 0, "text", 4, &done, NULL, NULL), 0);
    CHECK_RC(volume_shrink(v, SIZE_MAX, &freed, NULL), 0);
    CHECK_RC(device_faults_add(f, &fail), 0);
    CHECK_RC(volume_file_close(h, NULL), -EIO);
    CHECK_RC(volume_sync(v, NULL), -EIO);
    CHECK_RC(volume_close(v, NULL), -EIO);
    volume_file_unref(h);
    volume_unref(v);
    device_faults_clear(f);
    v = opened(f, false, VOLUME_LAZY);
    CHECK(v->was_dirty && holds(v, "/f", ""));
    closed(v);
    device_unref(f);
    device_unref(d);
}

/* ---- opening ---- */

static void test_open_volume(void)
{
    struct device *d = formatted(8 * MIB), *f;
    struct volume_options o;
    struct volume *v, *second;
    struct base_error e;
    volume_options_init(&o);
    CHECK(!o.writable && o.sync == VOLUME_LAZY);
    CHECK(o.policy.memory_budget == VOLUME_MEMORY_BUDGET_DEFAULT);
    o.writable = true;
    CHECK_RC(volume_open(d, "exfat", &o, &v, &e), 0);
    CHECK_RC(volume_open(d, "exfat", &o, &second, &e), -EBUSY);
    CHECK(second == NULL);
    o.writable = false;
    CHECK_RC(volume_open(d, NULL, &o, &second, &e), 0);
    closed(second);
    closed(v);
    o.writable = true;
    CHECK_RC(volume_open(d, "zfs", &o, &v, &e), -EINVAL);
    CHECK(e.kind == BASE_ERROR_ARGUMENT && strcmp(e.field, "fs") == 0);
    CHECK_RC(volume_open(d, "ntfs", &o, &v, &e), -BASE_EUNSUPPORTED);
    CHECK(e.kind == BASE_ERROR_UNSUPPORTED && strcmp(e.structure, "ntfs volume") == 0);
    o.use_backup = true;
    CHECK_RC(volume_open(d, NULL, &o, &v, &e), -EINVAL);
    CHECK(e.kind == BASE_ERROR_ARGUMENT);
    o.use_backup = false;
    CHECK_RC(device_faults_new(d, &f), 0);
    struct device_fault fail = {
        .ops = DEVICE_FAULT_READ, .structure = -1, .action = DEVICE_FAULT_FAIL, .error = EIO};
    CHECK_RC(device_faults_add(f, &fail), 0);
    CHECK_RC(volume_open(f, NULL, &o, &v, NULL), -EIO);
    CHECK_RC(volume_open(f, "exfat", &o, &v, NULL), -EIO);
    fail.nth = 4; /* in the middle of mounting: all is given back */
    device_faults_clear(f);
    CHECK_RC(device_faults_add(f, &fail), 0);
    CHECK_RC(volume_open(f, "exfat", &o, &v, NULL), -EIO);
    device_unref(f);
    CHECK_RC(device_claim(d), 0); /* no failed open has kept it */
    device_release(d);
    device_unref(d);
}

/* The main boot region (sectors 0 to 11) is gone, the one behind it is whole. */
static void test_backup(void)
{
    struct device *d;
    struct device_tag tag = {0};
    struct volume_options o;
    struct volume_format f;
    struct volume *v;
    struct base_error e;
    struct names_pool *pool = names_pool_new(MIB);
    volume_format_init(&f);
    volume_options_init(&o);
    CHECK_RC(device_memory_new(8 * MIB, 512, &d), 0);
    CHECK_RC(volume_format_device(d, &f, &e), 0);
    CHECK_RC(device_zero(d, 0, 12 * 512, &tag), 0);
    CHECK_RC(volume_open(d, NULL, &o, &v, &e), -BASE_ECORRUPT);
    o.use_backup = true;
    o.pool = pool;
    CHECK_RC(volume_open(d, NULL, &o, &v, &e), 0);
    CHECK(v->from_backup && !v->writable);
    CHECK_RC(stat_rc(v, "/none"), -ENOENT);
    closed(v);
    CHECK(names_pool_held(pool) == 0);
    names_pool_unref(pool);
    device_unref(d);
}

static void test_read_only_device(void)
{
    static uint8_t memory[MIB];
    struct device *d;
    struct volume_options o;
    struct volume *v;
    struct base_error e;
    struct volume_format f;
    volume_options_init(&o);
    volume_format_init(&f);
    CHECK_RC(device_buffer_new(memory, sizeof memory, false, 512, NULL, NULL, &d), 0);
    CHECK_RC(volume_format_device(d, &f, &e), -EROFS);
    CHECK_RC(volume_open(d, NULL, &o, &v, &e), -BASE_ECORRUPT);
    CHECK(e.kind == BASE_ERROR_DAMAGE && strcmp(e.structure, "boot region") == 0);
    CHECK(e.offset == 0 && strcmp(e.field, "FileSystemName") == 0);
    o.writable = true;
    CHECK_RC(volume_open(d, NULL, &o, &v, &e), -EROFS);
    device_unref(d);
    CHECK_RC(device_memory_new(MIB, 512, &d), 0);
    f.fs = "xfs";
    CHECK_RC(volume_format_device(d, &f, &e), -BASE_EUNSUPPORTED);
    CHECK(e.kind == BASE_ERROR_UNSUPPORTED && strcmp(e.structure, "xfs volume") == 0);
    f.fs = "ext4";
    CHECK_RC(volume_format_device(d, &f, &e), -EINVAL);
    CHECK(e.kind == BASE_ERROR_ARGUMENT && strcmp(e.field, "fs") == 0);
    device_unref(d);
}

/* ---- forks ---- */

/* What the child of a fork may do with its parent's volume. */
static int in_child(struct volume *v, struct volume_handle *h, struct device *d)
{
    struct volume *other = NULL;
    struct device *copy = NULL;
    struct volume_options o;
    uint8_t sector[512];
    size_t done;
    volume_options_init(&o);
    CHECK(volume_is_inherited(v));
    CHECK_RC(stat_rc(v, "/f"), -EBADF);
    CHECK_RC(volume_touch(v, "/g", true, NULL), -EBADF);
    CHECK_RC(volume_file_write(h, 0, "child", 5, &done, NULL, NULL), -EBADF);
    CHECK_RC(volume_file_close(h, NULL), -EBADF);
    CHECK_RC(volume_sync(v, NULL), -EBADF);
    CHECK_RC(volume_close(v, NULL), 0);
    CHECK_RC(device_read(d, 0, sector, sizeof sector), -EBADF);
    CHECK_RC(device_write(d, 0, sector, sizeof sector, NULL), -EBADF);
    CHECK_RC(device_flush(d), -EBADF);
    CHECK_RC(device_branch_new(d, &copy), -EBADF);
    CHECK_RC(volume_open(d, NULL, &o, &other, NULL), -EBADF);
    volume_file_unref(h);
    volume_unref(v);
    CHECK_RC(device_close(d), 0);
    device_unref(d);
    return 0;
}

/* busy: as if another thread were inside the volume and writing to the device. */
static void test_fork(bool busy)
{
    struct device *d = formatted(8 * MIB);
    struct volume *v = opened(d, true, VOLUME_LAZY);
    struct volume_handle *h = file(v, "/f", WRITE | CREATE);
    size_t done;
    int status = -1;
    CHECK_RC(volume_unlink(v, "/f", NULL), 0);
    CHECK_RC(volume_file_write(h, 0, "parent", 6, &done, NULL, NULL), 0);
    if (busy) {
        os_mutex_lock(v->lock);
        os_mutex_lock(d->lock);
    }
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(v, h, d));
    if (busy) {
        os_mutex_unlock(d->lock);
        os_mutex_unlock(v->lock);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(!volume_is_inherited(v));
    CHECK_RC(volume_touch(v, "/g", false, NULL), 0);
    volume_file_unref(h);
    closed(v);
    device_unref(d);
}

int main(void)
{
    test_dirsync();
    test_sync_mode();
    test_read_only();
    test_abandon();
    test_after_close();
    test_failing_device();
    test_failing_release();
    test_failing_close();
    test_open_volume();
    test_backup();
    test_read_only_device();
    test_fork(false);
    test_fork(true);
    return 0;
}
