/* Index from a name's tag (32 bits of its hash) to the position of its entries.
 *
 * Linear probing, at most three quarters full. A slot of eight bytes has position and whole tag, so
 * that growing needs no names. Beside the slots lies a byte for each, the mark: 0 for an empty one,
 * else eight bits of the tag. A search goes through the marks, which are small enough to stay in a
 * processor's cache where the slots no longer do, and looks at the slots whose mark fits: one for a
 * name that is there, hardly any for one that is not, none to add one.
 *
 * A large index is cut into segments by the tag's high bits, side by side in one piece of memory.
 * It grows in place: the memory is made longer, and with each name that is added one segment moves
 * up to its new place, the last one first. So no operation moves more than a small part, and the
 * old and the new table are never both held. Since homes follow the order of tags, a segment can
 * be spread out where it is, from its end.
 */
#include "names/internal.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16u
#define SEGMENTED_FROM 65536u /* slots of a single segment; beyond, there are NAMES_SEGMENTS */
#define SEGMENT_FIRST 384u
#define FINE_FROM 8192u   /* slots of a segment, from which on it grows by smaller steps */
#define MOVE_AT_ONCE 256u /* slots, and more up to the next gap */
#define MOVE_MOST 1024u
#define SLOT sizeof(uint64_t)

/* A segment where it is now: moved already, or not yet. */
struct segment {
    uint64_t *slots;
    uint8_t *marks;
    uint32_t capacity;
};

static struct segment segment_in(const struct names_index *x, uint32_t number, uint32_t capacity)
{
    size_t at = (size_t)number * capacity;
    return (struct segment){(uint64_t *)(void *)x->slots.p + at, x->marks.p + at, capacity};
}

static uint32_t number_of(const struct names_index *x, uint32_t tag)
{
    return x->segments > 1 ? tag >> 24 : 0;
}

static struct segment segment_at(const struct names_index *x, uint32_t number)
{
    return segment_in(x, number, number < x->unmoved ? x->old_capacity : x->capacity);
}

static struct segment segment_of(const struct names_index *x, uint32_t tag)
{
    return segment_at(x, number_of(x, tag));
}

static uint32_t home(const struct names_index *x, const struct segment *s, uint32_t tag)
{
    uint32_t rest = x->segments > 1 ? tag << 8 : tag;
    return (uint32_t)(((uint64_t)rest * s->capacity) >> 32);
}

static uint32_t following(const struct segment *s, uint32_t i)
{
    return i + 1 == s->capacity ? 0 : i + 1;
}

/* Of the low bits, since the high ones say where the slot is. */
static uint8_t mark_of(uint32_t tag)
{
    uint8_t mark = (uint8_t)(tag * 0x9e3779b1u >> 24);
    return mark != 0 ? mark : 1;
}

static uint32_t tag_of(uint64_t slot)
{
    return (uint32_t)(slot >> 32);
}

/* ---- searching ---- */

#define EACH UINT64_C(0x0101010101010101)

/* The high bit of each byte that is zero; right up to the first of them. */
static uint64_t zero_bytes(uint64_t w)
{
    return (w - EACH) & ~w & (EACH << 7);
}

/* The next slot of the tag at or after *probe steps from its home; false: there is none. */
static bool next_of(const struct names_index *x, const struct segment *s, uint32_t tag,
                    uint32_t *probe, uint32_t *at)
{
    uint32_t start = home(x, s, tag);
    uint8_t mark = mark_of(tag);
    while (*probe < s->capacity) {
        uint32_t i = start + *probe - (start + *probe < s->capacity ? 0 : s->capacity);
        uint64_t eight = s->marks[i] | ~UINT64_C(0xff); /* one, at the end of the segment */
        uint32_t width = 1;
        if (i + 8 <= s->capacity) {
            eight = base_le64(s->marks + i);
            width = 8;
        }
        uint64_t empty = zero_bytes(eight), fits = zero_bytes(eight ^ mark * EACH);
        fits &= (empty & (0 - empty)) - 1; /* only before the first empty one */
        for (; fits != 0; fits &= fits - 1) {
            uint32_t ahead = (uint32_t)__builtin_ctzll(fits) / 8;
            if (ahead < width && tag_of(s->slots[i + ahead]) == tag) {
                *probe += ahead + 1;
                *at = i + ahead;
                return true;
            }
        }
        if (empty != 0) {
            break;
        }
        *probe += width;
    }
    *probe = UINT32_MAX;
    return false;
}

void names_index_fetch(const struct names_index *x, uint32_t tag)
{
    if (x->segments > 0) {
        struct segment s = segment_of(x, tag);
        __builtin_prefetch(&s.slots[home(x, &s, tag)], 1);
    }
}

bool names_index_next(const struct names_index *x, uint32_t tag, uint32_t *cursor,
                      uint32_t *position)
{
    uint32_t at;
    if (x->segments == 0) {
        return false;
    }
    struct segment s = segment_of(x, tag);
    if (!next_of(x, &s, tag, cursor, &at)) {
        return false;
    }
    *position = (uint32_t)s.slots[at] - 1;
    return true;
}

/* The slot of exactly this tag and position. */
static bool find(const struct names_index *x, const struct segment *s, uint32_t tag,
                 uint32_t position, uint32_t *at)
{
    uint32_t probe = 0;
    while (next_of(x, s, tag, &probe, at)) {
        if ((uint32_t)s->slots[*at] == position + 1) {
            return true;
        }
    }
    return false;
}

static void place(const struct names_index *x, const struct segment *s, uint64_t slot)
{
    uint32_t i = home(x, s, tag_of(slot));
    while (s->marks[i] != 0) {
        i = following(s, i);
    }
    s->slots[i] = slot;
    s->marks[i] = mark_of(tag_of(slot));
}

/* ---- growing ---- */

/* Takes slots [start, end) out of a segment and places them where they belong in the new one. The
 * slot before start is empty, so that none of them belongs before it; and the new place of each
 * lies at or behind its old one, where nothing is that has not been moved. (One that goes round to
 * the segment's beginning may land before `start`; then it is taken up again.) */
static void move_slots(const struct names_index *x, const struct segment *from,
                       const struct segment *to, uint32_t start, uint32_t end)
{
    uint64_t moving[MOVE_MOST];
    uint32_t n = 0;
    for (uint32_t i = start; i < end; i++) {
        if (from->marks[i] != 0) {
            moving[n++] = from->slots[i];
        }
    }
    memset(from->marks + start, 0, end - start);
    for (uint32_t i = 0; i < n; i++) {
        place(x, to, moving[i]);
    }
}

static bool move_segment(const struct names_index *x, uint32_t number)
{
    struct segment from = segment_in(x, number, x->old_capacity);
    struct segment to = segment_in(x, number, x->capacity);
    uint32_t end = from.capacity;
    while (end > 0) {
        uint32_t start = end > MOVE_AT_ONCE ? end - MOVE_AT_ONCE : 0;
        while (start > 0 && from.marks[start - 1] != 0) {
            if (end - --start > MOVE_MOST) {
                return false; /* too many names of one hash */
            }
        }
        move_slots(x, &from, &to, start, end);
        end = start;
    }
    return true;
}

static bool move_until(struct names_index *x, uint32_t unmoved)
{
    while (x->unmoved > unmoved) {
        if (!move_segment(x, x->unmoved - 1)) {
            x->broken = true;
            return false;
        }
        x->unmoved--;
    }
    return true;
}

static bool arenas_grow(struct names_dir *d, size_t slots)
{
    struct names_index *x = &d->index;
    return names_arena_grow(d, &x->marks, slots) && names_arena_grow(d, &x->slots, slots * SLOT);
}

/* An index is worth more than a filter, which it can do without. But not one that will not have
 * room in the end: four bytes for each of the directory's entries are slots for names of three. */
static bool filter_gives_way(struct names_dir *d)
{
    size_t held = d->index.slots.bytes + d->index.marks.bytes + d->filter.bytes;
    size_t wanted = (size_t)d->entries * 4;
    if (d->filter.bits == NULL || !names_could_hold(d, wanted > held ? wanted - held : 0)) {
        return false;
    }
    names_filter_free(d);
    return true;
}

static bool resize(struct names_dir *d, size_t slots)
{
    if (arenas_grow(d, slots) || (filter_gives_way(d) && arenas_grow(d, slots))) {
        return true;
    }
    /* An eighth more: it would have gone on growing. */
    d->index_want = slots * (SLOT + 1) / 8 * 9 + 1;
    return false;
}

/* 16, 24, 32, 48, …; large ones by smaller steps: 8, 10, 12, 14, 16, 20, … */
static uint32_t next_capacity(uint32_t capacity)
{
    uint32_t power = 1u << base_log2(capacity);
    return capacity + power / (capacity < FINE_FROM ? 2 : 4);
}

/* How many names are in one segment of many. */
static uint32_t *count_of(const struct names_index *x, uint32_t number)
{
    return (uint32_t *)(void *)x->counts.p + number;
}

static void free_arenas(struct names_dir *d, struct names_index *x)
{
    names_arena_free(d, &x->slots);
    names_arena_free(d, &x->marks);
    names_arena_free(d, &x->counts);
}

/* From one segment to many, which needs memory for both. */
static bool cut_up(struct names_dir *d)
{
    struct names_index one = d->index;
    d->index = (struct names_index){
        .segments = NAMES_SEGMENTS, .capacity = SEGMENT_FIRST, .count = one.count};
    bool ok = names_arena_grow(d, &d->index.counts, NAMES_SEGMENTS * sizeof(uint32_t)) &&
              resize(d, (size_t)NAMES_SEGMENTS * SEGMENT_FIRST);
    struct segment from = segment_at(&one, 0);
    for (uint32_t i = 0; ok && i < from.capacity; i++) {
        if (from.marks[i] != 0) {
            uint32_t number = number_of(&d->index, tag_of(from.slots[i]));
            struct segment s = segment_at(&d->index, number);
            ok = ++*count_of(&d->index, number) < s.capacity;
            if (ok) {
                place(&d->index, &s, from.slots[i]);
            }
        }
    }
    free_arenas(d, ok ? &one : &d->index);
    if (!ok) {
        d->index = one;
    }
    return ok;
}

static bool grow(struct names_dir *d)
{
    struct names_index *x = &d->index;
    if (x->segments == 1 && x->capacity >= SEGMENTED_FROM) {
        return cut_up(d);
    }
    uint32_t capacity = x->segments == 0 ? FIRST_CAPACITY : next_capacity(x->capacity);
    uint32_t segments = x->segments == 0 ? 1 : x->segments;
    if (!move_until(x, 0) || !resize(d, (size_t)segments * capacity)) {
        return false;
    }
    x->old_capacity = x->capacity;
    x->capacity = capacity;
    x->unmoved = x->segments;
    x->segments = segments;
    return segments > 1 || move_until(x, 0);
}

static bool is_tight(const struct names_index *x, uint32_t number)
{
    uint64_t capacity = segment_at(x, number).capacity;
    return x->segments > 1 && (uint64_t)(*count_of(x, number) + 1) * 16 > capacity * 15;
}

/* Room for one more in its segment. */
static bool make_room(struct names_dir *d, uint32_t tag)
{
    struct names_index *x = &d->index;
    uint64_t slots = (uint64_t)x->segments * x->capacity;
    if ((uint64_t)(x->count + 1) * 4 > slots * 3 && !grow(d)) {
        return false;
    }
    if (x->unmoved > 0 && !move_until(x, x->unmoved - 1)) {
        return false;
    }
    uint32_t number = number_of(x, tag);
    if (!is_tight(x, number)) {
        return true;
    }
    /* Fuller than the others. */
    if (!move_until(x, 0)) {
        return false;
    }
    return !is_tight(x, number) || (grow(d) && move_until(x, 0) && !is_tight(x, number));
}

/* ---- changes ---- */

enum names_result names_index_add(struct names_dir *d, uint32_t tag, uint32_t position)
{
    struct names_index *x = &d->index;
    uint32_t at;
    struct segment s;
    if (x->segments > 0 && (s = segment_of(x, tag), find(x, &s, tag, position, &at))) {
        return NAMES_DONE; /* added while a walk was under way, and now seen by it */
    }
    if (position == UINT32_MAX || !make_room(d, tag)) {
        return NAMES_NO_ROOM;
    }
    s = segment_of(x, tag);
    place(x, &s, (uint64_t)tag << 32 | (position + 1));
    x->count++;
    if (x->segments > 1) {
        ++*count_of(x, number_of(x, tag));
    }
    return NAMES_DONE;
}

/* Later slots of the cluster move up into the gap where their home allows it, so that there are no
 * tombstones. */
enum names_result names_index_remove(struct names_index *x, uint32_t tag, uint32_t position)
{
    uint32_t gap;
    struct segment s;
    if (x->segments == 0 || (s = segment_of(x, tag), !find(x, &s, tag, position, &gap))) {
        return NAMES_NOT_FOUND;
    }
    for (uint32_t i = following(&s, gap); s.marks[i] != 0; i = following(&s, i)) {
        uint32_t h = home(x, &s, tag_of(s.slots[i]));
        uint32_t from_home = i >= h ? i - h : i + s.capacity - h;
        uint32_t from_gap = i >= gap ? i - gap : i + s.capacity - gap;
        if (from_home >= from_gap) {
            s.slots[gap] = s.slots[i];
            s.marks[gap] = s.marks[i];
            gap = i;
        }
    }
    s.marks[gap] = 0;
    x->count--;
    if (x->segments > 1) {
        --*count_of(x, number_of(x, tag));
    }
    return NAMES_DONE;
}

void names_index_free(struct names_dir *d)
{
    struct names_index *x = &d->index;
    names_counters_of(d)->index_drops += d->index_complete;
    free_arenas(d, x);
    *x = (struct names_index){0};
    d->index_complete = d->building_index = false;
}

/* Tags to the front of the memory, in which they are half as long as slots; returns how many. */
static uint32_t keep_tags(struct names_index *x)
{
    uint32_t n = 0;
    for (uint32_t number = 0; number < x->segments; number++) {
        struct segment s = segment_at(x, number);
        for (uint32_t i = 0; i < s.capacity; i++) {
            if (s.marks[i] != 0) {
                uint32_t tag = tag_of(s.slots[i]);
                memcpy(x->slots.p + (size_t)n++ * sizeof tag, &tag, sizeof tag);
            }
        }
    }
    return n;
}

void names_index_to_filter(struct names_dir *d, size_t bytes)
{
    struct names_index *x = &d->index;
    if (x->broken) {
        names_index_free(d);
        return;
    }
    uint32_t n = keep_tags(x);
    x->segments = 0;
    names_arena_free(d, &x->marks);
    names_arena_free(d, &x->counts);
    names_arena_cut(d, &x->slots, (size_t)n * sizeof(uint32_t));
    if (names_filter_make(d, bytes)) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t tag;
            memcpy(&tag, x->slots.p + (size_t)i * sizeof tag, sizeof tag);
            names_filter_add(&d->filter, tag);
        }
    }
    names_index_free(d);
}
