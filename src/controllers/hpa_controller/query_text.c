// SPDX-License-Identifier: Apache-2.0
// What the queries about pods have in common.
#include "hpa_controller/query_text.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"

enum {
    MAX_SHOWN = 200, // of the reason
    TIMEOUT_MS = 5000,
    MAX_ANSWER = 1 << 20,
};

// Names of objects have no character with a meaning in a pattern but the dot.
void hpa_query_names(const char *const *names, size_t n, struct gs_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            gs_buf_add_char(out, '|');
        for (const char *c = names[i]; *c; c++) {
            if (*c == '.')
                gs_buf_add_str(out, "\\\\");
            gs_buf_add_char(out, *c);
        }
    }
}

char *hpa_query_refused(int status, const json_t *body)
{
    const char *text = codec_json_str(body, "error", NULL);
    return text ? gs_format("HTTP status %d: %.*s", status, MAX_SHOWN, text)
                : gs_format("HTTP status %d", status);
}

struct http_op *hpa_query_send(struct http_client *engine, const struct gs_buf *expression,
                               const struct http_callbacks *callbacks, void *arg)
{
    GS_AUTO_BUF struct gs_buf form = {0};
    gs_buf_add_str(&form, "query=");
    http_encode(gs_buf_slice(expression), &form);
    const struct http_request request = {.method = "POST",
                                         .path = "/api/v1/query",
                                         .body = gs_buf_slice(&form),
                                         .content_type = "application/x-www-form-urlencoded",
                                         .timeout_ms = TIMEOUT_MS,
                                         .max_reply = MAX_ANSWER};
    return http_send(engine, &request, callbacks, arg);
}

void hpa_query_add_row(const char *expression, const char *name, int of, struct gs_buf *out)
{
    gs_buf_addf(out,
                "%slabel_replace(label_replace(%s,\"name\",\"$1\",\"%s\",\"(.*)\"),\"of\",\"%d\","
                "\"\",\"\")",
                out->len ? " or " : "", expression, name, of);
}

int hpa_query_row_of(const json_t *series, int n)
{
    const char *text = codec_json_str(series, "metric", "of", NULL);
    int64_t of = -1;
    GS_AUTO_ERROR struct gs_error *err =
        text ? gs_parse_i64(gs_slice_of(text), 0, n - 1, &of) : NULL;
    return err ? -1 : (int)of;
}
