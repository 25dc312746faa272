// SPDX-License-Identifier: Apache-2.0
// Settings of a "what if" question: lines NAME=VALUE, applied to an autoscaler with a metric of
// each kind, and a decision with them.
#include "base/mem.h"
#include "hpa/convert.h"
#include "hpa/whatif.h"

#include <stdlib.h>
#include <string.h>

#define NOW_MS INT64_C(1700000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char object[] =
    "{\"metadata\":{\"namespace\":\"n\",\"name\":\"a\"},\"spec\":{\"scaleTargetRef\":{\"kind\":"
    "\"Deployment\",\"name\":\"a\",\"apiVersion\":\"apps/v1\"},\"maxReplicas\":9,\"behavior\":{"
    "\"scaleUp\":{\"tolerance\":\"50m\"}},\"metrics\":[{\"type\":\"Resource\",\"resource\":{"
    "\"name\":\"cpu\",\"target\":{\"type\":\"Utilization\",\"averageUtilization\":80}}},{\"type\":"
    "\"Pods\",\"pods\":{\"metric\":{\"name\":\"q\"},\"target\":{\"type\":\"AverageValue\","
    "\"averageValue\":\"20\"}}},{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"e\"},"
    "\"target\":{\"type\":\"Value\",\"value\":\"5\"}}}]}}";

// The settings are in the text, which is changed.
static size_t split(char *text, struct hpa_setting *ret)
{
    size_t n = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && n < HPA_MAX_SETTINGS;
         line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = '\0';
        if (hpa_setting_exists(line))
            ret[n++] = (struct hpa_setting){line, equals + 1};
    }
    return n;
}

static void decide(const struct hpa_spec *spec, const struct hpa_config *cfg)
{
    const int64_t request = 1000;
    const int64_t requests[] = {request, request, request};
    const struct hpa_pod pod = {.name = "p",
                                .phase = HPA_POD_RUNNING,
                                .ready = HPA_CONDITION_TRUE,
                                .has_start_time = true,
                                .requests_milli = requests};
    const struct hpa_sample sample = {.pod = "p", .value = 30000, .timestamp_ms = NOW_MS};
    const struct hpa_metric_observation metrics[] = {
        {&sample, 1, NULL}, {&sample, 1, NULL}, {&sample, 1, NULL}};
    const struct hpa_observation obs = {.scale_found = true,
                                        .spec_replicas = 2,
                                        .status_replicas = 2,
                                        .selector = "a=b",
                                        .pods = &pod,
                                        .n_pods = 1,
                                        .metrics = metrics};
    struct hpa_decision d;
    hpa_decide_with(NULL, spec, &obs, cfg, NOW_MS, &d);
    if (d.desired < spec->min_replicas || d.desired > spec->max_replicas)
        abort();
    hpa_decision_finish(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hpa_spec spec = {0}, changed = {0};
    const struct hpa_config cfg = hpa_config_default();
    struct hpa_config other = cfg;
    struct hpa_setting settings[HPA_MAX_SETTINGS];
    CODEC_AUTO_JSON json_t *o = json_loads(object, 0, NULL);
    GS_AUTO_FREE char *text = gs_strndup((const char *)data, size);
    hpa_default(o);
    gs_error_free(hpa_spec_parse(o, &spec));
    size_t n = split(text, settings);
    struct gs_error *err = hpa_spec_with(&spec, settings, n, &cfg, &changed, &other);
    if (!err)
        decide(&changed, &other);
    gs_error_free(err);
    hpa_spec_finish(&changed);
    hpa_spec_finish(&spec);
    return 0;
}
