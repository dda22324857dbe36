/* Index from a name's tag (32 bits of its hash) to the position of its entries.
 *
 * Eight bytes a slot, linear probing, at most three quarters full. A slot has the whole tag, so
 * that growing needs no names. A large index is cut into segments by the tag's high bits, and each
 * grows by itself: no operation moves more than a small part of it, and growth never holds the old
 * and the new table of all at once.
 */
#include "names/internal.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16u
#define SEGMENTED_FROM 4096u /* slots of a single segment; beyond, there are NAMES_SEGMENTS */

static struct names_segment *segment_of(const struct names_index *x, uint32_t tag)
{
    return &x->segments[x->segment_count > 1 ? tag >> 24 : 0];
}

static uint32_t home(const struct names_index *x, const struct names_segment *s, uint32_t tag)
{
    uint32_t rest = x->segment_count > 1 ? tag << 8 : tag;
    return (uint32_t)(((uint64_t)rest * s->capacity) >> 32);
}

static uint32_t following(const struct names_segment *s, uint32_t i)
{
    return i + 1 == s->capacity ? 0 : i + 1;
}

static void place(const struct names_index *x, struct names_segment *s, uint64_t slot)
{
    uint32_t i = home(x, s, (uint32_t)(slot >> 32));
    while (s->slots[i] != 0) {
        i = following(s, i);
    }
    s->slots[i] = slot;
    s->count++;
}

/* Accounted memory of the index. */
static void *take(struct names_dir *d, size_t bytes)
{
    bool reserved = names_reserve(d, bytes);
    void *p = reserved ? calloc(1, bytes) : NULL;
    if (p != NULL) {
        d->index.bytes += bytes;
        return p;
    }
    if (reserved) {
        names_release(d, bytes);
    }
    /* An eighth more: it would have gone on growing. */
    d->index_want = (d->index.bytes + bytes) / 8 * 9 + 1;
    return NULL;
}

static void give_back(struct names_dir *d, void *p, size_t bytes)
{
    if (p != NULL) {
        free(p);
        d->index.bytes -= bytes;
        names_release(d, bytes);
    }
}

static bool resize_segment(struct names_dir *d, struct names_segment *s, uint32_t capacity)
{
    uint64_t *slots = take(d, (size_t)capacity * sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    struct names_segment old = *s;
    *s = (struct names_segment){slots, capacity, 0};
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.slots[i] != 0) {
            place(&d->index, s, old.slots[i]);
        }
    }
    give_back(d, old.slots, (size_t)old.capacity * sizeof *slots);
    return true;
}

/* From one segment to many. */
static bool cut_up(struct names_dir *d)
{
    struct names_index *x = &d->index;
    struct names_segment *one = x->segments;
    uint32_t per_segment = one->capacity / NAMES_SEGMENTS / 2 * 3;
    struct names_segment *many = take(d, NAMES_SEGMENTS * sizeof *many);
    if (many == NULL) {
        return false;
    }
    x->segments = many;
    x->segment_count = NAMES_SEGMENTS;
    bool ok = true;
    for (uint32_t i = 0; ok && i < NAMES_SEGMENTS; i++) {
        ok = resize_segment(d, &many[i], per_segment);
    }
    for (uint32_t i = 0; ok && i < one->capacity; i++) {
        if (one->slots[i] != 0) {
            struct names_segment *s = segment_of(x, (uint32_t)(one->slots[i] >> 32));
            ok = s->count + 1 < s->capacity || resize_segment(d, s, s->capacity * 2);
            if (ok) {
                place(x, s, one->slots[i]);
            }
        }
    }
    if (!ok) { /* back to the one, which still has everything */
        for (uint32_t i = 0; i < NAMES_SEGMENTS; i++) {
            give_back(d, many[i].slots, (size_t)many[i].capacity * sizeof(uint64_t));
        }
        x->segments = one;
        x->segment_count = 1;
        give_back(d, many, NAMES_SEGMENTS * sizeof *many);
        return false;
    }
    give_back(d, one->slots, (size_t)one->capacity * sizeof(uint64_t));
    give_back(d, one, sizeof *one);
    return true;
}

/* Room for one more; capacities grow by a half and a third in turn (16, 24, 32, 48, 64, ...). */
static bool make_room(struct names_dir *d, uint32_t tag)
{
    struct names_index *x = &d->index;
    if (x->segments == NULL) {
        x->segments = take(d, sizeof *x->segments);
        if (x->segments == NULL) {
            return false;
        }
        x->segment_count = 1;
    }
    struct names_segment *s = segment_of(x, tag);
    if ((uint64_t)(s->count + 1) * 4 <= (uint64_t)s->capacity * 3) {
        return true;
    }
    if (x->segment_count == 1 && s->capacity >= SEGMENTED_FROM) {
        if (!cut_up(d)) {
            return false;
        }
        s = segment_of(x, tag);
        if ((uint64_t)(s->count + 1) * 4 <= (uint64_t)s->capacity * 3) {
            return true;
        }
    }
    uint32_t capacity = s->capacity == 0                    ? FIRST_CAPACITY
                        : base_is_power_of_two(s->capacity) ? s->capacity / 2 * 3
                                                            : s->capacity / 3 * 4;
    return resize_segment(d, s, capacity);
}

/* The slot of exactly this tag and position. */
static bool find(const struct names_index *x, uint32_t tag, uint32_t position,
                 struct names_segment **segment, uint32_t *at)
{
    if (x->segments == NULL) {
        return false;
    }
    struct names_segment *s = segment_of(x, tag);
    uint64_t slot = (uint64_t)tag << 32 | (position + 1);
    if (s->capacity == 0) {
        return false;
    }
    for (uint32_t i = home(x, s, tag); s->slots[i] != 0; i = following(s, i)) {
        if (s->slots[i] == slot) {
            *segment = s;
            *at = i;
            return true;
        }
    }
    return false;
}

enum names_result names_index_add(struct names_dir *d, uint32_t tag, uint32_t position)
{
    struct names_segment *s;
    uint32_t at;
    if (find(&d->index, tag, position, &s, &at)) {
        return NAMES_DONE; /* added while a walk was under way, and now seen by it */
    }
    if (position == UINT32_MAX || !make_room(d, tag)) {
        return NAMES_NO_ROOM;
    }
    place(&d->index, segment_of(&d->index, tag), (uint64_t)tag << 32 | (position + 1));
    return NAMES_DONE;
}

/* Later slots of the cluster move up into the gap where their home allows it, so that there are no
 * tombstones. */
enum names_result names_index_remove(struct names_index *x, uint32_t tag, uint32_t position)
{
    struct names_segment *s;
    uint32_t gap;
    if (!find(x, tag, position, &s, &gap)) {
        return NAMES_NOT_FOUND;
    }
    for (uint32_t i = following(s, gap); s->slots[i] != 0; i = following(s, i)) {
        uint32_t h = home(x, s, (uint32_t)(s->slots[i] >> 32));
        uint32_t from_home = i >= h ? i - h : i + s->capacity - h;
        uint32_t from_gap = i >= gap ? i - gap : i + s->capacity - gap;
        if (from_home >= from_gap) {
            s->slots[gap] = s->slots[i];
            gap = i;
        }
    }
    s->slots[gap] = 0;
    s->count--;
    return NAMES_DONE;
}

bool names_index_next(const struct names_index *x, uint32_t tag, uint32_t *cursor,
                      uint32_t *position)
{
    const struct names_segment *s = x->segments != NULL ? segment_of(x, tag) : NULL;
    if (s == NULL || s->capacity == 0) {
        return false;
    }
    while (*cursor < s->capacity) {
        uint64_t i = (uint64_t)home(x, s, tag) + (*cursor)++;
        uint64_t slot = s->slots[i < s->capacity ? i : i - s->capacity];
        if (slot == 0) {
            break;
        }
        if (slot >> 32 == tag) {
            *position = (uint32_t)slot - 1;
            return true;
        }
    }
    *cursor = UINT32_MAX;
    return false;
}

void names_index_free(struct names_dir *d)
{
    struct names_index *x = &d->index;
    names_counters_of(d)->index_drops += d->index_complete;
    for (uint32_t i = 0; i < x->segment_count; i++) {
        give_back(d, x->segments[i].slots, (size_t)x->segments[i].capacity * sizeof(uint64_t));
    }
    give_back(d, x->segments, x->segment_count * sizeof *x->segments);
    *x = (struct names_index){0};
    d->index_complete = d->building_index = false;
}

/* Moves the tags of a segment to the front of its memory and gives back the rest. */
static void keep_tags(struct names_dir *d, struct names_segment *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->capacity; i++) {
        if (s->slots[i] != 0) {
            uint32_t tag = (uint32_t)(s->slots[i] >> 32);
            memcpy((uint8_t *)s->slots + (size_t)n++ * sizeof tag, &tag, sizeof tag);
        }
    }
    uint32_t kept = (uint32_t)base_max(base_div_up(n, 2), 1);
    uint64_t *smaller = kept < s->capacity ? realloc(s->slots, kept * sizeof *smaller) : NULL;
    if (smaller != NULL) {
        size_t freed = (size_t)(s->capacity - kept) * sizeof *smaller;
        *s = (struct names_segment){smaller, kept, n};
        d->index.bytes -= freed;
        names_release(d, freed);
    }
}

void names_index_to_filter(struct names_dir *d, size_t bytes)
{
    struct names_index *x = &d->index;
    for (uint32_t i = 0; i < x->segment_count; i++) {
        keep_tags(d, &x->segments[i]);
    }
    if (names_filter_make(d, bytes)) {
        for (uint32_t i = 0; i < x->segment_count; i++) {
            for (uint32_t j = 0; j < x->segments[i].count; j++) {
                uint32_t tag;
                const uint8_t *tags = (const uint8_t *)x->segments[i].slots;
                memcpy(&tag, tags + (size_t)j * sizeof tag, sizeof tag);
                names_filter_add(&d->filter, tag);
            }
        }
    }
    names_index_free(d);
}
