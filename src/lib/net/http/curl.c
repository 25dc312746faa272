// SPDX-License-Identifier: Apache-2.0
// HTTP over libcurl's multi socket interface on the event loop. libcurl's callbacks only collect
// bytes. The callers' callbacks run after libcurl has returned, so they may cancel, send and free.
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/redact.h"
#include "net/http/client.h"
#include "net/http/curl_private.h"
#include "net/http/http_private.h"

#include <stdio.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

enum { DEFAULT_CONNECT_TIMEOUT_MS = 5000, IDLE_CONNECTIONS = 32 };
#define MAX_HEAD ((size_t)64 * 1024)

static const struct http_curl_lib *curl; // exists while a client exists

struct http_curl_op;
TAILQ_HEAD(http_curl_ops_list, http_curl_op);

struct http_curl_client {
    struct http_client base;
    uv_loop_t *loop;
    CURLM *multi;
    struct http_curl_spares spares;
    struct http_curl_idle idle;
    struct http_curl_peer peer;
    char *base_url, *user_agent;
    bool follow_redirects;
    long connect_timeout_ms;
    uv_timer_t timer;               // libcurl's next timeout
    uv_idle_t again;                // libcurl or a failed operation has results for the next turn
    struct http_curl_ops_list ops;  // all, by `all`
    struct http_curl_ops_list news; // operations with bytes or a result to deliver
    struct http_curl_ops_list waiting; // for the end of others, by `line`
    unsigned max_requests, n_running;  // running: counted operations that have been started
    unsigned max_idle, n_started;      // started: operations that libcurl has
    bool closed;
    int open_handles;
};

struct framing {     // of a reply's body
    uint64_t length; // UINT64_MAX: no Content-Length
    bool coded;
};

struct http_curl_op {
    struct http_op base;
    TAILQ_ENTRY(http_curl_op) all, queue, line;
    CURL *easy;
    struct curl_slist *headers, *connect_to;
    struct http_callbacks cb;
    void *arg;
    struct framing framing;
    size_t body_len;         // size of the handle's last reply, then of this one
    struct gs_error *failed; // found out while sending
    struct gs_buf inbox;     // bytes for on_data
    struct gs_buf body;
    struct gs_buf head; // if keep_head is true
    struct http_curl_redirect redirect;
    int64_t deadline_ns; // of all requests; 0: none
    size_t max_reply;
    char *name; // "GET https://…" for errors
    char error_text[CURL_ERROR_SIZE];
    CURLcode result;
    bool plain_get; // the handle may serve the next GET of this URL
    bool idempotent, repeated;
    bool unsent; // not sent: its connection was closed
    bool queued, completed, delivering, retired, too_large;
    bool counted; // for max_requests
    bool waits, running, started;
    bool keep_head;
};

struct http_curl_watch {
    uv_poll_t poll;
    curl_socket_t fd;
    struct http_curl_client *client;
};

static struct http_curl_client *http_curl_client_of(struct http_curl_op *op)
{
    return GS_CONTAINER_OF(op->base.client, struct http_curl_client, base);
}

static void queue_news(struct http_curl_op *op)
{
    if (op->queued || op->retired)
        return;
    op->queued = true;
    TAILQ_INSERT_TAIL(&http_curl_client_of(op)->news, op, queue);
}

// --- ends of operations ---

// libcurl copies neither headers nor buffers: memory that the handle uses is freed with the
// operation.
static void put_away(struct http_curl_op *op)
{
    struct http_curl_client *c = http_curl_client_of(op);
    bool keep = op->plain_get && op->completed && op->result == CURLE_OK && !c->closed;
    if (!keep) {
        curl->easy_cleanup(op->easy);
        return;
    }
    curl->easy_setopt(op->easy, CURLOPT_HTTPHEADER, NULL);
    curl->easy_setopt(op->easy, CURLOPT_ERRORBUFFER, NULL);
    curl->easy_setopt(op->easy, CURLOPT_FRESH_CONNECT, 0L);
    http_curl_spares_put(&c->spares, curl, op->easy, op->name + strlen("GET "), op->body_len);
}

static void free_op(struct http_curl_op *op)
{
    if (op->easy)
        put_away(op);
    curl->slist_free_all(op->headers);
    curl->slist_free_all(op->connect_to);
    gs_buf_finish(&op->inbox);
    gs_buf_finish(&op->body);
    gs_buf_finish(&op->head);
    http_curl_redirect_finish(&op->redirect);
    gs_error_free(op->failed);
    free(op->name);
    free(op);
}

static void on_again(uv_idle_t *h);

// libcurl applies its limit when a request ends, and counts the connections of others, too: with
// enough watches it would keep none.
static void limit_connections(struct http_curl_client *c)
{
    long others = c->n_started ? (long)c->n_started - 1 : 0;
    curl->multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)c->max_idle + others);
}

// --- the line ---

// Each request that is under way has a connection with TLS. More than max_requests of them wait.
static struct gs_error *start_curl_op(struct http_curl_op *op)
{
    struct http_curl_client *c = http_curl_client_of(op);
    if (op->counted && c->max_requests && c->n_running >= c->max_requests) {
        op->waits = true;
        TAILQ_INSERT_TAIL(&c->waiting, op, line);
        return NULL;
    }
    CURLMcode rc = curl->multi_add_handle(c->multi, op->easy);
    if (rc != CURLM_OK)
        return gs_error_new(GS_EIO, "%s", curl->multi_strerror(rc));
    op->running = op->counted;
    c->n_running += op->running;
    op->started = true;
    c->n_started++;
    limit_connections(c);
    return NULL;
}

static void start_next(struct http_curl_client *c)
{
    struct http_curl_op *op;
    while (c->n_running < c->max_requests && (op = TAILQ_FIRST(&c->waiting))) {
        TAILQ_REMOVE(&c->waiting, op, line);
        op->waits = false;
        op->failed = start_curl_op(op);
        if (!op->failed)
            continue;
        op->completed = true;
        queue_news(op);
        uv_idle_start(&c->again, on_again);
    }
}

static void leave_line(struct http_curl_op *op)
{
    struct http_curl_client *c = http_curl_client_of(op);
    if (op->waits)
        TAILQ_REMOVE(&c->waiting, op, line);
    op->waits = false;
    if (!op->running)
        return;
    op->running = false;
    c->n_running--;
    start_next(c);
}

// Removes the operation from the client and from libcurl without freeing it.
static void retire_curl_op(struct http_curl_op *op)
{
    struct http_curl_client *c = http_curl_client_of(op);
    op->retired = true;
    TAILQ_REMOVE(&c->ops, op, all);
    if (op->queued)
        TAILQ_REMOVE(&c->news, op, queue);
    op->queued = false;
    if (op->easy)
        curl->multi_remove_handle(c->multi, op->easy);
    c->n_started -= op->started;
    limit_connections(c);
    leave_line(op);
}

static void http_curl_cancel(struct http_op *base)
{
    struct http_curl_op *op = GS_CONTAINER_OF(base, struct http_curl_op, base);
    if (op->retired)
        return;
    retire_curl_op(op);
    if (!op->delivering)
        free_op(op);
}

static enum gs_code code_of(CURLcode result)
{
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        return GS_ETIMEOUT;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return GS_EINVAL;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
        return GS_EPERM;
    case CURLE_WEIRD_SERVER_REPLY:
        return GS_EPROTO;
    default:
        return GS_EUNAVAIL;
    }
}

// Returns the URL without a password, for errors.
static char *shown_name(const struct http_curl_op *op)
{
    char *redacted = gs_redact_url(op->name);
    return redacted ? redacted : gs_strdup(op->name);
}

static struct gs_error *error_of(struct http_curl_op *op)
{
    if (!op->failed && !op->too_large && op->result == CURLE_OK)
        return NULL;
    GS_AUTO_FREE char *name = shown_name(op);
    if (op->failed)
        return gs_error_wrap(GS_TAKE(op->failed), "%s", name);
    if (op->too_large)
        return gs_error_new(GS_ELIMIT, "%s: the reply is larger than the limit of %zu bytes", name,
                            op->max_reply);
    http_curl_text_settle(op->error_text);
    return gs_error_new(code_of(op->result), "%s: %s", name,
                        op->error_text[0] ? op->error_text : curl->easy_strerror(op->result));
}

static void complete_curl_op(struct http_curl_op *op)
{
    struct http_response response = {0};
    struct gs_error *err = error_of(op);
    if (!err) {
        long status = 0;
        char *content_type = NULL;
        curl->easy_getinfo(op->easy, CURLINFO_RESPONSE_CODE, &status);
        curl->easy_getinfo(op->easy, CURLINFO_CONTENT_TYPE, &content_type);
        curl_off_t retry_after = 0;
        curl->easy_getinfo(op->easy, CURLINFO_RETRY_AFTER, &retry_after);
        response = (struct http_response){(int)status,
                                          content_type,
                                          gs_buf_slice(&op->body),
                                          retry_after > 0 ? (int64_t)retry_after : 0,
                                          &op->body,
                                          gs_buf_slice(&op->head)};
    }
    retire_curl_op(op);
    op->body_len = op->body.len;
    op->cb.on_done(op->arg, &response, err);
}

static void deliver_curl_op(struct http_curl_op *op)
{
    op->delivering = true;
    if (op->inbox.len) {
        struct gs_buf bytes = op->inbox;
        op->inbox = (struct gs_buf){0};
        op->cb.on_data(op->arg, gs_buf_slice(&bytes));
        gs_buf_finish(&bytes);
    }
    if (!op->retired && op->completed)
        complete_curl_op(op);
    op->delivering = false;
    if (op->retired)
        free_op(op);
}

// libcurl's GnuTLS build uses a kept connection that the peer has closed.
static int check_connection(void *arg, char *peer_ip, char *own_ip, int peer_port, int own_port)
{
    struct http_curl_op *op = arg;
    (void)peer_ip, (void)own_ip, (void)peer_port;
    op->unsent =
        !op->repeated && http_curl_idle_is_closed(&http_curl_client_of(op)->idle, own_port);
    return op->unsent ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

// Returns whether a kept connection was closed before the request was sent, or, of a request whose
// repetition has no further effect, before the response.
static bool may_repeat(struct http_curl_op *op, CURLcode result)
{
    long connects = 0, status = 0;
    if (op->unsent)
        return true;
    bool broken =
        result == CURLE_SEND_ERROR || result == CURLE_RECV_ERROR || result == CURLE_GOT_NOTHING;
    if (!broken || !op->idempotent)
        return false;
    curl->easy_getinfo(op->easy, CURLINFO_NUM_CONNECTS, &connects);
    curl->easy_getinfo(op->easy, CURLINFO_RESPONSE_CODE, &status);
    return !connects && !status;
}

// Repeats the request on a new connection: the next kept one may be closed, too.
static bool repeat_curl_op(struct http_curl_op *op, CURLcode result)
{
    if (op->repeated || !may_repeat(op, result))
        return false;
    op->unsent = false;
    op->repeated = true;
    op->error_text[0] = '\0';
    curl->multi_remove_handle(http_curl_client_of(op)->multi, op->easy);
    curl->easy_setopt(op->easy, CURLOPT_FRESH_CONNECT, 1L);
    return curl->multi_add_handle(http_curl_client_of(op)->multi, op->easy) == CURLM_OK;
}

static bool is_redirected(struct http_curl_op *op)
{
    long status = 0;
    if (!op->redirect.url || !op->redirect.location)
        return false;
    GS_AUTO_FREE char *method = gs_strndup(op->name, strcspn(op->name, " "));
    curl->easy_getinfo(op->easy, CURLINFO_RESPONSE_CODE, &status);
    return http_curl_redirect_is(method, status);
}

// Sends the request to the location of the response. The handle keeps its method and body.
static struct gs_error *send_redirected(struct http_curl_op *op)
{
    struct http_curl_client *c = http_curl_client_of(op);
    struct gs_error *err = http_curl_redirect_next(&op->redirect, curl, &op->headers);
    if (err)
        return err;
    curl->multi_remove_handle(c->multi, op->easy);
    curl->easy_setopt(op->easy, CURLOPT_CONNECT_TO, NULL);
    curl->slist_free_all(GS_TAKE(op->connect_to));
    http_curl_set_peer(&c->peer, curl, op->easy, op->redirect.url, &op->headers, &op->connect_to);
    curl->easy_setopt(op->easy, CURLOPT_HTTPHEADER, op->headers);
    curl->easy_setopt(op->easy, CURLOPT_FRESH_CONNECT, 0L);
    if (op->deadline_ns) {
        int64_t left_ms = (op->deadline_ns - gs_mono_ns()) / GS_NS_PER_MS;
        curl->easy_setopt(op->easy, CURLOPT_TIMEOUT_MS, left_ms > 0 ? (long)left_ms : 1L);
    }
    gs_buf_clear(&op->body);
    op->plain_get = op->repeated = op->unsent = false; // the handle has another URL
    CURLMcode rc = curl->multi_add_handle(c->multi, op->easy);
    return rc == CURLM_OK ? NULL : gs_error_new(GS_EIO, "%s", curl->multi_strerror(rc));
}

// Returns whether the operation goes on.
static bool redirect_curl_op(struct http_curl_op *op, CURLcode result)
{
    if (result != CURLE_OK || !is_redirected(op))
        return false;
    op->failed = send_redirected(op);
    return !op->failed;
}

static void hand_over(struct http_curl_client *c)
{
    int left;
    CURLMsg *msg;
    while ((msg = curl->multi_info_read(c->multi, &left))) {
        struct http_curl_op *op = NULL;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode result = msg->data.result;
        curl->easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &op);
        if (repeat_curl_op(op, result) || redirect_curl_op(op, result))
            continue;
        op->completed = true;
        op->result = result;
        queue_news(op);
    }
    struct http_curl_op *op;
    while (!c->closed && (op = TAILQ_FIRST(&c->news))) {
        TAILQ_REMOVE(&c->news, op, queue);
        op->queued = false;
        deliver_curl_op(op);
    }
}

// --- libcurl and the loop ---

static void run_multi(struct http_curl_client *c, curl_socket_t fd, int flags)
{
    int running;
    curl->multi_socket_action(c->multi, fd, flags, &running);
    hand_over(c);
}

static void on_curl_timeout(uv_timer_t *t)
{
    run_multi(t->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_again(uv_idle_t *h)
{
    uv_idle_stop(h);
    run_multi(h->data, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct http_curl_client *c = arg;
    if (c->closed)
        return 0;
    uv_timer_stop(&c->timer);
    if (timeout_ms == 0)
        uv_idle_start(&c->again, on_again);
    else if (timeout_ms > 0)
        uv_timer_start(&c->timer, on_curl_timeout, (uint64_t)timeout_ms, 0);
    return 0;
}

static void on_socket(uv_poll_t *p, int status, int events)
{
    struct http_curl_watch *w = GS_CONTAINER_OF(p, struct http_curl_watch, poll);
    int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
                (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0) | (status < 0 ? CURL_CSELECT_ERR : 0);
    run_multi(w->client, w->fd, flags);
}

static void watch_closed(uv_handle_t *h)
{
    free(GS_CONTAINER_OF(h, struct http_curl_watch, poll));
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct http_curl_client *c = arg;
    struct http_curl_watch *w = socket_arg;
    if (what == CURL_POLL_REMOVE) {
        if (w)
            uv_close((uv_handle_t *)&w->poll, watch_closed);
        http_curl_idle_note(&c->idle, fd);
        curl->multi_assign(c->multi, fd, NULL);
        return 0;
    }
    if (c->closed) // libcurl closing idle connections
        return -1;
    if (!w) {
        w = gs_alloc(sizeof(*w));
        w->fd = fd;
        w->client = c;
        if (uv_poll_init_socket(c->loop, &w->poll, fd) != 0) {
            free(w);
            return -1;
        }
        curl->multi_assign(c->multi, fd, w);
    }
    uv_poll_start(&w->poll,
                  (what & CURL_POLL_IN ? UV_READABLE : 0) |
                      (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
                  on_socket);
    return 0;
}

static size_t take_bytes(char *data, size_t size, size_t n, void *arg)
{
    struct http_curl_op *op = arg;
    size_t len = size * n;
    long status = 0;
    curl->easy_getinfo(op->easy, CURLINFO_RESPONSE_CODE, &status);
    if (op->cb.on_data && status == 200) {
        gs_buf_add(&op->inbox, data, len);
        queue_news(op);
        return len;
    }
    if (len > op->max_reply - op->body.len) {
        op->too_large = true;
        return 0;
    }
    // Allocates the size of the last reply, so that the buffer does not grow in many steps.
    if (!op->body.len && op->body_len > len && op->body_len < op->max_reply)
        (void)gs_buf_room(&op->body, op->body_len);
    gs_buf_add(&op->body, data, len);
    return len;
}

// Keeps the header of the last response: a proxy or a redirect comes with one of its own.
static bool keep_head_line(struct http_curl_op *op, struct gs_slice line)
{
    if (gs_slice_starts(line, "HTTP/"))
        gs_buf_clear(&op->head);
    if (line.len <= MAX_HEAD - op->head.len) {
        gs_buf_add_slice(&op->head, line);
        return true;
    }
    gs_error_free(op->failed);
    op->failed =
        gs_error_new(GS_ELIMIT, "the header of the reply is larger than %zu bytes", MAX_HEAD);
    return false;
}

// libcurl ignores a length that it cannot represent, and then treats the end of the connection as
// the end of the body. Of several lengths it takes the last one, and none beside chunks: another
// program on the way may have taken a part of the body for another reply.
static const char *take_framing(struct framing *f, struct gs_slice line)
{
    struct gs_slice value = line, name = gs_slice_trim(gs_slice_cut(&value, ':'));
    value = gs_slice_trim(value);
    bool is_length = gs_slice_is_word(name, "content-length");
    if (is_length) {
        uint64_t length = 0;
        struct gs_error *err = gs_parse_u64(value, INT64_MAX, &length);
        gs_error_free(err);
        if (err)
            return "a Content-Length that is not valid";
        if (f->length != UINT64_MAX && f->length != length)
            return "two Content-Length headers that differ";
        f->length = length;
    }
    f->coded = f->coded || gs_slice_is_word(name, "transfer-encoding");
    return f->coded && f->length != UINT64_MAX ? "both Content-Length and Transfer-Encoding" : NULL;
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
    struct http_curl_op *op = arg;
    struct gs_slice line = gs_slice_make(data, size * n);
    if (op->keep_head && !keep_head_line(op, line))
        return 0;
    if (op->redirect.url)
        http_curl_redirect_note(&op->redirect, line);
    if (gs_slice_starts(line, "HTTP/"))
        op->framing = (struct framing){.length = UINT64_MAX};
    const char *fault = take_framing(&op->framing, line);
    if (!fault)
        return line.len;
    gs_error_free(op->failed);
    op->failed = gs_error_new(GS_EPROTO, "the reply has %s", fault);
    return 0;
}

// --- sending ---

static struct gs_error *add_curl_header(struct http_curl_op *op, const char *name,
                                        const char *value)
{
    if (strpbrk(name, "\r\n:") || strpbrk(value, "\r\n"))
        return gs_error_new(GS_EINVAL, "request header \"%s\" contains a line break or colon",
                            name);
    // libcurl sends a header without value only when it ends with a semicolon.
    GS_AUTO_FREE char *line = *value ? gs_format("%s: %s", name, value) : gs_format("%s;", name);
    op->headers = curl->slist_append(op->headers, line);
    return NULL;
}

static struct gs_error *add_curl_headers(struct http_curl_op *op,
                                         const struct http_request *request)
{
    struct gs_error *err = NULL;
    for (const struct http_header *h = request->headers; !err && h && h->name; h++)
        err = add_curl_header(op, h->name, h->value);
    if (!err && request->content_type)
        err = add_curl_header(op, "Content-Type", request->content_type);
    else if (!err)
        op->headers = curl->slist_append(op->headers, "Content-Type:");
    // Avoids a round trip before a body: the servers read bodies immediately.
    op->headers = curl->slist_append(op->headers, "Expect:");
    curl->easy_setopt(op->easy, CURLOPT_HTTPHEADER, op->headers);
    return err;
}

static void set_method(struct http_curl_op *op, const char *method, struct gs_slice body)
{
    bool carries_body = body.len || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
                        strcmp(method, "PATCH") == 0;
    if (strcmp(method, "HEAD") == 0) {
        curl->easy_setopt(op->easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (carries_body) {
        curl->easy_setopt(op->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
        curl->easy_setopt(op->easy, CURLOPT_COPYPOSTFIELDS, body.len ? body.data : "");
    }
    curl->easy_setopt(op->easy, CURLOPT_CUSTOMREQUEST, method);
}

// Options that a handle keeps between GET requests.
static void set_up(struct http_curl_op *op, const char *method, const char *url,
                   struct gs_slice body)
{
    struct http_curl_client *c = http_curl_client_of(op);
    curl->easy_setopt(op->easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(op->easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl->easy_setopt(op->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl->easy_setopt(op->easy, CURLOPT_PREREQFUNCTION, check_connection);
    curl->easy_setopt(op->easy, CURLOPT_CONNECTTIMEOUT_MS, c->connect_timeout_ms);
    if (c->user_agent)
        curl->easy_setopt(op->easy, CURLOPT_USERAGENT, c->user_agent);
    http_curl_set_peer(&c->peer, curl, op->easy, url, &op->headers, &op->connect_to);
    set_method(op, method, body);
}

// RFC 9110, section 9.2.2.
static bool is_idempotent(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
           strcmp(method, "PUT") == 0 || strcmp(method, "DELETE") == 0;
}

static struct gs_error *prepare_easy(struct http_curl_op *op, const struct http_request *request)
{
    struct http_curl_client *c = http_curl_client_of(op);
    const char *method = request->method ? request->method : "GET";
    unsigned timeout = http_request_timeout_ms(request);
    GS_AUTO_FREE char *url = gs_format("%s%s", c->base_url ? c->base_url : "", request->path);
    op->name = gs_format("%s %s", method, url);
    op->idempotent = is_idempotent(method);
    op->plain_get = strcmp(method, "GET") == 0 && !request->body.len && !c->peer.server_name;
    struct http_curl_spare spare = {0};
    if (op->plain_get)
        spare = http_curl_spares_take(&c->spares, url);
    op->easy = spare.easy ? spare.easy : curl->easy_init();
    if (!op->easy)
        return gs_error_new(GS_EIO, "creating a libcurl handle failed");
    curl->easy_setopt(op->easy, CURLOPT_PRIVATE, op);
    curl->easy_setopt(op->easy, CURLOPT_ERRORBUFFER, op->error_text);
    curl->easy_setopt(op->easy, CURLOPT_WRITEDATA, op);
    curl->easy_setopt(op->easy, CURLOPT_HEADERDATA, op);
    curl->easy_setopt(op->easy, CURLOPT_PREREQDATA, op);
    curl->easy_setopt(op->easy, CURLOPT_TIMEOUT_MS, timeout != UINT_MAX ? (long)timeout : 0L);
    op->body_len = spare.body;
    if (!spare.easy)
        set_up(op, method, url, request->body);
    struct gs_error *err = add_curl_headers(op, request);
    if (err)
        return err;
    if (c->follow_redirects) {
        op->redirect.first = gs_strdup(url);
        op->redirect.url = GS_TAKE(url);
        op->deadline_ns = timeout != UINT_MAX ? gs_mono_ns() + (int64_t)timeout * GS_NS_PER_MS : 0;
    }
    op->keep_head = request->keep_headers;
    op->counted = timeout != UINT_MAX && !op->cb.on_data && !request->urgent;
    return start_curl_op(op);
}

static struct http_op *http_curl_send(struct http_client *base, const struct http_request *request,
                                      const struct http_callbacks *cb, void *arg)
{
    struct http_curl_client *c = GS_CONTAINER_OF(base, struct http_curl_client, base);
    struct http_curl_op *op = gs_alloc(sizeof(*op));
    op->base.client = base;
    op->cb = *cb;
    op->arg = arg;
    op->max_reply = request->max_reply ? request->max_reply : HTTP_DEFAULT_MAX_REPLY;
    TAILQ_INSERT_TAIL(&c->ops, op, all);
    op->failed = prepare_easy(op, request);
    if (op->failed) {
        op->completed = true;
        queue_news(op);
        uv_idle_start(&c->again, on_again);
    }
    return &op->base;
}

// --- the client ---

static void free_client(struct http_curl_client *c)
{
    if (c->multi)
        curl->multi_cleanup(c->multi);
    http_curl_pems_close(&c->peer.pems);
    char *strings[] = {c->base_url,         c->peer.unix_socket, c->user_agent,
                       c->peer.server_name, c->peer.proxy,       c->peer.no_proxy};
    for (size_t i = 0; i < GS_ARRAY_LEN(strings); i++)
        free(strings[i]);
    curl->slist_free_all(c->peer.proxy_headers);
    http_curl_idle_finish(&c->idle);
    free(c);
}

static void keep_proxy_headers(struct http_curl_client *c, const struct http_header *h)
{
    for (; h && h->name; h++) {
        GS_AUTO_FREE char *line = gs_format("%s: %s", h->name, h->value);
        c->peer.proxy_headers = curl->slist_append(c->peer.proxy_headers, line);
    }
}

static void curl_handle_closed(uv_handle_t *h)
{
    struct http_curl_client *c = h->data;
    if (--c->open_handles == 0)
        free_client(c);
}

static void http_curl_free(struct http_client *base)
{
    struct http_curl_client *c = GS_CONTAINER_OF(base, struct http_curl_client, base);
    c->max_requests = 0; // waiting operations do not start any more
    for (struct http_curl_op *op = TAILQ_FIRST(&c->ops), *next; op; op = next) {
        next = TAILQ_NEXT(op, all);
        http_curl_cancel(&op->base);
    }
    c->closed = true;
    http_curl_spares_finish(&c->spares, curl);
    // Now, not when the handles are closed: other handles watch its sockets.
    curl->multi_cleanup(GS_TAKE(c->multi));
    uv_close((uv_handle_t *)&c->timer, curl_handle_closed);
    uv_close((uv_handle_t *)&c->again, curl_handle_closed);
}

static const struct http_client_ops http_curl_ops = {
    .send = http_curl_send,
    .cancel = http_curl_cancel,
    .free = http_curl_free,
};

static CURLM *make_multi(struct http_curl_client *c)
{
    CURLM *multi = curl->multi_init();
    if (!multi)
        return NULL;
    curl->multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl->multi_setopt(multi, CURLMOPT_SOCKETDATA, c);
    curl->multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl->multi_setopt(multi, CURLMOPT_TIMERDATA, c);
    return multi;
}

static long accepted_tls_versions(const struct http_client_config *cfg)
{
    static const long least[] = {CURL_SSLVERSION_TLSv1_0, CURL_SSLVERSION_TLSv1_1,
                                 CURL_SSLVERSION_TLSv1_2, CURL_SSLVERSION_TLSv1_3};
    static const long most[] = {CURL_SSLVERSION_MAX_TLSv1_0, CURL_SSLVERSION_MAX_TLSv1_1,
                                CURL_SSLVERSION_MAX_TLSv1_2, CURL_SSLVERSION_MAX_TLSv1_3};
    long min = cfg->tls_min ? least[cfg->tls_min - 10] : CURL_SSLVERSION_DEFAULT;
    return min | (cfg->tls_max ? most[cfg->tls_max - 10] : CURL_SSLVERSION_MAX_DEFAULT);
}

struct gs_error *http_client_new_curl(uv_loop_t *loop, const struct http_client_config *cfg,
                                      struct http_client **ret)
{
    if (!cfg->cert_pem != !cfg->key_pem)
        return gs_error_new(GS_EINVAL, "a client certificate and its key must be set together");
    struct gs_error *err = http_curl_lib_load(&curl);
    if (err)
        return err;
    struct http_curl_client *c = gs_alloc(sizeof(*c));
    c->base.ops = &http_curl_ops;
    c->loop = loop;
    c->base_url = gs_strdup(cfg->base_url);
    c->peer.unix_socket = gs_strdup(cfg->unix_socket);
    c->user_agent = gs_strdup(cfg->user_agent);
    c->peer.server_name = gs_strdup(cfg->server_name);
    c->peer.proxy = gs_strdup(cfg->proxy);
    c->peer.no_proxy = gs_strdup(cfg->no_proxy);
    keep_proxy_headers(c, cfg->proxy_headers);
    c->peer.insecure = cfg->insecure;
    c->peer.tls_versions = accepted_tls_versions(cfg);
    c->follow_redirects = cfg->follow_redirects;
    c->connect_timeout_ms =
        cfg->connect_timeout_ms ? (long)cfg->connect_timeout_ms : DEFAULT_CONNECT_TIMEOUT_MS;
    TAILQ_INIT(&c->ops);
    TAILQ_INIT(&c->news);
    TAILQ_INIT(&c->waiting);
    c->max_requests = cfg->max_requests;
    c->max_idle = cfg->idle_connections ? cfg->idle_connections : IDLE_CONNECTIONS;
    err = http_curl_pems_open(&c->peer.pems, cfg);
    if (!err && !(c->multi = make_multi(c)))
        err = gs_error_new(GS_EIO, "initializing libcurl failed");
    if (err) {
        free_client(c);
        return err;
    }
    uv_timer_init(loop, &c->timer);
    uv_idle_init(loop, &c->again);
    c->timer.data = c->again.data = c;
    c->open_handles = 2;
    *ret = &c->base;
    return NULL;
}
