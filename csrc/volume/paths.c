/* What is done to a file or directory by its path. */
#include <string.h>

#include "volume/internal.h"

/* ---- checks that paths and handles share ---- */

int volume_node_check_writing(struct volume_node *node)
{
    struct volume_stat st;
    if (node->kind == VOLUME_DIRECTORY)
        return -EISDIR;
    int rc = node->volume->driver->stat(node, &st);
    if (rc < 0)
        return rc;
    return st.attributes & VOLUME_READ_ONLY ? -EACCES : 0;
}

int volume_node_allocate(struct volume_node *node, uint64_t offset, uint64_t n, bool keep_size)
{
    struct volume *v = node->volume;
    if (n == 0)
        return base_bad_argument(v->error, "length", "nothing to allocate");
    if (offset > INT64_MAX || n > INT64_MAX - offset)
        return -EFBIG;
    return v->driver->allocate(node, offset, n, keep_size);
}

int volume_node_setattr(struct volume_node *node, const struct volume_setattr *how)
{
    struct volume *v = node->volume;
    if (how->mask & VOLUME_SET_ATTRIBUTES &&
        how->attributes & ~(uint32_t)VOLUME_SETTABLE_ATTRIBUTES)
        return base_bad_argument(v->error, "attributes",
                                 "only read-only, hidden, system and archive can be set");
    return how->mask ? v->driver->setattr(node, how) : 0;
}

/* ---- one existing node ---- */

/* Walks to path and calls f on what is there; change says what f changes. */
static int with_node(struct volume *v, const char *call, const char *path,
                     enum volume_change change, struct base_error *e,
                     int (*f)(struct volume_node *node, void *argument), void *argument)
{
    struct volume_walk w;
    int rc = change == VOLUME_UNCHANGED ? volume_enter(v, call, path, e)
                                        : volume_enter_change(v, call, path, e);
    if (rc < 0)
        return rc;
    rc = volume_walk_existing(v, path, &w);
    if (rc < 0)
        change = VOLUME_UNCHANGED;
    else
        rc = f(w.node, argument);
    volume_walk_end(&w);
    return volume_leave(v, change, rc);
}

static int do_stat(struct volume_node *node, void *argument)
{
    return node->volume->driver->stat(node, argument);
}

int volume_stat_path(struct volume *v, const char *path, struct volume_stat *out,
                     struct base_error *e)
{
    return with_node(v, "stat", path, VOLUME_UNCHANGED, e, do_stat, out);
}

static int do_setattr(struct volume_node *node, void *argument)
{
    return volume_node_setattr(node, argument);
}

int volume_setattr_path(struct volume *v, const char *path, const struct volume_setattr *how,
                        struct base_error *e)
{
    struct volume_setattr copy = *how;
    return with_node(v, "setattr", path, VOLUME_CHANGED_DATA, e, do_setattr, &copy);
}

static int do_truncate(struct volume_node *node, void *argument)
{
    const uint64_t *size = argument;
    int rc = volume_node_check_writing(node);
    return rc < 0 ? rc : node->volume->driver->resize(node, *size);
}

int volume_truncate_path(struct volume *v, const char *path, uint64_t size, struct base_error *e)
{
    return with_node(v, "truncate", path, VOLUME_CHANGED_DATA, e, do_truncate, &size);
}

struct range {
    uint64_t offset, n;
    bool keep_size;
};

static int do_allocate(struct volume_node *node, void *argument)
{
    const struct range *r = argument;
    int rc = volume_node_check_writing(node);
    return rc < 0 ? rc : volume_node_allocate(node, r->offset, r->n, r->keep_size);
}

int volume_fallocate_path(struct volume *v, const char *path, uint64_t offset, uint64_t n,
                          bool keep_size, struct base_error *e)
{
    struct range r = {offset, n, keep_size};
    return with_node(v, "fallocate", path, VOLUME_CHANGED_DATA, e, do_allocate, &r);
}

static int do_extents(struct volume_node *node, void *argument)
{
    return node->volume->driver->extents(node, argument);
}

int volume_extents_path(struct volume *v, const char *path, struct volume_extents *out,
                        struct base_error *e)
{
    return with_node(v, "extents", path, VOLUME_UNCHANGED, e, do_extents, out);
}

static int do_get_extras(struct volume_node *node, void *argument)
{
    const struct volume_driver *d = node->volume->driver;
    return d->get_extras && node->parent ? d->get_extras(node, argument) : 0;
}

int volume_extras_get(struct volume *v, const char *path, struct volume_extras *out,
                      struct base_error *e)
{
    return with_node(v, "vendor_entries", path, VOLUME_UNCHANGED, e, do_get_extras, out);
}

static int do_set_extras(struct volume_node *node, void *argument)
{
    struct volume *v = node->volume;
    const struct volume_extras *in = argument;
    if (v->driver->set_extras && node->parent)
        return v->driver->set_extras(node, in);
    return in->n == 0 ? 0
                      : base_unsupported(v->error, "vendor entries", "the format has none here");
}

int volume_extras_set(struct volume *v, const char *path, const struct volume_extras *in,
                      struct base_error *e)
{
    struct volume_extras copy = *in;
    return with_node(v, "set_vendor_entries", path, VOLUME_CHANGED_DIRECTORY, e, do_set_extras,
                     &copy);
}

struct text {
    char *buffer;
    size_t cap;
};

static int do_name(struct volume_node *node, void *argument)
{
    const struct text *t = argument;
    return node->parent ? node->volume->driver->name_of(node, t->buffer, t->cap) : 0;
}

int volume_name_path(struct volume *v, const char *path, char *buffer, size_t cap,
                     struct base_error *e)
{
    struct text t = {buffer, cap};
    return with_node(v, "name", path, VOLUME_UNCHANGED, e, do_name, &t);
}

struct listing {
    uint64_t *cursor;
    struct volume_list *list;
    bool *end;
};

static int do_list(struct volume_node *node, void *argument)
{
    const struct listing *l = argument;
    if (node->kind != VOLUME_DIRECTORY)
        return -ENOTDIR;
    return node->volume->driver->list(node, l->cursor, l->list, l->end);
}

int volume_list_path(struct volume *v, const char *path, uint64_t *cursor, struct volume_list *list,
                     bool *end, struct base_error *e)
{
    struct listing l = {cursor, list, end};
    return with_node(v, "list", path, VOLUME_UNCHANGED, e, do_list, &l);
}

/* ---- names that come ---- */

int volume_mkdir(struct volume *v, const char *path, struct base_error *e)
{
    struct volume_walk w;
    struct volume_node *made = NULL;
    enum volume_change change = VOLUME_UNCHANGED;
    int rc = volume_enter_change(v, "mkdir", path, e);
    if (rc < 0)
        return rc;
    rc = volume_walk(v, path, &w);
    if (rc == 0 && w.node)
        rc = -EEXIST;
    if (rc == 0) {
        change = VOLUME_CHANGED_DIRECTORY;
        rc = v->driver->create(w.dir, w.name, w.length, VOLUME_DIRECTORY, 0, &made);
    }
    if (made)
        volume_node_unref(made);
    volume_walk_end(&w);
    return volume_leave(v, change, rc);
}

int volume_touch(struct volume *v, const char *path, bool exist_ok, struct base_error *e)
{
    struct volume_walk w;
    struct volume_node *made = NULL;
    enum volume_change change = VOLUME_UNCHANGED;
    int rc = volume_enter_change(v, "touch", path, e);
    if (rc < 0)
        return rc;
    rc = volume_walk(v, path, &w);
    if (rc == 0 && w.node && !exist_ok) {
        rc = -EEXIST;
    } else if (rc == 0 && w.node) {
        struct volume_setattr how = {.mask = VOLUME_SET_MODIFIED | VOLUME_SET_ACCESSED};
        how.modified = how.accessed = v->env->now(v->env);
        change = VOLUME_CHANGED_DATA;
        rc = v->driver->setattr(w.node, &how);
    } else if (rc == 0 && w.slash) {
        rc = -EISDIR;
    } else if (rc == 0) {
        change = VOLUME_CHANGED_DIRECTORY;
        rc = v->driver->create(w.dir, w.name, w.length, VOLUME_FILE, VOLUME_ARCHIVE, &made);
    }
    if (made)
        volume_node_unref(made);
    volume_walk_end(&w);
    return volume_leave(v, change, rc);
}

/* ---- names that go ---- */

static int remove_node(struct volume_node *node)
{
    int rc = node->volume->driver->remove(node);
    if (node->unlinked)
        volume_node_removed(node);
    return rc;
}

int volume_rmdir(struct volume *v, const char *path, struct base_error *e)
{
    struct volume_walk w;
    enum volume_change change = VOLUME_UNCHANGED;
    int rc = volume_enter_change(v, "rmdir", path, e);
    if (rc < 0)
        return rc;
    rc = volume_walk_existing(v, path, &w);
    if (rc == 0 && w.node->kind != VOLUME_DIRECTORY)
        rc = -ENOTDIR;
    if (rc == 0 && w.node == v->root)
        rc = -EBUSY;
    if (rc == 0) {
        change = VOLUME_CHANGED_DIRECTORY;
        rc = remove_node(w.node);
    }
    volume_walk_end(&w);
    return volume_leave(v, change, rc);
}

int volume_unlink(struct volume *v, const char *path, struct base_error *e)
{
    struct volume_walk w;
    enum volume_change change = VOLUME_UNCHANGED;
    int rc = volume_enter_change(v, "unlink", path, e);
    if (rc < 0)
        return rc;
    rc = volume_walk_existing(v, path, &w);
    if (rc == 0 && w.node->kind == VOLUME_DIRECTORY)
        rc = -EISDIR;
    if (rc == 0) {
        change = VOLUME_CHANGED_DIRECTORY;
        rc = remove_node(w.node);
    }
    volume_walk_end(&w);
    return volume_leave(v, change, rc);
}

/* ---- rename ---- */

/* 1: the name is that already. */
static int has_name(struct volume_node *node, const char *name, size_t n)
{
    char now[VOLUME_NAME_BYTES + 1];
    int rc = node->volume->driver->name_of(node, now, sizeof now);
    if (rc < 0)
        return rc;
    return (size_t)rc == n && memcmp(now, name, n) == 0;
}

/* What is found in a directory but is in memory as another's: the two share their clusters, and a
 * move from one to the other would be none. */
static int check_own(struct volume *v, const struct volume_walk *w)
{
    struct volume_stat st;
    if (!w->node || !w->dir || w->node->parent == w->dir)
        return 0;
    int rc = v->driver->stat(w->node, &st);
    return rc < 0 ? rc
                  : base_damage(v->error, "directory", st.entry_offset, "FirstCluster", 0, 0,
                                "two directories have the same clusters");
}

/* 0: go on; 1: nothing to do; or what rename(2) says. */
static int rename_check(const struct volume_walk *from, const struct volume_walk *to,
                        uint32_t flags)
{
    struct volume_node *node = from->node, *replaced = to->node;
    bool no_replace = flags & VOLUME_RENAME_NOREPLACE;
    if (!from->dir)
        return -EBUSY;
    if (!to->dir)
        return no_replace ? -EEXIST : -EBUSY;
    if (replaced == node) {
        int rc = has_name(node, to->name, to->length);
        return rc == 1 && no_replace ? -EEXIST : rc;
    }
    if (replaced && no_replace)
        return -EEXIST;
    if (node->kind == VOLUME_DIRECTORY && volume_node_is_within(to->dir, node))
        return base_refused(node->volume->error, EINVAL, "Can't be moved into itself");
    if (to->slash && node->kind != VOLUME_DIRECTORY)
        return -ENOTDIR;
    if (!replaced)
        return 0;
    if (volume_node_is_within(from->dir, replaced))
        return -ENOTEMPTY;
    if (replaced->kind == VOLUME_DIRECTORY && node->kind != VOLUME_DIRECTORY)
        return -EISDIR;
    if (replaced->kind != VOLUME_DIRECTORY && node->kind == VOLUME_DIRECTORY)
        return -ENOTDIR;
    return 0;
}

int volume_rename(struct volume *v, const char *from, const char *to, uint32_t flags,
                  struct base_error *e)
{
    struct volume_walk a, b = {0};
    enum volume_change change = VOLUME_UNCHANGED;
    int rc = volume_enter_change(v, "rename", from, e);
    if (rc < 0)
        return rc;
    rc = volume_walk_existing(v, from, &a);
    if (rc == 0)
        rc = volume_walk(v, to, &b);
    if (rc == 0 && (rc = check_own(v, &a)) == 0 && (rc = check_own(v, &b)) == 0)
        rc = rename_check(&a, &b, flags);
    if (rc == 0) {
        change = VOLUME_CHANGED_DIRECTORY;
        rc = v->driver->rename(a.node, b.dir, b.name, b.length, b.node);
        if (b.node && b.node != a.node && b.node->unlinked)
            volume_node_removed(b.node);
        if (a.node->kind == VOLUME_DIRECTORY)
            volume_walk_forget(v);
    } else if (rc == 1) {
        rc = 0;
    }
    volume_walk_end(&b);
    volume_walk_end(&a);
    return volume_leave(v, change, rc);
}

/* ---- many files ---- */

static int check_name(struct volume *v, const struct volume_name *name)
{
    bool dots = (name->n == 1 || name->n == 2) && name->s[0] == '.' && name->s[name->n - 1] == '.';
    if (name->n == 0 || dots || memchr(name->s, '/', name->n))
        return base_bad_argument(v->error, "names", "each must be the name of one file");
    return 0;
}

static int create_one(struct volume *v, struct volume_node *dir, const struct volume_name *name)
{
    struct volume_node *node = NULL;
    int rc = check_name(v, name);
    if (rc < 0)
        return rc;
    rc = volume_lookup(v, dir, name->s, name->n, &node);
    if (rc == 0)
        rc = -EEXIST;
    else if (rc == -ENOENT)
        rc = v->driver->create(dir, name->s, name->n, VOLUME_FILE, VOLUME_ARCHIVE, &node);
    if (node)
        volume_node_unref(node);
    return rc;
}

static int remove_one(struct volume *v, struct volume_node *dir, const struct volume_name *name)
{
    struct volume_node *node = NULL;
    int rc = check_name(v, name);
    if (rc == 0)
        rc = volume_lookup(v, dir, name->s, name->n, &node);
    if (rc < 0)
        return rc;
    rc = node->kind == VOLUME_DIRECTORY ? -EISDIR : remove_node(node);
    volume_node_unref(node);
    return rc;
}

/* Each file is a change of its own: as durable and as bounded in memory as if it had its own call.
 */
static int many(struct volume *v, const char *call, const char *directory,
                const struct volume_name *names, size_t count, size_t *done, struct base_error *e,
                int (*one)(struct volume *v, struct volume_node *dir,
                           const struct volume_name *name))
{
    struct volume_walk w;
    *done = 0;
    int rc = volume_enter_change(v, call, directory, e);
    if (rc < 0)
        return rc;
    rc = volume_walk_existing(v, directory, &w);
    if (rc == 0 && w.node->kind != VOLUME_DIRECTORY)
        rc = -ENOTDIR;
    while (rc == 0 && *done < count) {
        rc = one(v, w.node, &names[*done]);
        int r = volume_end_of_change(v, VOLUME_CHANGED_DIRECTORY);
        rc = rc < 0 ? rc : r;
        if (rc == 0)
            rc = volume_balance(v);
        if (rc == 0)
            ++*done;
    }
    volume_walk_end(&w);
    return volume_leave(v, VOLUME_UNCHANGED, rc);
}

int volume_create_many(struct volume *v, const char *directory, const struct volume_name *names,
                       size_t count, size_t *done, struct base_error *e)
{
    return many(v, "create_many", directory, names, count, done, e, create_one);
}

int volume_remove_many(struct volume *v, const char *directory, const struct volume_name *names,
                       size_t count, size_t *done, struct base_error *e)
{
    return many(v, "remove_many", directory, names, count, done, e, remove_one);
}
