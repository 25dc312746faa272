// SPDX-License-Identifier: Apache-2.0
// A file is written at once, with a rename. A ConfigMap is patched, which replaces its one key as a
// whole. Both hold the same bytes: gzip of the JSON document.
#include "hpa_controller/learned_store.h"

#include "base/backoff.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "codec/encoding.h"
#include "hpa_controller/learned.h"
#include "kube/client.h"
#include "kube/object.h"

#define KEY "learned.json.gz" // of binaryData

// A ConfigMap has at most 1 MiB, and base64 takes a third more.
#define MOST_CONFIG_MAP ((size_t)700 << 10)
#define MOST_FILE       ((size_t)16 << 20)
#define MOST_TEXT       ((size_t)16 << 20)

#define SAVE_MS       (5 * 60 * 1000)
#define LAST_SAVE_MS  2000
#define READ_AGAIN_MS 2000

enum { READ_TRIES = 3 };

struct hpa_learned_store {
    struct hpa_learned_store_config cfg;
    struct gs_timer *timer;
    struct kube_request *request; // NULL: none is pending
    void (*done)(void *arg);      // of the read, then of the last write; NULL: none waits
    void *arg;
    json_t *pending; // the ConfigMap that is written
    int tries;       // reads that have failed
    int64_t wait_ms; // until the next read
    bool is_read;    // before that, what is there must not be overwritten
};

// --- the document ---

static void leave_forecasts_out(json_t *document)
{
    const char *key;
    json_t *service;
    json_object_foreach (json_object_get(document, HPA_LEARNED_SERVICES), key, service)
        json_object_del(service, HPA_LEARNED_FORECAST);
}

// GS_ELIMIT: it does not fit.
static struct gs_error *pack(const json_t *document, size_t most, struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_finish(ret);
    codec_json_dump(document, &text);
    if (text.len > MOST_TEXT)
        return gs_error_new(GS_ELIMIT, "its text has %zu bytes, at most %zu fit", text.len,
                            MOST_TEXT);
    struct gs_error *err = codec_gzip(gs_buf_slice(&text), NULL, NULL, ret);
    if (!err && ret->len > most)
        err = gs_error_new(GS_ELIMIT, "it has %zu bytes, at most %zu fit", ret->len, most);
    return err;
}

static bool is_too_large(struct gs_error **err)
{
    if (!*err || gs_error_code(*err) != GS_ELIMIT)
        return false;
    gs_error_free(GS_TAKE(*err));
    return true;
}

struct gs_error *hpa_learned_pack(json_t *document, size_t most, struct gs_buf *ret)
{
    struct gs_error *err = pack(document, most, ret);
    if (is_too_large(&err)) {
        leave_forecasts_out(document);
        err = pack(document, most, ret);
    }
    if (is_too_large(&err)) {
        json_object_del(document, HPA_LEARNED_STARTS);
        err = pack(document, most, ret);
    }
    return err;
}

struct gs_error *hpa_learned_unpack(struct gs_slice packed, json_t **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = codec_gunzip(packed, MOST_TEXT, NULL, NULL, &text);
    return err ? err : codec_json_parse(gs_buf_slice(&text), true, ret);
}

// --- both places ---

static char *place_of(const struct hpa_learned_store *s)
{
    return s->cfg.path ? gs_strdup(s->cfg.path)
                       : gs_format("ConfigMap %s/%s", s->cfg.ns, s->cfg.name);
}

// Takes err.
static void warn(const struct hpa_learned_store *s, const char *what, struct gs_error *error)
{
    GS_AUTO_ERROR struct gs_error *err = error;
    GS_AUTO_FREE char *place = place_of(s);
    if (err)
        gs_warn("hpa", "%s: what was learned cannot be %s: %s", place, what, gs_error_message(err));
}

static void finish_call(struct hpa_learned_store *s)
{
    void (*done)(void *arg) = s->done;
    s->done = NULL;
    if (done)
        done(s->arg);
}

static struct gs_error *use(const struct hpa_learned_store *s, struct gs_slice packed)
{
    CODEC_AUTO_JSON json_t *document = NULL;
    struct gs_error *err = hpa_learned_unpack(packed, &document);
    if (!err)
        err = hpa_controller_restore(s->cfg.controller, document);
    if (!err) {
        GS_AUTO_FREE char *place = place_of(s);
        gs_info("hpa", "what was learned of %zu services is read from %s",
                json_object_size(json_object_get(document, HPA_LEARNED_SERVICES)), place);
    }
    return err;
}

static void save(void *arg);
static void read_place(void *arg);

static void begin_to_save(struct hpa_learned_store *s)
{
    s->is_read = true;
    gs_timer_repeat(s->timer, save, SAVE_MS, SAVE_MS);
    finish_call(s);
}

// The controller starts without it after some failures. What is read later is merged with what was
// learned until then, and only after that it is written. Takes err.
static void read_again(struct hpa_learned_store *s, bool refused, struct gs_error *err)
{
    bool starts = refused || ++s->tries == READ_TRIES;
    if (starts)
        warn(s, "read", err);
    else
        gs_error_free(err);
    s->wait_ms = refused ? SAVE_MS : gs_backoff_next(s->wait_ms, s->cfg.retry_ms, SAVE_MS);
    gs_timer_start(s->timer, read_place, (uint64_t)s->wait_ms);
    if (starts)
        finish_call(s);
}

// --- a file ---

static void read_file(struct hpa_learned_store *s)
{
    GS_AUTO_BUF struct gs_buf packed = {0};
    struct gs_error *err = gs_file_read(s->cfg.path, MOST_FILE, &packed);
    if (err && gs_error_code(err) != GS_ENOTFOUND) {
        read_again(s, true, err);
        return;
    }
    if (!err)
        warn(s, "used", use(s, gs_buf_slice(&packed)));
    gs_error_free(err);
    begin_to_save(s);
}

static struct gs_error *write_file(const struct hpa_learned_store *s, json_t *document)
{
    GS_AUTO_BUF struct gs_buf packed = {0};
    struct gs_error *err = hpa_learned_pack(document, MOST_FILE, &packed);
    return err ? err : gs_file_write_atomic(s->cfg.path, 0600, gs_buf_slice(&packed));
}

// --- a ConfigMap ---

static void on_read(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_learned_store *s = arg;
    const char *text = codec_json_str(body, "binaryData", KEY, NULL);
    s->request = NULL;
    if (err && status != 404) {
        read_again(s, status == 403, err);
        return;
    }
    if (!err && text) {
        GS_AUTO_BUF struct gs_buf packed = {0};
        err = codec_base64_decode(gs_slice_of(text), &packed);
        warn(s, "used", err ? err : use(s, gs_buf_slice(&packed)));
    } else {
        gs_error_free(err);
    }
    begin_to_save(s);
}

static void read_config_map(struct hpa_learned_store *s)
{
    s->request = kube_get(s->cfg.client, KUBE_CONFIGMAPS, s->cfg.ns, s->cfg.name, NULL, on_read, s);
}

static void on_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_learned_store *s = arg;
    (void)body;
    s->request = NULL;
    if (status == 404 && s->pending) {
        gs_error_free(err);
        s->request =
            kube_create(s->cfg.client, KUBE_CONFIGMAPS, s->cfg.ns, s->pending, on_written, s);
        json_decref(GS_TAKE(s->pending));
        return;
    }
    json_decref(GS_TAKE(s->pending));
    warn(s, "written", err);
    finish_call(s);
}

static struct gs_error *write_config_map(struct hpa_learned_store *s, json_t *document)
{
    GS_AUTO_BUF struct gs_buf packed = {0}, text = {0};
    struct gs_error *err = hpa_learned_pack(document, MOST_CONFIG_MAP, &packed);
    if (err)
        return err;
    codec_base64_encode(gs_buf_slice(&packed), &text);
    s->pending = json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s}}", "apiVersion", "v1", "kind",
                           "ConfigMap", "metadata", "namespace", s->cfg.ns, "name", s->cfg.name,
                           "binaryData", KEY, text.data);
    s->request = kube_patch(s->cfg.client, KUBE_CONFIGMAPS, s->cfg.ns, s->cfg.name, NULL,
                            KUBE_MERGE_PATCH, s->pending, on_written, s);
    return NULL;
}

static void read_place(void *arg)
{
    struct hpa_learned_store *s = arg;
    if (s->cfg.path)
        read_file(s);
    else
        read_config_map(s);
}

// --- public functions ---

static void save(void *arg)
{
    struct hpa_learned_store *s = arg;
    if (s->request)
        return;
    CODEC_AUTO_JSON json_t *document = hpa_controller_learned(s->cfg.controller);
    warn(s, "written", s->cfg.path ? write_file(s, document) : write_config_map(s, document));
}

struct hpa_learned_store *hpa_learned_store_new(const struct hpa_learned_store_config *cfg,
                                                void (*loaded)(void *arg), void *arg)
{
    struct hpa_learned_store *s = gs_alloc(sizeof(*s));
    s->cfg = *cfg;
    if (s->cfg.retry_ms <= 0)
        s->cfg.retry_ms = READ_AGAIN_MS;
    s->timer = gs_timer_new(cfg->loop, s);
    s->done = loaded;
    s->arg = arg;
    read_place(s);
    return s;
}

static void give_up(void *arg)
{
    struct hpa_learned_store *s = arg;
    if (s->request)
        kube_request_cancel(GS_TAKE(s->request));
    finish_call(s);
}

void hpa_learned_store_end(struct hpa_learned_store *s, void (*saved)(void *arg), void *arg)
{
    s->done = saved;
    s->arg = arg;
    gs_timer_stop(s->timer);
    if (s->is_read)
        save(s);
    else if (s->request)
        kube_request_cancel(GS_TAKE(s->request));
    if (s->request)
        gs_timer_start(s->timer, give_up, LAST_SAVE_MS);
    else
        finish_call(s);
}

void hpa_learned_store_free(struct hpa_learned_store *s)
{
    if (!s)
        return;
    if (s->request)
        kube_request_cancel(s->request);
    gs_timer_free(s->timer);
    json_decref(s->pending);
    free(s);
}
