/* Everything that depends on the operating system. Implemented once per system: os_posix.c. */
#ifndef PYEXFAT_BASE_OS_H
#define PYEXFAT_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- locks and threads ---- */
struct os_mutex;                     /* plain, not recursive */
struct os_mutex *os_mutex_new(void); /* NULL: no memory */
void os_mutex_delete(struct os_mutex *m);
void os_mutex_lock(struct os_mutex *m);
bool os_mutex_trylock(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);
uint64_t os_thread_id(void); /* of the calling thread, never 0 */
/* A number of the process, another one in the child of a fork. */
uint64_t os_process_id(void);

/* ---- memory ---- in pieces of OS_LARGE, each of which the system may back with one large page, so
 * that looking into much memory at random does not also mean looking for where it is */
#define OS_LARGE ((size_t)2 << 20)
/* Address space, a multiple of OS_LARGE: nothing is in it before it is committed. NULL: none. */
void *os_reserve(size_t bytes);
bool os_commit(void *p, size_t bytes); /* zeros, from now on; false: no memory */
void os_decommit(void *p, size_t bytes);
void os_unreserve(void *p, size_t bytes);

/* ---- clock and entropy ---- */
int64_t os_now_ns(void);
uint64_t os_monotonic_ns(void);
void os_random(void *buffer, size_t n);

/* ---- files and block devices ---- */
struct os_file_info {
    uint64_t size;        /* bytes; of the medium for a block device */
    uint32_t sector_size; /* logical sector of a block device, else 0 */
    bool is_block_device;
    bool is_regular;
    bool zero_punch; /* holes can be punched and read as zeros (regular file, fallocate PUNCH_HOLE
                        works) */
    bool can_discard;
};

enum os_open_flags {
    OS_OPEN_WRITE = 1,  /* block devices: exclusively (-EBUSY when mounted); files: advisory write
                           lock (-EBUSY) */
    OS_OPEN_CREATE = 2, /* make a regular file when nothing is there */
    OS_OPEN_EXCLUSIVE = 4, /* with CREATE: -EEXIST when something is there */
};

int os_file_open(const char *path, int flags, int *fd, struct os_file_info *info);
/* Of a descriptor that stays the caller's: *own is a duplicate. */
int os_file_adopt(int fd, bool writable, int *own, struct os_file_info *info);
/* Also gives up the lock, which other descriptors of the same open file share: the one that was
 * adopted, and those of the children of a fork. */
int os_file_release(int fd);
int os_file_close(int fd);
int os_file_read(int fd, uint64_t offset, void *buffer,
                 size_t n); /* all or -EIO (also at the end of the file) */
int os_file_write(int fd, uint64_t offset, const void *buffer, size_t n);
int os_file_flush(int fd); /* fdatasync */
int os_file_resize(int fd, uint64_t size);
int os_file_zero(int fd, bool block_device, uint64_t offset,
                 uint64_t n); /* punch / BLKZEROOUT; -EOPNOTSUPP: write zeros */
int os_file_discard(int fd, bool block_device, uint64_t offset, uint64_t n);

#endif
