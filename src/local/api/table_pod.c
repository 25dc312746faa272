// SPDX-License-Identifier: Apache-2.0
// Pods: one word that sums up phase and container states, as kube-apiserver chooses it.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/table.h"

#include <inttypes.h>

struct summary {
    struct gs_buf reason;
    int64_t restarts;
    int64_t last_restart_ms; // 0: none known
    size_t ready;
};

static void set_reason(struct summary *s, const char *prefix, const char *text)
{
    gs_buf_clear(&s->reason);
    gs_buf_addf(&s->reason, "%s%s", prefix, text);
}

static void count_restarts(struct summary *s, const json_t *status)
{
    const char *finished = codec_json_str(status, "lastState", "terminated", "finishedAt", NULL);
    int64_t ms = 0;

    s->restarts += codec_json_int(status, 0, "restartCount", NULL);
    if (!finished)
        return;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(gs_slice_of(finished), &ms);
    if (!err && ms > s->last_restart_ms)
        s->last_restart_ms = ms;
}

static void set_terminated(struct summary *s, const char *prefix, const json_t *terminated)
{
    const char *reason = codec_json_str(terminated, "reason", NULL);
    int64_t signal = codec_json_int(terminated, 0, "signal", NULL);

    if (reason && *reason) {
        set_reason(s, prefix, reason);
        return;
    }
    gs_buf_clear(&s->reason);
    gs_buf_addf(&s->reason, "%s%s:%" PRId64, prefix, signal ? "Signal" : "ExitCode",
                signal ? signal : codec_json_int(terminated, 0, "exitCode", NULL));
}

static bool is_sidecar(const json_t *pod, const char *name)
{
    size_t i;
    json_t *container;

    json_array_foreach (codec_json_get(pod, "spec", "initContainers", NULL), i, container)
        if (gs_streq(codec_json_str(container, "name", NULL), name))
            return gs_streq(codec_json_str(container, "restartPolicy", NULL), "Always");
    return false;
}

// True while an init container has yet to succeed; then the reason says which.
static bool summarise_init(const json_t *pod, struct summary *s)
{
    size_t i;
    json_t *status;

    json_array_foreach (codec_json_get(pod, "status", "initContainerStatuses", NULL), i, status) {
        const json_t *terminated = codec_json_get(status, "state", "terminated", NULL);
        const char *waiting = codec_json_str(status, "state", "waiting", "reason", NULL);
        count_restarts(s, status);
        if (terminated && codec_json_int(terminated, 0, "exitCode", NULL) == 0)
            continue;
        if (codec_json_bool(status, false, "started", NULL) &&
            is_sidecar(pod, codec_json_str(status, "name", NULL))) {
            s->ready += codec_json_bool(status, false, "ready", NULL);
            continue;
        }
        if (terminated) {
            set_terminated(s, "Init:", terminated);
        } else if (waiting && *waiting && strcmp(waiting, "PodInitializing") != 0) {
            set_reason(s, "Init:", waiting);
        } else {
            gs_buf_clear(&s->reason);
            gs_buf_addf(&s->reason, "Init:%zu/%zu", i,
                        json_array_size(codec_json_get(pod, "spec", "initContainers", NULL)));
        }
        return true;
    }
    return false;
}

static void summarise_containers(const json_t *pod, struct summary *s)
{
    const json_t *statuses = codec_json_get(pod, "status", "containerStatuses", NULL);
    bool running = false;

    s->restarts = 0;
    s->last_restart_ms = 0;
    // Backwards, so that the first container decides.
    for (size_t i = json_array_size(statuses); i-- > 0;) {
        const json_t *status = json_array_get(statuses, i);
        const char *waiting = codec_json_str(status, "state", "waiting", "reason", NULL);
        const json_t *terminated = codec_json_get(status, "state", "terminated", NULL);
        count_restarts(s, status);
        if (waiting && *waiting) {
            set_reason(s, "", waiting);
        } else if (terminated) {
            set_terminated(s, "", terminated);
        } else if (codec_json_bool(status, false, "ready", NULL) &&
                   codec_json_get(status, "state", "running", NULL)) {
            running = true;
            s->ready++;
        }
    }
    if (running && gs_streq(s->reason.data, "Completed"))
        set_reason(s, "", kube_condition_true(pod, "Ready") ? "Running" : "NotReady");
}

static void summarise(const json_t *pod, struct summary *s)
{
    const char *phase = kube_phase(pod);
    const char *reason = codec_json_str(pod, "status", "reason", NULL);
    const json_t *scheduled = kube_condition(pod, "PodScheduled");

    set_reason(s, "", reason && *reason ? reason : phase ? phase : "Unknown");
    if (gs_streq(codec_json_str(scheduled, "reason", NULL), "SchedulingGated"))
        set_reason(s, "", "SchedulingGated");
    bool initialising = summarise_init(pod, s);
    if (!initialising || kube_condition_true(pod, "Initialized"))
        summarise_containers(pod, s);
    if (!kube_is_deleting(pod))
        return;
    if (gs_streq(reason, "NodeLost"))
        set_reason(s, "", "Unknown");
    else if (!gs_streq(phase, "Succeeded") && !gs_streq(phase, "Failed"))
        set_reason(s, "", "Terminating");
}

static void cell_restarts(json_t *cells, const struct summary *s, int64_t now_ms)
{
    char age[LOCAL_API_AGE_SIZE];
    struct gs_buf text = {0};

    gs_buf_addf(&text, "%" PRId64, s->restarts);
    if (s->restarts && s->last_restart_ms)
        gs_buf_addf(&text, " (%s ago)",
                    local_api_format_duration(now_ms - s->last_restart_ms, age));
    local_api_cell_buf(cells, &text, "0");
}

static void cell_gates(json_t *cells, const json_t *pod)
{
    const json_t *gates = codec_json_get(pod, "spec", "readinessGates", NULL);
    size_t n = json_array_size(gates), passed = 0, i;
    struct gs_buf text = {0};
    json_t *gate;

    json_array_foreach ((json_t *)gates, i, gate) {
        const char *type = codec_json_str(gate, "conditionType", NULL);
        passed += type && kube_condition_true(pod, type);
    }
    if (n > 0)
        gs_buf_addf(&text, "%zu/%zu", passed, n);
    local_api_cell_buf(cells, &text, "<none>");
}

static size_t n_containers(const json_t *pod)
{
    size_t n = json_array_size(codec_json_get(pod, "spec", "containers", NULL)), i;
    json_t *container;

    json_array_foreach (codec_json_get(pod, "spec", "initContainers", NULL), i, container)
        n += gs_streq(codec_json_str(container, "restartPolicy", NULL), "Always");
    return n;
}

static void pod_cells(const json_t *pod, json_t *cells, int64_t now_ms)
{
    struct summary s = {0};

    summarise(pod, &s);
    local_api_cell_name(cells, pod);
    json_array_append_new(cells, codec_json_strf("%zu/%zu", s.ready, n_containers(pod)));
    local_api_cell_buf(cells, &s.reason, "");
    cell_restarts(cells, &s, now_ms);
    local_api_cell_age(cells, pod, now_ms);
    local_api_cell_or(cells, codec_json_str(pod, "status", "podIP", NULL), "<none>");
    local_api_cell_or(cells, kube_pod_node(pod), "<none>");
    local_api_cell_or(cells, codec_json_str(pod, "status", "nominatedNodeName", NULL), "<none>");
    cell_gates(cells, pod);
}

const struct local_api_table local_api_table_pods = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Ready", "string", 0, "The aggregate readiness state of this pod for accepting traffic."},
        {"Status", "string", 0, "The aggregate status of the containers in this pod."},
        {"Restarts", "string", 0,
         "The number of times the containers in this pod have been restarted and when the last "
         "container in this pod has restarted."},
        LOCAL_API_COLUMN_AGE,
        {"IP", "string", 1, "podIP address allocated to the pod."},
        {"Node", "string", 1, "The node that the pod runs on."},
        {"Nominated Node", "string", 1, "The node that preemption picked for the pod."},
        {"Readiness Gates", "string", 1, "Extra conditions for the pod's readiness."},
        {0}},
    pod_cells};
