/* Runs of a file, in one sorted vector. */
#include "base/runs.h"
#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>

void base_runs_init(struct base_runs *r)
{
    r->v = NULL;
    r->n = r->cap = 0;
    r->covered = 0;
}

void base_runs_free(struct base_runs *r)
{
    free(r->v);
    base_runs_init(r);
}

int base_runs_append(struct base_runs *r, uint64_t disk_block, uint64_t count)
{
    struct base_run *last = r->n ? &r->v[r->n - 1] : NULL;

    if (count == 0) {
        return 0;
    }
    if (last && last->disk_block + last->count == disk_block) {
        last->count += count;
        r->covered += count;
        return 0;
    }
    struct base_run *v = base_grow(r->v, r->n, 1, &r->cap, 4, sizeof *v);
    if (!v) {
        return -ENOMEM;
    }
    r->v = v;
    r->v[r->n++] = (struct base_run){r->covered, disk_block, count};
    r->covered += count;
    return 0;
}

/* Index of the run that holds file_block, which is below covered. */
static size_t index_of(const struct base_runs *r, uint64_t file_block)
{
    size_t low = 0, high = r->n;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (r->v[middle].file_block <= file_block) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

bool base_runs_find(const struct base_runs *r, uint64_t file_block, uint64_t *disk_block,
                    uint64_t *count)
{
    const struct base_run *run;
    uint64_t skip;

    if (file_block >= r->covered || r->n == 0 || file_block < r->v[0].file_block) {
        return false;
    }
    run = &r->v[index_of(r, file_block)];
    skip = file_block - run->file_block;
    *disk_block = run->disk_block + skip;
    *count = run->count - skip;
    return true;
}

void base_runs_truncate(struct base_runs *r, uint64_t blocks)
{
    if (blocks >= r->covered) {
        return;
    }
    if (r->n == 0 || blocks <= r->v[0].file_block) {
        r->n = 0;
        blocks = 0; /* all that was known lies behind */
    } else {
        size_t last = index_of(r, blocks - 1);

        r->v[last].count = blocks - r->v[last].file_block;
        r->n = last + 1;
    }
    r->covered = blocks;
}

void base_runs_forget(struct base_runs *r)
{
    if (r->n > 1) {
        r->v[0] = r->v[r->n - 1];
        r->n = 1;
    }
}

size_t base_runs_bytes(const struct base_runs *r)
{
    return r->cap * sizeof *r->v;
}
