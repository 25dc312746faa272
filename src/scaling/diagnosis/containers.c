// SPDX-License-Identifier: Apache-2.0
// Why a container does not start, ended, or is not ready: from its status, the pod's events and the
// last line of its log.
#include "base/mem.h"
#include "diagnosis/diagnosis_private.h"
#include "kube/object.h"

enum {
    PROBE_PATIENCE_MS = 5000, // programs need time to listen
    RELAPSE_MS = 10000        // a container that ran shorter than this has not recovered
};

static char *logs_command(const struct diagnosis_input *in, const char *container)
{
    GS_AUTO_FREE char *name = diagnosis_pod_name(in);
    bool several = json_array_size(codec_json_get(in->pod, "spec", "containers", NULL)) > 1 ||
                   codec_json_get(in->pod, "spec", "initContainers", NULL);
    return several ? gs_format("kubectl logs %s -c %s", name, container)
                   : gs_format("kubectl logs %s", name);
}

// The container in the spec; NULL: absent.
static const json_t *spec_of(const struct diagnosis_input *in, const char *name)
{
    static const char *const lists[] = {"initContainers", "containers"};
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *c;
        json_array_foreach (codec_json_get(in->pod, "spec", lists[l], NULL), i, c)
            if (gs_streq(codec_json_str(c, "name", NULL), name))
                return c;
    }
    return NULL;
}

// --- images ---

// What to do about the message of a container runtime; the first part that it contains counts.
static const struct {
    const char *part, *remedy;
} pull_errors[] = {
    {"toomanyrequests",
     "the registry limits pulls: give the pod imagePullSecrets, or use a mirror"},
    {"Too Many Requests",
     "the registry limits pulls: give the pod imagePullSecrets, or use a mirror"},
    {"nauthorized", "check the pod's imagePullSecrets, and the name of the image"},
    {"denied", "check the pod's imagePullSecrets, and the name of the image"},
    {"authentication required", "check the pod's imagePullSecrets, and the name of the image"},
    {"orbidden", "check the pod's imagePullSecrets, and the name of the image"},
    {"no match for platform", "use an image for the processors of the node"},
    {"manifest unknown", "correct the name or the tag of the image"},
    {"not found", "correct the name or the tag of the image"},
    {"does not exist", "correct the name or the tag of the image"},
    {"x509", "let the node's container runtime trust the certificate of the registry"},
    {"no space left", "free space for images on the node"},
    {"no such host", "check that the node can reach the registry, and the name of the registry"},
    {"timeout", "check that the node can reach the registry"},
    {"deadline exceeded", "check that the node can reach the registry"},
    {"connection refused", "check that the node can reach the registry"},
};

static char *pull_remedy(const struct diagnosis_input *in, const char *message)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(pull_errors); i++)
        if (strstr(message, pull_errors[i].part))
            return gs_strdup(pull_errors[i].remedy);
    return diagnosis_describe_command(in);
}

// The cause in "Back-off pulling image "x": ErrImagePull: CAUSE".
static const char *pull_error(const struct diagnosis_input *in, const char *message)
{
    static const char mark[] = "ErrImagePull: ";
    const char *at = strstr(message, mark);
    if (at)
        return at + strlen(mark);
    const json_t *event = diagnosis_event(in, "Failed", "Failed to pull image", 0);
    return event ? diagnosis_str(codec_json_str(event, "message", NULL)) : message;
}

static bool find_image(const struct diagnosis_input *in, const char *reason, const json_t *status,
                       struct diagnosis *d)
{
    static const char *const reasons[] = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName",
                                          "ErrImageNeverPull", "ImageInspectError"};
    bool is_image = false;
    for (size_t i = 0; i < GS_ARRAY_LEN(reasons); i++)
        is_image = is_image || gs_streq(reason, reasons[i]);
    if (!is_image)
        return false;
    const char *image = diagnosis_str(codec_json_str(status, "image", NULL));
    const char *message =
        pull_error(in, diagnosis_str(codec_json_str(status, "state", "waiting", "message", NULL)));
    bool alternates = gs_streq(reason, "ErrImagePull");
    d->cause = DIAGNOSIS_IMAGE;
    d->reason = alternates ? "ImagePullBackOff" : reason;
    d->identity = gs_strdup(image);
    if (strstr(message, "no command is mapped to this image")) { // the kubelet of gpuscale up
        d->text = gs_format("no command is configured for image \"%s\"", image);
        d->remedy = gs_format("start gpuscale up with --image '%s=COMMAND'", image);
        return true;
    }
    GS_AUTO_FREE char *excerpt = diagnosis_excerpt(message);
    d->text =
        *excerpt && strstr(excerpt, image)
            ? gs_strdup(excerpt)
            : gs_format("image \"%s\"%s%s", image, *excerpt ? ": " : " cannot be pulled", excerpt);
    d->remedy = pull_remedy(in, message);
    return true;
}

// --- configuration ---

static bool find_config(const struct diagnosis_input *in, const char *reason, const char *message,
                        struct diagnosis *d)
{
    if (!gs_streq(reason, "CreateContainerConfigError") &&
        !gs_streq(reason, "CreateContainerError") && !gs_streq(reason, "RunContainerError"))
        return false;
    if (diagnosis_find_missing(in, reason, message, d))
        return true;
    d->cause = DIAGNOSIS_CONFIG;
    d->reason = reason;
    d->identity = gs_strdup(message);
    d->text = diagnosis_excerpt(message);
    d->remedy = diagnosis_describe_command(in);
    return true;
}

// --- ends ---

// The container was killed by its probe, whose failure explains more than the exit code.
static const char *killed_by_probe(const struct diagnosis_input *in, const json_t *ended)
{
    int64_t code = codec_json_int(ended, 0, "exitCode", NULL),
            since = kube_time_ms(json_object_get(ended, "startedAt"), 0);
    if (code != 137 && code != 143)
        return NULL;
    const json_t *e = diagnosis_event(in, "Unhealthy", "Liveness probe", since);
    if (!e)
        e = diagnosis_event(in, "Unhealthy", "Startup probe", since);
    return codec_json_str(e, "message", NULL);
}

// A resource that this machine does not give to containers, as a possible cause of the end.
static void add_missing(const struct diagnosis_input *in, struct diagnosis *d)
{
    static const char *const reasons[] = {"VolumesNotMounted", "WorkingDirNotFound"};
    for (size_t i = 0; i < GS_ARRAY_LEN(reasons); i++) {
        const json_t *e = diagnosis_event(in, reasons[i], "", 0);
        if (!e)
            continue;
        GS_AUTO_FREE char *remedy = d->remedy;
        d->remedy = gs_format("%s. %s", remedy, diagnosis_str(codec_json_str(e, "message", NULL)));
        return;
    }
}

static void add_restarts(struct gs_buf *out, const json_t *status)
{
    int64_t n = codec_json_int(status, 0, "restartCount", NULL);
    if (n)
        gs_buf_addf(out, ", restarted %lld time%s", (long long)n, n == 1 ? "" : "s");
}

// What shells and kernels mean by an exit code; NULL: only the program knows.
static const char *code_text(int64_t code)
{
    static const struct {
        int64_t code;
        const char *text;
    } codes[] = {
        {0, "the program must keep running"},
        {126, "the command cannot be executed"},
        {127, "a command was not found"},
        {132, "SIGILL: the program needs another processor"},
        {134, "SIGABRT"},
        {135, "SIGBUS"},
        {137, "SIGKILL"},
        {139, "SIGSEGV"},
        {143, "SIGTERM"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(codes); i++)
        if (codes[i].code == code)
            return codes[i].text;
    return NULL;
}

static bool out_of_memory(const json_t *ended)
{
    return gs_streq(codec_json_str(ended, "reason", NULL), "OOMKilled");
}

static void describe_memory(const struct diagnosis_input *in, struct diagnosis *d,
                            struct gs_buf *text)
{
    const json_t *limit =
        codec_json_get(spec_of(in, d->container), "resources", "limits", "memory", NULL);
    const char *amount = json_string_value(limit);
    d->cause = DIAGNOSIS_MEMORY;
    d->reason = "OOMKilled";
    if (amount)
        gs_buf_addf(text, "killed at its memory limit of %s", amount);
    else
        gs_buf_add_str(text, "killed because the node had no memory left");
    d->remedy =
        gs_format(amount ? "raise resources.limits.memory of container %s"
                         : "set resources.requests.memory and limits.memory of container %s",
                  d->container);
}

static void describe_end(const struct diagnosis_input *in, const json_t *status,
                         const json_t *ended, const char *line, struct diagnosis *d)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *probe = killed_by_probe(in, ended);
    int64_t code = codec_json_int(ended, 0, "exitCode", NULL);
    d->identity = gs_format("exit %lld", (long long)code);
    if (gs_streq(codec_json_str(ended, "reason", NULL), "StartError")) {
        GS_AUTO_FREE char *message = diagnosis_excerpt(codec_json_str(ended, "message", NULL));
        gs_buf_addf(&text, "cannot start: %s", message);
        d->remedy =
            gs_strdup(diagnosis_is_embedded(in)
                          ? "correct the command in the manifest or in --image IMAGE=COMMAND"
                          : "correct the command in the manifest or in the image");
    } else if (out_of_memory(ended)) {
        describe_memory(in, d, &text);
    } else if (probe) {
        gs_buf_add_str(&text, probe);
        GS_AUTO_FREE char *logs = logs_command(in, d->container);
        d->remedy = gs_format("check the probe's port and path, and %s", logs);
    } else {
        const char *meaning = code_text(code);
        gs_buf_addf(&text, "exit code %lld", (long long)code);
        if (meaning)
            gs_buf_addf(&text, " (%s)", meaning);
        d->remedy = logs_command(in, d->container);
    }
    add_restarts(&text, status);
    if (!probe && line && *line)
        gs_buf_addf(&text, "; last log line: %s", line);
    d->text = gs_buf_take(&text);
    add_missing(in, d);
}

// A container that ended and waits for its restart, or was restarted a moment ago.
static bool find_crash(const struct diagnosis_input *in, const json_t *status, const char *waiting,
                       struct diagnosis *d)
{
    const json_t *ended = codec_json_get(status, "state", "terminated", NULL);
    const json_t *running = codec_json_get(status, "state", "running", NULL);
    bool loops = gs_streq(waiting, "CrashLoopBackOff");
    bool failed = gs_streq(kube_phase(in->pod), "Failed");
    const json_t *last = codec_json_get(status, "lastState", "terminated", NULL);
    bool relapse =
        running &&
        in->now_ms - kube_time_ms(json_object_get(running, "startedAt"), 0) < RELAPSE_MS &&
        kube_time_ms(json_object_get(last, "finishedAt"), 0) >= in->start_ms;
    if (!ended && (loops || relapse))
        ended = last;
    if (!ended || (!loops && codec_json_int(ended, 0, "exitCode", NULL) == 0))
        return false;
    const char *line = in->last_line ? in->last_line(in->arg, in->pod, status) : "";
    if (!line)
        return false; // the line is being fetched
    d->cause = failed ? DIAGNOSIS_FAILED : DIAGNOSIS_CRASH;
    d->reason = failed ? "Failed" : "CrashLoopBackOff";
    describe_end(in, status, ended, line, d);
    return true;
}

// --- probes ---

static bool find_probe(const struct diagnosis_input *in, const json_t *status, struct diagnosis *d)
{
    const json_t *running = codec_json_get(status, "state", "running", NULL);
    int64_t since = kube_time_ms(json_object_get(running, "startedAt"), 0);
    if (!running || codec_json_bool(status, false, "ready", NULL) ||
        in->now_ms - since < PROBE_PATIENCE_MS)
        return false;
    const json_t *e = diagnosis_event(in, "Unhealthy", "", since);
    if (!e)
        return false;
    d->cause = DIAGNOSIS_PROBE;
    d->reason = "Unhealthy";
    d->identity = gs_strdup("probe");
    d->text = diagnosis_excerpt(codec_json_str(e, "message", NULL));
    GS_AUTO_FREE char *logs = logs_command(in, d->container);
    d->remedy = gs_format("check the probe's port and path, and %s", logs);
    return true;
}

// --- all ---

static bool find_in_container(const struct diagnosis_input *in, const json_t *status,
                              struct diagnosis *d)
{
    const json_t *waiting = codec_json_get(status, "state", "waiting", NULL);
    const char *reason = diagnosis_str(codec_json_str(waiting, "reason", NULL));
    const char *message = diagnosis_str(codec_json_str(waiting, "message", NULL));
    d->container = diagnosis_str(codec_json_str(status, "name", NULL));
    if (find_image(in, reason, status, d) || find_config(in, reason, message, d) ||
        find_crash(in, status, reason, d) || find_probe(in, status, d))
        return true;
    bool usual = !*reason || gs_streq(reason, "PodInitializing") ||
                 gs_streq(reason, "CrashLoopBackOff") || !*message;
    if (usual)
        return false;
    d->cause = DIAGNOSIS_OTHER;
    d->reason = reason;
    d->identity = gs_strdup(message);
    d->text = diagnosis_excerpt(message);
    d->remedy = diagnosis_describe_command(in);
    return true;
}

bool diagnosis_find_in_containers(const struct diagnosis_input *in, struct diagnosis *d)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *status;
        json_array_foreach (codec_json_get(in->pod, "status", lists[l], NULL), i, status)
            if (find_in_container(in, status, d))
                return true;
    }
    d->container = NULL;
    return false;
}
