// SPDX-License-Identifier: Apache-2.0
// One pass over one HPA, from reading the scale to writing the status; asynchronous.
#pragma once

#include "hpa/controller.h"
#include "hpa/metrics_source.h"
#include "hpa/resources.h"
#include "hpa/selectors.h"
#include "kube/event.h"

// What passes share. All borrowed.
struct hpa_run_env {
    uv_loop_t *loop;
    struct kube_client *client;
    struct kube_cache *pods;
    struct kube_recorder *recorder;
    struct hpa_resources *resources;
    struct hpa_metrics_source *metrics;
    struct hpa_selectors *selectors;
    struct hpa_config decide;
    bool shadow; // nothing is written
};

struct hpa_run;

// object is an autoscaling/v2 HPA; history is borrowed. done is called later, once, and may free
// the run; what it gets is borrowed. NULL when the object cannot be used: an event says so.
struct hpa_run *
hpa_run_start(const struct hpa_run_env *env, json_t *object, struct hpa_history *history,
              void (*done)(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d),
              void *arg);
void hpa_run_free(struct hpa_run *r); // cancels what is under way; NULL is fine
