// SPDX-License-Identifier: Apache-2.0
// status of a pod as the API shows it. Source: the Kubernetes API's PodStatus and the kubelet's
// rules for phase and conditions.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "local/kubelet/pod_worker.h"

static json_t *terminated(const struct kubelet_termination *t)
{
    json_t *o = json_object();
    codec_json_set_int(o, "exitCode", t->exit_code);
    codec_json_set_str(o, "reason", t->reason);
    codec_json_set_str(o, "message", t->message);
    kube_set_time(o, "startedAt", t->started_ms);
    kube_set_time(o, "finishedAt", t->finished_ms);
    codec_json_set_str(o, "containerID", t->container_id);
    return json_pack("{s:o}", "terminated", o);
}

const char *kubelet_container_waiting_reason(const struct kubelet_container *c)
{
    if (c->reason)
        return c->reason;
    bool initializing =
        !c->init && !c->ephemeral && c->worker->n_init && !kubelet_worker_initialized(c->worker);
    return initializing ? "PodInitializing" : "ContainerCreating";
}

static json_t *waiting(const struct kubelet_container *c)
{
    json_t *o = json_object();
    codec_json_set_str(o, "reason", kubelet_container_waiting_reason(c));
    if (c->message && *c->message)
        codec_json_set_str(o, "message", c->message);
    return json_pack("{s:o}", "waiting", o);
}

static json_t *running(const struct kubelet_container *c)
{
    json_t *o = json_object();
    kube_set_time(o, "startedAt", c->started_ms);
    return json_pack("{s:o}", "running", o);
}

static json_t *state(const struct kubelet_container *c)
{
    if (c->state == KUBELET_RUNNING)
        return running(c);
    return c->state == KUBELET_EXITED ? terminated(&c->current) : waiting(c);
}

static bool succeeded_init(const struct kubelet_container *c)
{
    return c->init && c->state == KUBELET_EXITED && c->current.exit_code == 0;
}

static json_t *container_status(const struct kubelet_container *c)
{
    const char *image = codec_json_str(kubelet_container_spec(c), "image", NULL);
    json_t *o = json_object();
    codec_json_set_str(o, "name", c->name);
    json_object_set_new(o, "state", state(c));
    json_object_set_new(o, "lastState", c->last.set ? terminated(&c->last) : json_object());
    codec_json_set_bool(o, "ready",
                        !c->ephemeral && (succeeded_init(c) || kubelet_container_ready(c)));
    if (!c->ephemeral)
        codec_json_set_bool(o, "started", c->state == KUBELET_RUNNING && c->started);
    codec_json_set_int(o, "restartCount", c->restart_count);
    codec_json_set_str(o, "image", c->image && *c->image ? c->image : image ? image : "");
    codec_json_set_str(o, "imageID", c->has_run && c->image ? c->image : "");
    if (c->container_id)
        codec_json_set_str(o, "containerID", c->container_id);
    return o;
}

// --- phase ---

static bool init_done(const struct kubelet_container *c)
{
    if (kubelet_container_is_sidecar(c))
        return c->state == KUBELET_RUNNING && c->started;
    return succeeded_init(c);
}

// After all containers have begun, init containers do not matter any more (a sidecar may restart).
bool kubelet_worker_initialized(const struct kubelet_worker *w)
{
    bool begun = false;
    for (size_t i = w->n_init; i < w->n_containers; i++)
        begun = begun || w->containers[i].has_run;
    for (size_t i = 0; i < w->n_init && !begun; i++)
        if (!init_done(&w->containers[i]))
            return false;
    return true;
}

static bool init_failed(const struct kubelet_worker *w)
{
    for (size_t i = 0; i < w->n_init; i++) {
        const struct kubelet_container *c = &w->containers[i];
        if (c->state == KUBELET_EXITED && c->current.exit_code != 0 &&
            !kubelet_container_should_restart(c))
            return true;
    }
    return false;
}

const char *kubelet_worker_phase(const struct kubelet_worker *w)
{
    size_t n = w->n_containers - w->n_init, waiting_first = 0, ended = 0, failed = 0;
    if (w->rejected || init_failed(w))
        return "Failed";
    if (!kubelet_worker_initialized(w))
        return "Pending";
    for (size_t i = w->n_init; i < w->n_containers; i++) {
        const struct kubelet_container *c = &w->containers[i];
        bool final = c->state == KUBELET_EXITED &&
                     (w->terminating || w->gone || !kubelet_container_should_restart(c));
        waiting_first += c->state == KUBELET_WAITING && !c->last.set;
        ended += final;
        failed += final && c->current.exit_code != 0;
    }
    if (waiting_first)
        return "Pending";
    if (ended < n || n == 0)
        return "Running";
    return failed ? "Failed" : "Succeeded";
}

// --- conditions ---

static void add_condition(struct kubelet_worker *w, const char *type, bool ok, const char *reason,
                          const char *message)
{
    kube_set_condition(w->conditions, type, ok ? "True" : "False", reason, message, gs_unix_ms());
}

// Names of the containers that are not as they should be: "[a b]". false when all are.
static bool list_unready(const struct kubelet_worker *w, bool init, struct gs_buf *out)
{
    for (size_t i = init ? 0 : w->n_init; i < (init ? w->n_init : w->n_containers); i++) {
        const struct kubelet_container *c = &w->containers[i];
        if (init ? init_done(c) : kubelet_container_ready(c))
            continue;
        gs_buf_addf(out, "%s%s", out->len ? " " : "", c->name);
    }
    return out->len > 0;
}

static bool gates_open(const struct kubelet_worker *w)
{
    size_t i;
    json_t *gate;
    json_array_foreach (kubelet_worker_spec(w, "readinessGates"), i, gate) {
        const char *type = codec_json_str(gate, "conditionType", NULL);
        if (type && !kube_condition_true(w->pod, type))
            return false;
    }
    return true;
}

static void set_initialized(struct kubelet_worker *w, const char *phase)
{
    GS_AUTO_BUF struct gs_buf names = {0}, text = {0};
    bool ok = kubelet_worker_initialized(w);
    if (!ok && list_unready(w, true, &names))
        gs_buf_addf(&text, "containers with incomplete status: [%s]", names.data);
    add_condition(w, "Initialized", ok,
                  ok ? gs_streq(phase, "Succeeded") ? "PodCompleted" : NULL
                     : "ContainersNotInitialized",
                  text.data);
}

static void set_ready(struct kubelet_worker *w, const char *phase)
{
    GS_AUTO_BUF struct gs_buf names = {0}, text = {0};
    bool unready = list_unready(w, false, &names);
    const char *reason = unready ? "ContainersNotReady" : NULL;
    if (gs_streq(phase, "Succeeded"))
        reason = "PodCompleted";
    else if (gs_streq(phase, "Failed"))
        reason = "PodFailed";
    else if (unready)
        gs_buf_addf(&text, "containers with unready status: [%s]", names.data);
    add_condition(w, "ContainersReady", !unready, reason, text.data);
    if (!unready && !gates_open(w))
        add_condition(w, "Ready", false, "ReadinessGatesNotReady",
                      "the status of a pod readiness gate is not \"True\"");
    else
        add_condition(w, "Ready", !unready, reason, text.data);
}

static bool is_ours(const char *type)
{
    static const char *const ours[] = {"PodScheduled", "Initialized", "ContainersReady", "Ready"};
    for (size_t i = 0; i < GS_ARRAY_LEN(ours); i++)
        if (gs_streq(type, ours[i]))
            return true;
    return false;
}

// Times of former transitions, which outlive us, are taken over once.
static void adopt_conditions(struct kubelet_worker *w)
{
    size_t i;
    json_t *condition;
    if (json_array_size(w->conditions))
        return;
    json_array_foreach (codec_json_get(w->pod, "status", "conditions", NULL), i, condition)
        if (is_ours(codec_json_str(condition, "type", NULL)))
            json_array_append_new(w->conditions, json_deep_copy(condition));
}

static json_t *conditions(struct kubelet_worker *w, const char *phase)
{
    adopt_conditions(w);
    add_condition(w, "PodScheduled", true, NULL, NULL);
    set_initialized(w, phase);
    set_ready(w, phase);
    json_t *all = json_deep_copy(w->conditions);
    size_t i;
    json_t *condition;
    json_array_foreach (codec_json_get(w->pod, "status", "conditions", NULL), i, condition)
        if (!is_ours(codec_json_str(condition, "type", NULL)))
            json_array_append(all, condition);
    return all;
}

// --- quality of service ---

static int64_t amount(const json_t *resources, const char *list, const char *name)
{
    int64_t milli = 0;
    const char *text = codec_json_str(resources, list, name, NULL);
    if (text)
        gs_error_free(kube_quantity_parse_milli(gs_slice_of(text), &milli));
    return milli;
}

static void judge_resources(const json_t *container, bool *any, bool *guaranteed)
{
    static const char *const names[] = {"cpu", "memory"};
    const json_t *resources = codec_json_get(container, "resources", NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        int64_t limit = amount(resources, "limits", names[i]);
        int64_t request = amount(resources, "requests", names[i]);
        *any = *any || limit || request;
        *guaranteed = *guaranteed && limit && (!request || request == limit);
    }
}

static const char *qos_class(const struct kubelet_worker *w)
{
    const char *given = codec_json_str(w->pod, "status", "qosClass", NULL);
    bool any = false, guaranteed = true;
    for (size_t i = 0; i < w->n_containers; i++)
        judge_resources(kubelet_container_spec(&w->containers[i]), &any, &guaranteed);
    if (given)
        return given;
    return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

// --- all of it ---

static void add_addresses(json_t *status, const struct kubelet_worker *w)
{
    codec_json_set_str(status, "hostIP", w->k->address);
    json_object_set_new(status, "hostIPs", json_pack("[{s:s}]", "ip", w->k->address));
    if (!w->ip)
        return;
    codec_json_set_str(status, "podIP", w->ip);
    json_object_set_new(status, "podIPs", json_pack("[{s:s}]", "ip", w->ip));
}

json_t *kubelet_worker_status(struct kubelet_worker *w)
{
    const char *phase = kubelet_worker_phase(w);
    json_t *status = json_object();
    codec_json_set_str(status, "phase", phase);
    if (w->rejected) {
        codec_json_set_str(status, "reason", KUBELET_REJECTED_REASON);
        codec_json_set_str(status, "message", w->rejected);
    }
    json_object_set_new(status, "conditions", conditions(w, phase));
    add_addresses(status, w);
    kube_set_time(status, "startTime", w->start_time_ms);
    codec_json_set_str(status, "qosClass", qos_class(w));
    if (w->rejected) // as Kubernetes' kubelet: nothing is said about its containers
        return status;
    json_t *init = json_array(), *mains = json_array();
    for (size_t i = 0; i < w->n_containers; i++)
        json_array_append_new(i < w->n_init ? init : mains, container_status(&w->containers[i]));
    json_object_set_new(status, "containerStatuses", mains);
    if (w->n_init)
        json_object_set_new(status, "initContainerStatuses", init);
    else
        json_decref(init);
    json_t *ephemeral = json_array();
    for (size_t i = 0; i < w->n_ephemeral; i++)
        json_array_append_new(ephemeral, container_status(w->ephemeral[i]));
    if (w->n_ephemeral)
        json_object_set_new(status, "ephemeralContainerStatuses", ephemeral);
    else
        json_decref(ephemeral);
    return status;
}
