// SPDX-License-Identifier: Apache-2.0
// The oauth2 section of HTTP client settings.
#include "base/mem.h"
#include "net/endpoint/endpoint_private.h"

#define AT(member) offsetof(struct endpoint_oauth2, member)

static void read_scopes(struct codec_reader *r, const json_t *value, void *out)
{
    struct endpoint_oauth2 *o = out;
    codec_read_texts(r, value, &o->scopes, &o->n_scopes);
}

static void read_params(struct codec_reader *r, const json_t *value, void *out)
{
    struct endpoint_oauth2 *o = out;
    const char *key;
    json_t *item;
    if (!codec_reader_is_mapping(r, value, "endpoint_params"))
        return;
    struct http_header *params =
        codec_reader_alloc(r, (json_object_size(value) + 1) * sizeof(*params));
    o->params = params;
    json_object_foreach ((json_t *)(uintptr_t)value, key, item)
        params[o->n_params++] =
            (struct http_header){codec_reader_format(r, "%s", key), codec_read_text(r, item)};
}

static void check_grant_type(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    (void)out;
    if (*text && !gs_streq(text, "client_credentials"))
        codec_reader_fail(
            r, value, "oauth2 grant_type \"%s\" is not supported; use client_credentials", text);
}

static void check_oauth2(struct codec_reader *r, const json_t *value,
                         const struct endpoint_oauth2 *o)
{
    const struct endpoint_secret *secret = &o->client_secret;
    if (!o->client_id || !*o->client_id)
        codec_reader_fail(r, value, "oauth2 client_id must be configured");
    if (!o->token_url || !*o->token_url)
        codec_reader_fail(r, value, "oauth2 token_url must be configured");
    if (secret->text && *secret->text && secret->file && *secret->file)
        codec_reader_fail(
            r, value,
            "at most one of oauth2 client_secret, client_secret_file & client_secret_ref "
            "must be configured using grant-type=client_credentials");
    endpoint_check_proxy(r, value, &o->server);
    endpoint_check_key(r, value, &o->server);
}

void endpoint_read_oauth2(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"client_id", CODEC_FIELD_TEXT, AT(client_id), NULL},
        {"client_secret", CODEC_FIELD_TEXT, AT(client_secret.text), NULL},
        {"client_secret_file", CODEC_FIELD_PATH, AT(client_secret.file), NULL},
        {"grant_type", CODEC_FIELD_UNUSED, 0, check_grant_type},
        {"token_url", CODEC_FIELD_TEXT, AT(token_url), NULL},
        {"scopes", CODEC_FIELD_CUSTOM, 0, read_scopes},
        {"endpoint_params", CODEC_FIELD_CUSTOM, 0, read_params},
        {"tls_config", CODEC_FIELD_CUSTOM, AT(server), endpoint_read_tls},
        {"proxy_url", CODEC_FIELD_URL, AT(server.proxy_url), NULL},
        {"no_proxy", CODEC_FIELD_TEXT, AT(server.no_proxy), NULL},
        {"proxy_from_environment", CODEC_FIELD_BOOL, AT(server.proxy_from_environment), NULL},
        {"proxy_connect_header", CODEC_FIELD_CUSTOM, AT(server), endpoint_read_proxy_headers},
        {0},
    };
    struct endpoint_oauth2 *o = codec_reader_alloc(r, sizeof(*o));
    endpoint_defaults(&o->server);
    codec_read_mapping(r, value, fields, "oauth2", o);
    check_oauth2(r, value, o);
    if (o->client_secret.file && !*o->client_secret.file)
        o->client_secret.file = NULL;
    *(const struct endpoint_oauth2 **)out = o;
}
