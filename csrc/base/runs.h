/* Extent map of a file: which disk blocks (clusters) hold its blocks, as sorted runs. Used by every
 * driver. */
#ifndef PYEXFAT_BASE_RUNS_H
#define PYEXFAT_BASE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_run {
    uint64_t file_block;
    uint64_t disk_block;
    uint64_t count;
};

struct base_runs {
    struct base_run *v; /* sorted by file_block, no gaps; v[0].file_block is 0 unless
                           base_runs_forget was called */
    size_t n, cap;
    uint64_t covered; /* blocks mapped so far */
};

void base_runs_init(struct base_runs *r);
void base_runs_free(struct base_runs *r);
/* Appends blocks after the last one, joined to the last run where they follow it on the disk. 0 or
 * -ENOMEM. */
int base_runs_append(struct base_runs *r, uint64_t disk_block, uint64_t count);
/* The run part that starts at file_block: disk block and how many follow in one piece; false when
 * beyond covered. */
bool base_runs_find(const struct base_runs *r, uint64_t file_block, uint64_t *disk_block,
                    uint64_t *count);
void base_runs_truncate(struct base_runs *r, uint64_t blocks); /* keep the first `blocks` blocks */
/* Keeps only the last run: memory stays bounded, and what lies before must be mapped again (find
 * says false). */
void base_runs_forget(struct base_runs *r);
size_t base_runs_bytes(const struct base_runs *r);

#endif
