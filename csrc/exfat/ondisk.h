/* Byte layout of exFAT, and nothing else. Numbers in brackets are sections of the exFAT file system
 * specification. */
#ifndef PYEXFAT_EXFAT_ONDISK_H
#define PYEXFAT_EXFAT_ONDISK_H

/* Boot sector [3.1]; byte offsets within the sector. */
enum {
    EXFAT_BOOT_JUMP = 0,
    EXFAT_BOOT_NAME = 3,          /* "EXFAT   " */
    EXFAT_BOOT_MUST_BE_ZERO = 11, /* 53 bytes */
    EXFAT_BOOT_PARTITION_OFFSET = 64,
    EXFAT_BOOT_VOLUME_LENGTH = 72,
    EXFAT_BOOT_FAT_OFFSET = 80,
    EXFAT_BOOT_FAT_LENGTH = 84,
    EXFAT_BOOT_HEAP_OFFSET = 88,
    EXFAT_BOOT_CLUSTER_COUNT = 92,
    EXFAT_BOOT_ROOT_CLUSTER = 96,
    EXFAT_BOOT_SERIAL = 100,
    EXFAT_BOOT_REVISION = 104,
    EXFAT_BOOT_VOLUME_FLAGS = 106,
    EXFAT_BOOT_SECTOR_SHIFT = 108,
    EXFAT_BOOT_CLUSTER_SHIFT = 109, /* SectorsPerClusterShift */
    EXFAT_BOOT_FATS = 110,
    EXFAT_BOOT_DRIVE = 111,
    EXFAT_BOOT_PERCENT = 112,
    EXFAT_BOOT_CODE = 120,
    EXFAT_BOOT_SIGNATURE = 510, /* 0x55 0xAA */
};

enum { /* VolumeFlags [3.1.13] */
       EXFAT_FLAG_ACTIVE_FAT = 1,
       EXFAT_FLAG_DIRTY = 2,
       EXFAT_FLAG_MEDIA_FAILURE = 4,
       EXFAT_FLAG_CLEAR_TO_ZERO = 8,
};

enum {
    EXFAT_BOOT_SECTORS = 12,    /* sectors of a boot region [2.1] */
    EXFAT_EXTENDED_SECTORS = 8, /* extended boot sectors 1..8 */
    EXFAT_OEM_SECTOR = 9,
    EXFAT_CHECKSUM_SECTOR = 11,
    EXFAT_BACKUP_SECTOR = 12,
    EXFAT_SECTOR_SHIFT_MIN = 9,
    EXFAT_SECTOR_SHIFT_MAX = 12,
    EXFAT_CLUSTER_BYTES_SHIFT_MAX = 25, /* 32 MiB [3.1.15] */
    EXFAT_FIRST_CLUSTER = 2,
};
#define EXFAT_CLUSTERS_MAX 0xFFFFFFF5u /* ClusterCount [3.1.9] */
#define EXFAT_EXTENDED_SIGNATURE 0xAA550000u

#define EXFAT_FAT_BAD 0xFFFFFFF7u /* FAT entries [4.1] */
#define EXFAT_FAT_END 0xFFFFFFFFu
#define EXFAT_FAT_MEDIA 0xFFFFFFF8u /* FatEntry[0] */

/* Directory entries [6]. */
enum { EXFAT_ENTRY_SIZE = 32, EXFAT_ENTRY_SHIFT = 5 };
enum {
    EXFAT_TYPE_IN_USE = 0x80,
    EXFAT_TYPE_SECONDARY = 0x40,
    EXFAT_TYPE_BENIGN = 0x20,
    EXFAT_TYPE_END = 0x00,
    EXFAT_TYPE_BITMAP = 0x81,
    EXFAT_TYPE_UPCASE = 0x82,
    EXFAT_TYPE_LABEL = 0x83,
    EXFAT_TYPE_FILE = 0x85,
    EXFAT_TYPE_GUID = 0xA0,
    EXFAT_TYPE_TEXFAT_PADDING = 0xA1,
    EXFAT_TYPE_STREAM = 0xC0,
    EXFAT_TYPE_NAME = 0xC1,
    EXFAT_TYPE_ACL = 0xC2,
    EXFAT_TYPE_VENDOR = 0xE0,
    EXFAT_TYPE_VENDOR_ALLOCATION = 0xE1,
};
enum { /* GeneralSecondaryFlags [6.4.2] */
       EXFAT_ALLOCATION_POSSIBLE = 1,
       EXFAT_NO_FAT_CHAIN = 2,
};
enum { /* common to entries with an allocation [6.2, 6.4] */
       EXFAT_ENTRY_FIRST_CLUSTER = 20,
       EXFAT_ENTRY_DATA_LENGTH = 24,
};
enum { /* Allocation Bitmap [7.1], Up-case Table [7.2], Volume Label [7.3], Volume GUID [7.5] */
       EXFAT_BITMAP_FLAGS = 1,
       EXFAT_UPCASE_CHECKSUM = 4,
       EXFAT_LABEL_COUNT = 1,
       EXFAT_LABEL_TEXT = 2,
       EXFAT_LABEL_UNITS = 11,
       EXFAT_GUID_CHECKSUM = 2,
       EXFAT_GUID_VALUE = 6,
};
enum { /* File [7.4] */
       EXFAT_FILE_SECONDARY_COUNT = 1,
       EXFAT_FILE_CHECKSUM = 2,
       EXFAT_FILE_ATTRIBUTES = 4,
       EXFAT_FILE_CREATED = 8,
       EXFAT_FILE_MODIFIED = 12,
       EXFAT_FILE_ACCESSED = 16,
       EXFAT_FILE_CREATED_10MS = 20,
       EXFAT_FILE_MODIFIED_10MS = 21,
       EXFAT_FILE_CREATED_OFFSET = 22,
       EXFAT_FILE_MODIFIED_OFFSET = 23,
       EXFAT_FILE_ACCESSED_OFFSET = 24,
};
enum { /* Stream Extension [7.6] */
       EXFAT_STREAM_FLAGS = 1,
       EXFAT_STREAM_NAME_LENGTH = 3,
       EXFAT_STREAM_NAME_HASH = 4,
       EXFAT_STREAM_VALID_LENGTH = 8,
       EXFAT_STREAM_FIRST_CLUSTER = 20,
       EXFAT_STREAM_DATA_LENGTH = 24,
};
enum { /* File Name [7.7] */
       EXFAT_NAME_TEXT = 2,
       EXFAT_NAME_UNITS = 15,
       EXFAT_NAME_MAX = 255,
       EXFAT_SET_MAX = 256, /* entries: SecondaryCount is a byte */
};
#define EXFAT_DIRECTORY_MAX (256u << 20) /* bytes [7.4] */

#endif
