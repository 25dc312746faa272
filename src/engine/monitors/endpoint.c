// SPDX-License-Identifier: Apache-2.0
// Settings of an endpoint as settings of a scrape config: paths, intervals, credentials, TLS.
#include "engine/monitors/monitors_private.h"

#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/object.h"

json_t *monitors_text(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) ? json_incref((json_t *)(uintptr_t)value) : NULL;
    if (json_is_boolean(value))
        return json_string(json_is_true(value) ? "true" : "false");
    if (json_is_integer(value))
        return codec_json_strf("%lld", (long long)json_integer_value(value));
    return NULL;
}

void monitors_fail(struct monitors_build *b, struct gs_error *err)
{
    if (b->err)
        gs_error_free(err);
    else
        b->err = err;
}

void monitors_copy(const json_t *from, const struct monitors_rename *names, json_t *to)
{
    for (; names->from; names++) {
        json_t *text = monitors_text(json_object_get(from, names->from));
        if (text)
            json_object_set_new(to, names->to, text);
    }
}

// --- what Secrets and ConfigMaps hold ---

static json_t *decoded(struct monitors_build *b, const char *base64, const char *key)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    struct gs_error *err = codec_base64_decode(gs_slice_of(base64), &bytes);
    json_t *text = err ? NULL : json_stringn(bytes.data ? bytes.data : "", bytes.len);
    if (!err && !text)
        err = gs_error_new(GS_EINVAL, "not text in UTF-8");
    if (err)
        monitors_fail(b, gs_error_wrap(err, "key \"%s\"", key));
    return text;
}

// The text to which {name, key} refers. New reference. NULL: an error, or not cached yet.
static json_t *content(struct monitors_build *b, enum monitors_asset kind, const json_t *ref)
{
    const char *name = codec_json_str(ref, "name", NULL), *key = codec_json_str(ref, "key", NULL);
    const char *what = kind == MONITORS_SECRET ? "Secret" : "ConfigMap", *text;
    if (!name || !*name || !key || !*key) {
        monitors_fail(b, gs_error_new(GS_EINVAL, "a %s reference needs name and key", what));
        return NULL;
    }
    bool pending = false;
    const json_t *obj = b->lookup(b->arg, kind, name, &pending);
    b->pending |= pending;
    if (pending)
        return NULL;
    text = codec_json_str(obj, "data", key, NULL);
    if (!obj)
        monitors_fail(b, gs_error_new(GS_ENOTFOUND, "%s %s/%s not found", what,
                                      kube_namespace(b->obj), name));
    else if (!text)
        monitors_fail(b, gs_error_new(GS_ENOTFOUND, "key \"%s\" in %s %s/%s not found", key, what,
                                      kube_namespace(b->obj), name));
    if (!text)
        return NULL;
    return kind == MONITORS_SECRET ? decoded(b, text, key) : json_string(text);
}

static void put_member(json_t *obj, const char *key, json_t *text)
{
    if (text)
        json_object_set_new(obj, key, text);
}

// {secret: {name, key}} or {configMap: {name, key}}
static void put_either(struct monitors_build *b, json_t *obj, const char *key, const json_t *from)
{
    const json_t *secret = codec_json_get(from, "secret", NULL);
    const json_t *map = codec_json_get(from, "configMap", NULL);
    if (secret && map)
        monitors_fail(b,
                      gs_error_new(GS_EINVAL, "%s: secret and configMap cannot both be set", key));
    else if (secret)
        put_member(obj, key, content(b, MONITORS_SECRET, secret));
    else if (map)
        put_member(obj, key, content(b, MONITORS_CONFIGMAP, map));
}

// --- parts of an endpoint ---

static void add_tls(struct monitors_build *b, const json_t *from, json_t *job)
{
    static const struct monitors_rename names[] = {
        {"insecureSkipVerify", "insecure_skip_verify"},
        {"serverName", "server_name"},
        {"caFile", "ca_file"},
        {"certFile", "cert_file"},
        {"keyFile", "key_file"},
        {"minVersion", "min_version"},
        {"maxVersion", "max_version"},
        {0},
    };
    if (!json_is_object(from))
        return;
    json_t *tls = json_object();
    monitors_copy(from, names, tls);
    put_either(b, tls, "ca", json_object_get(from, "ca"));
    put_either(b, tls, "cert", json_object_get(from, "cert"));
    if (json_is_object(json_object_get(from, "keySecret")))
        put_member(tls, "key", content(b, MONITORS_SECRET, json_object_get(from, "keySecret")));
    json_object_set_new(job, "tls_config", tls);
}

static void add_basic_auth(struct monitors_build *b, const json_t *from, json_t *job)
{
    if (!json_is_object(from))
        return;
    json_t *auth = json_object();
    put_member(auth, "username", content(b, MONITORS_SECRET, json_object_get(from, "username")));
    put_member(auth, "password", content(b, MONITORS_SECRET, json_object_get(from, "password")));
    json_object_set_new(job, "basic_auth", auth);
}

static void add_authorization(struct monitors_build *b, const json_t *from, json_t *job)
{
    static const struct monitors_rename names[] = {
        {"type", "type"}, {"credentialsFile", "credentials_file"}, {0}};
    if (!json_is_object(from))
        return;
    json_t *auth = json_object();
    monitors_copy(from, names, auth);
    if (json_is_object(json_object_get(from, "credentials")))
        put_member(auth, "credentials",
                   content(b, MONITORS_SECRET, json_object_get(from, "credentials")));
    json_object_set_new(job, "authorization", auth);
}

static void add_oauth2(struct monitors_build *b, const json_t *from, json_t *job)
{
    static const struct monitors_rename names[] = {
        {"tokenUrl", "token_url"},
        {"proxyUrl", "proxy_url"},
        {"noProxy", "no_proxy"},
        {"proxyFromEnvironment", "proxy_from_environment"},
        {0},
    };
    if (!json_is_object(from))
        return;
    json_t *oauth2 = json_object(), *scopes = json_object_get(from, "scopes");
    monitors_copy(from, names, oauth2);
    put_either(b, oauth2, "client_id", json_object_get(from, "clientId"));
    put_member(oauth2, "client_secret",
               content(b, MONITORS_SECRET, json_object_get(from, "clientSecret")));
    if (json_array_size(scopes))
        put_member(oauth2, "scopes", json_incref(scopes));
    if (json_object_size(json_object_get(from, "endpointParams")))
        put_member(oauth2, "endpoint_params", json_incref(json_object_get(from, "endpointParams")));
    add_tls(b, json_object_get(from, "tlsConfig"), oauth2);
    json_object_set_new(job, "oauth2", oauth2);
}

// {} and {"key": ""} are not references: older operators write them as Go's zero value.
static void add_bearer_token(struct monitors_build *b, const json_t *from, json_t *job)
{
    const char *name = codec_json_str(from, "name", NULL);
    if (name && *name)
        put_member(job, "bearer_token", content(b, MONITORS_SECRET, from));
}

static void add_scheme(const json_t *endpoint, json_t *job)
{
    const char *scheme = codec_json_str(endpoint, "scheme", NULL);
    if (!scheme || !*scheme)
        return;
    GS_AUTO_FREE char *lower = gs_strdup(scheme);
    for (char *c = lower; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    codec_json_set_str(job, "scheme", lower);
}

static void add_params(const json_t *from, json_t *job)
{
    const char *key;
    json_t *values, *value;
    size_t i;
    if (!json_is_object(from))
        return;
    json_t *params = json_object();
    json_object_foreach ((json_t *)(uintptr_t)from, key, values) {
        json_t *texts = json_array();
        json_array_foreach (values, i, value)
            json_array_append_new(
                texts, json_string(json_string_value(value) ? json_string_value(value) : ""));
        json_object_set_new(params, key, texts);
    }
    json_object_set_new(job, "params", params);
}

void monitors_endpoint(struct monitors_build *b, const json_t *endpoint, json_t *job)
{
    static const struct monitors_rename names[] = {
        {"interval", "scrape_interval"},
        {"scrapeTimeout", "scrape_timeout"},
        {"path", "metrics_path"},
        {"honorLabels", "honor_labels"},
        {"honorTimestamps", "honor_timestamps"},
        {"trackTimestampsStaleness", "track_timestamps_staleness"},
        {"proxyUrl", "proxy_url"},
        {"noProxy", "no_proxy"},
        {"proxyFromEnvironment", "proxy_from_environment"},
        {"followRedirects", "follow_redirects"},
        {"enableHttp2", "enable_http2"},
        {"bearerTokenFile", "bearer_token_file"},
        {0},
    };
    monitors_copy(endpoint, names, job);
    add_scheme(endpoint, job);
    add_params(json_object_get(endpoint, "params"), job);
    add_tls(b, json_object_get(endpoint, "tlsConfig"), job);
    add_basic_auth(b, json_object_get(endpoint, "basicAuth"), job);
    add_authorization(b, json_object_get(endpoint, "authorization"), job);
    add_bearer_token(b, json_object_get(endpoint, "bearerTokenSecret"), job);
    add_oauth2(b, json_object_get(endpoint, "oauth2"), job);
}
