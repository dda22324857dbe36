/* One directory: look-ups, building by a walk, and changes. */
#include "names/internal.h"

#include <stdlib.h>

void names_dir_free_tables(struct names_dir *d)
{
    names_filter_free(d);
    names_index_free(d);
    names_holes_free(d);
    d->filtered = false;
}

void names_dir_drop(struct names_dir *d)
{
    names_dir_free_tables(d);
}

void names_uncertain(struct names_dir *d)
{
    names_dir_free_tables(d);
}

/* ---- look-up ---- */

enum names_answer names_lookup(struct names_dir *d, uint64_t hash)
{
    struct names_counters *n = names_counters_of(d);
    d->filtered = false;
    if (d->index_complete) {
        uint32_t cursor = 0, position;
        if (d->hitting) {
            names_index_fetch(&d->index, names_tag(hash));
        }
        d->hitting = names_index_next(&d->index, names_tag(hash), &cursor, &position);
        n->index_hits += d->hitting;
        n->index_misses += !d->hitting;
        return d->hitting ? NAMES_CANDIDATES : NAMES_ABSENT;
    }
    if (d->filter_complete) {
        n->filter_tests++;
        if (!names_filter_test(&d->filter, names_tag(hash))) {
            n->filter_rejects++;
            return NAMES_ABSENT;
        }
        d->filtered = true;
    }
    return NAMES_MAYBE;
}

bool names_next(struct names_dir *d, uint64_t hash, uint32_t *cursor, uint32_t *position)
{
    return d->index_complete && names_index_next(&d->index, names_tag(hash), cursor, position);
}

void names_missed(struct names_dir *d)
{
    names_counters_of(d)->filter_false_positives += d->filtered;
    d->filtered = false;
}

/* ---- building ---- */

/* An index that did not fit is tried again once there is room for what it needed, or the directory
 * is smaller. */
static bool index_worth_building(struct names_dir *d, uint32_t entries)
{
    if (!names_policy_of(d)->index || d->index_complete) {
        return false;
    }
    if (d->index_want > 0 && entries < d->refused_at) {
        d->index_want = 0;
    }
    return d->index_want == 0 || names_could_hold(d, d->index_want);
}

bool names_build_begin(struct names_dir *d, uint32_t entries)
{
    names_build_abort(d);
    d->entries = entries;
    if (names_policy_of(d)->filter && !d->filter_complete) {
        d->building_filter = names_filter_make(d, names_filter_size(entries));
    }
    d->building_index = index_worth_building(d, entries);
    if (d->building_index) {
        d->refused_at = entries; /* if it is */
    }
    return d->building_filter || d->building_index;
}

void names_build_add(struct names_dir *d, uint64_t hash, uint32_t position)
{
    uint32_t tag = names_tag(hash);
    if (d->building_filter) {
        names_filter_add(&d->filter, tag);
    }
    if (d->building_index && names_index_add(d, tag, position) != NAMES_DONE) {
        names_index_free(d);
    }
}

void names_build_end(struct names_dir *d)
{
    if (d->building_filter) {
        names_filter_settle(&d->filter);
        d->building_filter = false;
        d->filter_complete = true;
        names_counters_of(d)->filter_builds++;
    }
    if (d->building_index) {
        d->building_index = false;
        d->index_complete = true;
        d->index_want = 0;
        names_counters_of(d)->index_builds++;
    }
}

void names_build_abort(struct names_dir *d)
{
    if (d->building_filter) {
        names_filter_free(d);
    }
    if (d->building_index) {
        names_index_free(d);
    }
}

/* ---- changes ---- */

static void add_to_filter(struct names_dir *d, uint32_t tag, uint32_t entries)
{
    struct names_filter *f = &d->filter;
    if (!d->filter_complete && !d->building_filter) {
        return;
    }
    names_filter_add(f, tag);
    /* Twice the size: at the first cluster more, every directory would be walked again and again as
     * it grows. */
    bool outgrown = names_filter_size(entries) / 2 >= f->bytes;
    if (d->filter_complete && (f->set >= f->limit || outgrown)) {
        names_filter_free(d);
    }
}

/* The index cannot grow: a filter made from what it knows takes its place, so that no walk is
 * needed. */
static void index_refused(struct names_dir *d, uint32_t tag, uint32_t entries)
{
    d->refused_at = entries;
    if (!d->index_complete || !names_policy_of(d)->filter || d->filter.bits != NULL) {
        names_index_free(d);
        return;
    }
    names_index_to_filter(d, names_filter_size(entries));
    if (d->filter.bits != NULL) {
        names_filter_add(&d->filter, tag);
        names_filter_settle(&d->filter);
        d->filter_complete = true;
        names_counters_of(d)->filter_builds++;
    }
}

void names_expect(struct names_dir *d, uint64_t hash)
{
    if (d->index_complete) {
        names_index_fetch(&d->index, names_tag(hash));
    }
}

void names_added(struct names_dir *d, uint64_t hash, uint32_t position, uint32_t entries)
{
    uint32_t tag = names_tag(hash);
    d->entries = entries;
    add_to_filter(d, tag, entries);
    if ((d->index_complete || d->building_index) &&
        names_index_add(d, tag, position) != NAMES_DONE) {
        index_refused(d, tag, entries);
    }
}

/* A name that a complete index does not know shows that it is wrong. */
void names_removed(struct names_dir *d, uint64_t hash, uint32_t position)
{
    if (d->index_complete || d->building_index) {
        enum names_result r = names_index_remove(&d->index, names_tag(hash), position);
        if (r != NAMES_DONE && d->index_complete) {
            names_index_free(d);
        }
    }
}

void names_moved(struct names_dir *d, uint64_t hash, uint32_t from, uint32_t to)
{
    names_removed(d, hash, from);
    if ((d->index_complete || d->building_index) &&
        names_index_add(d, names_tag(hash), to) != NAMES_DONE) {
        names_index_free(d);
    }
}

/* ---- what there is ---- */

bool names_index_complete(const struct names_dir *d)
{
    return d->index_complete;
}

bool names_filter_present(const struct names_dir *d)
{
    return d->filter_complete;
}

size_t names_filter_bytes(const struct names_dir *d)
{
    return d->filter_complete ? d->filter.bytes : 0;
}

size_t names_filter_bits_set(const struct names_dir *d)
{
    return d->filter_complete ? d->filter.set : 0;
}
