/* Operations of the volume layer over exFAT: what open(2), unlink(2), rename(2) and their kin say.
 */
#include "volume_help.h"

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
    put(v, "/d/e/deep", "");
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
        {"/d/e/deep", "/d", 0, -ENOTEMPTY},
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

/* A new file in the place of an unlinked one that is still open: the end of the old one must not
 * touch it. */
static void test_place_taken(void)
{
    struct volume *v = fresh();
    struct volume_stat old_stat, new_stat;
    size_t done;
    struct volume_handle *old = file(v, "/f", READ | WRITE | CREATE);
    CHECK_RC(volume_file_stat(old, &old_stat, NULL), 0);
    CHECK_RC(volume_unlink(v, "/f", NULL), 0);
    struct volume_handle *new = file(v, "/f", READ | WRITE | CREATE);
    CHECK_RC(volume_file_stat(new, &new_stat, NULL), 0);
    CHECK(new_stat.inode == old_stat.inode);
    volume_file_unref(old);
    CHECK_RC(volume_file_write(new, 0, "new", 3, &done, NULL, NULL), 0);
    CHECK(holds(v, "/f", "new")); /* one file, one node */
    volume_file_unref(new);
    closed(v);
}

/* Space kept beyond the end of a file that nobody has open any more. */
static void test_keep_size(void)
{
    struct volume *v = fresh();
    struct volume_stat st;
    put(v, "/f", "x");
    CHECK_RC(volume_fallocate_path(v, "/f", 0, MIB, true, NULL), 0);
    CHECK_RC(volume_stat_path(v, "/f", &st, NULL), 0);
    CHECK(st.size == 1 && st.allocated == MIB);
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

static void test_whole(void)
{
    struct volume *v = fresh();
    struct volume_extents x, y;
    struct volume_statfs s;
    struct base_error e;
    char label[64];
    uint64_t trimmed;
    CHECK_RC(volume_label_set(v, "Label 1", 7, NULL), 0);
    CHECK_RC(volume_label_get(v, label, sizeof label, NULL), 7);
    CHECK(memcmp(label, "Label 1", 7) == 0);
    CHECK_RC(volume_serial_set(v, 0x1234ABCD, NULL), 0);
    CHECK(v->serial == 0x1234ABCD);
    CHECK_RC(volume_statfs_get(v, &s, &e), 0);
    CHECK(s.total == s.used + s.free && s.clusters * s.cluster_size == s.total);
    put(v, "/f", "text");
    volume_extents_init(&x);
    volume_extents_init(&y);
    CHECK_RC(volume_extents_path(v, "/f", &x, NULL), 0);
    struct volume_handle *h = file(v, "/f", READ);
    CHECK_RC(volume_file_extents(h, &y, NULL), 0);
    CHECK(x.n == 1 && x.v[0].file_offset == 0 && x.v[0].length == 4 && x.v[0].written);
    CHECK(y.n == 1 && y.v[0].device_offset == x.v[0].device_offset);
    CHECK_RC(volume_read_raw(v, x.v[0].device_offset, label, 4, NULL), 0);
    CHECK(memcmp(label, "text", 4) == 0);
    CHECK_RC(volume_statfs_get(v, &s, &e), 0);
    CHECK_RC(volume_sync(v, NULL), 0);
    CHECK_RC(volume_trim(v, 0, &trimmed, NULL), 0);
    CHECK(trimmed == s.free && reads(h, "text"));
    volume_extents_free(&x);
    volume_extents_free(&y);
    volume_file_unref(h);
    closed(v);
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
    test_place_taken();
    test_keep_size();
    test_close_with_unlinked();
    test_many();
    test_list();
    test_extents_row();
    test_whole();
    test_raw();
    return 0;
}
