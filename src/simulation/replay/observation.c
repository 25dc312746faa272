// SPDX-License-Identifier: Apache-2.0
// The observation of one step of a case: pods and samples from YAML, in the form that hpa_decide()
// takes. The strings belong to the document, the arrays to the observation.
#include "replay/tables_private.h"

#include "base/mem.h"
#include "kube/quantity.h"

#include <math.h>
#include <stdio.h>

bool replay_observation_quantity_text(const json_t *v, char text[REPLAY_OBSERVATION_QUANTITY_SIZE])
{
    if (json_is_string(v))
        snprintf(text, REPLAY_OBSERVATION_QUANTITY_SIZE, "%s", json_string_value(v));
    else if (json_is_integer(v))
        snprintf(text, REPLAY_OBSERVATION_QUANTITY_SIZE, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(text, REPLAY_OBSERVATION_QUANTITY_SIZE, "%.15g", json_real_value(v));
    else
        return false;
    return true;
}

struct gs_error *replay_observation_milli(const json_t *v, int64_t *ret)
{
    char text[REPLAY_OBSERVATION_QUANTITY_SIZE];
    if (!replay_observation_quantity_text(v, text))
        return gs_error_new(GS_EINVAL, "not a quantity");
    struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(text), ret);
    return err ? gs_error_wrap(err, "quantity \"%s\"", text) : NULL;
}

int64_t replay_observation_ms(const json_t *obj, const char *name, double fallback_seconds)
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

static enum hpa_condition_status condition_status_of(const json_t *v)
{
    if (json_is_boolean(v))
        return json_is_true(v) ? HPA_CONDITION_TRUE : HPA_CONDITION_FALSE;
    const char *text = json_string_value(v);
    if (!text || gs_streq(text, "True"))
        return HPA_CONDITION_TRUE;
    if (gs_streq(text, "absent"))
        return HPA_CONDITION_ABSENT;
    return gs_streq(text, "False") ? HPA_CONDITION_FALSE : HPA_CONDITION_UNKNOWN;
}

static struct gs_error *set_pod(struct replay_observation *s, const struct hpa_spec *spec,
                                int release, size_t i, const json_t *in,
                                const json_t *default_request, int64_t now_ms)
{
    size_t n_metrics = spec->n_metrics;
    const json_t *containers = json_object_get(in, "containers");
    struct hpa_pod *pod = &s->pods[i];
    *pod = (struct hpa_pod){
        .name = s->names[i],
        .phase = phase_of(codec_json_str(in, "phase", NULL)),
        .deleting = codec_json_bool(in, false, "deleting", NULL),
        .ready = condition_status_of(json_object_get(in, "ready")),
        .has_start_time = !json_is_null(json_object_get(in, "started")),
    };
    pod->start_time_ms = now_ms + replay_observation_ms(in, "started", -3600);
    pod->ready_transition_ms = now_ms + replay_observation_ms(in, "readySince", -3590);
    const json_t *request = json_object_get(in, "request");
    if (request && containers)
        return gs_error_new(GS_EINVAL, "pods[%zu]: either \"request\" or \"containers\"", i);
    if (containers) {
        replay_observation_container_requests(&s->arena, spec, release, pod->name, containers, pod);
        return NULL;
    }
    if (!request)
        request = default_request;
    if (!request)
        return NULL;
    int64_t milli = -1;
    struct gs_error *err = json_is_null(request) ? NULL : replay_observation_milli(request, &milli);
    for (size_t m = 0; m < n_metrics; m++)
        s->requests[i * n_metrics + m] = milli;
    pod->requests_milli = &s->requests[i * n_metrics];
    return err;
}

static size_t count_of(const json_t *pods)
{
    return json_is_integer(pods) ? (size_t)json_integer_value(pods) : json_array_size(pods);
}

static struct gs_error *load_pods(struct replay_observation *s, const struct hpa_spec *spec,
                                  int release, const json_t *pods, const json_t *request,
                                  int64_t now_ms)
{
    size_t n = count_of(pods);
    s->pods = gs_alloc_array(n + 1, sizeof(*s->pods));
    s->requests = gs_alloc_array(n * spec->n_metrics + 1, sizeof(*s->requests));
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < n; i++)
        err = set_pod(s, spec, release, i, json_array_get(pods, i), request, now_ms);
    s->obs.pods = s->pods;
    s->obs.n_pods = n;
    return err;
}

// A quantity, {pod, value, age, window}, or usage by container. *ret_found: the pod has a sample.
static struct gs_error *set_sample(struct replay_observation *s, const struct hpa_metric_spec *m,
                                   int release, const json_t *in, struct hpa_sample *sample,
                                   const char **ret_error, bool *ret_found)
{
    const json_t *value = json_is_object(in) ? json_object_get(in, "value") : in;
    const json_t *containers = json_object_get(in, "containers");
    bool of_resource = m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE;
    *ret_found = true;
    if (!value == !containers)
        return gs_error_new(GS_EINVAL, "a sample needs either \"value\" or \"containers\"");
    if (!containers)
        return replay_observation_milli(value, &sample->value);
    if (!of_resource)
        return gs_error_new(GS_EINVAL, "only samples of resources have \"containers\"");
    *ret_found =
        replay_observation_container_usage(&s->arena, m, release, containers, sample, ret_error);
    return NULL;
}

// null: the pod has no sample.
static struct gs_error *load_samples(struct replay_observation *s, const struct hpa_spec *spec,
                                     int release, size_t m, const json_t *in, int64_t now_ms)
{
    const json_t *list = json_object_get(in, "samples");
    size_t n = 0, len = json_array_size(list);
    s->metrics[m].error = codec_json_str(in, "error", NULL);
    s->samples[m] = gs_alloc_array(len + 1, sizeof(struct hpa_sample));
    for (size_t i = 0; i < len; i++) {
        const json_t *v = json_array_get(list, i);
        bool found;
        if (json_is_null(v))
            continue;
        struct hpa_sample *sample = &s->samples[m][n];
        const char *pod = codec_json_str(v, "pod", NULL);
        *sample = (struct hpa_sample){.pod = pod ? pod : s->names[i],
                                      .timestamp_ms = now_ms - replay_observation_ms(v, "age", 0),
                                      .window_ms = replay_observation_ms(v, "window", 0)};
        struct gs_error *err =
            set_sample(s, &spec->metrics[m], release, v, sample, &s->metrics[m].error, &found);
        if (err)
            return gs_error_wrap(err, "metrics[%zu].samples[%zu]", m, i);
        n += found;
    }
    s->metrics[m].samples = s->samples[m];
    s->metrics[m].n_samples = n;
    return NULL;
}

static void load_scale(struct replay_observation *s, const json_t *step, int32_t last)
{
    struct hpa_observation *o = &s->obs;
    const json_t *scale = json_object_get(step, "scale");
    o->scale_error = codec_json_str(scale, "error", NULL);
    o->scale_found = !o->scale_error;
    o->spec_replicas = json_is_integer(scale) ? (int32_t)json_integer_value(scale)
                                              : (int32_t)codec_json_int(scale, last, "spec", NULL);
    o->status_replicas = (int32_t)codec_json_int(scale, o->spec_replicas, "status", NULL);
    const char *selector = codec_json_str(scale, "selector", NULL);
    o->selector = selector ? selector : "app=web";
    o->selector_error = codec_json_str(scale, "selectorError", NULL);
    o->ambiguous_with = codec_json_str(scale, "ambiguousWith", NULL);
    o->scaled_to_zero = codec_json_bool(scale, false, "scaledToZero", NULL);
    o->has_scaled_to_zero = json_object_get(scale, "scaledToZero") != NULL;
}

static int32_t count_in(const json_t *obj, const char *name)
{
    return (int32_t)codec_json_int(obj, 0, name, NULL);
}

static void load_coming(struct replay_observation *s, const json_t *in)
{
    if (!in)
        return;
    s->coming = (struct startup_coming){
        .ready = count_in(in, "ready"),
        .starting = count_in(in, "starting"),
        .settling = count_in(in, "settling"),
        .late = count_in(in, "late"),
        .unschedulable = count_in(in, "unschedulable"),
        .failed = count_in(in, "failed"),
        .start_ms = replay_observation_ms(in, "start", 0),
    };
    s->obs.coming = &s->coming;
}

// Creates the names that pods and samples need.
static size_t most_samples(const json_t *metrics, size_t n)
{
    for (size_t m = 0; m < json_array_size(metrics); m++) {
        size_t len = json_array_size(json_object_get(json_array_get(metrics, m), "samples"));
        n = len > n ? len : n;
    }
    return n;
}

static void make_names(struct replay_observation *s, const json_t *pods, const json_t *metrics,
                       const json_t *loads)
{
    size_t n = most_samples(loads, most_samples(metrics, count_of(pods)));
    s->n_names = n;
    s->names = gs_alloc_array(s->n_names + 1, sizeof(*s->names));
    for (size_t i = 0; i < s->n_names; i++)
        snprintf(s->names[i], sizeof(s->names[i]), "pod-%u", (unsigned)i);
}

struct gs_error *replay_observation_load(const json_t *step, const json_t *pods,
                                         const json_t *metrics, const struct hpa_spec *spec,
                                         const struct hpa_config *cfg, int32_t replicas,
                                         int64_t now_ms, struct replay_observation *ret)
{
    *ret = (struct replay_observation){0};
    const json_t *loads = json_object_get(step, "loads");
    if (spec->n_metrics > REPLAY_OBSERVATION_MAX_METRICS)
        return gs_error_new(GS_ELIMIT, "more than %zu metrics", REPLAY_OBSERVATION_MAX_METRICS);
    make_names(ret, pods, metrics, loads);
    load_scale(ret, step, replicas);
    load_coming(ret, json_object_get(step, "coming"));
    struct gs_error *err =
        load_pods(ret, spec, cfg->release, pods, json_object_get(step, "request"), now_ms);
    for (size_t m = 0; !err && m < spec->n_metrics; m++)
        err = load_samples(ret, spec, cfg->release, m, json_array_get(metrics, m), now_ms);
    for (size_t i = 0; !err && i < spec->n_loads; i++)
        err = load_samples(ret, spec, cfg->release, spec->n_metrics + i, json_array_get(loads, i),
                           now_ms);
    ret->obs.metrics = ret->metrics;
    ret->obs.loads = loads ? &ret->metrics[spec->n_metrics] : NULL;
    if (err)
        replay_observation_finish(ret);
    return err;
}

void replay_observation_finish(struct replay_observation *s)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(s->samples); i++)
        free(s->samples[i]);
    free(s->pods);
    free(s->requests);
    free(s->names);
    gs_arena_finish(&s->arena);
    *s = (struct replay_observation){0};
}
