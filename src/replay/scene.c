// SPDX-License-Identifier: Apache-2.0
#include "replay/scene.h"

#include "base/mem.h"
#include "kube/quantity.h"

#include <math.h>
#include <stdio.h>

struct gs_error *scene_milli(const json_t *v, int64_t *ret)
{
    char text[64];
    if (json_is_string(v))
        snprintf(text, sizeof(text), "%s", json_string_value(v));
    else if (json_is_integer(v))
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(text, sizeof(text), "%.15g", json_real_value(v));
    else
        return gs_error_new(GS_EINVAL, "not a quantity");
    struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(text), ret);
    return err ? gs_error_wrap(err, "quantity \"%s\"", text) : NULL;
}

int64_t scene_ms(const json_t *obj, const char *name, double fallback_seconds)
{
    const json_t *v = json_object_get(obj, name);
    double seconds = json_is_number(v) ? json_number_value(v) : fallback_seconds;
    return seconds > -1e12 && seconds < 1e12 ? llround(seconds * 1000) : 0;
}

static enum hpa_pod_phase phase_of(const char *text)
{
    static const char *const names[] = {"Pending", "Running", "Succeeded", "Failed", "Unknown"};
    for (size_t i = 0; text && i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(text, names[i]))
            return (enum hpa_pod_phase)i;
    return HPA_POD_RUNNING;
}

static enum hpa_tri tri_of(const json_t *v)
{
    if (json_is_boolean(v))
        return json_is_true(v) ? HPA_TRUE : HPA_FALSE;
    const char *text = json_string_value(v);
    if (!text || gs_streq(text, "True"))
        return HPA_TRUE;
    if (gs_streq(text, "absent"))
        return HPA_ABSENT;
    return gs_streq(text, "False") ? HPA_FALSE : HPA_TRI_UNKNOWN;
}

static struct gs_error *set_pod(struct scene *s, size_t i, const json_t *in,
                                const json_t *default_request, int64_t now_ms, size_t n_metrics)
{
    struct hpa_pod *pod = &s->pods[i];
    *pod = (struct hpa_pod){
        .name = s->names[i],
        .phase = phase_of(gs_json_str(in, "phase", NULL)),
        .deleting = gs_json_bool(in, false, "deleting", NULL),
        .ready = tri_of(json_object_get(in, "ready")),
        .has_start_time = !json_is_null(json_object_get(in, "started")),
    };
    pod->start_time_ms = now_ms + scene_ms(in, "started", -3600);
    pod->ready_transition_ms = now_ms + scene_ms(in, "readySince", -3590);
    const json_t *request = json_object_get(in, "request");
    if (!request)
        request = default_request;
    if (!request)
        return NULL;
    int64_t milli = -1;
    struct gs_error *err = json_is_null(request) ? NULL : scene_milli(request, &milli);
    for (size_t m = 0; m < n_metrics; m++)
        s->requests[i * n_metrics + m] = milli;
    pod->requests_milli = &s->requests[i * n_metrics];
    return err;
}

static struct gs_error *load_pods(struct scene *s, const json_t *pods, const json_t *request,
                                  int64_t now_ms, size_t n_metrics)
{
    size_t n = json_is_integer(pods) && json_integer_value(pods) > 0
                   ? (size_t)json_integer_value(pods)
                   : json_array_size(pods);
    if (n > SCENE_MAX_PODS)
        return gs_error_new(GS_ELIMIT, "pods: more than %zu", SCENE_MAX_PODS);
    s->pods = gs_alloc_array(n + 1, sizeof(*s->pods));
    s->requests = gs_alloc_array(n * n_metrics + 1, sizeof(*s->requests));
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < n; i++)
        err = set_pod(s, i, json_array_get(pods, i), request, now_ms, n_metrics);
    s->obs.pods = s->pods;
    s->obs.n_pods = n;
    return err;
}

// A quantity, or {pod, value, age, window}; null: the pod has no sample.
static struct gs_error *load_samples(struct scene *s, size_t m, const json_t *in, int64_t now_ms)
{
    const json_t *list = json_object_get(in, "samples");
    size_t n = 0, len = json_array_size(list);
    if (len > SCENE_MAX_PODS)
        return gs_error_new(GS_ELIMIT, "samples: more than %zu", SCENE_MAX_PODS);
    s->metrics[m].error = gs_json_str(in, "error", NULL);
    s->samples[m] = gs_alloc_array(len + 1, sizeof(struct hpa_sample));
    for (size_t i = 0; i < len; i++) {
        const json_t *v = json_array_get(list, i);
        if (json_is_null(v))
            continue;
        struct hpa_sample *sample = &s->samples[m][n++];
        const char *pod = gs_json_str(v, "pod", NULL);
        *sample = (struct hpa_sample){.pod = pod ? pod : s->names[i],
                                      .timestamp_ms = now_ms - scene_ms(v, "age", 0),
                                      .window_ms = scene_ms(v, "window", 0)};
        struct gs_error *err =
            scene_milli(json_is_object(v) ? json_object_get(v, "value") : v, &sample->value);
        if (err)
            return err;
    }
    s->metrics[m].samples = s->samples[m];
    s->metrics[m].n_samples = n;
    return NULL;
}

static void load_scale(struct scene *s, const json_t *step, int32_t last)
{
    struct hpa_observation *o = &s->obs;
    const json_t *scale = json_object_get(step, "scale");
    o->scale_error = gs_json_str(scale, "error", NULL);
    o->scale_found = !o->scale_error;
    o->spec_replicas = json_is_integer(scale) ? (int32_t)json_integer_value(scale)
                                              : (int32_t)gs_json_int(scale, last, "spec", NULL);
    o->status_replicas = (int32_t)gs_json_int(scale, o->spec_replicas, "status", NULL);
    const char *selector = gs_json_str(scale, "selector", NULL);
    o->selector = selector ? selector : "app=web";
    o->selector_error = gs_json_str(scale, "selectorError", NULL);
    o->ambiguous_with = gs_json_str(scale, "ambiguousWith", NULL);
    o->scaled_to_zero = gs_json_bool(scale, false, "scaledToZero", NULL);
    o->has_scaled_to_zero = json_object_get(scale, "scaledToZero") != NULL;
}

// As many names as pods and samples need.
static void make_names(struct scene *s, const json_t *pods, const json_t *metrics)
{
    size_t n = json_is_integer(pods) && json_integer_value(pods) > 0
                   ? (size_t)json_integer_value(pods)
                   : json_array_size(pods);
    for (size_t m = 0; m < json_array_size(metrics); m++) {
        size_t len = json_array_size(json_object_get(json_array_get(metrics, m), "samples"));
        n = len > n ? len : n;
    }
    s->n_names = n < SCENE_MAX_PODS ? n : SCENE_MAX_PODS;
    s->names = gs_alloc_array(s->n_names + 1, sizeof(*s->names));
    for (size_t i = 0; i < s->n_names; i++)
        snprintf(s->names[i], sizeof(s->names[i]), "pod-%u", (unsigned)i);
}

struct gs_error *scene_load(const json_t *step, const json_t *pods, const json_t *metrics,
                            size_t n_metrics, int32_t replicas, int64_t now_ms, struct scene *ret)
{
    *ret = (struct scene){0};
    if (n_metrics > SCENE_MAX_METRICS)
        return gs_error_new(GS_ELIMIT, "more than %zu metrics", SCENE_MAX_METRICS);
    make_names(ret, pods, metrics);
    load_scale(ret, step, replicas);
    struct gs_error *err =
        load_pods(ret, pods, json_object_get(step, "request"), now_ms, n_metrics);
    for (size_t m = 0; !err && m < n_metrics; m++)
        err = load_samples(ret, m, json_array_get(metrics, m), now_ms);
    ret->obs.metrics = ret->metrics;
    if (err)
        scene_finish(ret);
    return err;
}

void scene_finish(struct scene *s)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(s->samples); i++)
        free(s->samples[i]);
    free(s->pods);
    free(s->requests);
    free(s->names);
    *s = (struct scene){0};
}
