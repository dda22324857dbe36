/* The operating system, POSIX with what Linux adds. Nothing else in the core calls the system. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#endif

/* ---- locks and threads ---- */

struct os_mutex {
    pthread_mutex_t m;
};

struct os_mutex *os_mutex_new(void)
{
    struct os_mutex *m = malloc(sizeof *m);

    if (m && pthread_mutex_init(&m->m, NULL) != 0) {
        free(m);
        m = NULL;
    }
    return m;
}

void os_mutex_delete(struct os_mutex *m)
{
    if (m) {
        pthread_mutex_destroy(&m->m);
        free(m);
    }
}

void os_mutex_lock(struct os_mutex *m)
{
    pthread_mutex_lock(&m->m);
}

bool os_mutex_trylock(struct os_mutex *m)
{
    return pthread_mutex_trylock(&m->m) == 0;
}

void os_mutex_unlock(struct os_mutex *m)
{
    pthread_mutex_unlock(&m->m);
}

uint64_t os_thread_id(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}

/* Counted, since it is asked for in every call and getpid() is a system call. */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static uint64_t forks; /* that this process comes from */
static bool forks_counted;

static void count_fork(void)
{
    forks++; /* the child has but one thread now */
}

static void watch_forks(void)
{
    forks_counted = pthread_atfork(NULL, NULL, count_fork) == 0;
}

uint64_t os_process_id(void)
{
    pthread_once(&fork_once, watch_forks);
    return forks_counted ? forks : (uint64_t)getpid();
}

/* ---- memory ---- */

void *os_reserve(size_t bytes)
{
    uint8_t *p;
    size_t before;

    if (bytes > SIZE_MAX - OS_LARGE) {
        return NULL;
    }
    p = mmap(NULL, bytes + OS_LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    before = (OS_LARGE - (uintptr_t)p % OS_LARGE) % OS_LARGE;
    if (before) {
        munmap(p, before);
    }
    munmap(p + before + bytes, OS_LARGE - before);
    return p + before;
}

bool os_commit(void *p, size_t bytes)
{
    if (mprotect(p, bytes, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return true;
}

void os_decommit(void *p, size_t bytes)
{
    (void)mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void os_unreserve(void *p, size_t bytes)
{
    munmap(p, bytes);
}

/* ---- clock and entropy ---- */

static int64_t clock_ns(clockid_t id)
{
    struct timespec t = {0, 0};

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t os_now_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

uint64_t os_monotonic_ns(void)
{
    return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

void os_random(void *buffer, size_t n)
{
    unsigned char *p = buffer;

    while (n > 0) {
        size_t part = n < 256 ? n : 256; /* the most that getentropy gives at once */

        if (getentropy(p, part) != 0) {
            /* A kernel without it: serial numbers and GUIDs must differ, not be secret. */
            for (size_t i = 0; i < part; i++) {
                p[i] = (unsigned char)((os_monotonic_ns() * 0x9E3779B97F4A7C15u) >> 56);
            }
        }
        p += part;
        n -= part;
    }
}

/* ---- what a descriptor is ---- */

#ifdef __linux__
/* A number from the queue folder of a disk, or of the disk that a partition is on; 0 when unknown.
 */
static uint64_t queue_limit(dev_t device, const char *limit)
{
    static const char *const place[] = {"", "../"};
    uint64_t value = 0;

    for (size_t i = 0; i < 2; i++) {
        char path[96];
        FILE *f;

        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%squeue/%s", major(device), minor(device),
                 place[i], limit);
        f = fopen(path, "re");
        if (f) {
            unsigned long long v;

            if (fscanf(f, "%llu", &v) == 1) {
                value = v;
            }
            fclose(f);
            break;
        }
    }
    return value;
}

static int describe_block_device(int fd, dev_t device, struct os_file_info *info)
{
    int sector = 0;

    if (ioctl(fd, BLKGETSIZE64, &info->size) != 0 || ioctl(fd, BLKSSZGET, &sector) != 0) {
        return -errno;
    }
    info->sector_size = (uint32_t)sector;
    info->zero_punch = queue_limit(device, "write_zeroes_max_bytes") > 0;
    info->can_discard = queue_limit(device, "discard_max_bytes") > 0;
    return 0;
}

/* Such a device can be opened for writing on some systems, and fails only later. */
static bool is_write_protected(int fd)
{
    int value = 0;

    return ioctl(fd, BLKROGET, &value) == 0 && value != 0;
}

/* Tried behind the end of the file, where there is nothing to lose but the time of the last change,
 * which is put back: nothing has changed yet. */
static bool punches_holes(int fd, const struct stat *st)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};

    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, st->st_size, 4096) != 0) {
        return false;
    }
    (void)futimens(fd, times); /* the owner may */
    return true;
}
#else
static int describe_block_device(int fd, dev_t device, struct os_file_info *info)
{
    off_t end = lseek(fd, 0, SEEK_END);

    (void)device;
    if (end < 0) {
        return -errno;
    }
    info->size = (uint64_t)end;
    info->sector_size = 512;
    return 0;
}

static bool is_write_protected(int fd)
{
    (void)fd;
    return false;
}

static bool punches_holes(int fd, const struct stat *st)
{
    (void)fd;
    (void)st;
    return false;
}
#endif

static int describe(int fd, bool writable, struct os_file_info *info)
{
    struct stat st;

    memset(info, 0, sizeof *info);
    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    if (S_ISDIR(st.st_mode)) {
        return -EISDIR;
    }
    if (S_ISBLK(st.st_mode)) {
        info->is_block_device = true;
        return describe_block_device(fd, st.st_rdev, info);
    }
    if (!S_ISREG(st.st_mode)) {
        return -ENOTBLK;
    }
    info->is_regular = true;
    info->size = (uint64_t)st.st_size;
    info->zero_punch = writable && punches_holes(fd, &st);
    info->can_discard = info->zero_punch;
    return 0;
}

/* ---- opening ---- */

/* flock belongs to the open file and not to the process: a second open here is refused as well. */
static int lock_for_writing(int fd)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            return -EBUSY;
        }
        if (errno != EINTR) {
            return 0; /* a file system without locks */
        }
    }
    return 0;
}

int os_file_open(const char *path, int flags, int *fd, struct os_file_info *info)
{
    bool writable = (flags & OS_OPEN_WRITE) != 0;
    int mode = O_CLOEXEC | (writable ? O_RDWR : O_RDONLY), rc;
    struct stat st;

    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            return -EISDIR;
        }
        if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
            return -ENOTBLK; /* opening a pipe could wait for ever */
        }
        if (S_ISBLK(st.st_mode) && writable) {
            mode |= O_EXCL;
        }
    }
    if (flags & OS_OPEN_CREATE) {
        mode |= mode & O_EXCL ? 0 : O_CREAT;
        mode |= flags & OS_OPEN_EXCLUSIVE ? O_CREAT | O_EXCL : 0;
    }
    do {
        *fd = open(path, mode, 0666);
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0) {
        return -errno;
    }
    rc = describe(*fd, writable, info);
    if (rc == 0 && writable && info->is_regular) {
        rc = lock_for_writing(*fd);
    }
    if (rc == 0 && writable && info->is_block_device && is_write_protected(*fd)) {
        rc = -EROFS;
    }
    if (rc) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

int os_file_adopt(int fd, bool writable, int *own, struct os_file_info *info)
{
    int mode = fcntl(fd, F_GETFL), rc;

    if (mode < 0) {
        return -errno;
    }
    if ((mode & O_ACCMODE) == O_WRONLY || (writable && (mode & O_ACCMODE) != O_RDWR)) {
        return -EBADF;
    }
#ifdef O_PATH
    if (mode & O_PATH) {
        return -EBADF;
    }
#endif
    if (writable && (mode & O_APPEND)) {
        return -EINVAL; /* pwrite would ignore the offset */
    }
    *own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*own < 0) {
        return -errno;
    }
    rc = describe(*own, writable, info);
    if (rc == 0 && writable && info->is_regular) {
        rc = lock_for_writing(*own);
    }
    if (rc) {
        close(*own);
        *own = -1;
    }
    return rc;
}

int os_file_close(int fd)
{
    return close(fd) != 0 && errno != EINTR ? -errno : 0;
}

int os_file_release(int fd)
{
    flock(fd, LOCK_UN);
    return os_file_close(fd);
}

/* ---- reading and writing ---- */

#define MOST_AT_ONCE ((size_t)1 << 30)

static bool fits_off_t(uint64_t offset, uint64_t n)
{
    return offset <= INT64_MAX && n <= INT64_MAX - offset;
}

int os_file_read(int fd, uint64_t offset, void *buffer, size_t n)
{
    char *p = buffer;

    if (!fits_off_t(offset, n)) {
        return -EIO;
    }
    while (n > 0) {
        ssize_t got = pread(fd, p, n < MOST_AT_ONCE ? n : MOST_AT_ONCE, (off_t)offset);

        if (got == 0) {
            return -EIO;
        }
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        p += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int os_file_write(int fd, uint64_t offset, const void *buffer, size_t n)
{
    const char *p = buffer;

    if (!fits_off_t(offset, n)) {
        return -EFBIG;
    }
    while (n > 0) {
        ssize_t put = pwrite(fd, p, n < MOST_AT_ONCE ? n : MOST_AT_ONCE, (off_t)offset);

        if (put == 0) {
            return -EIO;
        }
        if (put < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        p += put;
        offset += (uint64_t)put;
        n -= (size_t)put;
    }
    return 0;
}

int os_file_flush(int fd)
{
    int rc;

    do {
#ifdef __APPLE__
        rc = fcntl(fd, F_FULLFSYNC);
#else
        rc = fdatasync(fd);
#endif
    } while (rc != 0 && errno == EINTR);
    return rc != 0 ? -errno : 0;
}

int os_file_resize(int fd, uint64_t size)
{
    int rc;

    if (size > INT64_MAX) {
        return -EFBIG;
    }
    do {
        rc = ftruncate(fd, (off_t)size);
    } while (rc != 0 && errno == EINTR);
    return rc != 0 ? -errno : 0;
}

#ifdef __linux__
static int punch(int fd, uint64_t offset, uint64_t n)
{
    int rc;

    if (!fits_off_t(offset, n)) {
        return -EFBIG;
    }
    do {
        rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n);
    } while (rc != 0 && errno == EINTR);
    return rc != 0 ? -errno : 0;
}

static int block_range(int fd, unsigned long request, uint64_t offset, uint64_t n)
{
    uint64_t range[2] = {offset, n};

    return ioctl(fd, request, range) != 0 ? -errno : 0;
}

int os_file_zero(int fd, bool block_device, uint64_t offset, uint64_t n)
{
    int rc = block_device ? block_range(fd, BLKZEROOUT, offset, n) : punch(fd, offset, n);

    return rc == -ENOSYS || rc == -ENOTTY || rc == -EINVAL ? -EOPNOTSUPP : rc;
}

int os_file_discard(int fd, bool block_device, uint64_t offset, uint64_t n)
{
    return block_device ? block_range(fd, BLKDISCARD, offset, n) : punch(fd, offset, n);
}
#else
int os_file_zero(int fd, bool block_device, uint64_t offset, uint64_t n)
{
    (void)fd, (void)block_device, (void)offset, (void)n;
    return -EOPNOTSUPP;
}

int os_file_discard(int fd, bool block_device, uint64_t offset, uint64_t n)
{
    (void)fd, (void)block_device, (void)offset, (void)n;
    return -EOPNOTSUPP;
}
#endif
