// SPDX-License-Identifier: Apache-2.0
// Responses of servers of the Kubernetes API, with the headers and the indentation of
// kube-apiserver.
#include "base/mem.h"
#include "kube/status.h"

// As kube-apiserver, indents on request and for the usual interactive clients.
bool kube_wants_pretty(const struct http_exchange *x)
{
    const char *pretty = http_query(x, "pretty");
    if (pretty)
        return !gs_streq(pretty, "false") && !gs_streq(pretty, "0");
    const char *agent = http_header(x, "User-Agent");
    return gs_starts(agent, "curl") || gs_starts(agent, "Wget") || gs_starts(agent, "Mozilla/5.0");
}

void kube_reply_json(struct http_exchange *x, int code, const json_t *body)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (kube_wants_pretty(x))
        codec_json_dump_pretty(body, &text);
    else
        codec_json_dump(body, &text);
    if (text.len == 0 || text.data[text.len - 1] != '\n')
        gs_buf_add_char(&text, '\n');
    http_add_header(x, "Cache-Control", "no-cache, private");
    http_reply(x, code, "application/json", gs_buf_slice(&text));
}

void kube_reply_compact(struct http_exchange *x, int code, struct gs_slice body)
{
    CODEC_AUTO_JSON json_t *value = NULL;
    gs_error_free(kube_wants_pretty(x) ? codec_json_parse_accepted(body, &value) : NULL);
    if (value) {
        kube_reply_json(x, code, value);
        return;
    }
    http_add_header(x, "Cache-Control", "no-cache, private");
    http_reply(x, code, "application/json", body);
}

void kube_reply_bytes(struct http_exchange *x, int code, struct http_bytes *body)
{
    http_add_header(x, "Cache-Control", "no-cache, private");
    http_reply_bytes(x, code, "application/json", body);
}

void kube_reply_status(struct http_exchange *x, json_t *status)
{
    int code = (int)json_integer_value(json_object_get(status, "code"));
    kube_reply_json(x, code ? code : 200, status);
    json_decref(status);
}

void kube_reply_failure(struct http_exchange *x, int code, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *message = gs_vformat(fmt, ap);
    va_end(ap);
    kube_reply_status(x, kube_status_failure(code, reason, message, NULL));
}
