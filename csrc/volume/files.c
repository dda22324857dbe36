/* Open files. A handle keeps its node, so that a file without a name lives until its last handle is
 * closed; a handle also keeps the volume's memory, and learns from it when the volume has ended.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "volume/internal.h"

/* ---- life ---- */

struct volume *volume_file_volume(struct volume_handle *h)
{
    return h->volume;
}

static struct volume_handle *handle_new(struct volume *v, const char *path, uint32_t flags)
{
    size_t n = strlen(path) + 1;
    struct volume_handle *h = malloc(sizeof *h + n);
    if (!h)
        return NULL;
    *h = (struct volume_handle){.flags = flags, .refs = 1};
    h->volume = volume_ref(v);
    memcpy(h->path, path, n);
    return h;
}

static void handle_free(struct volume_handle *h)
{
    volume_unref(h->volume);
    free(h);
}

static void attach(struct volume_handle *h, struct volume_node *node)
{
    struct volume *v = h->volume;
    h->node = volume_node_ref(node);
    node->handles++;
    h->prev = NULL;
    h->next = v->handles;
    if (v->handles)
        v->handles->prev = h;
    v->handles = h;
}

static void detach(struct volume_handle *h)
{
    struct volume_node *node = h->node;
    if (!node)
        return;
    if (h->prev)
        h->prev->next = h->next;
    else
        h->volume->handles = h->next;
    if (h->next)
        h->next->prev = h->prev;
    h->next = h->prev = NULL;
    h->node = NULL;
    node->handles--;
    volume_node_unref(node);
}

void volume_handles_detach(struct volume *v)
{
    while (v->handles)
        detach(v->handles);
}

void volume_handles_reap(struct volume *v)
{
    struct volume_handle *h = __atomic_load_n(&v->doomed, __ATOMIC_RELAXED);
    if (h)
        h = __atomic_exchange_n(&v->doomed, NULL, __ATOMIC_ACQ_REL);
    while (h) {
        struct volume_handle *next = h->doomed;
        detach(h);
        handle_free(h);
        h = next;
    }
}

struct volume_handle *volume_file_ref(struct volume_handle *h)
{
    __atomic_add_fetch(&h->refs, 1, __ATOMIC_RELAXED);
    return h;
}

void volume_file_unref(struct volume_handle *h)
{
    if (__atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    /* The thread that lets go may hold what the lock's owner waits for (Python's GIL): leave it to
     * the owner. */
    struct volume *v = volume_ref(h->volume);
    h->doomed = __atomic_load_n(&v->doomed, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&v->doomed, &h->doomed, h, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
        ;
    volume_reap_if_free(v);
    volume_unref(v);
}

/* ---- opening ---- */

static int check_flags(struct volume *v, uint32_t flags)
{
    if (!(flags & (VOLUME_OPEN_READ | VOLUME_OPEN_WRITE)))
        return base_bad_argument(v->error, "mode", "a file is opened for reading, writing or both");
    if (flags & VOLUME_OPEN_TRUNCATE && !(flags & VOLUME_OPEN_WRITE))
        return base_bad_argument(v->error, "mode", "only a file open for writing can be emptied");
    return flags & VOLUME_OPEN_WRITE && !v->writable ? -EROFS : 0;
}

static int open_existing(const struct volume_walk *w, uint32_t flags, enum volume_change *change)
{
    struct volume_node *node = w->node;
    int rc = 0;
    if (flags & VOLUME_OPEN_CREATE && flags & VOLUME_OPEN_EXCLUSIVE)
        return -EEXIST;
    if (node->kind == VOLUME_DIRECTORY)
        return -EISDIR;
    if (flags & VOLUME_OPEN_WRITE)
        rc = volume_node_check_writing(node);
    if (rc == 0 && flags & VOLUME_OPEN_TRUNCATE) {
        *change = VOLUME_CHANGED_DATA;
        rc = node->volume->driver->resize(node, 0);
    }
    return rc;
}

static int open_new(struct volume_walk *w, uint32_t flags, enum volume_change *change)
{
    struct volume *v = w->dir->volume;
    if (!(flags & VOLUME_OPEN_CREATE))
        return -ENOENT;
    if (w->slash)
        return -EISDIR;
    if (!v->writable)
        return -EROFS;
    *change = VOLUME_CHANGED_DIRECTORY;
    return v->driver->create(w->dir, w->name, w->length, VOLUME_FILE, VOLUME_ARCHIVE, &w->node);
}

int volume_file_open(struct volume *v, const char *path, uint32_t flags, struct volume_handle **out,
                     struct base_error *e)
{
    struct volume_walk w = {0};
    enum volume_change change = VOLUME_UNCHANGED;
    *out = NULL;
    struct volume_handle *h = handle_new(v, path, flags);
    if (!h)
        return -ENOMEM;
    int rc = volume_enter(v, "open", path, e);
    if (rc < 0) {
        handle_free(h);
        return rc;
    }
    rc = check_flags(v, flags);
    if (rc == 0)
        rc = volume_walk(v, path, &w);
    if (rc == 0)
        rc = w.node ? open_existing(&w, flags, &change) : open_new(&w, flags, &change);
    if (rc == 0)
        attach(h, w.node);
    volume_walk_end(&w);
    rc = volume_leave(v, change, rc);
    if (rc == 0)
        *out = h;
    else
        volume_file_unref(h);
    return rc;
}

/* ---- the frame of a call on a handle ---- */

static int enter(struct volume_handle *h, const char *call, uint32_t needs, struct base_error *e)
{
    int rc = volume_enter(h->volume, call, h->path, e);
    if (rc < 0)
        return rc;
    if (h->node && (h->flags & needs) == needs)
        return 0;
    return volume_leave(h->volume, VOLUME_UNCHANGED, -EBADF);
}

int volume_file_close(struct volume_handle *h, struct base_error *e)
{
    int rc = enter(h, "close", 0, e);
    if (rc < 0)
        return rc;
    bool gives_space = h->node->unlinked && h->node->refs == 1;
    detach(h);
    return volume_leave(h->volume, gives_space ? VOLUME_CHANGED_DIRECTORY : VOLUME_UNCHANGED, 0);
}

/* ---- data ---- */

int volume_file_read(struct volume_handle *h, uint64_t offset, void *buffer, size_t n, size_t *done,
                     struct base_error *e)
{
    *done = 0;
    int rc = enter(h, "read", VOLUME_OPEN_READ, e);
    if (rc < 0)
        return rc;
    if (n)
        rc = h->volume->driver->read(h->node, offset, buffer, n, done);
    return volume_leave(h->volume, VOLUME_UNCHANGED, rc);
}

int volume_file_write(struct volume_handle *h, uint64_t offset, const void *buffer, size_t n,
                      size_t *done, uint64_t *end, struct base_error *e)
{
    *done = 0;
    int rc = enter(h, "write", VOLUME_OPEN_WRITE, e);
    if (rc < 0)
        return rc;
    struct volume *v = h->volume;
    if (h->flags & VOLUME_OPEN_APPEND) {
        struct volume_stat st;
        rc = v->driver->stat(h->node, &st);
        offset = rc == 0 ? st.size : 0;
    }
    enum volume_change change = n && rc == 0 ? VOLUME_CHANGED_DATA : VOLUME_UNCHANGED;
    if (rc == 0 && n > INT64_MAX - base_min(offset, INT64_MAX))
        rc = -EFBIG;
    else if (rc == 0 && n)
        rc = v->driver->write(h->node, offset, buffer, n, done);
    if (end)
        *end = offset + *done;
    return volume_leave(v, change, rc);
}

int volume_file_resize(struct volume_handle *h, uint64_t size, struct base_error *e)
{
    int rc = enter(h, "truncate", VOLUME_OPEN_WRITE, e);
    if (rc < 0)
        return rc;
    rc = h->volume->driver->resize(h->node, size);
    return volume_leave(h->volume, VOLUME_CHANGED_DATA, rc);
}

int volume_file_allocate(struct volume_handle *h, uint64_t offset, uint64_t n, bool keep_size,
                         struct base_error *e)
{
    int rc = enter(h, "fallocate", VOLUME_OPEN_WRITE, e);
    if (rc < 0)
        return rc;
    rc = volume_node_allocate(h->node, offset, n, keep_size);
    return volume_leave(h->volume, VOLUME_CHANGED_DATA, rc);
}

/* ---- the rest ---- */

int volume_file_stat(struct volume_handle *h, struct volume_stat *out, struct base_error *e)
{
    int rc = enter(h, "stat", 0, e);
    if (rc < 0)
        return rc;
    rc = h->volume->driver->stat(h->node, out);
    return volume_leave(h->volume, VOLUME_UNCHANGED, rc);
}

int volume_file_setattr(struct volume_handle *h, const struct volume_setattr *how,
                        struct base_error *e)
{
    int rc = enter(h, "setattr", 0, e);
    if (rc < 0)
        return rc;
    rc = h->volume->writable ? volume_node_setattr(h->node, how) : -EROFS;
    return volume_leave(h->volume, VOLUME_CHANGED_DATA, rc);
}

int volume_file_extents(struct volume_handle *h, struct volume_extents *out, struct base_error *e)
{
    int rc = enter(h, "extents", 0, e);
    if (rc < 0)
        return rc;
    rc = h->volume->driver->extents(h->node, out);
    return volume_leave(h->volume, VOLUME_UNCHANGED, rc);
}

int volume_file_sync(struct volume_handle *h, struct base_error *e)
{
    int rc = enter(h, "fsync", 0, e);
    if (rc < 0)
        return rc;
    if (h->volume->writable)
        rc = volume_write_back(h->volume, false);
    return volume_leave(h->volume, VOLUME_UNCHANGED, rc);
}
