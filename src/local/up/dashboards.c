// SPDX-License-Identifier: Apache-2.0
// Dashboards of the cluster for the web interface: JSON files in ConfigMaps with the label
// grafana_dashboard=1, which charts create and Grafana's sidecar reads. Pages list and read them,
// and store imported ones. The texts are not interpreted here, except for title and uid.
#include "up/up_private.h"

#include "base/arena.h"
#include "base/mem.h"
#include "codec/json.h"
#include "kube/names.h"
#include "kube/object.h"
#include "web/reply.h"

#include <arpa/inet.h>
#include <string.h>

#define LABEL      "grafana_dashboard"
#define MANAGED_BY "app.kubernetes.io/managed-by"
#define SELF       "gpuscale"

enum {
    MAX_REQUESTS = 16,             // in progress
    MAX_LISTED = 500,              // files
    MAX_TITLE = 200,               // bytes
    MAX_TEXT = 1024 * 1024 - 4096, // bytes of a stored dashboard: a ConfigMap holds 1 MiB
    MAX_SCANNED = 16 * 1024 * 1024 // bytes of dashboards that a list searches for titles
};

struct dashboards_request {
    struct up_dashboards *of;
    struct http_exchange *x;
    struct kube_request *kube; // in progress
    char *ns, *name, *file;
    json_t *text; // of an import
    bool replace;
    struct dashboards_request *next;
};

struct up_dashboards {
    struct kube_client *client;
    struct dashboards_request *requests;
    size_t n_requests;
};

static void free_request(struct dashboards_request *r)
{
    struct dashboards_request **at = &r->of->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    r->of->n_requests--;
    kube_request_cancel(r->kube);
    free(r->ns);
    free(r->name);
    free(r->file);
    json_decref(r->text);
    free(r);
}

static void on_peer_gone(void *arg)
{
    free_request(arg);
}

static struct dashboards_request *new_request(struct up_dashboards *d, struct http_exchange *x)
{
    struct dashboards_request *r = gs_alloc(sizeof(*r));
    r->of = d;
    r->x = x;
    r->next = d->requests;
    d->requests = r;
    d->n_requests++;
    http_on_abort(x, on_peer_gone, r);
    return r;
}

// Takes err. The request is freed.
static void end_failed(struct dashboards_request *r, struct gs_error *err)
{
    http_on_abort(r->x, NULL, NULL);
    web_reply_failure(r->x, err);
    gs_error_free(err);
    free_request(r);
}

static void end_conflict(struct dashboards_request *r, const char *why)
{
    GS_AUTO_FREE char *text = gs_format("ConfigMap %s/%s exists %s", r->ns, r->name, why);
    http_on_abort(r->x, NULL, NULL);
    web_reply_error(r->x, 409, "conflict", text);
    free_request(r);
}

// Steals data. The request is freed.
static void end_ok(struct dashboards_request *r, json_t *data)
{
    http_on_abort(r->x, NULL, NULL);
    web_reply_data(r->x, data);
    free_request(r);
}

static bool is_labelled(const json_t *map, const char *label, const char *wanted)
{
    return gs_streq(kube_label(map, label), wanted);
}

static bool is_dashboard(const json_t *map)
{
    return is_labelled(map, LABEL, "1");
}

// --- lists ---

static void read_text(struct codec_json_pull *j, struct gs_arena *a, json_t *entry, const char *key)
{
    struct gs_slice text;
    if (codec_json_pull_peek(j) != '"') {
        codec_json_pull_skip(j, NULL);
        return;
    }
    if (!codec_json_pull_string(j, a, &text))
        return;
    GS_AUTO_FREE char *copy = gs_strndup(text.data, text.len < MAX_TITLE ? text.len : MAX_TITLE);
    codec_json_set_str(entry, key, copy);
}

// The title and the uid of the dashboard, if it has them.
static void add_titles(const char *text, json_t *entry)
{
    struct gs_arena arena = {0};
    struct codec_json_pull j = codec_json_pull_of(gs_slice_of(text));
    struct gs_slice key;
    if (codec_json_pull_object(&j)) {
        while (codec_json_pull_member(&j, &arena, &key)) {
            if (gs_slice_eq_str(key, "title"))
                read_text(&j, &arena, entry, "title");
            else if (gs_slice_eq_str(key, "uid"))
                read_text(&j, &arena, entry, "uid");
            else
                codec_json_pull_skip(&j, NULL);
        }
    }
    gs_arena_finish(&arena);
}

struct listing {
    json_t *out;
    size_t n, scanned;
};

static void list_files(const json_t *map, struct listing *l)
{
    const char *file;
    json_t *text;
    json_object_foreach (json_object_get(map, "data"), file, text) {
        if (!gs_ends(file, ".json") || l->n++ >= MAX_LISTED)
            continue;
        json_t *entry = json_object();
        codec_json_set_str(entry, "namespace", codec_json_str(map, "metadata", "namespace", NULL));
        codec_json_set_str(entry, "name", codec_json_str(map, "metadata", "name", NULL));
        codec_json_set_str(entry, "file", file);
        codec_json_set_int(entry, "bytes", (int64_t)json_string_length(text));
        codec_json_set_bool(entry, "imported", is_labelled(map, MANAGED_BY, SELF));
        l->scanned += json_string_length(text);
        if (json_is_string(text) && l->scanned <= MAX_SCANNED)
            add_titles(json_string_value(text), entry);
        json_array_append_new(l->out, entry);
    }
}

static void on_listed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct dashboards_request *r = arg;
    (void)status;
    r->kube = NULL;
    if (err) {
        end_failed(r, err);
        return;
    }
    struct listing l = {.out = json_array()};
    size_t i;
    json_t *map;
    json_array_foreach (json_object_get(body, "items"), i, map)
        list_files(map, &l);
    json_t *data = json_object();
    json_object_set_new(data, "dashboards", l.out);
    codec_json_set_int(data, "omitted", l.n > MAX_LISTED ? (int64_t)(l.n - MAX_LISTED) : 0);
    codec_json_set_bool(data, "stored", true); // imports can be
    end_ok(r, data);
}

// --- one dashboard ---

static void on_read(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct dashboards_request *r = arg;
    (void)status;
    r->kube = NULL;
    json_t *text = json_object_get(json_object_get(body, "data"), r->file);
    if (!err && (!is_dashboard(body) || !json_is_string(text)))
        err = gs_error_new(GS_ENOTFOUND,
                           "ConfigMap %s/%s has no dashboard %s: want the label " LABEL
                           "=1 and this key",
                           r->ns, r->name, r->file);
    if (err) {
        end_failed(r, err);
        return;
    }
    json_t *data = json_object();
    json_object_set(data, "text", text);
    end_ok(r, data);
}

// --- imports ---

static void on_stored(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct dashboards_request *r = arg;
    (void)status, (void)body;
    r->kube = NULL;
    if (err) {
        end_failed(r, err);
        return;
    }
    json_t *data = json_object();
    codec_json_set_str(data, "namespace", r->ns);
    codec_json_set_str(data, "name", r->name);
    codec_json_set_str(data, "file", r->file);
    end_ok(r, data);
}

static json_t *new_config_map(const struct dashboards_request *r)
{
    json_t *map = json_object();
    codec_json_set_str(map, "apiVersion", "v1");
    codec_json_set_str(map, "kind", "ConfigMap");
    codec_json_set(map, json_string(r->name), "metadata", "name", NULL);
    codec_json_set(map, json_string(r->ns), "metadata", "namespace", NULL);
    codec_json_set(map, json_string("1"), "metadata", "labels", LABEL, NULL);
    codec_json_set(map, json_string(SELF), "metadata", "labels", MANAGED_BY, NULL);
    codec_json_set(map, json_incref(r->text), "data", r->file, NULL);
    return map;
}

// What is there is replaced only if it was imported here, and the reader wants it.
static void on_existing(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct dashboards_request *r = arg;
    r->kube = NULL;
    if (status == 404) {
        gs_error_free(err);
        CODEC_AUTO_JSON json_t *map = new_config_map(r);
        r->kube = kube_create(r->of->client, KUBE_CONFIGMAPS, r->ns, map, on_stored, r);
        return;
    }
    if (err) {
        end_failed(r, err);
        return;
    }
    if (!is_dashboard(body) || !is_labelled(body, MANAGED_BY, SELF)) {
        end_conflict(r, "and was not imported here: choose another name");
        return;
    }
    if (!r->replace) {
        end_conflict(r, "already");
        return;
    }
    CODEC_AUTO_JSON json_t *map = json_deep_copy(body);
    codec_json_del(map, "data", NULL);
    codec_json_set(map, json_incref(r->text), "data", r->file, NULL);
    r->kube = kube_update(r->of->client, KUBE_CONFIGMAPS, r->ns, r->name, NULL, map, on_stored, r);
}

static bool is_ip(struct gs_slice host)
{
    char text[INET6_ADDRSTRLEN + 1], binary[sizeof(struct in6_addr)];
    if (host.len >= sizeof(text))
        return false;
    memcpy(text, host.data, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, binary) == 1 || inet_pton(AF_INET6, text, binary) == 1;
}

// The host of "HOST[:PORT]" or "[ADDRESS][:PORT]".
static struct gs_slice host_of(struct gs_slice authority)
{
    if (gs_slice_starts(authority, "[")) {
        authority = gs_slice_make(authority.data + 1, authority.len - 1);
        return gs_slice_cut(&authority, ']');
    }
    return gs_slice_cut(&authority, ':');
}

// Another site that the reader visits must not write here: its requests have its Origin, and
// browsers send JSON to other origins only after a permission, which is not given. A name that
// another site resolves to this machine is no name of it.
static struct gs_error *check_writer(const struct http_exchange *x)
{
    const char *host = http_header(x, "Host"), *origin = http_header(x, "Origin");
    const char *type = http_header(x, "Content-Type");
    struct gs_slice name = host_of(gs_slice_of(host));
    if (!type || !gs_starts(type, "application/json"))
        return gs_error_new(GS_EINVAL, "the Content-Type must be application/json");
    if (!gs_slice_eq_str(name, "localhost") && !is_ip(name))
        return gs_error_new(GS_EPERM, "a dashboard is stored only through localhost or an IP "
                                      "address, and not through another host name");
    const char *authority = origin ? strstr(origin, "://") : NULL;
    if (origin && (!authority || !gs_streq(authority + 3, host)))
        return gs_error_new(GS_EPERM, "pages of other sites must not store dashboards");
    return NULL;
}

static struct gs_error *check_names(const char *ns, const char *name)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    if (!ns || !name)
        return gs_error_new(GS_EINVAL, "namespace and name are missing");
    if (!kube_check_dns_label(gs_slice_of(ns), &why))
        return gs_error_new(GS_EINVAL, "namespace: %.*s", (int)why.len, why.data);
    if (!kube_check_dns_subdomain(gs_slice_of(name), &why))
        return gs_error_new(GS_EINVAL, "name: %.*s", (int)why.len, why.data);
    return NULL;
}

static struct gs_error *check_text(const json_t *text)
{
    CODEC_AUTO_JSON json_t *parsed = NULL;
    if (!json_is_string(text))
        return gs_error_new(GS_EINVAL, "dashboard: want the JSON of a dashboard as a string");
    if (json_string_length(text) > MAX_TEXT)
        return gs_error_new(GS_ELIMIT, "the dashboard has %zu bytes; a ConfigMap holds %d",
                            json_string_length(text), MAX_TEXT);
    struct gs_error *err = codec_json_parse(
        gs_slice_make(json_string_value(text), json_string_length(text)), false, &parsed);
    if (err)
        return gs_error_wrap(err, "dashboard");
    return json_is_object(parsed) ? NULL
                                  : gs_error_new(GS_EINVAL, "dashboard: it must be a JSON object");
}

static void import(struct up_dashboards *d, struct http_exchange *x)
{
    CODEC_AUTO_JSON json_t *body = NULL;
    struct gs_error *err = check_writer(x);
    if (!err)
        err = codec_json_parse(http_body(x), true, &body);
    const char *ns = codec_json_str(body, "namespace", NULL);
    const char *name = codec_json_str(body, "name", NULL);
    if (!err)
        err = check_names(ns, name);
    if (!err)
        err = check_text(json_object_get(body, "dashboard"));
    if (err) {
        web_reply_failure(x, err);
        gs_error_free(err);
        return;
    }
    struct dashboards_request *r = new_request(d, x);
    r->ns = gs_strdup(ns);
    r->name = gs_strdup(name);
    r->file = gs_format("%s.json", name);
    r->text = json_incref(json_object_get(body, "dashboard"));
    r->replace = codec_json_bool(body, false, "replace", NULL);
    r->kube = kube_get(d->client, KUBE_CONFIGMAPS, ns, name, NULL, on_existing, r);
}

// --- requests ---

static void read_one(struct up_dashboards *d, struct http_exchange *x, const char *ns,
                     const char *name, const char *file)
{
    GS_AUTO_ERROR struct gs_error *err = check_names(ns, name);
    if (!err && !file)
        err = gs_error_new(GS_EINVAL, "file is missing");
    if (err) {
        web_reply_failure(x, err);
        return;
    }
    struct dashboards_request *r = new_request(d, x);
    r->ns = gs_strdup(ns);
    r->name = gs_strdup(name);
    r->file = gs_strdup(file);
    r->kube = kube_get(d->client, KUBE_CONFIGMAPS, ns, name, NULL, on_read, r);
}

void up_dashboards_handle(struct up_dashboards *d, struct http_exchange *x)
{
    bool post = gs_streq(http_method(x), "POST");
    if (!post && !gs_streq(http_method(x), "GET")) {
        http_add_header(x, "Allow", "GET, HEAD, POST");
        web_reply_error(x, 405, "bad_data", "the method must be GET or POST");
        return;
    }
    if (d->n_requests >= MAX_REQUESTS) {
        http_add_header(x, "Retry-After", "1");
        web_reply_error(x, 429, "unavailable", "too many dashboards are read: try again later");
        return;
    }
    const char *ns = http_query(x, "namespace"), *name = http_query(x, "name");
    if (post) {
        import(d, x);
    } else if (ns || name) {
        read_one(d, x, ns, name, http_query(x, "file"));
    } else {
        struct dashboards_request *r = new_request(d, x);
        r->kube = kube_list(d->client, KUBE_CONFIGMAPS, NULL, "labelSelector=" LABEL "%3D1",
                            on_listed, r);
    }
}

// --- life ---

struct up_dashboards *up_dashboards_new(struct kube_client *client)
{
    struct up_dashboards *d = gs_alloc(sizeof(*d));
    d->client = client;
    return d;
}

void up_dashboards_free(struct up_dashboards *d)
{
    if (!d)
        return;
    for (struct dashboards_request *r = d->requests, *next; r; r = next) {
        next = r->next;
        end_failed(r, gs_error_new(GS_EUNAVAIL, "the server stops"));
    }
    free(d);
}
