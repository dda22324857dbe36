/* Byte-order accessors for on-disk fields, and checked arithmetic on sizes read from a disk. */
#ifndef PYEXFAT_BASE_BYTES_H
#define PYEXFAT_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

static inline uint16_t base_le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (uint16_t)(p[1] << 8));
}

static inline uint32_t base_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t base_le64(const uint8_t *p)
{
    return (uint64_t)base_le32(p) | (uint64_t)base_le32(p + 4) << 32;
}

static inline void base_put_le16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void base_put_le32(uint8_t *p, uint32_t v)
{
    base_put_le16(p, (uint16_t)v);
    base_put_le16(p + 2, (uint16_t)(v >> 16));
}

static inline void base_put_le64(uint8_t *p, uint64_t v)
{
    base_put_le32(p, (uint32_t)v);
    base_put_le32(p + 4, (uint32_t)(v >> 32));
}

static inline bool base_add_overflows(uint64_t a, uint64_t b, uint64_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

static inline bool base_mul_overflows(uint64_t a, uint64_t b, uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

static inline uint64_t base_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t base_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t base_div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Rounds up to a multiple of b; the caller knows that the result fits. */
static inline uint64_t base_round_up(uint64_t a, uint64_t b)
{
    return base_div_up(a, b) * b;
}

static inline bool base_is_power_of_two(uint64_t a)
{
    return a != 0 && (a & (a - 1)) == 0;
}

static inline uint32_t base_log2(uint64_t a)
{
    return a ? 63u - (uint32_t)__builtin_clzll(a) : 0;
}

#endif
