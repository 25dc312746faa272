// SPDX-License-Identifier: Apache-2.0
// The order in which causes are looked for, and those of the pod as a whole.
#include "base/clock.h"
#include "base/mem.h"
#include "diagnosis/diagnosis_private.h"
#include "kube/object.h"
#include "nodes/pool.h"

static const struct {
    const char *name;
    bool lasts;
} causes[DIAGNOSIS_CAUSES] = {
    [DIAGNOSIS_IMAGE] = {"image", true},
    [DIAGNOSIS_MISSING] = {"missing", true},
    [DIAGNOSIS_CONFIG] = {"config", true},
    [DIAGNOSIS_VOLUME] = {"volume", true},
    [DIAGNOSIS_SANDBOX] = {"sandbox", true},
    [DIAGNOSIS_MEMORY] = {"memory", true},
    [DIAGNOSIS_CRASH] = {"crash", true},
    [DIAGNOSIS_FAILED] = {"failed", true},
    [DIAGNOSIS_SCHEDULER] = {"scheduler", true},
    [DIAGNOSIS_RESOURCE] = {"resource", true},
    [DIAGNOSIS_TOO_LARGE] = {"too-large", true},
    [DIAGNOSIS_SELECTOR] = {"selector", true},
    [DIAGNOSIS_TAINT] = {"taint", true},
    [DIAGNOSIS_CLAIM] = {"claim", true},
    [DIAGNOSIS_NODE_GONE] = {"node-gone", true},
    [DIAGNOSIS_GATED] = {"gated", true},
    [DIAGNOSIS_POOL_FULL] = {"pool-full", false},
    [DIAGNOSIS_BUSY] = {"busy", false},
    [DIAGNOSIS_PREEMPTS] = {"preempts", false},
    [DIAGNOSIS_COMING] = {"coming", false},
    [DIAGNOSIS_PROBE] = {"probe", false},
    [DIAGNOSIS_READINESS_GATE] = {"readiness-gate", false},
    [DIAGNOSIS_OTHER] = {"other", false},
};

const char *diagnosis_cause_name(enum diagnosis_cause c)
{
    return causes[c].name;
}

bool diagnosis_lasts(enum diagnosis_cause c)
{
    return causes[c].lasts;
}

// --- reading ---

const char *diagnosis_str(const char *s)
{
    return s ? s : "";
}

char *diagnosis_excerpt(const char *message)
{
    size_t len = message ? strlen(message) : 0, n = len;
    if (n > DIAGNOSIS_MAX_TEXT)
        for (n = DIAGNOSIS_MAX_TEXT; n && ((unsigned char)message[n] & 0xc0) == 0x80;)
            n--; // whole characters
    char *text = gs_format("%.*s%s", (int)n, diagnosis_str(message), n < len ? "…" : "");
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r' || *c == '\t')
            *c = ' ';
    return text;
}

char *diagnosis_pod_name(const struct diagnosis_input *in)
{
    const char *ns = kube_namespace(in->pod), *name = diagnosis_str(kube_name(in->pod));
    return !ns || gs_streq(ns, "default") ? gs_strdup(name) : gs_format("%s -n %s", name, ns);
}

char *diagnosis_describe_command(const struct diagnosis_input *in)
{
    GS_AUTO_FREE char *name = diagnosis_pod_name(in);
    return gs_format("kubectl describe pod %s", name);
}

static int64_t event_time(const json_t *event)
{
    int64_t at = kube_time_ms(json_object_get(event, "lastTimestamp"), 0);
    return at ? at : kube_time_ms(json_object_get(event, "eventTime"), 0);
}

const json_t *diagnosis_event(const struct diagnosis_input *in, const char *reason,
                              const char *begins, int64_t since_ms)
{
    size_t i;
    json_t *e;
    const json_t *best = NULL;
    json_array_foreach ((json_t *)in->events, i, e) {
        int64_t at = event_time(e);
        if (gs_streq(codec_json_str(e, "reason", NULL), reason) &&
            gs_starts(diagnosis_str(codec_json_str(e, "message", NULL)), begins) &&
            at + 999 >= since_ms && (!best || at >= event_time(best)))
            best = e;
    }
    return best;
}

bool diagnosis_is_embedded(const struct diagnosis_input *in)
{
    return nodes_is_embedded(json_array_get(in->nodes, 0));
}

void diagnosis_set(struct diagnosis *d, enum diagnosis_cause cause, const char *reason, char *text,
                   char *remedy)
{
    d->cause = cause;
    d->reason = reason;
    d->text = text;
    d->remedy = remedy;
    d->identity = gs_strdup(text);
}

// --- missing objects ---

// The kind of the object in the messages of kubelets, and what to do if it does not exist.
static const struct {
    const char *word, *kind;
    bool optional; // references have a member "optional"
} kinds[] = {
    {"secret", "Secret", true},
    {"configmap", "ConfigMap", true},
    {"persistentvolumeclaim", "PersistentVolumeClaim", false},
    {"serviceaccount", "ServiceAccount", false},
    {"storageclass", "StorageClass", false},
    {"resourceclaim", "ResourceClaim", false},
};

// Finds KIND "NAME" before "not found"; NULL: the text has no such object. Caller frees.
static char *missing_name(const char *message, const char *word)
{
    GS_AUTO_FREE char *head = gs_format("%s \"", word);
    const char *at = strstr(message, head);
    const char *name = at ? at + strlen(head) : NULL;
    size_t n = name ? strcspn(name, "\"") : 0;
    return n && gs_starts(name + n, "\" not found") ? gs_strndup(name, n) : NULL;
}

// "couldn't find key K in ConfigMap NS/NAME", "references non-existent secret key: K"
static bool find_missing_key(const char *message, struct diagnosis *d)
{
    if (!strstr(message, "couldn't find key") && !strstr(message, "non-existent"))
        return false;
    d->text = diagnosis_excerpt(message);
    d->remedy = gs_strdup("add the key, or set optional: true; it is tried again by itself");
    return true;
}

bool diagnosis_find_missing(const struct diagnosis_input *in, const char *reason,
                            const char *message, struct diagnosis *d)
{
    const char *ns = diagnosis_str(kube_namespace(in->pod));
    bool found = find_missing_key(message, d);
    for (size_t i = 0; !found && i < GS_ARRAY_LEN(kinds); i++) {
        GS_AUTO_FREE char *name = missing_name(message, kinds[i].word);
        if (!name)
            continue;
        found = true;
        d->text = gs_format("%s \"%s\" not found", kinds[i].word, name);
        d->remedy =
            gs_format("create it: the %s %s in namespace %s%s; it is tried again by itself",
                      kinds[i].kind, name, ns, kinds[i].optional ? ", or set optional: true" : "");
    }
    if (!found)
        return false;
    d->cause = DIAGNOSIS_MISSING;
    d->reason = reason;
    d->identity = gs_strdup(d->text);
    return true;
}

// --- the pod as a whole ---

static bool find_rejected(const struct diagnosis_input *in, struct diagnosis *d)
{
    const char *reason = codec_json_str(in->pod, "status", "reason", NULL);
    if (!reason || !gs_streq(kube_phase(in->pod), "Failed"))
        return false;
    d->cause = DIAGNOSIS_FAILED;
    d->reason = reason;
    d->identity = gs_strdup("");
    d->text = diagnosis_excerpt(codec_json_str(in->pod, "status", "message", NULL));
    GS_AUTO_FREE char *name = diagnosis_pod_name(in);
    d->remedy = gs_format("kubectl delete pod %s", name);
    return true;
}

static char *sandbox_remedy(const struct diagnosis_input *in, const char *message)
{
    if (strstr(message, "no runtime for"))
        return gs_strdup(
            "configure the node's container runtime for this RuntimeClass (nvidia-ctk runtime "
            "configure, or the toolkit of the GPU Operator), or remove runtimeClassName");
    return diagnosis_describe_command(in);
}

// Problems that the status of a pod does not show.
static bool find_warning(const struct diagnosis_input *in, struct diagnosis *d)
{
    static const struct {
        const char *reason;
        enum diagnosis_cause cause;
    } reasons[] = {{"FailedMount", DIAGNOSIS_VOLUME},
                   {"FailedAttachVolume", DIAGNOSIS_VOLUME},
                   {"FailedCreatePodSandBox", DIAGNOSIS_SANDBOX},
                   {"FailedPostStartHook", DIAGNOSIS_OTHER}};
    for (size_t i = 0; i < GS_ARRAY_LEN(reasons); i++) {
        const json_t *e = diagnosis_event(in, reasons[i].reason, "", 0);
        const char *message = diagnosis_str(codec_json_str(e, "message", NULL));
        if (!e)
            continue;
        if (diagnosis_find_missing(in, reasons[i].reason, message, d))
            return true;
        d->cause = reasons[i].cause;
        d->reason = reasons[i].reason;
        d->identity = gs_strdup("");
        d->text = diagnosis_excerpt(message);
        d->remedy = d->cause == DIAGNOSIS_SANDBOX ? sandbox_remedy(in, message)
                                                  : diagnosis_describe_command(in);
        return true;
    }
    return false;
}

static bool find_readiness_gate(const struct diagnosis_input *in, struct diagnosis *d)
{
    const json_t *c = kube_condition(in->pod, "Ready");
    if (!gs_streq(codec_json_str(c, "reason", NULL), "ReadinessGatesNotReady"))
        return false;
    d->cause = DIAGNOSIS_READINESS_GATE;
    d->reason = "ReadinessGatesNotReady";
    d->identity = gs_strdup("");
    d->text = diagnosis_excerpt(codec_json_str(c, "message", NULL));
    d->remedy = gs_strdup("see spec.readinessGates: a controller must set this condition");
    return true;
}

bool diagnosis_of(const struct diagnosis_input *in, struct diagnosis *ret)
{
    struct diagnosis d = {0};
    if (kube_is_deleting(in->pod) || kube_condition_true(in->pod, "Ready") ||
        gs_streq(kube_phase(in->pod), "Succeeded"))
        return false;
    if (!find_rejected(in, &d) && !diagnosis_find_in_containers(in, &d) &&
        !diagnosis_find_unscheduled(in, &d) && !find_warning(in, &d) &&
        !find_readiness_gate(in, &d))
        return false;
    *ret = d;
    return true;
}

void diagnosis_finish(struct diagnosis *d)
{
    free(d->text);
    free(d->remedy);
    free(d->identity);
    *d = (struct diagnosis){0};
}
