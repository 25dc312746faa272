// SPDX-License-Identifier: Apache-2.0
// oauth2 of HTTP settings.
#include "engine/config/reader.h"

#define AT(member) offsetof(struct engine_config_oauth2, member)

static void read_scopes(struct engine_config_reader *r, const json_t *value, void *out)
{
    struct engine_config_oauth2 *o = out;
    engine_config_texts(r, value, &o->scopes, &o->n_scopes);
}

static void read_params(struct engine_config_reader *r, const json_t *value, void *out)
{
    struct engine_config_oauth2 *o = out;
    engine_config_labels(r, value, &o->params, &o->n_params);
}

static void check(struct engine_config_reader *r, const json_t *value,
                  const struct engine_config_oauth2 *o)
{
    const struct engine_config_secret_file_or_text *secret = &o->client_secret;
    if (!o->client_id || !*o->client_id)
        engine_config_fail(r, value, "oauth2 client_id must be configured");
    if (!o->token_url || !*o->token_url)
        engine_config_fail(r, value, "oauth2 token_url must be configured");
    if (secret->text && *secret->text && secret->file && *secret->file)
        engine_config_fail(
            r, value,
            "at most one of oauth2 client_secret, client_secret_file & client_secret_ref "
            "must be configured");
    engine_config_check_proxy(r, value, &o->http);
    engine_config_check_key(r, value, &o->http);
}

void engine_config_read_oauth2(struct engine_config_reader *r, const json_t *value, void *out)
{
    static const struct engine_config_field fields[] = {
        {"client_id", ENGINE_CONFIG_FIELD_TEXT, AT(client_id), NULL},
        {"client_secret", ENGINE_CONFIG_FIELD_TEXT, AT(client_secret.text), NULL},
        {"client_secret_file", ENGINE_CONFIG_FIELD_PATH, AT(client_secret.file), NULL},
        {"token_url", ENGINE_CONFIG_FIELD_TEXT, AT(token_url), NULL},
        {"scopes", ENGINE_CONFIG_FIELD_READ, 0, read_scopes},
        {"endpoint_params", ENGINE_CONFIG_FIELD_READ, 0, read_params},
        {"tls_config", ENGINE_CONFIG_FIELD_READ, AT(http), engine_config_read_tls},
        {"proxy_url", ENGINE_CONFIG_FIELD_URL, AT(http.proxy_url), NULL},
        {"no_proxy", ENGINE_CONFIG_FIELD_TEXT, AT(http.no_proxy), NULL},
        {"proxy_from_environment", ENGINE_CONFIG_FIELD_BOOL, AT(http.proxy_from_environment), NULL},
        {"proxy_connect_header", ENGINE_CONFIG_FIELD_READ, AT(http),
         engine_config_read_proxy_headers},
        {0},
    };
    struct engine_config_oauth2 *o = engine_config_alloc(r, sizeof(*o));
    engine_config_http_defaults(&o->http);
    engine_config_read(r, value, fields, "oauth2", o);
    check(r, value, o);
    if (o->client_secret.file && !*o->client_secret.file)
        o->client_secret.file = NULL;
    *(const struct engine_config_oauth2 **)out = o;
}
