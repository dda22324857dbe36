/* Clock and random numbers, the only ways in for what is not repeatable. */
#ifndef PYEXFAT_BASE_ENV_H
#define PYEXFAT_BASE_ENV_H

#include <stddef.h>
#include <stdint.h>

struct env {
    int64_t (*now)(struct env *e); /* nanoseconds since 1970-01-01 UTC */
    void (*random)(struct env *e, void *buffer, size_t n);
    int64_t fixed_now; /* env_init_fixed: what now() returns, plus tick for every call */
    int64_t tick;      /* nanoseconds added for each call */
    uint64_t state;    /* env_init_fixed: splitmix64 state */
    void *context;     /* for other implementations */
};

void env_init_system(struct env *e);
void env_init_fixed(struct env *e, uint64_t seed, int64_t now, int64_t tick);
uint32_t env_random32(struct env *e);
void env_uuid4(struct env *e, uint8_t uuid[16]); /* RFC 9562 version 4, in network byte order */

#endif
