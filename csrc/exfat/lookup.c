/* What a walk through an exFAT directory sees: names of entry sets. */
#include "exfat/exfat.h"

#include <errno.h>

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
    struct clusters_search s;      /* first */
    const struct exfat_name *name; /* NULL: nothing is looked for */
    struct exfat_set *set;
    struct collector c;
};

static void collect_name(struct collector *c, const uint8_t *entry)
{
    for (uint32_t u = 0; u < EXFAT_NAME_UNITS && c->got < c->name.length; u++) {
        c->name.unit[c->got++] = base_le16(entry + EXFAT_NAME_TEXT + u * 2);
    }
}

/* A whole name has been seen: into the tables, and compared. */
static void name_complete(struct search *q)
{
    struct exfat *x = exfat_of(q->s.dir->base.volume);
    struct collector *c = &q->c;
    exfat_name_finish(x, &c->name);
    if (q->s.building) {
        names_build_add(q->s.dir->names, c->name.hash, c->start);
    }
    if (q->name && !q->s.found && exfat_name_equal(&c->name, q->name)) {
        q->s.found = true;
        q->s.found_at = c->start;
    }
}

static void see_entry(struct clusters_search *s, uint32_t index, const uint8_t *entry)
{
    struct search *q = (struct search *)s;
    struct collector *c = &q->c;
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
        c->wanted = q->s.building || (q->name && c->name.length == q->name->length);
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
        name_complete(q);
    }
}

/* A set does not go on behind a free entry. */
static void broken(struct clusters_search *s)
{
    ((struct search *)s)->c.left = 0;
}

/* Takes a set by position and checks that it really has the name. */
static int candidate(struct clusters_search *s, uint32_t position)
{
    struct search *q = (struct search *)s;
    struct volume *v = s->dir->base.volume;
    struct exfat_name other;
    int rc = exfat_set_read(s->dir, position, q->set);
    v->counters.entries_visited += q->set->count;
    if (rc == 0) {
        rc = exfat_set_name(exfat_of(v), q->set, &other);
    }
    return rc < 0 ? rc : exfat_name_equal(&other, q->name);
}

static void init(struct search *q, struct clusters_node *dir, const struct exfat_name *name,
                 struct exfat_set *set)
{
    q->s.dir = dir;
    q->s.see = see_entry;
    q->s.broken = broken;
    q->s.candidate = candidate;
    q->name = name;
    q->set = set;
    q->c.left = 0;
}

int exfat_dir_lookup(struct clusters_node *dir, const struct exfat_name *name, uint32_t need,
                     struct exfat_set *set)
{
    struct search q;
    init(&q, dir, name, set);
    return clusters_lookup(&q.s, name->hash, need);
}

int exfat_dir_scan_free(struct clusters_node *dir, uint32_t need)
{
    struct search q;
    init(&q, dir, NULL, NULL);
    return clusters_search_free(&q.s, need);
}
