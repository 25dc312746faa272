// SPDX-License-Identifier: Apache-2.0
// What a pass of a decision table observes, from its YAML. Private to the room.
#pragma once

#include "base/arena.h"
#include "hpa/hpa.h"

#define REPLAY_SCENE_MAX_PODS    ((size_t)10000)
#define REPLAY_SCENE_MAX_METRICS ((size_t)16)

struct replay_scene {
    struct hpa_observation obs;
    struct hpa_pod *pods;
    int64_t *requests; // of pod i and metric m: i * n_metrics + m
    char (*names)[24]; // "pod-7"
    size_t n_names;
    struct hpa_metric_observation metrics[REPLAY_SCENE_MAX_METRICS];
    struct hpa_sample *samples[REPLAY_SCENE_MAX_METRICS];
    struct gs_arena arena; // texts and requests of pods with containers
};

// pods and metrics: as last given in the case, checked by replay_form_check(). replicas: as the
// pass before left it. Texts are borrowed from the JSON. GS_EINVAL: what is given does not fit the
// spec.
struct gs_error *replay_scene_load(const json_t *step, const json_t *pods, const json_t *metrics,
                                   const struct hpa_spec *spec, const struct hpa_config *cfg,
                                   int32_t replicas, int64_t now_ms, struct replay_scene *ret);
void replay_scene_finish(struct replay_scene *s);

// A number, or the text of a quantity. False: neither.
#define REPLAY_SCENE_QUANTITY_SIZE 64
bool replay_scene_quantity_text(const json_t *v, char text[REPLAY_SCENE_QUANTITY_SIZE]);
struct gs_error *replay_scene_milli(const json_t *v, int64_t *ret);
// obj[name], in seconds, as milliseconds.
int64_t replay_scene_ms(const json_t *obj, const char *name, double fallback_seconds);

// --- of containers, as the controller reads them from the API ---
// requests: {container: {resource: quantity}} of the pod; null: the container has no such request.
void replay_scene_container_requests(struct gs_arena *arena, const struct hpa_spec *spec,
                                     int release, const char *pod, const json_t *requests,
                                     struct hpa_pod *ret);
// usage: {container: quantity} of the metric's resource; null: the container has no such usage.
// *ret_error: set when the release takes the answer for an error. False: the pod has no sample.
bool replay_scene_container_usage(struct gs_arena *arena, const struct hpa_metric_spec *m,
                                  int release, const json_t *usage, struct hpa_sample *sample,
                                  const char **ret_error);
