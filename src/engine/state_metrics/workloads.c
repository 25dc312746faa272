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

void state_metrics_write_number(struct state_metrics_writer *w, const json_t *obj)
{
    const struct state_metrics_field *f = w->field;
    state_metrics_number(w, obj, f->kind, f->fallback, f->part, f->key);
}

void state_metrics_write_time(struct state_metrics_writer *w, const json_t *obj)
{
    double s;
    if (!state_metrics_seconds(codec_json_str(obj, w->field->part, w->field->key, NULL), &s))
        return;
    state_metrics_begin(w);
    state_metrics_identify(w, obj, w->field->kind);
    state_metrics_end(w, s);
}

void state_metrics_write_labels(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_begin(w);
    state_metrics_identify(w, obj, w->field->kind);
    state_metrics_object_labels(w, obj);
    state_metrics_end(w, 1);
}

void state_metrics_write_owner(struct state_metrics_writer *w, const json_t *obj)
{
    const json_t *o = kube_controller_ref(obj);

    state_metrics_begin(w);
    state_metrics_identify(w, obj, w->field->kind);
    state_metrics_label(w, "owner_kind", o ? codec_json_str(o, "kind", NULL) : NULL);
    state_metrics_label(w, "owner_name", o ? codec_json_str(o, "name", NULL) : NULL);
    state_metrics_label(w, "owner_is_controller", o ? "true" : NULL);
    state_metrics_end(w, 1);
}

void state_metrics_write_replica_gpus(struct state_metrics_writer *w, const json_t *obj)
{
    const json_t *list = codec_json_get(obj, "spec", "template", "spec", "containers", NULL), *c;
    double sum = 0, gpus;
    size_t i;
    json_array_foreach ((json_t *)list, i, c)
        if (state_metrics_amount(codec_json_get(c, "resources", "limits", "nvidia.com/gpu", NULL),
                                 &gpus))
            sum += gpus;
    if (!(sum > 0))
        return;
    state_metrics_begin(w);
    state_metrics_label(w, "namespace", kube_namespace(obj));
    state_metrics_label(w, "owner_kind", w->field->kind);
    state_metrics_label(w, "owner_name", kube_name(obj));
    state_metrics_end(w, sum);
}

// --- Deployments ---

static void identify_deployment(struct state_metrics_writer *w, const void *obj)
{
    state_metrics_identify(w, obj, "deployment");
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
    STATE_METRICS_CREATED("kube_deployment_created", "deployment"),
    STATE_METRICS_LABELS("kube_deployment_labels", "deployment"),
    STATE_METRICS_NUMBER("kube_deployment_spec_replicas", "Desired replicas.", "deployment", "spec",
                         "replicas", 1),
    {"kube_deployment_spec_paused", "1 when the Deployment is paused.", METRICS_GAUGE,
     deployment_paused},
    STATE_METRICS_NUMBER("kube_deployment_status_replicas", "Current replicas.", "deployment",
                         "status", "replicas", 0),
    STATE_METRICS_NUMBER("kube_deployment_status_replicas_ready", "Replicas that are ready.",
                         "deployment", "status", "readyReplicas", 0),
    STATE_METRICS_NUMBER("kube_deployment_status_replicas_available",
                         "Replicas that are available.", "deployment", "status",
                         "availableReplicas", 0),
    STATE_METRICS_NUMBER("kube_deployment_status_replicas_unavailable",
                         "Replicas that are missing or not available.", "deployment", "status",
                         "unavailableReplicas", 0),
    STATE_METRICS_NUMBER("kube_deployment_status_replicas_updated",
                         "Replicas with the latest pod template.", "deployment", "status",
                         "updatedReplicas", 0),
    STATE_METRICS_NUMBER("kube_deployment_status_observed_generation",
                         "The generation that the controller has observed.", "deployment", "status",
                         "observedGeneration", 0),
    STATE_METRICS_NUMBER("kube_deployment_metadata_generation",
                         "The generation of the desired state.", "deployment", "metadata",
                         "generation", -1),
    {"kube_deployment_status_condition", "1 for the status of each condition.", METRICS_GAUGE,
     deployment_conditions},
    STATE_METRICS_REPLICA_GPUS("gpuscale_deployment_replica_gpus", "Deployment"),
    {0},
};

// --- ReplicaSets ---

const struct state_metrics_family state_metrics_replicaset_families[] = {
    STATE_METRICS_OWNER("kube_replicaset_owner", "The owner of a ReplicaSet.", "replicaset"),
    STATE_METRICS_NUMBER("kube_replicaset_spec_replicas", "Desired replicas.", "replicaset", "spec",
                         "replicas", 1),
    STATE_METRICS_NUMBER("kube_replicaset_status_replicas", "Current replicas.", "replicaset",
                         "status", "replicas", 0),
    STATE_METRICS_NUMBER("kube_replicaset_status_ready_replicas", "Replicas that are ready.",
                         "replicaset", "status", "readyReplicas", 0),
    {0},
};

// --- namespaces ---

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
    const char *now = kube_phase(obj);
    for (size_t i = 0; now && i < GS_ARRAY_LEN(phases); i++) {
        state_metrics_begin(w);
        state_metrics_label(w, "namespace", kube_name(obj));
        state_metrics_label(w, "phase", phases[i]);
        state_metrics_flag(w, gs_streq(now, phases[i]));
    }
}

const struct state_metrics_family state_metrics_namespace_families[] = {
    STATE_METRICS_CREATED("kube_namespace_created", "namespace"),
    {"kube_namespace_labels", "The labels of the object, as label_*.", METRICS_GAUGE,
     namespace_labels},
    {"kube_namespace_status_phase", "1 for the phase that the namespace is in.", METRICS_GAUGE,
     namespace_phase},
    {0},
};
