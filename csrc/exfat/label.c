/* Volume label and serial number. */
#include "exfat/exfat.h"

#include <stdlib.h>

#include "base/unicode.h"

/* Units that an entry has room for: some systems write more than the eleven that are allowed, and
 * that is no reason to hide them. */
enum { READ_UNITS = (EXFAT_ENTRY_SIZE - EXFAT_LABEL_TEXT) / 2 };

/* ---- the entry [7.3] ---- */

int exfat_label_parse(const char *label, size_t n, uint16_t units[EXFAT_LABEL_UNITS])
{
    int count = base_utf8_to_utf16(label, n, units, EXFAT_LABEL_UNITS);

    for (int i = 0; i < count; i++) {
        if (clusters_unit_forbidden(units[i])) {
            return -EINVAL;
        }
    }
    return count;
}

void exfat_label_build(uint8_t entry[EXFAT_ENTRY_SIZE], const uint16_t *units, int n)
{
    memset(entry, 0, EXFAT_ENTRY_SIZE);
    entry[0] = n > 0 ? EXFAT_TYPE_LABEL : EXFAT_TYPE_LABEL & ~EXFAT_TYPE_IN_USE;
    entry[EXFAT_LABEL_COUNT] = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        base_put_le16(entry + EXFAT_LABEL_TEXT + 2 * i, units[i]);
    }
}

int exfat_label_text(const uint8_t entry[EXFAT_ENTRY_SIZE], char *buffer, size_t cap)
{
    uint16_t units[READ_UNITS];
    uint8_t n = entry[EXFAT_LABEL_COUNT];

    if (n > READ_UNITS) {
        return -BASE_ECORRUPT;
    }
    for (uint8_t i = 0; i < n; i++) {
        units[i] = base_le16(entry + EXFAT_LABEL_TEXT + 2 * i);
    }
    return base_utf16_to_utf8(units, n, buffer, cap);
}

/* ---- in a mounted volume ---- */

/* The label in use and its index, or -ENOENT. */
static int find_label(struct clusters_node *root, uint8_t entry[EXFAT_ENTRY_SIZE], uint32_t *index)
{
    struct clusters_walk w;
    const uint8_t *p;
    int err = clusters_walk_begin(&w, root, 0);

    if (err) {
        return err;
    }
    while ((err = clusters_walk_next(&w, &p)) == 1 && p[0] != EXFAT_TYPE_LABEL) {
        if (p[0] == EXFAT_TYPE_END) {
            err = 0;
            break;
        }
    }
    if (err == 1) {
        *index = w.index - 1;
        memcpy(entry, p, EXFAT_ENTRY_SIZE);
    }
    clusters_walk_end(&w);
    return err == 1 ? 0 : err == 0 ? -ENOENT : err;
}

static int entry_offset(struct clusters_node *root, uint32_t index, uint64_t *offset)
{
    uint32_t piece;

    return clusters_dir_find(root, index, offset, &piece);
}

int exfat_get_label(struct volume *v, char *buffer, size_t cap)
{
    struct clusters_node *root = clusters_node_of(v->root);
    uint8_t entry[EXFAT_ENTRY_SIZE];
    uint32_t index;
    uint64_t offset;
    int err = find_label(root, entry, &index);

    if (err == -ENOENT) {
        return 0;
    }
    if (err) {
        return err;
    }
    err = exfat_label_text(entry, buffer, cap);
    if (err == -BASE_ECORRUPT) {
        err = entry_offset(root, index, &offset);
        return err ? err
                   : base_damage(v->error, "volume label", offset, "CharacterCount",
                                 entry[EXFAT_LABEL_COUNT], EXFAT_LABEL_UNITS,
                                 "a label has at most 11 characters");
    }
    return err;
}

static int parse_for_volume(struct volume *v, const char *label, size_t n, uint16_t *units)
{
    int count = exfat_label_parse(label, n, units);

    if (count == -ENAMETOOLONG) {
        return base_bad_argument(v->error, "label", "a label has at most 11 UTF-16 units");
    }
    if (count == -EINVAL) {
        return base_bad_argument(v->error, "label",
                                 "control characters and \" * / : < > ? \\ | are not allowed");
    }
    return count;
}

/* One entry, written as a change of the root directory that holds a label. */
static int write_entry(struct exfat *x, struct clusters_node *root, uint32_t index,
                       const uint8_t *entry)
{
    uint64_t offset;
    int err = entry_offset(root, index, &offset);

    return err ? err
               : cache_write(x->heap.volume->cache, offset, entry, EXFAT_ENTRY_SIZE, CACHE_ENTRY,
                             DEVICE_LABEL);
}

/* A label entry that is not in use, as formatting leaves one; -ENOENT. */
static int find_unused(struct clusters_node *root, uint32_t *index)
{
    struct clusters_walk w;
    const uint8_t *p;
    int err = clusters_walk_begin(&w, root, 0);

    while (err == 0 && (err = clusters_walk_next(&w, &p)) == 1 && p[0] != EXFAT_TYPE_END) {
        if (p[0] == (EXFAT_TYPE_LABEL & ~EXFAT_TYPE_IN_USE)) {
            *index = w.index - 1;
            clusters_walk_end(&w);
            return 0;
        }
        err = 0;
    }
    clusters_walk_end(&w);
    return err < 0 ? err : -ENOENT;
}

static int add_entry(struct exfat *x, struct clusters_node *root, const uint8_t *entry)
{
    struct clusters_slot slot;
    uint32_t unused;
    int err = find_unused(root, &unused);

    if (err == 0) {
        names_hole_cut(root->names, unused, 1);
        return write_entry(x, root, unused, entry);
    }
    if (err == -ENOENT) {
        err = clusters_slot_find(root, 1, &slot);
    }
    if (err) {
        return err;
    }
    err = write_entry(x, root, slot.index, entry);
    if (err) {
        clusters_slot_cancel(root, &slot);
        return err;
    }
    clusters_slot_commit(root, &slot, 1);
    return 0;
}

int exfat_set_label(struct volume *v, const char *label, size_t n)
{
    struct exfat *x = exfat_of(v);
    struct clusters_node *root = clusters_node_of(v->root);
    uint16_t units[EXFAT_LABEL_UNITS];
    uint8_t old[EXFAT_ENTRY_SIZE], entry[EXFAT_ENTRY_SIZE];
    uint32_t index;
    int count = parse_for_volume(v, label, n, units);
    int found = count < 0 ? count : find_label(root, old, &index);
    int err;

    if (found && found != -ENOENT) {
        return found;
    }
    exfat_label_build(entry, units, count);
    if (found == 0 ? memcmp(entry, old, sizeof entry) == 0 : count == 0) {
        return 0; /* it is so already */
    }
    err = exfat_mark_dirty(&x->heap);
    if (err || found == -ENOENT) {
        return err ? err : add_entry(x, root, entry);
    }
    err = write_entry(x, root, index, entry);
    if (!err && count == 0) {
        clusters_slot_freed(root, index, 1);
    }
    return err;
}

/* The serial number and the checksum sector of one region; a region that is not valid is left as it
 * is. */
static int patch_region(struct exfat *x, uint32_t serial, uint64_t offset, enum cache_tier tier,
                        enum device_structure what)
{
    uint32_t sector_size = 1u << x->g.sector_shift;
    size_t n = (size_t)EXFAT_BOOT_SECTORS * sector_size;
    size_t sum_at = (size_t)EXFAT_CHECKSUM_SECTOR * sector_size;
    struct cache *cache = x->heap.volume->cache;
    uint8_t *region = malloc(n);
    int err;

    if (!region) {
        return -ENOMEM;
    }
    err = cache_read(cache, offset, region, n);
    if (err || !exfat_boot_is_valid(region, sector_size)) {
        goto out;
    }
    base_put_le32(region + EXFAT_BOOT_SERIAL, serial);
    exfat_boot_checksum(region, sector_size);
    err = cache_write(cache, offset + EXFAT_BOOT_SERIAL, region + EXFAT_BOOT_SERIAL, 4, tier, what);
    if (!err) {
        err = cache_write(cache, offset + sum_at, region + sum_at, sector_size, tier, what);
    }
out:
    free(region);
    return err;
}

/* The backup goes out first and the main region in a later tier, so that one of them is whole at
 * any time. */
int exfat_set_serial(struct volume *v, uint32_t serial)
{
    struct exfat *x = exfat_of(v);
    uint64_t backup = (uint64_t)EXFAT_BACKUP_SECTOR << x->g.sector_shift;
    int err;

    if (serial == x->g.serial) {
        return 0;
    }
    err = exfat_mark_dirty(&x->heap);
    if (!err) {
        err = patch_region(x, serial, backup, CACHE_CONTENT, DEVICE_BACKUP_BOOT);
    }
    if (!err) {
        err = patch_region(x, serial, 0, CACHE_ENTRY, DEVICE_BOOT);
    }
    if (!err) {
        x->g.serial = serial;
        v->serial = serial;
    }
    return err;
}
