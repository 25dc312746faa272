// SPDX-License-Identifier: Apache-2.0
// Fetches the metrics of one HPA from the metrics APIs, all at once, as kube-controller-manager's
// REST clients do. The version of the custom metrics API is discovered and cached; the texts of
// errors are those that Kubernetes writes into conditions.
#include "hpa_controller/controller_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hpa/observe.h"
#include "kube/selector.h"

#define CUSTOM_GROUP "custom.metrics.k8s.io"

// The fetch of one metric of one HPA.
struct slot {
    struct hpa_fetch *fetch;
    size_t index;
    struct kube_request *request;
    struct hpa_lookup *lookup;
    bool waiting; // for the version of the custom API
    bool finished;
    struct hpa_values values;
    char *error;
};

struct hpa_fetch {
    struct hpa_metrics_source *source;
    struct hpa_fetch *prev, *next;
    const struct hpa_spec *spec;
    char *selector;
    struct gs_arena arena; // names of pods
    struct slot *slots;
    struct hpa_metric_observation *observations;
    size_t n_pending;
    bool starting; // cb must not be called yet
    void (*cb)(void *arg);
    void *arg;
};

struct hpa_metrics_source {
    struct kube_client *client;
    struct hpa_resources *resources;
    int64_t refresh_ns;
    int release;
    char *version;      // of the custom metrics API; NULL: not discovered
    int64_t version_ns; // when it was read
    struct kube_request *version_request;
    struct hpa_fetch *fetches;
};

static void slot_advance(struct slot *s);

static size_t n_slots(const struct hpa_spec *spec)
{
    return spec->n_metrics + spec->n_loads;
}

static const struct hpa_metric_spec *metric_of(const struct slot *s)
{
    return &s->fetch->spec->metrics[s->index];
}

static const char *api_of(const struct slot *s)
{
    switch (metric_of(s)->type) {
    case HPA_METRIC_RESOURCE:
    case HPA_METRIC_CONTAINER_RESOURCE:
        return "resource";
    case HPA_METRIC_EXTERNAL:
        return "external";
    default:
        return "custom";
    }
}

// --- ends of a slot ---
static void slot_finish(struct slot *s)
{
    struct hpa_fetch *f = s->fetch;
    struct hpa_metric_observation *o = &f->observations[s->index];
    s->finished = true;
    o->error = s->error;
    o->samples = s->values.items;
    o->n_samples = s->error ? 0 : s->values.len;
    if (--f->n_pending == 0 && !f->starting)
        f->cb(f->arg);
}

// Takes err.
static void slot_fail(struct slot *s, struct gs_error *err)
{
    s->error = gs_format("unable to fetch metrics from %s metrics API: %s", api_of(s),
                         gs_error_message(err));
    gs_error_free(err);
    slot_finish(s);
}

static void slot_empty(struct slot *s)
{
    s->error = gs_format("no metrics returned from %s metrics API", api_of(s));
    slot_finish(s);
}

static struct gs_error *read_answer(struct slot *s, const json_t *body, bool *ret_empty)
{
    const struct hpa_metric_spec *m = metric_of(s);
    struct gs_arena *arena = &s->fetch->arena;
    int64_t now_ms = gs_unix_ms();
    size_t items = 0;
    struct gs_error *err;
    if (m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE) {
        err = hpa_read_resource(body, m->name, m->container, arena, now_ms, &s->values, &items);
    } else if (m->type == HPA_METRIC_EXTERNAL) {
        err = hpa_read_external(body, now_ms, &s->values);
        items = s->values.len;
    } else {
        err = hpa_read_custom(body, arena, now_ms, &s->values);
        items = s->values.len;
        if (!err && m->type == HPA_METRIC_OBJECT && items != 1)
            err = gs_error_new(GS_EPROTO,
                               "the custom metrics API server returned %zu results when we asked "
                               "for exactly one",
                               items);
    }
    *ret_empty = items == 0;
    return err;
}

static struct gs_error *check_container(const struct slot *s, const json_t *body)
{
    const struct hpa_metric_spec *m = metric_of(s);
    if (m->type != HPA_METRIC_CONTAINER_RESOURCE ||
        hpa_since(s->fetch->source->release, HPA_SINCE_CONTAINER_MISSING))
        return NULL;
    return hpa_check_container(body, m->container);
}

static void slot_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct slot *s = arg;
    bool empty = false;
    s->request = NULL;
    if (!err)
        err = read_answer(s, body, &empty);
    if (err) {
        slot_fail(s, err);
        return;
    }
    GS_AUTO_ERROR struct gs_error *no_container = empty ? NULL : check_container(s, body);
    if (no_container)
        s->error = gs_strdup(gs_error_message(no_container));
    if (empty)
        slot_empty(s);
    else
        slot_finish(s);
}

// --- request paths ---
static void add_segment(struct gs_buf *path, const char *text)
{
    gs_buf_add_char(path, '/');
    http_encode(gs_slice_of(text), path);
}

static void add_query(struct gs_buf *path, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    gs_buf_addf(path, "%c%s=", strchr(path->data, '?') ? '&' : '?', name);
    http_encode(gs_slice_of(value), path);
}

// The metric's selector as text; "" without a selector, which selects everything.
static struct gs_error *metric_selector(const struct hpa_metric_spec *m, struct gs_buf *out)
{
    if (!m->selector)
        return NULL;
    struct kube_selector selector = {0};
    struct gs_error *err = kube_selector_from_json(m->selector, &selector);
    if (err)
        return err;
    kube_selector_format(&selector, out);
    kube_selector_finish(&selector);
    return NULL;
}

static void resource_path(const struct slot *s, struct gs_buf *path)
{
    gs_buf_add_str(path, "/apis/metrics.k8s.io/v1beta1/namespaces");
    add_segment(path, s->fetch->spec->ns);
    gs_buf_add_str(path, "/pods");
    add_query(path, "labelSelector", s->fetch->selector);
}

static void external_path(const struct slot *s, const char *selector, struct gs_buf *path)
{
    gs_buf_add_str(path, "/apis/external.metrics.k8s.io/v1beta1/namespaces");
    add_segment(path, s->fetch->spec->ns);
    add_segment(path, metric_of(s)->name);
    add_query(path, "labelSelector", selector);
}

static bool is_namespace(const struct hpa_metric_spec *m)
{
    return strcmp(m->object_kind, "Namespace") == 0 && !strchr(m->object_api_version, '/');
}

// object: where the described object's resource is; unused for pods and namespaces.
static void custom_path(const struct slot *s, struct kube_gvr object, const char *selector,
                        struct gs_buf *path)
{
    const struct hpa_metric_spec *m = metric_of(s);
    gs_buf_add_str(path, "/apis/" CUSTOM_GROUP);
    add_segment(path, s->fetch->source->version);
    gs_buf_add_str(path, "/namespaces");
    add_segment(path, s->fetch->spec->ns);
    if (m->type == HPA_METRIC_PODS) {
        gs_buf_add_str(path, "/pods/%2A");
    } else if (is_namespace(m)) {
        gs_buf_add_str(path, "/metrics");
    } else {
        add_segment(path, object.resource);
        if (object.group && *object.group) {
            gs_buf_add_char(path, '.');
            http_encode(gs_slice_of(object.group), path);
        }
        add_segment(path, m->object_name);
    }
    add_segment(path, m->name);
    if (m->type == HPA_METRIC_PODS)
        add_query(path, "labelSelector", s->fetch->selector);
    add_query(path, "metricLabelSelector", selector);
}

static void slot_send(struct slot *s, struct kube_gvr object)
{
    const struct hpa_metric_spec *m = metric_of(s);
    GS_AUTO_BUF struct gs_buf selector = {0};
    GS_AUTO_BUF struct gs_buf path = {0};
    struct gs_error *err = metric_selector(m, &selector);
    if (err) {
        slot_fail(s, err);
        return;
    }
    if (m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE)
        resource_path(s, &path);
    else if (m->type == HPA_METRIC_EXTERNAL)
        external_path(s, selector.data, &path);
    else
        custom_path(s, object, selector.data, &path);
    s->request = kube_raw_get(s->fetch->source->client, path.data, slot_done, s);
}

// --- the version of the custom API ---
static struct slot *next_waiting(const struct hpa_metrics_source *source)
{
    for (struct hpa_fetch *f = source->fetches; f; f = f->next)
        for (size_t i = 0; i < n_slots(f->spec); i++)
            if (f->slots[i].waiting)
                return &f->slots[i];
    return NULL;
}

static bool is_supported_version(const char *v)
{
    return gs_streq(v, "v1beta1") || gs_streq(v, "v1beta2");
}

static const char *choose_version(const json_t *group)
{
    const char *preferred = codec_json_str(group, "preferredVersion", "version", NULL);
    if (is_supported_version(preferred))
        return preferred;
    const json_t *versions = json_object_get(group, "versions");
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const char *v = codec_json_str(json_array_get(versions, i), "version", NULL);
        if (is_supported_version(v))
            return v;
    }
    return NULL;
}

static void version_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_metrics_source *source = arg;
    const char *version = err ? NULL : choose_version(body);
    source->version_request = NULL;
    if (!err && !version)
        err = gs_error_new(GS_ENOTSUP, "no version of " CUSTOM_GROUP " that gpuscale supports");
    if (status == 404) {
        gs_error_free(err);
        err = gs_error_new(GS_ENOTFOUND, "no custom metrics API (" CUSTOM_GROUP ") registered");
    }
    if (version) {
        free(source->version);
        source->version = gs_strdup(version);
        source->version_ns = gs_mono_ns();
    }
    // Ending a slot may free its fetch and remove other slots: restart the iteration each time.
    struct slot *s;
    while ((s = next_waiting(source))) {
        s->waiting = false;
        if (version)
            slot_advance(s);
        else
            slot_fail(s, gs_error_new(gs_error_code(err), "%s", gs_error_message(err)));
    }
    gs_error_free(err);
}

// True if a version was discovered. An expired version is used until the new one is read.
static bool have_version(struct hpa_metrics_source *source)
{
    bool stale = !source->version || gs_mono_ns() - source->version_ns >= source->refresh_ns;
    if (stale && !source->version_request)
        source->version_request =
            kube_raw_get(source->client, "/apis/" CUSTOM_GROUP, version_done, source);
    return source->version != NULL;
}

// --- steps of a slot ---
static struct gs_error *not_mapped(const struct slot *s, struct gs_error *err)
{
    const struct hpa_metric_spec *m = metric_of(s);
    const char *slash = strchr(m->object_api_version, '/');
    return gs_error_wrap(err, "unable to map kind %s%s%.*s to resource", m->object_kind,
                         slash ? "." : "", slash ? (int)(slash - m->object_api_version) : 0,
                         m->object_api_version);
}

static void lookup_done(void *arg, struct gs_error *err)
{
    struct slot *s = arg;
    s->lookup = NULL;
    if (err)
        slot_fail(s, not_mapped(s, err));
    else
        slot_advance(s);
}

static void slot_advance(struct slot *s)
{
    const struct hpa_metric_spec *m = metric_of(s);
    struct hpa_metrics_source *source = s->fetch->source;
    struct kube_gvr object = {0};
    if (m->type == HPA_METRIC_UNKNOWN) {
        slot_finish(s);
        return;
    }
    bool custom = m->type == HPA_METRIC_PODS || m->type == HPA_METRIC_OBJECT;
    if (custom && !have_version(source)) {
        s->waiting = true;
        return;
    }
    if (m->type == HPA_METRIC_OBJECT && !is_namespace(m)) {
        bool known = false;
        struct gs_error *err = hpa_resources_get(source->resources, m->object_api_version,
                                                 m->object_kind, &known, &object);
        if (err) {
            slot_fail(s, err);
            return;
        }
        if (!known) {
            s->lookup = hpa_resources_discover(source->resources, m->object_api_version,
                                               m->object_kind, lookup_done, s);
            return;
        }
    }
    slot_send(s, object);
}

// --- public functions ---
struct hpa_metrics_source *hpa_metrics_source_new(struct kube_client *client,
                                                  struct hpa_resources *resources,
                                                  int64_t refresh_ms, int release)
{
    struct hpa_metrics_source *s = gs_alloc(sizeof(*s));
    s->client = client;
    s->resources = resources;
    s->release = release;
    s->refresh_ns = refresh_ms * GS_NS_PER_MS;
    return s;
}

void hpa_metrics_source_free(struct hpa_metrics_source *s)
{
    if (!s)
        return;
    kube_request_cancel(s->version_request);
    free(s->version);
    free(s);
}

struct hpa_fetch *hpa_fetch_start(struct hpa_metrics_source *source, const struct hpa_spec *spec,
                                  const char *selector, bool without_desired, void (*cb)(void *arg),
                                  void *arg)
{
    struct hpa_fetch *f = gs_alloc(sizeof(*f));
    size_t n = n_slots(spec);
    f->source = source;
    f->spec = spec;
    f->selector = gs_strdup(selector);
    f->cb = cb;
    f->arg = arg;
    f->slots = gs_alloc_array(n ? n : 1, sizeof(*f->slots));
    f->observations = gs_alloc_array(n ? n : 1, sizeof(*f->observations));
    f->n_pending = n;
    f->next = source->fetches;
    if (f->next)
        f->next->prev = f;
    source->fetches = f;
    f->starting = true;
    for (size_t i = 0; i < n; i++) {
        f->slots[i] = (struct slot){.fetch = f, .index = i};
        if (without_desired && hpa_is_desired_metric(&spec->metrics[i]))
            slot_finish(&f->slots[i]);
        else
            slot_advance(&f->slots[i]);
    }
    f->starting = false;
    return f;
}

bool hpa_fetch_finished(const struct hpa_fetch *f)
{
    return f->n_pending == 0;
}

const struct hpa_metric_observation *hpa_fetch_observations(const struct hpa_fetch *f)
{
    return f->observations;
}

void hpa_fetch_free(struct hpa_fetch *f)
{
    if (!f)
        return;
    if (f->prev)
        f->prev->next = f->next;
    else
        f->source->fetches = f->next;
    if (f->next)
        f->next->prev = f->prev;
    for (size_t i = 0; i < n_slots(f->spec); i++) {
        kube_request_cancel(f->slots[i].request);
        hpa_lookup_cancel(f->slots[i].lookup);
        free(f->slots[i].values.items);
        free(f->slots[i].error);
    }
    free(f->slots);
    free(f->observations);
    free(f->selector);
    gs_arena_finish(&f->arena);
    free(f);
}
