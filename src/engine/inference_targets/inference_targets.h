// SPDX-License-Identifier: Apache-2.0
// Pods with an inference engine as scrape targets, without rules: pods that own a GPU, or that an
// annotation names, are asked for their metrics page until one is recognized. A pod that another
// job scrapes is not scraped again. All functions are called on the thread of the loop.
#pragma once

#include "engine/scrape/scrape.h"
#include "engine/signals/signals.h"
#include "kube/client.h"

#include <uv.h>

// Annotation of a pod: "vllm:8000/metrics", "8000", "http/prometheus/metrics". The part before the
// port is for readers; a port is a number or the name of one. "false": the pod is not scraped.
#define INFERENCE_TARGETS_ANNOTATION "gpuscale.dev/inference"
#define INFERENCE_TARGETS_JOB        "gpuscale-inference" // the label job of the targets

struct inference_targets;

// scrapes, table: borrowed, and must outlive it. interval_ms: of the scrapes.
struct inference_targets *inference_targets_new(uv_loop_t *loop, struct kube_client *client,
                                                struct scrape_manager *scrapes,
                                                const struct signals_table *table,
                                                int64_t interval_ms);
// The scrape manager has been freed, or still has the targets.
void inference_targets_free(struct inference_targets *t);
// The pods that could have an engine, as an array: namespace, pod, state ("recognized", "scraped by
// another job", "searching"), url and engine, or tried and reason. New reference.
json_t *inference_targets_json(const struct inference_targets *t);
