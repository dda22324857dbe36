/* Devices: what a volume stands on, and the shims that stack on one another (slice, branch,
 * recorder, faults).
 *
 * A device is a row of sectors addressed by byte offset. Every operation is all or nothing and
 * returns 0 or a negative errno. The front functions below check bounds and alignment of the
 * arguments, then call the implementation; callers never use the table directly. Devices are
 * reference-counted; each may be used by several threads.
 *
 * Writes to a device are one after the other, under its lock; reads of a file or of call-backs are
 * not locked. A call-back that writes to the device it serves gets -EDEADLK. Callers hold nothing
 * that a call-back may wait for (the GIL), in device_unref and device_close as well. Offsets and
 * lengths are multiples of the sector size (-EINVAL), but for reads with DEVICE_CHEAP_READ; a read
 * past the end is -EIO, a write past it -EINVAL; -EBADF when closed, -EROFS when read-only. A size
 * that is not whole sectors is rounded down when the medium was there before, and -EINVAL where it
 * is asked for. A device with branches is not resized, nor made shorter than what a volume writes
 * (-EBUSY). In the child of a fork a device that the parent has made is as closed: another thread
 * may have been inside it, and what it stands on is the parent's. All or nothing is as good as the
 * medium: zeros that are written, and a disk that fails half-way, are not.
 */
#ifndef PYEXFAT_DEVICE_DEVICE_H
#define PYEXFAT_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct os_mutex;

/* What a write holds. The order is that of device_structure_name(). */
enum device_structure {
    DEVICE_OTHER = 0,
    DEVICE_BOOT, /* main boot region */
    DEVICE_BACKUP_BOOT,
    DEVICE_FAT,
    DEVICE_BITMAP,
    DEVICE_UPCASE,
    DEVICE_DIRECTORY, /* zeroed or copied clusters of a directory */
    DEVICE_ENTRY_SET,
    DEVICE_DATA,
    DEVICE_LABEL,     /* volume label, GUID and other root entries */
    DEVICE_PARTITION, /* MBR, EBR, GPT */
    DEVICE_ZEROING,   /* zeros of a full format or of a gap */
    DEVICE_STRUCTURES /* how many */
};
const char *device_structure_name(enum device_structure s);

struct device_tag {
    uint64_t op;     /* number of the call that caused the write, given by device_begin; 0: none */
    uint64_t object; /* id given by device_object, 0: none */
    uint32_t structure;
};

enum device_flags {
    DEVICE_READONLY = 1,
    DEVICE_DISCARDS = 2, /* discard does something */
    DEVICE_CHEAP_ZERO =
        4, /* zero() needs no write of the whole range (hole, memory page, BLKZEROOUT) */
    DEVICE_TRACED = 8,      /* somebody below wants device_begin/device_object */
    DEVICE_FRESH = 16,      /* reads as zeros everywhere now (just made): format need not zero */
    DEVICE_IS_BLOCK = 32,   /* a raw block device of the system */
    DEVICE_CHEAP_READ = 64, /* a read costs its bytes and no more, and may begin and end anywhere */
};

struct device;
struct device_ops {
    int (*read)(struct device *d, uint64_t offset, void *buffer, size_t n);
    int (*write)(struct device *d, uint64_t offset, const void *buffer, size_t n,
                 const struct device_tag *tag);
    int (*zero)(struct device *d, uint64_t offset, uint64_t n,
                const struct device_tag *tag); /* NULL: by writes */
    int (*flush)(struct device *d);
    int (*discard)(struct device *d, uint64_t offset, uint64_t n,
                   const struct device_tag *tag);   /* NULL: ignored */
    int (*resize)(struct device *d, uint64_t size); /* NULL: -EOPNOTSUPP */
    /* Names an operation or object for the trace; NULL when not traced. */
    uint64_t (*begin)(struct device *d, const char *call, const char *path);
    uint64_t (*object)(struct device *d, const char *path);
    /* Gives up what the system lent (a descriptor and its lock), once; under the lock; NULL:
     * nothing to give up. */
    void (*close)(struct device *d);
    /* Branches only: keeps what offset, n of the store holds now, because it is about to change
     * there. */
    int (*preserve)(struct device *d, uint64_t offset, uint64_t n);
    void (*destroy)(struct device *d); /* frees the implementation */
};

struct device_claim;

struct device {
    const struct device_ops *ops;
    uint64_t size;
    uint32_t sector_size;
    uint32_t flags;        /* read with device_has: DEVICE_FRESH goes away at the first write */
    uint32_t refs;         /* atomic */
    uint32_t closed;       /* atomic: operations return -EBADF */
    uint64_t process;      /* os_process_id() of its maker */
    struct device *below;  /* the device this one stands on, or NULL; a reference */
    uint64_t below_offset; /* slice */
    struct device_claim *claims; /* ranges that volumes write here (see device_claim) */
    struct os_mutex *lock;       /* held while something is written; guards branches, claims and the
                                    branches' tables */
    uint64_t owner;              /* atomic: the thread that holds lock, or 0 */
    struct device
        *branches; /* children that need what is overwritten here, linked by next_branch */
    struct device *next_branch;
    char name[64]; /* for people: file name or kind */
};

/* ---- front ---- */
static inline bool device_has(const struct device *d, uint32_t flag)
{
    return (__atomic_load_n(&d->flags, __ATOMIC_RELAXED) & flag) != 0;
}
int device_read(struct device *d, uint64_t offset, void *buffer, size_t n);
int device_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                 const struct device_tag *tag);
int device_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag);
int device_flush(struct device *d);
int device_discard(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag);
int device_resize(struct device *d, uint64_t size);
uint64_t device_begin(struct device *d, const char *call, const char *path);
uint64_t device_object(struct device *d, const char *path);
struct device *device_ref(struct device *d);
void device_unref(struct device *d); /* the last one destroys */
/* Flushes and refuses further use; a file gives up its descriptor and its lock, the memory goes
 * with the last reference. What is below stays open. 0 when it was closed before. */
int device_close(struct device *d);
/* One writer at a time over the same bytes: -EBUSY when another volume writes d or what d stands
 * on. */
int device_claim(struct device *d);
void device_release(struct device *d);

/* ---- kinds ---- each returns 0 and a new reference in *out */
int device_file_open(const char *path, bool writable, bool create, uint32_t sector_size,
                     struct device **out);
int device_file_adopt(int fd, bool writable, uint32_t sector_size, struct device **out);
int device_memory_new(uint64_t size, uint32_t sector_size, struct device **out); /* sparse, zeros */
size_t device_memory_held(struct device *d); /* bytes of memory really held */
/* Memory of somebody else, in place; release(owner) is called when the device is destroyed, not
 * when this call fails. */
int device_buffer_new(void *memory, uint64_t size, bool writable, uint32_t sector_size,
                      void (*release)(void *owner), void *owner, struct device **out);
/* Anything behind call-backs (Python objects). write NULL: read-only; flush, resize and release may
 * be NULL too. */
struct device_callbacks {
    int (*read)(void *owner, uint64_t offset, void *buffer, size_t n);
    int (*write)(void *owner, uint64_t offset, const void *buffer, size_t n);
    int (*flush)(void *owner);
    int (*resize)(void *owner, uint64_t size);
    void (*release)(void *owner);
};
int device_callbacks_new(const struct device_callbacks *c, void *owner, uint64_t size,
                         uint32_t sector_size, struct device **out);
int device_slice_new(struct device *below, uint64_t offset, uint64_t length, struct device **out);

/* Copy-on-write child: sees `below` as it is now, whatever is written to either side later. O(1) to
 * make. */
int device_branch_new(struct device *below, struct device **out);
int device_branch_commit(
    struct device *branch); /* writes the changes to the parent and empties the branch */
int device_branch_discard(
    struct device *branch); /* forgets the changes (roll back to the parent as it is now) */
uint64_t device_branch_changed(struct device *branch); /* bytes that a commit would write or zero */

/* Recorder: passes everything through and keeps an ordered log. */
enum device_log_kind {
    DEVICE_LOG_WRITE = 1,
    DEVICE_LOG_ZERO,
    DEVICE_LOG_DISCARD,
    DEVICE_LOG_FLUSH
};
struct device_log_entry {
    enum device_log_kind kind;
    uint64_t offset, n;
    struct device_tag tag;
    const uint8_t *data; /* WRITE only; the recorder's */
};
int device_recorder_new(struct device *below, struct device **out);
size_t device_recorder_count(struct device *r);
int device_recorder_entry(struct device *r, size_t i,
                          struct device_log_entry *out); /* -ENOENT past the end */
const char *device_recorder_op(struct device *r, uint64_t op,
                               const char **path); /* call name, NULL: unknown */
const char *device_recorder_object(struct device *r, uint64_t object);
void device_recorder_clear(struct device *r); /* forgets entries so far; they become the base */
/* A branch that holds the device as it was after the first `count` entries. */
int device_recorder_at(struct device *r, size_t count, struct device **out);

/* Fault injector: rules are tried in the order added; the first that matches an operation decides.
 */
enum device_fault_op {
    DEVICE_FAULT_READ = 1,
    DEVICE_FAULT_WRITE = 2,
    DEVICE_FAULT_FLUSH = 4,
    DEVICE_FAULT_DISCARD = 8
};
enum device_fault_action {
    DEVICE_FAULT_FAIL = 1, /* the operation returns -error and does nothing */
    DEVICE_FAULT_TEAR, /* a write stores only its first `keep` bytes (whole sectors), then returns
                          -error (0: success) */
    DEVICE_FAULT_DROP, /* the operation does nothing and reports success */
    DEVICE_FAULT_DIE,  /* from now on everything returns -error */
};
struct device_fault {
    uint32_t ops;       /* device_fault_op bits */
    uint64_t nth;       /* 1: the first matching operation…; 0: every matching one */
    uint64_t times;     /* how many from nth on (0: one when nth is set, for ever when not) */
    uint64_t offset, n; /* only operations that touch this range; n == 0: anywhere */
    int32_t structure;  /* only this structure, -1: any */
    enum device_fault_action action;
    int32_t error; /* positive errno */
    uint64_t keep;
};
int device_faults_new(struct device *below, struct device **out);
int device_faults_add(struct device *f, const struct device_fault *rule);
void device_faults_clear(struct device *f);
uint64_t device_faults_count(struct device *f,
                             uint32_t op); /* operations of that kind seen so far */

#endif
