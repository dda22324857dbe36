/* What can be switched, and what is counted. */
#ifndef PYEXFAT_VOLUME_POLICY_H
#define PYEXFAT_VOLUME_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "names/names.h"

enum volume_empty_hint { VOLUME_HINT_OFF = 0, VOLUME_HINT_ONE_SHOT, VOLUME_HINT_RETAINED };
enum volume_entry_sync { VOLUME_SYNC_ENTRY = 0, VOLUME_SYNC_SET };
enum volume_free_scan { VOLUME_SCAN_ELEMENT = 0, VOLUME_SCAN_BLOCK, VOLUME_SCAN_INDEX };
enum volume_sync { VOLUME_LAZY = 0, VOLUME_DIRSYNC, VOLUME_SYNC };

/* One field per mechanism; the old way is a setting of each. */
struct volume_policy {
    enum volume_empty_hint empty_hint;
    bool name_filter;
    bool name_index;
    enum volume_entry_sync entry_sync;
    bool preallocate;
    enum volume_free_scan free_scan;
    bool discard;           /* tell the device of freed clusters, at each commit */
    uint64_t memory_budget; /* bytes for caches of the volume */
};
#define VOLUME_MEMORY_BUDGET_DEFAULT (64ull << 20)

struct volume_counters {
    struct cache_counters cache;
    struct names_counters names;
    uint64_t operations; /* calls */
    uint64_t lookups, lookups_missed;
    uint64_t entries_visited; /* directory entries examined by walks */
    uint64_t sets_written, entries_written;
    uint64_t hint_hits, hint_misses, hint_drops;
    uint64_t free_words_scanned; /* 64-bit words of a bitmap looked at to find space */
    uint64_t fat_entries_read, fat_entries_written;
    uint64_t clusters_allocated, clusters_freed;
};

#endif
