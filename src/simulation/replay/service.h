// SPDX-License-Identifier: Apache-2.0
// An inference service as the workload of a scenario: simulated engines (inference/fleet.h), the
// requests that arrive, and the latency target of its autoscaler.
#pragma once

#include "codec/yaml_reader.h"
#include "inference/fleet.h"
#include "inference/parameters.h"
#include "replay/replay.h"
#include "slo/slo.h"

#define REPLAY_SERVICE_MAX_REPLICAS 1000
#define REPLAY_SERVICE_MAX_TOKENS   2e9 // generated in one run

struct replay_service {
    struct inference_setup setup; // texts are borrowed
    double memory_gb;             // of a GPU; 0: as its name says, otherwise 80
    enum inference_router router;
    double start_spread, failed_starts;
    uint64_t seed;

    // The requests: of a shape with a mean rate, or of the load of the scenario.
    bool has_shape;
    enum inference_shape shape;
    double rate;
    // Mean tokens of a request, for requests of the load: the curves, or constants without points.
    double prompt_tokens, output_tokens;
    struct replay_curve prompt_curve, output_curve;
    double max_tokens; // generated in one run: later requests do not arrive

    char slo[SLO_TEXT_MAX];  // the target of the autoscaler; "": none
    char goal[SLO_TEXT_MAX]; // which requests count as within; "": slo

    // Set by replay_service_prepare().
    struct inference_parameters engine;
    bool has_policy, has_goal;
    struct slo_policy policy, goal_policy;
};

void replay_service_init(struct replay_service *v);
void replay_service_finish(struct replay_service *v);
// The mapping `service` of a scenario. curve: for `requests`.
void replay_service_read(struct codec_reader *r, const json_t *in, struct replay_service *v,
                         struct replay_scenario *s);
// Calculates what depends on several fields and checks the scenario.
struct gs_error *replay_service_prepare(struct replay_scenario *s);
// "slo", "slo.KEY", "seed" and fields of the mapping. *ret_found false: another name.
struct gs_error *replay_service_set(struct replay_scenario *s, const char *name, const char *value,
                                    bool *ret_found);
// Sets a key of a target ("ttft=1s,p=90"); value "": removes it, and with the last target all keys.
// key NULL: the whole text.
// GS_ELIMIT: too long.
struct gs_error *replay_service_set_target(char slo[SLO_TEXT_MAX], const char *key,
                                           const char *value);

// The expected number of requests.
double replay_service_expected(const struct replay_scenario *s);
// The requests of the scenario; the caller frees *ret. GS_ELIMIT: too many.
struct gs_error *replay_service_arrivals(const struct replay_scenario *s,
                                         struct inference_arrival **ret, size_t *ret_n);
// As replay_run() does. rows: record them.
struct replay_result replay_service_run(const struct replay_scenario *s, bool rows);
