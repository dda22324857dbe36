/* Volumes: what is the same for every file system.
 *
 * A driver fills in struct volume_driver; above it, once for all: path walk, open files (an
 * unlinked open file lives until its last handle goes), modes, one lock, sync modes, counters.
 * Public functions take the lock, so that any thread may call them; what a driver gets is always
 * called under it. Paths are UTF-8 (lone surrogates as three bytes), parts divided by '/'; a
 * leading '/' and empty and "." parts mean nothing, ".." goes up (at the root it stays). A path
 * that is longer than VOLUME_PATH_UNITS is -ENAMETOOLONG. In the child of a fork a volume that the
 * parent has opened is as closed (-EBADF), and letting go of it writes nothing: another thread may
 * have been inside it, and its device is the parent's.
 */
#ifndef PYEXFAT_VOLUME_VOLUME_H
#define PYEXFAT_VOLUME_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "base/map.h"
#include "base/zone.h"
#include "device/device.h"
#include "volume/policy.h"

/* UTF-16 units of a path: as many as Windows takes. Damage can nest directories deeper. */
#define VOLUME_PATH_UNITS 32767

struct volume;
struct volume_handle;

enum volume_kind { VOLUME_FILE = 1, VOLUME_DIRECTORY };

/* Attribute bits of FAT and exFAT (exFAT specification 7.4.4). */
enum volume_attributes {
    VOLUME_READ_ONLY = 0x01,
    VOLUME_HIDDEN = 0x02,
    VOLUME_SYSTEM = 0x04,
    VOLUME_ATTR_DIRECTORY = 0x10,
    VOLUME_ARCHIVE = 0x20,
};
#define VOLUME_SETTABLE_ATTRIBUTES                                                                 \
    (VOLUME_READ_ONLY | VOLUME_HIDDEN | VOLUME_SYSTEM | VOLUME_ARCHIVE)

#define VOLUME_NO_OFFSET INT16_MIN /* a time stamp without a UTC offset */

struct volume_stat {
    enum volume_kind kind;
    uint32_t attributes;
    uint32_t nlink;
    uint64_t inode;      /* the same for the same file until it is renamed; 1 is the root */
    uint64_t size;       /* bytes */
    uint64_t valid_size; /* ValidDataLength; what follows reads as zeros */
    uint64_t allocated;  /* bytes of clusters */
    int64_t created, modified, accessed; /* ns since 1970 UTC */
    int16_t created_offset, modified_offset,
        accessed_offset;    /* minutes east of UTC, VOLUME_NO_OFFSET */
    uint32_t first_cluster; /* 0: none */
    bool contiguous;        /* NoFatChain */
    uint64_t
        entry_offset; /* byte offset in the volume of the first directory entry; 0: none (root) */
    uint32_t entry_count; /* entries in the set */
};

enum volume_setattr_mask {
    VOLUME_SET_CREATED = 1,
    VOLUME_SET_MODIFIED = 2,
    VOLUME_SET_ACCESSED = 4,
    VOLUME_SET_ATTRIBUTES =
        8, /* attributes: VOLUME_SETTABLE_ATTRIBUTES bits replace the old ones */
};
struct volume_setattr {
    uint32_t mask;
    uint32_t attributes;
    int64_t created, modified, accessed;
};

struct volume_statfs {
    uint64_t total, used, free; /* bytes of the cluster heap */
    uint32_t cluster_size, sector_size;
    uint64_t clusters, free_clusters;
    uint32_t name_max; /* units */
};

/* A row of directory entries with names, in one growing block. */
struct volume_dirent {
    struct volume_stat stat;
    uint32_t name_offset, name_length; /* UTF-8 bytes in volume_list.names */
};
struct volume_list {
    struct volume_dirent *v;
    size_t n, cap;
    char *names;
    size_t names_n, names_cap;
    size_t limit; /* the driver stops after so many entries */
    struct base_error
        damage; /* of the first entry that could not be read: the others are listed all the same */
    size_t damaged; /* how many could not be read */
};
void volume_list_init(struct volume_list *l, size_t limit);
void volume_list_free(struct volume_list *l);
void volume_list_clear(struct volume_list *l);
/* Damage of one entry (*e, cleared here) is remembered, and the others are listed all the same. */
void volume_list_damaged(struct volume_list *l, struct base_error *e);
int volume_list_add(struct volume_list *l, const struct volume_stat *st, const char *name,
                    size_t n);

struct volume_extent {
    uint64_t file_offset, device_offset,
        length;   /* bytes; device_offset counts from the start of the volume */
    bool written; /* false: beyond ValidDataLength, reads as zeros */
};
struct volume_extents {
    struct volume_extent *v;
    size_t n, cap;
};
void volume_extents_init(struct volume_extents *x);
void volume_extents_free(struct volume_extents *x);
/* Joined to the last one where it goes on both in the file and on the device. */
int volume_extents_add(struct volume_extents *x, uint64_t file_offset, uint64_t device_offset,
                       uint64_t length, bool written);

/* Benign secondary entries of a file's set (exFAT 7.8, 7.9: vendor extension and vendor
 * allocation), with what is in their clusters. */
struct volume_extra {
    uint8_t entry[32]; /* as on the disk; FirstCluster, DataLength and flags are made anew when
                          written */
    uint8_t *data;     /* NULL: no allocation */
    uint64_t length;   /* bytes of data */
};
struct volume_extras {
    struct volume_extra *v;
    size_t n, cap;
};
#define VOLUME_EXTRA_MAX (64u << 20) /* bytes of one allocation that pass through memory */
void volume_extras_init(struct volume_extras *x);
void volume_extras_free(struct volume_extras *x); /* and the data */
/* The data becomes the list's (also on failure). */
int volume_extras_add(struct volume_extras *x, const uint8_t entry[32], uint8_t *data,
                      uint64_t length);

/* ---- driver interface ---- */

struct volume_node { /* first member of each driver's node */
    struct volume *volume;
    struct volume_node *parent; /* a reference; NULL for the root */
    uint64_t key;               /* identity in volume->nodes; changed only by volume_node_rekey */
    enum volume_kind kind;
    uint32_t refs;
    uint32_t handles;  /* open handles (part of refs) */
    bool unlinked;     /* no entry any more: release() gives the space back */
    bool dirty;        /* its entry must be written: in volume->dirty list */
    uint64_t dirty_op; /* the call (volume->op) that changed it last: what dirsync must write */
    struct volume_node *dirty_next, *dirty_prev;
    struct volume_node *idle_next,
        *idle_prev; /* unreferenced: directories kept for their caches, files not yet written */
    bool idle;
};

struct volume_driver {
    const char *name;                  /* "exfat" */
    bool local_times;                  /* time stamps are in local time and carry no offset */
    int (*mount)(struct volume *v);    /* sets v->private, v->root, v->cluster_size, … */
    void (*unmount)(struct volume *v); /* frees; writes nothing */
    /* -ENOENT when absent. *out is a new reference. */
    int (*lookup)(struct volume_node *dir, const char *name, size_t n, struct volume_node **out);
    /* Appends entries from *cursor (0: the start) on until list->limit is reached; *cursor moves
     * on; *end: no more. */
    int (*list)(struct volume_node *dir, uint64_t *cursor, struct volume_list *list, bool *end);
    /* The name is known to be absent (lookup has just said so). attributes:
     * VOLUME_SETTABLE_ATTRIBUTES. */
    int (*create)(struct volume_node *dir, const char *name, size_t n, enum volume_kind kind,
                  uint32_t attributes, struct volume_node **out);
    int (*remove)(struct volume_node
                      *node); /* -ENOTEMPTY for a directory with entries; sets node->unlinked */
    /* replaced: the node that has the new name now, or NULL (may be `node` itself: change of case
     * only). */
    int (*rename)(struct volume_node *node, struct volume_node *dir, const char *name, size_t n,
                  struct volume_node *replaced);
    int (*stat)(struct volume_node *node, struct volume_stat *out);
    int (*setattr)(struct volume_node *node, const struct volume_setattr *how);
    int (*read)(struct volume_node *node, uint64_t offset, void *buffer, size_t n, size_t *done);
    int (*write)(struct volume_node *node, uint64_t offset, const void *buffer, size_t n,
                 size_t *done);
    int (*resize)(struct volume_node *node, uint64_t size);
    int (*allocate)(struct volume_node *node, uint64_t offset, uint64_t n, bool keep_size);
    int (*extents)(struct volume_node *node, struct volume_extents *out);
    /* NULL where the format has no such entries. set replaces all of them. */
    int (*get_extras)(struct volume_node *node, struct volume_extras *out);
    int (*set_extras)(struct volume_node *node, const struct volume_extras *in);
    /* Name of a node as it is on the disk, UTF-8; returns its length or -errno. */
    int (*name_of)(struct volume_node *node, char *buffer, size_t cap);
    int (*write_node)(struct volume_node *node); /* node->dirty: its entry into the cache */
    int (*release)(struct volume_node
                       *node); /* last reference gone: space of an unlinked node, then free(node) */
    int (*mark_failure)(struct volume *v); /* that its medium has failed, past the cache's order */
    int (*sync)(struct volume *v,
                bool clean); /* everything on the device; clean: clear the dirty mark too */
    int (*statfs)(struct volume *v, struct volume_statfs *out);
    int (*count_bad)(struct volume *v, uint32_t *bad);
    int (*get_label)(struct volume *v, char *buffer, size_t cap); /* length or -errno */
    int (*set_label)(struct volume *v, const char *label, size_t n);
    int (*set_serial)(struct volume *v, uint32_t serial);
    int (*trim)(struct volume *v, uint64_t min_length, uint64_t *trimmed);
    size_t (*shrink)(struct volume *v,
                     size_t bytes); /* gives memory back; returns what was freed */
    size_t (*memory_held)(struct volume *v);
    void (*budget_changed)(struct volume *v);
};
extern const struct volume_driver exfat_driver;
extern const struct volume_driver fat_driver;

/* A code page, for the short names and labels of FAT. A code is a byte, or lead << 8 | trail. */
#define VOLUME_CODEPAGE_CODES 65536u
#define VOLUME_CODEPAGE_UNMAPPED 0xFFFFu
struct volume_codepage {
    uint16_t unit[VOLUME_CODEPAGE_CODES]; /* UTF-16 unit of each code */
    /* Code that is written for a unit, where several mean it; 0: the lowest. */
    uint16_t preferred[VOLUME_CODEPAGE_CODES];
};

struct volume_options {
    bool writable;
    bool use_backup; /* read-only, from the backup boot region */
    enum volume_sync sync;
    struct volume_policy policy;
    struct env *env;         /* the caller's, lives as long as the volume; NULL: system */
    struct names_pool *pool; /* process-wide budget or NULL; a reference is taken */
    /* Of new time stamps, and of stamps that carry no offset; copied. NULL: UTC, or local_zone's
     * where the format stores local time (which is asked only then; NULL: UTC there too). */
    const struct base_zone *zone;
    int (*local_zone)(void *context, struct base_zone *out);
    void *local_zone_context;
    const struct volume_codepage *codepage; /* NULL: 437; of no use once it is open */
};
void volume_options_init(struct volume_options *o);

enum volume_change { VOLUME_UNCHANGED = 0, VOLUME_CHANGED_DATA, VOLUME_CHANGED_DIRECTORY };

/* The directories that a path led through. */
struct volume_way {
    struct volume_node **dirs; /* references; the first is in the root */
    char *text;                /* their names as they were written, a slash behind each */
    size_t depth, dirs_cap, length, text_cap;
};

struct volume {
    const struct volume_driver *driver;
    const char *fs; /* for users: "fat12" where the driver's name is "fat" */
    void *private;  /* the driver's */
    struct device *device;
    struct cache *cache;
    struct names_cache *names;
    struct env *env;
    struct env own_env;
    struct names_pool *pool;
    struct volume_policy policy;
    struct volume_counters counters;
    enum volume_sync sync;
    struct base_zone zone;
    const struct volume_codepage *codepage; /* of the options, while it is being mounted */
    bool writable;
    bool from_backup;           /* opened from the backup boot region */
    bool was_dirty;             /* the dirty mark was set when it was opened */
    bool media_failure;         /* so it is marked */
    uint32_t failures_answered; /* of the device, when it was last tried to mark that */
    bool claimed;
    bool failed; /* a write-back failed: stays marked dirty */
    /* filled in by mount */
    struct volume_node *root;
    uint32_t cluster_size, sector_size, serial;
    uint64_t size; /* bytes, as the boot sector says */
    uint8_t uuid[16];
    bool has_uuid;
    /* guarded by lock */
    struct os_mutex *lock;
    uint64_t process; /* os_process_id() of who opened it */
    uint64_t owner;   /* atomic: thread that holds the lock */
    bool closed;      /* nothing may be written any more: nodes are let go of after this is set */
    struct base_error *error; /* of the call under way; never NULL while locked */
    uint64_t op;
    struct base_map nodes;                      /* key -> node */
    struct volume_node *dirty;                  /* nodes whose entry must be written */
    struct volume_node *idle_first, *idle_last; /* oldest first */
    size_t idle_count;
    struct volume_handle *handles; /* open ones */
    int deferred; /* an error of work that no call waited for: the next call or the close reports it
                   */
    struct base_error own_error; /* v->error of a caller that wants none */
    struct volume_way ways[2];   /* of the last paths */
    unsigned way;                /* that was used last */
    /* atomic */
    struct volume_handle *doomed; /* handles whose last reference went while the lock was taken */
    uint32_t refs;                /* handles and users */
};

/* ---- for drivers ---- */
/* The node with that key, with a new reference, or NULL. */
struct volume_node *volume_node_find(struct volume *v, uint64_t key);
/* Enters a new node (refs = 1, parent's reference taken); on error the caller frees it. */
int volume_node_enter(struct volume *v, struct volume_node *node, struct volume_node *parent,
                      uint64_t key, enum volume_kind kind);
int volume_node_rekey(struct volume_node *node, uint64_t key);
void volume_node_set_parent(struct volume_node *node, struct volume_node *parent);
void volume_node_forget(
    struct volume_node *node); /* out of the table (unlinked): its key may be used again */
struct volume_node *volume_node_ref(struct volume_node *node);
int volume_node_unref(struct volume_node *node);
void volume_node_mark_dirty(struct volume_node *node);
/* The same, but no change that its call must make durable (a time of access or of a parent). */
void volume_node_mark_touched(struct volume_node *node);
void volume_node_mark_clean(struct volume_node *node);
bool volume_node_is_within(const struct volume_node *node, const struct volume_node *ancestor);
int volume_write_dirty_nodes(struct volume *v);

/* ---- life ---- */
/* fs: driver name, or NULL to detect. The device must be at least as long as the file system says.
 */
int volume_open(struct device *d, const char *fs, const struct volume_options *o,
                struct volume **out, struct base_error *e);
/* Syncs, marks clean, ends. Later calls get -EBADF. The memory goes with the last reference
 * (volume_unref). */
int volume_close(struct volume *v, struct base_error *e);
/* Opened before a fork whose child this process is. */
bool volume_is_inherited(const struct volume *v);
int volume_abandon(struct volume *v); /* ends without writing anything: as a power cut would */
struct volume *volume_ref(struct volume *v);
void volume_unref(struct volume *v); /* an open volume that loses its last reference is abandoned */
int volume_sync(struct volume *v, struct base_error *e);

/* ---- by path ---- */
int volume_stat_path(struct volume *v, const char *path, struct volume_stat *out,
                     struct base_error *e);
int volume_mkdir(struct volume *v, const char *path, struct base_error *e);
int volume_rmdir(struct volume *v, const char *path, struct base_error *e);
int volume_unlink(struct volume *v, const char *path, struct base_error *e);
enum volume_rename_flags { VOLUME_RENAME_NOREPLACE = 1 };
int volume_rename(struct volume *v, const char *from, const char *to, uint32_t flags,
                  struct base_error *e);
/* Makes an empty file or, when it exists and exist_ok, sets its times to now. */
int volume_touch(struct volume *v, const char *path, bool exist_ok, struct base_error *e);
int volume_setattr_path(struct volume *v, const char *path, const struct volume_setattr *how,
                        struct base_error *e);
int volume_truncate_path(struct volume *v, const char *path, uint64_t size, struct base_error *e);
int volume_fallocate_path(struct volume *v, const char *path, uint64_t offset, uint64_t n,
                          bool keep_size, struct base_error *e);
int volume_extents_path(struct volume *v, const char *path, struct volume_extents *out,
                        struct base_error *e);
int volume_name_path(struct volume *v, const char *path, char *buffer, size_t cap,
                     struct base_error *e); /* as stored */
int volume_extras_get(struct volume *v, const char *path, struct volume_extras *out,
                      struct base_error *e);
int volume_extras_set(struct volume *v, const char *path, const struct volume_extras *in,
                      struct base_error *e);
/* Cursor as in the driver's list; entries come in disk order. */
int volume_list_path(struct volume *v, const char *path, uint64_t *cursor, struct volume_list *list,
                     bool *end, struct base_error *e);
struct volume_name {
    const char *s;
    size_t n;
};
/* Empty files, all in one directory, under one lock; *done says how many were made before an error.
 */
int volume_create_many(struct volume *v, const char *directory, const struct volume_name *names,
                       size_t count, size_t *done, struct base_error *e);
int volume_remove_many(struct volume *v, const char *directory, const struct volume_name *names,
                       size_t count, size_t *done, struct base_error *e);

/* ---- open files ---- */
enum volume_open_flags {
    VOLUME_OPEN_READ = 1,
    VOLUME_OPEN_WRITE = 2,
    VOLUME_OPEN_CREATE = 4,
    VOLUME_OPEN_EXCLUSIVE = 8, /* with CREATE */
    VOLUME_OPEN_TRUNCATE = 16,
    VOLUME_OPEN_APPEND = 32, /* every write goes to the end */
};
int volume_file_open(struct volume *v, const char *path, uint32_t flags, struct volume_handle **out,
                     struct base_error *e);
int volume_file_close(struct volume_handle *h, struct base_error *e); /* later calls: -EBADF */
struct volume_handle *volume_file_ref(struct volume_handle *h);
/* The last one frees; closes without sync when still open. Never waits for the lock: whoever holds
 * it does the rest. */
void volume_file_unref(struct volume_handle *h);
int volume_file_read(struct volume_handle *h, uint64_t offset, void *buffer, size_t n, size_t *done,
                     struct base_error *e);
/* *end (may be NULL): offset after the last byte written, for append. */
int volume_file_write(struct volume_handle *h, uint64_t offset, const void *buffer, size_t n,
                      size_t *done, uint64_t *end, struct base_error *e);
int volume_file_resize(struct volume_handle *h, uint64_t size, struct base_error *e);
int volume_file_allocate(struct volume_handle *h, uint64_t offset, uint64_t n, bool keep_size,
                         struct base_error *e);
int volume_file_stat(struct volume_handle *h, struct volume_stat *out, struct base_error *e);
int volume_file_setattr(struct volume_handle *h, const struct volume_setattr *how,
                        struct base_error *e);
int volume_file_extents(struct volume_handle *h, struct volume_extents *out, struct base_error *e);
int volume_file_sync(struct volume_handle *h, struct base_error *e);
struct volume *volume_file_volume(struct volume_handle *h);

/* ---- the whole ---- */
int volume_statfs_get(struct volume *v, struct volume_statfs *out, struct base_error *e);
/* Clusters that the FAT marks as bad; reads all of it. */
int volume_count_bad(struct volume *v, uint32_t *bad, struct base_error *e);
int volume_label_get(struct volume *v, char *buffer, size_t cap, struct base_error *e);
int volume_label_set(struct volume *v, const char *label, size_t n, struct base_error *e);
int volume_serial_set(struct volume *v, uint32_t serial, struct base_error *e);
int volume_trim(struct volume *v, uint64_t min_length, uint64_t *trimmed, struct base_error *e);
int volume_counters_get(struct volume *v, struct volume_counters *out, struct base_error *e);
int volume_counters_reset(struct volume *v, struct base_error *e);
int volume_shrink(struct volume *v, size_t bytes, size_t *freed, struct base_error *e);
int volume_memory_held(struct volume *v, size_t *held, struct base_error *e);
int volume_set_sync(struct volume *v, enum volume_sync sync, struct base_error *e);
/* Switches mechanisms on and off while open; tables of what is switched off are dropped. */
int volume_set_policy(struct volume *v, const struct volume_policy *policy, struct base_error *e);
int volume_policy_get(struct volume *v, struct volume_policy *out, struct base_error *e);
/* Raw bytes of the volume as the caches see them (for tools that show structures). */
int volume_read_raw(struct volume *v, uint64_t offset, void *buffer, size_t n,
                    struct base_error *e);

/* ---- formatting and detecting ---- */
/* What only FAT has; all zero: everything by the size. */
struct volume_format_fat {
    uint32_t reserved_sectors;         /* at least so many; 0: 32 (FAT32) or 1 */
    uint32_t root_entries;             /* of FAT12 and FAT16, at least so many; 0: by the size */
    uint32_t heads, sectors_per_track; /* both or neither */
    uint32_t hidden_sectors;           /* with has_hidden; else what lies before partition_offset */
    uint32_t backup_sector; /* of FAT32, with has_backup (0: none); else 6 or where there is room */
    uint8_t media;          /* 0: by the size */
    uint8_t drive;          /* with has_drive; else by the media */
    bool has_hidden, has_backup, has_drive;
    bool mbr;                   /* a partition table in the boot sector, over the whole volume */
    bool atari;                 /* as Atari's GEMDOS has it: no label there, no end mark */
    const char *oem_name;       /* at most 8 characters of ASCII; NULL: "mkfs.fat" */
    const char *boot_message;   /* what the boot code prints; NULL: that this is no bootable disk */
    const uint64_t *bad_blocks; /* numbers of blocks of 1 KiB that nothing shall be put into */
    size_t bad_blocks_n;
};

struct volume_format {
    const char *fs;        /* "exfat" */
    uint64_t size;         /* bytes of the volume; 0: to the end of the device */
    uint32_t sector_size;  /* 0: the device's */
    uint32_t cluster_size; /* bytes, 0: default for the size */
    const char *label;     /* UTF-8, NULL or "": none */
    uint32_t serial;
    bool has_serial;
    uint8_t uuid[16];
    bool has_uuid;             /* write a Volume GUID entry */
    uint64_t partition_offset; /* bytes from the start of the medium: PartitionOffset, and for the
                                  alignment */
    uint64_t alignment;        /* bytes, 0: default */
    uint32_t fats;             /* 0: default */
    bool pack_bitmap;
    bool full;                              /* write zeros over the whole volume */
    bool rehearse;                          /* say what is wrong, and write nothing */
    struct env *env;                        /* NULL: system */
    const struct base_zone *zone;           /* of time stamps; NULL: UTC */
    const struct volume_codepage *codepage; /* of the label; NULL: 437 */
    struct volume_format_fat fat;           /* "fat12", "fat16", "fat32", and "fat": one of them */
    int (*progress)(void *context, uint64_t done,
                    uint64_t total); /* full: called now and then; non-zero stops (-EINTR) */
    void *progress_context;
};
void volume_format_init(struct volume_format *f);
int volume_format_device(struct device *d, const struct volume_format *f, struct base_error *e);
/* Each driver's entry for it. */
int exfat_format(struct device *d, const struct volume_format *f, struct base_error *e);
int fat_format(struct device *d, const struct volume_format *f, struct base_error *e);
/* For drivers: zeros over the first `size` bytes of the device, with progress (-EINTR). */
int volume_format_zero(struct device *d, const struct volume_format *f, uint64_t size, uint64_t op);
int volume_format_report(const struct volume_format *f, uint64_t done, uint64_t size);

struct volume_detected {
    char fs[8];    /* "exfat", "fat12", …, "xfs" */
    uint64_t size; /* bytes, as the file system says */
    uint32_t serial;
    bool has_serial;
    char label[64]; /* UTF-8, "" when none or not readable without a mount */
    uint8_t uuid[16];
    bool has_uuid;
    bool damaged; /* the name fits but the main boot region's checksum or geometry does not */
};
/* 1: found; 0: nothing known here; or -errno of the device. Reads at most 64 KiB. */
int volume_detect(struct device *d, struct volume_detected *out);
int exfat_detect(struct device *d, struct volume_detected *out);
int fat_detect(struct device *d, struct volume_detected *out);
/* Whether there is a sound backup of the boot sectors. */
bool exfat_has_backup(struct device *d);
bool fat_has_backup(struct device *d);

#endif
