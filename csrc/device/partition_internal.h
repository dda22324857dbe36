/* What reading and writing partition tables share: the layout of MBR and GPT. For partition*.c
 * only. */
#ifndef PYEXFAT_DEVICE_PARTITION_INTERNAL_H
#define PYEXFAT_DEVICE_PARTITION_INTERNAL_H

#include "base/bytes.h"
#include "device/partition.h"

#define MBR_SIZE 512u
#define MBR_DISK_SIGNATURE 440u
#define MBR_ENTRIES 446u
#define MBR_ENTRY_SIZE 16u
#define MBR_SIGNATURE 510u /* 55 AA */
#define MBR_TYPE_PROTECTIVE 0xEEu

/* An MBR or EBR entry, decoded; sectors count from where the table says. */
struct mbr_entry {
    uint8_t boot, type;
    uint32_t start, count;
};

static inline struct mbr_entry mbr_entry(const uint8_t *sector, unsigned i)
{
    const uint8_t *p = sector + MBR_ENTRIES + i * MBR_ENTRY_SIZE;

    return (struct mbr_entry){p[0], p[4], base_le32(p + 8), base_le32(p + 12)};
}

static inline bool mbr_signed(const uint8_t *sector)
{
    return sector[MBR_SIGNATURE] == 0x55 && sector[MBR_SIGNATURE + 1] == 0xAA;
}

/* GPT header (UEFI 5.3.2): where its fields are. */
enum {
    GPT_SIGNATURE = 0, /* "EFI PART" */
    GPT_REVISION = 8,
    GPT_HEADER_SIZE = 12,
    GPT_HEADER_CRC = 16,
    GPT_MY_LBA = 24,
    GPT_OTHER_LBA = 32,
    GPT_FIRST_USABLE = 40,
    GPT_LAST_USABLE = 48,
    GPT_DISK_GUID = 56,
    GPT_ARRAY_LBA = 72,
    GPT_ARRAY_COUNT = 80,
    GPT_ENTRY_SIZE = 84,
    GPT_ARRAY_CRC = 88,
    GPT_HEADER_END = 92
};

/* GPT entry (UEFI 5.3.3). */
enum {
    GPT_ENTRY_TYPE = 0,
    GPT_ENTRY_GUID = 16,
    GPT_ENTRY_FIRST = 32,
    GPT_ENTRY_LAST = 40,
    GPT_ENTRY_ATTRIBUTES = 48,
    GPT_ENTRY_NAME = 56,
    GPT_ENTRY_NAME_UNITS = 36,
    GPT_ENTRY_LEAST = 128
};

#define GPT_MAGIC "EFI PART"

/* Reads any bytes: the sectors around them are read. n is at most 4096. */
int device_partition_read_bytes(struct device *d, uint64_t offset, void *buffer, size_t n);
/* Adds a partition to the table; -BASE_EUNSUPPORTED when it is full. */
int device_partition_add(struct device_partition_table *t, const struct device_partition *p,
                         struct base_error *e);
/* Fills the table from a GPT; the scheme stays NONE when there is no trace of one. */
int device_partition_read_gpt(struct device *d, struct device_partition_table *t,
                              struct base_error *e);

#endif
