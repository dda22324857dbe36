/* Checksums and a hash. */
#include "base/checksum.h"

#include "base/bytes.h"

uint16_t base_ror16_sum(uint16_t sum, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum = base_ror16_add(sum, p[i]);
    }
    return sum;
}

uint32_t base_ror32_sum(uint32_t sum, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum = (sum << 31 | sum >> 1) + p[i];
    }
    return sum;
}

uint32_t base_crc32(uint32_t crc, const uint8_t *p, size_t n)
{
    /* What four bits shifted out leave behind, for the reflected polynomial 0xEDB88320. */
    static const uint32_t nibble[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
        0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
        0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };

    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

uint64_t base_hash64(const void *data, size_t n, uint64_t seed)
{
    const uint8_t *p = data;
    uint64_t h = seed ^ (uint64_t)n * 0x9E3779B97F4A7C15u;
    uint64_t tail = 0;

    for (; n >= 8; n -= 8, p += 8) {
        h = (h ^ base_le64(p)) * 0x9FB21C651E98DF25u;
        h ^= h >> 29;
    }
    for (size_t i = 0; i < n; i++) {
        tail |= (uint64_t)p[i] << 8 * i;
    }
    return mix((h ^ tail) * 0x9FB21C651E98DF25u);
}
