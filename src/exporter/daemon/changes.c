// SPDX-License-Identifier: Apache-2.0
#include "exporter/daemon/daemon_private.h"

static void look_at(const char *path, struct stat *ret)
{
    *ret = (struct stat){0};
    if (stat(path, ret) != 0)
        *ret = (struct stat){0};
}

void daemon_changes_add(struct daemon_changes *c, const char *path)
{
    if (!path || c->n == DAEMON_CHANGES_MAX)
        return;
    look_at(path, &c->seen[c->n]);
    c->paths[c->n++] = path;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

// A file that is gone, or empty as one that is being written, is no news: what was read of it goes
// on until there is another.
bool daemon_changes_check(struct daemon_changes *c)
{
    bool changed = false;
    for (size_t i = 0; i < c->n; i++) {
        struct stat now;
        look_at(c->paths[i], &now);
        if (!now.st_ino || !now.st_size || is_same(&now, &c->seen[i]))
            continue;
        c->seen[i] = now;
        changed = true;
    }
    return changed;
}
