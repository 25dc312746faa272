// SPDX-License-Identifier: Apache-2.0
// The order in which commands look for the engine of their cluster.
#include "kube/engine_url.h"

#include "base/mem.h"
#include "base/slice.h"
#include "kube/kubeconfig.h"

#include <stdlib.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// The caller frees it. NULL: the cluster has none.
static char *url_of_kubeconfig(const char *path, const char *context)
{
    struct kube_config c;
    GS_AUTO_ERROR struct gs_error *err = kube_config_load(path, context, &c);
    if (err)
        return NULL;
    char *url = GS_TAKE(c.engine_url);
    kube_config_finish(&c);
    return url;
}

void kube_engine_url_find(const char *flag, const char *kubeconfig, const char *context,
                          struct kube_engine_url *ret)
{
    const char *ours = variable("GPUSCALE_URL"), *theirs = variable("PROMETHEUS_URL");
    if (flag && *flag && !gs_streq(flag, ours)) {
        *ret = (struct kube_engine_url){gs_strdup(flag), KUBE_ENGINE_OF_FLAG};
    } else if (ours) {
        *ret = (struct kube_engine_url){gs_strdup(ours), KUBE_ENGINE_OF_GPUSCALE_URL};
    } else if (theirs) {
        *ret = (struct kube_engine_url){gs_strdup(theirs), KUBE_ENGINE_OF_PROMETHEUS_URL};
    } else {
        *ret = (struct kube_engine_url){url_of_kubeconfig(kubeconfig, context),
                                        KUBE_ENGINE_OF_KUBECONFIG};
        if (!ret->url)
            *ret = (struct kube_engine_url){gs_strdup(KUBE_ENGINE_DEFAULT_URL),
                                            KUBE_ENGINE_OF_DEFAULT};
    }
}

void kube_engine_url_finish(struct kube_engine_url *u)
{
    free(u->url);
    *u = (struct kube_engine_url){0};
}

const char *kube_engine_url_reason(const struct kube_engine_url *u)
{
    static const char *const reasons[] = {
        [KUBE_ENGINE_OF_GPUSCALE_URL] = "of $GPUSCALE_URL",
        [KUBE_ENGINE_OF_PROMETHEUS_URL] = "of $PROMETHEUS_URL",
        [KUBE_ENGINE_OF_KUBECONFIG] = "of the kubeconfig",
        [KUBE_ENGINE_OF_DEFAULT] =
            "the default; set --url, or KUBECONFIG or GPUSCALE_URL to what gpuscale up prints",
        [KUBE_ENGINE_OF_FLAG] = NULL,
    };
    return reasons[u->origin];
}
