// SPDX-License-Identifier: Apache-2.0
// Finds the simulated GPUs of a running `gpuscale up` by its kubeconfig, for commands in a shell.
#include "nvmlsim/simulation/simulation.h"

#include "base/mem.h"
#include "kube/kubeconfig.h"

// NULL: the kubeconfig names no set, or its cluster does not run. The caller frees it.
static char *running_set(const char *path)
{
    struct kube_config c;
    struct nvmlsim *s = NULL;
    GS_AUTO_ERROR struct gs_error *err = kube_config_load(path, NULL, &c);
    if (err)
        return NULL;
    GS_AUTO_FREE char *set = GS_TAKE(c.simulated_gpus);
    kube_config_finish(&c);
    GS_AUTO_ERROR struct gs_error *gone = set ? nvmlsim_attach(set, &s) : NULL;
    nvmlsim_detach(s);
    return gone ? NULL : GS_TAKE(set);
}

static bool in_pod(void)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    return host && *host;
}

struct gs_error *simulation_join_cluster(bool (*has_driver)(void), char **ret_library)
{
    const char *kubeconfig = getenv("KUBECONFIG");
    bool named = kubeconfig && *kubeconfig;
    *ret_library = NULL;
    if (in_pod() || getenv(NVMLSIM_ENV))
        return NULL;
    GS_AUTO_FREE char *path = named ? NULL : kube_config_of_up();
    GS_AUTO_FREE char *set = named || path ? running_set(path) : NULL;
    if (!set || (!named && has_driver()))
        return NULL;
    setenv(NVMLSIM_ENV, set, 1);
    return simulation_find_library(ret_library);
}
