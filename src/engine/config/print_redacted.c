// SPDX-License-Identifier: Apache-2.0
// Prints the configuration for status/config with secrets replaced by <secret>, as Prometheus
// does. Keys decide, not places: a secret in a section that is unknown here must not be shown
// either.
#include "engine/config/config_private.h"

#include "base/mem.h"
#include "base/redact.h"

#include <strings.h>

static const char redacted[] = "<secret>";

static bool is_secret(const char *key)
{
    static const char *const keys[] = {
        "password",          "credentials",   "bearer_token", "secret_key",
        "client_secret",     "authorization", "key",          "proxy-authorization",
        "connection_string", "x-api-key",     "cookie"};
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (strcasecmp(key, keys[i]) == 0)
            return true;
    return false;
}

// True for keys whose lists and mappings contain only secrets: http_headers, and headers for
// proxies.
static bool holds_secrets(const char *key)
{
    return gs_streq(key, "secrets") || gs_streq(key, "proxy_connect_header");
}

// True if YAML reads the scalar back unchanged without quotes.
static bool is_plain_scalar(const char *s)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./"
                               "-+$^()|\\=<>";
    return *s && s[strspn(s, safe)] == '\0' && !strchr("-<>=|", *s);
}

static void show_text(struct gs_buf *out, const char *s)
{
    if (is_plain_scalar(s)) {
        gs_buf_add_str(out, s);
        return;
    }
    json_t *j = json_string(s);
    codec_json_dump(j, out);
    json_decref(j);
}

// Position and style of the part that is being written.
struct place {
    int indent;
    bool in_list; // the cursor is after "- "
    bool cover;   // redact all scalars
};

static void print_node(struct gs_buf *out, const json_t *j, struct place at);

static void add_scalar(struct gs_buf *out, const json_t *j, bool cover)
{
    gs_buf_add_char(out, ' ');
    if (cover && !json_is_null(j)) {
        gs_buf_add_str(out, redacted);
    } else if (json_is_string(j)) {
        GS_AUTO_FREE char *url = gs_redact_url(json_string_value(j));
        show_text(out, url ? url : json_string_value(j));
    } else {
        codec_json_dump(j, out);
    }
    gs_buf_add_char(out, '\n');
}

static bool is_block(const json_t *j)
{
    return (json_is_object(j) && json_object_size(j)) || (json_is_array(j) && json_array_size(j));
}

static void show_value(struct gs_buf *out, const char *key, const json_t *j, struct place at)
{
    struct place below = {.indent = json_is_array(j) ? at.indent : at.indent + 2,
                          .cover = at.cover || holds_secrets(key)};
    if (is_secret(key) && !json_is_null(j) && !(below.cover && is_block(j))) {
        gs_buf_addf(out, " %s\n", redacted);
    } else if (is_block(j)) {
        gs_buf_add_char(out, '\n');
        print_node(out, j, below);
    } else {
        add_scalar(out, j, at.cover);
    }
}

static void add_mapping(struct gs_buf *out, const json_t *j, struct place at)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)j, key, value) {
        gs_buf_addf(out, "%*s", at.in_list ? 0 : at.indent, "");
        at.in_list = false;
        show_text(out, key);
        gs_buf_add_char(out, ':');
        show_value(out, key, value, at);
    }
}

static void print_node(struct gs_buf *out, const json_t *j, struct place at)
{
    json_t *value;
    size_t i;
    if (json_is_object(j)) {
        add_mapping(out, j, at);
        return;
    }
    json_array_foreach (j, i, value) {
        gs_buf_addf(out, "%*s-", at.in_list ? 0 : at.indent, "");
        at.in_list = false;
        if (!is_block(value)) {
            add_scalar(out, value, at.cover);
            continue;
        }
        gs_buf_add_char(out, ' ');
        print_node(out, value,
                   (struct place){.indent = at.indent + 2, .in_list = true, .cover = at.cover});
    }
}

void engine_config_print_redacted(const json_t *document, struct gs_buf *out)
{
    if (is_block(document))
        print_node(out, document, (struct place){0});
}
