// SPDX-License-Identifier: Apache-2.0
// What the decision needs of pods: phase, readiness, times, and requests for utilization targets.
// Errors of requests have the texts of kube-controller-manager.
#include "hpa/observe.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "hpa/release.h"
#include "kube/object.h"
#include "kube/quantity.h"

#include <stdio.h>

static enum hpa_pod_phase phase_of(const json_t *pod)
{
    const char *text = kube_phase(pod);
    if (gs_streq(text, "Pending"))
        return HPA_POD_PENDING;
    if (gs_streq(text, "Running"))
        return HPA_POD_RUNNING;
    if (gs_streq(text, "Succeeded"))
        return HPA_POD_SUCCEEDED;
    if (gs_streq(text, "Failed"))
        return HPA_POD_FAILED;
    return HPA_POD_UNKNOWN;
}

static bool read_time(const char *text, int64_t *ret_ms)
{
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_rfc3339(gs_slice_of(text), ret_ms) : NULL;
    return text && !err;
}

static void read_ready(const json_t *pod, struct hpa_pod *ret)
{
    const json_t *ready = kube_condition(pod, "Ready");
    const char *status = codec_json_str(ready, "status", NULL);
    if (!ready)
        ret->ready = HPA_CONDITION_ABSENT;
    else if (gs_streq(status, "True"))
        ret->ready = HPA_CONDITION_TRUE;
    else if (gs_streq(status, "False"))
        ret->ready = HPA_CONDITION_FALSE;
    else
        ret->ready = HPA_CONDITION_UNKNOWN;
    read_time(codec_json_str(ready, "lastTransitionTime", NULL), &ret->ready_transition_ms);
}

// --- requests ---
// Of one container or pod-level block. -1: absent.
static int64_t container_request(const json_t *resources, const char *resource)
{
    const char *text = codec_json_str(resources, "requests", resource, NULL);
    int64_t milli = -1;
    GS_AUTO_ERROR struct gs_error *err =
        text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
    return err || milli < 0 ? -1 : milli;
}

static const char *say(struct gs_arena *arena, const char *fmt, ...) GS_PRINTF(2, 3);
static const char *say(struct gs_arena *arena, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return gs_arena_strdup(arena, text);
}

struct request {
    int64_t milli; // -1: absent
    const char *error;
};

struct request_sum {
    struct request total;
    size_t containers;
};

// Adds the request of one container. Absent: the sum of the pod is absent, too.
static void add_container_request(const json_t *c, const char *pod, const struct hpa_metric_spec *m,
                                  struct gs_arena *arena, struct request_sum *sum)
{
    const char *name = codec_json_str(c, "name", NULL);
    if (sum->total.milli < 0 || (*m->container && !gs_streq(name, m->container)))
        return;
    sum->containers++;
    int64_t milli = container_request(json_object_get(c, "resources"), m->name);
    if (milli < 0) {
        sum->total.milli = -1;
        sum->total.error = say(arena, "missing request for %s in container %s of Pod %s", m->name,
                               name ? name : "", pod);
    } else if (__builtin_add_overflow(sum->total.milli, milli, &sum->total.milli)) {
        sum->total.milli = INT64_MAX;
    }
}

static struct request pod_request(const json_t *pod, const struct hpa_metric_spec *m, int release,
                                  struct gs_arena *arena)
{
    const char *name = kube_name(pod);
    const json_t *spec = json_object_get(pod, "spec");
    const json_t *pod_level = codec_json_get(spec, "resources", "requests", NULL);
    if (!*m->container && json_object_size(pod_level) && hpa_since(release, HPA_SINCE_POD_LEVEL)) {
        int64_t milli = container_request(json_object_get(spec, "resources"), m->name);
        const char *error =
            milli < 0 ? say(arena, "missing pod-level request for %s in Pod %s", m->name, name)
                      : NULL;
        return (struct request){milli, error};
    }
    struct request_sum sum = {0};
    const json_t *containers = json_object_get(spec, "containers");
    const json_t *init = json_object_get(spec, "initContainers");
    for (size_t i = 0; i < json_array_size(containers); i++)
        add_container_request(json_array_get(containers, i), name, m, arena, &sum);
    bool sidecars = hpa_since(release, HPA_SINCE_RESTARTABLE_INIT);
    for (size_t i = 0; sidecars && i < json_array_size(init); i++) {
        const json_t *c = json_array_get(init, i);
        // Only sidecars: init containers that continue to run.
        if (gs_streq(codec_json_str(c, "restartPolicy", NULL), "Always"))
            add_container_request(c, name, m, arena, &sum);
    }
    if (*m->container && !sum.containers)
        return (struct request){-1,
                                say(arena, "container %s not found in Pod %s", m->container, name)};
    return sum.total;
}

static bool needs_requests(const struct hpa_metric_spec *m)
{
    return (m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE) &&
           m->target == HPA_TARGET_UTILIZATION;
}

static void read_requests(const struct hpa_spec *spec, int release, const json_t *object,
                          struct gs_arena *arena, struct hpa_pod *ret)
{
    bool any = false;
    for (size_t i = 0; i < spec->n_metrics; i++)
        any |= needs_requests(&spec->metrics[i]);
    if (!any)
        return;
    int64_t *requests = gs_arena_alloc(arena, spec->n_metrics * sizeof(*requests));
    const char **errors = gs_arena_alloc(arena, spec->n_metrics * sizeof(*errors));
    for (size_t i = 0; i < spec->n_metrics; i++) {
        struct request r = {-1, NULL};
        if (needs_requests(&spec->metrics[i]))
            r = pod_request(object, &spec->metrics[i], release, arena);
        requests[i] = r.milli;
        errors[i] = r.error;
    }
    ret->requests_milli = requests;
    ret->request_errors = errors;
}

static void read_pod(const struct hpa_spec *spec, int release, const json_t *object,
                     struct gs_arena *arena, struct hpa_pod *ret)
{
    *ret = (struct hpa_pod){
        .name = kube_name(object),
        .phase = phase_of(object),
        .deleting = kube_is_deleting(object),
    };
    read_ready(object, ret);
    ret->has_start_time =
        read_time(codec_json_str(object, "status", "startTime", NULL), &ret->start_time_ms);
    read_requests(spec, release, object, arena, ret);
}

void hpa_observe_pods(const struct hpa_spec *spec, const struct kube_cache *pods,
                      const struct kube_selector *selector, int release, struct gs_arena *arena,
                      const struct hpa_pod **ret_pods, size_t *ret_n)
{
    size_t n = 0, pos = 0;
    while (kube_cache_select(pods, spec->ns, selector, &pos))
        n++;
    struct hpa_pod *out = gs_arena_alloc(arena, (n ? n : 1) * sizeof(*out));
    const json_t *pod;
    size_t i = 0;
    pos = 0;
    while ((pod = kube_cache_select(pods, spec->ns, selector, &pos)))
        read_pod(spec, release, pod, arena, &out[i++]);
    *ret_pods = out;
    *ret_n = n;
}

void hpa_observe_list(const struct hpa_spec *spec, const json_t *items, int release,
                      struct gs_arena *arena, const struct hpa_pod **ret_pods,
                      const json_t ***ret_objects, size_t *ret_n)
{
    size_t len = json_array_size(items), n = 0;
    struct hpa_pod *out = gs_arena_alloc(arena, (len ? len : 1) * sizeof(*out));
    const json_t **objects = gs_arena_alloc(arena, (len ? len : 1) * sizeof(*objects));
    for (size_t i = 0; i < len; i++) {
        const json_t *pod = json_array_get(items, i);
        if (!kube_name(pod))
            continue;
        read_pod(spec, release, pod, arena, &out[n]);
        objects[n++] = pod;
    }
    *ret_pods = out;
    *ret_objects = objects;
    *ret_n = n;
}
