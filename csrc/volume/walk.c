/* From a path to nodes. The directories that the last path led through are kept with the spelling
 * of their names, and the next path begins where it leaves them. So a row of calls in one directory
 * costs one lookup each, and one call for each directory of a tree, depth first, a few lookups
 * each, however deep they are. Two such ways are kept: a copy goes through two trees at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
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

/* ---- ways ---- */

static struct volume_node *way_end(struct volume *v, const struct volume_way *w, size_t depth)
{
    return depth ? w->dirs[depth - 1] : v->root;
}

static void way_pop(struct volume_way *w)
{
    struct volume_node *dir = w->dirs[--w->depth];
    w->length--; /* the slash behind the name */
    while (w->length > 0 && w->text[w->length - 1] != '/')
        w->length--;
    volume_node_unref(dir);
}

static void way_cut(struct volume_way *w, size_t depth)
{
    while (w->depth > depth)
        way_pop(w);
}

/* Takes over the reference to dir. */
static int way_push(struct volume_way *w, const char *name, size_t n, struct volume_node *dir)
{
    struct volume_node **dirs = base_grow(w->dirs, w->depth, 1, &w->dirs_cap, 16, sizeof *dirs);
    if (dirs)
        w->dirs = dirs;
    char *text = dirs ? base_grow(w->text, w->length, n + 1, &w->text_cap, 256, 1) : NULL;
    if (!text) {
        volume_node_unref(dir);
        return -ENOMEM;
    }
    w->text = text;
    memcpy(text + w->length, name, n);
    text[w->length + n] = '/';
    w->length += n + 1;
    w->dirs[w->depth++] = dir;
    return 0;
}

/* Slashes and "." parts mean nothing. */
static size_t skip_nothing(const char *path, size_t n, size_t i)
{
    while (i < n && (path[i] == '/' || (path[i] == '.' && i + 1 < n && path[i + 1] == '/')))
        i++;
    return i;
}

/* How many directories of the way the path goes through; *at: where it goes on. */
static size_t way_common(const struct volume_way *w, const char *path, size_t n, size_t *at)
{
    size_t depth = 0, i = skip_nothing(path, n, 0);
    if (n - i >= w->length && (w->length == 0 || memcmp(path + i, w->text, w->length) == 0)) {
        *at = i + w->length;
        return w->depth;
    }
    *at = i;
    for (size_t k = 0; i < n && k < w->length && path[i] == w->text[k]; k++) {
        i++;
        if (w->text[k] == '/') {
            *at = i = skip_nothing(path, n, i);
            depth++;
        }
    }
    return depth;
}

/* The way that leads farther; the one that was used last stays for the next call where neither
 * leads anywhere. */
static struct volume_way *way_choose(struct volume *v, const char *path, size_t n, size_t *at,
                                     size_t *depth)
{
    struct volume_way *last = &v->ways[v->way], *other = &v->ways[!v->way];
    size_t other_at, other_depth;
    *depth = way_common(last, path, n, at);
    if (*at == n || other->depth + last->depth == 0)
        return last;
    other_depth = way_common(other, path, n, &other_at);
    if (*depth > other_depth || last->depth == 0)
        return last;
    *depth = other_depth;
    *at = other_at;
    v->way = !v->way;
    return other;
}

void volume_walk_forget(struct volume *v)
{
    way_cut(&v->ways[0], 0);
    way_cut(&v->ways[1], 0);
}

void volume_walk_forget_directory(struct volume *v, const struct volume_node *dir)
{
    for (int n = 0; n < 2; n++)
        for (size_t i = 0; i < v->ways[n].depth; i++)
            if (v->ways[n].dirs[i] == dir)
                way_cut(&v->ways[n], i);
}

void volume_walk_free(struct volume *v)
{
    volume_walk_forget(v);
    for (int n = 0; n < 2; n++) {
        free(v->ways[n].dirs);
        free(v->ways[n].text);
    }
    memset(v->ways, 0, sizeof v->ways);
}

/* The way goes on to what is called name in the directory where it ends. */
static int step(struct volume *v, struct volume_way *w, const char *name, size_t n)
{
    struct volume_node *next = NULL;
    if (n == 0 || (n == 1 && name[0] == '.'))
        return 0;
    if (is_dots(name, n)) {
        if (w->depth > 0)
            way_pop(w);
        return 0;
    }
    int rc = volume_lookup(v, way_end(v, w, w->depth), name, n, &next);
    if (rc < 0)
        return rc;
    if (next->kind == VOLUME_DIRECTORY)
        return way_push(w, name, n, next);
    volume_node_unref(next);
    return -ENOTDIR;
}

/* The directory that the first n bytes of path lead to, with a reference; they end in a slash. */
static int walk_directory(struct volume *v, const char *path, size_t n, struct volume_node **out)
{
    size_t i, depth;
    struct volume_way *w = way_choose(v, path, n, &i, &depth);
    int rc = 0;
    if (i < n)
        way_cut(w, depth);
    while (i < n && rc == 0) {
        const char *slash = memchr(path + i, '/', n - i);
        size_t end = slash ? (size_t)(slash - path) : n;
        rc = step(v, w, path + i, end - i);
        i = end + 1;
        depth = w->depth;
    }
    if (rc == 0)
        *out = volume_node_ref(way_end(v, w, depth));
    return rc;
}

/* ---- paths ---- */

static bool is_too_long(const char *path, size_t n)
{
    size_t units = 0;
    if (n <= VOLUME_PATH_UNITS)
        return false;
    for (size_t i = 0; i < n && units <= VOLUME_PATH_UNITS; i++) {
        unsigned char c = (unsigned char)path[i];
        units += (c & 0xC0) == 0x80 ? 0 : c >= 0xF0 ? 2 : 1;
    }
    return units > VOLUME_PATH_UNITS;
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
    if (is_too_long(path, whole))
        return -ENAMETOOLONG;
    size_t end = significant(path, whole), start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    w->slash = end < whole;
    const char *name = path + start;
    struct volume_node *dir = NULL;
    int rc = walk_directory(v, path, start, &dir);
    if (rc < 0)
        return rc;
    if (end == 0) {
        w->node = dir;
        return 0;
    }
    if (is_dots(name, end - start)) {
        w->node = volume_node_ref(dir->parent ? dir->parent : dir);
        volume_node_unref(dir);
        return 0;
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
