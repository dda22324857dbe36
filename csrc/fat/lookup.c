/* What a walk through a FAT directory sees: files answer to their long name and to their short one.
 */
#include "fat/fat.h"

#include <errno.h>

struct search {
    struct clusters_search s;    /* first */
    const struct fat_name *name; /* NULL: nothing is looked for */
    struct fat_set *set;
    struct fat_collector c;
};

static void see(struct clusters_search *s, uint32_t index, const uint8_t *entry)
{
    struct search *q = (struct search *)s;
    const struct fat *f = fat_of(s->dir->base.volume);
    struct fat_name other;
    uint32_t start, count;
    if (!fat_collect(f, &q->c, index, entry, &start, &count)) {
        return;
    }
    fat_name_from_short(f, entry, false, &other);
    if (s->building) {
        fat_name_finish(f, &q->c.name);
        fat_name_finish(f, &other);
        names_build_add(s->dir->names, q->c.name.hash, start);
        if (other.hash != q->c.name.hash) {
            names_build_add(s->dir->names, other.hash, start);
        }
    }
    if (q->name && !s->found &&
        (fat_name_equal(q->name, &q->c.name) || fat_name_equal(q->name, &other))) {
        s->found = true;
        s->found_at = start;
    }
}

static void broken(struct clusters_search *s)
{
    fat_collect_reset(&((struct search *)s)->c);
}

static int candidate(struct clusters_search *s, uint32_t position)
{
    struct search *q = (struct search *)s;
    struct volume *v = s->dir->base.volume;
    int rc = fat_set_read(s->dir, position, q->set);
    v->counters.entries_visited += q->set->count;
    if (rc < 0) {
        return rc;
    }
    return fat_set_answers(fat_of(v), q->set, q->name);
}

static void init(struct search *q, struct clusters_node *dir, const struct fat_name *name,
                 struct fat_set *set)
{
    q->s.dir = dir;
    q->s.see = see;
    q->s.broken = broken;
    q->s.candidate = candidate;
    q->name = name;
    q->set = set;
    fat_collect_reset(&q->c);
}

int fat_dir_lookup(struct clusters_node *dir, const struct fat_name *name, uint32_t need,
                   struct fat_set *set)
{
    struct search q;
    init(&q, dir, name, set);
    return clusters_lookup(&q.s, name->hash, need);
}

int fat_dir_scan_free(struct clusters_node *dir, uint32_t need)
{
    struct search q;
    init(&q, dir, NULL, NULL);
    return clusters_search_free(&q.s, need);
}
