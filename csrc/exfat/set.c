/* Entry sets: read whole, judged, changed in a copy, and written once.
 *
 * The old way (policy entry_sync = entry) is kept for comparison: it writes the entries of a set
 * one by one as they come to be known, and when directories are synchronous it waits for each.
 */
#include "base/checksum.h"
#include "exfat/exfat.h"

#include <errno.h>
#include <string.h>

enum { USUAL_ENTRIES = 4 }; /* what is read of a set before its length is known */

static uint8_t *at(struct exfat_set *set, uint32_t i)
{
    return set->entry + (size_t)i * EXFAT_ENTRY_SIZE;
}

static const uint8_t *cat(const struct exfat_set *set, uint32_t i)
{
    return set->entry + (size_t)i * EXFAT_ENTRY_SIZE;
}

uint64_t exfat_set_offset(const struct exfat_set *set)
{
    return clusters_dir_offset(set->dir, set->index);
}

static int set_damage(const struct exfat_set *set, uint32_t entry, uint32_t byte, const char *field,
                      uint64_t found, uint64_t expected, const char *why)
{
    uint64_t offset = 0;
    uint32_t piece;
    struct volume *v = set->dir->base.volume;
    if (clusters_dir_find(set->dir, set->index + entry, &offset, &piece) == 0) {
        offset += byte;
    }
    return base_damage(v->error, "entry set", offset, field, found, expected, why);
}

int exfat_set_read(struct clusters_node *dir, uint32_t index, struct exfat_set *set)
{
    set->dir = dir;
    set->index = index;
    set->count = 1;
    uint32_t total, got;
    int rc = clusters_dir_entries(dir, &total);
    if (rc == 0) {
        rc = clusters_dir_peek(dir, index, USUAL_ENTRIES, set->entry, &got);
    }
    if (rc < 0) {
        return rc;
    }
    if (set->entry[0] != EXFAT_TYPE_FILE) {
        return set_damage(set, 0, 0, "EntryType", set->entry[0], EXFAT_TYPE_FILE,
                          "a File entry should be here");
    }
    uint32_t count = set->entry[EXFAT_FILE_SECONDARY_COUNT] + 1u;
    if (count > total - index) {
        return set_damage(set, 0, EXFAT_FILE_SECONDARY_COUNT, "SecondaryCount", count - 1,
                          total - index - 1, "the set runs past the end of the directory");
    }
    set->count = count;
    return count <= got ? 0 : clusters_dir_read(dir, index + got, count - got, at(set, got));
}

static uint16_t checksum(const struct exfat_set *set)
{
    uint16_t sum = base_ror16_sum(0, set->entry, EXFAT_FILE_CHECKSUM);
    return base_ror16_sum(sum, set->entry + 4, (size_t)set->count * EXFAT_ENTRY_SIZE - 4);
}

void exfat_set_checksum(struct exfat_set *set)
{
    base_put_le16(set->entry + EXFAT_FILE_CHECKSUM, checksum(set));
}

int exfat_set_name(struct exfat *x, const struct exfat_set *set, struct exfat_name *name)
{
    if (set->count < 3) {
        return set_damage(set, 0, EXFAT_FILE_SECONDARY_COUNT, "SecondaryCount", set->count - 1, 2,
                          "a set has at least a stream and a name entry");
    }
    const uint8_t *stream = cat(set, 1);
    if (stream[0] != EXFAT_TYPE_STREAM) {
        return set_damage(set, 1, 0, "EntryType", stream[0], EXFAT_TYPE_STREAM,
                          "a Stream Extension entry should follow the File entry");
    }
    uint32_t length = stream[EXFAT_STREAM_NAME_LENGTH];
    uint32_t entries = exfat_name_entries(length);
    if (length == 0 || entries > set->count - 2) {
        return set_damage(set, 1, EXFAT_STREAM_NAME_LENGTH, "NameLength", length,
                          base_min((set->count - 2) * EXFAT_NAME_UNITS, EXFAT_NAME_MAX),
                          "the name does not fit its entries");
    }
    for (uint32_t i = 0; i < length; i++) {
        uint32_t e = 2 + i / EXFAT_NAME_UNITS, unit = i % EXFAT_NAME_UNITS;
        const uint8_t *p = cat(set, e);
        if (unit == 0 && p[0] != EXFAT_TYPE_NAME) {
            return set_damage(set, e, 0, "EntryType", p[0], EXFAT_TYPE_NAME,
                              "a File Name entry is missing");
        }
        name->unit[i] = base_le16(p + EXFAT_NAME_TEXT + unit * 2);
    }
    name->length = length;
    exfat_name_finish(x, name);
    return 0;
}

/* FirstCluster, DataLength, flags of an allocation [6.3, 6.4]. */
static int check_allocation(struct exfat *x, const struct exfat_set *set, uint32_t entry)
{
    const uint8_t *p = cat(set, entry);
    uint32_t first = base_le32(p + EXFAT_ENTRY_FIRST_CLUSTER);
    uint64_t length = base_le64(p + EXFAT_ENTRY_DATA_LENGTH);
    uint8_t flags = p[1];
    if (first == 0 && length == 0) {
        return 0;
    }
    if (!clusters_valid(&x->heap, first)) {
        return set_damage(set, entry, EXFAT_ENTRY_FIRST_CLUSTER, "FirstCluster", first, 0,
                          "the first cluster is outside the cluster heap");
    }
    if (length == 0) {
        return set_damage(set, entry, EXFAT_ENTRY_FIRST_CLUSTER, "FirstCluster", first, 0,
                          "an empty allocation has no first cluster");
    }
    if ((flags & EXFAT_ALLOCATION_POSSIBLE) == 0) {
        return set_damage(set, entry, 1, "GeneralSecondaryFlags", flags,
                          flags | EXFAT_ALLOCATION_POSSIBLE, "clusters without AllocationPossible");
    }
    uint64_t most = x->g.clusters;
    if ((flags & EXFAT_NO_FAT_CHAIN) != 0) {
        most -= first - EXFAT_FIRST_CLUSTER;
    }
    if (clusters_for(&x->heap, length) > most) {
        return set_damage(set, entry, EXFAT_ENTRY_DATA_LENGTH, "DataLength", length,
                          most << x->g.cluster_shift, "longer than the cluster heap allows");
    }
    return 0;
}

static int check_secondaries(struct exfat *x, const struct exfat_set *set, uint32_t from)
{
    for (uint32_t i = from; i < set->count; i++) {
        uint8_t type = cat(set, i)[0];
        if ((type & EXFAT_TYPE_IN_USE) == 0 || (type & EXFAT_TYPE_SECONDARY) == 0) {
            return set_damage(set, i, 0, "EntryType", type, EXFAT_TYPE_VENDOR,
                              "the set ends too early");
        }
        if ((type & EXFAT_TYPE_BENIGN) == 0) {
            if (type == EXFAT_TYPE_STREAM || type == EXFAT_TYPE_NAME) {
                return set_damage(set, i, 0, "EntryType", type, EXFAT_TYPE_VENDOR,
                                  "an entry too many");
            }
            return base_unsupported(x->heap.volume->error, "critical secondary entry",
                                    "the set has a critical entry of an unknown type");
        }
        if ((cat(set, i)[1] & EXFAT_ALLOCATION_POSSIBLE) != 0) {
            int rc = check_allocation(x, set, i);
            if (rc < 0) {
                return rc;
            }
        }
    }
    return 0;
}

/* What holds for the stream of files, and for that of directories. */
static int check_stream(struct exfat *x, const struct exfat_set *set)
{
    int rc = check_allocation(x, set, 1);
    if (rc < 0) {
        return rc;
    }
    const uint8_t *stream = cat(set, 1);
    uint64_t length = base_le64(stream + EXFAT_STREAM_DATA_LENGTH);
    uint64_t valid = base_le64(stream + EXFAT_STREAM_VALID_LENGTH);
    if (valid > length) {
        return set_damage(set, 1, EXFAT_STREAM_VALID_LENGTH, "ValidDataLength", valid, length,
                          "longer than DataLength");
    }
    if ((base_le16(set->entry + EXFAT_FILE_ATTRIBUTES) & VOLUME_ATTR_DIRECTORY) != 0 &&
        ((length & (x->heap.size - 1)) != 0 || length > EXFAT_DIRECTORY_MAX)) {
        return set_damage(set, 1, EXFAT_STREAM_DATA_LENGTH, "DataLength", length,
                          base_round_up(length, x->heap.size),
                          "a directory is a whole number of clusters, 256 MiB at most");
    }
    return 0;
}

int exfat_set_validate(struct exfat *x, const struct exfat_set *set, struct exfat_name *name)
{
    uint16_t sum = checksum(set);
    uint16_t stored = base_le16(set->entry + EXFAT_FILE_CHECKSUM);
    if (sum != stored) {
        return set_damage(set, 0, EXFAT_FILE_CHECKSUM, "SetChecksum", stored, sum,
                          "the checksum of the set is wrong");
    }
    struct exfat_name own;
    if (!name) {
        name = &own;
    }
    int rc = exfat_set_name(x, set, name);
    if (rc == 0) {
        rc = check_secondaries(x, set, 2 + exfat_name_entries(name->length));
    }
    if (rc < 0) {
        return rc;
    }
    uint16_t hash = base_le16(cat(set, 1) + EXFAT_STREAM_NAME_HASH);
    if (hash != name->hash16) {
        return set_damage(set, 1, EXFAT_STREAM_NAME_HASH, "NameHash", hash, name->hash16,
                          "the hash does not fit the name");
    }
    return check_stream(x, set);
}

static void put_stamp(uint8_t *p, uint32_t time, uint32_t ten_ms, uint32_t offset,
                      const struct clusters_stamp *s)
{
    base_put_le32(p + time, s->raw);
    if (ten_ms != 0) {
        p[ten_ms] = s->ten_ms;
    }
    p[offset] = s->offset;
}

void exfat_set_update(struct exfat_set *set, const struct clusters_node *node)
{
    uint8_t *file = at(set, 0), *stream = at(set, 1);
    base_put_le16(file + EXFAT_FILE_ATTRIBUTES, node->attributes);
    put_stamp(file, EXFAT_FILE_CREATED, EXFAT_FILE_CREATED_10MS, EXFAT_FILE_CREATED_OFFSET,
              &node->created);
    put_stamp(file, EXFAT_FILE_MODIFIED, EXFAT_FILE_MODIFIED_10MS, EXFAT_FILE_MODIFIED_OFFSET,
              &node->modified);
    put_stamp(file, EXFAT_FILE_ACCESSED, 0, EXFAT_FILE_ACCESSED_OFFSET, &node->accessed);
    bool in_one_piece = node->size != 0 && node->chain.contiguous;
    stream[EXFAT_STREAM_FLAGS] =
        (uint8_t)((stream[EXFAT_STREAM_FLAGS] & ~(unsigned)EXFAT_NO_FAT_CHAIN) |
                  EXFAT_ALLOCATION_POSSIBLE | (in_one_piece ? EXFAT_NO_FAT_CHAIN : 0));
    base_put_le64(stream + EXFAT_STREAM_VALID_LENGTH, node->valid);
    base_put_le32(stream + EXFAT_STREAM_FIRST_CLUSTER, node->size != 0 ? node->chain.first : 0);
    base_put_le64(stream + EXFAT_STREAM_DATA_LENGTH, node->size);
}

void exfat_set_build(struct exfat_set *set, const struct exfat_name *name,
                     const struct clusters_node *node)
{
    uint32_t names = exfat_name_entries(name->length);
    set->count = 2 + names;
    memset(set->entry, 0, (size_t)set->count * EXFAT_ENTRY_SIZE);
    at(set, 0)[0] = EXFAT_TYPE_FILE;
    at(set, 0)[EXFAT_FILE_SECONDARY_COUNT] = (uint8_t)(set->count - 1);
    uint8_t *stream = at(set, 1);
    stream[0] = EXFAT_TYPE_STREAM;
    stream[EXFAT_STREAM_NAME_LENGTH] = (uint8_t)name->length;
    base_put_le16(stream + EXFAT_STREAM_NAME_HASH, name->hash16);
    for (uint32_t i = 0; i < names; i++) {
        uint8_t *p = at(set, 2 + i);
        p[0] = EXFAT_TYPE_NAME;
        uint32_t from = i * EXFAT_NAME_UNITS;
        for (uint32_t u = 0; u < EXFAT_NAME_UNITS && from + u < name->length; u++) {
            base_put_le16(p + EXFAT_NAME_TEXT + u * 2, name->unit[from + u]);
        }
    }
    exfat_set_update(set, node);
}

static struct clusters_stamp get_stamp(const uint8_t *p, uint32_t time, uint32_t ten_ms,
                                       uint32_t offset)
{
    return (struct clusters_stamp){base_le32(p + time), ten_ms != 0 ? p[ten_ms] : 0, p[offset]};
}

void exfat_set_to_node(const struct exfat_set *set, struct clusters_node *node)
{
    struct exfat *x = exfat_of(set->dir->base.volume);
    const uint8_t *file = cat(set, 0), *stream = cat(set, 1);
    node->index = set->index;
    node->entries = set->count;
    node->attributes = base_le16(file + EXFAT_FILE_ATTRIBUTES);
    node->created =
        get_stamp(file, EXFAT_FILE_CREATED, EXFAT_FILE_CREATED_10MS, EXFAT_FILE_CREATED_OFFSET);
    node->modified =
        get_stamp(file, EXFAT_FILE_MODIFIED, EXFAT_FILE_MODIFIED_10MS, EXFAT_FILE_MODIFIED_OFFSET);
    node->accessed = get_stamp(file, EXFAT_FILE_ACCESSED, 0, EXFAT_FILE_ACCESSED_OFFSET);
    node->size = base_le64(stream + EXFAT_STREAM_DATA_LENGTH);
    node->valid = base_le64(stream + EXFAT_STREAM_VALID_LENGTH);
    uint32_t first = base_le32(stream + EXFAT_STREAM_FIRST_CLUSTER);
    bool in_one_piece = (stream[EXFAT_STREAM_FLAGS] & EXFAT_NO_FAT_CHAIN) != 0;
    clusters_chain_init(&node->chain, node->size ? first : 0, in_one_piece,
                        (uint32_t)clusters_for(&x->heap, node->size));
}

/* One entry by itself, waited for when directories are synchronous. */
static int write_one(struct clusters_node *dir, uint32_t index, const uint8_t *entry,
                     enum cache_tier tier)
{
    struct volume *v = dir->base.volume;
    v->counters.entries_written++;
    int rc = clusters_dir_write(dir, index, 1, entry, tier);
    if (rc == 0 && v->sync != VOLUME_LAZY) {
        rc = cache_commit(v->cache, CACHE_REMOVAL, true);
    }
    return rc;
}

int exfat_set_write(struct exfat_set *set, enum cache_tier tier)
{
    struct volume *v = set->dir->base.volume;
    exfat_set_checksum(set);
    v->counters.sets_written++;
    if (v->policy.entry_sync == VOLUME_SYNC_SET) {
        v->counters.entries_written += set->count;
        return clusters_dir_write(set->dir, set->index, set->count, set->entry, tier);
    }
    /* The old way knew the secondary count, the name's length and hash and the checksum only after
     * the entries they are in had been written, and wrote those entries again. */
    int rc = 0;
    for (uint32_t i = 0; i < set->count && rc == 0; i++) {
        rc = write_one(set->dir, set->index + i, at(set, i), tier);
        if (rc == 0 && i < 2) {
            rc = write_one(set->dir, set->index + i, at(set, i), tier);
        }
    }
    if (rc == 0) {
        rc = write_one(set->dir, set->index, at(set, 0), tier);
    }
    if (rc < 0) { /* a device that fails half way must not leave half a set in the cache */
        (void)clusters_dir_write(set->dir, set->index, set->count, set->entry, tier);
    }
    return rc;
}

static void clear_in_use(uint8_t *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        entries[(size_t)i * EXFAT_ENTRY_SIZE] &= (uint8_t)~EXFAT_TYPE_IN_USE;
    }
}

int exfat_set_erase(const struct exfat_set *set, enum cache_tier tier)
{
    uint8_t entry[EXFAT_SET_MAX * EXFAT_ENTRY_SIZE];
    struct volume *v = set->dir->base.volume;
    int rc = 0;
    memcpy(entry, set->entry, (size_t)set->count * EXFAT_ENTRY_SIZE);
    clear_in_use(entry, set->count);
    if (v->policy.entry_sync == VOLUME_SYNC_SET) {
        v->counters.sets_written++;
        v->counters.entries_written += set->count;
        rc = clusters_dir_write(set->dir, set->index, set->count, entry, tier);
    } else {
        for (uint32_t i = 0; i < set->count && rc == 0; i++) {
            rc = write_one(set->dir, set->index + i, entry + (size_t)i * EXFAT_ENTRY_SIZE, tier);
        }
    }
    if (rc < 0) {
        exfat_set_restore(set, tier);
    }
    return rc;
}

void exfat_set_restore(const struct exfat_set *set, enum cache_tier tier)
{
    clusters_dir_put_back(set->dir, set->index, set->count, set->entry, tier);
}

void exfat_set_revoke(struct exfat_set *set, enum cache_tier tier)
{
    clear_in_use(set->entry, set->count);
    exfat_set_restore(set, tier);
}

int exfat_set_touch_dir(struct clusters_node *dir, unsigned old_updates)
{
    struct volume *v = dir->base.volume;
    if (clusters_is_root(dir)) {
        return 0;
    }
    if (v->policy.entry_sync == VOLUME_SYNC_SET || dir->base.unlinked) {
        clusters_touch_dir(dir);
        return 0;
    }
    dir->modified = clusters_stamp_for(v, v->env->now(v->env), CLUSTERS_MODIFIED);
    struct exfat_set set;
    int rc = exfat_set_read(clusters_node_of(dir->base.parent), dir->index, &set);
    if (rc == 0) {
        exfat_set_update(&set, dir);
        exfat_set_checksum(&set);
    }
    while (rc == 0 && old_updates-- > 0) {
        rc = write_one(set.dir, set.index, at(&set, 0), CACHE_ENTRY);
    }
    return rc;
}

bool exfat_set_next_allocation(const struct exfat_set *set, uint32_t *cursor,
                               struct exfat_secondary *out)
{
    for (uint32_t i = *cursor < 2 ? 2 : *cursor; i < set->count; i++) {
        const uint8_t *p = cat(set, i);
        if ((p[0] & EXFAT_TYPE_BENIGN) == 0 || (p[1] & EXFAT_ALLOCATION_POSSIBLE) == 0 ||
            base_le64(p + EXFAT_ENTRY_DATA_LENGTH) == 0) {
            continue;
        }
        out->first_cluster = base_le32(p + EXFAT_ENTRY_FIRST_CLUSTER);
        out->length = base_le64(p + EXFAT_ENTRY_DATA_LENGTH);
        out->contiguous = (p[1] & EXFAT_NO_FAT_CHAIN) != 0;
        out->index = i;
        *cursor = i + 1;
        return true;
    }
    return false;
}
