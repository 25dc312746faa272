// SPDX-License-Identifier: Apache-2.0
#include "hpa/memory.h"

#include "base/mem.h"
#include "base/slice.h"
#include "kube/status.h"

#include <string.h>

#define VERSION HPA_MEMORY_GROUP "/v1"
#define ROOT    "/apis/" VERSION

char *hpa_memory_path(const char *ns, const char *name)
{
    return gs_format(ROOT "/namespaces/%s/memories/%s", ns, name);
}

json_t *hpa_memory_group(void)
{
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}], s:{s:s, s:s}}", "kind", "APIGroup",
                     "apiVersion", "v1", "name", HPA_MEMORY_GROUP, "versions", "groupVersion",
                     VERSION, "version", "v1", "preferredVersion", "groupVersion", VERSION,
                     "version", "v1");
}

static void reply(struct http_exchange *x, json_t *body)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(body, &out);
    json_decref(body);
    http_reply(x, 200, "application/json", gs_buf_slice(&out));
}

static void reply_resources(struct http_exchange *x)
{
    reply(x,
          json_pack("{s:s, s:s, s:s, s:[{s:s, s:s, s:b, s:s, s:[s]}]}", "kind", "APIResourceList",
                    "apiVersion", "v1", "groupVersion", VERSION, "resources", "name", "memories",
                    "singularName", "memory", "namespaced", 1, "kind", "Memory", "verbs", "get"));
}

// The names are those of objects: nothing in them is encoded.
static bool split(const char *path, char **ret_ns, char **ret_name)
{
    const char *ns = path + strlen(ROOT "/namespaces/");
    const char *slash = strchr(ns, '/');
    if (!slash || !gs_starts(slash, "/memories/"))
        return false;
    *ret_ns = gs_strndup(ns, (size_t)(slash - ns));
    *ret_name = gs_strdup(slash + strlen("/memories/"));
    return true;
}

void hpa_memory_handle(void *controller, struct http_exchange *x)
{
    const char *path = http_path(x);
    GS_AUTO_FREE char *ns = NULL;
    GS_AUTO_FREE char *name = NULL;
    if (gs_streq(path, ROOT) || gs_streq(path, ROOT "/")) {
        reply_resources(x);
        return;
    }
    bool known = gs_streq(http_method(x), "GET") && gs_starts(path, ROOT "/namespaces/") &&
                 split(path, &ns, &name);
    json_t *memory = known ? hpa_controller_memory(controller, ns, name) : NULL;
    if (!memory) {
        kube_reply_failure(x, 404, "NotFound",
                           "this controller looks at no such HorizontalPodAutoscaler");
        return;
    }
    codec_json_set_str(memory, "apiVersion", VERSION);
    codec_json_set_str(memory, "kind", "Memory");
    reply(x, memory);
}
