/* A volume's life, and the frame around every call: lock, operation number, and what the sync mode
 * asks for at the end.
 *
 * Calls take the lock, so a close waits for calls under way, and what comes later gets -EBADF. The
 * last reference frees the memory. Write-back errors are told to the call in which they happen;
 * what happens where no call waits (a handle that is dropped) is told to the next one. Either way
 * the volume stays marked dirty.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/os.h"
#include "volume/internal.h"

bool volume_is_inherited(const struct volume *v)
{
    return v->process != os_process_id();
}

/* ---- frame ---- */

int volume_enter(struct volume *v, const char *call, const char *path, struct base_error *e)
{
    uint64_t self = os_thread_id();
    /* A device that is Python code may call back into the volume it serves. */
    if (__atomic_load_n(&v->owner, __ATOMIC_RELAXED) == self)
        return -EDEADLK;
    if (volume_is_inherited(v))
        return -EBADF; /* whoever holds the lock is in another process */
    os_mutex_lock(v->lock);
    if (v->closed) {
        os_mutex_unlock(v->lock);
        return -EBADF;
    }
    __atomic_store_n(&v->owner, self, __ATOMIC_RELAXED);
    v->error = e ? e : &v->own_error;
    base_error_clear(v->error);
    v->counters.operations++;
    uint64_t op = ++v->op, object = 0;
    if (v->device->flags & DEVICE_TRACED) {
        op = device_begin(v->device, call, path);
        object = *path ? device_object(v->device, path) : 0;
    }
    cache_set_operation(v->cache, op, object);
    return 0;
}

static void unlock(struct volume *v)
{
    v->error = NULL;
    __atomic_store_n(&v->owner, 0, __ATOMIC_RELAXED);
    os_mutex_unlock(v->lock);
}

int volume_enter_change(struct volume *v, const char *call, const char *path, struct base_error *e)
{
    int rc = volume_enter(v, call, path, e);
    if (rc == 0 && !v->writable) {
        unlock(v);
        rc = -EROFS;
    }
    return rc;
}

void volume_defer(struct volume *v, int rc)
{
    if (rc >= 0)
        return;
    v->failed = true;
    if (v->deferred == 0)
        v->deferred = rc;
}

/* A medium that fails is marked so, if it still takes that: after the call in which it failed, and
 * with every sync until it is done. What the call says does not depend on it. */
static void note_failure(struct volume *v, bool again)
{
    uint32_t failures = cache_failures(v->cache);
    if (!v->writable || v->media_failure || failures == (again ? 0 : v->failures_answered))
        return;
    v->media_failure = v->driver->mark_failure(v) == 0;
    v->failures_answered = cache_failures(v->cache);
}

int volume_write_back(struct volume *v, bool clean)
{
    note_failure(v, true);
    int rc = volume_write_dirty_nodes(v);
    int r = v->driver->sync(v, clean && !v->failed);
    rc = rc < 0 ? rc : r;
    if (rc < 0)
        v->failed = true;
    return rc;
}

int volume_end_of_change(struct volume *v, enum volume_change change)
{
    int rc = 0;
    if (change == VOLUME_UNCHANGED || v->sync == VOLUME_LAZY || !v->writable)
        return 0;
    if (v->sync == VOLUME_SYNC)
        return volume_write_back(v, false);
    if (change != VOLUME_CHANGED_DIRECTORY)
        return 0;
    rc = volume_write_changed_nodes(v);
    int r = cache_commit(v->cache, CACHE_REMOVAL, true);
    rc = rc < 0 ? rc : r;
    if (rc < 0)
        v->failed = true;
    return rc;
}

int volume_balance(struct volume *v)
{
    int rc = cache_balance(v->cache);
    if (rc < 0)
        v->failed = true;
    return rc;
}

int volume_leave(struct volume *v, enum volume_change change, int rc)
{
    if (v->idle_count > volume_idle_limit(v))
        volume_nodes_trim(v, volume_idle_limit(v));
    int r = volume_end_of_change(v, change);
    if (rc >= 0 && r < 0)
        rc = r;
    r = volume_balance(v);
    if (rc >= 0 && r < 0)
        rc = r;
    note_failure(v, false);
    if (rc >= 0 || rc == v->deferred) {
        rc = v->deferred < 0 ? v->deferred : rc;
        v->deferred = 0;
    }
    unlock(v);
    volume_reap_if_free(v);
    return rc;
}

/* For what has no caller to tell; false: somebody is inside. */
static bool enter_if_free(struct volume *v)
{
    if (!os_mutex_trylock(v->lock))
        return false;
    __atomic_store_n(&v->owner, os_thread_id(), __ATOMIC_RELAXED);
    v->error = &v->own_error;
    base_error_clear(v->error);
    if (volume_is_inherited(v))
        v->closed = true; /* what is let go of changes nothing */
    if (!v->closed)
        cache_set_operation(v->cache, ++v->op, 0);
    return true;
}

void volume_reap_if_free(struct volume *v)
{
    while (__atomic_load_n(&v->doomed, __ATOMIC_SEQ_CST) && enter_if_free(v)) {
        volume_handles_reap(v);
        unlock(v);
    }
}

/* ---- budgets ---- */

/* However small the budget is, the blocks that one operation holds have room. */
enum { CACHE_LEAST = 64 << 10 };

static size_t budget_eighths(const struct volume *v, uint64_t n)
{
    return (size_t)base_min(v->policy.memory_budget / 8 * n, SIZE_MAX);
}

static size_t cache_part(const struct volume *v)
{
    return (size_t)base_max(budget_eighths(v, 2), CACHE_LEAST);
}

static struct names_policy names_part(const struct volume_policy *p)
{
    struct names_policy n = {.filter = p->name_filter,
                             .index = p->name_index,
                             .holes = p->empty_hint == VOLUME_HINT_RETAINED};
    return n;
}

/* Two eighths for blocks, one for the driver's own tables; and five for names, so that by default
 * the index of the largest directory that there can be has room. */
void volume_divide_budget(struct volume *v)
{
    struct names_policy names = names_part(&v->policy);
    cache_set_budget(v->cache, cache_part(v));
    names_cache_set_policy(v->names, &names);
    names_cache_set_budget(v->names, budget_eighths(v, 5));
    v->driver->budget_changed(v);
}

/* ---- opening ---- */

void volume_options_init(struct volume_options *o)
{
    memset(o, 0, sizeof *o);
    o->sync = VOLUME_LAZY;
    o->policy = (struct volume_policy){.empty_hint = VOLUME_HINT_RETAINED,
                                       .name_filter = true,
                                       .name_index = true,
                                       .entry_sync = VOLUME_SYNC_SET,
                                       .preallocate = true,
                                       .free_scan = VOLUME_SCAN_INDEX,
                                       .memory_budget = VOLUME_MEMORY_BUDGET_DEFAULT};
}

static struct volume *volume_new(struct device *d, const struct volume_options *o)
{
    struct volume *v = calloc(1, sizeof *v);
    struct os_mutex *lock = v ? os_mutex_new() : NULL;
    if (!lock) {
        free(v);
        return NULL;
    }
    v->lock = lock;
    v->process = os_process_id();
    v->refs = 1;
    v->device = device_ref(d);
    env_init_system(&v->own_env);
    v->env = o->env ? o->env : &v->own_env;
    v->pool = o->pool ? names_pool_ref(o->pool) : NULL;
    v->policy = o->policy;
    v->sync = o->sync;
    v->writable = o->writable;
    v->from_backup = o->use_backup;
    base_map_init(&v->nodes);
    return v;
}

static int set_zone(struct volume *v, const struct volume_options *o)
{
    if (o->zone)
        return base_zone_copy(&v->zone, o->zone);
    if (v->driver->local_times && o->local_zone)
        return o->local_zone(o->local_zone_context, &v->zone);
    return 0;
}

static int mount(struct volume *v, const struct volume_options *o)
{
    struct names_policy names = names_part(&v->policy);
    uint64_t op = ++v->op;
    int rc = set_zone(v, o);
    if (rc == 0)
        rc = cache_open(v->device, cache_part(v), &v->counters.cache, &v->cache);
    if (rc < 0)
        return rc;
    v->names = names_cache_new(v->pool, budget_eighths(v, 5), &names, &v->counters.names);
    if (!v->names)
        return -ENOMEM;
    if (v->device->flags & DEVICE_TRACED)
        op = device_begin(v->device, "open", "");
    cache_set_operation(v->cache, op, 0);
    v->codepage = o->codepage;
    rc = v->driver->mount(v);
    v->codepage = NULL;
    return rc;
}

/* Frees everything but the structure and its lock. Writes nothing. Returns the device, which the
 * caller lets go of without the lock: its memory or file may be somebody's who waits for it. */
static struct device *end(struct volume *v)
{
    struct device *d = v->device;
    v->closed = true;
    volume_handles_reap(v);
    volume_handles_detach(v);
    volume_walk_free(v);
    volume_nodes_end(v);
    if (v->private)
        v->driver->unmount(v);
    v->private = NULL;
    if (v->names)
        names_cache_delete(v->names);
    if (v->cache)
        cache_close(v->cache);
    v->names = NULL;
    v->cache = NULL;
    if (v->pool)
        names_pool_unref(v->pool);
    if (v->claimed)
        device_release(v->device);
    v->claimed = false;
    v->device = NULL;
    base_map_free(&v->nodes);
    return d;
}

static void destroy(struct volume *v)
{
    device_unref(v->device);
    base_zone_free(&v->zone);
    os_mutex_delete(v->lock);
    free(v);
}

int volume_open(struct device *d, const char *fs, const struct volume_options *o,
                struct volume **out, struct base_error *e)
{
    const struct volume_driver *driver = NULL;
    *out = NULL;
    base_error_clear(e);
    if (o->writable && o->use_backup)
        return base_bad_argument(e, "use_backup", "a backup boot region is for reading only");
    if (o->writable && (d->flags & DEVICE_READONLY))
        return -EROFS;
    struct volume *v = volume_new(d, o);
    if (!v)
        return -ENOMEM;
    v->error = e ? e : &v->own_error;
    int rc = o->writable ? device_claim(d) : 0;
    v->claimed = o->writable && rc == 0;
    if (rc == 0)
        rc = volume_find_driver(d, fs, o->use_backup, &driver, e);
    v->driver = driver;
    v->fs = driver ? driver->name : NULL;
    if (rc == 0)
        rc = mount(v, o);
    if (rc == 0 && fs && strcmp(fs, v->fs) != 0 && strcmp(fs, driver->name) != 0)
        rc = base_bad_argument(e, "fs", "the volume is of another kind");
    v->error = NULL;
    if (rc < 0) {
        if (rc == -BASE_ECORRUPT && !o->use_backup)
            volume_mention_backup(d, e);
        device_unref(end(v));
        destroy(v);
        return rc;
    }
    *out = v;
    return 0;
}

/* ---- ending ---- */

static int close_writing(struct volume *v)
{
    volume_handles_reap(v);
    volume_handles_detach(v);
    int rc = volume_write_back(v, true);
    note_failure(v, false);
    int r = cache_commit(v->cache, CACHE_CLEAN, true);
    rc = rc < 0 ? rc : r;
    return rc < 0 ? rc : v->deferred;
}

int volume_close(struct volume *v, struct base_error *e)
{
    int rc = volume_enter(v, "close", "", e);
    if (rc < 0)
        return rc == -EBADF ? 0 : rc;
    if (v->writable)
        rc = close_writing(v);
    struct device *d = end(v);
    unlock(v);
    device_unref(d);
    return rc;
}

int volume_abandon(struct volume *v)
{
    int rc = volume_enter(v, "abandon", "", NULL);
    if (rc < 0)
        return rc == -EBADF ? 0 : rc;
    struct device *d = end(v);
    unlock(v);
    device_unref(d);
    return 0;
}

struct volume *volume_ref(struct volume *v)
{
    __atomic_add_fetch(&v->refs, 1, __ATOMIC_RELAXED);
    return v;
}

/* The parent's volume: nothing is written, and what a thread of the parent has left half-way stays
 * as it is, but for the device. */
static void let_go_of_inherited(struct volume *v)
{
    if (!v->device) { /* it had ended before */
        destroy(v);
    } else if (enter_if_free(v)) {
        struct device *d = end(v);
        unlock(v);
        device_unref(d);
        destroy(v);
    } else {
        device_unref(v->device);
    }
}

void volume_unref(struct volume *v)
{
    if (__atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (volume_is_inherited(v)) {
        let_go_of_inherited(v);
        return;
    }
    if (!v->closed)
        volume_abandon(v);
    destroy(v);
}

int volume_sync(struct volume *v, struct base_error *e)
{
    int rc = volume_enter(v, "sync", "", e);
    if (rc < 0)
        return rc;
    if (v->writable)
        rc = volume_write_back(v, false);
    return volume_leave(v, VOLUME_UNCHANGED, rc);
}
