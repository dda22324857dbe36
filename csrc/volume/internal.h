/* What the files of the volume layer share, and nobody else uses. */
#ifndef PYEXFAT_VOLUME_INTERNAL_H
#define PYEXFAT_VOLUME_INTERNAL_H

#include "volume/volume.h"

/* No name of any file system is longer (255 UTF-16 units). */
#define VOLUME_NAME_BYTES 765

struct volume_handle {
    struct volume *volume;      /* a reference */
    struct volume_node *node;   /* NULL once closed */
    struct volume_handle *next; /* in volume->handles */
    struct volume_handle *prev;
    struct volume_handle *doomed; /* the next in volume->doomed */
    uint32_t flags;
    uint32_t refs; /* atomic */
    char path[];   /* as it was opened, for the trace */
};

/* ---- the frame of every public call ---- */
/* Takes the lock. -EDEADLK: this thread has it already; -EBADF: closed. 0: volume_leave must
 * follow. */
int volume_enter(struct volume *v, const char *call, const char *path, struct base_error *e);
/* The same for a call that changes something: -EROFS. */
int volume_enter_change(struct volume *v, const char *call, const char *path, struct base_error *e);
/* Does what the sync mode asks after `change`, lets go of the lock; returns rc, or what failed here
 * if rc is none. */
int volume_leave(struct volume *v, enum volume_change change, int rc);
/* The sync mode's part of that, for calls that are many changes. */
int volume_end_of_change(struct volume *v, enum volume_change change);
int volume_write_changed_nodes(struct volume *v); /* dirty ones that the call under way changed */
void volume_defer(struct volume *v, int rc);      /* an error that no call waits for */
/* Everything on the device; the clean mark too when asked for and nothing has failed. */
int volume_write_back(struct volume *v, bool clean);
int volume_balance(struct volume *v); /* the cache within its budget, between two changes */
void volume_divide_budget(struct volume *v);

/* ---- nodes ---- */
void volume_nodes_trim(struct volume *v, size_t keep); /* idle directories */
void volume_nodes_end(struct volume *v);               /* lets go of all that are left */
size_t volume_idle_limit(const struct volume *v);
void volume_node_removed(struct volume_node *node); /* its entry is gone */

/* ---- handles ---- */
void volume_handles_detach(struct volume *v); /* the volume ends: each loses its node */
void volume_handles_reap(
    struct volume *v); /* under the lock: those that nobody refers to any more */
void volume_reap_if_free(struct volume *v); /* the same, without the lock, unless somebody has it */

/* ---- paths ---- */
struct volume_walk {
    struct volume_node
        *dir; /* a reference: what holds the last part; NULL when there is no such part */
    struct volume_node *node; /* a reference: what is there, or NULL */
    const char *name;         /* last part; length 0: the path is the root's or ends in ".." */
    size_t length;
    bool slash; /* written as a directory */
};
int volume_walk(struct volume *v, const char *path, struct volume_walk *w);
/* The same when something must be there: -ENOENT. */
int volume_walk_existing(struct volume *v, const char *path, struct volume_walk *w);
void volume_walk_end(struct volume_walk *w);
/* A directory was moved: the way of the last path may be wrong. */
void volume_walk_forget(struct volume *v);
/* This one, an empty one, was removed. */
void volume_walk_forget_directory(struct volume *v, const struct volume_node *dir);
void volume_walk_free(struct volume *v);
int volume_lookup(struct volume *v, struct volume_node *dir, const char *name, size_t n,
                  struct volume_node **out);

/* ---- operations on nodes, shared by paths and handles ---- */
int volume_node_check_writing(struct volume_node *node); /* -EISDIR, -EACCES */
int volume_node_allocate(struct volume_node *node, uint64_t offset, uint64_t n, bool keep_size);
int volume_node_setattr(struct volume_node *node, const struct volume_setattr *how);

/* ---- file systems ---- */
struct volume_row {
    const char *name;
    const struct volume_driver *driver; /* NULL: known by sight only */
    int (*detect)(struct device *d, struct volume_detected *out);
    int (*format)(struct device *d, const struct volume_format *f, struct base_error *e);
    /* Whether it can be opened when its first sectors are gone; NULL: never. */
    bool (*has_backup)(struct device *d);
};
/* The driver for fs, or, when fs is NULL, for what is on the device. */
int volume_find_driver(struct device *d, const char *fs, bool use_backup,
                       const struct volume_driver **out, struct base_error *e);
/* To the report of a damaged main boot region: that there is a sound backup. */
void volume_mention_backup(struct device *d, struct base_error *e);
int volume_detect_xfs(struct device *d, struct volume_detected *out);
int volume_detect_ntfs(struct device *d, struct volume_detected *out);

#endif
