// SPDX-License-Identifier: Apache-2.0
// What the process of a container needs whatever its volumes hide: its program, the tools, the
// libraries of simulated GPUs, and the sockets of this program.
#include "local/kubelet/pod_worker.h"

#include "base/mem.h"
#include "local/kubelet/kept.h"

#include <dirent.h>

#define STANDIN_SOCKET "standin.sock"

struct keeping {
    const struct kubelet_words *mounts;
    struct kubelet_words *ret;
};

// The text of a mount begins with its target.
static void keep_if_hidden(const struct keeping *k, const char *path)
{
    for (size_t i = 0; path && *path == '/' && i < k->mounts->len; i++) {
        const char *mount = k->mounts->items[i];
        GS_AUTO_FREE char *target = gs_strndup(mount, strcspn(mount, ":"));
        if (!kubelet_kept_is_hidden(path, target))
            continue;
        kubelet_words_add(k->ret, path);
        return;
    }
}

// One by one, because they are links that the volume may hide, too.
static void keep_tools(const struct keeping *k, const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            keep_if_hidden(k, path);
    }
    if (d)
        closedir(d);
}

static void keep_list(const struct keeping *k, const char *list)
{
    struct gs_slice rest = gs_slice_of(list);
    while (rest.data) {
        GS_AUTO_FREE char *item = gs_slice_dup(gs_slice_cut(&rest, ':'));
        keep_if_hidden(k, item);
    }
}

void kubelet_container_keep(const struct kubelet_container *c, const char *program,
                            const char *own_dir, const struct kubelet_words *mounts,
                            struct kubelet_words *ret)
{
    const struct kubelet *k = c->worker->k;
    const struct keeping keeping = {mounts, ret};
    GS_AUTO_FREE char *socket = gs_format("%s/" STANDIN_SOCKET, k->first->data_dir);
    // Words of --image are relative to it. A workingDir of the pod is that of the volume.
    const char *work_dir = gs_streq(c->cwd, k->work_dir) ? k->work_dir : NULL;
    const char *const paths[] = {k->self_exe, k->podnet, program, own_dir, work_dir, socket};

    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        keep_if_hidden(&keeping, paths[i]);
    keep_tools(&keeping, k->tools_dir);
    keep_list(&keeping, kubelet_env_get(&c->env, "GPUSCALE_NVML_LIBRARY"));
    keep_list(&keeping, kubelet_env_get(&c->env, "LD_LIBRARY_PATH"));
}
