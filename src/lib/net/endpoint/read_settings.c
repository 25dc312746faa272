// SPDX-License-Identifier: Apache-2.0
// HTTP client settings: basic_auth, authorization, bearer tokens, tls_config.
#include "base/mem.h"
#include "net/endpoint/endpoint_private.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define MAX_HEADERS 16 // of http_headers

#define AT(member) offsetof(struct endpoint_settings, member)

static void read_basic_auth(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"username", CODEC_FIELD_TEXT, AT(user.text), NULL},
        {"username_file", CODEC_FIELD_PATH, AT(user.file), NULL},
        {"password", CODEC_FIELD_TEXT, AT(password.text), NULL},
        {"password_file", CODEC_FIELD_PATH, AT(password.file), NULL},
        {0},
    };
    struct endpoint_settings *h = out;
    codec_read_mapping(r, value, fields, "basic_auth", h);
    if (h->user.text && *h->user.text && h->user.file)
        codec_reader_fail(
            r, value,
            "at most one of basic_auth username, username_file & username_ref must be "
            "configured");
    if (!h->user.text && !h->user.file)
        h->user.text = "";
    if (h->password.text && h->password.file)
        codec_reader_fail(
            r, value,
            "at most one of basic_auth password, password_file & password_ref must be "
            "configured");
}

static void read_authorization(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"type", CODEC_FIELD_TEXT, AT(auth_type), NULL},
        {"credentials", CODEC_FIELD_TEXT, AT(credentials.text), NULL},
        {"credentials_file", CODEC_FIELD_PATH, AT(credentials.file), NULL},
        {0},
    };
    struct endpoint_settings *h = out;
    h->auth_type = "Bearer";
    codec_read_mapping(r, value, fields, "authorization", h);
    struct gs_slice type = gs_slice_trim(gs_slice_of(h->auth_type));
    h->auth_type = type.len ? codec_reader_format(r, GS_SLICE_FMT, GS_SLICE_ARG(type)) : "Bearer";
    if (strcasecmp(h->auth_type, "basic") == 0)
        codec_reader_fail(
            r, value, "authorization type cannot be set to \"basic\", use \"basic_auth\" instead");
    if (h->credentials.text && h->credentials.file)
        codec_reader_fail(r, value,
                          "at most one of authorization credentials & credentials_file must be "
                          "configured");
}

static void read_bearer_token(struct codec_reader *r, const json_t *value, void *out)
{
    struct endpoint_settings *h = out;
    h->auth_type = "Bearer";
    h->credentials.text = codec_read_text(r, value);
}

static void read_bearer_token_file(struct codec_reader *r, const json_t *value, void *out)
{
    struct endpoint_settings *h = out;
    h->auth_type = "Bearer";
    h->credentials.file = codec_reader_path(r, codec_read_text(r, value));
}

static void read_tls_version(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    int *version = out;
    for (int v = 10; v <= 13; v++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "TLS%d", v);
        if (gs_streq(text, name))
            *version = v;
    }
    if (!*version)
        codec_reader_fail(r, value, "unknown TLS version: %s", text);
}

void endpoint_read_tls(struct codec_reader *r, const json_t *value, void *http)
{
    static const struct codec_field fields[] = {
        {"ca", CODEC_FIELD_TEXT, AT(ca.text), NULL},
        {"ca_file", CODEC_FIELD_PATH, AT(ca.file), NULL},
        {"cert", CODEC_FIELD_TEXT, AT(cert.text), NULL},
        {"cert_file", CODEC_FIELD_PATH, AT(cert.file), NULL},
        {"key", CODEC_FIELD_TEXT, AT(key.text), NULL},
        {"key_file", CODEC_FIELD_PATH, AT(key.file), NULL},
        {"server_name", CODEC_FIELD_TEXT, AT(server_name), NULL},
        {"insecure_skip_verify", CODEC_FIELD_BOOL, AT(insecure_skip_verify), NULL},
        {"min_version", CODEC_FIELD_CUSTOM, AT(tls_min), read_tls_version},
        {"max_version", CODEC_FIELD_CUSTOM, AT(tls_max), read_tls_version},
        {0},
    };
    const struct endpoint_settings *h = http;
    codec_read_mapping(r, value, fields, "tls_config", http);
    if (h->ca.text && h->ca.file)
        codec_reader_fail(r, value, "at most one of ca, ca_file & ca_ref must be configured");
    if (h->cert.text && h->cert.file)
        codec_reader_fail(r, value, "at most one of cert, cert_file & cert_ref must be configured");
    if (h->key.text && h->key.file)
        codec_reader_fail(r, value, "at most one of key and key_file must be configured");
}

// --- http_headers ---

static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {
        "host",
        "content-encoding",
        "content-length",
        "content-type",
        "user-agent",
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "www-authenticate",
        "accept-encoding",
        "x-prometheus-remote-write-version",
        "x-prometheus-remote-read-version",
        "x-amz-date",
        "x-amz-security-token",
        "x-amz-content-sha256",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(reserved); i++)
        if (strcasecmp(name, reserved[i]) == 0)
            return true;
    return false;
}

void endpoint_check_headers(struct codec_reader *r, const json_t *value, const char *authorization)
{
    const char *key;
    json_t *item;
    json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
        if (strcasecmp(key, "authorization") == 0)
            codec_reader_fail(r, item, "%s", authorization);
        if (is_reserved(key))
            codec_reader_fail(r, item, "%s is a reserved header. It must not be changed", key);
    }
}

struct header_values {
    const char *const *values, *const *secrets, *const *files;
    size_t n_values, n_secrets, n_files;
};

#define VALUES(member)                                                                             \
    static void read_##member(struct codec_reader *r, const json_t *value, void *out)              \
    {                                                                                              \
        struct header_values *v = out;                                                             \
        codec_read_texts(r, value, &v->member, &v->n_##member);                                    \
    }
VALUES(values)
VALUES(secrets)
VALUES(files)

// Characters that are invalid in a header would change the request.
static void check_header(struct codec_reader *r, const json_t *at, const char *name,
                         const char *text)
{
    if (!*name || strpbrk(name, "\r\n: ") || (text && strpbrk(text, "\r\n")))
        codec_reader_fail(r, at, "invalid name of header \"%s\", or line break in its value", name);
}

static void add_http_header(struct codec_reader *r, const json_t *at, struct endpoint_settings *h,
                            const char *name, const char *text, const char *file)
{
    struct endpoint_header *list = (struct endpoint_header *)(uintptr_t)h->headers;
    if (h->n_headers >= MAX_HEADERS) {
        codec_reader_fail(r, at, "more than %d http_headers", MAX_HEADERS);
        return;
    }
    check_header(r, at, name, text);
    list[h->n_headers++] = (struct endpoint_header){name, {text, file}};
}

static void read_http_headers(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"values", CODEC_FIELD_CUSTOM, 0, read_values},
        {"secrets", CODEC_FIELD_CUSTOM, 0, read_secrets},
        {"files", CODEC_FIELD_CUSTOM, 0, read_files},
        {0},
    };
    struct endpoint_settings *h = out;
    const char *key;
    json_t *item;
    if (!json_is_object(value))
        codec_reader_fail(r, value, "http_headers must be a mapping");
    h->headers = codec_reader_alloc(r, MAX_HEADERS * sizeof(*h->headers));
    json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
        struct header_values v = {0};
        const char *name = codec_reader_format(r, "%s", key);
        codec_read_mapping(r, item, fields, "http_headers", &v);
        for (size_t i = 0; i < v.n_values && !r->err; i++)
            add_http_header(r, item, h, name, v.values[i], NULL);
        for (size_t i = 0; i < v.n_secrets && !r->err; i++)
            add_http_header(r, item, h, name, v.secrets[i], NULL);
        for (size_t i = 0; i < v.n_files && !r->err; i++)
            add_http_header(r, item, h, name, NULL, codec_reader_path(r, v.files[i]));
    }
}

void endpoint_read_proxy_headers(struct codec_reader *r, const json_t *value, void *out)
{
    struct endpoint_settings *h = out;
    struct http_header *list;
    const char *key;
    json_t *values;
    size_t n = 0;
    if (!json_is_object(value))
        codec_reader_fail(r, value, "proxy_connect_header must be a mapping");
    json_object_foreach ((json_t *)(uintptr_t)value, key, values)
        n += json_array_size(values);
    list = codec_reader_alloc(r, (n + 1) * sizeof(*list));
    n = 0;
    json_object_foreach ((json_t *)(uintptr_t)value, key, values) {
        const char *const *texts;
        const char *name = codec_reader_format(r, "%s", key);
        size_t n_texts;
        codec_read_texts(r, values, &texts, &n_texts);
        for (size_t i = 0; i < n_texts && !r->err; i++) {
            check_header(r, values, name, texts[i]);
            list[n++] = (struct http_header){name, texts[i]};
        }
    }
    h->proxy_headers = list;
}

// Capitalizes the name like Go: X-Prometheus-Remote-Write-Version.
static void canonical_header(char *name)
{
    bool upper = true;
    for (char *c = name; *c; c++) {
        *c = (char)(upper ? toupper((unsigned char)*c) : tolower((unsigned char)*c));
        upper = *c == '-';
    }
}

static void check_own_headers(struct codec_reader *r, const json_t *value, void *out)
{
    const char *key;
    json_t *item;
    read_http_headers(r, value, out);
    json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
        bool reserved = is_reserved(key) || strcasecmp(key, "authorization") == 0 ||
                        strcasecmp(key, "x-prometheus-scrape-timeout-seconds") == 0;
        char *name = codec_reader_format(r, "%s", key);
        canonical_header(name);
        if (reserved)
            codec_reader_fail(r, item, "setting header \"%s\" is not allowed", name);
    }
}

const struct codec_field endpoint_fields[] = {
    {"basic_auth", CODEC_FIELD_CUSTOM, 0, read_basic_auth},
    {"authorization", CODEC_FIELD_CUSTOM, 0, read_authorization},
    {"bearer_token", CODEC_FIELD_CUSTOM, 0, read_bearer_token},
    {"bearer_token_file", CODEC_FIELD_CUSTOM, 0, read_bearer_token_file},
    {"tls_config", CODEC_FIELD_CUSTOM, 0, endpoint_read_tls},
    {"proxy_url", CODEC_FIELD_URL, AT(proxy_url), NULL},
    {"follow_redirects", CODEC_FIELD_BOOL, AT(follow_redirects), NULL},
    {"enable_http2", CODEC_FIELD_BOOL, AT(enable_http2), NULL},
    {"oauth2", CODEC_FIELD_CUSTOM, AT(oauth2), endpoint_read_oauth2},
    {"sigv4", CODEC_FIELD_UNUSED, 0, NULL}, // check_supported_auth
    {"azuread", CODEC_FIELD_UNUSED, 0, NULL},
    {"google_iam", CODEC_FIELD_UNUSED, 0, NULL},
    {"no_proxy", CODEC_FIELD_TEXT, AT(no_proxy), NULL},
    {"proxy_from_environment", CODEC_FIELD_BOOL, AT(proxy_from_environment), NULL},
    {"proxy_connect_header", CODEC_FIELD_CUSTOM, 0, endpoint_read_proxy_headers},
    {"http_headers", CODEC_FIELD_CUSTOM, 0, check_own_headers},
    {0},
};

void endpoint_defaults(struct endpoint_settings *h)
{
    h->follow_redirects = true;
    h->enable_http2 = true;
}

static bool has_member(const json_t *obj, const char *key)
{
    const json_t *value = json_object_get(obj, key);
    return value && !json_is_null(value);
}

static void check_auth(struct codec_reader *r, const json_t *obj)
{
    bool basic = has_member(obj, "basic_auth"), oauth2 = has_member(obj, "oauth2");
    bool authorization = has_member(obj, "authorization");
    bool token = has_member(obj, "bearer_token"), file = has_member(obj, "bearer_token_file");
    if (token && file)
        codec_reader_fail(r, obj,
                          "at most one of bearer_token & bearer_token_file must be configured");
    else if ((basic || oauth2) && (token || file))
        codec_reader_fail(
            r, obj,
            "at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be "
            "configured");
    else if (authorization && (token || file))
        codec_reader_fail(r, obj,
                          "authorization is not compatible with bearer_token & bearer_token_file");
    else if (basic + oauth2 + authorization > 1)
        codec_reader_fail(r, obj,
                          "at most one of basic_auth, oauth2 & authorization must be configured");
}

static void check_cloud_auth(struct codec_reader *r, const json_t *obj)
{
    static const char *const kinds[] = {"basic_auth", "authorization", "oauth2",
                                        "sigv4",      "azuread",       "google_iam"};
    GS_AUTO_BUF struct gs_buf found = {0};
    size_t n = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (has_member(obj, kinds[i]))
            gs_buf_addf(&found, "%s%s", n++ ? " " : "", kinds[i]);
    if (n > 1)
        codec_reader_fail(r, obj,
                          "at most one of basic_auth, authorization, oauth2, sigv4, azuread or "
                          "google_iam must be configured. Currently configured: [%s]",
                          found.data);
}

// A server refuses requests without this authentication, so what is sent to it would be lost.
static void check_supported_auth(struct codec_reader *r, const json_t *obj)
{
    static const struct {
        const char *key, *instead;
    } kinds[] = {
        {"sigv4", "use a proxy that signs requests, such as vmagent with -remoteWrite.aws.useSigv4 "
                  "or aws-sigv4-proxy"},
        {"azuread", "use oauth2 with client_id, client_secret_file, token_url and the scope "
                    "https://monitor.azure.com/.default, or a proxy"},
        {"google_iam", "use authorization with a credentials_file in which the access token is "
                       "renewed, or a proxy"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (has_member(obj, kinds[i].key))
            codec_reader_fail(r, json_object_get(obj, kinds[i].key),
                              "%s is not supported: %s "
                              "(docs/beyond-one-machine.md#managed-services)",
                              kinds[i].key, kinds[i].instead);
}

void endpoint_check_proxy(struct codec_reader *r, const json_t *obj,
                          const struct endpoint_settings *h)
{
    bool url = h->proxy_url && *h->proxy_url, no_proxy = h->no_proxy && *h->no_proxy;
    if (has_member(obj, "proxy_connect_header") && !h->proxy_from_environment && !url)
        codec_reader_fail(
            r, obj,
            "if proxy_connect_header is configured, proxy_url or proxy_from_environment "
            "must also be configured");
    if (h->proxy_from_environment && url)
        codec_reader_fail(
            r, obj, "if proxy_from_environment is configured, proxy_url must not be configured");
    if (h->proxy_from_environment && no_proxy)
        codec_reader_fail(
            r, obj, "if proxy_from_environment is configured, no_proxy must not be configured");
    if (!h->proxy_url && no_proxy)
        codec_reader_fail(r, obj, "if no_proxy is configured, proxy_url must also be configured");
}

void endpoint_check_key(struct codec_reader *r, const json_t *obj,
                        const struct endpoint_settings *h)
{
    if ((h->cert.file || h->cert.text) != (h->key.file || h->key.text))
        codec_reader_fail(r, obj,
                          "exactly one of key or key_file must be configured when a client "
                          "certificate is configured");
}

void endpoint_read_with(struct codec_reader *r, const json_t *obj, const struct codec_field *fields,
                        const char *what, void *out, struct endpoint_settings *http)
{
    endpoint_defaults(http);
    if (!codec_reader_is_mapping(r, obj, what))
        return;
    codec_read_mapping2(r, obj, fields, out, endpoint_fields, http, what);
    check_auth(r, obj);
    check_cloud_auth(r, obj);
    check_supported_auth(r, obj);
    endpoint_check_proxy(r, obj, http);
    endpoint_check_key(r, obj, http);
}
