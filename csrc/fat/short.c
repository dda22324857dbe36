/* Short names (8.3) for long ones, in the manner of Windows: as typed where that fits, else up to
 * six characters and ~1 to ~4, and where these are taken two characters, four hexadecimal digits of
 * a hash and ~1 to ~9. So a new name needs a handful of candidates, whatever the directory holds,
 * and one look at the directory for all of them.
 */
#include "base/checksum.h"
#include "base/upcase.h"
#include "fat/fat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PLAIN_TAILS = 4, HASH_TAILS = 9, CANDIDATES = PLAIN_TAILS + HASH_TAILS, SALTS = 64 };

static bool short_char(uint16_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c > 0x20 && c < 0x80 && strchr("!#$%&'()-@^_`{}~", c));
}

/* What one part of a name has. */
struct part {
    bool lower, upper; /* ASCII letters of this case */
    bool foreign;      /* characters beyond ASCII */
};

/* A unit as a short name has it: in upper case, in the code page. Returns bytes, 0: not at all. */
static uint32_t short_bytes(const struct fat *f, uint16_t unit, uint8_t out[2])
{
    uint16_t c = base_upcase(unit);
    if (c >= 0x80) {
        return fat_codepage_encode(f->codepage, c, out);
    }
    out[0] = (uint8_t)c;
    return short_char(c) ? 1 : 0;
}

/* One part of a name that may be short as it is: it fits and loses nothing but its case. */
static bool plain_part(const struct fat *f, const uint16_t *unit, uint32_t n, uint32_t width,
                       uint8_t *out, struct part *has)
{
    uint32_t used = 0;
    memset(out, ' ', width);
    memset(has, 0, sizeof *has);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t bytes[2];
        uint32_t count = short_bytes(f, unit[i], bytes);
        if (count == 0 || used + count > width) {
            return false;
        }
        has->lower = has->lower || (unit[i] >= 'a' && unit[i] <= 'z');
        has->upper = has->upper || (unit[i] >= 'A' && unit[i] <= 'Z');
        has->foreign = has->foreign || unit[i] >= 0x80;
        memcpy(out + used, bytes, count);
        used += count;
    }
    return true;
}

/* Index of the last dot that divides base and extension; length: there is none. */
static uint32_t find_dot(const struct fat_name *name, uint32_t from)
{
    for (uint32_t i = name->length; i-- > from + 1;) {
        if (name->unit[i] == '.') {
            return i;
        }
    }
    return name->length;
}

static void mark_first(uint8_t name[FAT_NAME_BYTES])
{
    if (name[0] == FAT_DELETED) {
        name[0] = FAT_KANJI_E5;
    }
}

/* The name fits 8.3 but for its case. What is beyond ASCII is in a long name as well, as it means
 * something else in another code page. */
static bool as_typed(const struct fat *f, const struct fat_name *name, uint8_t out[FAT_NAME_BYTES],
                     uint8_t *case_bits, bool *needs_long)
{
    uint32_t dot = find_dot(name, 0);
    uint32_t rest = dot < name->length ? name->length - dot - 1 : 0;
    struct part base, ext;
    if ((dot < name->length && rest == 0) || dot == 0 ||
        !plain_part(f, name->unit, dot, 8, out, &base) ||
        !plain_part(f, name->unit + dot + (rest > 0), rest, 3, out + 8, &ext)) {
        return false;
    }
    mark_first(out);
    *needs_long =
        (base.lower && base.upper) || (ext.lower && ext.upper) || base.foreign || ext.foreign;
    *case_bits =
        *needs_long
            ? 0
            : (uint8_t)((base.lower ? FAT_CASE_BASE : 0) | (ext.lower ? FAT_CASE_EXTENSION : 0));
    return true;
}

/* Up to `width` bytes of what a part becomes: upper case, in the code page, '_' for what has no
 * place there. */
static uint32_t squeeze(const struct fat *f, const uint16_t *unit, uint32_t n, uint32_t width,
                        uint8_t *out)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t bytes[2];
        if (unit[i] == ' ' || unit[i] == '.') {
            continue;
        }
        uint32_t count = short_bytes(f, unit[i], bytes);
        if (count == 0) {
            bytes[0] = '_';
            count = 1;
        }
        if (used + count > width) {
            break;
        }
        memcpy(out + used, bytes, count);
        used += count;
    }
    return used;
}

/* What all candidates for a name share. */
struct basis {
    uint8_t base[8], extension[3];
    uint32_t whole[9]; /* whole[k]: bytes of base, at most k, that do not cut a pair */
};

static void make_basis(const struct fat *f, const struct fat_name *name, struct basis *b)
{
    uint32_t start = 0;
    while (start < name->length && (name->unit[start] == '.' || name->unit[start] == ' ')) {
        start++;
    }
    uint32_t dot = find_dot(name, start), rest = dot < name->length ? name->length - dot - 1 : 0;
    memset(b->extension, ' ', sizeof b->extension);
    (void)squeeze(f, name->unit + dot + (rest > 0), rest, 3, b->extension);
    for (uint32_t k = 0; k <= 8; k++) {
        b->whole[k] = squeeze(f, name->unit + start, dot - start, k, b->base);
    }
}

static void put_candidate(const struct basis *b, uint32_t keep, const char *tail,
                          uint8_t out[FAT_NAME_BYTES])
{
    size_t n = strlen(tail);
    memset(out, ' ', 8);
    memcpy(out, b->base, keep);
    memcpy(out + keep, tail, n);
    memcpy(out + 8, b->extension, 3);
    mark_first(out);
}

static void make_candidates(const struct basis *b, const struct fat_name *name, uint32_t salt,
                            uint8_t out[CANDIDATES][FAT_NAME_BYTES])
{
    char tail[16];
    for (uint32_t i = 0; i < PLAIN_TAILS; i++) {
        (void)snprintf(tail, sizeof tail, "~%u", i + 1);
        put_candidate(b, b->whole[6], tail, out[i]);
    }
    uint64_t hash = base_hash64(name->unit, name->length * sizeof name->unit[0], salt);
    for (uint32_t i = 0; i < HASH_TAILS; i++) {
        (void)snprintf(tail, sizeof tail, "%04X~%u", (unsigned)(hash & 0xFFFF), i + 1);
        put_candidate(b, b->whole[2], tail, out[PLAIN_TAILS + i]);
    }
}

/* ---- what is known to be taken ---- */

/* Where there is no index, so that not each of many names with one beginning needs a walk. Only
 * that names are taken is remembered, so an entry that is out of date costs a name its ~1, no more.
 */
static struct fat_full *full_of(struct clusters_node *dir, const uint8_t first[FAT_NAME_BYTES])
{
    struct fat *f = fat_of(dir->base.volume);
    return &f->full[base_hash64(first, FAT_NAME_BYTES, dir->base.key) % FAT_FULL_MOST];
}

static bool is_full(struct clusters_node *dir, const uint8_t first[FAT_NAME_BYTES])
{
    const struct fat_full *full = full_of(dir, first);
    return full->dir == dir->base.key && memcmp(full->name, first, FAT_NAME_BYTES) == 0;
}

void fat_short_freed(struct clusters_node *dir, const uint8_t name[FAT_NAME_BYTES])
{
    uint8_t first[FAT_NAME_BYTES];
    uint32_t n = 8;
    while (n > 0 && name[n - 1] == ' ') {
        n--;
    }
    if (n < 2 || name[n - 2] != '~' || name[n - 1] < '1' || name[n - 1] > '0' + PLAIN_TAILS) {
        return;
    }
    memcpy(first, name, sizeof first);
    first[n - 1] = '1';
    if (is_full(dir, first)) {
        full_of(dir, first)->dir = 0;
    }
}

void fat_short_forget(struct fat *f)
{
    memset(f->full, 0, sizeof f->full);
}

/* ---- finding one that is free ---- */

/* Whether the index or the filter are sure that a candidate is free. */
static bool surely_free(struct clusters_node *dir, const uint8_t candidate[FAT_NAME_BYTES])
{
    struct fat_name name;
    uint8_t padded[CLUSTERS_ENTRY_SIZE] = {0};
    memcpy(padded, candidate, FAT_NAME_BYTES);
    fat_name_from_short(fat_of(dir->base.volume), padded, false, &name);
    fat_name_finish(fat_of(dir->base.volume), &name);
    return names_lookup(dir->names, name.hash) == NAMES_ABSENT;
}

/* Taken until the first that is surely free. An index is right of all; without one a candidate that
 * is not surely free, nor known to be taken, needs a walk (false), lest names depend on the filter.
 */
static bool find_without_walk(struct clusters_node *dir,
                              uint8_t candidate[CANDIDATES][FAT_NAME_BYTES], bool taken[CANDIDATES])
{
    bool exact = names_index_complete(dir->names);
    uint32_t known = !exact && is_full(dir, candidate[0]) ? PLAIN_TAILS : 0;
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        taken[i] = i < known || !surely_free(dir, candidate[i]);
        if (!taken[i] || (!exact && i >= known)) {
            return !taken[i];
        }
    }
    return exact;
}

/* Which candidates the directory has: one by one where that needs no walk, else by one for all. */
static int find_taken(struct clusters_node *dir, uint8_t candidate[CANDIDATES][FAT_NAME_BYTES],
                      bool taken[CANDIDATES])
{
    struct clusters_walk w;
    const uint8_t *entry;
    memset(taken, 0, CANDIDATES * sizeof taken[0]);
    if (find_without_walk(dir, candidate, taken)) {
        return 0;
    }
    memset(taken, 0, CANDIDATES * sizeof taken[0]);
    int rc = clusters_walk_begin(&w, dir, 0);
    while (rc >= 0 && (rc = clusters_walk_next(&w, &entry)) > 0 && entry[0] != 0) {
        bool is_short = !fat_is_long(entry);
        for (uint32_t i = 0; is_short && entry[0] != FAT_DELETED && i < CANDIDATES; i++) {
            taken[i] = taken[i] || memcmp(entry, candidate[i], FAT_NAME_BYTES) == 0;
        }
    }
    clusters_walk_end(&w);
    if (rc >= 0 && taken[0] && taken[1] && taken[2] && taken[3]) {
        struct fat_full *full = full_of(dir, candidate[0]);
        full->dir = dir->base.key;
        memcpy(full->name, candidate[0], FAT_NAME_BYTES);
    }
    return rc < 0 ? rc : 0;
}

int fat_short_make(struct clusters_node *dir, const struct fat_name *name,
                   uint8_t out[FAT_NAME_BYTES], uint8_t *case_bits, bool *needs_long)
{
    const struct fat *f = fat_of(dir->base.volume);
    uint8_t candidate[CANDIDATES][FAT_NAME_BYTES];
    bool taken[CANDIDATES];
    struct basis b;
    if (as_typed(f, name, out, case_bits, needs_long)) {
        return 0; /* no other entry answers to it: the name itself was looked for */
    }
    *needs_long = true;
    *case_bits = 0;
    make_basis(f, name, &b);
    for (uint32_t salt = 0; salt < SALTS; salt++) {
        make_candidates(&b, name, salt, candidate);
        int rc = find_taken(dir, candidate, taken);
        if (rc < 0) {
            return rc;
        }
        for (uint32_t i = 0; i < CANDIDATES; i++) {
            if (!taken[i]) {
                memcpy(out, candidate[i], FAT_NAME_BYTES);
                return 0;
            }
        }
    }
    return -EEXIST;
}
