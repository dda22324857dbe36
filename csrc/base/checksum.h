/* Checksums of the formats. */
#ifndef PYEXFAT_BASE_CHECKSUM_H
#define PYEXFAT_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Rotate-right-and-add sums of the exFAT specification (sections 3.4, 6.3.3, 7.2.2, 7.6.3, 7.7.4);
 * start with sum = 0. */
static inline uint16_t base_ror16_add(uint16_t sum, uint32_t byte)
{
    return (uint16_t)(((uint32_t)sum << 15 | sum >> 1) + byte); /* as an int it would overflow */
}
uint16_t base_ror16_sum(uint16_t sum, const uint8_t *p, size_t n);
uint32_t base_ror32_sum(uint32_t sum, const uint8_t *p, size_t n);

uint32_t base_crc32(uint32_t crc, const uint8_t *p, size_t n); /* ISO 3309 (GPT); start with 0 */

/* 64-bit hash of bytes for hash tables and filters; not cryptographic. */
uint64_t base_hash64(const void *p, size_t n, uint64_t seed);

#endif
