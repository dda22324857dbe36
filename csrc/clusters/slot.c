/* Places for new entry sets.
 *
 * Retained (the best we have): holes are in the directory's list, the tail (what is free up to the
 * end of the chain) in its hint; nothing is walked while these are known. One-shot: the lookup that
 * missed leaves a hint, the create uses it up. Off: every create walks from the first entry.
 */
#include "clusters/clusters.h"

#include <errno.h>
#include <string.h>

bool clusters_unit_forbidden(uint16_t c)
{
    return c < 0x20 || (c < 0x80 && strchr("\"*/:<>?\\|", c));
}

int clusters_check_name(struct volume *v, const uint16_t *unit, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (clusters_unit_forbidden(unit[i])) {
            return base_refused(v->error, EINVAL,
                                "A name has no control characters and none of \" * / : < > ? \\ |");
        }
    }
    return 0;
}

static bool touches_end(const struct clusters_hint *h, uint32_t total)
{
    return h->valid && h->index + h->count == total;
}

/* As many more clusters as `missing` entries need, zeroed; all or none. The hint's run, which
 * touches the end, grows too. */
static int grow(struct clusters_node *dir, uint32_t missing)
{
    struct clusters *h = clusters_of(dir->base.volume);
    uint32_t clusters = (uint32_t)clusters_for(h, (uint64_t)missing << CLUSTERS_ENTRY_SHIFT);
    uint64_t old_size = dir->size, more = (uint64_t)clusters << h->shift;
    bool sized = h->sized_directories && !clusters_is_root(dir);
    if (dir->region != 0 || old_size + more > h->directory_max) {
        return base_refused(dir->base.volume->error, ENOSPC,
                            "No space left: the directory is full, and can't grow");
    }
    int rc = clusters_chain_extend(h, &dir->chain, clusters, sized ? CACHE_CHAIN : CACHE_ENTRY,
                                   clusters_owner(dir));
    if (rc < 0) {
        return rc;
    }
    uint32_t before = dir->chain.count - clusters;
    rc = clusters_dir_zero(dir, before, dir->chain.count);
    if (rc < 0) {
        (void)clusters_chain_cut(h, &dir->chain, before, true, clusters_owner(dir));
        return rc;
    }
    dir->size = dir->valid = old_size + more;
    dir->hint.count += (uint32_t)(more >> CLUSTERS_ENTRY_SHIFT);
    if (sized) {
        /* When this fails the larger size may have reached the device all the same, so that the
         * clusters are never given back; the entry is tried again with the next sync. */
        volume_node_mark_dirty(&dir->base);
        rc = dir->base.volume->driver->write_node(&dir->base);
    }
    return rc;
}

/* Whatever the entry held, the directory ends here; on the device before a set in front of it. */
static int put_end(struct clusters_node *dir, uint32_t index)
{
    uint8_t entry[CLUSTERS_ENTRY_SIZE];
    int rc = clusters_dir_read(dir, index, 1, entry);
    entry[0] = 0;
    return rc < 0 ? rc : clusters_dir_write(dir, index, 1, entry, CACHE_CONTENT);
}

/* The entries that a set is about to cover must be free, and what comes behind a tail must not come
 * to life: where the set takes the place of the directory's end, that moves behind it. What the
 * last set in this run has looked at is not looked at again. */
static int verify(struct clusters_node *dir, const struct clusters_slot *slot, uint32_t need)
{
    struct clusters_walk w;
    const uint8_t *entry;
    struct volume *v = dir->base.volume;
    const struct clusters_ops *ops = clusters_of(v)->ops;
    /* Behind a tail two more: the set may be moved on by one, and is then the end of the directory.
     */
    uint32_t more = (uint32_t)base_min(slot->run - need, slot->from_hole ? 1 : 2);
    uint32_t last = slot->index + need + more, ends[2], ends_n = 0;
    uint32_t seen = slot->from_hole ? 0 : dir->hint.seen;
    bool ended = seen > slot->index && dir->hint.ended;
    int rc = clusters_walk_begin(&w, dir, (uint32_t)base_max(slot->index, seen));
    while (rc >= 0 && w.index < last && (rc = clusters_walk_next(&w, &entry)) > 0) {
        uint64_t offset = clusters_walk_offset(&w);
        if (ended && entry[0] != 0 && w.index > slot->index + need) {
            ends[ends_n++] = w.index - 1;
        }
        ended = ended || entry[0] == 0;
        if (entry[0] != 0 && ops->entry(entry) != CLUSTERS_ENTRY_FREE) {
            rc = base_damage(v->error, clusters_owner(dir), offset, "EntryType", entry[0], 0,
                             "an entry in use follows the end of the directory");
        } else {
            rc = clusters_check_unused(v, offset);
        }
    }
    clusters_walk_end(&w);
    while (rc >= 0 && ends_n > 0) {
        rc = put_end(dir, ends[--ends_n]);
    }
    if (rc < 0) {
        dir->hint.valid = false;
    } else if (!slot->from_hole) {
        dir->hint.seen = w.index;
        dir->hint.ended = ended;
    }
    return rc < 0 ? rc : 0;
}

static bool take_hole(struct clusters_node *dir, uint32_t need, struct clusters_slot *slot)
{
    if (!names_hole_take(dir->names, need, &slot->index, &slot->run)) {
        return false;
    }
    slot->from_hole = true;
    struct clusters_hint *h = &dir->hint;
    if (h->valid && slot->index < h->index + h->count && h->index < slot->index + slot->run) {
        h->valid = false; /* the hint was this hole */
    }
    return true;
}

/* 1: the hint has a place; 0: it has none and nothing else has, so the directory must grow;
 * -EAGAIN: walk. */
static int take_hint(struct clusters_node *dir, uint32_t need, struct clusters_slot *slot)
{
    struct clusters_hint *h = &dir->hint;
    uint32_t total;
    int rc = clusters_dir_entries(dir, &total);
    if (rc < 0) {
        return rc;
    }
    if (!h->valid || need < h->min_need || (h->listed && !names_holes_kept(dir->names))) {
        return -EAGAIN;
    }
    if (h->count >= need) {
        slot->index = h->index;
        slot->run = h->count;
        slot->at_tail = touches_end(h, total);
        return 1;
    }
    return touches_end(h, total) ? 0 : -EAGAIN;
}

int clusters_slot_find(struct clusters_node *dir, uint32_t need, struct clusters_slot *slot)
{
    struct volume *v = dir->base.volume;
    enum volume_empty_hint policy = v->policy.empty_hint;
    int rc;
    memset(slot, 0, sizeof *slot);
    if (policy == VOLUME_HINT_OFF) {
        dir->hint.valid = false;
    }
    bool walked = false;
    for (;;) {
        if (policy == VOLUME_HINT_RETAINED && take_hole(dir, need, slot)) {
            v->counters.hint_hits += !walked;
            break;
        }
        rc = take_hint(dir, need, slot);
        if (rc == -EAGAIN && !walked) {
            v->counters.hint_misses++;
            walked = true;
            if ((rc = clusters_of(v)->ops->scan_free(dir, need)) < 0) {
                return rc;
            }
            continue;
        }
        if (rc < 0) {
            return rc == -EAGAIN ? -ENOSPC : rc;
        }
        if (rc > 0) {
            v->counters.hint_hits += !walked;
            break;
        }
        if ((rc = grow(dir, need - dir->hint.count)) < 0) {
            return rc;
        }
    }
    rc = verify(dir, slot, need);
    if (rc < 0) {
        clusters_slot_cancel(dir, slot);
    } else if (policy != VOLUME_HINT_RETAINED) {
        dir->hint.valid = false; /* used up */
    }
    return rc;
}

void clusters_slot_commit(struct clusters_node *dir, const struct clusters_slot *slot,
                          uint32_t need)
{
    struct clusters_hint *h = &dir->hint;
    uint32_t used = slot->skip + need;
    if (slot->from_hole) {
        if (slot->run - used >= clusters_of(dir->base.volume)->least_run) {
            names_hole_add(dir->names, slot->index + used, slot->run - used);
        }
    } else {
        names_hole_cut(dir->names, slot->index, used);
        if (h->valid && h->index == slot->index) {
            h->index += used;
            h->count -= used;
            if (h->min_need < need && !names_holes_complete(dir->names)) {
                h->min_need = need;
            }
        }
    }
}

void clusters_slot_cancel(struct clusters_node *dir, const struct clusters_slot *slot)
{
    dir->hint.seen = 0; /* the set may have been written in part */
    if (slot->from_hole) {
        names_hole_add(dir->names, slot->index, slot->run);
    }
}

static bool is_free(struct clusters_node *dir, uint32_t index, uint32_t total)
{
    uint8_t entry[CLUSTERS_ENTRY_SIZE];
    return index < total && clusters_dir_read(dir, index, 1, entry) == 0 &&
           (entry[0] == 0 ||
            clusters_of(dir->base.volume)->ops->entry(entry) == CLUSTERS_ENTRY_FREE);
}

/* Single entries that sets were not placed on are in no list: they join what is freed beside them.
 */
static void widen(struct clusters_node *dir, uint32_t total, uint32_t *index, uint32_t *count)
{
    const struct clusters_hint *h = &dir->hint;
    uint32_t end = *index + *count;
    uint32_t hole;
    if (names_hole_take_before(dir->names, *index, &hole)) { /* so that it is not widened into */
        *index -= hole;
        *count += hole;
    }
    if (*index > 0 && is_free(dir, *index - 1, total)) {
        --*index;
        ++*count;
    }
    if ((!h->valid || end < h->index) && is_free(dir, end, total)) {
        ++*count;
    }
}

void clusters_slot_freed(struct clusters_node *dir, uint32_t index, uint32_t count)
{
    struct clusters_hint *h = &dir->hint;
    uint32_t total;
    bool complete = names_holes_complete(dir->names);
    if (clusters_dir_entries(dir, &total) < 0) {
        h->valid = false;
        return;
    }
    if (clusters_of(dir->base.volume)->least_run > 1) {
        widen(dir, total, &index, &count);
    }
    if (complete && touches_end(h, total) && index + count == h->index) {
        uint32_t before;
        if (names_hole_take_before(dir->names, index, &before)) {
            index -= before;
            count += before;
        }
        h->index = index;
        h->count += count;
        return;
    }
    names_hole_add(dir->names, index, count);
    if (h->valid &&
        (!names_holes_complete_for(dir->names, h->min_need) ||
         (!complete && (is_free(dir, index - 1, total) || is_free(dir, index + count, total))))) {
        h->valid = false; /* a smaller place may exist now than the hint knows of */
        dir->base.volume->counters.hint_drops++;
    }
}

static void enter_names(struct clusters_node *dir, uint32_t index, const uint64_t *hashes,
                        unsigned n)
{
    uint32_t total = 0;
    (void)clusters_dir_entries(dir, &total);
    for (unsigned i = 0; i < n; i++) {
        names_added(dir->names, hashes[i], index, clusters_names_size(dir, total));
    }
}

static void remove_names(struct clusters_node *dir, uint32_t index, const uint64_t *hashes,
                         unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        names_removed(dir->names, hashes[i], index);
    }
}

void clusters_set_written(struct clusters_node *dir, const struct clusters_slot *slot,
                          uint32_t need, const uint64_t *hashes, unsigned n)
{
    clusters_slot_commit(dir, slot, need);
    enter_names(dir, clusters_slot_at(slot), hashes, n);
}

void clusters_set_renamed(struct clusters_node *dir, uint32_t index, const uint64_t *old,
                          unsigned old_n, const uint64_t *hashes, unsigned n)
{
    remove_names(dir, index, old, old_n);
    enter_names(dir, index, hashes, n);
}

void clusters_set_rolled_back(struct clusters_node *dir)
{
    names_uncertain(dir->names);
    names_holes_drop(dir->names);
    dir->hint.valid = false;
}

void clusters_set_erased(struct clusters_node *dir, uint32_t index, uint32_t count,
                         const uint64_t *hashes, unsigned n)
{
    remove_names(dir, index, hashes, n);
    clusters_slot_freed(dir, index, count);
}
