// SPDX-License-Identifier: Apache-2.0
// Sections that Prometheus knows and this engine does not act on. They are read, so that a mistake
// in them is found in the same way, and told to have no effect.
#include "engine/config/reader.h"

#include "base/mem.h"

struct peer {
    const char *url;
    struct engine_http http;
};

static void read_peer(struct config_reader *r, const json_t *item, void *out)
{
    static const struct config_field fields[] = {
        {"url", FIELD_URL, offsetof(struct peer, url), NULL},
        {"name", FIELD_UNUSED, 0, NULL},
        {"remote_timeout", FIELD_UNUSED, 0, NULL},
        {"headers", FIELD_UNUSED, 0, NULL},
        {"read_recent", FIELD_UNUSED, 0, NULL},
        {"required_matchers", FIELD_UNUSED, 0, NULL},
        {"chunked_read_limit", FIELD_UNUSED, 0, NULL},
        {"filter_external_labels", FIELD_UNUSED, 0, NULL},
        {0},
    };
    struct peer *p = out;
    if (json_is_null(item))
        config_fail(r, item, "empty or null remote read config section");
    config_read_with_http(r, item, fields, "remote_read", p, &p->http);
    if (!p->url || !*p->url)
        config_fail(r, item, "url for remote_read is empty");
}

void config_check_remote_read(struct config_reader *r, const json_t *list, void *out)
{
    struct peer *peers;
    size_t n;
    (void)out;
    config_read_list(r, list, sizeof(*peers), read_peer, &peers, &n);
    if (n)
        config_ignore(r, "remote_read", list, "the configuration");
}

void config_check_storage(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"tsdb", FIELD_UNUSED, 0, NULL}, {"exemplars", FIELD_UNUSED, 0, NULL}, {0}};
    config_read(r, value, fields, "storage", out);
    config_ignore(r, "storage", value, "the configuration");
}

struct tracing {
    const char *client, *endpoint;
};

void config_check_tracing(struct config_reader *r, const json_t *value, void *out)
{
    static const struct config_field fields[] = {
        {"client_type", FIELD_TEXT, offsetof(struct tracing, client), NULL},
        {"endpoint", FIELD_TEXT, offsetof(struct tracing, endpoint), NULL},
        {"sampling_fraction", FIELD_UNUSED, 0, NULL},
        {"insecure", FIELD_UNUSED, 0, NULL},
        {"tls_config", FIELD_UNUSED, 0, NULL},
        {"headers", FIELD_UNUSED, 0, NULL},
        {"compression", FIELD_UNUSED, 0, NULL},
        {"timeout", FIELD_UNUSED, 0, NULL},
        {0},
    };
    struct tracing t = {.client = "grpc"};
    (void)out;
    config_read(r, value, fields, "tracing", &t);
    if (!t.endpoint || !*t.endpoint)
        config_fail(r, value, "tracing endpoint must be set");
    if (!gs_streq(t.client, "grpc") && !gs_streq(t.client, "http"))
        config_fail(r, value, "expected client type to be http or grpc, but got \"%s\"", t.client);
    config_ignore(r, "tracing", value, "the configuration");
}
