// SPDX-License-Identifier: Apache-2.0
// k8s-sidecar beside a Grafana of this machine: writes the keys of ConfigMaps and Secrets with a
// label into a folder, and calls a URL after changes. Its settings are the variables of the
// original.
#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "local/standin/standin_private.h"
#include "net/http/client.h"

enum { MAX_VALUE = 1024 * 1024 };

struct source {
    struct sidecar *owner;
    struct kube_cache *cache; // NULL: not wanted
    bool secret, synced;
};

struct sidecar {
    struct standin_session *session;
    struct source sources[2];
    struct standin_call *call; // NULL: no URL
};

static void write_key(struct standin_session *s, const char *key, const char *value, bool encoded)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", standin_env(s, "FOLDER"), key);
    GS_AUTO_BUF struct gs_buf text = {.limit = MAX_VALUE};
    if (!value || !*key || strchr(key, '/') || gs_streq(key, "..") || gs_streq(key, "."))
        return;
    GS_AUTO_ERROR struct gs_error *err =
        encoded ? codec_base64_decode(gs_slice_of(value), &text) : NULL;
    if (!err)
        standin_write(s, path, encoded ? (text.len ? text.data : "") : value);
}

static void write_object(struct standin_session *s, const json_t *object, bool secret)
{
    const char *key;
    json_t *value;
    json_object_foreach (json_object_get(object, "data"), key, value)
        write_key(s, key, json_string_value(value), secret);
}

// Keys that the object has no longer, or all if it was deleted.
static void remove_keys(struct standin_session *s, const json_t *old_object, const json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach (json_object_get(old_object, "data"), key, value) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", standin_env(s, "FOLDER"), key);
        if (!codec_json_get(object, "data", key, NULL) && !strchr(key, '/'))
            standin_write(s, path, NULL);
    }
}

static void on_change(void *arg, const json_t *old_object, const json_t *object)
{
    struct source *from = arg;
    struct standin_session *s = from->owner->session;
    remove_keys(s, old_object, object);
    write_object(s, object, from->secret);
    if (from->owner->call)
        standin_call_soon(from->owner->call);
}

// An init container, and METHOD=LIST, end after the first list.
static void end_after_list(struct standin_session *s)
{
    if (s->init || gs_streq(standin_env(s, "METHOD"), "LIST"))
        standin_exit(s, 0);
}

static void on_synced(void *arg)
{
    struct source *from = arg;
    struct sidecar *c = from->owner;
    from->synced = true;
    for (size_t i = 0; i < GS_ARRAY_LEN(c->sources); i++)
        if (c->sources[i].cache && !c->sources[i].synced)
            return;
    end_after_list(c->session);
}

static void follow(struct sidecar *c, struct source *from, struct kube_gvr gvr, bool secret)
{
    const struct standin_session *s = c->session;
    const char *ns = standin_env(s, "NAMESPACE"), *value = standin_env(s, "LABEL_VALUE");
    GS_AUTO_FREE char *label =
        gs_format("%s%s%s", standin_env(s, "LABEL"), *value ? "=" : "", value);
    GS_AUTO_BUF struct gs_buf query = {0};
    gs_buf_add_str(&query, "labelSelector=");
    http_encode(gs_slice_of(label), &query);
    const struct kube_cache_handlers handlers = {
        .on_change = on_change, .on_synced = on_synced, .arg = from};
    bool all = gs_streq(ns, "ALL") || strchr(ns, ',');
    from->owner = c;
    from->secret = secret;
    from->cache = kube_cache_new(s->server->cfg.cluster->loop, s->server->cfg.cluster->client, gvr,
                                 all   ? NULL
                                 : *ns ? ns
                                       : standin_namespace(s),
                                 query.data);
    kube_cache_add_handlers(from->cache, &handlers);
    kube_cache_start(from->cache);
}

static void call_url(struct sidecar *c)
{
    struct standin_session *s = c->session;
    const char *url = standin_env(s, "REQ_URL");
    if (!*url)
        return;
    GS_AUTO_ERROR struct gs_error *err =
        standin_call_new(s, url, standin_env(s, "REQ_METHOD"), standin_env(s, "REQ_USERNAME"),
                         standin_env(s, "REQ_PASSWORD"), &c->call);
    if (err)
        standin_log(s, "gpuscale: REQ_URL: %s", gs_error_message(err));
}

void standin_sidecar_start(struct standin_session *s)
{
    const char *resource = standin_env(s, "RESOURCE");
    if (!standin_grafana_installed() || !*standin_env(s, "LABEL") || !*standin_env(s, "FOLDER")) {
        standin_log(s, "gpuscale: dashboards and data sources are read by gpuscale up itself");
        end_after_list(s);
        return;
    }
    struct sidecar *c = gs_alloc(sizeof(*c));
    c->session = s;
    s->state = c;
    call_url(c);
    standin_log(s, "gpuscale: objects with the label %s are written to %s", standin_env(s, "LABEL"),
                standin_env(s, "FOLDER"));
    if (!gs_streq(resource, "secret"))
        follow(c, &c->sources[0], KUBE_CONFIGMAPS, false);
    if (gs_streq(resource, "secret") || gs_streq(resource, "both"))
        follow(c, &c->sources[1], KUBE_SECRETS, true);
}

void standin_sidecar_end(struct standin_session *s)
{
    struct sidecar *c = s->state;
    if (!c)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(c->sources); i++)
        kube_cache_free(c->sources[i].cache);
    standin_call_free(c->call);
    free(c);
}
