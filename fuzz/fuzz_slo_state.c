// SPDX-License-Identifier: Apache-2.0
// What a latency decision has learned, and the forecast of its demand, from a file: whatever it
// says, decisions stay within their range.
#include "base/mem.h"
#include "slo/memory.h"

#include <math.h>

enum { PODS = 3, STEPS = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fill(struct slo_pod *pods, int step, int64_t now_ms)
{
    static const double bounds[] = {0.5, 1, INFINITY};
    static double counts[PODS][3];
    static const char *const names[PODS] = {"a", "b", "c"};
    for (int i = 0; i < PODS; i++) {
        for (int b = 0; b < 3; b++)
            counts[i][b] = step * 20.0 * (b + 1);
        pods[i] = (struct slo_pod){.name = names[i], .since_ms = 1, .sampled_ms = now_ms};
        slo_pod_set(&pods[i], SLO_WAITING, step % 7);
        slo_pod_set(&pods[i], SLO_RUNNING, 10);
        slo_pod_set(&pods[i], SLO_KV_USED_RATIO, 0.5);
        slo_pod_set(&pods[i], SLO_PROMPT_TOKENS, step * 5000.0);
        slo_pod_set(&pods[i], SLO_GENERATION_TOKENS, step * 1000.0);
        pods[i].latency[SLO_TTFT] = (struct slo_histogram){bounds, counts[i], 3, 0, false};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t start_ms = 1700000000000;
    struct slo_policy p;
    struct slo_pod pods[PODS];
    struct slo_observation obs = {.pods = pods, .n_pods = PODS, .replicas = PODS, .max = 10};
    struct slo_decision d;
    GS_CLEANUP(slo_memory_freep) struct slo_memory *memory = slo_memory_new();
    CODEC_AUTO_JSON json_t *in = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(gs_slice_make(data, size), false, &in);
    if (!err)
        err = slo_memory_restore(memory, in, start_ms);
    GS_AUTO_ERROR struct gs_error *policy_err = slo_policy_parse("ttft=1s", &p);
    if (err || policy_err)
        return 0;
    for (int step = 0; step < STEPS; step++) {
        fill(pods, step, start_ms + step * 5000);
        slo_memory_decide(memory, &p, &obs, start_ms + step * 5000, false, &d);
        if (d.proposal < 1)
            abort();
    }
    CODEC_AUTO_JSON json_t *out = slo_memory_json(memory, true, start_ms);
    json_decref(slo_decision_json(&p, &d));
    return 0;
}
