// SPDX-License-Identifier: Apache-2.0
// Names that the completion proposes, from the servers that know them.
#include "cmd/commands.h"
#include "kube/engine_url.h"
#include "kube/kubeconfig.h"
#include "kube/object.h"
#include "kube/session.h"
#include "nvmlsim/sim.h"
#include "query/query.h"

enum { TIMEOUT_MS = 1000 };

static void each_metric(const struct cmd_names_from *from, void (*fn)(void *arg, const char *name),
                        void *arg)
{
    GS_CLEANUP(kube_engine_url_finish) struct kube_engine_url server;
    kube_engine_url_find(from->url, from->kubeconfig, from->context, &server);
    const struct query_peer peer = {.url = server.url, .timeout_ms = TIMEOUT_MS};
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        query_fetch(&peer, "/api/v1/label/__name__/values", (struct gs_slice){"", 0}, &answer);
    size_t i;
    json_t *name;
    if (err)
        return;
    json_array_foreach (json_object_get(answer, "data"), i, name) {
        if (json_is_string(name))
            fn(arg, json_string_value(name));
    }
}

static void each_object(struct kube_gvr r, bool in_namespace, const struct cmd_names_from *from,
                        void (*fn)(void *arg, const char *name), void *arg)
{
    struct kube_session s;
    CODEC_AUTO_JSON json_t *list = NULL;
    struct gs_error *err = kube_session_open(&s, from->kubeconfig, from->context, "completion");
    const char *ns = !in_namespace ? NULL : from->ns ? from->ns : s.ns;
    if (!err)
        err = kube_session_list(&s, r, ns, "limit=500", TIMEOUT_MS, &list);
    gs_error_free(err); // without the cluster there are no names
    size_t i;
    json_t *object;
    json_array_foreach (json_object_get(list, "items"), i, object) {
        if (kube_name(object))
            fn(arg, kube_name(object));
    }
    kube_session_close(&s);
}

void cmd_each_name(enum cmd_names kind, const struct cmd_names_from *from,
                   void (*fn)(void *arg, const char *name), void *arg)
{
    switch (kind) {
    case CMD_NAMES_METRICS:
        each_metric(from, fn, arg);
        return;
    case CMD_NAMES_HPAS:
        each_object(KUBE_HPAS, true, from, fn, arg);
        return;
    case CMD_NAMES_PODS:
        each_object(KUBE_PODS, true, from, fn, arg);
        return;
    case CMD_NAMES_NAMESPACES:
        each_object(KUBE_NAMESPACES, false, from, fn, arg);
        return;
    case CMD_NAMES_CONTEXTS:
        kube_config_each_context(from->kubeconfig, fn, arg);
        return;
    case CMD_NAMES_MODELS:
        for (const char *const *name = CMD_LOCAL ? nvmlsim_model_names() : NULL; name && *name;
             name++)
            fn(arg, *name);
        return;
    }
}
