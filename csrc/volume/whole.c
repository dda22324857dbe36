/* What concerns a volume as a whole: space, label, counters, memory, policy. */
#include <string.h>

#include "base/bytes.h"
#include "volume/internal.h"

int volume_statfs_get(struct volume *v, struct volume_statfs *out, struct base_error *e)
{
    int rc = volume_enter(v, "statfs", "", e);
    if (rc < 0)
        return rc;
    return volume_leave(v, VOLUME_UNCHANGED, v->driver->statfs(v, out));
}

int volume_label_get(struct volume *v, char *buffer, size_t cap, struct base_error *e)
{
    int rc = volume_enter(v, "label", "", e);
    if (rc < 0)
        return rc;
    return volume_leave(v, VOLUME_UNCHANGED, v->driver->get_label(v, buffer, cap));
}

int volume_count_bad(struct volume *v, uint32_t *bad, struct base_error *e)
{
    int rc = volume_enter(v, "count_bad", "", e);
    if (rc < 0)
        return rc;
    return volume_leave(v, VOLUME_UNCHANGED, v->driver->count_bad(v, bad));
}

int volume_label_set(struct volume *v, const char *label, size_t n, struct base_error *e)
{
    int rc = volume_enter_change(v, "set_label", "", e);
    if (rc < 0)
        return rc;
    return volume_leave(v, VOLUME_CHANGED_DIRECTORY, v->driver->set_label(v, label, n));
}

int volume_serial_set(struct volume *v, uint32_t serial, struct base_error *e)
{
    int rc = volume_enter_change(v, "set_serial", "", e);
    if (rc < 0)
        return rc;
    return volume_leave(v, VOLUME_CHANGED_DIRECTORY, v->driver->set_serial(v, serial));
}

int volume_trim(struct volume *v, uint64_t min_length, uint64_t *trimmed, struct base_error *e)
{
    *trimmed = 0;
    int rc = volume_enter_change(v, "trim", "", e);
    if (rc < 0)
        return rc;
    return volume_leave(v, VOLUME_UNCHANGED, v->driver->trim(v, min_length, trimmed));
}

int volume_read_raw(struct volume *v, uint64_t offset, void *buffer, size_t n, struct base_error *e)
{
    int rc = volume_enter(v, "read_raw", "", e);
    if (rc < 0)
        return rc;
    if (offset > v->size || n > v->size - offset)
        rc = base_bad_argument(v->error, "offset", "beyond the end of the volume");
    else if (n)
        rc = cache_read(v->cache, offset, buffer, n);
    return volume_leave(v, VOLUME_UNCHANGED, rc);
}

/* ---- counters ---- */

int volume_counters_get(struct volume *v, struct volume_counters *out, struct base_error *e)
{
    int rc = volume_enter(v, "counters", "", e);
    if (rc < 0)
        return rc;
    v->counters.operations--; /* looking does not count */
    *out = v->counters;
    return volume_leave(v, VOLUME_UNCHANGED, 0);
}

int volume_counters_reset(struct volume *v, struct base_error *e)
{
    int rc = volume_enter(v, "counters", "", e);
    if (rc < 0)
        return rc;
    memset(&v->counters, 0, sizeof v->counters);
    return volume_leave(v, VOLUME_UNCHANGED, 0);
}

/* ---- memory ---- */

static size_t held(struct volume *v)
{
    return cache_held(v->cache) + names_cache_held(v->names) + v->driver->memory_held(v) +
           base_map_bytes(&v->nodes);
}

int volume_memory_held(struct volume *v, size_t *out, struct base_error *e)
{
    int rc = volume_enter(v, "memory", "", e);
    if (rc < 0)
        return rc;
    *out = held(v);
    return volume_leave(v, VOLUME_UNCHANGED, 0);
}

/* The driver's tables first (cheap to make again), blocks last (they may have to be written). */
int volume_shrink(struct volume *v, size_t bytes, size_t *freed, struct base_error *e)
{
    *freed = 0;
    int rc = volume_enter(v, "shrink", "", e);
    if (rc < 0)
        return rc;
    size_t before = held(v), now, target = bytes < before ? before - bytes : 0;
    v->driver->shrink(v, bytes);
    now = held(v);
    if (now > target)
        names_cache_shrink(v->names, now - target);
    now = held(v);
    if (now > target) {
        size_t blocks = cache_held(v->cache);
        cache_set_budget(v->cache, blocks - (size_t)base_min(blocks, now - target));
        rc = volume_balance(v);
        volume_divide_budget(v);
    }
    if (held(v) > target) {
        volume_walk_forget(v);
        volume_nodes_trim(v, 0);
    }
    now = held(v);
    *freed = before > now ? before - now : 0;
    return volume_leave(v, VOLUME_UNCHANGED, rc);
}

/* ---- switches ---- */

int volume_set_sync(struct volume *v, enum volume_sync sync, struct base_error *e)
{
    int rc = volume_enter(v, "set_sync", "", e);
    if (rc < 0)
        return rc;
    /* What was written lazily until now is held to the new mode too. */
    if (v->writable && sync != VOLUME_LAZY && v->sync == VOLUME_LAZY)
        rc = volume_write_back(v, false);
    if (rc == 0)
        v->sync = sync;
    return volume_leave(v, VOLUME_UNCHANGED, rc);
}

int volume_policy_get(struct volume *v, struct volume_policy *out, struct base_error *e)
{
    int rc = volume_enter(v, "policy", "", e);
    if (rc < 0)
        return rc;
    *out = v->policy;
    return volume_leave(v, VOLUME_UNCHANGED, 0);
}

int volume_set_policy(struct volume *v, const struct volume_policy *policy, struct base_error *e)
{
    int rc = volume_enter(v, "set_policy", "", e);
    if (rc < 0)
        return rc;
    v->policy = *policy;
    volume_divide_budget(v);
    return volume_leave(v, VOLUME_UNCHANGED, 0);
}
