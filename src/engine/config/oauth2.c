// SPDX-License-Identifier: Apache-2.0
// oauth2 of HTTP settings.
#include "engine/config/reader.h"

#define AT(member) offsetof(struct engine_oauth2, member)

static void read_scopes(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_oauth2 *o = out;
    config_texts(r, value, &o->scopes, &o->n_scopes);
}

static void read_params(struct config_reader *r, const json_t *value, void *out)
{
    struct engine_oauth2 *o = out;
    config_labels(r, value, &o->params, &o->n_params);
}

static void check(struct config_reader *r, const json_t *value, const struct engine_oauth2 *o)
{
    const struct engine_secret_file_or_text *secret = &o->client_secret;
    if (!o->client_id || !*o->client_id)
        config_fail(r, value, "oauth2 client_id must be configured");
    if (!o->token_url || !*o->token_url)
        config_fail(r, value, "oauth2 token_url must be configured");
    if (secret->text && *secret->text && secret->file && *secret->file)
        config_fail(r, value,
                    "at most one of oauth2 client_secret, client_secret_file & client_secret_ref "
                    "must be configured");
    config_check_proxy(r, value, &o->http);
    config_check_key(r, value, &o->http);
}

void config_read_oauth2(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"client_id", FIELD_TEXT, AT(client_id), NULL},
        {"client_secret", FIELD_TEXT, AT(client_secret.text), NULL},
        {"client_secret_file", FIELD_PATH, AT(client_secret.file), NULL},
        {"token_url", FIELD_TEXT, AT(token_url), NULL},
        {"scopes", FIELD_READ, 0, read_scopes},
        {"endpoint_params", FIELD_READ, 0, read_params},
        {"tls_config", FIELD_READ, AT(http), config_read_tls},
        {"proxy_url", FIELD_URL, AT(http.proxy_url), NULL},
        {"no_proxy", FIELD_TEXT, AT(http.no_proxy), NULL},
        {"proxy_from_environment", FIELD_BOOL, AT(http.proxy_from_environment), NULL},
        {"proxy_connect_header", FIELD_READ, AT(http), config_read_proxy_headers},
        {0},
    };
    struct engine_oauth2 *o = config_alloc(r, sizeof(*o));
    config_http_defaults(&o->http);
    config_read(r, value, fields, "oauth2", o);
    check(r, value, o);
    if (o->client_secret.file && !*o->client_secret.file)
        o->client_secret.file = NULL;
    *(const struct engine_oauth2 **)out = o;
}
