#include "volume_help.h"

struct device *formatted(uint64_t size)
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

struct volume *opened(struct device *d, bool writable, enum volume_sync sync)
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
void closed(struct volume *v)
{
    CHECK_RC(volume_close(v, NULL), 0);
    volume_unref(v);
}

struct volume *fresh(void)
{
    struct device *d = formatted(8 * MIB);
    struct volume *v = opened(d, true, VOLUME_LAZY);
    device_unref(d);
    return v;
}

struct volume_handle *file(struct volume *v, const char *path, uint32_t flags)
{
    struct volume_handle *h;
    CHECK_RC(volume_file_open(v, path, flags, &h, NULL), 0);
    return h;
}

void put(struct volume *v, const char *path, const char *text)
{
    size_t done;
    struct volume_handle *h = file(v, path, WRITE | CREATE | TRUNCATE);
    CHECK_RC(volume_file_write(h, 0, text, strlen(text), &done, NULL, NULL), 0);
    CHECK(done == strlen(text));
    CHECK_RC(volume_file_close(h, NULL), 0);
    volume_file_unref(h);
}

bool reads(struct volume_handle *h, const char *text)
{
    char buffer[256];
    size_t done;
    CHECK_RC(volume_file_read(h, 0, buffer, sizeof buffer, &done, NULL), 0);
    return done == strlen(text) && memcmp(buffer, text, done) == 0;
}

bool holds(struct volume *v, const char *path, const char *text)
{
    struct volume_handle *h = file(v, path, READ);
    bool same = reads(h, text);
    CHECK_RC(volume_file_close(h, NULL), 0);
    volume_file_unref(h);
    return same;
}

int stat_rc(struct volume *v, const char *path)
{
    struct volume_stat st;
    return volume_stat_path(v, path, &st, NULL);
}

uint64_t free_bytes(struct volume *v)
{
    struct volume_statfs s;
    CHECK_RC(volume_statfs_get(v, &s, NULL), 0);
    return s.free;
}

struct volume_counters counters(struct volume *v)
{
    struct volume_counters c;
    CHECK_RC(volume_counters_get(v, &c, NULL), 0);
    return c;
}

int open_rc(struct volume *v, const char *path, uint32_t flags)
{
    struct volume_handle *h;
    int rc = volume_file_open(v, path, flags, &h, NULL);
    CHECK((rc == 0) == (h != NULL));
    if (h)
        volume_file_unref(h);
    return rc;
}
