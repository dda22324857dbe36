/* Growing rows: directory entries with their names, and extents. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "volume/volume.h"

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
    struct volume_dirent *v = base_grow(l->v, l->n, 1, &l->cap, 16, sizeof *v);
    if (!v)
        return -ENOMEM;
    l->v = v;
    /* One more than the name, so that an empty one asks for something, too. */
    char *names = base_grow(l->names, l->names_n, n + 1, &l->names_cap, 16, 1);
    if (!names)
        return -ENOMEM;
    l->names = names;
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
    struct volume_extent *v = base_grow(x->v, x->n, 1, &x->cap, 16, sizeof *v);
    if (!v)
        return -ENOMEM;
    x->v = v;
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
    struct volume_extra *v = base_grow(x->v, x->n, 1, &x->cap, 16, sizeof *v);
    if (!v) {
        free(data);
        return -ENOMEM;
    }
    x->v = v;
    struct volume_extra *extra = &x->v[x->n++];
    memcpy(extra->entry, entry, sizeof extra->entry);
    extra->data = data;
    extra->length = length;
    return 0;
}
