// SPDX-License-Identifier: Apache-2.0
// How peers are reached: basic_auth, authorization, bearer tokens, tls_config.
#include "engine/config/reader.h"

#include <strings.h>

#define AT(member) offsetof(struct engine_http, member)

static void read_basic_auth(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"username", FIELD_TEXT, AT(basic_user), NULL},
        {"username_file", FIELD_PATH, AT(basic_user_file), NULL},
        {"password", FIELD_TEXT, AT(basic_password.text), NULL},
        {"password_file", FIELD_PATH, AT(basic_password.file), NULL},
        {0},
    };
    struct engine_http *h = out;
    config_read(r, value, fields, "basic_auth", h);
    if (!h->basic_user && !h->basic_user_file)
        h->basic_user = "";
    if (h->basic_password.text && h->basic_password.file)
        config_fail(r, value,
                    "at most one of basic_auth password & password_file must be configured");
}

static void check_one_auth(struct config_reader *r, const json_t *value,
                           const struct engine_http *h)
{
    if (h->auth_type)
        config_fail(r, value,
                    "at most one of authorization, bearer_token & bearer_token_file must be "
                    "configured");
}

static void read_authorization(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"type", FIELD_TEXT, AT(auth_type), NULL},
        {"credentials", FIELD_TEXT, AT(auth_credentials.text), NULL},
        {"credentials_file", FIELD_PATH, AT(auth_credentials.file), NULL},
        {0},
    };
    struct engine_http *h = out;
    check_one_auth(r, value, h);
    h->auth_type = "Bearer";
    config_read(r, value, fields, "authorization", h);
    if (h->auth_type && strcasecmp(h->auth_type, "basic") == 0)
        config_fail(r, value,
                    "authorization type cannot be set to \"basic\", use \"basic_auth\" instead");
    if (h->auth_credentials.text && h->auth_credentials.file)
        config_fail(r, value,
                    "at most one of authorization credentials & credentials_file must be "
                    "configured");
}

static void read_bearer_token(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_http *h = out;
    check_one_auth(r, value, h);
    h->auth_type = "Bearer";
    h->auth_credentials.text = config_text(r, value);
}

static void read_bearer_token_file(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_http *h = out;
    check_one_auth(r, value, h);
    h->auth_type = "Bearer";
    h->auth_credentials.file = config_path(r, config_text(r, value));
}

static void read_tls(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"ca", FIELD_TEXT, AT(ca.text), NULL},
        {"ca_file", FIELD_PATH, AT(ca_file), NULL},
        {"cert", FIELD_TEXT, AT(cert.text), NULL},
        {"cert_file", FIELD_PATH, AT(cert_file), NULL},
        {"key", FIELD_TEXT, AT(key.text), NULL},
        {"key_file", FIELD_PATH, AT(key_file), NULL},
        {"server_name", FIELD_TEXT, AT(server_name), NULL},
        {"insecure_skip_verify", FIELD_BOOL, AT(insecure_skip_verify), NULL},
        {"min_version", FIELD_UNUSED, 0, NULL},
        {"max_version", FIELD_UNUSED, 0, NULL},
        {0},
    };
    config_read(r, value, fields, "tls_config", out);
}

const struct config_field config_http_fields[] = {
    {"basic_auth", FIELD_READ, 0, read_basic_auth},
    {"authorization", FIELD_READ, 0, read_authorization},
    {"bearer_token", FIELD_READ, 0, read_bearer_token},
    {"bearer_token_file", FIELD_READ, 0, read_bearer_token_file},
    {"tls_config", FIELD_READ, 0, read_tls},
    {"proxy_url", FIELD_URL, AT(proxy_url), NULL},
    {"follow_redirects", FIELD_BOOL, AT(follow_redirects), NULL},
    {"enable_http2", FIELD_BOOL, AT(enable_http2), NULL},
    {"oauth2", FIELD_IGNORED, 0, NULL},
    {"sigv4", FIELD_IGNORED, 0, NULL},
    {"azuread", FIELD_IGNORED, 0, NULL},
    {"google_iam", FIELD_IGNORED, 0, NULL},
    {"no_proxy", FIELD_TEXT, AT(no_proxy), NULL},
    {"proxy_from_environment", FIELD_BOOL, AT(proxy_from_environment), NULL},
    {"proxy_connect_header", FIELD_IGNORED, 0, NULL},
    {"http_headers", FIELD_IGNORED, 0, NULL},
    {0},
};

void config_http_defaults(struct engine_http *h)
{
    h->follow_redirects = true;
    h->enable_http2 = true;
}

void config_check_http(struct config_reader *r, const json_t *obj, struct engine_http *h)
{
    bool basic = h->basic_user || h->basic_user_file;
    if (basic && h->auth_type)
        config_fail(r, obj, "at most one of basic_auth, oauth2 & authorization must be configured");
    if ((h->cert_file || h->cert.text) != (h->key_file || h->key.text))
        config_fail(r, obj,
                    "exactly one of key or key_file must be configured when a client "
                    "certificate is configured");
}
