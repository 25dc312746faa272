// SPDX-License-Identifier: Apache-2.0
// The history of a controller's autoscalers over HTTP.
#include "hpa_controller/controller.h"

#include "base/mem.h"
#include "base/slice.h"
#include "kube/status.h"

#include <string.h>

#define API_VERSION HPA_HISTORY_GROUP "/v1"
#define API_PATH    "/apis/" API_VERSION
#define RESOURCE    "histories"
#define KIND        "History"

char *hpa_history_path(const char *ns, const char *name)
{
    return gs_format(API_PATH "/namespaces/%s/" RESOURCE "/%s", ns, name);
}

json_t *hpa_history_group(const void *controller, const char *group)
{
    (void)controller;
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}], s:{s:s, s:s}}", "kind", "APIGroup",
                     "apiVersion", "v1", "name", group, "versions", "groupVersion", API_VERSION,
                     "version", "v1", "preferredVersion", "groupVersion", API_VERSION, "version",
                     "v1");
}

static void reply_json(struct http_exchange *x, json_t *body)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(body, &out);
    json_decref(body);
    http_reply(x, 200, "application/json", gs_buf_slice(&out));
}

static void reply_resources(struct http_exchange *x)
{
    reply_json(x, json_pack("{s:s, s:s, s:s, s:[{s:s, s:s, s:b, s:s, s:[s]}]}", "kind",
                            "APIResourceList", "apiVersion", "v1", "groupVersion", API_VERSION,
                            "resources", "name", RESOURCE, "singularName", "history", "namespaced",
                            1, "kind", KIND, "verbs", "get"));
}

// "NS/histories/NAME". Names of objects are not URL-encoded.
static bool split_object_path(const char *path, char **ret_ns, char **ret_name)
{
    static const char resource[] = "/" RESOURCE "/";
    const char *slash = strchr(path, '/');
    if (!slash || !gs_starts(slash, resource))
        return false;
    *ret_ns = gs_strndup(path, (size_t)(slash - path));
    *ret_name = gs_strdup(slash + strlen(resource));
    return true;
}

static void handle_version(struct hpa_controller *controller, struct http_exchange *x,
                           const char *rest)
{
    GS_AUTO_FREE char *ns = NULL;
    GS_AUTO_FREE char *name = NULL;
    const char namespaces[] = "/namespaces/";
    if (gs_streq(rest, "") || gs_streq(rest, "/")) {
        reply_resources(x);
        return;
    }
    bool is_object = gs_streq(http_method(x), "GET") && gs_starts(rest, namespaces) &&
                     split_object_path(rest + strlen(namespaces), &ns, &name);
    json_t *history = is_object ? hpa_controller_history(controller, ns, name) : NULL;
    if (!history) {
        kube_reply_failure(x, 404, "NotFound",
                           "this controller does not evaluate such a HorizontalPodAutoscaler");
        return;
    }
    codec_json_set_str(history, "apiVersion", API_VERSION);
    codec_json_set_str(history, "kind", KIND);
    reply_json(x, history);
}

void hpa_history_handle(void *controller, struct http_exchange *x)
{
    const char *path = http_path(x);
    if (gs_starts(path, API_PATH))
        handle_version(controller, x, path + strlen(API_PATH));
    else
        kube_reply_failure(x, 404, "NotFound", "the path is not one of " API_VERSION);
}
