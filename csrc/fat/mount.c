/* Mounting, the marks of the volume, and FSInfo. */
#include "fat/fat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum clusters_entry entry_kind(const uint8_t *entry)
{
    if (entry[0] == FAT_DELETED) {
        return CLUSTERS_ENTRY_FREE;
    }
    /* Long names without a file and the dot entries do not keep a directory from being empty. */
    bool is_long = (entry[FAT_DIR_ATTRIBUTES] & FAT_ATTR_LONG_NAME_MASK) == FAT_ATTR_LONG_NAME;
    bool dots = memcmp(entry, ".          ", FAT_NAME_BYTES) == 0 ||
                memcmp(entry, "..         ", FAT_NAME_BYTES) == 0;
    return is_long || dots ? CLUSTERS_ENTRY_DOTS : CLUSTERS_ENTRY_USED;
}

static const struct clusters_ops fat_clusters = {
    .next = fat_table_next,
    .link = fat_table_link,
    .fat_offset = fat_table_offset,
    .pin = fat_map_pin,
    .mark = fat_map_mark,
    .bit_offset = fat_map_offset,
    .mark_dirty = fat_mark_dirty,
    .entry = entry_kind,
    .scan_free = fat_dir_scan_free,
};

static void set_geometry(struct fat *f)
{
    struct clusters *h = &f->heap;
    struct volume *v = h->volume;
    const struct fat_geometry *g = &f->g;
    h->ops = &fat_clusters;
    h->size = g->cluster_size;
    h->shift = base_log2(g->cluster_size);
    h->count = g->clusters;
    h->offset = g->heap_offset;
    h->directory_max = (uint64_t)FAT_DIRECTORY_ENTRIES_MAX * CLUSTERS_ENTRY_SIZE;
    h->file_max = UINT32_MAX;
    h->least_run = 1;
    h->names_per_three = 3; /* an entry has one, and two have two */
    h->sector_links = g->bits == 12 ? 0 : v->device->sector_size * 8 / g->bits;
    h->map_name = "FAT";
    h->next_free = CLUSTERS_FIRST;
    f->table = (uint64_t)g->reserved_sectors * g->sector_size;
    f->table_bytes = (uint64_t)g->fat_sectors * g->sector_size;
    v->fs = g->bits == 12 ? "fat12" : g->bits == 16 ? "fat16" : "fat32";
    v->cluster_size = g->cluster_size;
    v->sector_size = g->sector_size;
    v->serial = g->serial;
    v->size = g->sectors * g->sector_size;
    v->was_dirty = g->dirty;
    v->media_failure = g->hard_error;
}

/* FAT[1] says whether the volume was left clean, besides the boot sector [FAT]. */
static int read_marks(struct fat *f)
{
    struct volume *v = f->heap.volume;
    uint32_t value;
    int rc = f->g.bits == 12 ? 0 : fat_table_get(f, 1, &value);
    if (rc == 0 && f->g.bits != 12) {
        uint32_t clean = f->g.bits == 16 ? (uint32_t)FAT16_CLEAN : FAT32_CLEAN;
        uint32_t sound = f->g.bits == 16 ? (uint32_t)FAT16_NO_HARD_ERROR : FAT32_NO_HARD_ERROR;
        v->was_dirty = v->was_dirty || (value & clean) == 0;
        v->media_failure = v->media_failure || (value & sound) == 0;
    }
    f->marked = v->was_dirty;
    return rc;
}

static uint64_t fsinfo_offset(const struct fat *f)
{
    return (uint64_t)f->g.fsinfo_sector * f->g.sector_size;
}

/* 1: *sector holds a usable FSInfo; 0: there is none. */
static int load_fsinfo(const struct fat *f, uint8_t sector[512])
{
    if (f->g.fsinfo_sector == 0) {
        return 0;
    }
    int rc = cache_read(f->heap.volume->cache, fsinfo_offset(f), sector, 512);
    return rc < 0 ? rc
                  : base_le32(sector + FAT_FSI_LEAD) == FAT_FSI_LEAD_SIGNATURE &&
                        base_le32(sector + FAT_FSI_STRUCT) == FAT_FSI_STRUCT_SIGNATURE;
}

/* The count is believed on a clean volume and when it can be; the hint is where a search begins, no
 * more. */
static int read_fsinfo(struct fat *f)
{
    struct clusters *h = &f->heap;
    uint8_t sector[512];
    int rc = load_fsinfo(f, sector);
    if (rc <= 0) {
        return rc;
    }
    uint32_t free_count = base_le32(sector + FAT_FSI_FREE_COUNT),
             next = base_le32(sector + FAT_FSI_NEXT_FREE);
    if (free_count <= h->count && !h->volume->was_dirty) {
        h->free_clusters = free_count;
        h->free_known = true;
    }
    if (clusters_valid(h, next)) {
        h->next_free = next;
        h->guessed = true;
    }
    return 0;
}

static int make_root(struct fat *f)
{
    struct volume *v = f->heap.volume;
    struct clusters_node *root;
    int rc = clusters_node_new(v, &root);
    if (rc < 0) {
        return rc;
    }
    root->attributes = VOLUME_ATTR_DIRECTORY;
    if (f->g.bits == 32) {
        clusters_chain_init(&root->chain, f->g.root_cluster, false, 0);
    } else {
        root->region = f->g.root_offset;
        root->size = root->valid = (uint64_t)f->g.root_entries * CLUSTERS_ENTRY_SIZE;
    }
    rc = clusters_node_enter(root, NULL, VOLUME_DIRECTORY);
    if (rc < 0) {
        clusters_node_destroy(root);
        return rc;
    }
    v->root = &root->base;
    return 0;
}

int fat_mount(struct volume *v)
{
    struct fat *f = calloc(1, sizeof *f);
    if (!f) {
        return -ENOMEM;
    }
    f->heap.volume = v;
    v->private = f;
    v->env->random(v->env, &f->hash_seed, sizeof f->hash_seed);
    int rc = fat_boot_read(v->device, v->from_backup, &f->g, v->error);
    if (rc < 0 || (rc = fat_codepage_new(v->codepage, &f->codepage)) < 0) {
        return rc;
    }
    set_geometry(f);
    if ((rc = read_marks(f)) < 0 || (rc = read_fsinfo(f)) < 0) {
        return rc;
    }
    return make_root(f);
}

void fat_unmount(struct volume *v)
{
    struct fat *f = v->private;
    if (!f) {
        return;
    }
    fat_map_free(f);
    if (f->codepage) {
        fat_codepage_delete(f->codepage);
    }
    clusters_free(&f->heap);
    free(f);
    v->private = NULL;
}

static uint64_t marks_offset(const struct fat *f)
{
    return f->g.bits == 32 ? FAT_BS32_DIRTY : FAT_BS16_DIRTY;
}

/* Both marks: the boot sector's byte and the bit of FAT[1]. */
static int write_marks(struct fat *f, bool dirty, enum cache_tier tier)
{
    struct cache *c = f->heap.volume->cache;
    uint64_t at = marks_offset(f);
    uint8_t byte;
    int rc = fat_table_marks(f, !dirty, tier);
    if (rc < 0 || !f->g.has_extended) {
        return rc;
    }
    rc = cache_read(c, at, &byte, 1);
    byte = (uint8_t)(dirty ? byte | FAT_BS_DIRTY : byte & ~(unsigned)FAT_BS_DIRTY);
    return rc < 0 ? rc : cache_write(c, at, &byte, 1, tier, DEVICE_BOOT);
}

int fat_mark_dirty(struct clusters *h)
{
    struct fat *f = (struct fat *)h;
    if (f->marked) {
        return 0;
    }
    int rc = write_marks(f, true, CACHE_MARK);
    if (rc == 0) {
        rc = cache_commit(h->volume->cache, CACHE_MARK, true);
    }
    f->marked = rc == 0;
    return rc;
}

static int write_fsinfo(struct fat *f)
{
    struct clusters *h = &f->heap;
    uint8_t sector[512];
    int rc = load_fsinfo(f, sector);
    if (rc <= 0) {
        return rc;
    }
    base_put_le32(sector + FAT_FSI_FREE_COUNT, h->free_known ? h->free_clusters : FAT_FSI_UNKNOWN);
    base_put_le32(sector + FAT_FSI_NEXT_FREE,
                  clusters_valid(h, h->next_free) ? h->next_free : FAT_FSI_UNKNOWN);
    return cache_write(h->volume->cache, fsinfo_offset(f) + FAT_FSI_FREE_COUNT,
                       sector + FAT_FSI_FREE_COUNT, 8, CACHE_CLEAN, DEVICE_OTHER);
}

int fat_mark_clean(struct clusters *h)
{
    struct fat *f = (struct fat *)h;
    struct volume *v = h->volume;
    if (!f->marked || v->failed || (v->was_dirty && !h->changed)) {
        return 0;
    }
    int rc = h->changed ? write_fsinfo(f) : 0;
    if (rc == 0 && !v->was_dirty) {
        rc = write_marks(f, false, CACHE_CLEAN);
    }
    if (rc == 0) {
        rc = cache_commit(v->cache, CACHE_CLEAN, true);
    }
    if (rc == 0) {
        f->marked = v->was_dirty;
        h->changed = false;
    }
    return rc;
}

int fat_mark_failure(struct volume *v)
{
    struct fat *f = fat_of(v);
    int rc = fat_table_failure(f);
    if (rc == 0 && f->g.has_extended) {
        rc = cache_put_bits(v->cache, marks_offset(f), 0, FAT_BS_HARD_ERROR, DEVICE_BOOT);
    }
    return rc;
}
