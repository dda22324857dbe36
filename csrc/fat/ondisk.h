/* Byte layout of FAT12, FAT16 and FAT32, and nothing else. Names as in Microsoft's FAT
 * specification (fatgen103), whose sections are meant by [Boot], [FAT], [FSInfo], [Dir], [LFN]. */
#ifndef PYEXFAT_FAT_ONDISK_H
#define PYEXFAT_FAT_ONDISK_H

enum { /* boot sector [Boot]; byte offsets */
       FAT_BS_JUMP = 0,
       FAT_BS_OEM_NAME = 3,
       FAT_BPB_BYTES_PER_SECTOR = 11,
       FAT_BPB_SECTORS_PER_CLUSTER = 13,
       FAT_BPB_RESERVED_SECTORS = 14,
       FAT_BPB_FATS = 16,
       FAT_BPB_ROOT_ENTRIES = 17,
       FAT_BPB_TOTAL_SECTORS16 = 19,
       FAT_BPB_MEDIA = 21,
       FAT_BPB_FAT_SIZE16 = 22,
       FAT_BPB_SECTORS_PER_TRACK = 24,
       FAT_BPB_HEADS = 26,
       FAT_BPB_HIDDEN_SECTORS = 28,
       FAT_BPB_TOTAL_SECTORS32 = 32,
       /* FAT12, FAT16 */
       FAT_BS16_DRIVE = 36,
       FAT_BS16_DIRTY = 37, /* FAT_BS_DIRTY, FAT_BS_HARD_ERROR */
       FAT_BS16_SIGNATURE = 38,
       FAT_BS16_SERIAL = 39,
       FAT_BS16_LABEL = 43,
       FAT_BS16_TYPE = 54,
       /* FAT32 */
       FAT_BPB_FAT_SIZE32 = 36,
       FAT_BPB_EXT_FLAGS = 40,
       FAT_BPB_VERSION = 42,
       FAT_BPB_ROOT_CLUSTER = 44,
       FAT_BPB_FSINFO = 48,
       FAT_BPB_BACKUP_BOOT = 50,
       FAT_BS32_DRIVE = 64,
       FAT_BS32_DIRTY = 65,
       FAT_BS32_SIGNATURE = 66,
       FAT_BS32_SERIAL = 67,
       FAT_BS32_LABEL = 71,
       FAT_BS32_TYPE = 82,
       FAT_BS_END_MARK = 510,
       FAT_LABEL_BYTES = 11,
};
enum { FAT_BS_DIRTY = 1, FAT_BS_HARD_ERROR = 2 };
enum { FAT_EXT_ACTIVE = 0x0F, FAT_EXT_NO_MIRROR = 0x80 }; /* BPB_ExtFlags */
enum { FAT_EXTENDED_SIGNATURE = 0x29, FAT_EXTENDED_SIGNATURE_OLD = 0x28 };

enum { /* FSInfo sector [FSInfo] */
       FAT_FSI_LEAD = 0,
       FAT_FSI_STRUCT = 484,
       FAT_FSI_FREE_COUNT = 488,
       FAT_FSI_NEXT_FREE = 492,
       FAT_FSI_TRAIL = 508,
};
#define FAT_FSI_LEAD_SIGNATURE 0x41615252u
#define FAT_FSI_STRUCT_SIGNATURE 0x61417272u
#define FAT_FSI_TRAIL_SIGNATURE 0xAA550000u
#define FAT_FSI_UNKNOWN 0xFFFFFFFFu

/* Clusters at most [FAT]; fewer than a type's least make the volume one of the smaller type. */
#define FAT12_CLUSTERS_MAX 4084u
#define FAT16_CLUSTERS_MAX 65524u
#define FAT32_CLUSTERS_MAX 268435444u
#define FAT32_ENTRY_MASK 0x0FFFFFFFu

enum { /* marks in FAT[1] */
       FAT16_CLEAN = 0x8000,
       FAT16_NO_HARD_ERROR = 0x4000,
};
#define FAT32_CLEAN 0x08000000u
#define FAT32_NO_HARD_ERROR 0x04000000u

enum {                   /* directory entry [Dir] */
       FAT_DIR_NAME = 0, /* 8 + 3 bytes */
       FAT_DIR_ATTRIBUTES = 11,
       FAT_DIR_CASE = 12, /* NT: 0x08 base, 0x10 extension in lower case */
       FAT_DIR_CREATED_TENTH = 13,
       FAT_DIR_CREATED_TIME = 14,
       FAT_DIR_CREATED_DATE = 16,
       FAT_DIR_ACCESSED_DATE = 18,
       FAT_DIR_FIRST_CLUSTER_HIGH = 20,
       FAT_DIR_MODIFIED_TIME = 22,
       FAT_DIR_MODIFIED_DATE = 24,
       FAT_DIR_FIRST_CLUSTER_LOW = 26,
       FAT_DIR_SIZE = 28,
       FAT_NAME_BYTES = 11,
       FAT_DELETED = 0xE5,
       FAT_KANJI_E5 = 0x05, /* stands for a first byte 0xE5 */
       FAT_CASE_BASE = 0x08,
       FAT_CASE_EXTENSION = 0x10,
       FAT_ATTR_VOLUME_ID = 0x08,
       FAT_ATTR_LONG_NAME = 0x0F,
       FAT_ATTR_LONG_NAME_MASK = 0x3F,
};
enum {                    /* long name entry [LFN] */
       FAT_LFN_ORDER = 0, /* 1.. , the last one | 0x40 */
       FAT_LFN_TYPE = 12,
       FAT_LFN_CHECKSUM = 13,
       FAT_LFN_LAST = 0x40,
       FAT_LFN_UNITS = 13, /* 5 at 1, 6 at 14, 2 at 28 */
       FAT_LFN_ENTRIES_MAX = 20,
       FAT_NAME_MAX = 255, /* units */
};
enum { FAT_DIRECTORY_ENTRIES_MAX = 65536 };

#endif
