// SPDX-License-Identifier: Apache-2.0
// Why one pod waits, and what is coming for it.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/inspect/inspect_private.h"

#define INITIAL_BACKOFF_MS (INT64_C(300) * 1000) // --initial-node-group-backoff-duration

// --- events ---

static bool is_about(const json_t *event, const json_t *pod)
{
    const json_t *about = json_object_get(event, "involvedObject");
    const char *uid = codec_json_str(about, "uid", NULL);

    return gs_streq(codec_json_str(about, "kind", NULL), "Pod") &&
           gs_streq(codec_json_str(about, "namespace", NULL), kube_namespace(pod)) &&
           gs_streq(codec_json_str(about, "name", NULL), kube_name(pod)) &&
           (!uid || !*uid || gs_streq(uid, kube_uid(pod)));
}

// The newest event about the pod; NULL: none.
static const json_t *last_event(const struct inspect_input *in, const json_t *pod,
                                const char *component, const char *reason)
{
    const json_t *found = NULL;
    size_t i;
    json_t *event;

    json_array_foreach ((json_t *)in->events, i, event)
        if (inspect_event_is(event, component, reason) && is_about(event, pod) &&
            (!found || kube_event_ms(event) >= kube_event_ms(found)))
            found = event;
    return found;
}

// --- where the pod is in its start ---

static const char *waiting_reason(const json_t *pod, const char **ret_message)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    size_t i;
    json_t *c;

    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (codec_json_get(pod, "status", lists[l], NULL), i, c) {
            const char *reason = codec_json_str(c, "state", "waiting", "reason", NULL);
            if (reason && strcmp(reason, "PodInitializing") != 0) {
                *ret_message = codec_json_str(c, "state", "waiting", "message", NULL);
                return reason;
            }
        }
    return NULL;
}

static void set_stage(json_t *out, const json_t *pod)
{
    const json_t *scheduled = kube_condition(pod, "PodScheduled");
    const char *reason = codec_json_str(scheduled, "reason", NULL);
    const char *message = codec_json_str(scheduled, "message", NULL);
    const char *node = kube_pod_node(pod);
    const char *phase = kube_phase(pod);
    const char *stage = NULL;

    if (kube_pod_has_ended(pod)) {
        stage = phase;
        reason = codec_json_str(pod, "status", "reason", NULL);
        message = codec_json_str(pod, "status", "message", NULL);
    } else if (kube_is_deleting(pod)) {
        stage = "Terminating";
        reason = message = NULL;
    } else if (node && kube_condition_true(pod, "Ready")) {
        stage = "Ready";
        reason = message = NULL;
    } else if (node) {
        reason = waiting_reason(pod, &message);
        stage = reason ? "Starting" : gs_streq(phase, "Running") ? "NotReady" : "Starting";
        if (!reason)
            message = codec_json_str(kube_condition(pod, "Ready"), "message", NULL);
    } else {
        stage = reason ? reason : "NotScheduledYet";
        reason = NULL;
    }
    codec_json_set_str(out, "stage", stage);
    codec_json_set_str(out, "reason", reason);
    codec_json_set_str(out, "message", message);
    codec_json_set_str(out, "node", node);
}

static json_t *events_of(const struct inspect_input *in, const json_t *pod)
{
    json_t *out = json_array();
    size_t i;
    json_t *event;

    json_array_foreach ((json_t *)in->events, i, event)
        if (is_about(event, pod))
            json_array_append(out, event);
    return out;
}

// The pools of gpuscale up; NULL: those of the cluster are not known.
static const json_t *pools_of(const struct inspect_input *in)
{
    return json_object_get(in->autoscaler, "pools");
}

static void set_diagnosis(json_t *out, const struct inspect_input *in, const json_t *pod)
{
    CODEC_AUTO_JSON json_t *events = events_of(in, pod);
    const struct diagnosis_input input = {.pod = pod,
                                          .events = events,
                                          .nodes = in->nodes,
                                          .pods = in->pods,
                                          .pools = pools_of(in),
                                          .last_line = in->last_line,
                                          .arg = in->arg,
                                          .now_ms = in->now_ms};
    DIAGNOSIS_AUTO struct diagnosis d = {0};

    if (!diagnosis_of(&input, &d))
        return;
    codec_json_set_str(out, "cause", diagnosis_cause_name(d.cause));
    codec_json_set_str(out, "container", d.container);
    codec_json_set_str(out, "reason",
                       gs_streq(d.reason, codec_json_str(out, "stage", NULL)) ? NULL : d.reason);
    codec_json_set_str(out, "message", d.text);
    codec_json_set_str(out, "remedy", d.remedy);
}

// --- what is coming ---

static void set_expected(json_t *coming, const json_t *startup, int64_t since_ms)
{
    int64_t p90 = codec_json_int(startup, -1, "p90Seconds", NULL);

    if (p90 < 0 || since_ms == 0)
        return;
    kube_set_time(coming, "expected", since_ms + p90 * 1000);
    json_object_set(coming, "startup", (json_t *)startup);
}

// What the autoscaler of gpuscale knows about the pod; NULL: nothing.
static const json_t *state_of(const struct inspect_input *in, const json_t *pod)
{
    size_t i;
    json_t *p;

    json_array_foreach (json_object_get(in->autoscaler, "pods"), i, p)
        if (gs_streq(codec_json_str(p, "namespace", NULL), kube_namespace(pod)) &&
            gs_streq(codec_json_str(p, "name", NULL), kube_name(pod)))
            return p;
    return NULL;
}

// The text of the decision for the pool at that time; NULL: it is no longer kept.
static const char *decision_text(const struct inspect_input *in, const char *pool,
                                 const char *since)
{
    GS_AUTO_FREE char *chose = gs_format("chose %s:", pool);
    size_t i;
    json_t *d;

    json_array_foreach (json_object_get(in->autoscaler, "decisions"), i, d) {
        const char *text = codec_json_str(d, "text", NULL);
        if (text && strstr(text, chose) && gs_streq(codec_json_str(d, "time", NULL), since))
            return text;
    }
    return NULL;
}

static json_t *coming_by_state(const struct inspect_input *in, const json_t *pod)
{
    const json_t *p = state_of(in, pod);
    const char *pool = codec_json_str(p, "pool", NULL);
    const char *since = codec_json_str(p, "since", NULL);

    if (!pool)
        return NULL;
    json_t *out = json_pack("{s:s, s:s}", "by", "gpuscale", "pool", pool);
    codec_json_set_str(out, "since", since);
    codec_json_set_str(out, "expected", codec_json_str(p, "expected", NULL));
    codec_json_set_str(out, "choice", decision_text(in, pool, since));
    return out;
}

static const json_t *startup_for(const json_t *pools, const char *group)
{
    const char *name;
    json_t *s;

    json_object_foreach ((json_t *)pools, name, s)
        if (inspect_group_is(group, name))
            return s;
    return NULL;
}

// Whether the scale-up has failed since: another one was refused, or the group is in back-off.
static bool has_failed(const struct inspect_input *in, const json_t *pod, const char *group,
                       int64_t since_ms)
{
    const json_t *no = last_event(in, pod, "cluster-autoscaler", "NotTriggerScaleUp");
    CODEC_AUTO_JSON json_t *groups = inspect_status_groups(in->status);
    const json_t *g = json_object_get(groups, group);

    return (no && kube_event_ms(no) >= since_ms) ||
           (gs_streq(codec_json_str(g, "scaleUp", NULL), "Backoff") &&
            kube_time_ms(json_object_get(g, "since"), 0) >= since_ms);
}

static json_t *coming_by_event(const struct inspect_input *in, const json_t *pod,
                               const json_t *startup)
{
    const json_t *event = last_event(in, pod, "cluster-autoscaler", "TriggeredScaleUp");
    const char *message = codec_json_str(event, "message", NULL);
    struct gs_slice rest = gs_slice_of(message);
    struct inspect_scale_up up;

    if (!message || !inspect_next_scale_up(&rest, &up))
        return NULL;
    GS_AUTO_FREE char *group = gs_slice_dup(up.group);
    int64_t since = kube_event_ms(event);
    if (has_failed(in, pod, group, since))
        return NULL;
    json_t *out = json_pack("{s:s, s:s}", "by", "cluster-autoscaler", "pool", group);
    codec_json_set_int(out, "from", up.from);
    codec_json_set_int(out, "to", up.to);
    codec_json_set_int(out, "max", up.max);
    kube_set_time(out, "since", since);
    set_expected(out, startup_for(startup, group), since);
    return out;
}

// "Pod should schedule on: nodeclaim/NAME, node/NAME"
static json_t *coming_by_karpenter(const struct inspect_input *in, const json_t *pod,
                                   const json_t *startup)
{
    static const char head[] = "nodeclaim/";
    const json_t *event = last_event(in, pod, "karpenter", "Nominated");
    const char *message = codec_json_str(event, "message", NULL);
    const char *at = message ? strstr(message, head) : NULL;
    size_t i;
    json_t *claim;

    if (!at)
        return NULL;
    GS_AUTO_FREE char *name = gs_strndup(at + strlen(head), strcspn(at + strlen(head), ", "));
    int64_t since = kube_event_ms(event);
    json_t *out = json_pack("{s:s, s:s}", "by", "karpenter", "nodeClaim", name);
    json_array_foreach ((json_t *)in->claims, i, claim)
        if (gs_streq(kube_name(claim), name)) {
            const char *pool = kube_label(claim, "karpenter.sh/nodepool");
            codec_json_set_str(out, "pool", pool);
            since = kube_created_ms(claim, since);
            if (pool)
                set_expected(out, json_object_get(startup, pool), since);
        }
    kube_set_time(out, "since", since);
    return out;
}

// --- why nothing is coming ---

static void add_refusals(const struct inspect_input *in, const json_t *pod, json_t *out)
{
    const json_t *no = last_event(in, pod, "cluster-autoscaler", "NotTriggerScaleUp");
    const json_t *karpenter = last_event(in, pod, "karpenter", "FailedScheduling");
    const json_t *event = no ? no : karpenter;

    if (!event)
        return;
    json_t *refused = json_object();
    codec_json_set_str(refused, "by", no ? "cluster-autoscaler" : "karpenter");
    codec_json_set_str(refused, "message", codec_json_str(event, "message", NULL));
    kube_set_time(refused, "time", kube_event_ms(event));
    json_object_set_new(out, "refused", refused);
}

static void add_backoffs(const struct inspect_input *in, json_t *out)
{
    CODEC_AUTO_JSON json_t *groups = inspect_status_groups(in->status);
    json_t *list = json_array(), *group;
    const char *name;
    size_t i;

    json_object_foreach (groups, name, group) {
        int64_t since = kube_time_ms(json_object_get(group, "since"), 0);
        if (!gs_streq(codec_json_str(group, "scaleUp", NULL), "Backoff"))
            continue;
        json_t *b = json_pack("{s:s}", "pool", name);
        kube_set_time(b, "since", since);
        kube_set_time(b, "untilAtLeast", since ? since + INITIAL_BACKOFF_MS : 0);
        codec_json_set_str(b, "error", codec_json_str(group, "error", NULL));
        json_array_foreach (json_object_get(in->autoscaler, "pools"), i, group)
            if (gs_streq(codec_json_str(group, "name", NULL), name))
                codec_json_set_str(b, "until", codec_json_str(group, "backoffUntil", NULL));
        json_array_append_new(list, b);
    }
    json_object_set_new(out, "backoff", list);
}

static const json_t *find_pod(const struct inspect_input *in, const char *ns, const char *name)
{
    size_t i;
    json_t *pod;

    json_array_foreach ((json_t *)in->pods, i, pod)
        if (gs_streq(kube_namespace(pod), ns) && gs_streq(kube_name(pod), name))
            return pod;
    return NULL;
}

json_t *inspect_pod(const struct inspect_input *in, const char *ns, const char *name)
{
    const json_t *pod = find_pod(in, ns, name);

    if (!pod)
        return NULL;
    GS_AUTO_FREE char *workload = kube_workload(pod);
    CODEC_AUTO_JSON json_t *pools = inspect_pool_startup(in);
    json_t *startup = inspect_workload_startup(in, ns, workload);
    json_t *out = json_object();
    codec_json_set_str(out, "namespace", ns);
    codec_json_set_str(out, "name", name);
    codec_json_set_str(out, "workload", workload);
    codec_json_set_int(out, "gpus", inspect_pod_gpus(pod));
    kube_set_time(out, "now", in->now_ms);
    kube_set_time(out, "created", kube_created_ms(pod, 0));
    set_stage(out, pod);
    set_diagnosis(out, in, pod);
    if (startup)
        json_object_set_new(out, "startup", startup);
    if (json_object_get(out, "node") || kube_pod_has_ended(pod) || kube_is_deleting(pod))
        return out;
    json_t *coming = coming_by_state(in, pod);
    if (!coming && !state_of(in, pod))
        coming = coming_by_event(in, pod, pools);
    if (!coming)
        coming = coming_by_karpenter(in, pod, pools);
    if (coming)
        json_object_set_new(out, "coming", coming);
    else
        add_refusals(in, pod, out);
    add_backoffs(in, out);
    return out;
}

// --- text ---

static const char *text_of(const json_t *obj, const char *key)
{
    return codec_json_str(obj, key, NULL);
}

// " (in 12s)", " (12s ago)" of a time of the explanation.
static void add_distance(const json_t *out, const char *time, struct gs_buf *text)
{
    char buf[GS_RFC3339_SIZE];
    CODEC_AUTO_JSON json_t *value = json_string(time ? time : "");
    int64_t at = kube_time_ms(value, 0), now = kube_time_ms(json_object_get(out, "now"), 0);

    if (at > now)
        gs_buf_addf(text, " (in %s)", inspect_duration(at - now, buf));
    else if (at)
        gs_buf_addf(text, " (%s ago)", inspect_duration(now - at, buf));
}

static void add_stage(const json_t *e, struct gs_buf *out)
{
    const char *stage = text_of(e, "stage"), *reason = text_of(e, "reason");
    const char *message = text_of(e, "message"), *node = text_of(e, "node");
    char age[GS_RFC3339_SIZE];
    int64_t created = kube_time_ms(json_object_get(e, "created"), 0);
    int64_t now = kube_time_ms(json_object_get(e, "now"), 0);

    gs_buf_addf(out, "Pod %s/%s (%s, ", text_of(e, "namespace"), text_of(e, "name"),
                text_of(e, "workload"));
    inspect_add_gpus(codec_json_int(e, 0, "gpus", NULL), out);
    gs_buf_addf(out, "): %s", stage);
    if (node)
        gs_buf_addf(out, " on node %s", node);
    if (created)
        gs_buf_addf(out, ", created %s ago", inspect_duration(now - created, age));
    gs_buf_add_str(out, "\n");
    if (reason || message)
        gs_buf_addf(out, "  Why: %s%s%s\n", reason ? reason : "", reason && message ? ": " : "",
                    message ? message : "");
    if (text_of(e, "remedy"))
        gs_buf_addf(out, "  What to do: %s\n", text_of(e, "remedy"));
}

static void add_coming(const json_t *e, struct gs_buf *out)
{
    const json_t *c = json_object_get(e, "coming");
    const char *since = text_of(c, "since"), *expected = text_of(c, "expected");
    const char *claim = text_of(c, "nodeClaim"), *pool = text_of(c, "pool");

    if (!c)
        return;
    gs_buf_addf(out, "  Coming: a node of pool %s", pool ? pool : "-");
    if (claim)
        gs_buf_addf(out, " (nodeclaim/%s)", claim);
    if (json_object_get(c, "max"))
        gs_buf_addf(out, ", %lld->%lld (max: %lld)", (long long)codec_json_int(c, 0, "from", NULL),
                    (long long)codec_json_int(c, 0, "to", NULL),
                    (long long)codec_json_int(c, 0, "max", NULL));
    if (since) {
        gs_buf_addf(out, ", ordered by %s at %s", text_of(c, "by"), since);
        add_distance(e, since, out);
    }
    gs_buf_add_str(out, "\n");
    if (text_of(c, "choice"))
        gs_buf_addf(out, "  Choice: %s\n", text_of(c, "choice"));
    if (expected) {
        gs_buf_addf(out, "  Expected: %s", expected);
        add_distance(e, expected, out);
        gs_buf_add_str(out, "\n");
    } else {
        gs_buf_add_str(out, "  Expected: unknown: no node of the pool has started yet\n");
    }
}

static void add_nothing_coming(const json_t *e, struct gs_buf *out)
{
    const json_t *refused = json_object_get(e, "refused");

    if (json_object_get(e, "coming") || text_of(e, "node") || !json_object_get(e, "backoff"))
        return;
    if (refused) {
        gs_buf_addf(out, "  Coming: nothing. %s at %s", text_of(refused, "by"),
                    text_of(refused, "time"));
        add_distance(e, text_of(refused, "time"), out);
        gs_buf_addf(out, ": %s\n", text_of(refused, "message"));
    } else {
        gs_buf_add_str(out, "  Coming: nothing. No node autoscaler has reported about this pod.\n");
    }
}

static void add_backoff_lines(const json_t *e, struct gs_buf *out)
{
    size_t i;
    json_t *b;

    json_array_foreach (json_object_get(e, "backoff"), i, b) {
        const char *until = text_of(b, "until"), *least = text_of(b, "untilAtLeast");
        gs_buf_addf(out, "  Back-off: pool %s", text_of(b, "pool"));
        if (text_of(b, "since"))
            gs_buf_addf(out, " since %s", text_of(b, "since"));
        if (until || least) {
            gs_buf_addf(out, ", until %s%s", until ? "" : "at least ", until ? until : least);
            add_distance(e, until ? until : least, out);
        }
        if (text_of(b, "error"))
            gs_buf_addf(out, ": %s", text_of(b, "error"));
        gs_buf_add_str(out, "\n");
    }
}

static void add_startup(const json_t *e, struct gs_buf *out)
{
    const json_t *s = json_object_get(e, "startup");

    if (!s)
        return;
    gs_buf_addf(out, "  Start of a pod of %s: ", text_of(e, "workload"));
    inspect_startup_text(s, out);
    gs_buf_add_str(out, "\n");
}

void inspect_pod_text(const json_t *explanation, struct gs_buf *out)
{
    size_t start = out->len;

    add_stage(explanation, out);
    add_coming(explanation, out);
    add_nothing_coming(explanation, out);
    add_backoff_lines(explanation, out);
    add_startup(explanation, out);
    inspect_make_printable(out, start);
}
