#include "exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/partition.h"
#include "volume/volume.h"

/* Limits on one input, so that a slow image is found by a time-out and not made slow by us. */
enum { MAX_ENTRIES = 400, MAX_DIRECTORIES = 40, MAX_FILES = 100, SECTOR = 512 };

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Directories still to be walked. */
struct walk {
    char *queue[MAX_DIRECTORIES];
    size_t queued, next, entries, files;
};

static char *join(const char *directory, const char *name, size_t n)
{
    size_t front = strlen(directory);
    char *path = malloc(front + n + 2);
    REQUIRE(path != NULL);
    memcpy(path, directory, front);
    path[front] = '/';
    memcpy(path + front + 1, name, n);
    path[front + 1 + n] = '\0';
    return path;
}

static void read_file(struct volume *v, const char *path)
{
    struct volume_handle *h;
    if (volume_file_open(v, path, VOLUME_OPEN_READ, &h, NULL) < 0) {
        return;
    }
    uint8_t buffer[3000];
    struct volume_stat st;
    struct volume_extents extents = {0};
    size_t done = 0;
    if (volume_file_stat(h, &st, NULL) == 0) {
        REQUIRE(st.valid_size <= st.size);
        uint64_t places[] = {0, st.valid_size, st.size / 2, st.size};
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            uint64_t at = places[i] > 1000 ? places[i] - 1000 : 0;
            if (volume_file_read(h, at, buffer, sizeof buffer, &done, NULL) == 0) {
                REQUIRE(done <= sizeof buffer && done <= st.size - at);
            }
        }
        if (volume_file_extents(h, &extents, NULL) == 0) {
            for (size_t i = 0; i < extents.n; i++) {
                REQUIRE(extents.v[i].device_offset + extents.v[i].length <= v->size);
            }
        }
        free(extents.v);
    }
    (void)volume_file_close(h, NULL);
    volume_file_unref(h);
}

static void visit(struct volume *v, struct walk *w, const char *directory, const char *name,
                  size_t n, enum volume_kind kind)
{
    struct volume_stat st;
    char *path = join(directory, name, n);
    (void)volume_stat_path(v, path, &st, NULL);
    if (kind == VOLUME_DIRECTORY && w->queued < MAX_DIRECTORIES) {
        w->queue[w->queued++] = path;
        return;
    }
    if (kind == VOLUME_FILE && w->files++ < MAX_FILES) {
        read_file(v, path);
    }
    free(path);
}

static void walk_directory(struct volume *v, struct walk *w, const char *directory)
{
    struct volume_list list;
    uint64_t cursor = 0;
    bool end = false;
    volume_list_init(&list, 32);
    while (!end && w->entries < MAX_ENTRIES) {
        volume_list_clear(&list);
        if (volume_list_path(v, directory, &cursor, &list, &end, NULL) < 0) {
            break;
        }
        REQUIRE(end || list.n > 0);
        for (size_t i = 0; i < list.n; i++) {
            const struct volume_dirent *entry = &list.v[i];
            w->entries++;
            visit(v, w, directory, list.names + entry->name_offset, entry->name_length,
                  entry->stat.kind);
        }
    }
    volume_list_free(&list);
}

static void walk_volume(struct volume *v)
{
    struct walk w = {0};
    walk_directory(v, &w, "");
    while (w.next < w.queued) {
        walk_directory(v, &w, w.queue[w.next]);
        free(w.queue[w.next++]);
    }
    char label[256];
    struct volume_statfs fs;
    size_t held;
    (void)volume_label_get(v, label, sizeof label, NULL);
    if (volume_statfs_get(v, &fs, NULL) == 0) {
        REQUIRE(fs.used <= fs.total && fs.free <= fs.total);
    }
    REQUIRE(volume_memory_held(v, &held, NULL) == 0);
    REQUIRE(held <= 2 * VOLUME_MEMORY_BUDGET_DEFAULT);
}

static void change_file(struct volume *v, const char *path)
{
    static const uint8_t data[9000] = {1, 2, 3};
    struct volume_handle *h;
    size_t done;
    uint32_t flags = VOLUME_OPEN_READ | VOLUME_OPEN_WRITE | VOLUME_OPEN_CREATE;
    if (volume_file_open(v, path, flags, &h, NULL) < 0) {
        return;
    }
    (void)volume_file_write(h, 0, data, sizeof data, &done, NULL, NULL);
    (void)volume_file_write(h, 60000, data, 5000, &done, NULL, NULL);
    (void)volume_file_resize(h, 20000, NULL);
    (void)volume_file_allocate(h, 0, 100000, true, NULL);
    (void)volume_file_resize(h, 100, NULL);
    (void)volume_file_sync(h, NULL);
    (void)volume_file_close(h, NULL);
    volume_file_unref(h);
}

/* Changes what is there: the first entries of the root are renamed, cut and removed too. */
static void change_volume(struct volume *v)
{
    struct volume_list list;
    uint64_t cursor = 0;
    bool end;
    change_file(v, "/fresh file with a name of several entries.bin");
    (void)volume_mkdir(v, "/fresh", NULL);
    for (int i = 0; i < 40; i++) {
        char path[32];
        snprintf(path, sizeof path, "/fresh/%d", i);
        (void)volume_touch(v, path, false, NULL);
    }
    volume_list_init(&list, 12);
    if (volume_list_path(v, "/", &cursor, &list, &end, NULL) == 0) {
        for (size_t i = 0; i < list.n; i++) {
            const struct volume_dirent *entry = &list.v[i];
            char *path = join("", list.names + entry->name_offset, entry->name_length);
            change_file(v, path);
            (void)volume_rename(v, path, "/fresh/moved here", 0, NULL);
            (void)volume_unlink(v, "/fresh/moved here", NULL);
            (void)volume_rmdir(v, path, NULL);
            free(path);
        }
    }
    volume_list_free(&list);
    (void)volume_label_set(v, "FRESH", 5, NULL);
    (void)volume_sync(v, NULL);
}

static void with_volume(struct device *d, bool writable, bool use_backup)
{
    struct env env;
    struct volume *v;
    struct volume_options options;
    struct base_error error = {0};
    volume_options_init(&options);
    env_init_fixed(&env, 1, 1700000000000000000, 0);
    options.env = &env;
    options.writable = writable;
    options.use_backup = use_backup;
    int status = volume_open(d, NULL, &options, &v, &error);
    if (status < 0) {
        REQUIRE(status != -BASE_ECORRUPT || error.kind == BASE_ERROR_DAMAGE);
        return;
    }
    walk_volume(v);
    if (writable) {
        change_volume(v);
        walk_volume(v);
    }
    (void)volume_close(v, NULL);
    volume_unref(v);
}

void exercise_image(uint8_t *image, size_t n)
{
    static struct device_partition_table table;
    struct volume_detected detected;
    struct device *whole, *branch;
    n -= n % SECTOR;
    if (n == 0 || device_buffer_new(image, n, false, SECTOR, NULL, NULL, &whole) < 0) {
        return;
    }
    (void)volume_detect(whole, &detected);
    (void)device_partitions_read(whole, &table, NULL);
    with_volume(whole, false, false);
    with_volume(whole, false, true);
    if (device_branch_new(whole, &branch) == 0) {
        with_volume(branch, true, false);
        with_volume(branch, false, false);
        device_unref(branch);
    }
    device_unref(whole);
}
