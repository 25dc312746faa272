// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "classifier.h"
#include "gpu.h"
#include "intents.h"
#include "stats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_QUERY ((size_t)500)

struct server {
    struct server_config cfg;
    struct MHD_Daemon *daemon;
    uint16_t port;
    struct classifier *classifier;
    struct gpu *gpu;
    struct stats *stats;
};

// A response in progress, which owns its text.
struct answer {
    int code;
    const char *content_type;
    struct gs_buf text;
};

static void add_json(struct gs_buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            gs_buf_add_char(out, '\\');
        gs_buf_add_char(out, *s);
    }
}

static struct answer fail(int code, const char *fmt, const char *detail)
{
    struct answer a = {code, "text/plain; charset=utf-8", {0}};
    gs_buf_addf(&a.text, "%s%s\n", fmt, detail);
    return a;
}

// Classifies one text on the GPU.
static struct gs_error *predict(struct server *s, const char *text, const char **ret_intent)
{
    GS_AUTO_FREE float *features = gs_alloc_array(CLASSIFIER_FEATURES, sizeof(float));
    GS_AUTO_FREE float *scores = gs_alloc_array(n_intents, sizeof(float));
    classifier_features(text, features);
    struct gs_error *err = gpu_scores(s->gpu, features, scores);
    if (err)
        return err;
    *ret_intent = intents[classifier_best(scores)].name;
    return NULL;
}

static struct answer answer_predict(struct server *s, const char *query)
{
    if (!query || !*query)
        return fail(400, "the parameter query is missing: /predict?query=", "music");
    if (strlen(query) > MAX_QUERY)
        return fail(400, "the query is longer than 500 bytes", "");
    const char *intent;
    struct gs_error *err = predict(s, query, &intent);
    if (err) {
        struct answer a = fail(500, gs_error_message(err), "");
        gs_error_free(err);
        return a;
    }
    struct answer a = {200, "text/html; charset=utf-8", {0}};
    gs_buf_add_str(&a.text, intent);
    return a;
}

static struct answer answer_gputest(struct server *s)
{
    const char *intent;
    int64_t start = gs_mono_ns();
    struct gs_error *err = predict(s, "music", &intent);
    if (err) {
        struct answer a = fail(500, gs_error_message(err), "");
        gs_error_free(err);
        return a;
    }
    struct answer a = {200, "application/json", {0}};
    gs_buf_add_str(&a.text, "{\"gpu\":\"");
    add_json(&a.text, gpu_name(s->gpu));
    gs_buf_addf(&a.text, "\",\"inference_ms\":%.3f,\"intent\":\"%s\"}\n",
                (double)(gs_mono_ns() - start) / 1e6, intent);
    return a;
}

static struct answer route(struct server *s, const char *path, const char *query)
{
    if (gs_streq(path, "/predict"))
        return answer_predict(s, query);
    if (gs_streq(path, "/gputest"))
        return answer_gputest(s);
    struct answer a = {200, "text/plain; charset=utf-8", {0}};
    if (gs_streq(path, "/ping")) {
        gs_buf_add_str(&a.text, "pong\n");
        return a;
    }
    if (gs_streq(path, "/metrics")) {
        a.content_type = "text/plain; version=0.0.4; charset=utf-8";
        stats_write(s->stats, &a.text);
        return a;
    }
    if (gs_streq(path, "/")) {
        gs_buf_add_str(&a.text, "intent-api: GET /predict?query=TEXT, /ping, /gputest, /metrics\n");
        return a;
    }
    return fail(404, "no such path: ", path);
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *a, bool last)
{
    size_t len = a->text.len;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, gs_buf_take(&a->text), MHD_RESPMEM_MUST_FREE);
    MHD_add_response_header(response, "Content-Type", a->content_type);
    if (last)
        MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result r = MHD_queue_response(connection, (unsigned)a->code, response);
    MHD_destroy_response(response);
    return r;
}

// Counts the requests of a connection in its socket context.
static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)arg, (void)connection;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = gs_alloc(sizeof(unsigned));
    } else {
        free(*context);
        *context = NULL;
    }
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_len, void **state)
{
    (void)version, (void)body;
    struct server *s = arg;
    static int seen; // its address marks a request whose headers have been seen
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    if (*body_len) { // bodies are read and dropped
        *body_len = 0;
        return MHD_YES;
    }
    unsigned *served =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    bool last = s->cfg.keepalive && ++*served >= s->cfg.keepalive;
    int64_t start = gs_mono_ns();
    stats_begin(s->stats);
    struct answer a =
        gs_streq(method, "GET") || gs_streq(method, "HEAD")
            ? route(s, path,
                    MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "query"))
            : fail(400, "only GET is answered here, not ", method);
    stats_end(s->stats, path, a.code, gs_mono_ns() - start);
    return send_answer(connection, &a, last);
}

static struct gs_error *listen_on(const char *address, uint16_t port, int *ret_fd)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, address, &where.sin_addr) != 1)
        return gs_error_new(GS_EINVAL, "\"%s\" is not an IPv4 address", address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)&where, sizeof(where)) < 0 || listen(fd, 511) < 0) {
        struct gs_error *err = gs_error_errno(errno, "listening on %s:%u", address, port);
        if (fd >= 0)
            close(fd);
        return err;
    }
    *ret_fd = fd;
    return NULL;
}

static struct gs_error *start_http(struct server *s)
{
    int fd = -1;
    s->port = s->cfg.port;
    struct gs_error *err = listen_on(s->cfg.address, s->port, &fd);
    if (err && gs_error_code(err) == GS_EPERM && s->port < 1024) {
        gs_error_free(err);
        s->port = (uint16_t)(s->port + 8000);
        err = listen_on(s->cfg.address, s->port, &fd);
    }
    if (err)
        return err;
    s->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, s,
                                 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
                                 s->cfg.threads, MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
                                 MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_END);
    if (s->daemon)
        return NULL;
    close(fd);
    return gs_error_new(GS_EIO, "cannot start the HTTP server");
}

static void server_free(struct server *s)
{
    gpu_close(s->gpu);
    classifier_free(s->classifier);
    stats_free(s->stats);
    free(s);
}

struct gs_error *server_start(const struct server_config *cfg, struct server **ret)
{
    struct server *s = gs_alloc(sizeof(*s));
    s->cfg = *cfg;
    s->stats = stats_new();
    s->classifier = classifier_new();
    struct gpu_model model = {.weights = classifier_weights(s->classifier),
                              .rows = n_intents,
                              .columns = CLASSIFIER_FEATURES,
                              .memory = cfg->model_memory,
                              .kernel_us = cfg->kernel_us,
                              .sm_share = cfg->sm_share};
    struct gs_error *err = gpu_open(&model, &s->gpu);
    if (!err)
        err = start_http(s);
    if (err) {
        server_free(s);
        return err;
    }
    *ret = s;
    return NULL;
}

uint16_t server_port(const struct server *s)
{
    return s->port;
}

const char *server_gpu(const struct server *s)
{
    return gpu_name(s->gpu);
}

void server_stop(struct server *s, unsigned drain_ms)
{
    int fd = MHD_quiesce_daemon(s->daemon);
    for (unsigned waited = 0; waited < drain_ms; waited += 20) {
        const union MHD_DaemonInfo *info =
            MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
        if (!info || info->num_connections == 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 20 * GS_NS_PER_MS}, NULL);
    }
    MHD_stop_daemon(s->daemon);
    if (fd >= 0)
        close(fd);
    server_free(s);
}
