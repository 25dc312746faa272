// SPDX-License-Identifier: Apache-2.0
// A HorizontalPodAutoscaler of any version: as the API server takes it (types, conversion,
// defaults, validation), read as the controller reads it, and decided on for a few pods. The input:
// a JSON object, a NUL, and the bytes of the samples.
#include "base/mem.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"
#include "kube/object.h"
#include "kube/schema.h"

#include <stdlib.h>

#define PODS   4
#define PASSES 3
#define NOW_MS INT64_C(1700000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The next bytes as a number; 0 at the end.
static int64_t take(struct gs_slice *bytes)
{
    uint64_t v = 0;
    size_t n = bytes->len < sizeof(v) ? bytes->len : sizeof(v);
    if (n)
        memcpy(&v, bytes->data, n);
    *bytes = gs_slice_make(bytes->data + n, bytes->len - n);
    return (int64_t)v;
}

// An object is stored only if its types and its validation are correct.
static bool is_taken(json_t *v2)
{
    struct kube_field_errors errors = {0};
    hpa_default(v2);
    hpa_validate(v2, &errors);
    bool taken = errors.len == 0;
    kube_field_errors_finish(&errors);
    return taken;
}

// The stored object can be read in every version, and the result can be written back.
static void show(const json_t *v2)
{
    static const char *const versions[] = {"v1", "v2beta1", "v2beta2", "v2"};
    for (size_t i = 0; i < GS_ARRAY_LEN(versions); i++) {
        CODEC_AUTO_JSON json_t *shown = NULL;
        CODEC_AUTO_JSON json_t *back = NULL;
        if (hpa_from_v2(v2, versions[i], &shown) || hpa_to_v2(shown, &back))
            abort();
    }
}

static void observe(const struct hpa_spec *spec, struct gs_slice *bytes,
                    struct hpa_history *history)
{
    static const char *const names[PODS] = {"a", "b", "c", "d"};
    const struct hpa_config cfg = hpa_config_default();
    struct hpa_pod pods[PODS];
    struct hpa_sample samples[PODS] = {0};
    int64_t flags = take(bytes), now_ms = NOW_MS + (flags & 0xffff) * 1000;
    GS_AUTO_FREE int64_t *requests = gs_alloc_array(spec->n_metrics + 1, sizeof(*requests));
    GS_AUTO_FREE struct hpa_metric_observation *metrics =
        gs_alloc_array(spec->n_metrics + 1, sizeof(*metrics));
    for (size_t i = 0; i < spec->n_metrics; i++) {
        int64_t milli = take(bytes);
        requests[i] = milli < 0 ? -1 : milli;
        metrics[i] = (struct hpa_metric_observation){
            samples, PODS, flags & (INT64_C(1) << (16 + i % 16)) ? "no" : NULL};
    }
    for (size_t i = 0; i < PODS; i++) {
        int64_t state = flags >> (32 + 4 * i);
        pods[i] = (struct hpa_pod){.name = names[i],
                                   .phase = state & 8 ? HPA_POD_PENDING : HPA_POD_RUNNING,
                                   .deleting = (state & 7) == 7,
                                   .ready = (enum hpa_condition_status)(state & 3),
                                   .ready_transition_ms = NOW_MS - 1000,
                                   .has_start_time = true,
                                   .start_time_ms = NOW_MS - 2000,
                                   .requests_milli = requests};
        samples[i] = (struct hpa_sample){
            .pod = names[i], .value = take(bytes), .timestamp_ms = now_ms - 1000};
    }
    int32_t replicas = (int32_t)((uint64_t)take(bytes) & INT32_MAX);
    const struct hpa_observation obs = {.scale_found = true,
                                        .spec_replicas = replicas,
                                        .status_replicas = replicas / 2,
                                        .selector = "a=b",
                                        .pods = pods,
                                        .n_pods = PODS,
                                        .metrics = metrics};
    struct hpa_decision d;
    hpa_decide(spec, &obs, &cfg, history, now_ms, &d);
    if (d.desired < 0 || (d.rescale && d.desired > spec->max_replicas))
        abort();
    if (d.rescale)
        hpa_history_scaled(history, spec, d.current, d.desired, now_ms);
    hpa_decision_finish(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice bytes = gs_slice_make(data, size);
    struct gs_slice text = gs_slice_cut(&bytes, '\0');
    CODEC_AUTO_JSON json_t *object = NULL;
    CODEC_AUTO_JSON json_t *v2 = NULL;
    CODEC_AUTO_JSON json_t *unknown = json_array();
    CODEC_AUTO_JSON json_t *wrong = json_array();
    GS_AUTO_ERROR struct gs_error *bad = codec_json_parse(text, false, &object);
    const struct kube_type *type =
        bad ? NULL : kube_schema_find(kube_api_version(object), "HorizontalPodAutoscaler");
    if (!type || !gs_streq(kube_kind(object), "HorizontalPodAutoscaler"))
        return 0;
    kube_schema_check(type, object, true, unknown, wrong);
    if (json_array_size(wrong))
        return 0;
    GS_AUTO_ERROR struct gs_error *unconverted = hpa_to_v2(object, &v2);
    if (unconverted || !is_taken(v2))
        return 0;
    show(v2);
    struct hpa_spec spec;
    if (hpa_spec_parse(v2, &spec))
        abort();
    struct hpa_history *history = hpa_history_new();
    for (int i = 0; i < PASSES; i++)
        observe(&spec, &bytes, history);
    hpa_history_free(history);
    hpa_spec_finish(&spec);
    return 0;
}
