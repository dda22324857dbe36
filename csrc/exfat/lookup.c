/* Finding a name in a directory.
 *
 * The filter or the index of csrc/names answers without a walk where it can. A walk that starts at
 * the first entry is never wasted: on its way it enters every name it sees into filter and index,
 * and every run of free entries into the hint and the list of holes, so that the next lookup or
 * create needs none.
 */
#include "exfat/exfat.h"

#include <errno.h>
#include <string.h>

/* Collects one set's name while its entries pass by. */
struct collector {
    uint32_t start; /* index of the File entry */
    uint32_t left;  /* secondaries still to come; 0: outside a set */
    uint32_t seen;  /* secondaries seen */
    uint32_t got;   /* name units seen */
    uint16_t hash16;
    bool wanted; /* units are kept */
    struct exfat_name name;
};

struct search {
    struct exfat_node *dir;
    const struct exfat_name *name; /* NULL: nothing is looked for */
    bool building, found;
    bool collect; /* hint and holes are to be made from this walk */
    uint32_t found_at;
    struct collector c;
    struct exfat_gap gap;
};

static void collect_name(struct collector *c, const uint8_t *entry)
{
    for (uint32_t u = 0; u < EXFAT_NAME_UNITS && c->got < c->name.length; u++) {
        c->name.unit[c->got++] = base_le16(entry + EXFAT_NAME_TEXT + u * 2);
    }
}

/* A whole name has been seen: into the tables, and compared. */
static void name_complete(struct search *s)
{
    struct exfat *x = exfat_of(s->dir->base.volume);
    struct collector *c = &s->c;
    exfat_name_finish(x, &c->name);
    if (s->building) {
        names_build_add(s->dir->names, c->name.hash, c->start);
    }
    if (s->name && !s->found && exfat_name_equal(&c->name, s->name)) {
        s->found = true;
        s->found_at = c->start;
    }
}

static void see_entry(struct search *s, uint32_t index, const uint8_t *entry)
{
    struct collector *c = &s->c;
    uint8_t type = entry[0];
    if (type == EXFAT_TYPE_FILE) {
        c->start = index;
        c->left = entry[EXFAT_FILE_SECONDARY_COUNT];
        c->seen = 0;
        return;
    }
    if (c->left == 0) {
        return;
    }
    c->left--;
    c->seen++;
    if (c->seen == 1) {
        if (type != EXFAT_TYPE_STREAM) {
            c->left = 0; /* no set: its name cannot be known */
            return;
        }
        c->got = 0;
        c->name.length = entry[EXFAT_STREAM_NAME_LENGTH];
        c->hash16 = base_le16(entry + EXFAT_STREAM_NAME_HASH);
        /* Without tables to build, names of another length cannot be the one (the stored hash may
         * be damaged). */
        c->wanted = s->building || (s->name && c->name.length == s->name->length);
        return;
    }
    if (type != EXFAT_TYPE_NAME || c->got >= c->name.length) {
        c->left = 0;
        return;
    }
    if (!c->wanted) {
        return;
    }
    collect_name(c, entry);
    if (c->got == c->name.length) {
        c->left = 0;
        name_complete(s);
    }
}

/* A free run is over at an entry in use. */
static void gap_close(struct search *s)
{
    struct exfat_gap *g = &s->gap;
    if (g->count == 0) {
        return;
    }
    if (!s->collect) {
        g->count = 0;
        return;
    }
    names_hole_add(s->dir->names, g->start, g->count);
    if (!g->hint.valid && g->need > 0 && g->count >= g->need) {
        g->hint = (struct exfat_hint){true, g->start, g->count, g->need, 0};
    }
    g->count = 0;
}

/* The directory ends at `end`: all that follows is free, with the run that leads up to it. */
static void gap_end(struct search *s, uint32_t end, uint32_t total)
{
    struct exfat_gap *g = &s->gap;
    struct exfat_node *dir = s->dir;
    if (!s->collect) {
        return;
    }
    uint32_t start = g->count > 0 ? g->start : end;
    names_holes_known(dir->names);
    bool complete = names_holes_complete_for(dir->names, g->need > 0 ? g->need : 1);
    if (complete ||
        !g->hint.valid) { /* known holes come first, so that the tail is right for such sets */
        uint32_t least = names_holes_complete(dir->names) ? 1 : g->need;
        g->hint = (struct exfat_hint){true, start, total - start, least, 0};
    }
    if (g->need > 0 || complete) {
        dir->hint = g->hint;
    }
}

/* A retained hint is left as it is by lookups: a walk that stops early has seen less than the hint
 * knows. */
static void search_begin(struct search *s, struct exfat_node *dir, const struct exfat_name *name,
                         uint32_t need)
{
    bool retained = dir->base.volume->policy.empty_hint == VOLUME_HINT_RETAINED;
    s->collect = !name || !retained || !dir->hint.valid;
    s->dir = dir;
    s->name = name;
    s->found = false;
    s->found_at = 0;
    s->c.left = 0;
    memset(&s->gap, 0, sizeof s->gap);
    s->gap.need = need;
    if (s->collect) {
        names_holes_drop(dir->names);
        dir->hint.valid = false;
    }
}

/* Walks from the first entry to the end, or until the name is found and nothing more can be
 * learned. */
static int search_walk(struct search *s, bool whole)
{
    struct exfat_walk w;
    struct exfat_node *dir = s->dir;
    int rc = exfat_walk_begin(&w, dir, 0);
    if (rc < 0) {
        return rc;
    }
    s->building = names_build_begin(dir->names, w.total);
    const uint8_t *entry;
    uint32_t end = w.total;
    bool stopped = false;
    while ((rc = exfat_walk_next(&w, &entry)) > 0) {
        uint32_t index = w.index - 1;
        if (entry[0] == EXFAT_TYPE_END) {
            end = index;
            break;
        }
        if ((entry[0] & EXFAT_TYPE_IN_USE) == 0) {
            s->c.left = 0;
            if (s->gap.count++ == 0) {
                s->gap.start = index;
            }
            continue;
        }
        gap_close(s);
        see_entry(s, index, entry);
        if (s->found && !whole) {
            stopped = true;
            break;
        }
    }
    exfat_walk_end(&w);
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

/* Takes a set by position and checks that it really has the name. 1: yes, 0: no. */
static int candidate(struct exfat_node *dir, const struct exfat_name *name, uint32_t position,
                     struct exfat_set *set)
{
    struct exfat *x = exfat_of(dir->base.volume);
    struct exfat_name other;
    int rc = exfat_set_read(dir, position, set);
    dir->base.volume->counters.entries_visited += set->count;
    if (rc == 0) {
        rc = exfat_set_name(x, set, &other);
    }
    return rc < 0 ? rc : exfat_name_equal(&other, name);
}

int exfat_dir_lookup(struct exfat_node *dir, const struct exfat_name *name, uint32_t need,
                     struct exfat_set *set)
{
    struct volume *v = dir->base.volume;
    struct search s;
    int rc = -ENOENT;
    v->counters.lookups++;
    names_dir_use(dir->names);
    enum names_answer answer = names_lookup(dir->names, name->hash);
    uint32_t position, cursor = 0;
    switch (answer) {
    case NAMES_ABSENT:
        break;
    case NAMES_CANDIDATES:
        while (names_next(dir->names, name->hash, &cursor, &position)) {
            if ((rc = candidate(dir, name, position, set)) != 0) {
                break;
            }
            rc = -ENOENT;
        }
        rc = rc > 0 ? 0 : rc;
        break;
    case NAMES_MAYBE:
        search_begin(&s, dir, name, need);
        /* A hit goes on to the end once, so that the index exists for the next one. */
        rc = search_walk(&s, v->policy.name_index && !dir->walked);
        dir->walked = dir->walked || rc == 0;
        if (rc == 0) {
            rc = s.found ? candidate(dir, name, s.found_at, set) : -ENOENT;
            rc = rc == 0 ? -ENOENT : rc > 0 ? 0 : rc;
        }
        break;
    }
    if (rc == -ENOENT) {
        v->counters.lookups_missed++;
        if (answer != NAMES_ABSENT) {
            names_missed(dir->names);
        }
    }
    names_dir_unuse(dir->names);
    return rc;
}

int exfat_dir_scan_free(struct exfat_node *dir, uint32_t need)
{
    struct search s;
    names_dir_use(dir->names);
    search_begin(&s, dir, NULL, need);
    int rc = search_walk(&s, true);
    names_dir_unuse(dir->names);
    return rc;
}

int exfat_dir_check_empty(struct exfat_node *dir)
{
    struct exfat_walk w;
    const uint8_t *entry;
    int rc = exfat_walk_begin(&w, dir, 0);
    if (rc < 0) {
        return rc;
    }
    while ((rc = exfat_walk_next(&w, &entry)) > 0) {
        if (entry[0] == EXFAT_TYPE_END) {
            rc = 0;
            break;
        }
        if ((entry[0] & EXFAT_TYPE_IN_USE) != 0) { /* whatever it is, it must not be lost */
            rc = -ENOTEMPTY;
            break;
        }
    }
    exfat_walk_end(&w);
    return rc;
}
