/* Which file system: by sight, by name, and the driver that goes with it. A new driver is one line
 * in the table. */
#include <stdio.h>
#include <string.h>

#include "volume/internal.h"

/* In the order of trying: the surest marks first. */
static const struct volume_row rows[] = {
    {"exfat", &exfat_driver, exfat_detect, exfat_format, exfat_has_backup},
    {"ntfs", NULL, volume_detect_ntfs, NULL, NULL},
    {"xfs", NULL, volume_detect_xfs, NULL, NULL},
    {"fat", &fat_driver, fat_detect, fat_format, fat_has_backup},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* 1: found, *row is its line. */
static int detect(struct device *d, struct volume_detected *out, const struct volume_row **row)
{
    for (size_t i = 0; i < ROWS; i++) {
        memset(out, 0, sizeof *out);
        int rc = rows[i].detect(d, out);
        if (rc != 0) {
            *row = &rows[i];
            return rc;
        }
    }
    return 0;
}

int volume_detect(struct device *d, struct volume_detected *out)
{
    const struct volume_row *row;
    return detect(d, out, &row);
}

/* "fat" stands for "fat12", "fat16" and "fat32" too. */
static const struct volume_row *row_by_name(const char *fs)
{
    for (size_t i = 0; i < ROWS; i++) {
        size_t n = strlen(rows[i].name);
        if (strncmp(fs, rows[i].name, n) == 0 && fs[n + strspn(fs + n, "0123456789")] == '\0')
            return &rows[i];
    }
    return NULL;
}

static const struct volume_row *row_with_backup(struct device *d)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].driver && rows[i].has_backup && rows[i].has_backup(d))
            return &rows[i];
    return NULL;
}

void volume_mention_backup(struct device *d, struct base_error *e)
{
    static const char *const structures[] = {"boot region", "main boot region", "boot sector"};
    if (!e || e->kind != BASE_ERROR_DAMAGE)
        return;
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
        if (strcmp(e->structure, structures[i]) == 0 && row_with_backup(d)) {
            size_t n = strlen(e->detail);
            snprintf(e->detail + n, sizeof e->detail - n, "; its backup is sound (use_backup)");
        }
}

static int unsupported(struct base_error *e, const char *fs, const char *detail)
{
    char feature[32];
    snprintf(feature, sizeof feature, "%s volume", fs);
    return base_unsupported(e, feature, detail);
}

static int unknown_name(struct base_error *e, const char *fs)
{
    char detail[96];
    snprintf(detail, sizeof detail, "no file system has the name '%.40s'", fs);
    return base_bad_argument(e, "fs", detail);
}

int volume_find_driver(struct device *d, const char *fs, bool use_backup,
                       const struct volume_driver **out, struct base_error *e)
{
    struct volume_detected found;
    const struct volume_row *row = NULL;
    if (fs) {
        row = row_by_name(fs);
        if (!row)
            return unknown_name(e, fs);
    } else {
        int rc = detect(d, &found, &row);
        if (rc < 0)
            return rc;
        if (rc == 0 && use_backup && !(row = row_with_backup(d)))
            row = &rows[0]; /* it says what is wrong */
        if (!row)
            return base_damage(e, "boot region", 0, "FileSystemName", 0, 0,
                               "no known file system was found");
    }
    *out = row->driver;
    return row->driver ? 0 : unsupported(e, fs ? fs : found.fs, "it can be recognised, not opened");
}

void volume_format_init(struct volume_format *f)
{
    memset(f, 0, sizeof *f);
    f->fs = "exfat";
}

int volume_format_device(struct device *d, const struct volume_format *f, struct base_error *e)
{
    struct volume_format with_env = *f;
    struct env env;
    base_error_clear(e);
    const struct volume_row *row = row_by_name(f->fs);
    if (!row)
        return unknown_name(e, f->fs);
    if (!row->format)
        return unsupported(e, f->fs, "it can be recognised, not made");
    if (d->flags & DEVICE_READONLY)
        return -EROFS;
    env_init_system(&env);
    if (!f->env)
        with_env.env = &env;
    int rc = device_claim(d);
    if (rc < 0)
        return rc;
    rc = row->format(d, &with_env, e);
    device_release(d);
    return rc;
}
