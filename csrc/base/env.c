/* The two environments: the system's clock and entropy, and a repeatable one. */
#include "base/env.h"

#include "base/bytes.h"
#include "base/os.h"

#include <string.h>

static int64_t system_now(struct env *e)
{
    (void)e;
    return os_now_ns();
}

static void system_random(struct env *e, void *buffer, size_t n)
{
    (void)e;
    os_random(buffer, n);
}

/* Atomic, because several volumes and threads may share one environment. */
static int64_t fixed_now(struct env *e)
{
    return __atomic_fetch_add(&e->fixed_now, e->tick, __ATOMIC_RELAXED);
}

static uint64_t splitmix64(struct env *e)
{
    const uint64_t step = 0x9E3779B97F4A7C15u;
    uint64_t z = __atomic_add_fetch(&e->state, step, __ATOMIC_RELAXED);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void fixed_random(struct env *e, void *buffer, size_t n)
{
    uint8_t *p = buffer;

    while (n > 0) {
        uint8_t word[8];
        size_t part = n < sizeof word ? n : sizeof word;

        base_put_le64(word, splitmix64(e));
        memcpy(p, word, part);
        p += part;
        n -= part;
    }
}

void env_init_system(struct env *e)
{
    memset(e, 0, sizeof *e);
    e->now = system_now;
    e->random = system_random;
}

void env_init_fixed(struct env *e, uint64_t seed, int64_t now, int64_t tick)
{
    memset(e, 0, sizeof *e);
    e->now = fixed_now;
    e->random = fixed_random;
    e->fixed_now = now;
    e->tick = tick;
    e->state = seed;
}

uint32_t env_random32(struct env *e)
{
    uint8_t b[4];

    e->random(e, b, sizeof b);
    return base_le32(b);
}

void env_uuid4(struct env *e, uint8_t uuid[16])
{
    e->random(e, uuid, 16);
    uuid[6] = (uint8_t)((uuid[6] & 0x0F) | 0x40); /* version 4 */
    uuid[8] = (uint8_t)((uuid[8] & 0x3F) | 0x80); /* variant 10 */
}
