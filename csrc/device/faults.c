/* The fault injector. Every rule counts the operations that fit it, whether or not an earlier rule
 * decides them, so that "the third write of the FAT" means the same whatever other rules there are.
 */
#include "base/bytes.h"
#include "base/grow.h"
#include "base/os.h"
#include "device/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KINDS 4 /* bits of enum device_fault_op */

struct rule {
    struct device_fault fault;
    uint64_t seen;
};

struct faults {
    struct device d;
    struct os_mutex *lock; /* the innermost one: guards the rules; reads come without d.lock */
    struct rule *rules;
    size_t n, cap;
    uint64_t counts[KINDS];
    int dead; /* positive errno once a rule said DIE */
};

/* What is to become of an operation. */
struct verdict {
    enum device_fault_action action; /* 0: go on */
    int error;                       /* negative errno or 0 */
    uint64_t keep;
};

static struct faults *faults_of(struct device *d)
{
    return (struct faults *)d;
}

static bool fits(const struct device_fault *f, uint32_t op, uint64_t offset, uint64_t n,
                 const struct device_tag *tag)
{
    if (!(f->ops & op)) {
        return false;
    }
    if (f->n != 0 && (offset >= f->n && offset - f->n >= f->offset)) {
        return false; /* behind the range */
    }
    if (f->n != 0 && (n == 0 || (offset < f->offset && f->offset - offset >= n))) {
        return false; /* before it, or nowhere (a flush) */
    }
    return f->structure < 0 || (uint32_t)f->structure == (tag ? tag->structure : DEVICE_OTHER);
}

/* Is the number of this operation, counted by the rule, one that it is for? */
static bool is_due(const struct rule *r)
{
    uint64_t times = r->fault.times;

    if (r->fault.nth == 0) {
        return times == 0 || r->seen <= times;
    }
    return r->seen >= r->fault.nth && r->seen - r->fault.nth < (times ? times : 1);
}

static struct verdict judge(struct device *d, uint32_t op, uint64_t offset, uint64_t n,
                            const struct device_tag *tag)
{
    struct faults *f = faults_of(d);
    struct verdict v = {0, 0, 0};
    const struct device_fault *decides = NULL;

    os_mutex_lock(f->lock);
    f->counts[base_log2(op)]++;
    for (size_t i = 0; i < f->n; i++) {
        struct rule *r = &f->rules[i];

        if (fits(&r->fault, op, offset, n, tag)) {
            r->seen++;
            if (!decides && is_due(r)) {
                decides = &r->fault;
            }
        }
    }
    if (f->dead) {
        v.action = DEVICE_FAULT_FAIL;
        v.error = -f->dead;
    } else if (decides) {
        v.action = decides->action;
        v.error = -decides->error;
        v.keep = base_min(decides->keep - decides->keep % d->sector_size, n);
        if (v.action == DEVICE_FAULT_DIE) {
            f->dead = decides->error;
            v.action = DEVICE_FAULT_FAIL;
        }
    }
    os_mutex_unlock(f->lock);
    return v;
}

static int faults_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    struct verdict v = judge(d, DEVICE_FAULT_READ, offset, n, NULL);
    uint64_t keep = v.action == 0 ? n : v.action == DEVICE_FAULT_TEAR ? v.keep : 0;
    int rc = 0;

    if (v.action == DEVICE_FAULT_FAIL) {
        return v.error;
    }
    /* Bytes that a torn or dropped read does not bring are zeros, never what was in memory. */
    memset((uint8_t *)buffer + keep, 0, n - (size_t)keep);
    if (keep) {
        rc = device_read(d->below, offset, buffer, (size_t)keep);
    }
    return rc ? rc : v.action == DEVICE_FAULT_TEAR ? v.error : 0;
}

static int faults_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                        const struct device_tag *tag)
{
    struct verdict v = judge(d, DEVICE_FAULT_WRITE, offset, n, tag);
    int rc;

    switch (v.action) {
    case DEVICE_FAULT_FAIL:
        return v.error;
    case DEVICE_FAULT_DROP:
        return 0;
    case DEVICE_FAULT_TEAR:
        rc = device_write(d->below, offset, buffer, (size_t)v.keep, tag);
        return rc ? rc : v.error;
    default:
        return device_write(d->below, offset, buffer, n, tag);
    }
}

/* Zeroing and discarding differ in what they call below. */
static int change(struct device *d, uint32_t op, uint64_t offset, uint64_t n,
                  const struct device_tag *tag,
                  int (*below)(struct device *, uint64_t, uint64_t, const struct device_tag *))
{
    struct verdict v = judge(d, op, offset, n, tag);
    int rc;

    switch (v.action) {
    case DEVICE_FAULT_FAIL:
        return v.error;
    case DEVICE_FAULT_DROP:
        return 0;
    case DEVICE_FAULT_TEAR:
        rc = below(d->below, offset, v.keep, tag);
        return rc ? rc : v.error;
    default:
        return below(d->below, offset, n, tag);
    }
}

static int faults_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    int rc = change(d, DEVICE_FAULT_WRITE, offset, n, tag, device_zero);

    /* Said by a rule, it must not make the front write the zeros instead. */
    return rc == -EOPNOTSUPP ? -EIO : rc;
}

static int faults_discard(struct device *d, uint64_t offset, uint64_t n,
                          const struct device_tag *tag)
{
    return change(d, DEVICE_FAULT_DISCARD, offset, n, tag, device_discard);
}

static int faults_flush(struct device *d)
{
    struct verdict v = judge(d, DEVICE_FAULT_FLUSH, 0, 0, NULL);

    if (v.action == 0) {
        return device_flush(d->below);
    }
    return v.action == DEVICE_FAULT_DROP ? 0 : v.error;
}

static uint64_t faults_begin(struct device *d, const char *call, const char *path)
{
    return device_begin(d->below, call, path);
}

static uint64_t faults_object(struct device *d, const char *path)
{
    return device_object(d->below, path);
}

static void faults_destroy(struct device *d)
{
    struct faults *f = faults_of(d);

    os_mutex_delete(f->lock);
    free(f->rules);
    free(f);
}

static const struct device_ops faults_ops = {
    .read = faults_read,
    .write = faults_write,
    .zero = faults_zero,
    .flush = faults_flush,
    .discard = faults_discard,
    .begin = faults_begin,
    .object = faults_object,
    .destroy = faults_destroy,
};

int device_faults_new(struct device *below, struct device **out)
{
    struct os_mutex *lock = os_mutex_new();
    struct faults *f = calloc(1, sizeof *f);
    int rc = lock && f ? 0 : -ENOMEM;

    if (rc == 0) {
        rc = device_setup(&f->d, &faults_ops, below, below->size, below->sector_size,
                          device_shim_flags(below) | DEVICE_TRACED, "faults");
    }
    if (rc) {
        os_mutex_delete(lock);
        free(f);
        return rc;
    }
    f->lock = lock;
    *out = &f->d;
    return 0;
}

static bool is_sound(const struct device_fault *rule)
{
    bool needs_error = rule->action == DEVICE_FAULT_FAIL || rule->action == DEVICE_FAULT_DIE;

    return rule->ops != 0 && rule->ops < 1u << KINDS && rule->action >= DEVICE_FAULT_FAIL &&
           rule->action <= DEVICE_FAULT_DIE && rule->error >= 0 && rule->error < 4096 &&
           (rule->error > 0 || !needs_error) && rule->structure < DEVICE_STRUCTURES;
}

int device_faults_add(struct device *d, const struct device_fault *rule)
{
    struct faults *f = faults_of(d);
    int rc = 0;

    if (d->ops != &faults_ops || !is_sound(rule)) {
        return -EINVAL;
    }
    os_mutex_lock(f->lock);
    struct rule *rules = base_grow(f->rules, f->n, 1, &f->cap, 8, sizeof *rules);
    if (rules) {
        f->rules = rules;
        f->rules[f->n++] = (struct rule){*rule, 0};
    } else {
        rc = -ENOMEM;
    }
    os_mutex_unlock(f->lock);
    return rc;
}

/* A device that died is alive again; the counts of operations go on. */
void device_faults_clear(struct device *d)
{
    struct faults *f = faults_of(d);

    if (d->ops == &faults_ops) {
        os_mutex_lock(f->lock);
        f->n = 0;
        f->dead = 0;
        os_mutex_unlock(f->lock);
    }
}

uint64_t device_faults_count(struct device *d, uint32_t op)
{
    struct faults *f = faults_of(d);
    uint64_t count = 0;

    if (d->ops != &faults_ops) {
        return 0;
    }
    os_mutex_lock(f->lock);
    for (unsigned i = 0; i < KINDS; i++) {
        count += op >> i & 1 ? f->counts[i] : 0;
    }
    os_mutex_unlock(f->lock);
    return count;
}
