// SPDX-License-Identifier: Apache-2.0
// What a pass of a decision table observes, from its YAML. Private to the room.
#pragma once

#include "hpa/hpa.h"

#define SCENE_MAX_PODS    ((size_t)10000)
#define SCENE_MAX_METRICS ((size_t)16)

struct scene {
    struct hpa_observation obs;
    struct hpa_pod *pods;
    int64_t *requests; // of pod i and metric m: i * n_metrics + m
    char (*names)[24]; // "pod-7"
    size_t n_names;
    struct hpa_metric_observation metrics[SCENE_MAX_METRICS];
    struct hpa_sample *samples[SCENE_MAX_METRICS];
};

// pods and metrics: as last given in the case. replicas: as the pass before left it. Texts are
// borrowed from the JSON. GS_EINVAL: a quantity or a count is none.
struct gs_error *scene_load(const json_t *step, const json_t *pods, const json_t *metrics,
                            size_t n_metrics, int32_t replicas, int64_t now_ms, struct scene *ret);
void scene_finish(struct scene *s);

// A number or a quantity's text.
struct gs_error *scene_milli(const json_t *v, int64_t *ret);
int64_t scene_ms(const json_t *obj, const char *name, double fallback_seconds);
