// SPDX-License-Identifier: Apache-2.0
// Metrics of Deployments, ReplicaSets and namespaces.
#include "engine/state_metrics/state_metrics_private.h"
#include "kube/object.h"

void state_metrics_identify(struct state_metrics_writer *w, const json_t *obj, const char *kind)
{
    state_metrics_label(w, "namespace", kube_namespace(obj));
    state_metrics_label(w, kind, kube_name(obj));
}

void state_metrics_number(struct state_metrics_writer *w, const json_t *obj, const char *kind,
                          int64_t fallback, const char *part, const char *key)
{
    int64_t v = codec_json_int(obj, fallback, part, key, NULL);
    if (v < 0)
        return;
    state_metrics_begin(w);
    state_metrics_identify(w, obj, kind);
    state_metrics_end(w, (double)v);
}

void state_metrics_time(struct state_metrics_writer *w, const json_t *obj, const char *kind,
                        const char *part, const char *key)
{
    double s;
    if (!state_metrics_seconds(codec_json_str(obj, part, key, NULL), &s))
        return;
    state_metrics_begin(w);
    state_metrics_identify(w, obj, kind);
    state_metrics_end(w, s);
}

void state_metrics_created(struct state_metrics_writer *w, const json_t *obj, const char *kind)
{
    state_metrics_time(w, obj, kind, "metadata", "creationTimestamp");
}

void state_metrics_labels(struct state_metrics_writer *w, const json_t *obj, const char *kind)
{
    state_metrics_begin(w);
    state_metrics_identify(w, obj, kind);
    state_metrics_object_labels(w, obj);
    state_metrics_end(w, 1);
}

void state_metrics_owner(struct state_metrics_writer *w, const json_t *obj, const char *kind)
{
    const json_t *o = kube_controller_ref(obj);

    state_metrics_begin(w);
    state_metrics_identify(w, obj, kind);
    state_metrics_label(w, "owner_kind", o ? codec_json_str(o, "kind", NULL) : NULL);
    state_metrics_label(w, "owner_name", o ? codec_json_str(o, "name", NULL) : NULL);
    state_metrics_label(w, "owner_is_controller", o ? "true" : NULL);
    state_metrics_end(w, 1);
}

// --- Deployments ---

#define DEPLOYMENT_NUMBER(fn, fallback, part, key)                                                 \
    static void fn(struct state_metrics_writer *w, const json_t *obj)                              \
    {                                                                                              \
        state_metrics_number(w, obj, "deployment", fallback, part, key);                           \
    }
DEPLOYMENT_NUMBER(deployment_spec, 1, "spec", "replicas")
DEPLOYMENT_NUMBER(deployment_replicas, 0, "status", "replicas")
DEPLOYMENT_NUMBER(deployment_ready, 0, "status", "readyReplicas")
DEPLOYMENT_NUMBER(deployment_available, 0, "status", "availableReplicas")
DEPLOYMENT_NUMBER(deployment_unavailable, 0, "status", "unavailableReplicas")
DEPLOYMENT_NUMBER(deployment_updated, 0, "status", "updatedReplicas")
DEPLOYMENT_NUMBER(deployment_observed, 0, "status", "observedGeneration")
DEPLOYMENT_NUMBER(deployment_generation, -1, "metadata", "generation")
#undef DEPLOYMENT_NUMBER

static void identify_deployment(struct state_metrics_writer *w, const void *obj)
{
    state_metrics_identify(w, obj, "deployment");
}

static void deployment_created(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_created(w, obj, "deployment");
}

static void deployment_labels(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_labels(w, obj, "deployment");
}

static void deployment_paused(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_begin(w);
    identify_deployment(w, obj);
    state_metrics_flag(w, codec_json_bool(obj, false, "spec", "paused", NULL));
}

static void deployment_conditions(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_conditions(w, codec_json_get(obj, "status", "conditions", NULL),
                             identify_deployment, obj);
}

const struct state_metrics_family state_metrics_workload_families[] = {
    {"kube_deployment_created", "Creation time of the object, in seconds since 1970.",
     METRICS_GAUGE, deployment_created},
    {"kube_deployment_labels", "The labels of the object, as label_*.", METRICS_GAUGE,
     deployment_labels},
    {"kube_deployment_spec_replicas", "Desired replicas.", METRICS_GAUGE, deployment_spec},
    {"kube_deployment_spec_paused", "1 when the Deployment is paused.", METRICS_GAUGE,
     deployment_paused},
    {"kube_deployment_status_replicas", "Current replicas.", METRICS_GAUGE, deployment_replicas},
    {"kube_deployment_status_replicas_ready", "Replicas that are ready.", METRICS_GAUGE,
     deployment_ready},
    {"kube_deployment_status_replicas_available", "Replicas that are available.", METRICS_GAUGE,
     deployment_available},
    {"kube_deployment_status_replicas_unavailable", "Replicas that are missing or not available.",
     METRICS_GAUGE, deployment_unavailable},
    {"kube_deployment_status_replicas_updated", "Replicas with the latest pod template.",
     METRICS_GAUGE, deployment_updated},
    {"kube_deployment_status_observed_generation",
     "The generation that the controller has observed.", METRICS_GAUGE, deployment_observed},
    {"kube_deployment_metadata_generation", "The generation of the desired state.", METRICS_GAUGE,
     deployment_generation},
    {"kube_deployment_status_condition", "1 for the status of each condition.", METRICS_GAUGE,
     deployment_conditions},
    {0},
};

// --- ReplicaSets ---

static void replicaset_owner(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_owner(w, obj, "replicaset");
}

static void replicaset_spec(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_number(w, obj, "replicaset", 1, "spec", "replicas");
}

static void replicaset_replicas(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_number(w, obj, "replicaset", 0, "status", "replicas");
}

static void replicaset_ready(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_number(w, obj, "replicaset", 0, "status", "readyReplicas");
}

const struct state_metrics_family state_metrics_replicaset_families[] = {
    {"kube_replicaset_owner", "The owner of a ReplicaSet.", METRICS_GAUGE, replicaset_owner},
    {"kube_replicaset_spec_replicas", "Desired replicas.", METRICS_GAUGE, replicaset_spec},
    {"kube_replicaset_status_replicas", "Current replicas.", METRICS_GAUGE, replicaset_replicas},
    {"kube_replicaset_status_ready_replicas", "Replicas that are ready.", METRICS_GAUGE,
     replicaset_ready},
    {0},
};

// --- namespaces ---

static void namespace_created(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_created(w, obj, "namespace");
}

static void namespace_labels(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_begin(w);
    state_metrics_label(w, "namespace", kube_name(obj));
    state_metrics_object_labels(w, obj);
    state_metrics_end(w, 1);
}

static void namespace_phase(struct state_metrics_writer *w, const json_t *obj)
{
    static const char *const phases[] = {"Active", "Terminating"};
    const char *now = codec_json_str(obj, "status", "phase", NULL);
    for (size_t i = 0; now && i < GS_ARRAY_LEN(phases); i++) {
        state_metrics_begin(w);
        state_metrics_label(w, "namespace", kube_name(obj));
        state_metrics_label(w, "phase", phases[i]);
        state_metrics_flag(w, gs_streq(now, phases[i]));
    }
}

const struct state_metrics_family state_metrics_namespace_families[] = {
    {"kube_namespace_created", "Creation time of the object, in seconds since 1970.", METRICS_GAUGE,
     namespace_created},
    {"kube_namespace_labels", "The labels of the object, as label_*.", METRICS_GAUGE,
     namespace_labels},
    {"kube_namespace_status_phase", "1 for the phase that the namespace is in.", METRICS_GAUGE,
     namespace_phase},
    {0},
};
