// SPDX-License-Identifier: Apache-2.0
// A container's life: waiting -> running -> exited -> (back-off) -> running …
#include "base/clock.h"
#include "base/mem.h"
#include "kube/event.h"
#include "local/kubelet/env_fetch.h"
#include "local/kubelet/handler.h"
#include "local/kubelet/pod_start.h"
#include "local/kubelet/proctree.h"
#include "local/kubelet/shim.h"

#include <errno.h>
#include <string.h>

// Source: the kubelet's documented restart back-off.
enum {
    BACKOFF_FIRST_MS = 10000,
    BACKOFF_MAX_MS = 300000,
    BACKOFF_RESET_MS = 600000,
    SWEEPS = 4,
    SWEEP_MS = 250,
    MIN_GRACE_MS = 2000, // what is left for SIGTERM after a preStop hook that took too long
};

static void termination_finish(struct local_termination *t)
{
    free(t->reason);
    free(t->message);
    free(t->container_id);
    *t = (struct local_termination){0};
}

static void termination_move(struct local_termination *to, struct local_termination *from)
{
    termination_finish(to);
    *to = *from;
    *from = (struct local_termination){0};
}

static void set_waiting_text(struct local_container *c, const char *reason, char *message)
{
    free(c->reason);
    free(c->message);
    c->reason = gs_strdup(reason);
    c->message = message;
}

static void event(struct local_container *c, const char *type, const char *reason, const char *text)
{
    kube_event(c->worker->k->recorder, c->worker->pod, type, reason, "%s", text);
}

static void on_timer(void *arg);
static void on_sweep(void *arg);

void local_container_init(struct local_container *c, struct local_worker *w, bool init,
                          size_t index)
{
    *c = (struct local_container){.worker = w, .init = init, .index = index};
    const char *name = gs_json_str(local_container_spec(c), "name", NULL);
    c->name = gs_strdup(name ? name : "");
    c->timer = local_timer_new(w->k->cluster->loop, on_timer, c);
    c->sweep = local_timer_new(w->k->cluster->loop, on_sweep, c);
}

static void stop_probes(struct local_container *c)
{
    for (size_t i = 0; i < LOCAL_N_PROBES; i++) {
        local_probe_free(c->probes[i]);
        c->probes[i] = NULL;
    }
}

static void drop_hook(struct local_container *c)
{
    local_handler_cancel(c->hook);
    c->hook = NULL;
    c->hook_pending = false;
}

void local_container_finish(struct local_container *c)
{
    stop_probes(c);
    drop_hook(c);
    local_env_fetch_cancel(c->fetch);
    local_process_free(c->process);
    local_timer_free(c->timer);
    local_timer_free(c->sweep);
    free(c->sweep_mark);
    local_words_finish(&c->env);
    free(c->cwd);
    termination_finish(&c->current);
    termination_finish(&c->last);
    free(c->name);
    free(c->reason);
    free(c->message);
    free(c->container_id);
    free(c->image);
    free(c->failed_image);
}

const json_t *local_container_spec(const struct local_container *c)
{
    return json_array_get(local_worker_spec(c->worker, c->init ? "initContainers" : "containers"),
                          c->index);
}

bool local_container_is_sidecar(const struct local_container *c)
{
    return c->init &&
           gs_streq(gs_json_str(local_container_spec(c), "restartPolicy", NULL), "Always");
}

char *local_container_file(const struct local_container *c, unsigned instance, const char *suffix)
{
    GS_AUTO_FREE char *dir = local_worker_path(c->worker, LOCAL_DIR_CONTAINERS, c->name);
    return gs_format("%s/%u.%s", dir, instance, suffix);
}

int local_container_port(const struct local_container *c, const json_t *port)
{
    int64_t number = json_integer_value(port);
    const char *name = json_string_value(port);
    size_t i;
    json_t *entry;
    if (name)
        number = strtol(name, NULL, 10); // "8080" is accepted too
    json_array_foreach (gs_json_get(local_container_spec(c), "ports", NULL), i, entry)
        if (name && gs_streq(gs_json_str(entry, "name", NULL), name))
            number = gs_json_int(entry, 0, "containerPort", NULL);
    return number > 0 && number < 65536 ? (int)number : 0;
}

// --- waiting ---

void local_container_wait(struct local_container *c, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *message = gs_vformat(fmt, ap);
    va_end(ap);
    // Waking for what is known already would bring us back here at once.
    if (c->state == LOCAL_WAITING && gs_streq(c->reason, reason) && gs_streq(c->message, message))
        return;
    if (c->current.set)
        termination_move(&c->last, &c->current);
    c->state = LOCAL_WAITING;
    set_waiting_text(c, reason, GS_TAKE(message));
    local_worker_wake(c->worker);
}

void local_container_retry(struct local_container *c, uint64_t ms)
{
    c->timer_set = true;
    local_timer_start(c->timer, ms);
}

static void on_timer(void *arg)
{
    struct local_container *c = arg;
    c->timer_set = false;
    if (gs_streq(c->reason, "ErrImagePull")) {
        GS_AUTO_FREE char *text = gs_format("Back-off pulling image \"%s\"", c->failed_image);
        event(c, "Normal", "BackOff", text);
        event(c, "Warning", "Failed", "Error: ImagePullBackOff");
        GS_AUTO_FREE char *why = GS_TAKE(c->message);
        local_container_wait(c, "ImagePullBackOff", "%s: ErrImagePull: %s", text, why ? why : "");
    }
    local_worker_wake(c->worker);
}

bool local_container_should_restart(const struct local_container *c)
{
    const char *policy = gs_json_str(c->worker->pod, "spec", "restartPolicy", NULL);
    const struct local_termination *t = c->current.set ? &c->current : &c->last;
    if (local_container_is_sidecar(c))
        return true;
    if (c->init && t->exit_code == 0)
        return false;
    if (gs_streq(policy, "Never"))
        return false;
    return c->init || !gs_streq(policy, "OnFailure") || t->exit_code != 0;
}

// Milliseconds until the next start; moves the back-off on when that is now.
static int64_t restart_delay(struct local_container *c, int64_t now)
{
    const struct local_termination *t = c->current.set ? &c->current : &c->last;
    int64_t finished = t->set ? t->finished_ms : 0;
    if (c->backoff_ms && finished - c->backoff_since_ms > BACKOFF_RESET_MS)
        c->backoff_ms = 0;
    if (c->backoff_ms && now < finished + c->backoff_ms)
        return finished + c->backoff_ms - now;
    c->backoff_ms = c->backoff_ms ? c->backoff_ms * 2 : BACKOFF_FIRST_MS;
    if (c->backoff_ms > BACKOFF_MAX_MS)
        c->backoff_ms = BACKOFF_MAX_MS;
    c->backoff_since_ms = now;
    return 0;
}

static void back_off(struct local_container *c, int64_t delay_ms)
{
    const struct local_worker *w = c->worker;
    char text[GS_RFC3339_SIZE];
    gs_format_duration(c->backoff_ms * GS_NS_PER_MS, text);
    kube_event(w->k->recorder, w->pod, "Warning", "BackOff",
               "Back-off restarting failed container %s in pod %s_%s(%s)", c->name, w->name, w->ns,
               w->uid);
    local_container_wait(c, "CrashLoopBackOff",
                         "back-off %s restarting failed container=%s pod=%s_%s(%s)", text, c->name,
                         w->name, w->ns, w->uid);
    local_container_retry(c, (uint64_t)delay_ms);
}

void local_container_step(struct local_container *c)
{
    if (c->process || c->fetch || c->timer_set || c->stopping)
        return;
    const char *image = gs_json_str(local_container_spec(c), "image", NULL);
    if (c->failed_image && gs_streq(c->failed_image, image))
        return;
    if (c->state == LOCAL_EXITED && !local_container_should_restart(c))
        return;
    if (c->has_run && (c->current.set || c->last.set)) {
        int64_t delay = restart_delay(c, gs_unix_ms());
        if (delay > 0) {
            back_off(c, delay);
            return;
        }
    }
    local_container_begin(c);
}

// --- running ---

static void kill_after_hook(struct local_container *c, const char *message)
{
    GS_AUTO_FREE char *text = gs_format("PostStartHook failed: %s", message);
    event(c, "Warning", "FailedPostStartHook", text);
    local_container_stop(c, local_worker_default_grace_ms(c->worker), "FailedPostStartHook");
}

static void start_probes(struct local_container *c)
{
    const json_t *spec = local_container_spec(c);
    c->started = !gs_json_get(spec, "startupProbe", NULL);
    c->ready = !gs_json_get(spec, "readinessProbe", NULL);
    for (size_t i = 0; i < LOCAL_N_PROBES; i++) {
        const json_t *probe = gs_json_get(spec, local_probe_members[i], NULL);
        if (probe)
            c->probes[i] = local_probe_new(c, (enum local_probe_kind)i, probe);
    }
}

static void on_post_start(void *arg, bool ok, const char *message)
{
    struct local_container *c = arg;
    c->hook = NULL;
    c->hook_pending = false;
    if (ok)
        start_probes(c);
    else
        kill_after_hook(c, message);
    local_worker_wake(c->worker);
}

static void on_started(void *arg)
{
    struct local_container *c = arg;
    const json_t *hook = gs_json_get(local_container_spec(c), "lifecycle", "postStart", NULL);
    c->state = LOCAL_RUNNING;
    c->started_ms = gs_unix_ms();
    if (c->current.set)
        termination_move(&c->last, &c->current);
    set_waiting_text(c, NULL, NULL);
    kube_event(c->worker->k->recorder, c->worker->pod, "Normal", "Started", "Started container %s",
               c->name);
    if (c->stopping)
        return;
    if (hook) {
        c->hook_pending = true;
        c->hook = local_handler_start(c, hook, 0, on_post_start, c);
    } else {
        start_probes(c);
    }
    local_worker_wake(c->worker);
}

static char *exec_failure(const struct local_container *c, int error)
{
    const json_t *command = gs_json_get(local_container_spec(c), "command", NULL);
    const char *program = json_string_value(json_array_get(command, 0));
    const struct local_words *mapped = local_images_find(c->worker->k->images, c->image);
    if (!program)
        program = mapped ? mapped->items[0] : "";
    return gs_format("exec: \"%s\": %s", program,
                     error == ENOENT && !strchr(program, '/') ? "executable file not found in $PATH"
                                                              : strerror(error));
}

static void note_exit(struct local_container *c, const struct local_process_exit *e)
{
    struct local_termination *t = &c->current;
    termination_finish(t);
    *t = (struct local_termination){
        .set = true,
        .exit_code = e->exit_code,
        .started_ms = e->exec_errno ? 0 : e->started_ms,
        .finished_ms = e->finished_ms,
        .container_id = gs_strdup(c->container_id),
        .reason = gs_strdup(e->exec_errno  ? "StartError"
                            : e->exit_code ? "Error"
                                           : "Completed"),
    };
    if (!e->exec_errno)
        return;
    t->message = exec_failure(c, e->exec_errno);
    kube_event(c->worker->k->recorder, c->worker->pod, "Warning", "Failed",
               "Error: failed to start container \"%s\": %s", c->name, t->message);
}

static void on_sweep(void *arg)
{
    struct local_container *c = arg;
    local_proc_kill_marked(c->sweep_mark, NULL);
    if (--c->sweeps_left > 0)
        local_timer_start(c->sweep, SWEEP_MS);
}

// A process has no environment to be seen while it executes another program: look more than once.
static void sweep_instance(struct local_container *c)
{
    free(c->sweep_mark);
    c->sweep_mark = gs_format("%s=%s", LOCAL_ENV_CONTAINER_ID, c->container_id);
    c->sweeps_left = SWEEPS;
    on_sweep(c);
}

static void on_process_exit(void *arg, const struct local_process_exit *e)
{
    struct local_container *c = arg;
    local_process_free(c->process);
    c->process = NULL;
    stop_probes(c);
    drop_hook(c);
    c->started = c->ready = false;
    c->stopping = false;
    if (e->supervisor_died)
        sweep_instance(c);
    note_exit(c, e);
    c->state = LOCAL_EXITED;
    set_waiting_text(c, NULL, NULL);
    local_worker_wake(c->worker);
}

const struct local_process_callbacks local_container_callbacks = {.on_started = on_started,
                                                                  .on_exit = on_process_exit};

bool local_container_ready(const struct local_container *c)
{
    return c->state == LOCAL_RUNNING && c->started && c->ready && !c->hook_pending;
}

// --- probes ---

static int64_t probe_grace_ms(const struct local_container *c, enum local_probe_kind kind)
{
    int64_t seconds = gs_json_int(local_container_spec(c), -1, local_probe_members[kind],
                                  "terminationGracePeriodSeconds", NULL);
    return seconds >= 0 ? local_grace_ms(seconds) : local_worker_default_grace_ms(c->worker);
}

void local_container_probed(struct local_container *c, enum local_probe_kind kind, bool ok)
{
    if (kind == LOCAL_PROBE_READINESS) {
        c->ready = ok;
    } else if (!ok) {
        GS_AUTO_FREE char *why =
            gs_format("Container %s failed %s probe, will be restarted", c->name,
                      kind == LOCAL_PROBE_LIVENESS ? "liveness" : "startup");
        local_container_stop(c, probe_grace_ms(c, kind), why);
    } else if (kind == LOCAL_PROBE_STARTUP) {
        c->started = true;
    }
    local_worker_wake(c->worker);
}

// --- stopping ---

static void send_term(struct local_container *c)
{
    int64_t left_ms = (c->stop_by_ns - gs_mono_ns()) / GS_NS_PER_MS;
    if (c->process)
        local_process_stop(c->process, left_ms < 0 ? 0 : left_ms);
}

static void on_pre_stop(void *arg, bool ok, const char *message)
{
    struct local_container *c = arg;
    c->hook = NULL;
    if (!ok) {
        GS_AUTO_FREE char *text = gs_format("PreStopHook failed: %s", message);
        event(c, "Warning", "FailedPreStopHook", text);
    }
    int64_t least = gs_mono_ns() + MIN_GRACE_MS * GS_NS_PER_MS;
    if (c->stop_by_ns < least)
        c->stop_by_ns = least;
    send_term(c);
}

static void begin_stop(struct local_container *c, int64_t grace_ms, const char *why)
{
    const json_t *hook = gs_json_get(local_container_spec(c), "lifecycle", "preStop", NULL);
    GS_AUTO_FREE char *text = gs_format("Stopping container %s", c->name);
    event(c, "Normal", "Killing", why ? why : text);
    c->stopping = true;
    // Called from a probe too: the probes are freed with the exit, here they are only told to rest.
    drop_hook(c);
    if (hook && grace_ms > 0 && c->state == LOCAL_RUNNING)
        c->hook = local_handler_start(c, hook, (unsigned)grace_ms, on_pre_stop, c);
    else
        send_term(c);
}

void local_container_stop(struct local_container *c, int64_t grace_ms, const char *why)
{
    if (c->fetch) {
        local_env_fetch_cancel(c->fetch);
        c->fetch = NULL;
    }
    c->timer_set = false;
    local_timer_stop(c->timer);
    if (!c->process)
        return;
    int64_t by = gs_mono_ns() + grace_ms * GS_NS_PER_MS;
    if (!c->stopping) {
        c->stop_by_ns = by;
        begin_stop(c, grace_ms, why);
    } else if (by < c->stop_by_ns) {
        c->stop_by_ns = by;
        drop_hook(c);
        send_term(c);
    }
}

// --- after a restart of the program ---

static struct local_termination read_termination(const json_t *t)
{
    struct local_termination r = {
        .set = true,
        .exit_code = (int)gs_json_int(t, 0, "exitCode", NULL),
        .reason = gs_strdup(gs_json_str(t, "reason", NULL)),
        .message = gs_strdup(gs_json_str(t, "message", NULL)),
        .container_id = gs_strdup(gs_json_str(t, "containerID", NULL)),
    };
    const char *started = gs_json_str(t, "startedAt", NULL);
    const char *finished = gs_json_str(t, "finishedAt", NULL);
    gs_error_free(gs_parse_rfc3339(gs_slice_of(started), &r.started_ms));
    gs_error_free(gs_parse_rfc3339(gs_slice_of(finished), &r.finished_ms));
    return r;
}

// It ran when the former kubelet ended, so it ended with it: its supervisor may have said how.
static void restore_interrupted(struct local_container *c)
{
    GS_AUTO_FREE char *path = local_container_file(c, c->restart_count, "status");
    struct shim_status s = {0};
    GS_AUTO_ERROR struct gs_error *err = shim_status_read(path, &s);
    bool known = !err && s.finished_ms;
    c->current = (struct local_termination){
        .set = true,
        .exit_code = known ? s.exit_code : 137,
        .started_ms = s.started_ms,
        .finished_ms = known ? s.finished_ms : gs_unix_ms(),
        .reason = gs_strdup(known && s.exit_code == 0 ? "Completed" : "Error"),
        .message = gs_strdup("gpuscale was restarted"),
        .container_id = gs_strdup(c->container_id),
    };
    c->state = LOCAL_EXITED;
}

void local_container_restore(struct local_container *c, const json_t *status)
{
    const json_t *terminated = gs_json_get(status, "state", "terminated", NULL);
    const json_t *last = gs_json_get(status, "lastState", "terminated", NULL);
    c->restart_count = (unsigned)gs_json_int(status, 0, "restartCount", NULL);
    c->container_id = gs_strdup(gs_json_str(status, "containerID", NULL));
    c->image = gs_strdup(gs_json_str(status, "image", NULL));
    c->has_run = c->container_id && *c->container_id;
    if (!c->has_run)
        return;
    if (last)
        c->last = read_termination(last);
    if (terminated) {
        c->current = read_termination(terminated);
        c->state = LOCAL_EXITED;
    } else if (gs_json_get(status, "state", "running", NULL)) {
        restore_interrupted(c);
    }
}
