// SPDX-License-Identifier: Apache-2.0
// A container's life: waiting -> running -> exited -> (back-off) -> running …
#include "base/backoff.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/event.h"
#include "local/kubelet/images.h"
#include "local/kubelet/logs.h"
#include "local/kubelet/pod_worker.h"
#include "local/kubelet/podenv.h"
#include "local/kubelet/probe.h"
#include "local/kubelet/process.h"
#include "local/kubelet/shim.h"
#include "local/kubelet/start_guard.h"
#include "local/kubelet/streaming.h"

#include <errno.h>
#include <string.h>

// Source: the kubelet's documented restart back-off.
enum {
    BACKOFF_FIRST_MS = 10000,
    BACKOFF_MAX_MS = 300000,
    BACKOFF_RESET_MS = 600000,
    SWEEPS = 4,
    SWEEP_MS = 250,
    MAX_MESSAGE = 4096,
    MESSAGE_LOG_LINES = 80,
    MESSAGE_LOG_BYTES = 2048,
    MIN_GRACE_MS = 2000, // what is left for SIGTERM after a preStop hook that took too long
};

static void termination_finish(struct kubelet_termination *t)
{
    free(t->reason);
    free(t->message);
    free(t->container_id);
    *t = (struct kubelet_termination){0};
}

static void termination_move(struct kubelet_termination *to, struct kubelet_termination *from)
{
    termination_finish(to);
    *to = *from;
    *from = (struct kubelet_termination){0};
}

static void set_waiting_text(struct kubelet_container *c, const char *reason, char *message)
{
    free(c->reason);
    free(c->message);
    c->reason = gs_strdup(reason);
    c->message = message;
}

static void event(struct kubelet_container *c, const char *type, const char *reason,
                  const char *text)
{
    kube_event(c->worker->k->recorder, c->worker->pod, type, reason, "%s", text);
}

static void on_container_timer(void *arg);
static void on_sweep(void *arg);

static void set_name(struct kubelet_container *c, const char *name)
{
    c->name = gs_strdup(name ? name : "");
    c->timer = gs_timer_new(c->worker->k->cluster->loop, c);
    c->sweep = gs_timer_new(c->worker->k->cluster->loop, c);
}

void kubelet_container_init(struct kubelet_container *c, struct kubelet_worker *w, bool init,
                            size_t index)
{
    *c = (struct kubelet_container){.worker = w, .init = init, .index = index};
    set_name(c, codec_json_str(kubelet_container_spec(c), "name", NULL));
}

void kubelet_container_init_ephemeral(struct kubelet_container *c, struct kubelet_worker *w,
                                      const char *name)
{
    *c = (struct kubelet_container){.worker = w, .ephemeral = true};
    set_name(c, name);
}

static void stop_probes(struct kubelet_container *c)
{
    for (size_t i = 0; i < KUBELET_N_PROBES; i++) {
        kubelet_probe_free(c->probes[i]);
        c->probes[i] = NULL;
    }
}

static void drop_hook(struct kubelet_container *c)
{
    kubelet_handler_cancel(c->hook);
    c->hook = NULL;
    c->hook_pending = false;
}

void kubelet_container_finish(struct kubelet_container *c)
{
    stop_probes(c);
    drop_hook(c);
    kubelet_env_fetch_cancel(c->fetch);
    kubelet_process_free(c->process);
    gs_timer_free(c->timer);
    gs_timer_free(c->sweep);
    free(c->sweep_mark);
    kubelet_env_finish(&c->env);
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

static const json_t *ephemeral_spec(const struct kubelet_container *c)
{
    size_t i;
    json_t *spec;
    json_array_foreach (kubelet_worker_spec(c->worker, "ephemeralContainers"), i, spec)
        if (gs_streq(codec_json_str(spec, "name", NULL), c->name))
            return spec;
    return NULL;
}

const json_t *kubelet_container_spec(const struct kubelet_container *c)
{
    if (c->ephemeral)
        return ephemeral_spec(c);
    return json_array_get(kubelet_worker_spec(c->worker, c->init ? "initContainers" : "containers"),
                          c->index);
}

bool kubelet_container_is_sidecar(const struct kubelet_container *c)
{
    return c->init &&
           gs_streq(codec_json_str(kubelet_container_spec(c), "restartPolicy", NULL), "Always");
}

bool kubelet_container_is_standin(const struct kubelet_container *c)
{
    return kubelet_substitute_is_standin(
        kubelet_images_substitute_of(c->worker->k->images, kubelet_container_spec(c)));
}

char *kubelet_container_file(const struct kubelet_container *c, unsigned instance,
                             const char *suffix)
{
    GS_AUTO_FREE char *dir = kubelet_worker_path(c->worker, KUBELET_DIR_CONTAINERS, c->name);
    return gs_format("%s/%u.%s", dir, instance, suffix);
}

pid_t kubelet_container_pid(const struct kubelet_container *c)
{
    GS_AUTO_FREE char *path = kubelet_container_file(c, c->restart_count, "status");
    struct kubelet_shim_status s = {0};
    GS_AUTO_ERROR struct gs_error *err = c->process ? kubelet_shim_status_read(path, &s) : NULL;
    bool same = !err && s.pid > 1 && kubelet_proc_start_time(s.pid) == s.start_ticks;
    return same ? s.pid : 0;
}

int kubelet_container_port(const struct kubelet_container *c, const json_t *port)
{
    int64_t number = json_integer_value(port);
    const char *name = json_string_value(port);
    size_t i;
    json_t *entry;
    if (name)
        number = strtol(name, NULL, 10); // "8080" is accepted too
    json_array_foreach (codec_json_get(kubelet_container_spec(c), "ports", NULL), i, entry)
        if (name && gs_streq(codec_json_str(entry, "name", NULL), name))
            number = codec_json_int(entry, 0, "containerPort", NULL);
    return number > 0 && number < 65536 ? (int)number : 0;
}

// --- waiting ---

void kubelet_container_wait(struct kubelet_container *c, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *message = gs_vformat(fmt, ap);
    va_end(ap);
    // An unchanged state must not wake the worker: it would call this function again at once.
    if (c->state == KUBELET_WAITING && gs_streq(c->reason, reason) && gs_streq(c->message, message))
        return;
    if (c->current.set)
        termination_move(&c->last, &c->current);
    c->state = KUBELET_WAITING;
    set_waiting_text(c, reason, GS_TAKE(message));
    kubelet_worker_wake(c->worker);
}

void kubelet_container_retry(struct kubelet_container *c, uint64_t ms)
{
    c->timer_set = true;
    gs_timer_start(c->timer, on_container_timer, ms);
}

static void on_container_timer(void *arg)
{
    struct kubelet_container *c = arg;
    c->timer_set = false;
    if (gs_streq(c->reason, "ErrImagePull")) {
        GS_AUTO_FREE char *text = gs_format("Back-off pulling image \"%s\"", c->failed_image);
        event(c, "Normal", "BackOff", text);
        event(c, "Warning", "Failed", "Error: ImagePullBackOff");
        GS_AUTO_FREE char *why = GS_TAKE(c->message);
        kubelet_container_wait(c, "ImagePullBackOff", "%s: ErrImagePull: %s", text, why ? why : "");
    }
    kubelet_worker_wake(c->worker);
}

bool kubelet_container_should_restart(const struct kubelet_container *c)
{
    const char *policy = codec_json_str(c->worker->pod, "spec", "restartPolicy", NULL);
    const struct kubelet_termination *t = c->current.set ? &c->current : &c->last;
    if (kubelet_container_is_sidecar(c))
        return true;
    if (c->ephemeral)
        return false;
    if (c->init && t->exit_code == 0)
        return false;
    if (gs_streq(policy, "Never"))
        return false;
    return c->init || !gs_streq(policy, "OnFailure") || t->exit_code != 0;
}

// Milliseconds until the next start; moves the back-off on when that is now.
static int64_t restart_delay(struct kubelet_container *c, int64_t now)
{
    const struct kubelet_termination *t = c->current.set ? &c->current : &c->last;
    int64_t finished = t->set ? t->finished_ms : 0;
    if (c->backoff_ms && finished - c->backoff_since_ms > BACKOFF_RESET_MS)
        c->backoff_ms = 0;
    if (c->backoff_ms && now < finished + c->backoff_ms)
        return finished + c->backoff_ms - now;
    c->backoff_ms = gs_backoff_next(c->backoff_ms, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    c->backoff_since_ms = now;
    return 0;
}

static void back_off(struct kubelet_container *c, int64_t delay_ms)
{
    const struct kubelet_worker *w = c->worker;
    char text[GS_RFC3339_SIZE];
    gs_format_duration(c->backoff_ms * GS_NS_PER_MS, text);
    kube_event(w->k->recorder, w->pod, "Warning", "BackOff",
               "Back-off restarting failed container %s in pod %s_%s(%s)", c->name, w->name, w->ns,
               w->uid);
    kubelet_container_wait(c, "CrashLoopBackOff",
                           "back-off %s restarting failed container=%s pod=%s_%s(%s)", text,
                           c->name, w->name, w->ns, w->uid);
    kubelet_container_retry(c, (uint64_t)delay_ms);
}

void kubelet_container_step(struct kubelet_container *c)
{
    if (c->process || c->fetch || c->timer_set || c->stopping)
        return;
    const char *image = codec_json_str(kubelet_container_spec(c), "image", NULL);
    if (c->failed_image && gs_streq(c->failed_image, image))
        return;
    if (c->state == KUBELET_EXITED && !kubelet_container_should_restart(c))
        return;
    if (c->has_run && (c->current.set || c->last.set)) {
        int64_t delay = restart_delay(c, gs_unix_ms());
        if (delay > 0) {
            back_off(c, delay);
            return;
        }
    }
    kubelet_container_begin(c);
}

// --- running ---

static void kill_after_hook(struct kubelet_container *c, const char *message)
{
    GS_AUTO_FREE char *text = gs_format("PostStartHook failed: %s", message);
    event(c, "Warning", "FailedPostStartHook", text);
    kubelet_container_stop(c, kubelet_worker_default_grace_ms(c->worker), "FailedPostStartHook");
}

static void start_probes(struct kubelet_container *c)
{
    const json_t *spec = kubelet_container_spec(c);
    c->started = !codec_json_get(spec, "startupProbe", NULL);
    c->ready = !codec_json_get(spec, "readinessProbe", NULL);
    for (size_t i = 0; i < KUBELET_N_PROBES; i++) {
        const json_t *probe = codec_json_get(spec, kubelet_probe_members[i], NULL);
        if (probe)
            c->probes[i] = kubelet_probe_new(c, (enum kubelet_probe_kind)i, probe);
    }
}

static void on_post_start(void *arg, bool ok, const char *message)
{
    struct kubelet_container *c = arg;
    c->hook = NULL;
    c->hook_pending = false;
    if (ok)
        start_probes(c);
    else
        kill_after_hook(c, message);
    kubelet_worker_wake(c->worker);
}

static void on_started(void *arg)
{
    struct kubelet_container *c = arg;
    const json_t *hook = codec_json_get(kubelet_container_spec(c), "lifecycle", "postStart", NULL);
    c->state = KUBELET_RUNNING;
    c->started_ms = gs_unix_ms();
    kubelet_guard_started(c->worker->k->guard, c->worker->uid);
    if (c->current.set)
        termination_move(&c->last, &c->current);
    set_waiting_text(c, NULL, NULL);
    kube_event(c->worker->k->recorder, c->worker->pod, "Normal", "Started", "Started container %s",
               c->name);
    if (c->stopping)
        return;
    if (hook) {
        c->hook_pending = true;
        c->hook = kubelet_handler_start(c, hook, 0, on_post_start, c);
    } else {
        start_probes(c);
    }
    kubelet_worker_wake(c->worker);
}

static char *exec_failure(const struct kubelet_container *c, int error)
{
    const json_t *command = codec_json_get(kubelet_container_spec(c), "command", NULL);
    const char *program = json_string_value(json_array_get(command, 0));
    const struct kubelet_words *mapped = kubelet_images_find(c->worker->k->images, c->image);
    if (!program)
        program = mapped ? mapped->items[0] : "";
    return gs_format("exec: \"%s\": %s", program,
                     error == ENOENT && !strchr(program, '/') ? "executable file not found in $PATH"
                                                              : strerror(error));
}

// What the container wrote to terminationMessagePath, or the end of its log if the policy says so.
// The limits are the kubelet's.
static char *termination_message(const struct kubelet_container *c, int exit_code)
{
    const json_t *spec = kubelet_container_spec(c);
    const char *policy = codec_json_str(spec, "terminationMessagePolicy", NULL);
    GS_AUTO_FREE char *file = kubelet_container_file(c, 0, "message");
    GS_AUTO_FREE char *log = kubelet_container_file(c, c->restart_count, "log");
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(file, MAX_MESSAGE, &text);
    char *message = err || !text.len ? NULL : gs_buf_take(&text);
    if (!message && exit_code && gs_streq(policy, "FallbackToLogsOnError"))
        message = kubelet_log_tail_text(log, MESSAGE_LOG_LINES, MESSAGE_LOG_BYTES);
    if (message && codec_utf8_valid_prefix(gs_slice_of(message)) < strlen(message)) {
        free(message);
        message = NULL;
    }
    return message;
}

static void note_exit(struct kubelet_container *c, const struct kubelet_process_exit *e)
{
    struct kubelet_termination *t = &c->current;
    termination_finish(t);
    *t = (struct kubelet_termination){
        .set = true,
        .exit_code = e->exit_code,
        .started_ms = e->exec_errno ? 0 : e->started_ms,
        .finished_ms = e->finished_ms,
        .container_id = gs_strdup(c->container_id),
        .reason = gs_strdup(e->exec_errno  ? "StartError"
                            : e->exit_code ? "Error"
                                           : "Completed"),
    };
    if (!e->exec_errno) {
        t->message = termination_message(c, e->exit_code);
        return;
    }
    t->message = e->message && *e->message ? gs_strdup(e->message) : exec_failure(c, e->exec_errno);
    kube_event(c->worker->k->recorder, c->worker->pod, "Warning", "Failed",
               "Error: failed to start container \"%s\": %s", c->name, t->message);
}

static void on_sweep(void *arg)
{
    struct kubelet_container *c = arg;
    kubelet_proc_kill_marked(c->sweep_mark, NULL);
    if (--c->sweeps_left > 0)
        gs_timer_start(c->sweep, on_sweep, SWEEP_MS);
}

// The environment of a process cannot be read while it executes another program, so /proc is
// searched several times.
static void sweep_instance(struct kubelet_container *c)
{
    free(c->sweep_mark);
    c->sweep_mark = gs_format("%s=%s", KUBELET_ENV_CONTAINER_ID, c->container_id);
    c->sweeps_left = SWEEPS;
    on_sweep(c);
}

static void on_process_exit(void *arg, const struct kubelet_process_exit *e)
{
    struct kubelet_container *c = arg;
    kubelet_process_free(c->process);
    c->process = NULL;
    kubelet_streams_end(c->worker->k, c->container_id);
    stop_probes(c);
    drop_hook(c);
    c->started = c->ready = false;
    c->stopping = false;
    if (e->supervisor_died)
        sweep_instance(c);
    note_exit(c, e);
    c->state = KUBELET_EXITED;
    set_waiting_text(c, NULL, NULL);
    kubelet_worker_wake(c->worker);
}

const struct kubelet_process_callbacks kubelet_container_callbacks = {.on_started = on_started,
                                                                      .on_exit = on_process_exit};

bool kubelet_container_ready(const struct kubelet_container *c)
{
    return c->state == KUBELET_RUNNING && c->started && c->ready && !c->hook_pending;
}

// --- probes ---

static int64_t probe_grace_ms(const struct kubelet_container *c, enum kubelet_probe_kind kind)
{
    int64_t seconds = codec_json_int(kubelet_container_spec(c), -1, kubelet_probe_members[kind],
                                     "terminationGracePeriodSeconds", NULL);
    return seconds >= 0 ? kubelet_grace_ms(seconds) : kubelet_worker_default_grace_ms(c->worker);
}

void kubelet_container_probed(struct kubelet_container *c, enum kubelet_probe_kind kind, bool ok)
{
    if (kind == KUBELET_PROBE_READINESS) {
        c->ready = ok;
    } else if (!ok) {
        GS_AUTO_FREE char *why =
            gs_format("Container %s failed %s probe, will be restarted", c->name,
                      kind == KUBELET_PROBE_LIVENESS ? "liveness" : "startup");
        kubelet_container_stop(c, probe_grace_ms(c, kind), why);
    } else if (kind == KUBELET_PROBE_STARTUP) {
        c->started = true;
    }
    kubelet_worker_wake(c->worker);
}

// --- stopping ---

static void send_term(struct kubelet_container *c)
{
    int64_t left_ms = (c->stop_by_ns - gs_mono_ns()) / GS_NS_PER_MS;
    if (c->process)
        kubelet_process_stop(c->process, left_ms < 0 ? 0 : left_ms);
}

static void on_pre_stop(void *arg, bool ok, const char *message)
{
    struct kubelet_container *c = arg;
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

static void begin_stop(struct kubelet_container *c, int64_t grace_ms, const char *why)
{
    const json_t *hook = codec_json_get(kubelet_container_spec(c), "lifecycle", "preStop", NULL);
    GS_AUTO_FREE char *text = gs_format("Stopping container %s", c->name);
    event(c, "Normal", "Killing", why ? why : text);
    c->stopping = true;
    // Also called by a probe: probes are only stopped here, and freed on exit.
    drop_hook(c);
    if (hook && grace_ms > 0 && c->state == KUBELET_RUNNING)
        c->hook = kubelet_handler_start(c, hook, (unsigned)grace_ms, on_pre_stop, c);
    else
        send_term(c);
}

void kubelet_container_stop(struct kubelet_container *c, int64_t grace_ms, const char *why)
{
    if (c->fetch) {
        kubelet_env_fetch_cancel(c->fetch);
        c->fetch = NULL;
    }
    c->timer_set = false;
    gs_timer_stop(c->timer);
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

static struct kubelet_termination read_termination(const json_t *t)
{
    struct kubelet_termination r = {
        .set = true,
        .exit_code = (int)codec_json_int(t, 0, "exitCode", NULL),
        .reason = gs_strdup(codec_json_str(t, "reason", NULL)),
        .message = gs_strdup(codec_json_str(t, "message", NULL)),
        .container_id = gs_strdup(codec_json_str(t, "containerID", NULL)),
    };
    const char *started = codec_json_str(t, "startedAt", NULL);
    const char *finished = codec_json_str(t, "finishedAt", NULL);
    gs_error_free(gs_parse_rfc3339(gs_slice_of(started), &r.started_ms));
    gs_error_free(gs_parse_rfc3339(gs_slice_of(finished), &r.finished_ms));
    return r;
}

// The container ran when the former kubelet ended, and ended with it. Its supervisor may have
// written the exit code.
static void restore_interrupted(struct kubelet_container *c)
{
    GS_AUTO_FREE char *path = kubelet_container_file(c, c->restart_count, "status");
    struct kubelet_shim_status s = {0};
    GS_AUTO_ERROR struct gs_error *err = kubelet_shim_status_read(path, &s);
    bool known = !err && s.finished_ms;
    c->current = (struct kubelet_termination){
        .set = true,
        .exit_code = known ? s.exit_code : 137,
        .started_ms = s.started_ms,
        .finished_ms = known ? s.finished_ms : gs_unix_ms(),
        .reason = gs_strdup(known && s.exit_code == 0 ? "Completed" : "Error"),
        .message = gs_strdup("gpuscale was restarted"),
        .container_id = gs_strdup(c->container_id),
    };
    c->state = KUBELET_EXITED;
}

void kubelet_container_restore(struct kubelet_container *c, const json_t *status)
{
    const json_t *terminated = codec_json_get(status, "state", "terminated", NULL);
    const json_t *last = codec_json_get(status, "lastState", "terminated", NULL);
    c->restart_count = (unsigned)codec_json_int(status, 0, "restartCount", NULL);
    c->container_id = gs_strdup(codec_json_str(status, "containerID", NULL));
    c->image = gs_strdup(codec_json_str(status, "image", NULL));
    c->has_run = c->container_id && *c->container_id;
    if (!c->has_run)
        return;
    if (last)
        c->last = read_termination(last);
    if (terminated) {
        c->current = read_termination(terminated);
        c->state = KUBELET_EXITED;
    } else if (codec_json_get(status, "state", "running", NULL)) {
        restore_interrupted(c);
    }
}
