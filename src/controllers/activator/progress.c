// SPDX-License-Identifier: Apache-2.0
// What a Service with waiting connections waits for. Pods are listed only while something waits.
// While they can become ready, connections are held beyond their limit; when none can, callers get
// the reason instead of a timeout.
#include "activator/activator_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "diagnosis/diagnosis.h"
#include "kube/object.h"
#include "kube/trim.h"

#define POLL_MS       1000
#define PATIENCE_MS   (60 * 60 * 1000)     // for a starting pod, until its starts are learned
#define LEARNED       3                    // starts that suffice for an expectation
#define MIN_EXTEND_MS (30 * 1000)          // several readings
#define NODES_NS      (10 * GS_NS_PER_SEC) // between lists of nodes, which can be long
#define STRIKES       2                    // readings in a row, because states pass by

struct activator_progress {
    struct activator_env *env;
    struct activator_gate *gate;
    struct activator_target target; // borrowed texts
    const json_t *service;          // borrowed; set by each call
    struct gs_timer *timer;
    struct kube_request *request;
    json_t *pods; // while the nodes are read
    unsigned strikes;
    char *problem;  // of all pods; NULL: none
    char *starting; // what is on its way; NULL: nothing
};

static void poll(void *arg);

static bool has_waiting(const struct activator_progress *p)
{
    struct activator_gate_stats s;
    activator_gate_stats(p->gate, &s);
    return s.waiting > 0;
}

static void poll_again(struct activator_progress *p)
{
    if (has_waiting(p) || p->problem)
        gs_timer_start(p->timer, poll, POLL_MS);
}

// --- what follows from a reading ---

static void set_starting(struct activator_progress *p, char *text)
{
    free(p->starting);
    p->starting = text;
    // Until the next readings. Without them, the limit applies again.
    int64_t ms = p->env->cfg.hold_ms > MIN_EXTEND_MS ? p->env->cfg.hold_ms : MIN_EXTEND_MS;
    activator_gate_extend(p->gate, text ? ms : 0);
}

static void set_works(struct activator_progress *p, char *starting)
{
    p->strikes = 0;
    if (p->problem) {
        gs_info("activator", "Service %s/%s: can be activated again", kube_namespace(p->service),
                kube_name(p->service));
        activator_gate_fail(p->gate, NULL);
        free(GS_TAKE(p->problem));
    }
    set_starting(p, starting);
}

// Takes the text.
static void set_fails(struct activator_progress *p, char *text, const char *remedy)
{
    if (++p->strikes < STRIKES || (p->problem && gs_streq(p->problem, text))) {
        free(text);
        return;
    }
    gs_warn("activator", "Service %s/%s: cannot be activated: %s; %s", kube_namespace(p->service),
            kube_name(p->service), text, remedy);
    kube_event(p->env->recorder, p->service, "Warning", "CannotActivate", "%s; %s", text, remedy);
    free(p->problem);
    p->problem = text;
    set_starting(p, NULL);
    activator_gate_fail(p->gate, text);
}

// --- pods ---

static bool counts(const json_t *pod)
{
    return !kube_is_deleting(pod) && !kube_pod_has_ended(pod);
}

// 0: a container does not run.
static int64_t last_start_ms(const json_t *pod)
{
    int64_t last = 0;
    size_t i;
    const json_t *c;
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, c) {
        int64_t at = kube_time_ms(codec_json_get(c, "state", "running", "startedAt", NULL), 0);
        if (!at)
            return 0;
        last = at > last ? at : last;
    }
    return last;
}

// A pod whose containers run loads its model, for which the time is learned: twice what 99 of 100
// took. A node or an image takes as long as it takes.
int64_t activator_progress_patience_ms(const struct startup_learner *starts, const json_t *pod)
{
    struct startup_expected e = {0};
    int64_t started_ms = last_start_ms(pod);
    startup_expected_of_pod(starts, pod, &e);
    const struct startup_quantiles *load = &e.phases[STARTUP_LOAD];
    if (!started_ms || e.basis > STARTUP_BASIS_PATHS || load->n < LEARNED)
        return PATIENCE_MS;
    return started_ms - kube_created_ms(pod, started_ms) + 2 * load->p99_ms;
}

static char *starting_text(const struct activator_progress *p, const json_t *pod, int64_t now_ms)
{
    int64_t age_ms = now_ms - kube_created_ms(pod, now_ms);
    const char *phase = kube_phase(pod), *does = "starting";
    if (age_ms > activator_progress_patience_ms(p->env->starts, pod))
        return NULL;
    if (kube_condition_true(pod, "Ready"))
        does = "ready and loads its model";
    else if (gs_streq(phase ? phase : "", "Running"))
        does = "running and not ready";
    return gs_format("pod %s is %s since %lld s", kube_name(pod), does, (long long)(age_ms / 1000));
}

static void judge_pods(struct activator_progress *p, const json_t *nodes)
{
    int64_t now_ms = gs_unix_ms();
    const json_t *pod, *coming = NULL;
    DIAGNOSIS_AUTO struct diagnosis worst = {0};
    size_t i;
    json_array_foreach (p->pods, i, pod) {
        const struct diagnosis_input in = {.pod = pod, .nodes = nodes, .now_ms = now_ms};
        DIAGNOSIS_AUTO struct diagnosis d = {0};
        startup_observe_pod(p->env->starts, pod, NULL, now_ms);
        if (!counts(pod))
            continue;
        if (!diagnosis_of(&in, &d) || !diagnosis_lasts(d.cause)) {
            coming = pod;
        } else if (!worst.text) {
            worst = d;
            d = (struct diagnosis){0};
        }
    }
    // With an endpoint, connections wait for their turn there, for which they have their limit.
    bool awaits = has_waiting(p) && !activator_gate_has_endpoints(p->gate);
    if (coming || !worst.text)
        set_works(p, coming && awaits ? starting_text(p, coming, now_ms) : NULL);
    else
        set_fails(p, gs_strdup(worst.text), worst.remedy ? worst.remedy : "");
}

static void end_poll(struct activator_progress *p)
{
    json_decref(GS_TAKE(p->pods));
    poll_again(p);
}

static void take_node(void *arg, json_t *node)
{
    (void)arg;
    kube_trim_node(node);
}

static void on_nodes(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_progress *p = arg;
    struct activator_env *env = p->env;
    p->request = NULL;
    (void)status;
    if (!err) {
        json_decref(env->nodes);
        env->nodes = json_incref(json_object_get(body, "items"));
    }
    gs_error_free(err); // without nodes, the words of the scheduler remain
    judge_pods(p, env->nodes);
    end_poll(p);
}

// False: the last list is new enough, for this and all other Services.
static bool read_nodes(struct activator_progress *p)
{
    struct activator_env *env = p->env;
    int64_t now_ns = gs_mono_ns();
    if (env->nodes_ns && now_ns - env->nodes_ns < NODES_NS)
        return false;
    env->nodes_ns = now_ns;
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, KUBE_NODES, NULL, NULL, NULL);
    p->request = kube_list_pages(env->client, path.data, take_node, on_nodes, p);
    return true;
}

// --- a workload without pods ---

// The API refuses its pods, for example because of a quota.
static void on_workload(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_progress *p = arg;
    const json_t *c = kube_condition(body, "ReplicaFailure");
    const char *message = codec_json_str(c, "message", NULL);
    p->request = NULL;
    if (status == 404) {
        set_fails(p, gs_format("the %s %s does not exist", p->target.kind, p->target.name),
                  "correct the annotation " ACTIVATOR_ANNOTATION);
    } else if (message && gs_streq(codec_json_str(c, "status", NULL), "True")) {
        GS_AUTO_FREE char *owner = gs_format("deployment %s", p->target.name);
        GS_AUTO_FREE char *remedy =
            diagnosis_of_refusal(message, kube_namespace(p->service), owner);
        set_fails(p, gs_strdup(message), remedy);
    } else if (!err) { // else nothing is known
        set_works(p, NULL);
    }
    gs_error_free(err);
    end_poll(p);
}

static bool read_workload(struct activator_progress *p)
{
    if (!gs_streq(p->target.kind, "Deployment"))
        return false;
    p->request = kube_get(p->env->client, KUBE_DEPLOYMENTS, kube_namespace(p->service),
                          p->target.name, NULL, on_workload, p);
    return true;
}

// --- reading ---

static bool lacks_node(const json_t *pods)
{
    size_t i;
    const json_t *pod;
    json_array_foreach (pods, i, pod)
        if (counts(pod) && !kube_pod_node(pod))
            return true;
    return false;
}

static bool is_empty(const json_t *pods)
{
    size_t i;
    const json_t *pod;
    json_array_foreach (pods, i, pod)
        if (counts(pod))
            return false;
    return true;
}

static void on_pods(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_progress *p = arg;
    (void)status;
    p->request = NULL;
    if (err) {
        gs_debug("activator", "pods of the Service %s/%s: %s", kube_namespace(p->service),
                 kube_name(p->service), gs_error_message(err));
        gs_error_free(err);
        poll_again(p);
        return;
    }
    p->pods = json_incref(json_object_get(body, "items"));
    if (is_empty(p->pods) && read_workload(p))
        return;
    bool lacks = lacks_node(p->pods);
    if (lacks && read_nodes(p))
        return;
    judge_pods(p, lacks ? p->env->nodes : NULL);
    end_poll(p);
}

static char *selector_query(const json_t *service)
{
    struct gs_buf out = {0};
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)codec_json_get(service, "spec", "selector", NULL), name, value) {
        gs_buf_add_str(&out, out.len ? "," : "labelSelector=");
        for (const char *c = name; *c; c++)
            gs_buf_addf(&out, *c == '/' ? "%%2F" : "%c", *c);
        gs_buf_addf(&out, "%%3D%s", json_string_value(value));
    }
    return gs_buf_take(&out);
}

static void poll(void *arg)
{
    struct activator_progress *p = arg;
    GS_AUTO_FREE char *query = selector_query(p->service);
    if (!p->request && *query)
        p->request =
            kube_list(p->env->client, KUBE_PODS, kube_namespace(p->service), query, on_pods, p);
}

// --- public ---

struct activator_progress *activator_progress_new(struct activator_env *env,
                                                  struct activator_gate *gate,
                                                  const struct activator_target *target)
{
    struct activator_progress *p = gs_alloc(sizeof(*p));
    p->env = env;
    p->gate = gate;
    p->target = *target;
    p->timer = gs_timer_new(env->loop, p);
    return p;
}

void activator_progress_check(struct activator_progress *p, const json_t *service)
{
    p->service = service;
    if (!p->request && !gs_timer_is_active(p->timer))
        poll_again(p);
}

void activator_progress_ready(struct activator_progress *p)
{
    bool first = p->starting || p->problem;
    p->strikes = 0;
    free(GS_TAKE(p->problem));
    set_starting(p, NULL);
    if (first && !p->request) // its start is learned
        gs_timer_start(p->timer, poll, POLL_MS);
}

const char *activator_progress_problem(const struct activator_progress *p)
{
    return p->problem;
}

const char *activator_progress_starting(const struct activator_progress *p)
{
    return p->starting;
}

void activator_progress_free(struct activator_progress *p)
{
    if (!p)
        return;
    kube_request_cancel(p->request);
    gs_timer_free(p->timer);
    json_decref(p->pods);
    free(p->problem);
    free(p->starting);
    free(p);
}
