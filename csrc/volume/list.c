/* Growing rows: directory entries with their names, and extents. */
#include <stdlib.h>
#include <string.h>

#include "volume/volume.h"

/* Makes room for `more` elements of `size` bytes after the first n; *cap counts elements. */
static int grow(void **block, size_t *cap, size_t n, size_t more, size_t size)
{
    if (more <= *cap - n)
        return 0;
    size_t most = SIZE_MAX / size, want = *cap < 16 ? 16 : *cap;
    if (more > most - n)
        return -ENOMEM;
    while (want < n + more)
        want = want > most / 2 ? most : want * 2;
    void *p = realloc(*block, want * size);
    if (!p)
        return -ENOMEM;
    *block = p;
    *cap = want;
    return 0;
}

void volume_list_init(struct volume_list *l, size_t limit)
{
    memset(l, 0, sizeof *l);
    l->limit = limit;
}

void volume_list_free(struct volume_list *l)
{
    free(l->v);
    free(l->names);
    volume_list_init(l, l->limit);
}

void volume_list_clear(struct volume_list *l)
{
    l->n = 0;
    l->names_n = 0;
    l->damaged = 0;
    base_error_clear(&l->damage);
}

void volume_list_damaged(struct volume_list *l, struct base_error *e)
{
    if (l->damaged++ == 0)
        l->damage = *e;
    base_error_clear(e);
}

int volume_list_add(struct volume_list *l, const struct volume_stat *st, const char *name, size_t n)
{
    if (n > UINT32_MAX || l->names_n > UINT32_MAX - n)
        return -ENOMEM;
    void *block = l->v;
    int rc = grow(&block, &l->cap, l->n, 1, sizeof *l->v);
    l->v = block;
    if (rc < 0)
        return rc;
    block = l->names;
    rc = grow(&block, &l->names_cap, l->names_n, n, 1);
    l->names = block;
    if (rc < 0)
        return rc;
    struct volume_dirent *d = &l->v[l->n++];
    d->stat = *st;
    d->name_offset = (uint32_t)l->names_n;
    d->name_length = (uint32_t)n;
    if (n)
        memcpy(l->names + l->names_n, name, n);
    l->names_n += n;
    return 0;
}

void volume_extents_init(struct volume_extents *x)
{
    memset(x, 0, sizeof *x);
}

void volume_extents_free(struct volume_extents *x)
{
    free(x->v);
    volume_extents_init(x);
}

int volume_extents_add(struct volume_extents *x, uint64_t file_offset, uint64_t device_offset,
                       uint64_t length, bool written)
{
    struct volume_extent *last = x->n ? &x->v[x->n - 1] : NULL;
    if (last && last->written == written && last->file_offset + last->length == file_offset &&
        last->device_offset + last->length == device_offset) {
        last->length += length;
        return 0;
    }
    void *block = x->v;
    int rc = grow(&block, &x->cap, x->n, 1, sizeof *x->v);
    x->v = block;
    if (rc < 0)
        return rc;
    x->v[x->n++] = (struct volume_extent){file_offset, device_offset, length, written};
    return 0;
}

void volume_extras_init(struct volume_extras *x)
{
    *x = (struct volume_extras){0};
}

void volume_extras_free(struct volume_extras *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->v[i].data);
    free(x->v);
    volume_extras_init(x);
}

int volume_extras_add(struct volume_extras *x, const uint8_t entry[32], uint8_t *data,
                      uint64_t length)
{
    if (grow((void **)&x->v, &x->cap, x->n, 1, sizeof *x->v) < 0) {
        free(data);
        return -ENOMEM;
    }
    struct volume_extra *extra = &x->v[x->n++];
    memcpy(extra->entry, entry, sizeof extra->entry);
    extra->data = data;
    extra->length = length;
    return 0;
}
