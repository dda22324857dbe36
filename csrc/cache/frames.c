/* Memory of blocks: frames for their content, and the small heads that lists and look-ups go
 * through, close together, so that going through many blocks touches little memory.
 */
#include "cache/internal.h"

#include <stdlib.h>

#define SLAB_BYTES 2048u

struct cache_slab { /* at the beginning of SLAB_BYTES that begin with a multiple of them */
    struct cache_slab *prev, *next; /* those with a free head */
    struct cache_block *free;       /* linked by next */
    uint32_t used;
};
#define FIRST_HEAD ((sizeof(struct cache_slab) + 63) / 64 * 64)
#define HEADS ((SLAB_BYTES - FIRST_HEAD) / sizeof(struct cache_block))

static void link_slab(struct cache *c, struct cache_slab *s)
{
    s->prev = NULL;
    s->next = c->slabs;
    if (c->slabs != NULL) {
        c->slabs->prev = s;
    }
    c->slabs = s;
}

static void unlink_slab(struct cache *c, struct cache_slab *s)
{
    *(s->prev != NULL ? &s->prev->next : &c->slabs) = s->next;
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
}

static struct cache_slab *make_slab(struct cache *c)
{
    struct cache_slab *s = aligned_alloc(SLAB_BYTES, SLAB_BYTES);
    if (s == NULL) {
        return NULL;
    }
    s->used = 0;
    s->free = NULL;
    struct cache_block *heads = (struct cache_block *)((uint8_t *)s + FIRST_HEAD);
    for (size_t i = HEADS; i-- > 0;) {
        heads[i].next = s->free;
        s->free = &heads[i];
    }
    link_slab(c, s);
    c->memory += SLAB_BYTES;
    return s;
}

static void put_head(struct cache *c, struct cache_block *b)
{
    struct cache_slab *s = (struct cache_slab *)((uintptr_t)b & ~(uintptr_t)(SLAB_BYTES - 1));
    if (s->free == NULL) {
        link_slab(c, s);
    }
    b->next = s->free;
    s->free = b;
    if (--s->used == 0) {
        unlink_slab(c, s);
        free(s);
        c->memory -= SLAB_BYTES;
    }
}

static struct cache_block *take_head(struct cache *c)
{
    struct cache_slab *s = c->slabs != NULL ? c->slabs : make_slab(c);
    if (s == NULL) {
        return NULL;
    }
    struct cache_block *b = s->free;
    s->free = b->next;
    s->used++;
    if (s->free == NULL) {
        unlink_slab(c, s);
    }
    return b;
}

size_t cache_frame_cost(const struct cache *c)
{
    size_t slots = 2 * sizeof(struct cache_slot);
    return c->spare != NULL ? slots : slots + c->block_size + (c->slabs != NULL ? 0 : SLAB_BYTES);
}

struct cache_block *cache_frame_new(struct cache *c)
{
    struct cache_block *b = c->spare;
    if (b != NULL) {
        c->spare = b->next;
        c->spares--;
        *b = (struct cache_block){.data = b->data};
        return b;
    }
    b = take_head(c);
    uint8_t *data = b != NULL ? aligned_alloc(64, c->block_size) : NULL;
    if (data == NULL) {
        if (b != NULL) {
            put_head(c, b);
        }
        return NULL;
    }
    c->memory += c->block_size;
    *b = (struct cache_block){.data = data};
    return b;
}

void cache_frame_free(struct cache *c, struct cache_block *b)
{
    b->next = c->spare;
    c->spare = b;
    c->spares++;
    if (c->spares > CACHE_SPARES || c->count == 0) {
        cache_frames_trim(c);
    }
}

void cache_frames_trim(struct cache *c)
{
    while (c->spare != NULL) {
        struct cache_block *b = c->spare;
        c->spare = b->next;
        free(b->data);
        c->memory -= c->block_size;
        put_head(c, b);
    }
    c->spares = 0;
}
