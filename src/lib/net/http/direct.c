// SPDX-License-Identifier: Apache-2.0
// The fast path: a request is one write, and its reply is read into a buffer shared by all replies.
// A connection carries one operation at a time and is kept for the next one to the same authority.
// If the reply is unusual, libcurl repeats the request with the remaining time, which is safe for
// GET. Therefore this file does not handle redirects, further addresses and error texts.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/http/client.h"
#include "net/http/http_private.h"

#include <strings.h>
#include <sys/queue.h>

#define IDLE_CONNECTIONS 32u
#define MIN_ROOM         ((size_t)16 * 1024) // of a read
#define TYPICAL_REQUEST  ((size_t)1024)
#define MAX_SPARE        ((size_t)1024 * 1024)

struct direct_op;
struct direct_conn;
TAILQ_HEAD(conn_list, direct_conn);
TAILQ_HEAD(op_list, direct_op);

struct direct_client {
    struct http_client base;
    struct http_client *general;
    uv_loop_t *loop;
    char *base_url, *user_agent;
    bool eligible;      // the configuration does not need libcurl
    bool only_loopback; // a proxy of the environment may apply to other hosts
    bool follow_redirects;
    struct conn_list idle;   // most recently used first
    struct gs_hmap *by_host; // authority to the struct conn_list of its idle connections
    unsigned n_idle, max_idle, n_conns;
    struct gs_buf spare; // memory for the next reply
    struct op_list ops;
    bool closed;
};

struct direct_op {
    struct http_op base;
    TAILQ_ENTRY(direct_op) all;
    struct direct_conn *conn; // NULL: libcurl sends it
    struct http_op *passed;
    struct gs_buf bytes;
    size_t headers;       // offset of the caller's headers
    uint64_t deadline_ms; // of the loop
    char *path;           // as the caller gave it, for libcurl
    struct http_callbacks cb;
    void *arg;
    size_t max_reply;
    unsigned timeout_ms;
    bool urgent;
    int64_t started_ns;
};

struct direct_conn {
    struct direct_client *client;
    TAILQ_ENTRY(direct_conn) link, peer; // while idle: of all, and of those of its authority
    uv_tcp_t tcp;
    uv_timer_t deadline; // of the operation
    uv_connect_t connecting;
    uv_getaddrinfo_t resolving;
    char *authority;
    struct direct_op *op;
    struct http_reply reply;
    int open; // number of handles and requests that the loop has not closed yet
    bool connected;
};

static struct direct_client *client_of(const struct direct_op *op)
{
    return GS_CONTAINER_OF(op->base.client, struct direct_client, base);
}

// --- connections ---

static void free_client(struct direct_client *c)
{
    free(c->base_url);
    free(c->user_agent);
    gs_hmap_free(c->by_host);
    gs_buf_finish(&c->spare);
    free(c);
}

static void conn_ended(struct direct_conn *conn)
{
    struct direct_client *c = conn->client;
    if (--conn->open)
        return;
    gs_buf_finish(&conn->reply.bytes);
    free(conn->authority);
    free(conn);
    if (--c->n_conns == 0 && c->closed)
        free_client(c);
}

static void on_closed(uv_handle_t *h)
{
    conn_ended(h->data);
}

static void close_conn(struct direct_conn *conn)
{
    conn->op = NULL;
    if (uv_is_closing((uv_handle_t *)&conn->tcp))
        return;
    (void)uv_cancel((uv_req_t *)&conn->resolving);
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
    uv_close((uv_handle_t *)&conn->deadline, on_closed);
}

static void leave_idle(struct direct_conn *conn)
{
    struct direct_client *c = conn->client;
    struct conn_list *peers = gs_hmap_get_str(c->by_host, conn->authority);
    TAILQ_REMOVE(peers, conn, peer);
    if (TAILQ_EMPTY(peers))
        free(gs_hmap_remove_str(c->by_host, conn->authority));
    TAILQ_REMOVE(&c->idle, conn, link);
    c->n_idle--;
    uv_ref((uv_handle_t *)&conn->tcp);
    uv_ref((uv_handle_t *)&conn->deadline);
}

static void keep_conn(struct direct_conn *conn)
{
    struct direct_client *c = conn->client;
    conn->op = NULL;
    uv_unref((uv_handle_t *)&conn->tcp); // an idle connection does not keep the loop running
    uv_unref((uv_handle_t *)&conn->deadline);
    struct conn_list *peers = gs_hmap_get_str(c->by_host, conn->authority);
    if (!peers) {
        peers = gs_alloc(sizeof(*peers));
        TAILQ_INIT(peers);
        gs_hmap_put_str(c->by_host, conn->authority, peers);
    }
    TAILQ_INSERT_HEAD(peers, conn, peer);
    TAILQ_INSERT_HEAD(&c->idle, conn, link);
    if (++c->n_idle <= c->max_idle)
        return;
    struct direct_conn *oldest = TAILQ_LAST(&c->idle, conn_list);
    leave_idle(oldest);
    close_conn(oldest);
}

static struct direct_conn *find_idle(struct direct_client *c, struct gs_slice authority)
{
    const struct conn_list *peers = gs_hmap_get(c->by_host, authority);
    struct direct_conn *conn = peers ? TAILQ_FIRST(peers) : NULL;
    if (conn)
        leave_idle(conn);
    return conn;
}

// Memory of replies is reused, so that a buffer of the usual size never grows.
static void borrow_memory(struct direct_conn *conn)
{
    struct gs_buf *own = &conn->reply.bytes, *spare = &conn->client->spare;
    if (!own->data) {
        *own = *spare;
        *spare = (struct gs_buf){0};
    }
}

static void return_memory(struct direct_client *c, struct gs_buf *bytes)
{
    if (bytes->cap > c->spare.cap && bytes->cap <= MAX_SPARE) {
        gs_buf_finish(&c->spare);
        c->spare = *bytes;
        gs_buf_clear(&c->spare);
        *bytes = (struct gs_buf){0};
    } else {
        gs_buf_finish(bytes);
    }
}

// --- ends of operations ---

static void free_op(struct direct_op *op)
{
    TAILQ_REMOVE(&client_of(op)->ops, op, all);
    gs_buf_finish(&op->bytes);
    free(op->path);
    free(op);
}

static void direct_cancel(struct http_op *base)
{
    struct direct_op *op = GS_CONTAINER_OF(base, struct direct_op, base);
    if (op->conn)
        close_conn(op->conn);
    http_op_cancel(op->passed);
    free_op(op);
}

// The caller closes or keeps the connection of op. Takes err.
static void finish_direct_op(struct direct_op *op, const struct http_response *response,
                             struct gs_error *err)
{
    struct http_callbacks cb = op->cb;
    void *arg = op->arg;
    free_op(op);
    cb.on_done(arg, response, err);
}

static void fail_direct_op(struct direct_op *op, struct gs_error *err)
{
    static const struct http_response none;
    struct direct_client *c = client_of(op);
    err = gs_error_wrap(err, "GET %s%s", c->base_url ? c->base_url : "", op->path);
    close_conn(op->conn);
    finish_direct_op(op, &none, err);
}

static void on_passed_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct direct_op *op = arg;
    op->passed = NULL;
    finish_direct_op(op, response, err);
}

// Extracts the caller's headers from the request, whose bytes become invalid: each line becomes two
// strings.
static struct http_header *take_headers(struct direct_op *op)
{
    char *line = op->bytes.data + op->headers;
    size_t n = 0, cap = 0;
    struct http_header *items = NULL;
    for (;; line = strchr(line, '\n') + 1) {
        gs_grow(&items, &cap, n, sizeof(*items));
        if (*line == '\r')
            break;
        items[n++] = (struct http_header){line, strchr(line, ':') + 2};
    }
    items[n] = (struct http_header){NULL, NULL};
    for (size_t i = 0; i < n; i++) {
        ((char *)items[i].value)[-2] = '\0';
        ((char *)items[i].value)[strcspn(items[i].value, "\r")] = '\0';
    }
    return items;
}

static void forward_to_curl(struct direct_op *op)
{
    static const struct http_callbacks callbacks = {.on_done = on_passed_done};
    struct direct_client *c = client_of(op);
    GS_AUTO_FREE struct http_header *headers = take_headers(op);
    const struct http_request request = {.path = op->path,
                                         .headers = headers,
                                         .timeout_ms =
                                             http_time_left_ms(op->timeout_ms, op->started_ns),
                                         .max_reply = op->max_reply,
                                         .urgent = op->urgent};
    if (op->conn)
        close_conn(GS_TAKE(op->conn));
    op->passed = http_send(c->general, &request, &callbacks, op);
}

static void on_direct_deadline(uv_timer_t *t)
{
    struct direct_conn *conn = t->data;
    uint64_t now = uv_now(t->loop);
    if (!conn->op)
        return;
    if (conn->op->deadline_ms > now)
        uv_timer_start(t, on_direct_deadline, conn->op->deadline_ms - now, 0);
    else
        fail_direct_op(conn->op, gs_error_new(GS_ETIMEOUT, "no complete reply within %u ms",
                                              conn->op->timeout_ms));
}

// A timer of an earlier operation keeps running if it ends early enough: a busy connection then
// sets it once per timeout and not for each request.
static void set_deadline(struct direct_conn *conn)
{
    struct direct_op *op = conn->op;
    op->deadline_ms = UINT64_MAX;
    if (op->timeout_ms == UINT_MAX)
        return;
    uv_update_time(conn->client->loop); // the timeout starts now
    op->deadline_ms = uv_now(conn->client->loop) + op->timeout_ms;
    if (!uv_is_active((uv_handle_t *)&conn->deadline) ||
        uv_timer_get_due_in(&conn->deadline) > op->timeout_ms)
        uv_timer_start(&conn->deadline, on_direct_deadline, op->timeout_ms, 0);
}

static void deliver_reply(struct direct_conn *conn)
{
    struct direct_op *op = conn->op;
    struct direct_client *c = conn->client;
    struct http_reply reply = conn->reply;
    struct http_response response = {reply.status, http_reply_content_type(&reply),
                                     http_reply_body(&reply), reply.retry_after_s, &reply.bytes};
    conn->reply = (struct http_reply){0};
    if (reply.keep)
        keep_conn(conn);
    else
        close_conn(conn);
    conn->open++; // the callback may free the client
    finish_direct_op(op, &response, NULL);
    return_memory(c, &reply.bytes);
    conn_ended(conn);
}

// --- reading ---

static void read_reply(struct direct_conn *conn, bool ended)
{
    struct direct_op *op = conn->op;
    enum http_reply_state state = http_reply_step(&conn->reply, ended);
    bool redirected = conn->reply.status >= 300 && conn->reply.status < 400;
    if (state == HTTP_REPLY_LARGE)
        fail_direct_op(op,
                       gs_error_new(GS_ELIMIT, "the reply is larger than the limit of %zu bytes",
                                    op->max_reply));
    else if (state == HTTP_REPLY_ODD ||
             (state == HTTP_REPLY_DONE && redirected && conn->client->follow_redirects))
        forward_to_curl(op);
    else if (state == HTTP_REPLY_DONE)
        deliver_reply(conn);
}

static void give_room(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct direct_conn *conn = h->data;
    struct gs_buf *b = &conn->reply.bytes;
    borrow_memory(conn);
    if (b->cap - b->len <= MIN_ROOM)
        (void)gs_buf_room(b, MIN_ROOM);
    *ret = uv_buf_init(b->data + b->len, (unsigned)(b->cap - b->len - 1));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct direct_conn *conn = s->data;
    if (n == 0) {
        if (!conn->op)
            return_memory(conn->client, &conn->reply.bytes);
        return;
    }
    if (!conn->op) { // idle: the peer closed it, or sends bytes without a request
        leave_idle(conn);
        close_conn(conn);
        return;
    }
    if (n > 0) {
        conn->reply.bytes.len += (size_t)n;
        conn->reply.bytes.data[conn->reply.bytes.len] = '\0';
    }
    if (n > 0 || n == UV_EOF)
        read_reply(conn, n == UV_EOF);
    else
        forward_to_curl(conn->op);
}

// --- sending ---

static void start_request(struct direct_conn *conn)
{
    struct direct_op *op = conn->op;
    uv_buf_t bytes = uv_buf_init(op->bytes.data, (unsigned)op->bytes.len);
    http_reply_reset(&conn->reply, op->max_reply);
    // libcurl sends a request that does not fit into an empty socket buffer.
    if (uv_try_write((uv_stream_t *)&conn->tcp, &bytes, 1) != (int)op->bytes.len)
        forward_to_curl(op);
}

static void on_connect(uv_connect_t *req, int status)
{
    struct direct_conn *conn = req->data;
    if (conn->op && status == 0)
        status = uv_read_start((uv_stream_t *)&conn->tcp, give_room, on_read);
    if (conn->op && status == 0)
        start_request(conn);
    else if (conn->op)
        forward_to_curl(conn->op);
    conn_ended(conn);
}

static bool connect_to(struct direct_conn *conn, const struct sockaddr *address)
{
    conn->connecting.data = conn;
    if (uv_tcp_connect(&conn->connecting, &conn->tcp, address, on_connect) != 0)
        return false;
    conn->open++;
    (void)uv_tcp_nodelay(&conn->tcp, 1);
    (void)uv_tcp_keepalive(&conn->tcp, 1, 60);
    return true;
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct direct_conn *conn = req->data;
    if (conn->op && (status != 0 || !connect_to(conn, found->ai_addr)))
        forward_to_curl(conn->op);
    uv_freeaddrinfo(found);
    conn_ended(conn);
}

static bool resolve_host(struct direct_conn *conn, const struct http_url *url)
{
    static const struct addrinfo stream = {.ai_socktype = SOCK_STREAM};
    char port[8];
    (void)snprintf(port, sizeof(port), "%d", url->port);
    conn->resolving.data = conn;
    if (uv_getaddrinfo(conn->client->loop, &conn->resolving, on_resolved, url->host, port,
                       &stream) != 0)
        return false;
    conn->open++;
    return true;
}

static struct direct_conn *open_conn(struct direct_client *c, struct gs_slice authority)
{
    struct direct_conn *conn = gs_alloc(sizeof(*conn));
    conn->client = c;
    conn->authority = gs_slice_dup(authority);
    uv_tcp_init(c->loop, &conn->tcp);
    uv_timer_init(c->loop, &conn->deadline);
    conn->tcp.data = conn->deadline.data = conn;
    conn->open = 2;
    c->n_conns++;
    return conn;
}

// Sends over an idle connection, or a new one.
static void begin_exchange(struct direct_op *op, const struct http_url *url)
{
    struct direct_client *c = client_of(op);
    struct direct_conn *conn = find_idle(c, url->authority);
    bool fresh = !conn;
    if (fresh)
        conn = open_conn(c, url->authority);
    conn->op = op;
    op->conn = conn;
    set_deadline(conn);
    struct sockaddr_storage address;
    if (!fresh)
        start_request(conn);
    else if (!(http_url_address(url, &address) ? connect_to(conn, (struct sockaddr *)&address)
                                               : resolve_host(conn, url)))
        forward_to_curl(op);
}

static bool is_ours_to_set(const char *name)
{
    static const char *const names[] = {"Host", "Connection", "Content-Length", "Transfer-Encoding",
                                        "Expect"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static void add_request_header(struct gs_buf *out, const char *name, const char *value)
{
    gs_buf_add_str(out, name);
    gs_buf_add_str(out, ": ");
    gs_buf_add_str(out, value);
    gs_buf_add_str(out, "\r\n");
}

// *ret_headers: offset of the caller's headers.
static bool write_request(struct direct_client *c, const struct http_request *request,
                          const struct http_url *url, struct gs_buf *out, size_t *ret_headers)
{
    (void)gs_buf_room(out, TYPICAL_REQUEST);
    gs_buf_add_str(out, "GET ");
    gs_buf_add_slice(out, url->target);
    gs_buf_add_str(out, " HTTP/1.1\r\nHost: ");
    gs_buf_add_slice(out, url->authority);
    gs_buf_add_str(out, "\r\n");
    if (c->user_agent)
        add_request_header(out, "User-Agent", c->user_agent);
    *ret_headers = out->len;
    for (const struct http_header *h = request->headers; h && h->name; h++) {
        if (!*h->name || strpbrk(h->name, "\r\n: ") || strpbrk(h->value, "\r\n") ||
            is_ours_to_set(h->name))
            return false;
        add_request_header(out, h->name, h->value);
    }
    gs_buf_add_str(out, "\r\n");
    return true;
}

static struct http_op *direct_send(struct http_client *base, const struct http_request *request,
                                   const struct http_callbacks *cb, void *arg)
{
    struct direct_client *c = GS_CONTAINER_OF(base, struct direct_client, base);
    GS_AUTO_FREE char *joined =
        c->base_url && *c->base_url ? gs_format("%s%s", c->base_url, request->path) : NULL;
    GS_AUTO_BUF struct gs_buf bytes = {0};
    struct http_url url;
    size_t headers = 0;
    bool direct = c->eligible && !cb->on_data && !request->body.len && !request->content_type &&
                  !request->keep_headers &&
                  (!request->method || strcmp(request->method, "GET") == 0) &&
                  http_url_parse(joined ? joined : request->path, &url) &&
                  (!c->only_loopback || http_host_is_loopback(url.host)) &&
                  write_request(c, request, &url, &bytes, &headers);
    if (!direct)
        return http_send(c->general, request, cb, arg);
    struct direct_op *op = gs_alloc(sizeof(*op));
    op->base.client = base;
    op->bytes = bytes;
    bytes = (struct gs_buf){0};
    op->headers = headers;
    op->path = gs_strdup(request->path);
    op->cb = *cb;
    op->arg = arg;
    op->max_reply = request->max_reply ? request->max_reply : HTTP_DEFAULT_MAX_REPLY;
    op->timeout_ms = http_request_timeout_ms(request);
    op->urgent = request->urgent;
    op->started_ns = gs_mono_ns();
    TAILQ_INSERT_TAIL(&c->ops, op, all);
    begin_exchange(op, &url);
    return &op->base;
}

// --- the client ---

static void direct_free(struct http_client *base)
{
    struct direct_client *c = GS_CONTAINER_OF(base, struct direct_client, base);
    struct direct_conn *conn;
    for (struct direct_op *op = TAILQ_FIRST(&c->ops), *next; op; op = next) {
        next = TAILQ_NEXT(op, all);
        direct_cancel(&op->base);
    }
    while ((conn = TAILQ_FIRST(&c->idle))) {
        leave_idle(conn);
        close_conn(conn);
    }
    http_client_free(GS_TAKE(c->general));
    c->closed = true;
    if (!c->n_conns)
        free_client(c);
}

static const struct http_client_ops direct_ops = {
    .send = direct_send,
    .cancel = direct_cancel,
    .free = direct_free,
};

// The variables that libcurl uses for plain HTTP.
static bool environment_has_proxy(void)
{
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return false;
}

struct gs_error *http_client_new_direct(uv_loop_t *loop, const struct http_client_config *cfg,
                                        struct http_client **ret)
{
    struct http_client *general = NULL;
    struct gs_error *err = http_client_new_curl(loop, cfg, &general);
    if (err)
        return err;
    struct direct_client *c = gs_alloc(sizeof(*c));
    c->base.ops = &direct_ops;
    c->general = general;
    c->loop = loop;
    c->base_url = gs_strdup(cfg->base_url);
    c->user_agent = gs_strdup(cfg->user_agent);
    c->eligible = !cfg->unix_socket && !(cfg->proxy && *cfg->proxy);
    c->only_loopback = !cfg->proxy && environment_has_proxy();
    c->follow_redirects = cfg->follow_redirects;
    c->max_idle = cfg->idle_connections ? cfg->idle_connections : IDLE_CONNECTIONS;
    c->by_host = gs_hmap_new(free);
    TAILQ_INIT(&c->idle);
    TAILQ_INIT(&c->ops);
    *ret = &c->base;
    return NULL;
}
