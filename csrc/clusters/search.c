/* Finding a name in a directory.
 *
 * The filter or the index of csrc/names answers without a walk where it can. A walk that starts at
 * the first entry is never wasted: on its way the driver enters every name it sees into filter and
 * index, and every run of free entries goes into the hint and the list of holes, so that the next
 * lookup or create needs none.
 */
#include "clusters/clusters.h"

#include <errno.h>
#include <string.h>

/* A free run is over at an entry in use. */
static void gap_close(struct clusters_search *s)
{
    struct clusters_gap *g = &s->gap;
    if (g->count == 0) {
        return;
    }
    if (!s->collect) {
        g->count = 0;
        return;
    }
    if (g->count >= clusters_of(s->dir->base.volume)->least_run) {
        names_hole_add(s->dir->names, g->start, g->count);
    }
    if (!g->hint.valid && g->need > 0 && g->count >= g->need) {
        g->hint = (struct clusters_hint){true, g->start, g->count, g->need, 0, false, false};
    }
    g->count = 0;
}

/* The directory ends at `end`: all that follows is free, with the run that leads up to it. */
static void gap_end(struct clusters_search *s, uint32_t end, uint32_t total)
{
    struct clusters_gap *g = &s->gap;
    struct clusters_node *dir = s->dir;
    if (!s->collect) {
        return;
    }
    uint32_t start = g->count > 0 ? g->start : end;
    names_holes_known(dir->names);
    bool complete = names_holes_complete_for(dir->names, g->need > 0 ? g->need : 1);
    if (complete ||
        !g->hint.valid) { /* known holes come first, so that the tail is right for such sets */
        uint32_t least = names_holes_complete(dir->names) ? 1 : g->need;
        g->hint = (struct clusters_hint){true, start, total - start, least, 0, false, complete};
    }
    if (g->need > 0 || complete) {
        dir->hint = g->hint;
    }
}

/* A retained hint is left as it is by lookups: a walk that stops early has seen less than the hint
 * knows. */
static void begin(struct clusters_search *s, bool looking, uint32_t need)
{
    struct clusters_node *dir = s->dir;
    bool retained = dir->base.volume->policy.empty_hint == VOLUME_HINT_RETAINED;
    s->collect = !looking || !retained || !dir->hint.valid;
    s->found = false;
    memset(&s->gap, 0, sizeof s->gap);
    s->gap.need = need;
    if (s->collect) {
        names_holes_drop(dir->names);
        dir->hint.valid = false;
    }
}

/* One step: false when the walk may stop here. */
static bool step(struct clusters_search *s, uint32_t index, const uint8_t *entry, bool whole)
{
    if (clusters_of(s->dir->base.volume)->ops->entry(entry) == CLUSTERS_ENTRY_FREE) {
        s->broken(s);
        if (s->gap.count++ == 0) {
            s->gap.start = index;
        }
        return true;
    }
    gap_close(s);
    s->see(s, index, entry);
    return !s->found || whole;
}

/* Walks from the first entry to the end, or until the name is found and nothing more can be
 * learned. */
static int walk(struct clusters_search *s, bool whole)
{
    struct clusters_walk w;
    struct clusters_node *dir = s->dir;
    int rc = clusters_walk_begin(&w, dir, 0);
    if (rc < 0) {
        return rc;
    }
    s->building = names_build_begin(dir->names, clusters_names_size(dir, w.total));
    const uint8_t *entry;
    uint32_t end = w.total;
    bool stopped = false;
    while (!stopped && (rc = clusters_walk_next(&w, &entry)) > 0) {
        if (entry[0] == 0) {
            end = w.index - 1;
            break;
        }
        stopped = !step(s, w.index - 1, entry, whole);
    }
    clusters_walk_end(&w);
    bool complete = rc >= 0 && !stopped;
    if (complete) {
        gap_end(s, end, w.total);
    } else if (s->collect) {
        names_holes_drop(dir->names);
    }
    if (s->building && complete) {
        names_build_end(dir->names);
    } else if (s->building) {
        names_build_abort(dir->names);
    }
    return rc < 0 ? rc : 0;
}

/* Those that the index has for the hash, one by one. */
static int by_index(struct clusters_search *s, uint64_t hash)
{
    uint32_t position, cursor = 0;
    while (names_next(s->dir->names, hash, &cursor, &position)) {
        int rc = s->candidate(s, position);
        if (rc != 0) {
            return rc < 0 ? rc : 0;
        }
    }
    return -ENOENT;
}

static int by_walk(struct clusters_search *s, uint32_t need)
{
    struct clusters_node *dir = s->dir;
    begin(s, true, need);
    /* A hit goes on to the end once, so that the index exists for the next one. */
    int rc = walk(s, dir->base.volume->policy.name_index && !dir->walked);
    if (rc < 0) {
        return rc;
    }
    dir->walked = true;
    if (!s->found) {
        return -ENOENT;
    }
    rc = s->candidate(s, s->found_at);
    return rc == 0 ? -ENOENT : rc < 0 ? rc : 0;
}

int clusters_lookup(struct clusters_search *s, uint64_t hash, uint32_t need)
{
    struct clusters_node *dir = s->dir;
    struct volume_counters *counters = &dir->base.volume->counters;
    counters->lookups++;
    names_dir_use(dir->names);
    enum names_answer answer = names_lookup(dir->names, hash);
    int rc = answer == NAMES_CANDIDATES ? by_index(s, hash)
             : answer == NAMES_MAYBE    ? by_walk(s, need)
                                        : -ENOENT;
    if (rc == -ENOENT) {
        counters->lookups_missed++;
        if (answer != NAMES_ABSENT) {
            names_missed(dir->names);
        }
    }
    names_dir_unuse(dir->names);
    return rc;
}

int clusters_search_free(struct clusters_search *s, uint32_t need)
{
    names_dir_use(s->dir->names);
    begin(s, false, need);
    int rc = walk(s, true);
    names_dir_unuse(s->dir->names);
    return rc;
}
