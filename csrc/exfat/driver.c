/* The driver's table, and what concerns the whole volume. */
#include "exfat/exfat.h"

#include <errno.h>
#include <stdlib.h>

static int exfat_sync(struct volume *v, bool clean)
{
    struct exfat *x = exfat_of(v);
    int rc = 0;
    while (clean && rc == 0 && x->pins_n > 0) {
        rc = exfat_unpin(x->pins[x->pins_n - 1]);
    }
    if (rc == 0) {
        rc = volume_write_dirty_nodes(v);
    }
    if (rc == 0) {
        rc = cache_commit(v->cache, CACHE_REMOVAL, true);
    }
    if (rc == 0) {
        rc = exfat_apply_pending(x);
    }
    if (rc == 0 && clean) {
        rc = cache_commit(v->cache, CACHE_REMOVAL, false);
    }
    if (rc == 0 && clean) {
        rc = exfat_mark_clean(x);
    }
    return rc < 0 ? rc : cache_commit(v->cache, CACHE_CLEAN, true);
}

static int exfat_statfs(struct volume *v, struct volume_statfs *out)
{
    struct exfat *x = exfat_of(v);
    uint32_t free_clusters;
    int rc = exfat_bitmap_count(x, &free_clusters);
    if (rc < 0) {
        return rc;
    }
    uint64_t all_free = base_min(free_clusters + x->pending_clusters, x->g.clusters);
    out->clusters = x->g.clusters;
    out->free_clusters = all_free;
    out->total = out->clusters << x->g.cluster_shift;
    out->free = all_free << x->g.cluster_shift;
    out->used = out->total - out->free;
    out->cluster_size = x->cluster_size;
    out->sector_size = v->sector_size;
    out->bad_clusters = 0;
    out->name_max = EXFAT_NAME_MAX;
    return 0;
}

static int exfat_trim(struct volume *v, uint64_t min_length, uint64_t *trimmed)
{
    struct exfat *x = exfat_of(v);
    /* Only what is free on the device may be discarded. */
    int rc = volume_write_dirty_nodes(v);
    if (rc == 0) {
        rc = exfat_commit(x);
    }
    if (rc == 0) {
        rc = cache_commit(v->cache, CACHE_REMOVAL, true);
    }
    return rc < 0 ? rc : exfat_bitmap_trim(x, min_length, trimmed);
}

static size_t exfat_memory_held(struct volume *v)
{
    struct exfat *x = exfat_of(v);
    size_t held = sizeof *x + x->pending_cap * sizeof *x->pending + x->cuts_cap * sizeof *x->cuts;
    if (x->block_free) {
        held += ((x->g.clusters >> 15) + 1) * sizeof *x->block_free;
    }
    for (unsigned i = 0; i < 2; i++) {
        held += base_runs_bytes(&x->bitmap[i].chain.runs);
    }
    return held;
}

/* What is cheap to make again: the bitmap's summaries. */
static size_t exfat_shrink(struct volume *v, size_t bytes)
{
    struct exfat *x = exfat_of(v);
    size_t before = exfat_memory_held(v);
    if (bytes == 0) {
        return 0;
    }
    free(x->block_free);
    x->block_free = NULL;
    return before - exfat_memory_held(v);
}

/* Hints are valid under the policy that made them. */
static void exfat_budget_changed(struct volume *v)
{
    struct volume_node *node;
    size_t cursor = 0;
    uint64_t key;
    while ((node = base_map_next(&v->nodes, &cursor, &key)) != NULL) {
        exfat_node_of(node)->hint.valid = false;
        exfat_node_of(node)->walked = false;
    }
}

const struct volume_driver exfat_driver = {
    .name = "exfat",
    .mount = exfat_mount,
    .unmount = exfat_unmount,
    .lookup = exfat_lookup,
    .list = exfat_list,
    .create = exfat_create,
    .remove = exfat_remove,
    .rename = exfat_rename,
    .stat = exfat_stat,
    .setattr = exfat_setattr,
    .read = exfat_read,
    .write = exfat_write,
    .resize = exfat_resize,
    .allocate = exfat_allocate,
    .extents = exfat_extents,
    .get_extras = exfat_get_extras,
    .set_extras = exfat_set_extras,
    .name_of = exfat_name_of,
    .write_node = exfat_write_node,
    .release = exfat_release,
    .sync = exfat_sync,
    .statfs = exfat_statfs,
    .get_label = exfat_get_label,
    .set_label = exfat_set_label,
    .set_serial = exfat_set_serial,
    .trim = exfat_trim,
    .shrink = exfat_shrink,
    .memory_held = exfat_memory_held,
    .budget_changed = exfat_budget_changed,
};
