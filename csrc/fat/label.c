/* Volume label and serial number.
 *
 * A label stands in two places: an entry of the root directory, which is what systems show and
 * change, and the boot sector. Both are written alike; the entry counts when they differ.
 */
#include "fat/fat.h"

#include <string.h>

#include "base/env.h"
#include "base/unicode.h"

enum { BLANK = ' ', CONTROLS = 0x20, END_MARK = 0xAA55, BOOT_BYTES = 512 };

static const uint8_t no_name[FAT_LABEL_BYTES] = {'N', 'O', ' ', 'N', 'A', 'M',
                                                 'E', ' ', ' ', ' ', ' '};

/* ---- bytes and text ---- */

static bool is_forbidden(uint16_t unit)
{
    return unit < CONTROLS || unit == 0x7F ||
           (unit < 0x80 && strchr("*?.,;:/\\|+=<>[]\"", (int)unit) != NULL);
}

static int refuse(struct base_error *e, int err)
{
    switch (err) {
    case -EILSEQ:
        return base_bad_argument(e, "label", "not valid UTF-8");
    case -ENAMETOOLONG:
        return base_bad_argument(e, "label", "a label has at most 11 bytes in its code page");
    case -EUNATCH:
        return base_bad_argument(e, "label", "it has a character that the code page has not");
    default:
        return base_bad_argument(e, "label",
                                 "control characters, a blank at the start and * ? . , ; : / \\ | "
                                 "+ = < > [ ] \" are not allowed");
    }
}

static int encode(const struct fat_codepage *c, const uint16_t *units, int count,
                  uint8_t out[FAT_LABEL_BYTES])
{
    uint32_t n = 0;

    memset(out, BLANK, FAT_LABEL_BYTES);
    for (int i = 0; i < count; i++) {
        uint8_t code[2];
        uint32_t length = fat_codepage_encode(c, units[i], code);

        if (is_forbidden(units[i])) {
            return -EINVAL;
        }
        if (length == 0) {
            return -EUNATCH;
        }
        if (length > FAT_LABEL_BYTES - n) {
            return -ENAMETOOLONG;
        }
        memcpy(out + n, code, length);
        n += length;
    }
    return 0;
}

int fat_label_parse(const struct fat_codepage *c, const char *label, size_t n,
                    uint8_t out[FAT_LABEL_BYTES], struct base_error *e)
{
    uint16_t units[FAT_LABEL_BYTES];
    int count = base_utf8_to_utf16(label, n, units, FAT_LABEL_BYTES);
    int err = count < 0 ? count : encode(c, units, count, out);

    if (err) {
        return refuse(e, err);
    }
    if (fat_label_is_none(out)) {
        memcpy(out, no_name, FAT_LABEL_BYTES);
        return 0;
    }
    return out[0] == BLANK ? refuse(e, -EINVAL) : 1;
}

bool fat_label_is_none(const uint8_t label[FAT_LABEL_BYTES])
{
    static const uint8_t blank[FAT_LABEL_BYTES] = {' ', ' ', ' ', ' ', ' ', ' ',
                                                   ' ', ' ', ' ', ' ', ' '};

    return label[0] == 0 || memcmp(label, no_name, FAT_LABEL_BYTES) == 0 ||
           memcmp(label, blank, FAT_LABEL_BYTES) == 0;
}

int fat_label_text(const struct fat_codepage *c, const uint8_t label[FAT_LABEL_BYTES], char *buffer,
                   size_t cap)
{
    uint16_t units[FAT_LABEL_BYTES];
    const uint8_t *end = memchr(label, 0, FAT_LABEL_BYTES);
    uint32_t n = end ? (uint32_t)(end - label) : FAT_LABEL_BYTES;

    while (n > 0 && label[n - 1] == BLANK) {
        n--;
    }
    return base_utf16_to_utf8(units, fat_codepage_decode(c, label, n, units), buffer, cap);
}

/* ---- the entry [Dir] ---- */

bool fat_label_is_entry(const uint8_t entry[CLUSTERS_ENTRY_SIZE])
{
    return entry[0] != 0 && entry[0] != FAT_DELETED &&
           (entry[FAT_DIR_ATTRIBUTES] & FAT_ATTR_LONG_NAME_MASK) != FAT_ATTR_LONG_NAME &&
           (entry[FAT_DIR_ATTRIBUTES] & (FAT_ATTR_VOLUME_ID | VOLUME_ATTR_DIRECTORY)) ==
               FAT_ATTR_VOLUME_ID;
}

static void put_name(uint8_t *entry, const uint8_t label[FAT_LABEL_BYTES])
{
    memcpy(entry, label, FAT_LABEL_BYTES);
    if (entry[0] == FAT_DELETED) {
        entry[0] = FAT_KANJI_E5;
    }
}

void fat_label_build(uint8_t entry[CLUSTERS_ENTRY_SIZE], const uint8_t label[FAT_LABEL_BYTES],
                     const struct clusters_stamp *stamp)
{
    memset(entry, 0, CLUSTERS_ENTRY_SIZE);
    put_name(entry, label);
    entry[FAT_DIR_ATTRIBUTES] = FAT_ATTR_VOLUME_ID;
    base_put_le32(entry + FAT_DIR_CREATED_TIME, stamp->raw);
    base_put_le16(entry + FAT_DIR_ACCESSED_DATE, (uint16_t)(stamp->raw >> 16));
    base_put_le32(entry + FAT_DIR_MODIFIED_TIME, stamp->raw);
}

void fat_label_of_entry(const uint8_t entry[CLUSTERS_ENTRY_SIZE], uint8_t out[FAT_LABEL_BYTES])
{
    memcpy(out, entry, FAT_LABEL_BYTES);
    if (out[0] == FAT_KANJI_E5) {
        out[0] = FAT_DELETED;
    }
}

/* ---- in a mounted volume ---- */

/* The entry and its index, or -ENOENT. */
static int find_label(struct clusters_node *root, uint8_t entry[CLUSTERS_ENTRY_SIZE],
                      uint32_t *index)
{
    struct clusters_walk w;
    const uint8_t *p;
    int err = clusters_walk_begin(&w, root, 0);

    if (err) {
        return err;
    }
    while ((err = clusters_walk_next(&w, &p)) == 1 && !fat_label_is_entry(p)) {
        if (p[0] == 0) {
            err = 0;
            break;
        }
    }
    if (err == 1) {
        *index = w.index - 1;
        memcpy(entry, p, CLUSTERS_ENTRY_SIZE);
    }
    clusters_walk_end(&w);
    return err == 1 ? 0 : err == 0 ? -ENOENT : err;
}

int fat_get_label(struct volume *v, char *buffer, size_t cap)
{
    struct fat *f = fat_of(v);
    uint8_t entry[CLUSTERS_ENTRY_SIZE], label[FAT_LABEL_BYTES];
    uint32_t index;
    int err = find_label(clusters_node_of(v->root), entry, &index);

    if (err == 0) {
        fat_label_of_entry(entry, label);
    } else if (err == -ENOENT) {
        memcpy(label, f->g.label, sizeof label);
        if (fat_label_is_none(label)) {
            return 0;
        }
    } else {
        return err;
    }
    return fat_label_text(f->codepage, label, buffer, cap);
}

static int write_entry(struct clusters_node *root, uint32_t index, const uint8_t *entry)
{
    uint64_t offset;
    uint32_t piece;
    int err = clusters_dir_find(root, index, &offset, &piece);

    return err ? err
               : cache_write(root->base.volume->cache, offset, entry, CLUSTERS_ENTRY_SIZE,
                             CACHE_ENTRY, DEVICE_LABEL);
}

static int add_entry(struct clusters_node *root, const uint8_t *entry)
{
    struct clusters_slot slot;
    int err = clusters_slot_find(root, 1, &slot);

    if (err) {
        return err;
    }
    err = write_entry(root, slot.index, entry);
    if (err) {
        clusters_slot_cancel(root, &slot);
        return err;
    }
    clusters_slot_commit(root, &slot, 1);
    return 0;
}

static int remove_entry(struct clusters_node *root, uint32_t index, uint8_t *entry)
{
    int err;

    entry[0] = FAT_DELETED;
    err = write_entry(root, index, entry);
    if (!err) {
        clusters_slot_freed(root, index, 1);
    }
    return err;
}

static int set_entry(struct volume *v, const uint8_t label[FAT_LABEL_BYTES], bool has_label)
{
    struct clusters_node *root = clusters_node_of(v->root);
    struct clusters_stamp now = clusters_stamp_for(v, v->env->now(v->env), CLUSTERS_MODIFIED);
    uint8_t entry[CLUSTERS_ENTRY_SIZE];
    uint32_t index;
    int err = find_label(root, entry, &index);

    if (err == -ENOENT) {
        fat_label_build(entry, label, &now);
        return has_label ? add_entry(root, entry) : 0;
    }
    if (err) {
        return err;
    }
    if (!has_label) {
        return remove_entry(root, index, entry);
    }
    put_name(entry, label);
    base_put_le32(entry + FAT_DIR_MODIFIED_TIME, now.raw);
    return write_entry(root, index, entry);
}

/* ---- the boot sector ---- */

/* Bytes of the boot sector and, where there is one, of its backup. `at` is FAT12's and FAT16's
 * place. */
static int write_boot(struct fat *f, uint32_t at, const void *bytes, size_t n)
{
    struct cache *cache = f->heap.volume->cache;
    uint64_t backup = (uint64_t)f->g.backup_sector * f->g.sector_size;
    uint8_t copy[BOOT_BYTES];
    int err = 0;

    if (!f->g.has_extended) {
        return 0;
    }
    at += f->g.bits == 32 ? FAT_BS32_DRIVE - FAT_BS16_DRIVE : 0;
    if (backup != 0) {
        err = cache_read(cache, backup, copy, sizeof copy);
        /* What is no backup is left alone. */
        if (!err && base_le16(copy + FAT_BS_END_MARK) == END_MARK &&
            base_le16(copy + FAT_BPB_BYTES_PER_SECTOR) == f->g.sector_size) {
            err = cache_write(cache, backup + at, bytes, n, CACHE_CONTENT, DEVICE_BACKUP_BOOT);
        }
    }
    return err ? err : cache_write(cache, at, bytes, n, CACHE_ENTRY, DEVICE_BOOT);
}

static bool is_so_already(struct volume *v, const uint8_t label[FAT_LABEL_BYTES], bool has_label)
{
    struct fat *f = fat_of(v);
    uint8_t entry[CLUSTERS_ENTRY_SIZE], old[FAT_LABEL_BYTES];
    uint32_t index;
    int err = find_label(clusters_node_of(v->root), entry, &index);

    if (err != 0 && err != -ENOENT) {
        return false;
    }
    if (f->g.has_extended && memcmp(f->g.label, label, FAT_LABEL_BYTES) != 0) {
        return false;
    }
    if (err == -ENOENT) {
        return !has_label;
    }
    fat_label_of_entry(entry, old);
    return has_label && memcmp(old, label, FAT_LABEL_BYTES) == 0;
}

int fat_set_label(struct volume *v, const char *label, size_t n)
{
    struct fat *f = fat_of(v);
    uint8_t bytes[FAT_LABEL_BYTES];
    int has_label = fat_label_parse(f->codepage, label, n, bytes, v->error);
    int err;

    if (has_label < 0) {
        return has_label;
    }
    if (is_so_already(v, bytes, has_label == 1)) {
        return 0;
    }
    err = fat_mark_dirty(&f->heap);
    if (!err) {
        err = set_entry(v, bytes, has_label == 1);
    }
    if (!err) {
        err = write_boot(f, FAT_BS16_LABEL, bytes, sizeof bytes);
    }
    if (!err && f->g.has_extended) {
        memcpy(f->g.label, bytes, sizeof bytes);
    }
    return err;
}

int fat_set_serial(struct volume *v, uint32_t serial)
{
    struct fat *f = fat_of(v);
    uint8_t bytes[4];
    int err;

    if (!f->g.has_extended) {
        return base_unsupported(v->error, "serial number", "the boot sector has no place for one");
    }
    if (serial == f->g.serial) {
        return 0;
    }
    base_put_le32(bytes, serial);
    err = fat_mark_dirty(&f->heap);
    if (!err) {
        err = write_boot(f, FAT_BS16_SERIAL, bytes, sizeof bytes);
    }
    if (!err) {
        f->g.serial = serial;
        v->serial = serial;
    }
    return err;
}
