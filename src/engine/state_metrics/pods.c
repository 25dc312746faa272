// SPDX-License-Identifier: Apache-2.0
// Metrics of Pods and their containers, as in kube-state-metrics.
#include "engine/state_metrics/state_metrics_private.h"
#include "kube/object.h"

static void add_pod_identity(struct state_metrics_writer *w, const void *pod)
{
    state_metrics_label(w, "namespace", kube_namespace(pod));
    state_metrics_label(w, "pod", kube_name(pod));
    state_metrics_label(w, "uid", kube_uid(pod));
}

static void begin_pod_sample(struct state_metrics_writer *w, const json_t *pod)
{
    state_metrics_begin(w);
    add_pod_identity(w, pod);
}

static void write_pod_info(struct state_metrics_writer *w, const json_t *pod)
{
    const json_t *owner = kube_controller_ref(pod);
    begin_pod_sample(w, pod);
    state_metrics_label(w, "host_ip", codec_json_str(pod, "status", "hostIP", NULL));
    state_metrics_label(w, "pod_ip", codec_json_str(pod, "status", "podIP", NULL));
    state_metrics_label(w, "node", kube_pod_node(pod));
    state_metrics_label(w, "created_by_kind", owner ? codec_json_str(owner, "kind", NULL) : NULL);
    state_metrics_label(w, "created_by_name", owner ? codec_json_str(owner, "name", NULL) : NULL);
    state_metrics_label(w, "priority_class",
                        codec_json_str(pod, "spec", "priorityClassName", NULL));
    state_metrics_label(w, "host_network",
                        codec_json_bool(pod, false, "spec", "hostNetwork", NULL) ? "true"
                                                                                 : "false");
    state_metrics_end(w, 1);
}

static void write_pod_labels(struct state_metrics_writer *w, const json_t *pod)
{
    begin_pod_sample(w, pod);
    state_metrics_object_labels(w, pod);
    state_metrics_end(w, 1);
}

static void owner(struct state_metrics_writer *w, const json_t *pod)
{
    const json_t *owners = codec_json_get(pod, "metadata", "ownerReferences", NULL), *o;
    size_t i;
    json_array_foreach ((json_t *)owners, i, o) {
        begin_pod_sample(w, pod);
        state_metrics_label(w, "owner_kind", codec_json_str(o, "kind", NULL));
        state_metrics_label(w, "owner_name", codec_json_str(o, "name", NULL));
        state_metrics_label(w, "owner_is_controller",
                            codec_json_bool(o, false, "controller", NULL) ? "true" : "false");
        state_metrics_end(w, 1);
    }
    if (!json_array_size(owners)) {
        begin_pod_sample(w, pod);
        state_metrics_end(w, 1);
    }
}

static void phase(struct state_metrics_writer *w, const json_t *pod)
{
    static const char *const phases[] = {"Pending", "Succeeded", "Failed", "Unknown", "Running"};
    const char *now = kube_phase(pod);
    for (size_t i = 0; now && i < GS_ARRAY_LEN(phases); i++) {
        begin_pod_sample(w, pod);
        state_metrics_label(w, "phase", phases[i]);
        state_metrics_flag(w, gs_streq(now, phases[i]));
    }
}

static void condition(struct state_metrics_writer *w, const json_t *pod, const char *type)
{
    static const char *const statuses[][2] = {
        {"True", "true"}, {"False", "false"}, {"Unknown", "unknown"}};
    const json_t *c = kube_condition(pod, type);
    for (size_t i = 0; c && i < GS_ARRAY_LEN(statuses); i++) {
        begin_pod_sample(w, pod);
        state_metrics_label(w, "condition", statuses[i][1]);
        state_metrics_flag(w, gs_streq(codec_json_str(c, "status", NULL), statuses[i][0]));
    }
}

static void ready(struct state_metrics_writer *w, const json_t *pod)
{
    condition(w, pod, "Ready");
}

static void scheduled(struct state_metrics_writer *w, const json_t *pod)
{
    condition(w, pod, "PodScheduled");
}

static void unschedulable(struct state_metrics_writer *w, const json_t *pod)
{
    const json_t *c = kube_condition(pod, "PodScheduled");
    if (!c || !gs_streq(codec_json_str(c, "status", NULL), "False"))
        return;
    begin_pod_sample(w, pod);
    state_metrics_end(w, 1);
}

static void time_member(struct state_metrics_writer *w, const json_t *pod, const char *text)
{
    double s;
    if (!state_metrics_seconds(text, &s))
        return;
    begin_pod_sample(w, pod);
    state_metrics_end(w, s);
}

static void write_pod_created(struct state_metrics_writer *w, const json_t *pod)
{
    time_member(w, pod, kube_created(pod));
}

static void start_time(struct state_metrics_writer *w, const json_t *pod)
{
    time_member(w, pod, codec_json_str(pod, "status", "startTime", NULL));
}

const struct state_metrics_family state_metrics_pod_families[] = {
    {"kube_pod_info", "Node, addresses and creator of a pod.", METRICS_GAUGE, write_pod_info},
    {"kube_pod_labels", "The labels of the object, as label_*.", METRICS_GAUGE, write_pod_labels},
    {"kube_pod_owner", "The owners of a pod.", METRICS_GAUGE, owner},
    {"kube_pod_status_phase", "1 for the phase that the pod is in.", METRICS_GAUGE, phase},
    {"kube_pod_status_ready", "1 for the status of the pod's Ready condition.", METRICS_GAUGE,
     ready},
    {"kube_pod_status_scheduled", "1 for the status of the pod's PodScheduled condition.",
     METRICS_GAUGE, scheduled},
    {"kube_pod_status_unschedulable", "1 for a pod that cannot be scheduled.", METRICS_GAUGE,
     unschedulable},
    {"kube_pod_created", "Creation time of the object, in seconds since 1970.", METRICS_GAUGE,
     write_pod_created},
    {"kube_pod_start_time", "Time when the kubelet accepted the pod, in seconds since 1970.",
     METRICS_GAUGE, start_time},
    {0},
};

// --- containers ---

struct container {
    const json_t *pod, *spec;
};

static void identify_container(struct state_metrics_writer *w, const void *arg)
{
    const struct container *c = arg;
    add_pod_identity(w, c->pod);
    state_metrics_label(w, "container", codec_json_str(c->spec, "name", NULL));
}

static void identify_on_node(struct state_metrics_writer *w, const void *arg)
{
    const struct container *c = arg;
    identify_container(w, arg);
    state_metrics_label(w, "node", kube_pod_node(c->pod));
}

static void resources(struct state_metrics_writer *w, const json_t *pod, const char *which)
{
    const json_t *c;
    size_t i;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, c) {
        const struct container at = {pod, c};
        state_metrics_resources(w, codec_json_get(c, "resources", which, NULL), identify_on_node,
                                &at);
    }
}

static void requests(struct state_metrics_writer *w, const json_t *pod)
{
    resources(w, pod, "requests");
}

static void limits(struct state_metrics_writer *w, const json_t *pod)
{
    resources(w, pod, "limits");
}

// Writes one sample for each container status. `value` returns the value.
static void each_status(struct state_metrics_writer *w, const json_t *pod,
                        double (*value)(const json_t *status))
{
    const json_t *s;
    size_t i;
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, s) {
        state_metrics_begin(w);
        identify_container(w, &(struct container){pod, s});
        state_metrics_end(w, value(s));
    }
}

static double restarts_of(const json_t *s)
{
    return (double)codec_json_int(s, 0, "restartCount", NULL);
}

static double ready_of(const json_t *s)
{
    return codec_json_bool(s, false, "ready", NULL);
}

static double running_of(const json_t *s)
{
    return json_is_object(codec_json_get(s, "state", "running", NULL));
}

static double waiting_of(const json_t *s)
{
    return json_is_object(codec_json_get(s, "state", "waiting", NULL));
}

static void restarts(struct state_metrics_writer *w, const json_t *pod)
{
    each_status(w, pod, restarts_of);
}

static void container_ready(struct state_metrics_writer *w, const json_t *pod)
{
    each_status(w, pod, ready_of);
}

static void container_running(struct state_metrics_writer *w, const json_t *pod)
{
    each_status(w, pod, running_of);
}

static void container_waiting(struct state_metrics_writer *w, const json_t *pod)
{
    each_status(w, pod, waiting_of);
}

static void waiting_reason(struct state_metrics_writer *w, const json_t *pod)
{
    const json_t *s;
    size_t i;
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, s) {
        const char *reason = codec_json_str(s, "state", "waiting", "reason", NULL);
        if (!reason)
            continue;
        state_metrics_begin(w);
        identify_container(w, &(struct container){pod, s});
        state_metrics_label(w, "reason", reason);
        state_metrics_end(w, 1);
    }
}

static void container_info(struct state_metrics_writer *w, const json_t *pod)
{
    const json_t *s;
    size_t i;
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, s) {
        state_metrics_begin(w);
        identify_container(w, &(struct container){pod, s});
        state_metrics_label(w, "image", codec_json_str(s, "image", NULL));
        state_metrics_label(w, "image_id", codec_json_str(s, "imageID", NULL));
        state_metrics_label(w, "container_id", codec_json_str(s, "containerID", NULL));
        state_metrics_end(w, 1);
    }
}

const struct state_metrics_family state_metrics_container_families[] = {
    {"kube_pod_container_info", "Image and id of a container.", METRICS_GAUGE, container_info},
    {"kube_pod_container_resource_requests", "The resource requests of a container.", METRICS_GAUGE,
     requests},
    {"kube_pod_container_resource_limits", "The resource limits of a container.", METRICS_GAUGE,
     limits},
    {"kube_pod_container_status_restarts_total", "Number of restarts of a container.",
     METRICS_COUNTER, restarts},
    {"kube_pod_container_status_ready", "1 when the container is ready.", METRICS_GAUGE,
     container_ready},
    {"kube_pod_container_status_running", "1 when the container runs.", METRICS_GAUGE,
     container_running},
    {"kube_pod_container_status_waiting", "1 when the container waits to run.", METRICS_GAUGE,
     container_waiting},
    {"kube_pod_container_status_waiting_reason", "1 for the reason why a container waits.",
     METRICS_GAUGE, waiting_reason},
    {0},
};
