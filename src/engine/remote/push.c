// SPDX-License-Identifier: Apache-2.0
// `promtool push metrics`: reads an exposition and sends it once by remote write 1.0.
#include "engine/remote/push.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/remote/remote_private.h"
#include "metrics/reader.h"
#include "net/endpoint/read.h"

#include <limits.h>

#define MAX_FILE  ((size_t)256 << 20)
#define MAX_SHOWN 300 // bytes of a response

struct push {
    const struct remote_push_options *o;
    struct gs_buf message;
    struct metrics_label *labels;
    size_t cap;
    int64_t now_ms;
};

// --- the message ---

static size_t set_label(struct push *p, size_t n, struct gs_slice name, struct gs_slice value)
{
    for (size_t i = 0; i < n; i++)
        if (gs_slice_eq(p->labels[i].name, name)) {
            p->labels[i].value = value;
            return n;
        }
    gs_grow(&p->labels, &p->cap, n, sizeof(*p->labels));
    p->labels[n] = (struct metrics_label){name, value};
    return n + 1;
}

// As in promtool, a label job of the sample becomes exported_job.
static void add_sample(void *arg, const struct metrics_line *line,
                       const struct metrics_label *labels, size_t n_labels)
{
    struct push *p = arg;
    size_t n = 0;
    for (size_t i = 0; i < p->o->n_labels; i++) {
        struct gs_slice value = gs_slice_of(p->o->labels[i]);
        struct gs_slice name = gs_slice_cut(&value, '=');
        n = set_label(p, n, name, value.data ? value : GS_SLICE(""));
    }
    for (size_t i = 0; i < n_labels; i++)
        n = set_label(p, n,
                      gs_slice_eq_str(labels[i].name, "job") ? GS_SLICE("exported_job")
                                                             : labels[i].name,
                      labels[i].value);
    remote_sort_labels(p->labels, n);
    int64_t t = line->has_timestamp && line->timestamp_ms ? line->timestamp_ms : p->now_ms;
    remote_encode_series(&p->message, p->labels, n, &t, &line->value, 1);
}

// --- the request ---

struct exchange {
    int status;
    struct gs_buf body;
    struct gs_error *err;
};

static void on_push_response(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct exchange *x = arg;
    x->err = err;
    x->status = response ? response->status : 0;
    if (!err && response)
        gs_buf_add_slice(&x->body, response->body);
}

static struct gs_error *response_error(const struct exchange *x)
{
    struct gs_slice body = gs_slice_trim(gs_buf_slice(&x->body));
    GS_AUTO_BUF struct gs_buf shown = {0};
    if (x->status / 100 == 2)
        return NULL;
    for (size_t i = 0; i < body.len && i < MAX_SHOWN; i++)
        gs_buf_add_char(&shown, (char)((unsigned char)body.data[i] < ' ' ? ' ' : body.data[i]));
    return gs_error_new(GS_EUNAVAIL, "server returned HTTP status %d: %s", x->status,
                        shown.data ? shown.data : "");
}

static struct gs_error *send_message(const struct remote_push_options *o, uv_loop_t *loop,
                                     const struct endpoint_settings *settings, struct gs_slice body)
{
    static const struct endpoint_options options = {0};
    struct http_client *client = NULL;
    struct exchange x = {0};
    GS_AUTO_FREE char *with_scheme =
        strstr(o->url, "://") ? gs_strdup(o->url) : gs_format("http://%s", o->url);
    size_t len = strlen(with_scheme);
    while (len && with_scheme[len - 1] == '/')
        with_scheme[--len] = '\0';
    GS_AUTO_FREE char *path = gs_format("%s%s", *o->path == '/' ? "" : "/", o->path);
    const struct http_header headers[] = {{"Content-Encoding", "snappy"},
                                          {"X-Prometheus-Remote-Write-Version", "0.1.0"},
                                          {NULL, NULL}};
    const struct http_request request = {.method = "POST",
                                         .path = path,
                                         .headers = headers,
                                         .body = body,
                                         .content_type = "application/x-protobuf",
                                         .timeout_ms = o->timeout_ms};
    const struct http_callbacks callbacks = {.on_done = on_push_response};
    struct gs_error *err = endpoint_client_new(loop, with_scheme, settings, &options, &client);
    if (err)
        return err;
    (void)http_send(client, &request, &callbacks, &x);
    uv_run(loop, UV_RUN_DEFAULT);
    http_client_free(client);
    err = x.err ? x.err : response_error(&x);
    gs_buf_finish(&x.body);
    return err;
}

static struct gs_error *push_message(const struct push *p, struct gs_slice body)
{
    struct endpoint_file *file = NULL;
    struct gs_arena mem = {0};
    uv_loop_t loop;
    const struct remote_push_options *o = p->o;
    struct gs_error *err =
        o->http_config_file ? endpoint_file_load(o->http_config_file, &file) : NULL;
    if (err)
        return err;
    struct endpoint_settings settings = {.follow_redirects = true, .proxy_from_environment = true};
    if (file)
        settings = *endpoint_file_settings(file);
    uv_loop_init(&loop);
    err = endpoint_add_headers(&settings, o->headers, o->n_headers, &mem);
    if (!err)
        err = send_message(o, &loop, &settings, body);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    endpoint_file_free(file);
    gs_arena_finish(&mem);
    return err;
}

static struct gs_error *push_text(const struct remote_push_options *o, struct gs_slice text)
{
    struct push p = {.o = o, .now_ms = gs_unix_ms()};
    GS_AUTO_BUF struct gs_buf body = {0};
    struct gs_error *err = metrics_read_text(text, NULL, add_sample, &p);
    if (!err) {
        remote_compress(gs_buf_slice(&p.message), &body);
        err = push_message(&p, gs_buf_slice(&body));
    }
    gs_buf_finish(&p.message);
    free(p.labels);
    return err;
}

// path NULL: the standard input.
static bool push_file(const struct remote_push_options *o, const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path ? path : "/dev/stdin", MAX_FILE, &text);
    if (!err) {
        printf("Parsing %s%s\n", path ? "metrics file " : "standard input", path ? path : "");
        (void)fflush(stdout);
        err = push_text(o, gs_buf_slice(&text));
    }
    if (err)
        fprintf(stderr, "  FAILED: %s\n", gs_error_message(err));
    else
        printf("  SUCCESS: metrics %s%s%spushed to remote write.\n", path ? "file " : "",
               path ? path : "", path ? " " : "");
    (void)fflush(stdout);
    return !err;
}

int remote_push_files(const struct remote_push_options *o, int n_files, char **files)
{
    bool ok = n_files || push_file(o, NULL);
    for (int i = 0; i < n_files; i++)
        ok = push_file(o, files[i]) && ok;
    return ok ? 0 : 1;
}
