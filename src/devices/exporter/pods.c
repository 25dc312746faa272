// SPDX-License-Identifier: Apache-2.0
// The pods of the node from the API server, reduced to the members that are used: labels for
// lines, and names by UID when the kubelet's log directories are not mounted.
#include "exporter/attribution.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regex.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "metrics/write.h"

enum { MAX_REGEX = 64, MAX_LABELS = 64, MAX_REGEX_STEPS = 100000 };

struct exporter_pods {
    struct exporter_pods_config cfg;
    struct kube_cache *cache;
    struct gs_hmap *by_uid; // UID, or manifest hash of a static pod -> "namespace/name"
    struct gs_regex *allow[MAX_REGEX];
    size_t n_allow;
    bool restricted;    // an allow list is configured
    struct gs_buf text; // of the last result
    uint64_t version;
};

static void add_regex(struct exporter_pods *p, const char *text)
{
    static const struct gs_regex_options options = {.any_bytes = true,
                                                    .match_limit = MAX_REGEX_STEPS};
    if (p->n_allow == MAX_REGEX)
        return;
    GS_AUTO_ERROR struct gs_error *err =
        gs_regex_new(gs_slice_of(text), &options, &p->allow[p->n_allow]);
    if (err)
        gs_warn("exporter", "pod label allow list: \"%s\": %s", text, gs_error_message(err));
    else
        p->n_allow++;
}

static void read_allowlist(struct exporter_pods *p, const char *list)
{
    if (!list || !*list)
        return;
    p->restricted = true;
    GS_AUTO_FREE char *copy = gs_strdup(list);
    char *rest = copy;
    for (char *one = strsep(&rest, ","); one; one = strsep(&rest, ","))
        if (*one)
            add_regex(p, one);
}

// --- the pods ---

// Pods are large: remove the members that are not used here.
static void keep_members(json_t *obj, const char *const *names, size_t n)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe (obj, next, key, value) {
        bool wanted = false;
        for (size_t i = 0; i < n; i++)
            wanted |= gs_streq(key, names[i]);
        if (!wanted)
            json_object_del(obj, key);
    }
}

static void keep_each(json_t *items, const char *const *names, size_t n)
{
    for (size_t i = 0; i < json_array_size(items); i++)
        keep_members(json_array_get(items, i), names, n);
}

static void drop_unused_members(json_t *pod)
{
    static const char *const top[] = {"metadata", "spec", "status"};
    static const char *const meta[] = {"name",   "namespace",  "uid", "resourceVersion",
                                       "labels", "annotations"};
    static const char *const spec[] = {"containers", "initContainers"};
    static const char *const status[] = {"phase", "containerStatuses"};
    static const char *const container[] = {"name", "containerID"};
    keep_members(pod, top, GS_ARRAY_LEN(top));
    keep_members(codec_json_get(pod, "metadata", NULL), meta, GS_ARRAY_LEN(meta));
    keep_members(codec_json_get(pod, "spec", NULL), spec, GS_ARRAY_LEN(spec));
    keep_members(codec_json_get(pod, "status", NULL), status, GS_ARRAY_LEN(status));
    keep_each(codec_json_get(pod, "spec", "containers", NULL), container, 2);
    keep_each(codec_json_get(pod, "spec", "initContainers", NULL), container, 2);
    keep_each(codec_json_get(pod, "status", "containerStatuses", NULL), container, 2);
}

static const char *config_hash(const json_t *pod)
{
    return codec_json_str(pod, "metadata", "annotations", "kubernetes.io/config.hash", NULL);
}

static void remember(struct exporter_pods *p, const char *uid, const json_t *pod)
{
    if (uid && *uid && kube_namespace(pod))
        gs_hmap_put_str(p->by_uid, uid, kube_key(pod));
}

static void remove_uid(struct exporter_pods *p, const char *uid)
{
    if (uid)
        free(gs_hmap_remove_str(p->by_uid, uid));
}

// Members that the device map may depend on. The remaining status changes often.
static bool matters(const json_t *a, const json_t *b)
{
    return !a || !b || !gs_streq(kube_phase(a), kube_phase(b)) ||
           !json_equal(codec_json_get(a, "metadata", "annotations", NULL),
                       codec_json_get(b, "metadata", "annotations", NULL));
}

// Members that the pages contain.
static bool shows(const json_t *a, const json_t *b)
{
    return !a || !b || !gs_streq(kube_uid(a), kube_uid(b)) ||
           !json_equal(codec_json_get(a, "metadata", "labels", NULL),
                       codec_json_get(b, "metadata", "labels", NULL));
}

static void on_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct exporter_pods *p = arg;
    p->version += shows(old_obj, new_obj);
    if (old_obj && !new_obj) {
        remove_uid(p, kube_uid(old_obj));
        remove_uid(p, config_hash(old_obj));
    }
    if (new_obj) {
        remember(p, kube_uid(new_obj), new_obj);
        remember(p, config_hash(new_obj), new_obj);
    }
    if (p->cfg.on_change && matters(old_obj, new_obj))
        p->cfg.on_change(p->cfg.arg);
}

uint64_t exporter_pods_version(void *arg)
{
    return ((const struct exporter_pods *)arg)->version;
}

struct exporter_pods *exporter_pods_new(uv_loop_t *loop, struct kube_client *kube,
                                        const struct exporter_pods_config *cfg)
{
    struct exporter_pods *p = gs_alloc(sizeof(*p));
    p->cfg = *cfg;
    read_allowlist(p, cfg->allowlist);
    GS_AUTO_FREE char *query = cfg->node_name && *cfg->node_name
                                   ? gs_format("fieldSelector=spec.nodeName%%3D%s", cfg->node_name)
                                   : NULL;
    struct kube_cache_handlers handlers = {.on_change = on_change, .arg = p};
    p->by_uid = gs_hmap_new(free);
    p->cache = kube_cache_new(loop, kube, KUBE_PODS, NULL, query);
    kube_cache_set_trim(p->cache, drop_unused_members);
    kube_cache_add_handlers(p->cache, &handlers);
    kube_cache_start(p->cache);
    return p;
}

void exporter_pods_free(struct exporter_pods *p)
{
    if (!p)
        return;
    kube_cache_free(p->cache);
    gs_hmap_free(p->by_uid);
    for (size_t i = 0; i < p->n_allow; i++)
        gs_regex_free(p->allow[i]);
    gs_buf_finish(&p->text);
    free(p);
}

static bool allowed(struct exporter_pods *p, const char *name)
{
    for (size_t i = 0; i < p->n_allow; i++)
        if (gs_regex_matches(p->allow[i], gs_slice_of(name)))
            return true;
    return !p->restricted;
}

// Label names that have a meaning here must not occur twice.
static bool reserved(const char *name)
{
    static const char *const names[] = {
        "gpu",           "UUID",     "uuid",        "pci_bus_id",     "device",
        "modelName",     "hostname", "Hostname",    "container",      "namespace",
        "pod",           "pod_uid",  "vgpu",        "GPU_I_PROFILE",  "GPU_I_ID",
        "GPU_CI_ID",     "err_code", "err_msg",     "hpc_job",        "pod_name",
        "pod_namespace", "xid",      "clock_event", "container_name", "window_size_in_ms",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(name, names[i]))
            return true;
    return gs_starts(name, "DCGM_") || gs_starts(name, "dra_");
}

struct label {
    char *name;
    const char *value;
};

static int compare_label_names(const void *a, const void *b)
{
    return strcmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

static char *sanitized(const char *name)
{
    char *out = gs_strdup(name);
    for (char *c = out; *c; c++)
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && !(*c >= '0' && *c <= '9'))
            *c = '_';
    return out;
}

static size_t collect_labels(struct exporter_pods *p, const json_t *labels, struct label *ret)
{
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)labels, name, value) {
        if (n == MAX_LABELS || !json_is_string(value) || !allowed(p, name))
            continue;
        char *clean = sanitized(name);
        bool bad = !*clean || (*clean >= '0' && *clean <= '9') || reserved(clean);
        // two names become the same: the first has precedence
        for (size_t i = 0; i < n && !bad; i++)
            bad = gs_streq(ret[i].name, clean);
        if (bad)
            free(clean);
        else
            ret[n++] = (struct label){clean, json_string_value(value)};
    }
    qsort(ret, n, sizeof(*ret), compare_label_names);
    return n;
}

bool exporter_pods_find(void *arg, const char *ns, const char *pod, struct exporter_render_pod *ret)
{
    struct exporter_pods *p = arg;
    const json_t *object = kube_cache_get(p->cache, ns, pod);
    const json_t *meta = object ? json_object_get(object, "metadata") : NULL;
    if (!meta)
        return false;
    gs_buf_clear(&p->text);
    gs_buf_add(&p->text, "", 0);
    struct label labels[MAX_LABELS];
    size_t n = p->cfg.labels ? collect_labels(p, json_object_get(meta, "labels"), labels) : 0;
    for (size_t i = 0; i < n; i++) {
        gs_buf_addf(&p->text, ",%s=\"", labels[i].name);
        metrics_write_label_value(&p->text, gs_slice_of(labels[i].value));
        gs_buf_add_char(&p->text, '"');
        free(labels[i].name);
    }
    *ret = (struct exporter_render_pod){p->cfg.uid ? codec_json_str(meta, "uid", NULL) : NULL,
                                        p->text.data};
    return true;
}

const json_t *exporter_pods_object(const struct exporter_pods *p, const char *ns, const char *pod)
{
    return kube_cache_get(p->cache, ns, pod);
}

// "containerd://<id>"
static bool is_container(const json_t *status, const char *container_id)
{
    const char *id = codec_json_str(status, "containerID", NULL);
    const char *plain = id ? strstr(id, "://") : NULL;
    return plain && *container_id && gs_streq(plain + 3, container_id);
}

bool exporter_pods_name(const struct exporter_pods *p, const char *uid, const char *container_id,
                        const char **ret_ns, const char **ret_pod, const char **ret_container)
{
    const char *key = gs_hmap_get_str(p->by_uid, uid);
    GS_AUTO_FREE char *ns = key ? gs_strndup(key, strcspn(key, "/")) : NULL;
    const json_t *pod = key ? kube_cache_get(p->cache, ns, key + strlen(ns) + 1) : NULL;
    if (!pod)
        return false;
    *ret_ns = kube_namespace(pod);
    *ret_pod = kube_name(pod);
    *ret_container = "";
    size_t i;
    json_t *status;
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, status)
        if (is_container(status, container_id))
            *ret_container = codec_json_str(status, "name", NULL);
    if (!*ret_container)
        *ret_container = "";
    return true;
}

const char *exporter_pods_problem(const struct exporter_pods *p)
{
    return kube_cache_error(p->cache);
}

bool exporter_pods_denied(const struct exporter_pods *p)
{
    return kube_cache_denied(p->cache);
}
