/* Mounting: the boot region's geometry, then the root directory's bitmap(s) and up-case table; and
 * the marks of the volume. */
#include "exfat/exfat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { UPCASE_BYTES_MAX = 128u << 10 };

/* What the root directory says about the rest of the volume. */
struct found {
    uint32_t bitmap_first[2];
    uint64_t bitmap_size[2], bitmap_offset[2];
    uint32_t upcase_first, upcase_checksum;
    uint64_t upcase_size, upcase_offset;
    bool have_upcase;
};

static int see_root_entry(struct exfat *x, struct clusters_node *root, uint32_t index,
                          const uint8_t *e, struct found *f)
{
    uint64_t offset;
    uint32_t piece;
    switch (e[0]) {
    case EXFAT_TYPE_BITMAP: {
        unsigned which = e[EXFAT_BITMAP_FLAGS] & 1u;
        if (f->bitmap_offset[which] == 0) {
            int rc = clusters_dir_find(root, index, &f->bitmap_offset[which], &piece);
            if (rc < 0) {
                return rc;
            }
            f->bitmap_first[which] = base_le32(e + EXFAT_ENTRY_FIRST_CLUSTER);
            f->bitmap_size[which] = base_le64(e + EXFAT_ENTRY_DATA_LENGTH);
        }
        return 0;
    }
    case EXFAT_TYPE_UPCASE:
        if (!f->have_upcase) {
            int rc = clusters_dir_find(root, index, &f->upcase_offset, &piece);
            if (rc < 0) {
                return rc;
            }
            f->upcase_first = base_le32(e + EXFAT_ENTRY_FIRST_CLUSTER);
            f->upcase_size = base_le64(e + EXFAT_ENTRY_DATA_LENGTH);
            f->upcase_checksum = base_le32(e + EXFAT_UPCASE_CHECKSUM);
            f->have_upcase = true;
        }
        return 0;
    case EXFAT_TYPE_GUID:
        if (!x->heap.volume->has_uuid) {
            memcpy(x->heap.volume->uuid, e + EXFAT_GUID_VALUE, sizeof x->heap.volume->uuid);
            x->heap.volume->has_uuid = true;
        }
        return 0;
    case EXFAT_TYPE_LABEL:
    case EXFAT_TYPE_FILE:
        return 0;
    default:
        if ((e[0] & EXFAT_TYPE_IN_USE) == 0 ||
            (e[0] & (EXFAT_TYPE_SECONDARY | EXFAT_TYPE_BENIGN)) != 0) {
            return 0;
        }
        /* An unrecognised critical primary entry: the volume must not be mounted [8.2]. */
        offset = clusters_dir_offset(root, index);
        (void)base_unsupported(x->heap.volume->error, "critical directory entry",
                               "the root directory has a critical entry of an unknown type");
        x->heap.volume->error->offset = offset;
        x->heap.volume->error->found = e[0];
        return -BASE_EUNSUPPORTED;
    }
}

static int scan_root(struct exfat *x, struct clusters_node *root, struct found *f)
{
    struct clusters_walk w;
    const uint8_t *entry;
    int rc = clusters_walk_begin(&w, root, 0);
    while (rc >= 0 && (rc = clusters_walk_next(&w, &entry)) > 0) {
        if (entry[0] == EXFAT_TYPE_END) {
            rc = 0;
            break;
        }
        uint8_t copy[EXFAT_ENTRY_SIZE];
        memcpy(copy, entry, sizeof copy);
        rc = see_root_entry(x, root, w.index - 1, copy, f);
    }
    clusters_walk_end(&w);
    return rc;
}

static int set_bitmaps(struct exfat *x, const struct found *f)
{
    struct base_error *e = x->heap.volume->error;
    unsigned active = x->g.volume_flags & EXFAT_FLAG_ACTIVE_FAT;
    uint64_t least = (x->g.clusters + 7ull) / 8;
    for (unsigned i = 0; i < 2; i++) {
        unsigned which = i == 0 ? active : 1 - active;
        uint64_t offset = f->bitmap_offset[which];
        if (i == 1 && (x->g.fats < 2 || offset == 0)) {
            continue; /* a second bitmap belongs to a second FAT [7.1.2] */
        }
        if (offset == 0) {
            return base_damage(e, "allocation bitmap", clusters_offset(&x->heap, x->g.root_cluster),
                               "EntryType", 0, EXFAT_TYPE_BITMAP,
                               "the root directory has no allocation bitmap");
        }
        if (f->bitmap_size[which] < least) { /* longer is harmless: some factories write it so */
            return base_damage(e, "allocation bitmap", offset, "DataLength", f->bitmap_size[which],
                               least, "the bitmap is too small for the cluster heap");
        }
        if (!clusters_valid(&x->heap, f->bitmap_first[which])) {
            return base_damage(e, "allocation bitmap", offset, "FirstCluster",
                               f->bitmap_first[which], 0,
                               "the first cluster is outside the cluster heap");
        }
        clusters_chain_init(&x->bitmap[i].chain, f->bitmap_first[which], false,
                            (uint32_t)clusters_for(&x->heap, least));
        x->bitmap[i].size = f->bitmap_size[which];
    }
    return 0;
}

static int load_upcase(struct exfat *x, const struct found *f)
{
    struct base_error *e = x->heap.volume->error;
    struct clusters_chain chain;
    uint8_t *table = NULL;
    if (!f->have_upcase) {
        return base_damage(e, "up-case table", clusters_offset(&x->heap, x->g.root_cluster),
                           "EntryType", 0, EXFAT_TYPE_UPCASE,
                           "the root directory has no up-case table");
    }
    if (f->upcase_size == 0 || f->upcase_size > UPCASE_BYTES_MAX || (f->upcase_size & 1) != 0) {
        return base_damage(e, "up-case table", f->upcase_offset, "DataLength", f->upcase_size,
                           BASE_UPCASE_BYTES, "not the length of an up-case table");
    }
    clusters_chain_init(&chain, f->upcase_first, false,
                        (uint32_t)clusters_for(&x->heap, f->upcase_size));
    table = malloc(f->upcase_size);
    int rc = table ? 0 : -ENOMEM;
    uint64_t first_offset = 0;
    for (uint64_t done = 0; rc == 0 && done < f->upcase_size;) {
        uint32_t cluster;
        uint64_t piece;
        rc = clusters_chain_find(&x->heap, &chain, done >> x->g.cluster_shift, &cluster, &piece,
                                 "up-case table");
        if (rc == -ERANGE) {
            rc = base_damage(e, "up-case table", f->upcase_offset, "DataLength", f->upcase_size,
                             (uint64_t)chain.count << x->g.cluster_shift,
                             "the cluster chain is shorter than the table");
        }
        if (rc == 0) {
            uint64_t here = base_min(f->upcase_size - done, piece << x->g.cluster_shift);
            first_offset = done == 0 ? clusters_offset(&x->heap, cluster) : first_offset;
            rc = cache_read(x->heap.volume->cache, clusters_offset(&x->heap, cluster), table + done,
                            (size_t)here);
            done += here;
        }
    }
    if (rc == 0) {
        rc = exfat_upcase_init(&x->upcase, table, (size_t)f->upcase_size, f->upcase_checksum,
                               first_offset, e);
    }
    free(table);
    clusters_chain_free(&chain);
    return rc;
}

static enum clusters_entry entry_kind(const uint8_t *entry)
{
    return entry[0] & EXFAT_TYPE_IN_USE ? CLUSTERS_ENTRY_USED : CLUSTERS_ENTRY_FREE;
}

static const struct clusters_ops exfat_clusters = {
    .next = exfat_fat_next,
    .link = exfat_fat_link,
    .fat_offset = exfat_fat_offset,
    .pin = exfat_bitmap_pin,
    .mark = exfat_bitmap_mark,
    .read_ahead = exfat_bitmap_read_ahead,
    .bit_offset = exfat_bitmap_offset,
    .mark_dirty = exfat_mark_dirty,
    .entry = entry_kind,
    .scan_free = exfat_dir_scan_free,
};

static void set_geometry(struct exfat *x)
{
    struct clusters *h = &x->heap;
    struct volume *v = h->volume;
    unsigned active = x->g.volume_flags & EXFAT_FLAG_ACTIVE_FAT;
    h->ops = &exfat_clusters;
    h->shift = x->g.cluster_shift;
    h->size = 1u << h->shift;
    h->count = x->g.clusters;
    h->offset = (uint64_t)x->g.heap_offset << x->g.sector_shift;
    h->directory_max = EXFAT_DIRECTORY_MAX;
    h->file_max = INT64_MAX;
    h->least_run = 2;
    h->names_per_three = 1;
    h->plain_runs = h->valid_lengths = h->sized_directories = true;
    h->map_name = "allocation bitmap";
    h->next_free = CLUSTERS_FIRST;
    uint64_t fat = (uint64_t)x->g.fat_offset << x->g.sector_shift;
    uint64_t length = (uint64_t)x->g.fat_length << x->g.sector_shift;
    x->fat[0] = active ? fat + length : fat;
    x->fat[1] = x->g.fats < 2 ? 0 : active ? fat : fat + length;
    v->cluster_size = h->size;
    v->sector_size = 1u << x->g.sector_shift;
    v->serial = x->g.serial;
    v->size = x->g.volume_length << x->g.sector_shift;
    v->was_dirty = (x->g.volume_flags & EXFAT_FLAG_DIRTY) != 0;
    v->media_failure = (x->g.volume_flags & EXFAT_FLAG_MEDIA_FAILURE) != 0;
    x->marked = v->was_dirty;
}

int exfat_mount(struct volume *v)
{
    struct exfat *x = calloc(1, sizeof *x);
    struct clusters_node *root = NULL;
    struct found f;
    memset(&f, 0, sizeof f);
    if (!x) {
        return -ENOMEM;
    }
    x->heap.volume = v;
    v->private = x;
    v->env->random(v->env, &x->hash_seed, sizeof x->hash_seed);
    int rc = exfat_boot_read(v->device, v->from_backup, &x->g, v->error);
    if (rc == 0 && (x->g.volume_flags & EXFAT_FLAG_ACTIVE_FAT) != 0 && x->g.fats < 2) {
        rc = base_damage(v->error, "boot sector", EXFAT_BOOT_VOLUME_FLAGS, "VolumeFlags",
                         x->g.volume_flags, 0,
                         "ActiveFat names a second FAT on a volume that has one");
    }
    if (rc == 0) {
        set_geometry(x);
        rc = clusters_node_new(v, &root);
    }
    if (rc == 0) {
        clusters_chain_init(&root->chain, x->g.root_cluster, false, 0);
        root->attributes = VOLUME_ATTR_DIRECTORY;
        rc = clusters_node_enter(root, NULL, VOLUME_DIRECTORY);
        if (rc < 0) {
            clusters_node_destroy(root);
        } else {
            v->root = &root->base;
        }
    }
    if (rc == 0 && (rc = scan_root(x, root, &f)) == 0 && (rc = set_bitmaps(x, &f)) == 0) {
        rc = load_upcase(x, &f);
    }
    return rc;
}

void exfat_unmount(struct volume *v)
{
    struct exfat *x = v->private;
    if (!x) {
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        clusters_chain_free(&x->bitmap[i].chain);
    }
    exfat_upcase_free(&x->upcase);
    clusters_free(&x->heap);
    free(x);
    v->private = NULL;
}

static int write_flags(struct exfat *x, uint16_t flags, enum cache_tier tier)
{
    uint8_t bytes[2];
    base_put_le16(bytes, flags);
    int rc = cache_write(x->heap.volume->cache, EXFAT_BOOT_VOLUME_FLAGS, bytes, sizeof bytes, tier,
                         DEVICE_BOOT);
    if (rc == 0) {
        x->g.volume_flags = flags;
    }
    return rc;
}

int exfat_mark_dirty(struct clusters *h)
{
    struct exfat *x = (struct exfat *)h;
    if (x->marked) {
        return 0;
    }
    /* ClearToZero goes before any change of a structure [3.1.13.4]. */
    uint16_t flags =
        (uint16_t)((x->g.volume_flags | EXFAT_FLAG_DIRTY) & ~(unsigned)EXFAT_FLAG_CLEAR_TO_ZERO);
    int rc = write_flags(x, flags, CACHE_MARK);
    if (rc == 0) {
        rc = cache_commit(x->heap.volume->cache, CACHE_MARK, true);
    }
    x->marked = rc == 0;
    return rc;
}

/* PercentInUse [3.1.18]: rounded down; 0xFF where counting would mean to read a large bitmap. */
static int write_percent(struct exfat *x)
{
    uint8_t percent = 0xFF;
    if (x->heap.free_known || x->bitmap[0].size <= (1u << 20)) {
        uint32_t free_clusters;
        int rc = clusters_count_free(&x->heap, &free_clusters);
        if (rc < 0) {
            return rc;
        }
        percent = (uint8_t)((uint64_t)(x->g.clusters - free_clusters) * 100 / x->g.clusters);
    }
    return cache_write(x->heap.volume->cache, EXFAT_BOOT_PERCENT, &percent, 1, CACHE_CLEAN,
                       DEVICE_BOOT);
}

int exfat_mark_clean(struct clusters *h)
{
    struct exfat *x = (struct exfat *)h;
    struct volume *v = h->volume;
    if (!x->marked || v->failed || (v->was_dirty && !x->heap.changed)) {
        return 0;
    }
    int rc = x->heap.changed ? write_percent(x) : 0;
    if (rc == 0 && !v->was_dirty) {
        rc = write_flags(x, (uint16_t)(x->g.volume_flags & ~(unsigned)EXFAT_FLAG_DIRTY),
                         CACHE_CLEAN);
    }
    if (rc == 0) {
        rc = cache_commit(v->cache, CACHE_CLEAN, true);
    }
    if (rc == 0) {
        x->marked = v->was_dirty;
        x->heap.changed = false;
    }
    return rc;
}

int exfat_mark_failure(struct volume *v)
{
    struct exfat *x = exfat_of(v);
    int rc =
        cache_put_bits(v->cache, EXFAT_BOOT_VOLUME_FLAGS, 0, EXFAT_FLAG_MEDIA_FAILURE, DEVICE_BOOT);
    if (rc == 0) {
        x->g.volume_flags |= EXFAT_FLAG_MEDIA_FAILURE;
    }
    return rc;
}
