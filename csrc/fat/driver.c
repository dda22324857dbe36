/* The driver's table. */
#include "fat/fat.h"

static int fat_sync(struct volume *v, bool clean)
{
    return clusters_sync(v, clean, fat_mark_clean);
}

static size_t fat_memory_held(struct volume *v)
{
    struct fat *f = fat_of(v);
    return sizeof *f + clusters_memory_held(&f->heap) + fat_map_bytes(f);
}

/* The map is made again from the FAT when it is wanted. */
static size_t fat_shrink(struct volume *v, size_t bytes)
{
    size_t freed = bytes > 0 ? fat_map_bytes(fat_of(v)) : 0;
    if (bytes > 0) {
        fat_map_free(fat_of(v));
    }
    return freed + (freed < bytes ? clusters_shrink(v, bytes - freed) : 0);
}

const struct volume_driver fat_driver = {
    .name = "fat",
    .local_times = true,
    .mount = fat_mount,
    .unmount = fat_unmount,
    .lookup = fat_lookup,
    .list = fat_list,
    .create = fat_create,
    .remove = fat_remove,
    .rename = fat_rename,
    .stat = clusters_stat,
    .setattr = clusters_setattr,
    .read = clusters_read,
    .write = clusters_write,
    .resize = clusters_resize,
    .allocate = clusters_allocate,
    .extents = clusters_extents,
    .name_of = fat_name_of,
    .write_node = fat_write_node,
    .release = clusters_release,
    .mark_failure = fat_mark_failure,
    .sync = fat_sync,
    .statfs = clusters_statfs,
    .count_bad = clusters_count_bad,
    .get_label = fat_get_label,
    .set_label = fat_set_label,
    .set_serial = fat_set_serial,
    .trim = clusters_trim_volume,
    .shrink = fat_shrink,
    .memory_held = fat_memory_held,
    .budget_changed = clusters_policy_changed,
};
