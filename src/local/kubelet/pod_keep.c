// SPDX-License-Identifier: Apache-2.0
// What the process of a container needs whatever its volumes hide: its program, the tools, the
// libraries of simulated GPUs, and the sockets of this program.
#include "local/kubelet/pod_worker.h"

#include "base/mem.h"
#include "local/kubelet/mounts.h"

#include <dirent.h>
#include <unistd.h>

// What no mount hides is left out by the supervisor.
static void add_path(struct kubelet_words *ret, const char *path)
{
    if (path && *path == '/')
        kubelet_words_add(ret, path);
}

// One by one, because they are links that the volume may hide, too.
static void add_tools(struct kubelet_words *ret, const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            add_path(ret, path);
    }
    if (d)
        closedir(d);
}

static void add_list(struct kubelet_words *ret, const char *list)
{
    struct gs_slice rest = gs_slice_of(list);
    while (rest.data) {
        GS_AUTO_FREE char *item = gs_slice_dup(gs_slice_cut(&rest, ':'));
        add_path(ret, item);
    }
}

void kubelet_container_keep(const struct kubelet_container *c, const char *program,
                            const char *own_dir, struct kubelet_words *ret)
{
    const struct kubelet *k = c->worker->k;
    GS_AUTO_FREE char *socket = gs_format("%s/" LOCAL_STANDIN_SOCKET, k->first->data_dir);
    // Words of --image are relative to it. A workingDir of the pod is that of the volume.
    const char *work_dir = gs_streq(c->cwd, k->work_dir) ? k->work_dir : NULL;
    const char *const paths[] = {k->self_exe, k->podnet, program, own_dir, work_dir, socket};

    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        add_path(ret, paths[i]);
    add_tools(ret, k->tools_dir);
    add_list(ret, kubelet_env_get(&c->env, "GPUSCALE_NVML_LIBRARY"));
    add_list(ret, kubelet_env_get(&c->env, "LD_LIBRARY_PATH"));
}

// The shared memory of simulated GPUs is a file there. Workloads that use several GPUs mount a
// volume of their own.
void kubelet_container_keep_gpus(const struct kubelet_container *c, struct kubelet_words *mounts)
{
    const char *name = kubelet_env_get(&c->env, "GPUSCALE_SIM");
    if (!name || *name != '/')
        return;
    GS_AUTO_FREE char *path = gs_format(KUBELET_SHARED_MEMORY "%s", name);
    GS_AUTO_FREE char *text = kubelet_mount_text(path, false, path);
    if (access(path, F_OK) == 0)
        kubelet_words_add(mounts, text);
}
