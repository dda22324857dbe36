/* What the tests of volumes share: checks, volumes on memory devices, files of a few bytes. */
#ifndef PYEXFAT_TESTS_VOLUME_HELP_H
#define PYEXFAT_TESTS_VOLUME_HELP_H

#include <string.h>

#include "base/bytes.h"
#include "check.h"
#include "volume/volume.h"

#define CHECK_RC(call, expected)                                                                   \
    do {                                                                                           \
        int got_ = (call);                                                                         \
        if (got_ != (expected)) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %d, not %d\n", __FILE__, __LINE__, #call, got_,            \
                    (int)(expected));                                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { MIB = 1 << 20 };
#define READ VOLUME_OPEN_READ
#define WRITE VOLUME_OPEN_WRITE
#define CREATE VOLUME_OPEN_CREATE
#define EXCLUSIVE VOLUME_OPEN_EXCLUSIVE
#define TRUNCATE VOLUME_OPEN_TRUNCATE

/* An exFAT volume on a memory device, the same each time. */
struct device *formatted(uint64_t size);
struct volume *opened(struct device *d, bool writable, enum volume_sync sync);
/* Closes without error and lets go. */
void closed(struct volume *v);
/* A new empty volume, open for writing, lazily. */
struct volume *fresh(void);
/* Opens a file that can be opened. */
struct volume_handle *file(struct volume *v, const char *path, uint32_t flags);
/* Makes or replaces a file. */
void put(struct volume *v, const char *path, const char *text);
/* Whether the file is this text. */
bool reads(struct volume_handle *h, const char *text);
bool holds(struct volume *v, const char *path, const char *text);
int stat_rc(struct volume *v, const char *path);
uint64_t free_bytes(struct volume *v);
struct volume_counters counters(struct volume *v);
/* What opening says; what was opened is closed again. */
int open_rc(struct volume *v, const char *path, uint32_t flags);

#endif
