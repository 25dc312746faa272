// SPDX-License-Identifier: Apache-2.0
// The history of a controller's autoscalers over HTTP, in the current API group and in the
// deprecated one.
#include "hpa_controller/controller.h"

#include "base/mem.h"
#include "base/slice.h"
#include "kube/status.h"

#include <string.h>

struct history_api {
    const char *group, *version, *resource, *singular, *kind;
};

static const struct history_api current_api = {HPA_HISTORY_GROUP, HPA_HISTORY_GROUP "/v1",
                                               "histories", "history", "History"};
static const struct history_api deprecated_api = {HPA_DEPRECATED_HISTORY_GROUP,
                                                  HPA_DEPRECATED_HISTORY_GROUP "/v1", "memories",
                                                  "memory", "Memory"};

char *hpa_history_path(const char *ns, const char *name)
{
    return gs_format("/apis/%s/namespaces/%s/%s/%s", current_api.version, ns, current_api.resource,
                     name);
}

static json_t *group_json(const struct history_api *api)
{
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}], s:{s:s, s:s}}", "kind", "APIGroup",
                     "apiVersion", "v1", "name", api->group, "versions", "groupVersion",
                     api->version, "version", "v1", "preferredVersion", "groupVersion",
                     api->version, "version", "v1");
}

json_t *hpa_history_group(const void *controller, const char *group)
{
    (void)controller;
    return group_json(gs_streq(group, deprecated_api.group) ? &deprecated_api : &current_api);
}

static void reply_json(struct http_exchange *x, json_t *body)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(body, &out);
    json_decref(body);
    http_reply(x, 200, "application/json", gs_buf_slice(&out));
}

static void reply_resources(struct http_exchange *x, const struct history_api *api)
{
    reply_json(x, json_pack("{s:s, s:s, s:s, s:[{s:s, s:s, s:b, s:s, s:[s]}]}", "kind",
                            "APIResourceList", "apiVersion", "v1", "groupVersion", api->version,
                            "resources", "name", api->resource, "singularName", api->singular,
                            "namespaced", 1, "kind", api->kind, "verbs", "get"));
}

// "NS/RESOURCE/NAME". Names of objects are not URL-encoded.
static bool split_object_path(const char *path, const char *resource, char **ret_ns,
                              char **ret_name)
{
    const char *slash = strchr(path, '/');
    size_t n = strlen(resource);
    if (!slash || strncmp(slash + 1, resource, n) != 0 || slash[1 + n] != '/')
        return false;
    *ret_ns = gs_strndup(path, (size_t)(slash - path));
    *ret_name = gs_strdup(slash + 1 + n + 1);
    return true;
}

static void handle_version(const struct history_api *api, struct hpa_controller *controller,
                           struct http_exchange *x, const char *rest)
{
    GS_AUTO_FREE char *ns = NULL;
    GS_AUTO_FREE char *name = NULL;
    const char namespaces[] = "/namespaces/";
    if (gs_streq(rest, "") || gs_streq(rest, "/")) {
        reply_resources(x, api);
        return;
    }
    bool is_object = gs_streq(http_method(x), "GET") && gs_starts(rest, namespaces) &&
                     split_object_path(rest + strlen(namespaces), api->resource, &ns, &name);
    json_t *history = is_object ? hpa_controller_history(controller, ns, name) : NULL;
    if (!history) {
        kube_reply_failure(x, 404, "NotFound",
                           "this controller does not evaluate such a HorizontalPodAutoscaler");
        return;
    }
    codec_json_set_str(history, "apiVersion", api->version);
    codec_json_set_str(history, "kind", api->kind);
    reply_json(x, history);
}

void hpa_history_handle(void *controller, struct http_exchange *x)
{
    const char *path = http_path(x);
    bool deprecated = gs_starts(path, "/apis/" HPA_DEPRECATED_HISTORY_GROUP "/");
    const struct history_api *api = deprecated ? &deprecated_api : &current_api;
    const char *after_root = path + strlen("/apis/");
    // Not for discovery: kubectl reads all groups for other reasons, too.
    if (deprecated && strlen(after_root) > strlen(api->version) + 1)
        http_add_header(x, "Warning",
                        "299 - \"" HPA_DEPRECATED_HISTORY_GROUP
                        "/v1 is deprecated; use " HPA_HISTORY_GROUP "/v1\"");
    if (gs_starts(path, "/apis/") && gs_starts(after_root, api->version))
        handle_version(api, controller, x, after_root + strlen(api->version));
    else
        kube_reply_failure(x, 404, "NotFound", "the path is not one of " HPA_HISTORY_GROUP "/v1");
}
