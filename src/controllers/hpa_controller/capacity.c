// SPDX-License-Identifier: Apache-2.0
// One request at a time: objects of a kind that is not wanted are deleted, then the target is read
// for its pod template, and each object is read and created or replaced if it differs. A failure
// ends that, and the next evaluation after a pause begins again.
#include "hpa_controller/capacity.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"
#include "hpa_controller/controller_private.h"
#include "hpa_controller/placeholder.h"
#include "kube/object.h"

// The pod template of the target may change, and so may the objects.
#define CHECK_MS     (10 * 60 * 1000)
#define RETRY_MS     5000
#define MOST_WAIT_MS (5 * 60 * 1000)

enum { KINDS = SLO_CAPACITY_PODS + 1 };
#define OBJECT(i) (1U << (i))

struct hpa_capacity {
    struct kube_client *client;
    struct hpa_resources *resources;
    bool shadow;
    json_t *object; // the autoscaler
    struct slo_capacity_policy policy;
    struct slo_capacity_state state;
    struct slo_capacity decision;
    bool decided, applied;
    char *error;           // of the last request; NULL: none
    unsigned owned[KINDS]; // a bit for each object of the kind that belongs to it, and may exist
    int32_t written;       // placeholders of the objects; -1: unknown
    int64_t due_ns;        // when they are checked, or a failed request is repeated
    int64_t wait_ms;       // after failures; 0: the last request succeeded
    // what is under way
    struct kube_request *request; // NULL: nothing
    enum slo_capacity_kind kind;
    struct hpa_placeholders wanted;
    size_t at;         // of them
    int32_t n_written; // their placeholders
};

static const char *kind_name(enum slo_capacity_kind kind)
{
    return kind == SLO_CAPACITY_BUFFER ? "buffer" : "pods";
}

struct hpa_capacity *hpa_capacity_new(struct kube_client *client, struct hpa_resources *resources,
                                      bool shadow)
{
    struct hpa_capacity *c = gs_alloc(sizeof(*c));
    c->client = client;
    c->resources = resources;
    c->shadow = shadow;
    c->written = -1;
    return c;
}

void hpa_capacity_free(struct hpa_capacity *c)
{
    if (!c)
        return;
    kube_request_cancel(c->request);
    hpa_placeholders_finish(&c->wanted);
    json_decref(c->object);
    free(c->error);
    free(c);
}

struct gs_error *hpa_capacity_update(struct hpa_capacity *c, const json_t *object)
{
    enum slo_capacity_kind before = c->policy.kind;
    json_decref(c->object);
    c->object = json_incref((json_t *)(uintptr_t)object);
    struct gs_error *err = slo_capacity_policy_of(object, &c->policy);
    if (c->policy.kind == before)
        return err;
    c->state = (struct slo_capacity_state){0};
    c->decided = false;
    c->written = -1;
    c->due_ns = c->wait_ms = 0;
    free(GS_TAKE(c->error));
    return err;
}

// --- the end of a run ---

static void end_run(struct hpa_capacity *c)
{
    c->request = NULL;
    hpa_placeholders_finish(&c->wanted);
}

static void succeed(struct hpa_capacity *c)
{
    end_run(c);
    // Meanwhile, the annotation may have another kind.
    c->written = c->kind == c->policy.kind ? c->n_written : -1;
    c->wait_ms = 0;
    c->due_ns = gs_mono_ns() + CHECK_MS * GS_NS_PER_MS;
    free(GS_TAKE(c->error));
}

// Takes err.
static void fail(struct hpa_capacity *c, struct gs_error *error)
{
    GS_AUTO_ERROR struct gs_error *err = error;
    end_run(c);
    c->written = -1;
    c->wait_ms = gs_backoff_next(c->wait_ms, RETRY_MS, MOST_WAIT_MS);
    c->due_ns = gs_mono_ns() + c->wait_ms * GS_NS_PER_MS;
    if (gs_streq(c->error, gs_error_message(err)))
        return;
    free(c->error);
    c->error = gs_strdup(gs_error_message(err));
    gs_warn("hpa", "%s/%s: capacity in advance: %s", kube_namespace(c->object),
            kube_name(c->object), c->error);
}

// --- removal ---

static void remove_next(struct hpa_capacity *c);

static void on_removed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_capacity *c = arg;
    (void)body;
    c->request = NULL;
    if (err && status != 404) {
        fail(c, err);
        return;
    }
    gs_error_free(err);
    c->owned[c->kind] &= ~OBJECT(c->at - 1);
    remove_next(c);
}

// In the reverse order of their creation.
static void remove_next(struct hpa_capacity *c)
{
    while (c->at && !(c->owned[c->kind] & OBJECT(c->at - 1)))
        c->at--;
    if (!c->at) {
        end_run(c);
        c->wait_ms = c->due_ns = 0;
        return;
    }
    GS_AUTO_FREE char *name = hpa_placeholder_name(kube_name(c->object));
    c->request = kube_delete(c->client, c->wanted.items[c->at - 1].resource,
                             kube_namespace(c->object), name, -1, on_removed, c);
}

static void begin_to_remove(struct hpa_capacity *c, enum slo_capacity_kind kind)
{
    c->kind = kind;
    c->wanted = hpa_placeholders_of_kind(kind);
    c->at = c->wanted.n;
    remove_next(c);
}

void hpa_capacity_release(struct hpa_capacity *c)
{
    kube_request_cancel(GS_TAKE(c->request));
    end_run(c);
    for (int kind = SLO_CAPACITY_BUFFER; !c->shadow && kind < KINDS; kind++) {
        struct hpa_placeholders p = hpa_placeholders_of_kind((enum slo_capacity_kind)kind);
        GS_AUTO_FREE char *name = hpa_placeholder_name(kube_name(c->object));
        for (size_t i = p.n; i-- > 0;)
            if (c->owned[kind] & OBJECT(i))
                kube_delete(c->client, p.items[i].resource, kube_namespace(c->object), name, -1,
                            NULL, NULL);
        c->owned[kind] = 0;
    }
}

// --- creation ---

static void write_next(struct hpa_capacity *c);

static void own_next(struct hpa_capacity *c)
{
    c->owned[c->kind] |= OBJECT(c->at);
    c->at++;
    write_next(c);
}

static void on_placeholder_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_capacity *c = arg;
    (void)body;
    c->request = NULL;
    if (status == 404 && c->kind == SLO_CAPACITY_BUFFER && c->at == 1) {
        gs_error_free(err);
        err = gs_error_new(GS_ENOTFOUND, "the API server does not serve CapacityBuffers "
                                         "(autoscaling.x-k8s.io/v1beta1); " SLO_CAPACITY_ANNOTATION
                                         ": pods needs none");
    }
    if (err) {
        fail(c, err);
        return;
    }
    own_next(c);
}

// An object whose creation has no reply may exist.
static void on_placeholder_created(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_capacity *c = arg;
    if (err && status >= 400 && status < 500)
        c->owned[c->kind] &= ~OBJECT(c->at);
    on_placeholder_written(c, status, body, err);
}

static void on_placeholder_read(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_capacity *c = arg;
    const struct hpa_placeholder *p = &c->wanted.items[c->at];
    const char *ns = kube_namespace(p->object), *name = kube_name(p->object);
    c->request = NULL;
    if (err && status == 404) {
        gs_error_free(err);
        c->owned[c->kind] |= OBJECT(c->at);
        c->request = kube_create(c->client, p->resource, ns, p->object, on_placeholder_created, c);
    } else if (err) {
        fail(c, err);
    } else if (!hpa_placeholder_is_of(body, kube_uid(c->object))) {
        fail(c, gs_error_new(GS_EEXIST, "%s %s/%s exists, and belongs to another owner",
                             kube_kind(p->object), ns, name));
    } else if (hpa_placeholder_is_same(body, p->object)) {
        own_next(c);
    } else {
        codec_json_set_str(json_object_get(p->object, "metadata"), "resourceVersion",
                           kube_resource_version(body));
        c->request = kube_update(c->client, p->resource, ns, name, NULL, p->object,
                                 on_placeholder_written, c);
    }
}

static void write_next(struct hpa_capacity *c)
{
    if (c->at == c->wanted.n) {
        succeed(c);
        return;
    }
    const struct hpa_placeholder *p = &c->wanted.items[c->at];
    c->request = kube_get(c->client, p->resource, kube_namespace(p->object), kube_name(p->object),
                          NULL, on_placeholder_read, c);
}

static void on_target_read(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_capacity *c = arg;
    (void)status;
    c->request = NULL;
    c->at = 0;
    c->n_written = c->state.placeholders;
    if (!err)
        err = hpa_placeholders_make(c->kind, c->object, body, c->n_written, &c->wanted);
    if (err)
        fail(c, err);
    else
        write_next(c);
}

static void begin_to_write(struct hpa_capacity *c, const struct hpa_spec *spec)
{
    struct kube_gvr target;
    bool known = false;
    struct gs_error *err = hpa_resources_get(c->resources, spec->target_api_version,
                                             spec->target_kind, &known, &target);
    c->kind = c->policy.kind;
    if (err)
        fail(c, err);
    else if (known)
        c->request =
            kube_get(c->client, target, spec->ns, spec->target_name, NULL, on_target_read, c);
}

// --- following ---

// Objects of a kind that is not wanted, or of a target that is in shadow mode now;
// SLO_CAPACITY_NONE: none.
static enum slo_capacity_kind superfluous(const struct hpa_capacity *c)
{
    bool shadow = c->decided && !c->applied;
    for (int kind = SLO_CAPACITY_BUFFER; kind < KINDS; kind++)
        if (c->owned[kind] && (shadow || (enum slo_capacity_kind)kind != c->policy.kind))
            return (enum slo_capacity_kind)kind;
    return SLO_CAPACITY_NONE;
}

static bool is_written(const struct hpa_capacity *c)
{
    return c->policy.kind == SLO_CAPACITY_NONE || !c->applied ||
           (c->state.placeholders == 0 && !c->owned[c->policy.kind]) ||
           (c->written == c->state.placeholders && gs_mono_ns() < c->due_ns);
}

static void decide(struct hpa_capacity *c, const struct hpa_spec *spec,
                   const struct hpa_latency_outlook *o, int32_t replicas, bool limited,
                   int64_t now_ms)
{
    const struct slo_capacity_input in = {.decision = o->decision,
                                          .growth = o->growth,
                                          .rise = o->rise,
                                          .horizon_ms = o->horizon_ms,
                                          .replicas = replicas,
                                          .max = spec->max_replicas,
                                          .limited = limited};
    slo_capacity_decide(&c->policy, &in, &c->state, now_ms, &c->decision);
    c->decided = true;
    c->applied = o->applied && !c->shadow;
}

static void stop(struct hpa_capacity *c)
{
    slo_capacity_stop(&c->state, &c->decision);
    c->applied = !c->shadow && (c->applied || !c->decided);
    c->decided = true;
}

void hpa_capacity_follow(struct hpa_capacity *c, const struct hpa_spec *spec,
                         const struct hpa_latency_outlook *outlook, int32_t replicas, bool limited,
                         int64_t now_ms)
{
    if (replicas == 0 && c->policy.kind != SLO_CAPACITY_NONE)
        stop(c);
    else if (outlook && c->policy.kind != SLO_CAPACITY_NONE)
        decide(c, spec, outlook, replicas, limited, now_ms);
    enum slo_capacity_kind kind = superfluous(c);
    if (c->shadow || c->request || (c->wait_ms && gs_mono_ns() < c->due_ns))
        return;
    if (kind != SLO_CAPACITY_NONE)
        begin_to_remove(c, kind);
    else if (c->decided && !is_written(c))
        begin_to_write(c, spec);
}

// The number that another process decided stays until a forecast is known, unless this one has
// decided about a number.
static void adopt(struct hpa_capacity *c, const json_t *object)
{
    int64_t n = codec_json_int(object, 0, "spec", "replicas", NULL);
    if (!c->state.raised_ms && n > c->state.placeholders)
        c->state.placeholders = n < c->policy.max ? (int32_t)n : c->policy.max;
}

void hpa_capacity_found(struct hpa_capacity *c, const json_t *object, struct kube_gvr resource)
{
    if (!hpa_placeholder_is_of(object, kube_uid(c->object)))
        return;
    for (int kind = SLO_CAPACITY_BUFFER; kind < KINDS; kind++) {
        struct hpa_placeholders p = hpa_placeholders_of_kind((enum slo_capacity_kind)kind);
        for (size_t i = 0; i < p.n; i++)
            if (gs_streq(p.items[i].resource.resource, resource.resource)) {
                c->owned[kind] |= OBJECT(i);
                if ((enum slo_capacity_kind)kind == c->policy.kind)
                    adopt(c, object);
            }
    }
}

json_t *hpa_capacity_json(const struct hpa_capacity *c)
{
    if (c->policy.kind == SLO_CAPACITY_NONE || !c->decided)
        return NULL;
    json_t *out =
        json_pack("{s:s, s:i, s:i, s:i, s:b, s:s}", "kind", kind_name(c->policy.kind), "max",
                  c->policy.max, "placeholders", c->decision.placeholders, "present",
                  c->decision.present, "applied", c->applied, "text", c->decision.text);
    if (c->decision.forecast >= 0)
        codec_json_set_int(out, "forecast", c->decision.forecast);
    if (c->error)
        codec_json_set_str(out, "error", c->error);
    return out;
}
