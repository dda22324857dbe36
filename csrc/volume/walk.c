/* From a path to nodes. The directory that the last path led to is remembered with its spelling, so
 * that a row of calls in one directory costs one lookup each, however deep it is.
 */
#include <string.h>

#include "volume/internal.h"

int volume_lookup(struct volume *v, struct volume_node *dir, const char *name, size_t n,
                  struct volume_node **out)
{
    if (n > VOLUME_NAME_BYTES)
        return -ENAMETOOLONG;
    return v->driver->lookup(dir, name, n, out);
}

static bool is_dots(const char *name, size_t n)
{
    return n == 2 && name[0] == '.' && name[1] == '.';
}

/* *at: a directory, with a reference that moves on to what is called name in it. */
static int step(struct volume *v, struct volume_node **at, const char *name, size_t n)
{
    struct volume_node *dir = *at, *next = NULL;
    if (n == 0 || (n == 1 && name[0] == '.'))
        return 0;
    if (is_dots(name, n)) {
        next = volume_node_ref(dir->parent ? dir->parent : dir);
    } else {
        int rc = volume_lookup(v, dir, name, n, &next);
        if (rc < 0)
            return rc;
    }
    volume_node_unref(dir);
    *at = next;
    return next->kind == VOLUME_DIRECTORY ? 0 : -ENOTDIR;
}

void volume_walk_forget(struct volume *v)
{
    struct volume_node *dir = v->walk_dir;
    v->walk_dir = NULL;
    if (dir)
        volume_node_unref(dir);
}

static void remember(struct volume *v, const char *path, size_t n, struct volume_node *dir)
{
    if (n > sizeof v->walk_path || dir == v->root)
        return;
    volume_node_ref(dir);
    volume_walk_forget(v);
    memcpy(v->walk_path, path, n);
    v->walk_length = n;
    v->walk_dir = dir;
}

/* The directory that the first n bytes of path lead to, with a reference. */
static int walk_directory(struct volume *v, const char *path, size_t n, struct volume_node **out)
{
    if (v->walk_dir && n == v->walk_length && memcmp(path, v->walk_path, n) == 0) {
        *out = volume_node_ref(v->walk_dir);
        return 0;
    }
    struct volume_node *at = volume_node_ref(v->root);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0;) {
        const char *slash = memchr(path + i, '/', n - i);
        size_t end = slash ? (size_t)(slash - path) : n;
        rc = step(v, &at, path + i, end - i);
        i = end + 1;
    }
    if (rc < 0) {
        volume_node_unref(at);
        return rc;
    }
    remember(v, path, n, at);
    *out = at;
    return 0;
}

/* Length of path without the slashes and "." parts at its end. */
static size_t significant(const char *path, size_t n)
{
    for (;;) {
        if (n > 0 && path[n - 1] == '/')
            n--;
        else if (n > 0 && path[n - 1] == '.' && (n == 1 || path[n - 2] == '/'))
            n--;
        else
            return n;
    }
}

int volume_walk(struct volume *v, const char *path, struct volume_walk *w)
{
    memset(w, 0, sizeof *w);
    size_t whole = strlen(path);
    if (whole == 0)
        return -ENOENT;
    size_t end = significant(path, whole), start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    w->slash = end < whole;
    const char *name = path + start;
    struct volume_node *dir;
    int rc = walk_directory(v, path, start, &dir);
    if (rc < 0)
        return rc;
    if (end == 0) {
        w->node = dir;
        return 0;
    }
    if (is_dots(name, end - start)) {
        rc = step(v, &dir, name, end - start);
        w->node = dir;
        return rc;
    }
    w->dir = dir;
    w->name = name;
    w->length = end - start;
    rc = volume_lookup(v, dir, name, w->length, &w->node);
    if (rc == -ENOENT)
        rc = 0;
    else if (rc == 0 && w->slash && w->node->kind != VOLUME_DIRECTORY)
        rc = -ENOTDIR;
    if (rc < 0)
        volume_walk_end(w);
    return rc;
}

int volume_walk_existing(struct volume *v, const char *path, struct volume_walk *w)
{
    int rc = volume_walk(v, path, w);
    return rc < 0 || w->node ? rc : -ENOENT;
}

void volume_walk_end(struct volume_walk *w)
{
    if (w->node)
        volume_node_unref(w->node);
    if (w->dir)
        volume_node_unref(w->dir);
    w->node = w->dir = NULL;
}
