// SPDX-License-Identifier: Apache-2.0
// Replies: the JSON envelope, errors with their codes, compression.
#include "engine/api/api_private.h"

#include "base/clock.h"
#include "codec/encoding.h"

#include <stdio.h>
#include <strings.h>

enum {
    COMPRESS_FROM = 1024, // bytes; smaller bodies are not compressed
    MAX_NOTES = 10,       // maximum number of warnings, and of infos, in a reply
};

static const char *const codes[ENGINE_API_N_CODES] = {"200", "204", "400", "403", "404", "405",
                                                      "415", "422", "429", "500", "503", "other"};

const char *engine_api_code_text(size_t i)
{
    return i < ENGINE_API_N_CODES ? codes[i] : NULL;
}

static void count_response(struct engine_api_request *r, int status, size_t bytes)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", status);
    size_t i = 0;
    while (i < ENGINE_API_N_CODES - 1 && strcmp(codes[i], text) != 0)
        i++;
    struct engine_api *a = r->api;
    a->counts[r->route].codes[i]++;
    a->counts[r->route].bytes += bytes;
    a->counts[r->route].seconds += (double)(gs_mono_ns() - r->begun_ns) / 1e9;
}

// --- bodies ---

static bool is_loopback(const char *peer)
{
    return gs_starts(peer, "127.") || gs_starts(peer, "[::1]") || gs_starts(peer, "[::ffff:127.") ||
           gs_streq(peer, "loopback");
}

// shared: the object that holds the body, which is then sent without a copy; NULL: none.
static void send_body(struct engine_api_request *r, int status, const char *type,
                      struct gs_slice body, struct http_bytes *shared)
{
    GS_AUTO_BUF struct gs_buf packed = {0};
    if (!r->x) // the client has disconnected
        return;
    // On the same host, compression costs more time than it saves.
    if (!r->encoded && body.len >= COMPRESS_FROM && !is_loopback(http_peer(r->x)) &&
        http_accepts_gzip(r->x)) {
        struct gs_error *err = codec_gzip(body, engine_api_go_on, r, &packed);
        if (!r->x) {
            gs_error_free(err);
            return;
        }
        if (!err) {
            http_add_header(r->x, "Content-Encoding", "gzip");
            body = gs_buf_slice(&packed);
            shared = NULL;
        }
        gs_error_free(err);
    }
    count_response(r, status, body.len);
    if (shared)
        http_reply_bytes(r->x, status, type, shared);
    else
        http_reply(r->x, status, type, body);
}

void engine_api_reply_body(struct engine_api_request *r, int status, const char *type,
                           struct gs_slice body)
{
    send_body(r, status, type, body, NULL);
}

void engine_api_reply_buffer(struct engine_api_request *r, const char *type)
{
    struct http_bytes *body = engine_api_take_body(r);
    if (body)
        send_body(r, 200, type, http_bytes_slice(body), body);
    http_bytes_unref(body);
}

void engine_api_reply_text(struct engine_api_request *r, int status, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    engine_api_reply_body(r, status, "text/plain; charset=utf-8", gs_buf_slice(&text));
}

// --- success ---

struct gs_buf *engine_api_begin(struct engine_api_request *r)
{
    struct gs_buf *out = engine_api_buffer(r);
    gs_buf_add_str(out, "{\"status\":\"success\",\"data\":");
    return out;
}

static void add_note(struct gs_buf *out, const char *key, size_t *n, const char *text)
{
    if ((*n)++)
        gs_buf_add_char(out, ',');
    else
        gs_buf_addf(out, ",\"%s\":[", key);
    codec_json_add_string(out, gs_slice_of(text), CODEC_JSON_PLAIN);
}

static void add_notes(struct gs_buf *out, const char *key, const char *kind,
                      const char *const *notes, size_t len, const char *extra)
{
    size_t n = 0;
    for (size_t i = 0; i < len && i < MAX_NOTES; i++)
        add_note(out, key, &n, notes[i]);
    if (len > MAX_NOTES) {
        GS_AUTO_FREE char *more =
            gs_format("%zu more %s annotations omitted", len - MAX_NOTES, kind);
        add_note(out, key, &n, more);
    }
    if (extra)
        add_note(out, key, &n, extra);
    if (n)
        gs_buf_add_char(out, ']');
}

void engine_api_end(struct engine_api_request *r)
{
    struct gs_buf *out = http_bytes_edit(&r->body, SIZE_MAX);
    add_notes(out, "warnings", "warning", r->warnings, r->n_warnings,
              r->truncated ? "results truncated due to limit" : NULL);
    add_notes(out, "infos", "info", r->infos, r->n_infos, NULL);
    gs_buf_add_char(out, '}');
    engine_api_reply_buffer(r, "application/json");
}

void engine_api_reply_json(struct engine_api_request *r, json_t *data)
{
    if (!data) {
        engine_api_fail(r, ENGINE_API_INTERNAL, "the reply cannot be written as JSON");
        return;
    }
    codec_json_dump_slowly(data, engine_api_begin(r), engine_api_go_on, r);
    json_decref(data);
    engine_api_end(r);
}

// --- errors ---

static const struct {
    const char *name;
    int status;
} errors[] = {
    [ENGINE_API_BAD_DATA] = {"bad_data", 400},       [ENGINE_API_EXECUTION] = {"execution", 422},
    [ENGINE_API_TIMEOUT] = {"timeout", 503},         [ENGINE_API_CANCELED] = {"canceled", 499},
    [ENGINE_API_INTERNAL] = {"internal", 500},       [ENGINE_API_NOT_FOUND] = {"not_found", 404},
    [ENGINE_API_UNAVAILABLE] = {"unavailable", 500}, [ENGINE_API_BUSY] = {"unavailable", 503},
};

void engine_api_make_utf8(struct gs_buf *text)
{
    size_t valid = codec_utf8_valid_prefix(gs_buf_slice(text));
    if (valid == text->len)
        return;
    GS_AUTO_BUF struct gs_buf whole = {0};
    struct gs_slice rest = gs_buf_slice(text);
    while (rest.len) {
        valid = codec_utf8_valid_prefix(rest);
        gs_buf_add(&whole, rest.data, valid);
        if (valid < rest.len) {
            gs_buf_add_str(&whole, "\xef\xbf\xbd");
            valid++;
        }
        rest = gs_slice_make(rest.data + valid, rest.len - valid);
    }
    gs_buf_clear(text);
    gs_buf_add_slice(text, gs_buf_slice(&whole));
}

void engine_api_fail(struct engine_api_request *r, enum engine_api_error type, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf text = {0}, out = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    gs_buf_addf(&out, "{\"status\":\"error\",\"errorType\":\"%s\",\"error\":", errors[type].name);
    engine_api_make_utf8(&text);
    codec_json_add_string(&out, gs_buf_slice(&text), CODEC_JSON_PLAIN);
    gs_buf_add_char(&out, '}');
    engine_api_reply_body(r, errors[type].status, "application/json", gs_buf_slice(&out));
}

void engine_api_fail_param(struct engine_api_request *r, const char *name, struct gs_error *err)
{
    engine_api_fail(r, ENGINE_API_BAD_DATA, "invalid parameter \"%s\": %s", name,
                    gs_error_message(err));
    gs_error_free(err);
}

void engine_api_fail_query(struct engine_api_request *r, struct gs_error *err)
{
    switch (gs_error_code(err)) {
    case GS_EINVAL:
        engine_api_fail_param(r, "query", err);
        return;
    case GS_ETIMEOUT:
        engine_api_fail(r, ENGINE_API_TIMEOUT, "%s", gs_error_message(err));
        break;
    case GS_EINTERNAL:
    case GS_EIO:
        engine_api_fail(r, ENGINE_API_INTERNAL, "%s", gs_error_message(err));
        break;
    default:
        engine_api_fail(r, ENGINE_API_EXECUTION, "%s", gs_error_message(err));
        break;
    }
    gs_error_free(err);
}
