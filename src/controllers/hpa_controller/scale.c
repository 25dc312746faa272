// SPDX-License-Identifier: Apache-2.0
// Reads and writes the scale subresource. A conflict is repeated with the newest object, because
// another writer of the object does not change what was decided.
#include "hpa_controller/controller_private.h"

#include "base/mem.h"
#include "base/timer.h"
#include "kube/selector.h"

#define WRITE_TRIES    5
#define WRITE_PAUSE_MS 10

struct hpa_scale {
    struct kube_client *client;
    struct hpa_resources *resources;
    const struct hpa_spec *spec;
    struct gs_timer *timer;
    struct kube_gvr resource;
    struct hpa_lookup *lookup;
    struct kube_request *request;
    json_t *object; // as last read
    int32_t wanted;
    unsigned tries;
    struct gs_error *failed; // detected immediately, reported later
    hpa_scale_done cb;
    void *arg;
};

struct hpa_scale *hpa_scale_new(uv_loop_t *loop, struct kube_client *client,
                                struct hpa_resources *resources, const struct hpa_spec *spec)
{
    struct hpa_scale *s = gs_alloc(sizeof(*s));
    s->client = client;
    s->resources = resources;
    s->spec = spec;
    s->timer = gs_timer_new(loop, s);
    return s;
}

static void timer_closed(void *arg)
{
    struct hpa_scale *s = arg;
    json_decref(s->object);
    gs_error_free(s->failed);
    free(s);
}

void hpa_scale_free(struct hpa_scale *s)
{
    if (!s)
        return;
    hpa_lookup_cancel(s->lookup);
    kube_request_cancel(s->request);
    s->lookup = NULL;
    s->request = NULL;
    gs_timer_close(s->timer, timer_closed);
}

// --- reading ---
static struct gs_error *check_scale(const json_t *body)
{
    const json_t *replicas = codec_json_get(body, "spec", "replicas", NULL);
    int64_t n = json_is_integer(replicas) ? json_integer_value(replicas) : 0;
    if (!json_is_object(body) || (replicas && !json_is_integer(replicas)) || n < 0 || n > INT32_MAX)
        return gs_error_new(GS_EPROTO, "the scale subresource has no usable spec.replicas");
    return NULL;
}

// Kubernetes clients read the selector from the scale.
static struct gs_error *check_scale_selector(const json_t *body)
{
    const char *text = codec_json_str(body, "status", "selector", NULL);
    struct kube_selector selector = {0};
    if (!text)
        return NULL;
    struct gs_error *err = kube_selector_parse(text, &selector);
    kube_selector_finish(&selector);
    return err ? gs_error_wrap(err,
                               "received an object from a /scale endpoint which was not "
                               "convertible to autoscaling Scale: failed to parse target selector: "
                               "couldn't parse the selector string \"%s\"",
                               text)
               : NULL;
}

static struct gs_error *read_scale(struct hpa_scale *s, json_t *body)
{
    struct gs_error *err = check_scale(body);
    if (!err)
        err = check_scale_selector(body);
    if (err)
        return err;
    json_decref(s->object);
    s->object = json_incref(body);
    return NULL;
}

static void read_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_scale *s = arg;
    s->request = NULL;
    if (status == 404)
        hpa_resources_forget(s->resources, s->spec->target_api_version, s->spec->target_kind);
    if (!err)
        err = read_scale(s, body);
    s->cb(s->arg, err);
}

static void send_read(struct hpa_scale *s, kube_done done)
{
    s->request =
        kube_get(s->client, s->resource, s->spec->ns, s->spec->target_name, "scale", done, s);
}

static void lookup_done(void *arg, struct gs_error *err)
{
    struct hpa_scale *s = arg;
    bool known = false;
    s->lookup = NULL;
    if (!err)
        err = hpa_resources_get(s->resources, s->spec->target_api_version, s->spec->target_kind,
                                &known, &s->resource);
    if (err)
        s->cb(s->arg, err);
    else
        send_read(s, read_done);
}

static void deliver_failure(void *arg)
{
    struct hpa_scale *s = arg;
    s->cb(s->arg, GS_TAKE(s->failed));
}

void hpa_scale_read(struct hpa_scale *s, hpa_scale_done cb, void *arg)
{
    bool known = false;
    s->cb = cb;
    s->arg = arg;
    struct gs_error *err = hpa_resources_get(s->resources, s->spec->target_api_version,
                                             s->spec->target_kind, &known, &s->resource);
    if (err) {
        s->failed = err;
        gs_timer_start(s->timer, deliver_failure, 0);
    } else if (known) {
        send_read(s, read_done);
    } else {
        s->lookup = hpa_resources_discover(s->resources, s->spec->target_api_version,
                                           s->spec->target_kind, lookup_done, s);
    }
}

static int32_t replicas_at(const struct hpa_scale *s, const char *part)
{
    int64_t n = codec_json_int(s->object, 0, part, "replicas", NULL);
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

int32_t hpa_scale_spec_replicas(const struct hpa_scale *s)
{
    return replicas_at(s, "spec");
}

int32_t hpa_scale_status_replicas(const struct hpa_scale *s)
{
    return replicas_at(s, "status");
}

const char *hpa_scale_selector(const struct hpa_scale *s)
{
    const char *selector = codec_json_str(s->object, "status", "selector", NULL);
    return selector ? selector : "";
}

// --- writing ---
static void send_write(struct hpa_scale *s);

static void reread_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_scale *s = arg;
    s->request = NULL;
    if (!err)
        err = read_scale(s, body);
    if (err)
        s->cb(s->arg, err);
    else
        send_write(s);
}

static void reread(void *arg)
{
    send_read(arg, reread_done);
}

static void write_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_scale *s = arg;
    s->request = NULL;
    if (err && status == 409 && ++s->tries < WRITE_TRIES) {
        gs_error_free(err);
        gs_timer_start(s->timer, reread, WRITE_PAUSE_MS);
        return;
    }
    s->cb(s->arg, err);
}

static void send_write(struct hpa_scale *s)
{
    CODEC_AUTO_JSON json_t *object = json_deep_copy(s->object);
    codec_json_set(object, json_integer(s->wanted), "spec", "replicas", NULL);
    s->request = kube_update(s->client, s->resource, s->spec->ns, s->spec->target_name, "scale",
                             object, write_done, s);
}

void hpa_scale_write(struct hpa_scale *s, int32_t replicas, hpa_scale_done cb, void *arg)
{
    s->cb = cb;
    s->arg = arg;
    s->wanted = replicas;
    s->tries = 0;
    send_write(s);
}
