// SPDX-License-Identifier: Apache-2.0
// The annotation of a latency target, up to the first NUL. What is accepted gives a decision.
#include "base/mem.h"
#include "slo/slo.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decide(const struct slo_policy *p)
{
    static const double bounds[] = {0.5, 1, INFINITY}, counts[] = {10, 60, 100};
    struct slo_pod pod = {.name = "a", .since_ms = 1, .sampled_ms = 1700000000000};
    struct slo_observation obs = {.pods = &pod, .n_pods = 1, .replicas = 1, .min = 1, .max = 10};
    struct slo_decision d;
    SLO_AUTO_STATE struct slo_state *state = slo_state_new();
    slo_pod_set(&pod, SLO_WAITING, 5);
    for (int l = 0; l < SLO_LATENCIES; l++)
        pod.latency[l] = (struct slo_histogram){bounds, counts, 3, 50, true};
    slo_decide(p, &obs, state, pod.sampled_ms, false, &d);
    CODEC_AUTO_JSON json_t *json = slo_decision_json(p, &d);
    if (!json_is_object(json) || d.proposal < 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GS_AUTO_FREE char *text = gs_strndup((const char *)data, size);
    struct slo_policy p;
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_AUTO_ERROR struct gs_error *err = slo_policy_parse(text, &p);
    if (err)
        return 0;
    slo_policy_query(&p, "namespace=\"n\"", &query);
    decide(&p);
    return 0;
}
