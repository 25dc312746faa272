// SPDX-License-Identifier: Apache-2.0
// Responses for pages, in the envelope of Prometheus' HTTP API. They are never cached.
#include "web/reply.h"

static void reply(struct http_exchange *x, int status, json_t *body)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(body, &out);
    json_decref(body);
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Cache-Control", "no-store");
    http_reply(x, status, "application/json", gs_buf_slice(&out));
}

void web_reply_data(struct http_exchange *x, json_t *data)
{
    reply(x, 200, json_pack("{s:s, s:o}", "status", "success", "data", data));
}

void web_reply_error(struct http_exchange *x, int status, const char *type, const char *text)
{
    json_t *body = json_object();
    codec_json_set_str(body, "status", "error");
    codec_json_set_str(body, "errorType", type);
    codec_json_set_str(body, "error", text);
    reply(x, status, body);
}

void web_reply_failure(struct http_exchange *x, const struct gs_error *err)
{
    static const struct {
        enum gs_code code;
        int status;
        const char *type;
    } rows[] = {
        {GS_EINVAL, 400, "bad_data"},  {GS_ENOTFOUND, 404, "not_found"},
        {GS_EPERM, 403, "execution"},  {GS_ELIMIT, 413, "bad_data"},
        {GS_ETIMEOUT, 504, "timeout"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (gs_error_code(err) != rows[i].code)
            continue;
        web_reply_error(x, rows[i].status, rows[i].type, gs_error_message(err));
        return;
    }
    web_reply_error(x, 502, "unavailable", gs_error_message(err));
}
