// SPDX-License-Identifier: Apache-2.0
// Ports and paths of a pod at which an inference engine can serve its metrics.
#include "engine/inference_targets/inference_targets_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"

enum { MAX_PORTS = 6, MAX_PATH = 256 };

void inference_targets_addresses_finish(struct inference_targets_addresses *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->items[i]);
    a->n = 0;
}

static bool names_gpu(const json_t *resources)
{
    const char *name;
    json_t *amount;
    json_object_foreach ((json_t *)(uintptr_t)resources, name, amount)
        if (strstr(name, "/gpu") || strstr(name, "/mig-"))
            return true;
    return false;
}

bool inference_targets_has_gpu(const json_t *pod)
{
    size_t i;
    json_t *container;
    const json_t *spec = json_object_get(pod, "spec");
    json_array_foreach (json_object_get(spec, "containers"), i, container)
        if (names_gpu(codec_json_get(container, "resources", "limits", NULL)) ||
            names_gpu(codec_json_get(container, "resources", "requests", NULL)))
            return true;
    return json_array_size(json_object_get(spec, "resourceClaims")) > 0; // dynamic allocation
}

static void add_address(struct inference_targets_addresses *a, const json_t *pod, int64_t port,
                        const char *path)
{
    if (a->n < INFERENCE_TARGETS_MAX_ADDRESSES && port > 0 && port <= 65535)
        a->items[a->n++] = gs_format("%d%s", kube_port(pod, (int)port), path);
}

// 0: the pod has no port of this name.
static int64_t named_port(const json_t *pod, struct gs_slice name)
{
    size_t i, k;
    json_t *container, *port;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container)
        json_array_foreach (json_object_get(container, "ports"), k, port)
            if (gs_slice_eq_str(name, codec_json_str(port, "name", NULL)))
                return codec_json_int(port, 0, "containerPort", NULL);
    return 0;
}

static bool is_path(const char *path)
{
    size_t n = strlen(path);
    return n <= MAX_PATH && !gs_has_control(path) && !strpbrk(path, " \"<>#\\");
}

// "vllm:8000/metrics", "8000", "http/metrics". Without a path, those of the table are tried.
static const char *read_annotation(const json_t *pod, const char *text,
                                   const struct signals_table *table,
                                   struct inference_targets_addresses *ret)
{
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/'), *path;
    if (colon && (!slash || colon < slash))
        text = colon + 1;
    struct gs_slice port = gs_slice_make(text, slash ? (size_t)(slash - text) : strlen(text));
    int64_t number = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(port, 1, 65535, &number);
    if (err)
        number = named_port(pod, port);
    if (!number)
        return "its annotation " INFERENCE_TARGETS_ANNOTATION
               " has no port of the pod; write NAME:PORT/PATH, such as vllm:8000/metrics";
    if (slash && !is_path(slash))
        return "its annotation " INFERENCE_TARGETS_ANNOTATION " has no valid path";
    if (slash)
        add_address(ret, pod, number, slash);
    for (size_t i = 0; !slash && (path = signals_table_path(table, i)); i++)
        add_address(ret, pod, number, path);
    return NULL;
}

static bool is_tcp(const json_t *port)
{
    const char *protocol = codec_json_str(port, "protocol", NULL);
    return !protocol || gs_streq(protocol, "TCP");
}

// The ports that containers declare, otherwise the usual ones of engines.
static size_t ports_of(const json_t *pod, const struct signals_table *table, int64_t *ret)
{
    size_t n = 0, i, k;
    json_t *container, *port;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container)
        json_array_foreach (json_object_get(container, "ports"), k, port)
            if (n < MAX_PORTS && is_tcp(port))
                ret[n++] = codec_json_int(port, 0, "containerPort", NULL);
    for (i = 0; !n && i < MAX_PORTS && signals_table_port(table, i); i++)
        ret[i] = signals_table_port(table, i);
    return n ? n : i;
}

void inference_targets_addresses_of(const json_t *pod, const struct signals_table *table,
                                    struct inference_targets_addresses *ret, const char **ret_wrong)
{
    const char *text = kube_annotation(pod, INFERENCE_TARGETS_ANNOTATION), *path;
    int64_t ports[MAX_PORTS];
    *ret_wrong = NULL;
    if (text) {
        if (!gs_streq(text, "false"))
            *ret_wrong = read_annotation(pod, text, table, ret);
        return;
    }
    if (!inference_targets_has_gpu(pod))
        return;
    size_t n = ports_of(pod, table, ports);
    for (size_t i = 0; (path = signals_table_path(table, i)); i++)
        for (size_t k = 0; k < n; k++)
            add_address(ret, pod, ports[k], path);
}
