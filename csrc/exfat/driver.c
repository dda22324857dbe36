/* The driver's table, and what concerns the whole volume. */
#include "exfat/exfat.h"

static int exfat_sync(struct volume *v, bool clean)
{
    return clusters_sync(v, clean, exfat_mark_clean);
}

static size_t exfat_memory_held(struct volume *v)
{
    struct exfat *x = exfat_of(v);
    size_t held = sizeof *x + clusters_memory_held(&x->heap);
    for (unsigned i = 0; i < 2; i++) {
        held += base_runs_bytes(&x->bitmap[i].chain.runs);
    }
    return held;
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
    .stat = clusters_stat,
    .setattr = clusters_setattr,
    .read = clusters_read,
    .write = clusters_write,
    .resize = clusters_resize,
    .allocate = clusters_allocate,
    .extents = clusters_extents,
    .get_extras = exfat_get_extras,
    .set_extras = exfat_set_extras,
    .name_of = exfat_name_of,
    .write_node = exfat_write_node,
    .release = clusters_release,
    .mark_failure = exfat_mark_failure,
    .sync = exfat_sync,
    .statfs = clusters_statfs,
    .count_bad = clusters_count_bad,
    .get_label = exfat_get_label,
    .set_label = exfat_set_label,
    .set_serial = exfat_set_serial,
    .trim = clusters_trim_volume,
    .shrink = clusters_shrink,
    .memory_held = exfat_memory_held,
    .budget_changed = clusters_policy_changed,
};
