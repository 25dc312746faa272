// SPDX-License-Identifier: Apache-2.0
#include "exporter/pods.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/cache.h"
#include "metrics/write.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MAX_REGEX = 64, MAX_LABELS = 64, MAX_REGEX_STEPS = 100000 };

struct pods {
    struct pods_config cfg;
    struct kube_cache *cache;
    pcre2_code *allow[MAX_REGEX];
    size_t n_allow;
    bool restricted; // an allow list was given
    pcre2_match_data *match;
    pcre2_match_context *limits;
    struct gs_buf text; // of the last answer
    uint64_t version;
};

static void add_regex(struct pods *p, const char *text)
{
    int code = 0;
    size_t at = 0;
    if (p->n_allow == MAX_REGEX)
        return;
    pcre2_code *regex = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
    if (regex)
        p->allow[p->n_allow++] = regex;
    else
        gs_warn("exporter", "pod label allow list: \"%s\" is no regular expression", text);
}

static void read_allowlist(struct pods *p, const char *list)
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

// Most changes of pods are of their status, which nobody asks for here.
static void on_change(void *arg, const json_t *old_pod, const json_t *new_pod)
{
    struct pods *p = arg;
    const json_t *was = json_object_get(old_pod, "metadata");
    const json_t *is = json_object_get(new_pod, "metadata");
    if (!was || !is || !json_equal(json_object_get(was, "labels"), json_object_get(is, "labels")) ||
        !gs_streq(gs_json_str(was, "uid", NULL), gs_json_str(is, "uid", NULL)))
        p->version++;
}

uint64_t pods_version(void *arg)
{
    return ((const struct pods *)arg)->version;
}

struct gs_error *pods_new(uv_loop_t *loop, struct kube_client *kube, const struct pods_config *cfg,
                          struct pods **ret)
{
    struct pods *p = gs_alloc(sizeof(*p));
    p->cfg = *cfg;
    p->match = pcre2_match_data_create(1, NULL);
    p->limits = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(p->limits, MAX_REGEX_STEPS);
    read_allowlist(p, cfg->allowlist);
    GS_AUTO_FREE char *query = cfg->node_name && *cfg->node_name
                                   ? gs_format("fieldSelector=spec.nodeName%%3D%s", cfg->node_name)
                                   : NULL;
    p->cache = kube_cache_new(loop, kube, KUBE_PODS, NULL, query);
    const struct kube_cache_handlers handlers = {.on_change = on_change, .arg = p};
    kube_cache_add_handlers(p->cache, &handlers);
    kube_cache_start(p->cache);
    *ret = p;
    return NULL;
}

void pods_free(struct pods *p)
{
    if (!p)
        return;
    kube_cache_free(p->cache);
    for (size_t i = 0; i < p->n_allow; i++)
        pcre2_code_free(p->allow[i]);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    gs_buf_finish(&p->text);
    free(p);
}

static bool allowed(struct pods *p, const char *name)
{
    for (size_t i = 0; i < p->n_allow; i++)
        if (pcre2_match(p->allow[i], (PCRE2_SPTR)name, strlen(name), 0, 0, p->match, p->limits) >=
            0)
            return true;
    return !p->restricted;
}

// What has a meaning here must not come a second time.
static bool reserved(const char *name)
{
    static const char *const names[] = {
        "gpu",       "UUID",        "uuid",           "pci_bus_id",        "device",
        "modelName", "hostname",    "Hostname",       "container",         "namespace",
        "pod",       "pod_uid",     "vgpu",           "GPU_I_PROFILE",     "GPU_I_ID",
        "err_code",  "err_msg",     "hpc_job",        "pod_name",          "pod_namespace",
        "xid",       "clock_event", "container_name", "window_size_in_ms",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(name, names[i]))
            return true;
    return gs_starts(name, "DCGM_");
}

struct label {
    char *name;
    const char *value;
};

static int by_name(const void *a, const void *b)
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

static size_t collect(struct pods *p, const json_t *labels, struct label *ret)
{
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)labels, name, value) {
        if (n == MAX_LABELS || !json_is_string(value) || !allowed(p, name))
            continue;
        char *clean = sanitized(name);
        bool bad = !*clean || (*clean >= '0' && *clean <= '9') || reserved(clean);
        for (size_t i = 0; i < n && !bad; i++) // two names that become one: the first stays
            bad = gs_streq(ret[i].name, clean);
        if (bad)
            free(clean);
        else
            ret[n++] = (struct label){clean, json_string_value(value)};
    }
    qsort(ret, n, sizeof(*ret), by_name);
    return n;
}

bool pods_find(void *arg, const char *ns, const char *pod, struct render_pod *ret)
{
    struct pods *p = arg;
    const json_t *object = kube_cache_get(p->cache, ns, pod);
    const json_t *meta = object ? json_object_get(object, "metadata") : NULL;
    if (!meta)
        return false;
    gs_buf_clear(&p->text);
    gs_buf_add(&p->text, "", 0);
    struct label labels[MAX_LABELS];
    size_t n = p->cfg.labels ? collect(p, json_object_get(meta, "labels"), labels) : 0;
    for (size_t i = 0; i < n; i++) {
        gs_buf_addf(&p->text, ",%s=\"", labels[i].name);
        metrics_write_label_value(&p->text, gs_slice_of(labels[i].value));
        gs_buf_add_char(&p->text, '"');
        free(labels[i].name);
    }
    *ret = (struct render_pod){p->cfg.uid ? gs_json_str(meta, "uid", NULL) : NULL, p->text.data};
    return true;
}
