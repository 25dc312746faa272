// SPDX-License-Identifier: Apache-2.0
// Requests of the command line to a Prometheus API: one loop per request. Texts of a server are
// made safe for a terminal before they are shown. A syntax error is shown with the line of the
// query.
#include "base/mem.h"
#include "base/num.h"
#include "net/endpoint/read.h"
#include "query/query_private.h"

#define MAX_REPLY      ((size_t)1 << 30)
#define MAX_GET        4096 // bytes of parameters; some proxies reject longer URLs
#define MAX_SHOWN      300  // bytes of a response that is not JSON
#define SERVER_HEADERS 32

struct exchange {
    int status;
    struct gs_buf body;
    struct gs_error *err;
};

static void on_query_response(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct exchange *x = arg;
    x->err = err;
    x->status = response ? response->status : 0;
    if (!err && response)
        gs_buf_add_slice(&x->body, response->body);
}

static char *base_url(const char *url)
{
    GS_AUTO_FREE char *with_scheme =
        strstr(url, "://") ? gs_strdup(url) : gs_format("http://%s", url);
    size_t n = strlen(with_scheme);
    while (n && with_scheme[n - 1] == '/' && !strchr(with_scheme, '?'))
        n--;
    return gs_strndup(with_scheme, n);
}

static struct gs_error *add_request_headers(const struct query_peer *peer, struct gs_arena *mem,
                                            struct http_header *headers)
{
    size_t n = 0;
    if (peer->n_headers > SERVER_HEADERS)
        return gs_error_new(GS_EINVAL, "more than %d --header", SERVER_HEADERS);
    for (size_t i = 0; i < peer->n_headers; i++) {
        const char *text = peer->headers[i], *sep = text + strcspn(text, ":=");
        if (sep == text || !*sep || strpbrk(text, "\r\n"))
            return gs_error_new(GS_EINVAL, "--header \"%s\": want NAME=VALUE or NAME: VALUE", text);
        struct gs_slice value = gs_slice_trim(gs_slice_of(sep + 1));
        headers[n++] =
            (struct http_header){gs_arena_strndup(mem, text, (size_t)(sep - text)),
                                 gs_arena_strndup(mem, value.data ? value.data : "", value.len)};
    }
    return NULL;
}

static struct gs_error *send_and_wait(uv_loop_t *loop, struct http_client *client,
                                      const struct http_request *request, struct exchange *x)
{
    const struct http_callbacks cb = {.on_done = on_query_response};
    (void)http_send(client, request, &cb, x);
    uv_run(loop, UV_RUN_DEFAULT);
    return x->err;
}

static struct gs_error *exchange(const struct query_peer *peer,
                                 const struct endpoint_settings *http, const char *path,
                                 struct gs_slice parameters, uv_loop_t *loop, struct exchange *x)
{
    struct gs_arena mem = {0};
    struct http_header headers[SERVER_HEADERS + 1] = {{0}};
    struct http_client *client = NULL;
    GS_AUTO_FREE char *url = base_url(peer->url);
    bool post = parameters.len > MAX_GET;
    struct gs_slice in_path = post ? GS_SLICE("") : parameters;
    GS_AUTO_FREE char *target =
        gs_format("%s%s" GS_SLICE_FMT, path, in_path.len ? "?" : "", GS_SLICE_ARG(in_path));
    struct http_request request = {
        .method = post ? "POST" : "GET",
        .path = target,
        .headers = headers,
        .timeout_ms = peer->timeout_ms,
        .max_reply = MAX_REPLY,
    };
    if (post) {
        request.body = parameters;
        request.content_type = "application/x-www-form-urlencoded";
    }
    static const struct endpoint_options options = {0};
    struct gs_error *err = add_request_headers(peer, &mem, headers);
    if (!err)
        err = endpoint_client_new(loop, url, http, &options, &client);
    if (!err)
        err = send_and_wait(loop, client, &request, x);
    http_client_free(client);
    gs_arena_finish(&mem);
    return err;
}

// --- what the server says ---

static struct gs_error *no_json(const struct query_peer *peer, const struct exchange *x)
{
    struct gs_slice body = gs_slice_trim(gs_buf_slice(&x->body));
    GS_AUTO_BUF struct gs_buf shown = {0};
    struct gs_slice line = gs_slice_cut(&body, '\n');
    if (line.len > MAX_SHOWN)
        line.len = MAX_SHOWN;
    query_add_visible(&shown, line);
    return gs_error_new(x->status / 100 == 2 ? GS_EPROTO : GS_EUNAVAIL,
                        "%s: status %d, and the response is not that of a Prometheus: %s",
                        peer->url, x->status, shown.len ? shown.data : "nothing");
}

static struct gs_error *read_answer(const struct query_peer *peer, const struct exchange *x,
                                    json_t **ret)
{
    CODEC_AUTO_JSON json_t *all = NULL;
    struct gs_error *err = codec_json_parse(gs_buf_slice(&x->body), false, &all);
    const char *status = err ? NULL : codec_json_str(all, "status", NULL);
    gs_error_free(err);
    if (!status)
        return no_json(peer, x);
    if (gs_streq(status, "success")) {
        *ret = GS_TAKE(all);
        return NULL;
    }
    const char *type = codec_json_str(all, "errorType", NULL);
    const char *text = codec_json_str(all, "error", NULL);
    if (gs_streq(codec_json_str(all, "kind", NULL), "Status")) { // of an API server before it
        type = "the API server";
        text = codec_json_str(all, "message", NULL);
    }
    GS_AUTO_BUF struct gs_buf shown = {0};
    query_add_visible(&shown, gs_slice_of(text ? text : "the server gives no reason"));
    if (gs_streq(type, "bad_data"))
        return gs_error_new(GS_EINVAL, "bad_data: %s", shown.data);
    return gs_error_new(GS_EIO, "%s: %s: %s", peer->url, type ? type : "error", shown.data);
}

static struct gs_error *request_page(const struct query_peer *peer, const char *path,
                                     struct gs_slice parameters, struct exchange *x)
{
    // As in promtool, the environment's proxy is used if there is no file.
    const struct endpoint_settings plain = {.follow_redirects = true,
                                            .proxy_from_environment = true};
    struct endpoint_file *file = NULL;
    uv_loop_t loop;
    struct gs_error *err =
        peer->http_config_file ? endpoint_file_load(peer->http_config_file, &file) : NULL;
    if (err) { // as in promtool, an error in the file is not a usage error
        GS_AUTO_ERROR struct gs_error *why = err;
        return gs_error_new(GS_EIO, "%s", gs_error_message(why));
    }
    uv_loop_init(&loop);
    const struct endpoint_settings *settings = file             ? endpoint_file_settings(file)
                                               : peer->settings ? peer->settings
                                                                : &plain;
    err = exchange(peer, settings, path, parameters, &loop, x);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    endpoint_file_free(file);
    return err;
}

struct gs_error *query_fetch(const struct query_peer *peer, const char *path,
                             struct gs_slice parameters, json_t **ret)
{
    struct exchange x = {0};
    struct gs_error *err = request_page(peer, path, parameters, &x);
    if (!err)
        err = read_answer(peer, &x, ret);
    gs_buf_finish(&x.body);
    return err;
}

struct gs_error *query_check_page(const struct query_peer *peer, const char *path)
{
    struct exchange x = {0};
    struct gs_error *err = request_page(peer, path, GS_SLICE(""), &x);
    if (!err && x.status != 200)
        err = gs_error_new(GS_EUNAVAIL, "check failed: URL=%s, status=%d", peer->url, x.status);
    if (!err) {
        GS_AUTO_BUF struct gs_buf shown = {0};
        query_add_visible(&shown, gs_slice_trim(gs_buf_slice(&x.body)));
        fprintf(stderr, "  SUCCESS:  %s\n\n", shown.data ? shown.data : "");
    }
    gs_buf_finish(&x.body);
    return err;
}

// --- the place of a mistake ---

// "…1:9: parse error…": line and column (in bytes, from 1).
static bool find_error_position(const char *message, size_t *ret_line, size_t *ret_column)
{
    const char *mark = strstr(message, ": parse error");
    int64_t line = 0, column = 0;
    const char *p = mark;
    while (p && p > message && strchr("0123456789:", p[-1]))
        p--;
    if (!p)
        return false;
    struct gs_slice rest = gs_slice_make(p, (size_t)(mark - p));
    struct gs_error *err = gs_parse_i64(gs_slice_cut(&rest, ':'), 1, INT32_MAX, &line);
    if (!err)
        err = gs_parse_i64(rest, 1, INT32_MAX, &column);
    gs_error_free(err);
    *ret_line = (size_t)line;
    *ret_column = (size_t)column;
    return !err;
}

struct gs_error *query_point_at(struct gs_error *err, const char *expr)
{
    size_t number, column;
    struct gs_slice rest = gs_slice_of(expr), line = {0};
    if (!find_error_position(gs_error_message(err), &number, &column))
        return err;
    for (; number && rest.data; number--)
        line = gs_slice_cut(&rest, '\n');
    if (number || column > line.len + 1)
        return err;
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_addf(&text, "%s\n    ", gs_error_message(err));
    // Replace tabs: they would move the line, but not the caret.
    for (size_t i = 0; i < line.len; i++)
        gs_buf_add_char(&text, (char)(line.data[i] == '\t' ? ' ' : line.data[i]));
    gs_buf_add_str(&text, "\n    ");
    for (size_t i = 0; i + 1 < column; i++)
        if (((unsigned char)line.data[i] & 0xc0) != 0x80) // one space per character
            gs_buf_add_char(&text, ' ');
    gs_buf_add_char(&text, '^');
    struct gs_error *pointed = gs_error_new(gs_error_code(err), "%s", text.data);
    gs_error_free(err);
    return pointed;
}
