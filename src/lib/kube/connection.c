// SPDX-License-Identifier: Apache-2.0
// Opens and closes the connection of a program to its cluster.
#include "kube/connection.h"

#include "base/mem.h"
#include "kube/kubeconfig.h"

struct gs_error *kube_connection_open(uv_loop_t *loop, const char *kubeconfig, const char *context,
                                      const char *program, struct kube_connection *ret)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    GS_AUTO_FREE char *agent = gs_format("gpuscale-%s/%s", program, GPUSCALE_VERSION);
    struct http_client *http = NULL;
    struct gs_error *err = kube_config_load(kubeconfig, context, &k);
    if (!err)
        err = kube_config_connect(&k, loop, agent, &http);
    if (err)
        return err;
    *ret = (struct kube_connection){.http = http,
                                    .client = kube_client_new(http),
                                    .server = gs_strdup(k.server),
                                    .ns = gs_strdup(k.ns ? k.ns : "default")};
    return NULL;
}

void kube_connection_close(struct kube_connection *c)
{
    kube_client_free(c->client);
    http_client_free(c->http);
    free(c->server);
    free(c->ns);
    *c = (struct kube_connection){0};
}

bool kube_connection_wanted(const char *kubeconfig)
{
    return kubeconfig || getenv("KUBERNETES_SERVICE_HOST");
}
