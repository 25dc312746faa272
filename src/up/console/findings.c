// SPDX-License-Identifier: Apache-2.0
#include "up/console/console_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"

enum {
    PROBE_PATIENCE_MS = 5000, // programs need time to listen
    RELAPSE_MS = 10000        // a container that ran shorter than this has not recovered
};

struct view {
    const json_t *pod;
    const struct console_find_context *is;
};

static int64_t time_of(const json_t *o, const char *member)
{
    int64_t ms = 0;
    const char *text = codec_json_str(o, member, NULL);
    gs_error_free(text ? gs_parse_rfc3339(gs_slice_of(text), &ms) : NULL);
    return ms;
}

static const char *str(const char *s)
{
    return s ? s : "";
}

// "web-0", or "web-0 -n shop" outside of kubectl's default namespace.
static char *kubectl_name(const struct view *v)
{
    const char *ns = kube_namespace(v->pod), *name = kube_name(v->pod);
    return !ns || gs_streq(ns, "default") ? gs_strdup(name) : gs_format("%s -n %s", name, ns);
}

static char *logs_command(const struct view *v, const char *container)
{
    GS_AUTO_FREE char *name = kubectl_name(v);
    bool several = json_array_size(codec_json_get(v->pod, "spec", "containers", NULL)) > 1 ||
                   codec_json_get(v->pod, "spec", "initContainers", NULL);
    return several ? gs_format("kubectl logs %s -c %s", name, container)
                   : gs_format("kubectl logs %s", name);
}

static char *describe_command(const struct view *v)
{
    GS_AUTO_FREE char *name = kubectl_name(v);
    return gs_format("kubectl describe pod %s", name);
}

// The newest event of the pod with this reason and message prefix that is not older than the given
// time; NULL: no such event.
static const json_t *find_event(const struct view *v, const char *reason, const char *begins,
                                int64_t since_ms)
{
    size_t i;
    json_t *e;
    const json_t *best = NULL;
    json_array_foreach (gs_hmap_get_str(v->is->events, str(kube_uid(v->pod))), i, e) {
        int64_t at = time_of(e, "lastTimestamp");
        if (gs_streq(codec_json_str(e, "reason", NULL), reason) &&
            gs_starts(str(codec_json_str(e, "message", NULL)), begins) && at + 999 >= since_ms &&
            (!best || at >= time_of(best, "lastTimestamp")))
            best = e;
    }
    return best;
}

// --- containers ---

static bool find_image(const struct view *v, const char *reason, const json_t *status,
                       struct console_finding *f)
{
    (void)v;
    if (!gs_streq(reason, "ErrImagePull") && !gs_streq(reason, "ImagePullBackOff"))
        return false;
    const char *image = str(codec_json_str(status, "image", NULL));
    f->kind = CONSOLE_FINDING_IMAGE;
    f->reason = "ImagePullBackOff"; // it alternates with ErrImagePull
    f->identity = gs_strdup(image);
    f->text = gs_format("no command is configured for image \"%s\"", image);
    f->remedy = gs_format("start gpuscale up with --image '%s=COMMAND'", image);
    return true;
}

static bool find_config(const struct view *v, const char *reason, const char *message,
                        struct console_finding *f)
{
    bool config = gs_streq(reason, "CreateContainerConfigError");
    if (!config && !gs_streq(reason, "CreateContainerError"))
        return false;
    f->kind = CONSOLE_FINDING_CONFIG;
    f->reason = reason;
    f->identity = gs_strdup(message);
    f->text = gs_strdup(message);
    f->remedy = config && (strstr(message, "not found") || strstr(message, "couldn't find key"))
                    ? gs_strdup("create it, or set optional: true; it is tried again every 5 s")
                    : describe_command(v);
    return true;
}

// The container was killed by its probe, whose failure explains more than the exit code.
static const char *killed_by_probe(const struct view *v, const json_t *ended)
{
    int64_t code = codec_json_int(ended, 0, "exitCode", NULL), since = time_of(ended, "startedAt");
    if (code != 137 && code != 143)
        return NULL;
    const json_t *e = find_event(v, "Unhealthy", "Liveness probe", since);
    if (!e)
        e = find_event(v, "Unhealthy", "Startup probe", since);
    return codec_json_str(e, "message", NULL);
}

// A resource that this machine does not give to containers, as a possible cause of the end.
static void add_missing(const struct view *v, struct console_finding *f)
{
    static const char *const reasons[] = {"VolumesNotMounted", "WorkingDirNotFound"};
    for (size_t i = 0; i < GS_ARRAY_LEN(reasons); i++) {
        const json_t *e = find_event(v, reasons[i], "", 0);
        if (!e)
            continue;
        GS_AUTO_FREE char *remedy = f->remedy;
        f->remedy = gs_format("%s. %s", remedy, str(codec_json_str(e, "message", NULL)));
        return;
    }
}

static void add_restarts(struct gs_buf *out, const json_t *status)
{
    int64_t n = codec_json_int(status, 0, "restartCount", NULL);
    if (n)
        gs_buf_addf(out, ", restarted %lld time%s", (long long)n, n == 1 ? "" : "s");
}

static void describe_end(const struct view *v, const json_t *status, const json_t *ended,
                         const char *line, struct console_finding *f)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *name = f->container, *message = codec_json_str(ended, "message", NULL);
    const char *probe = killed_by_probe(v, ended);
    int64_t code = codec_json_int(ended, 0, "exitCode", NULL);
    f->identity = gs_format("exit %lld", (long long)code);
    if (gs_streq(codec_json_str(ended, "reason", NULL), "StartError")) {
        gs_buf_addf(&text, "cannot start: %s", str(message));
        f->remedy = gs_strdup("correct the command in the manifest or in --image IMAGE=COMMAND");
    } else if (probe) {
        gs_buf_add_str(&text, probe);
        GS_AUTO_FREE char *logs = logs_command(v, name);
        f->remedy = gs_format("check the probe's port and path, and %s", logs);
    } else {
        gs_buf_addf(&text, "exit code %lld", (long long)code);
        if (!code)
            gs_buf_add_str(&text, " (the program must keep running)");
        f->remedy = logs_command(v, name);
    }
    add_restarts(&text, status);
    if (!probe && line && *line)
        gs_buf_addf(&text, "; last log line: %s", line);
    f->text = gs_buf_take(&text);
    add_missing(v, f);
}

// A container that ended and waits for its restart, or was restarted a moment ago.
static bool find_crash(const struct view *v, const json_t *status, const char *waiting,
                       struct console_finding *f)
{
    const json_t *ended = codec_json_get(status, "state", "terminated", NULL);
    const json_t *running = codec_json_get(status, "state", "running", NULL);
    bool loops = gs_streq(waiting, "CrashLoopBackOff");
    bool failed = gs_streq(codec_json_str(v->pod, "status", "phase", NULL), "Failed");
    const json_t *last = codec_json_get(status, "lastState", "terminated", NULL);
    bool relapse = running && v->is->now_ms - time_of(running, "startedAt") < RELAPSE_MS &&
                   time_of(last, "finishedAt") >= v->is->start_ms;
    if (!ended && (loops || relapse))
        ended = last;
    if (!ended || (!loops && codec_json_int(ended, 0, "exitCode", NULL) == 0))
        return false;
    const char *line = v->is->last_line(v->is->arg, v->pod, status);
    if (!line)
        return false; // the line is being fetched
    f->kind = failed ? CONSOLE_FINDING_FAILED : CONSOLE_FINDING_CRASH;
    f->reason = failed ? "Failed" : "CrashLoopBackOff";
    describe_end(v, status, ended, line, f);
    return true;
}

static bool find_probe(const struct view *v, const json_t *status, struct console_finding *f)
{
    const json_t *running = codec_json_get(status, "state", "running", NULL);
    int64_t since = time_of(running, "startedAt");
    if (!running || codec_json_bool(status, false, "ready", NULL) ||
        v->is->now_ms - since < PROBE_PATIENCE_MS)
        return false;
    const json_t *e = find_event(v, "Unhealthy", "", since);
    if (!e)
        return false;
    f->kind = CONSOLE_FINDING_PROBE;
    f->reason = "Unhealthy";
    f->identity = gs_strdup("probe");
    f->text = gs_strdup(str(codec_json_str(e, "message", NULL)));
    GS_AUTO_FREE char *logs = logs_command(v, f->container);
    f->remedy = gs_format("check the probe's port and path, and %s", logs);
    return true;
}

static bool find_in_container(const struct view *v, const json_t *status, struct console_finding *f)
{
    const char *reason = str(codec_json_str(status, "state", "waiting", "reason", NULL));
    const char *message = str(codec_json_str(status, "state", "waiting", "message", NULL));
    f->container = str(codec_json_str(status, "name", NULL));
    if (find_image(v, reason, status, f) || find_config(v, reason, message, f) ||
        find_crash(v, status, reason, f) || find_probe(v, status, f))
        return true;
    bool usual = !*reason || gs_streq(reason, "PodInitializing") ||
                 gs_streq(reason, "CrashLoopBackOff") || !*message;
    if (usual)
        return false;
    f->kind = CONSOLE_FINDING_OTHER;
    f->reason = reason;
    f->identity = gs_strdup(message);
    f->text = gs_strdup(message);
    f->remedy = describe_command(v);
    return true;
}

static bool find_in_containers(const struct view *v, struct console_finding *f)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *status;
        json_array_foreach (codec_json_get(v->pod, "status", lists[l], NULL), i, status)
            if (find_in_container(v, status, f))
                return true;
    }
    return false;
}

// --- the pod as a whole ---

static const char *scheduling_remedy(const char *message)
{
    if (strstr(message, "Insufficient nvidia.com/gpu"))
        return "start with more GPUs or time slices (--gpus) or a pool (--pool), or request fewer: "
               "replicas, maxReplicas, limits";
    if (strstr(message, "Insufficient"))
        return "lower the requests of the pods, or the number of pods";
    if (strstr(message, "Too many pods"))
        return "lower the number of pods";
    if (strstr(message, "taint"))
        return "add a toleration, or remove the taint with kubectl taint";
    return "compare its nodeSelector and affinity with kubectl get nodes --show-labels";
}

static bool find_unscheduled(const struct view *v, struct console_finding *f)
{
    const json_t *c = kube_condition(v->pod, "PodScheduled");
    const char *reason = str(codec_json_str(c, "reason", NULL));
    const char *message = str(codec_json_str(c, "message", NULL));
    if (!gs_streq(codec_json_str(c, "status", NULL), "False") || !*reason)
        return false;
    f->kind = CONSOLE_FINDING_UNSCHEDULABLE;
    f->reason = reason;
    if (find_event(v, "TriggeredScaleUp", "", 0)) { // the message changes with each new node
        GS_AUTO_FREE char *name = kubectl_name(v);
        f->identity = gs_strdup("scale-up");
        f->text = gs_strdup(message);
        f->remedy =
            gs_format("wait for the node that was triggered: gpuscale explain pod %s", name);
        return true;
    }
    f->identity = gs_strdup(message);
    f->text = gs_strdup(message);
    f->remedy =
        gs_strdup(gs_streq(reason, "SchedulingGated") ? "remove its schedulingGates when it may run"
                                                      : scheduling_remedy(message));
    return true;
}

static bool find_rejected(const struct view *v, struct console_finding *f)
{
    const char *reason = codec_json_str(v->pod, "status", "reason", NULL);
    if (!reason || !gs_streq(codec_json_str(v->pod, "status", "phase", NULL), "Failed"))
        return false;
    f->kind = CONSOLE_FINDING_FAILED;
    f->reason = reason;
    f->identity = gs_strdup("");
    f->text = gs_strdup(str(codec_json_str(v->pod, "status", "message", NULL)));
    GS_AUTO_FREE char *name = kubectl_name(v);
    f->remedy = gs_format("kubectl delete pod %s", name);
    return true;
}

// Problems that the status of a pod does not show.
static bool find_warning(const struct view *v, struct console_finding *f)
{
    static const char *const reasons[] = {"FailedMount", "FailedAttachVolume",
                                          "FailedCreatePodSandBox", "FailedPostStartHook"};
    for (size_t i = 0; i < GS_ARRAY_LEN(reasons); i++) {
        const json_t *e = find_event(v, reasons[i], "", 0);
        if (!e)
            continue;
        f->kind = CONSOLE_FINDING_OTHER;
        f->reason = reasons[i];
        f->identity = gs_strdup("");
        f->text = gs_strdup(str(codec_json_str(e, "message", NULL)));
        f->remedy = describe_command(v);
        return true;
    }
    return false;
}

static bool find_gate(const struct view *v, struct console_finding *f)
{
    const json_t *c = kube_condition(v->pod, "Ready");
    if (!gs_streq(codec_json_str(c, "reason", NULL), "ReadinessGatesNotReady"))
        return false;
    f->kind = CONSOLE_FINDING_OTHER;
    f->reason = "ReadinessGatesNotReady";
    f->identity = gs_strdup("");
    f->text = gs_strdup(str(codec_json_str(c, "message", NULL)));
    f->remedy = gs_strdup("see spec.readinessGates: a controller must set this condition");
    return true;
}

bool console_find(const json_t *pod, const struct console_find_context *context,
                  struct console_finding *ret)
{
    const struct view v = {pod, context};
    struct console_finding f = {0};
    if (kube_is_deleting(pod) || kube_condition_true(pod, "Ready") ||
        gs_streq(codec_json_str(pod, "status", "phase", NULL), "Succeeded"))
        return false;
    bool found = find_unscheduled(&v, &f) || find_rejected(&v, &f) || find_in_containers(&v, &f);
    if (!found) {
        f.container = NULL;
        found = find_warning(&v, &f) || find_gate(&v, &f);
    }
    if (found)
        *ret = f;
    return found;
}

void console_finding_finish(struct console_finding *f)
{
    free(f->text);
    free(f->remedy);
    free(f->identity);
    *f = (struct console_finding){0};
}
