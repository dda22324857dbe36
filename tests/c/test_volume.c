/* The volume layer over exFAT on memory devices: what rename(2), open(2), unlink(2) and their kin
 * say, sync modes, read-only volumes, failing devices, ends of volumes and handles, threads,
 * re-entrant devices, recognition of file systems.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "volume/volume.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_RC(call, expected)                                                                   \
    do {                                                                                           \
        int got_ = (call);                                                                         \
        if (got_ != (expected)) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %d, not %d\n", __FILE__, __LINE__, #call, got_,            \
                    (int)(expected));                                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { MIB = 1 << 20 };
#define READ VOLUME_OPEN_READ
#define WRITE VOLUME_OPEN_WRITE
#define CREATE VOLUME_OPEN_CREATE
#define EXCLUSIVE VOLUME_OPEN_EXCLUSIVE
#define TRUNCATE VOLUME_OPEN_TRUNCATE

/* ---- setting up ---- */

static struct device *formatted(uint64_t size)
{
    struct device *d;
    struct volume_format f;
    struct env env;
    env_init_fixed(&env, 1, INT64_C(1700000000000000000), 0);
    volume_format_init(&f);
    f.env = &env;
    CHECK_RC(device_memory_new(size, 512, &d), 0);
    CHECK_RC(volume_format_device(d, &f, NULL), 0);
    return d;
}

static struct volume *opened(struct device *d, bool writable, enum volume_sync sync)
{
    struct volume_options o;
    struct volume *v;
    volume_options_init(&o);
    o.writable = writable;
    o.sync = sync;
    CHECK_RC(volume_open(d, NULL, &o, &v, NULL), 0);
    return v;
}

/* Ends the volume; the device goes with it when d is not needed any more. */
static void closed(struct volume *v)
{
    CHECK_RC(volume_close(v, NULL), 0);
    volume_unref(v);
}

static struct volume *fresh(void)
{
    struct device *d = formatted(8 * MIB);
    struct volume *v = opened(d, true, VOLUME_LAZY);
    device_unref(d);
    return v;
}

static struct volume_handle *file(struct volume *v, const char *path, uint32_t flags)
{
    struct volume_handle *h;
    CHECK_RC(volume_file_open(v, path, flags, &h, NULL), 0);
    return h;
}

static void put(struct volume *v, const char *path, const char *text)
{
    size_t done;
    struct volume_handle *h = file(v, path, WRITE | CREATE | TRUNCATE);
    CHECK_RC(volume_file_write(h, 0, text, strlen(text), &done, NULL, NULL), 0);
    CHECK(done == strlen(text));
    CHECK_RC(volume_file_close(h, NULL), 0);
    volume_file_unref(h);
}

static bool reads(struct volume_handle *h, const char *text)
{
    char buffer[256];
    size_t done;
    CHECK_RC(volume_file_read(h, 0, buffer, sizeof buffer, &done, NULL), 0);
    return done == strlen(text) && memcmp(buffer, text, done) == 0;
}

static bool holds(struct volume *v, const char *path, const char *text)
{
    struct volume_handle *h = file(v, path, READ);
    bool same = reads(h, text);
    CHECK_RC(volume_file_close(h, NULL), 0);
    volume_file_unref(h);
    return same;
}

static int stat_rc(struct volume *v, const char *path)
{
    struct volume_stat st;
    return volume_stat_path(v, path, &st, NULL);
}

static uint64_t free_bytes(struct volume *v)
{
    struct volume_statfs s;
    CHECK_RC(volume_statfs_get(v, &s, NULL), 0);
    return s.free;
}

static struct volume_counters counters(struct volume *v)
{
    struct volume_counters c;
    CHECK_RC(volume_counters_get(v, &c, NULL), 0);
    return c;
}

static int open_rc(struct volume *v, const char *path, uint32_t flags)
{
    struct volume_handle *h;
    int rc = volume_file_open(v, path, flags, &h, NULL);
    CHECK((rc == 0) == (h != NULL));
    if (h)
        volume_file_unref(h);
    return rc;
}

/* ---- paths ---- */

static void test_walk(void)
{
    struct volume *v = fresh();
    struct volume_stat st;
    char long_name[800];
    CHECK_RC(volume_mkdir(v, "/a", NULL), 0);
    CHECK_RC(volume_mkdir(v, "a/b", NULL), 0);
    put(v, "/a/f", "x");
    static const struct {
        const char *path;
        int rc;
    } cases[] = {
        {"", -ENOENT},
        {"/", 0},
        {".", 0},
        {"..", 0},
        {"///a//./b/", 0},
        {"a/b/../f", 0},
        {"../../a", 0},
        {"a/b/../../a/./f", 0},
        {"a/f/", -ENOTDIR},
        {"a/f/.", -ENOTDIR},
        {"a/f/..", -ENOTDIR},
        {"a/f/x", -ENOTDIR},
        {"a/none", -ENOENT},
        {"none/f", -ENOENT},
        {"none/..", -ENOENT},
        {"a/none/../f", -ENOENT},
        {"A/F", 0},
        {"a/b/f", -ENOENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = volume_stat_path(v, cases[i].path, &st, NULL);
        if (rc != cases[i].rc)
            fprintf(stderr, "stat(\"%s\") = %d\n", cases[i].path, rc);
        CHECK(rc == cases[i].rc);
    }
    CHECK_RC(volume_stat_path(v, "a/b/..", &st, NULL), 0);
    CHECK(st.kind == VOLUME_DIRECTORY && st.inode != 1);
    CHECK_RC(volume_stat_path(v, "a/../..", &st, NULL), 0);
    CHECK(st.kind == VOLUME_DIRECTORY && st.inode == 1);
    memset(long_name, 'n', sizeof long_name);
    long_name[799] = 0;
    CHECK_RC(stat_rc(v, long_name), -ENAMETOOLONG);
    long_name[256] = 0;
    CHECK_RC(volume_touch(v, long_name, false, NULL), -ENAMETOOLONG);
    long_name[255] = 0;
    CHECK_RC(volume_touch(v, long_name, false, NULL), 0);
    closed(v);
}

/* The remembered way to a directory must not outlive the directory, nor lead to another one of the
 * same name. */
static void test_remembered_way(void)
{
    struct volume *v = fresh();
    CHECK_RC(volume_mkdir(v, "/a", NULL), 0);
    CHECK_RC(volume_mkdir(v, "/a/b", NULL), 0);
    put(v, "/a/b/f", "first");
    CHECK(holds(v, "/a/b/f", "first"));
    CHECK_RC(volume_rename(v, "/a", "/c", 0, NULL), 0);
    CHECK_RC(stat_rc(v, "/a/b/f"), -ENOENT);
    CHECK(holds(v, "/c/b/f", "first"));
    CHECK_RC(volume_mkdir(v, "/a", NULL), 0);
    CHECK_RC(volume_mkdir(v, "/a/b", NULL), 0);
    put(v, "/a/b/f", "second");
    CHECK(holds(v, "/a/b/f", "second") && holds(v, "/c/b/f", "first"));
    CHECK_RC(volume_unlink(v, "/a/b/f", NULL), 0);
    CHECK_RC(volume_rmdir(v, "/a/b", NULL), 0);
    CHECK_RC(volume_touch(v, "/a/b/f", false, NULL), -ENOENT);
    CHECK_RC(volume_rename(v, "/c/b", "/a/b", 0, NULL), 0);
    CHECK(holds(v, "/a/b/f", "first"));
    CHECK_RC(stat_rc(v, "/c/b/f"), -ENOENT);
    closed(v);
}

static void test_make_and_remove(void)
{
    struct volume *v = fresh();
    CHECK_RC(volume_mkdir(v, "/d/", NULL), 0);
    CHECK_RC(volume_mkdir(v, "/d", NULL), -EEXIST);
    CHECK_RC(volume_mkdir(v, "/", NULL), -EEXIST);
    CHECK_RC(volume_mkdir(v, "/d/..", NULL), -EEXIST);
    CHECK_RC(volume_mkdir(v, "/no/d", NULL), -ENOENT);
    CHECK_RC(volume_touch(v, "/d/f", false, NULL), 0);
    CHECK_RC(volume_touch(v, "/d/f", false, NULL), -EEXIST);
    CHECK_RC(volume_touch(v, "/d/f", true, NULL), 0);
    CHECK_RC(volume_touch(v, "/d", true, NULL), 0);
    CHECK_RC(volume_touch(v, "/d/new/", true, NULL), -EISDIR);
    CHECK_RC(volume_touch(v, "/d/f/", true, NULL), -ENOTDIR);
    CHECK_RC(volume_touch(v, "", true, NULL), -ENOENT);
    CHECK_RC(volume_mkdir(v, "/d/f", NULL), -EEXIST);
    CHECK_RC(volume_mkdir(v, "/d/f/x", NULL), -ENOTDIR);
    CHECK_RC(volume_rmdir(v, "/d", NULL), -ENOTEMPTY);
    CHECK_RC(volume_rmdir(v, "/d/f", NULL), -ENOTDIR);
    CHECK_RC(volume_rmdir(v, "/", NULL), -EBUSY);
    CHECK_RC(volume_rmdir(v, "/d/..", NULL), -EBUSY);
    CHECK_RC(volume_rmdir(v, "/none", NULL), -ENOENT);
    CHECK_RC(volume_unlink(v, "/d", NULL), -EISDIR);
    CHECK_RC(volume_unlink(v, "/", NULL), -EISDIR);
    CHECK_RC(volume_unlink(v, "/none", NULL), -ENOENT);
    CHECK_RC(volume_unlink(v, "/d/f/", NULL), -ENOTDIR);
    CHECK_RC(volume_unlink(v, "/d/f", NULL), 0);
    CHECK_RC(volume_unlink(v, "/d/f", NULL), -ENOENT);
    CHECK_RC(volume_rmdir(v, "/d/.", NULL), 0);
    CHECK_RC(stat_rc(v, "/d"), -ENOENT);
    closed(v);
}

/* ---- rename(2) ---- */

static void test_rename(void)
{
    struct volume *v = fresh();
    char name[16];
    CHECK_RC(volume_mkdir(v, "/d", NULL), 0);
    CHECK_RC(volume_mkdir(v, "/d/e", NULL), 0);
    CHECK_RC(volume_mkdir(v, "/empty", NULL), 0);
    put(v, "/f", "f");
    put(v, "/g", "g");
    static const struct {
        const char *from, *to;
        uint32_t flags;
        int rc;
    } cases[] = {
        {"/none", "/x", 0, -ENOENT},
        {"/f", "/none/x", 0, -ENOENT},
        {"/f", "/g/x", 0, -ENOTDIR},
        {"/d", "/d/e/x", 0, -EINVAL},
        {"/d", "/d/x", 0, -EINVAL},
        {"/d/e", "/d", 0, -ENOTEMPTY},
        {"/f", "/d", 0, -EISDIR},
        {"/d", "/f", 0, -ENOTDIR},
        {"/empty", "/d", 0, -ENOTEMPTY},
        {"/", "/x", 0, -EBUSY},
        {"/f", "/", 0, -EBUSY},
        {"/d/..", "/x", 0, -EBUSY},
        {"/f", "/d/..", 0, -EBUSY},
        {"/f", "/x/", 0, -ENOTDIR},
        {"/f/", "/x", 0, -ENOTDIR},
        {"/f", "/g", VOLUME_RENAME_NOREPLACE, -EEXIST},
        {"/f", "/", VOLUME_RENAME_NOREPLACE, -EEXIST},
        {"/f", "/f", VOLUME_RENAME_NOREPLACE, -EEXIST},
        {"/f", "/f", 0, 0},
        {"/d", "/d/", 0, 0},
        {"/f", "", 0, -ENOENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = volume_rename(v, cases[i].from, cases[i].to, cases[i].flags, NULL);
        if (rc != cases[i].rc)
            fprintf(stderr, "rename(\"%s\", \"%s\") = %d\n", cases[i].from, cases[i].to, rc);
        CHECK(rc == cases[i].rc);
    }
    CHECK(holds(v, "/f", "f") && holds(v, "/g", "g"));
    CHECK_RC(volume_rename(v, "/f", "/F", 0, NULL), 0);
    CHECK_RC(volume_name_path(v, "/f", name, sizeof name, NULL), 1);
    CHECK(name[0] == 'F');
    CHECK_RC(volume_rename(v, "/F", "/f", VOLUME_RENAME_NOREPLACE, NULL), 0);
    CHECK_RC(volume_name_path(v, "/F", name, sizeof name, NULL), 1);
    CHECK(name[0] == 'f');
    CHECK_RC(volume_name_path(v, "/", name, sizeof name, NULL), 0);
    CHECK_RC(volume_rename(v, "/f", "/g", 0, NULL), 0);
    CHECK(holds(v, "/g", "f"));
    CHECK_RC(stat_rc(v, "/f"), -ENOENT);
    CHECK_RC(volume_rename(v, "/d/e", "/empty", 0, NULL), 0);
    CHECK_RC(volume_rename(v, "/g", "/empty/g", VOLUME_RENAME_NOREPLACE, NULL), 0);
    CHECK(holds(v, "/empty/g", "f"));
    CHECK_RC(volume_rename(v, "/empty", "/d/moved/", 0, NULL), 0);
    CHECK(holds(v, "/d/moved/../moved/g", "f"));
    CHECK_RC(volume_rename(v, "/d", "/d/moved/x", 0, NULL), -EINVAL);
    closed(v);
}

/* A file that is replaced while somebody has it open lives on without a name. */
static void test_rename_over_open(void)
{
    struct volume *v = fresh();
    put(v, "/old", "old");
    put(v, "/new", "new");
    struct volume_handle *old = file(v, "/old", READ);
    struct volume_handle *moved = file(v, "/new", READ);
    CHECK_RC(volume_rename(v, "/new", "/old", 0, NULL), 0);
    CHECK(reads(old, "old") && reads(moved, "new") && holds(v, "/old", "new"));
    volume_file_unref(old);
    volume_file_unref(moved);
    closed(v);
}

/* ---- open(2) ---- */

static void test_open_flags(void)
{
    struct volume *v = fresh();
    struct base_error e;
    struct volume_handle *h;
    struct volume_setattr read_only = {.mask = VOLUME_SET_ATTRIBUTES,
                                       .attributes = VOLUME_READ_ONLY};
    CHECK_RC(volume_mkdir(v, "/d", NULL), 0);
    put(v, "/f", "text");
    CHECK_RC(open_rc(v, "/none", READ), -ENOENT);
    CHECK_RC(open_rc(v, "/none/x", WRITE | CREATE), -ENOENT);
    CHECK_RC(open_rc(v, "/d", READ), -EISDIR);
    CHECK_RC(open_rc(v, "/d", WRITE), -EISDIR);
    CHECK_RC(open_rc(v, "/d", WRITE | CREATE), -EISDIR);
    CHECK_RC(open_rc(v, "/", READ), -EISDIR);
    CHECK_RC(open_rc(v, "/new/", WRITE | CREATE), -EISDIR);
    CHECK_RC(open_rc(v, "/f/", READ), -ENOTDIR);
    CHECK_RC(open_rc(v, "/f", WRITE | CREATE | EXCLUSIVE), -EEXIST);
    CHECK_RC(open_rc(v, "/d", WRITE | CREATE | EXCLUSIVE), -EEXIST);
    CHECK_RC(volume_file_open(v, "/f", 0, &h, &e), -EINVAL);
    CHECK(e.kind == BASE_ERROR_ARGUMENT && strcmp(e.field, "mode") == 0);
    CHECK_RC(open_rc(v, "/f", READ | TRUNCATE), -EINVAL);
    CHECK(holds(v, "/f", "text"));
    CHECK_RC(open_rc(v, "/f", WRITE), 0);
    CHECK(holds(v, "/f", "text"));
    CHECK_RC(volume_setattr_path(v, "/f", &read_only, NULL), 0);
    CHECK_RC(open_rc(v, "/f", WRITE), -EACCES);
    CHECK_RC(open_rc(v, "/f", READ | WRITE | TRUNCATE), -EACCES);
    CHECK_RC(volume_truncate_path(v, "/f", 0, NULL), -EACCES);
    CHECK_RC(volume_fallocate_path(v, "/f", 0, 1, false, NULL), -EACCES);
    CHECK(holds(v, "/f", "text"));
    read_only.attributes = 0;
    CHECK_RC(volume_setattr_path(v, "/f", &read_only, NULL), 0);
    CHECK_RC(open_rc(v, "/f", WRITE | TRUNCATE), 0);
    CHECK(holds(v, "/f", ""));
    read_only.attributes = VOLUME_ATTR_DIRECTORY;
    CHECK_RC(volume_setattr_path(v, "/f", &read_only, &e), -EINVAL);
    CHECK(e.kind == BASE_ERROR_ARGUMENT);
    closed(v);
}

static void test_read_and_write(void)
{
    struct volume *v = fresh();
    struct volume_stat st;
    char b[8];
    size_t done;
    uint64_t end = 0;
    struct volume_handle *w = file(v, "/f", WRITE | CREATE);
    struct volume_handle *r = file(v, "/f", READ);
    CHECK_RC(volume_file_read(w, 0, b, 1, &done, NULL), -EBADF);
    CHECK_RC(volume_file_write(r, 0, "x", 1, &done, NULL, NULL), -EBADF);
    CHECK_RC(volume_file_resize(r, 1, NULL), -EBADF);
    CHECK_RC(volume_file_allocate(r, 0, 1, false, NULL), -EBADF);
    CHECK_RC(volume_file_read(r, 0, b, sizeof b, &done, NULL), 0);
    CHECK(done == 0);
    CHECK_RC(volume_file_write(w, 3, "abc", 3, &done, &end, NULL), 0);
    CHECK(done == 3 && end == 6);
    CHECK_RC(volume_file_read(r, 0, b, sizeof b, &done, NULL), 0);
    CHECK(done == 6 && memcmp(b, "\0\0\0abc", 6) == 0);
    struct volume_handle *a = file(v, "/f", WRITE | VOLUME_OPEN_APPEND);
    CHECK_RC(volume_file_write(a, 0, "de", 2, &done, &end, NULL), 0);
    CHECK(done == 2 && end == 8);
    CHECK_RC(volume_file_stat(r, &st, NULL), 0);
    CHECK(st.size == 8 && st.kind == VOLUME_FILE);
    CHECK_RC(volume_file_resize(w, 4, NULL), 0);
    CHECK(reads(r, "") == false);
    CHECK_RC(volume_file_allocate(w, 0, 0, false, NULL), -EINVAL);
    CHECK_RC(volume_file_allocate(w, INT64_MAX, 2, false, NULL), -EFBIG);
    CHECK_RC(volume_file_write(w, UINT64_MAX, "x", 1, &done, NULL, NULL), -EFBIG);
    CHECK_RC(volume_file_write(w, INT64_MAX, "x", 1, &done, NULL, NULL), -EFBIG);
    CHECK_RC(volume_truncate_path(v, "/", 0, NULL), -EISDIR);
    CHECK_RC(volume_file_close(a, NULL), 0);
    CHECK_RC(volume_file_close(a, NULL), -EBADF);
    CHECK_RC(volume_file_stat(a, &st, NULL), -EBADF);
    volume_file_unref(a);
    volume_file_unref(w);
    volume_file_unref(volume_file_ref(r));
    CHECK_RC(volume_file_stat(r, &st, NULL), 0);
    CHECK(st.size == 4);
    volume_file_unref(r);
    closed(v);
}

/* ---- files without a name ---- */

static void test_unlinked_open(void)
{
    struct volume *v = fresh();
    struct volume_stat st;
    size_t done;
    CHECK_RC(volume_mkdir(v, "/d", NULL), 0);
    CHECK_RC(volume_touch(v, "/d/other", false, NULL), 0);
    uint64_t before = free_bytes(v);
    struct volume_handle *h = file(v, "/d/f", READ | WRITE | CREATE);
    CHECK_RC(volume_file_write(h, 0, "old", 3, &done, NULL, NULL), 0);
    CHECK_RC(volume_unlink(v, "/d/f", NULL), 0);
    CHECK_RC(stat_rc(v, "/d/f"), -ENOENT);
    put(v, "/d/f", "new");
    CHECK(reads(h, "old") && holds(v, "/d/f", "new"));
    CHECK_RC(volume_file_write(h, 3, "er", 2, &done, NULL, NULL), 0);
    CHECK(reads(h, "older") && holds(v, "/d/f", "new"));
    CHECK_RC(volume_file_stat(h, &st, NULL), 0);
    CHECK(st.size == 5 && st.nlink == 0);
    CHECK_RC(volume_unlink(v, "/d/f", NULL), 0);
    CHECK_RC(volume_unlink(v, "/d/other", NULL), 0);
    CHECK_RC(volume_rmdir(v, "/d", NULL), 0);
    CHECK(reads(h, "older"));
    CHECK_RC(volume_file_sync(h, NULL), 0);
    CHECK_RC(volume_file_close(h, NULL), 0);
    volume_file_unref(h);
    CHECK_RC(volume_sync(v, NULL), 0);
    CHECK(free_bytes(v) > before); /* the directory's cluster has gone too */
    closed(v);
}

/* The volume ends while an unlinked file is open: its space must not stay taken. */
static void test_close_with_unlinked(void)
{
    struct device *d = formatted(8 * MIB);
    struct volume *v = opened(d, true, VOLUME_LAZY);
    uint64_t before = free_bytes(v);
    size_t done;
    struct volume_handle *h = file(v, "/f", READ | WRITE | CREATE);
    CHECK_RC(volume_file_write(h, 0, "old", 3, &done, NULL, NULL), 0);
    CHECK_RC(volume_sync(v, NULL), 0);
    CHECK(free_bytes(v) < before);
    CHECK_RC(volume_unlink(v, "/f", NULL), 0);
    CHECK_RC(volume_close(v, NULL), 0);
    CHECK_RC(volume_file_read(h, 0, &done, 1, &done, NULL), -EBADF);
    volume_unref(v);
    volume_file_unref(h);
    v = opened(d, true, VOLUME_LAZY);
    CHECK(free_bytes(v) == before && !v->was_dirty);
    closed(v);
    device_unref(d);
}

/* ---- many, lists, extents ---- */

static void test_many(void)
{
    struct volume *v = fresh();
    struct volume_name names[] = {{"a", 1}, {"b", 1}, {"c", 1}};
    struct volume_name bad[] = {{"x", 1}, {"y/z", 3}};
    struct volume_name dots = {"..", 2}, nothing = {"", 0};
    size_t done;
    struct base_error e;
    CHECK_RC(volume_mkdir(v, "/d", NULL), 0);
    CHECK_RC(volume_touch(v, "/d/c", false, NULL), 0);
    CHECK_RC(volume_create_many(v, "/d", names, 3, &done, NULL), -EEXIST);
    CHECK(done == 2 && stat_rc(v, "/d/b") == 0);
    CHECK_RC(volume_remove_many(v, "/d", names, 3, &done, NULL), 0);
    CHECK(done == 3 && stat_rc(v, "/d/c") == -ENOENT);
    CHECK_RC(volume_remove_many(v, "/d", names, 3, &done, NULL), -ENOENT);
    CHECK(done == 0);
    CHECK_RC(volume_create_many(v, "/d", bad, 2, &done, &e), -EINVAL);
    CHECK(done == 1 && e.kind == BASE_ERROR_ARGUMENT && strcmp(e.field, "names") == 0);
    CHECK_RC(volume_create_many(v, "/d", &dots, 1, &done, NULL), -EINVAL);
    CHECK_RC(volume_create_many(v, "/d", &nothing, 1, &done, NULL), -EINVAL);
    CHECK_RC(volume_create_many(v, "/d/x", names, 1, &done, NULL), -ENOTDIR);
    CHECK_RC(volume_create_many(v, "/none", names, 1, &done, NULL), -ENOENT);
    CHECK_RC(volume_mkdir(v, "/d/a", NULL), 0);
    CHECK_RC(volume_remove_many(v, "/d", names, 1, &done, NULL), -EISDIR);
    CHECK_RC(volume_create_many(v, "/", names, 3, &done, NULL), 0);
    CHECK(done == 3);
    closed(v);
}

static void test_list(void)
{
    struct volume *v = fresh();
    struct volume_list l;
    char path[32], seen[100] = {0};
    CHECK_RC(volume_mkdir(v, "/d", NULL), 0);
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "/d/file%02d", i);
        CHECK_RC(volume_touch(v, path, false, NULL), 0);
    }
    volume_list_init(&l, 7);
    uint64_t cursor = 0;
    size_t total = 0;
    for (bool end = false; !end;) {
        volume_list_clear(&l);
        CHECK_RC(volume_list_path(v, "/d", &cursor, &l, &end, NULL), 0);
        CHECK(l.n <= 7 && (l.n > 0 || end));
        for (size_t i = 0; i < l.n; i++, total++) {
            const char *name = l.names + l.v[i].name_offset;
            CHECK(l.v[i].name_length == 6 && memcmp(name, "file", 4) == 0);
            seen[(name[4] - '0') * 10 + name[5] - '0']++;
        }
    }
    for (int i = 0; i < 100; i++)
        CHECK(seen[i] == 1);
    CHECK(total == 100);
    bool end;
    cursor = 0;
    CHECK_RC(volume_list_path(v, "/d/file00", &cursor, &l, &end, NULL), -ENOTDIR);
    CHECK_RC(volume_list_path(v, "/none", &cursor, &l, &end, NULL), -ENOENT);
    volume_list_free(&l);
    closed(v);
}

static void test_extents_row(void)
{
    struct volume_extents x;
    volume_extents_init(&x);
    CHECK_RC(volume_extents_add(&x, 0, 1000, 10, true), 0);
    CHECK_RC(volume_extents_add(&x, 10, 1010, 10, true), 0);  /* goes on: one extent */
    CHECK_RC(volume_extents_add(&x, 20, 1020, 10, false), 0); /* another state */
    CHECK_RC(volume_extents_add(&x, 30, 5000, 10, false), 0); /* elsewhere */
    CHECK_RC(volume_extents_add(&x, 50, 5010, 10, false), 0); /* a gap in the file */
    CHECK(x.n == 4 && x.v[0].length == 20 && x.v[3].file_offset == 50);
    volume_extents_free(&x);
    CHECK(x.v == NULL && x.n == 0);
}

static void test_raw(void)
{
    struct volume *v = fresh();
    struct base_error e;
    uint8_t b[16];
    CHECK_RC(volume_read_raw(v, 3, b, 8, NULL), 0);
    CHECK(memcmp(b, "EXFAT   ", 8) == 0);
    CHECK_RC(volume_read_raw(v, 509, b, 3, NULL), 0);
    CHECK(b[1] == 0x55 && b[2] == 0xAA);
    CHECK_RC(volume_read_raw(v, v->size - 1, b, 2, &e), -EINVAL);
    CHECK_RC(volume_read_raw(v, UINT64_MAX, b, 2, &e), -EINVAL);
    CHECK(e.kind == BASE_ERROR_ARGUMENT);
    closed(v);
}

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

/* A 1.44 MB floppy as DOS makes it: 2880 sectors, 2 FATs of 9, 224 root entries. */
static void floppy(uint8_t b[512])
{
    memset(b, 0, 512);
    base_put_le16(b + 11, 512);
    b[13] = 1;
    base_put_le16(b + 14, 1);
    b[16] = 2;
    base_put_le16(b + 17, 224);
    base_put_le16(b + 19, 2880);
    b[21] = 0xF0;
    base_put_le16(b + 22, 9);
    b[38] = 0x29;
    base_put_le32(b + 39, 0x12345678);
    memcpy(b + 43, "DISK 1     FAT12   ", 19);
    base_put_le16(b + 510, 0xAA55);
}

static void test_detect_fat(void)
{
    uint8_t b[512];
    struct volume_detected found;
    floppy(b);
    CHECK(detect_sector(b, &found) == 1);
    CHECK(strcmp(found.fs, "fat12") == 0 && found.size == 1474560 && !found.has_uuid);
    CHECK(found.has_serial && found.serial == 0x12345678 && strcmp(found.label, "DISK 1") == 0);
    /* 2 * 9 FAT sectors + 1 + 14 of the root leave N data sectors: 4084 is FAT12's most. */
    base_put_le16(b + 19, 4084 + 33);
    CHECK(detect_sector(b, &found) == 1 && strcmp(found.fs, "fat12") == 0);
    base_put_le16(b + 19, 4085 + 33);
    CHECK(detect_sector(b, &found) == 1 && strcmp(found.fs, "fat16") == 0);
    base_put_le16(b + 19, 33); /* no cluster at all */
    CHECK(detect_sector(b, &found) == 0);
    floppy(b);
    b[13] = 3;
    CHECK(detect_sector(b, &found) == 0);
    /* FAT32: no root entries, 16-bit fields zero, serial and label 28 bytes further on. */
    memset(b, 0, 512);
    base_put_le16(b + 11, 512);
    b[13] = 8;
    base_put_le16(b + 14, 32);
    b[16] = 2;
    b[21] = 0xF8;
    base_put_le32(b + 32, 4 * MIB);
    base_put_le32(b + 36, 4088);
    b[66] = 0x29;
    base_put_le32(b + 67, 0xCAFE);
    memcpy(b + 71, "NO NAME    FAT32   ", 19);
    CHECK(detect_sector(b, &found) == 1);
    CHECK(strcmp(found.fs, "fat32") == 0 && found.size == (uint64_t)4 * MIB * 512);
    CHECK(found.has_serial && found.serial == 0xCAFE && found.label[0] == 0);
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
    test_walk();
    test_remembered_way();
    test_make_and_remove();
    test_rename();
    test_rename_over_open();
    test_open_flags();
    test_read_and_write();
    test_unlinked_open();
    test_close_with_unlinked();
    test_many();
    test_list();
    test_extents_row();
    test_raw();
    test_dirsync();
    test_sync_mode();
    test_read_only();
    test_abandon();
    test_after_close();
    test_failing_device();
    test_open_volume();
    test_read_only_device();
    test_detect_fat();
    test_detect_others();
    test_trace();
    test_idle_directories();
    test_counters();
    test_reentrant_device();
    test_threads(false);
    test_threads(true);
    return 0;
}
