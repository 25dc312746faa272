// SPDX-License-Identifier: Apache-2.0
// The HTTP settings of a configuration as a server sees them: redirects, proxies, the TLS name.
#include "net/endpoint/endpoint.h"

#include "../../kube/loop.h"
#include "base/mem.h"
#include "net/http/server.h"
#include "net/tls/tls.h"

#include <unistd.h>

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct gs_buf seen;    // "Host path" of each request
    struct gs_buf headers; // "Name: value;" of the last one, those of the settings
    bool done;
    int status;
    char *error, *text;
};

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    gs_buf_addf(&f->seen, "%s %s;", http_header(x, "Host"), http_path(x));
    gs_buf_clear(&f->headers);
    const char *name, *value;
    for (size_t i = 0; (value = http_header_nth(x, i, &name)); i++)
        if (gs_starts(name, "X-") || gs_starts(name, "Authorization") || gs_streq(name, "Cookie"))
            gs_buf_addf(&f->headers, "%s: %s;", name, value);
    if (strcmp(http_path(x), "/go") == 0) {
        const char *to = http_query(x, "to");
        GS_AUTO_FREE char *here = gs_format("http://%s%s", http_header(x, "Host"), to ? to : "");
        if (to)
            http_add_header(x, "Location", to[0] == '/' && to[1] != '/' ? here : to);
        http_reply(x, atoi(http_query(x, "status")), "text/plain", GS_SLICE("gone"));
        return;
    }
    if (strcmp(http_path(x), "/loop") == 0) {
        http_add_header(x, "Location", "loop");
        http_reply(x, 302, "text/plain", GS_SLICE(""));
        return;
    }
    if (strcmp(http_path(x), "/old") == 0) {
        http_add_header(x, "Location", "/new");
        http_reply(x, 302, "text/plain", GS_SLICE(""));
        return;
    }
    GS_AUTO_FREE char *text =
        gs_format("%s " GS_SLICE_FMT, http_method(x), GS_SLICE_ARG(http_body(x)));
    http_reply(x, 200, "text/plain", gs_slice_of(text));
}

static void setup(struct fixture *f, const struct tls_pair *tls)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1",
                                           .cert_pem = tls ? tls->cert_pem : NULL,
                                           .key_pem = tls ? tls->key_pem : NULL};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
}

static void finish(struct fixture *f)
{
    http_server_stop(f->server);
    loop_finish(&f->loop);
    gs_buf_finish(&f->seen);
    gs_buf_finish(&f->headers);
    free(f->error);
    free(f->text);
}

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    f->status = response->status;
    free(f->error);
    f->error = err ? gs_strdup(gs_error_message(err)) : NULL;
    free(f->text);
    f->text = gs_slice_dup(response->body);
    gs_error_free(err);
    f->done = true;
}

static void fetch(struct fixture *f, const struct endpoint_settings *http,
                  const struct http_request *request)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    static const struct endpoint_options options = {0};
    struct http_client *client;
    assert_ok(endpoint_client_new(&f->loop, "", http, &options, &client));
    f->done = false;
    f->seen.len = 0;
    http_send(client, request, &callbacks, f);
    loop_until(&f->loop, f->done);
    http_client_free(client);
    gs_buf_add_char(&f->seen, '\0');
}

static void get(struct fixture *f, const struct endpoint_settings *http, const char *method,
                const char *url)
{
    fetch(f, http, &(struct http_request){.path = url, .method = method, .timeout_ms = WAIT_MS});
}

static void test_redirects_are_followed_when_they_may(void **state)
{
    struct fixture f;
    setup(&f, NULL);
    GS_AUTO_FREE char *url = gs_format("http://127.0.0.1:%d/old", http_server_port(f.server));
    get(&f, &(struct endpoint_settings){.follow_redirects = true}, "GET", url);
    assert_int_equal(f.status, 200);
    assert_non_null(strstr(f.seen.data, "/new"));
    get(&f, &(struct endpoint_settings){.follow_redirects = false}, "GET", url);
    assert_int_equal(f.status, 302);
    assert_null(strstr(f.seen.data, "/new"));
    get(&f, &(struct endpoint_settings){.follow_redirects = true}, "POST", url);
    assert_int_equal(f.status, 302);
    finish(&f);
    (void)state;
}

// Sends a request to /go, which redirects. host: of the first request.
static void go(struct fixture *f, const char *host, const char *method, int status, const char *to,
               struct gs_slice body)
{
    static const struct http_header own[] = {
        {"Cookie", "c=1"}, {"X-Own", "o"}, {"Content-Encoding", "snappy"}, {0}};
    static struct endpoint_header configured[] = {{.name = "X-Set", .value.text = "s"}};
    const struct endpoint_settings settings = {.follow_redirects = true,
                                               .credentials.text = "secret",
                                               .headers = configured,
                                               .n_headers = 1};
    GS_AUTO_FREE char *port = gs_format("%d", http_server_port(f->server));
    GS_AUTO_BUF struct gs_buf url = {0};
    gs_buf_addf(&url, "http://%s:%s/go?status=%d", host, port, status);
    if (to) {
        const char *mark = strstr(to, "PORT");
        GS_AUTO_FREE char *location =
            mark ? gs_format("%.*s%s%s", (int)(mark - to), to, port, mark + 4) : gs_strdup(to);
        gs_buf_add_str(&url, "&to=");
        http_encode(gs_slice_of(location), &url);
    }
    fetch(f, &settings,
          &(struct http_request){.path = url.data,
                                 .method = method,
                                 .headers = own,
                                 .body = body,
                                 .content_type = body.len ? "text/plain" : NULL,
                                 .timeout_ms = WAIT_MS});
}

#define SECRETS "Authorization: Bearer secret;X-Set: s;Cookie: c=1;X-Own: o;"
#define REST    "X-Set: s;X-Own: o;"

// As Go's client: credentials stay with the host and the hosts within its domain.
static void test_redirects_to_other_hosts_lose_credentials(void **state)
{
    static const struct {
        const char *from, *to, *headers;
    } cases[] = {
        {"127.0.0.1", "/new", SECRETS},
        {"127.0.0.1", "http://127.0.0.1:PORT/new", SECRETS},
        {"127.0.0.1", "http://localhost:PORT/new", REST},
        {"localhost", "http://127.0.0.1:PORT/new", REST},
        {"localhost", "http://LOCALHOST:PORT/new", SECRETS},
        {"localhost", "http://a.localhost:PORT/new", SECRETS},
        {"a.localhost", "http://localhost:PORT/new", REST},
        {"a.localhost", "http://b.localhost:PORT/new", REST},
        {"localhost", "//a.localhost:PORT/new", SECRETS},
    };
    struct fixture f;
    setup(&f, NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        go(&f, cases[i].from, "GET", 302, cases[i].to, GS_SLICE(""));
        assert_null(f.error);
        assert_int_equal(f.status, 200);
        assert_string_equal(f.text, "GET ");
        if (strcmp(f.headers.data, cases[i].headers) != 0)
            fail_msg("%s to %s: %s", cases[i].from, cases[i].to, f.headers.data);
    }
    // They stay lost when a later redirect returns.
    GS_AUTO_FREE char *back =
        gs_format("http://127.0.0.1:PORT/go?status=302&to=http%%3A%%2F%%2Flocalhost%%3A%d%%2Fnew",
                  http_server_port(f.server));
    go(&f, "localhost", "GET", 302, back, GS_SLICE(""));
    assert_int_equal(f.status, 200);
    assert_string_equal(f.headers.data, REST);
    finish(&f);
    (void)state;
}

static void test_redirects_keep_method_and_body_or_are_not_followed(void **state)
{
    static const struct {
        const char *method;
        int status;
        bool follows;
    } cases[] = {
        {"GET", 301, true},   {"GET", 302, true},   {"GET", 303, true},    {"GET", 307, true},
        {"GET", 308, true},   {"GET", 300, false},  {"GET", 305, false},   {"POST", 301, false},
        {"POST", 302, false}, {"POST", 303, false}, {"POST", 307, true},   {"POST", 308, true},
        {"PUT", 307, true},   {"PUT", 302, false},  {"DELETE", 308, true},
    };
    struct fixture f;
    setup(&f, NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        bool has_body = gs_starts(cases[i].method, "P");
        struct gs_slice body = has_body ? GS_SLICE("samples") : GS_SLICE("");
        go(&f, "127.0.0.1", cases[i].method, cases[i].status, "/new", body);
        assert_null(f.error);
        assert_int_equal(f.status, cases[i].follows ? 200 : cases[i].status);
        GS_AUTO_FREE char *text = gs_format("%s %s", cases[i].method, has_body ? "samples" : "");
        assert_string_equal(f.text, cases[i].follows ? text : "gone");
    }
    go(&f, "127.0.0.1", "GET", 302, NULL, GS_SLICE("")); // no location
    assert_int_equal(f.status, 302);
    finish(&f);
    (void)state;
}

static void test_redirects_end(void **state)
{
    struct fixture f;
    setup(&f, NULL);
    GS_AUTO_FREE char *url = gs_format("http://127.0.0.1:%d/loop", http_server_port(f.server));
    get(&f, &(struct endpoint_settings){.follow_redirects = true}, "POST", url);
    assert_int_equal(f.status, 302);
    get(&f, &(struct endpoint_settings){.follow_redirects = true}, "GET", url);
    assert_non_null(f.error);
    assert_non_null(strstr(f.error, "stopped after 10 redirects"));
    size_t requests = 0;
    for (const char *at = f.seen.data; (at = strstr(at, "/loop;")); at++)
        requests++;
    assert_in_range(requests, 10, 11); // the fast path repeats the first one
    static const char *const wrong[] = {"ftp://127.0.0.1/", "http://", "http://a b/",
                                        "http://[::1/"};
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        go(&f, "127.0.0.1", "GET", 302, wrong[i], GS_SLICE(""));
        assert_non_null(f.error);
    }
    finish(&f);
    (void)state;
}

static void test_a_proxy_is_asked_for_the_whole_url(void **state)
{
    struct fixture f;
    setup(&f, NULL);
    GS_AUTO_FREE char *proxy = gs_format("http://127.0.0.1:%d", http_server_port(f.server));
    get(&f, &(struct endpoint_settings){.proxy_url = proxy}, "GET", "http://gpu.example:9400/m");
    assert_null(f.error);
    assert_non_null(strstr(f.seen.data, "gpu.example:9400 "));
    // Loopback, too, which the environment's proxy would not be asked for.
    get(&f, &(struct endpoint_settings){.proxy_url = proxy}, "GET", "http://127.0.0.1:1/m");
    assert_null(f.error);
    get(&f, &(struct endpoint_settings){.proxy_url = proxy, .no_proxy = "127.0.0.1"}, "GET",
        "http://127.0.0.1:1/m");
    assert_non_null(f.error);
    // The environment's is asked only on request.
    assert_int_equal(setenv("http_proxy", proxy, 1), 0);
    get(&f, &(struct endpoint_settings){0}, "GET", "http://gpu.invalid/m");
    assert_non_null(f.error);
    get(&f, &(struct endpoint_settings){.proxy_from_environment = true}, "GET",
        "http://gpu.invalid/m");
    assert_null(f.error);
    assert_int_equal(unsetenv("http_proxy"), 0);
    finish(&f);
    (void)state;
}

static void test_the_certificate_is_checked_for_server_name(void **state)
{
    struct fixture f;
    struct tls_pair ca = {0}, pair = {0};
    const char *dns[] = {"gpu.example"};
    const struct tls_leaf leaf = {
        .common_name = "gpu", .dns_names = dns, .n_dns_names = 1, .server = 1, .days = 2};
    assert_ok(tls_make_ca("ca", 2, &ca));
    assert_ok(tls_make_leaf(&ca, &leaf, &pair));
    setup(&f, &pair);
    GS_AUTO_FREE char *url = gs_format("https://127.0.0.1:%d/m", http_server_port(f.server));
    GS_AUTO_FREE char *expected = gs_format("127.0.0.1:%d ", http_server_port(f.server));
    struct endpoint_settings http = {.ca.text = ca.cert_pem};
    get(&f, &http, "GET", url);
    assert_non_null(f.error);
    http.server_name = "gpu.example";
    get(&f, &http, "GET", url);
    assert_null(f.error);
    assert_int_equal(f.status, 200);
    assert_non_null(strstr(f.seen.data, expected));
    // Also after a redirect, which has the address of the server.
    GS_AUTO_FREE char *old = gs_format("https://127.0.0.1:%d/old", http_server_port(f.server));
    http.follow_redirects = true;
    get(&f, &http, "GET", old);
    assert_null(f.error);
    assert_int_equal(f.status, 200);
    GS_AUTO_FREE char *both = gs_format("%s/old;%s/new;", expected, expected);
    assert_string_equal(f.seen.data, both);
    // min_version and max_version: the server has 1.2 and 1.3.
    http.tls_min = http.tls_max = 13;
    get(&f, &http, "GET", url);
    assert_int_equal(f.status, 200);
    http.tls_min = 0;
    http.tls_max = 11;
    get(&f, &http, "GET", url);
    assert_non_null(f.error);
    http.tls_max = 0;
    http.server_name = "other.example";
    get(&f, &http, "GET", url);
    assert_non_null(f.error);
    finish(&f);
    tls_pair_finish(&pair);
    tls_pair_finish(&ca);
    (void)state;
}

static void test_headers_are_those_of_the_configuration(void **state)
{
    struct fixture f;
    char file[] = "/tmp/gpuscale-header-XXXXXX";
    setup(&f, NULL);
    GS_AUTO_FREE char *url = gs_format("http://127.0.0.1:%d/m", http_server_port(f.server));
    int fd = mkstemp(file);
    assert_int_equal(write(fd, " me \n", 5), 5);
    close(fd);
    const struct endpoint_header own[] = {
        {"X-A", {"1", NULL}}, {"X-A", {"2", NULL}}, {"X-File", {NULL, file}}};
    struct endpoint_settings http = {
        .headers = own, .n_headers = 3, .user.file = file, .password.text = "p"};
    get(&f, &http, "GET", url);
    // me:p, without the end of the line
    assert_string_equal(f.headers.data, "Authorization: Basic bWU6cA==;X-A: 1;X-A: 2;X-File: me;");
    FILE *changed = fopen(file, "w");
    assert_true(fputs("a\nX-B: c\n", changed) >= 0);
    fclose(changed);
    http.user.file = NULL;
    http.credentials.text = "t";
    get(&f, &http, "GET", url);
    assert_non_null(strstr(f.error, "several lines"));
    assert_int_equal(remove(file), 0);
    get(&f, &http, "GET", url);
    assert_non_null(strstr(f.error, file)); // cannot be read
    finish(&f);
    (void)state;
}

// A proxy that refuses: what it was asked is all that counts.
struct proxy {
    uv_tcp_t listener, peer;
    struct gs_buf asked;
    char room[4096];
    bool closed;
};

static void give_room(uv_handle_t *h, size_t n, uv_buf_t *ret)
{
    struct proxy *p = h->data;
    (void)n;
    *ret = uv_buf_init(p->room, sizeof(p->room));
}

static void peer_closed(uv_handle_t *h)
{
    ((struct proxy *)h->data)->closed = true;
}

static void on_asked(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct proxy *p = s->data;
    static char no[] = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    uv_buf_t response = uv_buf_init(no, sizeof(no) - 1);
    if (n < 0) {
        uv_close((uv_handle_t *)s, peer_closed);
        return;
    }
    gs_buf_add(&p->asked, buf->base, (size_t)n);
    if (strstr(p->asked.data, "\r\n\r\n"))
        assert_int_equal(uv_try_write(s, &response, 1), sizeof(no) - 1);
}

static void on_peer(uv_stream_t *s, int status)
{
    struct proxy *p = s->data;
    assert_int_equal(status, 0);
    assert_int_equal(uv_tcp_init(s->loop, &p->peer), 0);
    p->peer.data = p;
    assert_int_equal(uv_accept(s, (uv_stream_t *)&p->peer), 0);
    assert_int_equal(uv_read_start((uv_stream_t *)&p->peer, give_room, on_asked), 0);
}

static char *start_proxy(struct proxy *p, uv_loop_t *loop)
{
    struct sockaddr_in at;
    int size = sizeof(at);
    memset(p, 0, sizeof(*p));
    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &at), 0);
    assert_int_equal(uv_tcp_init(loop, &p->listener), 0);
    p->listener.data = p;
    assert_int_equal(uv_tcp_bind(&p->listener, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&p->listener, 4, on_peer), 0);
    uv_tcp_getsockname(&p->listener, (struct sockaddr *)&at, &size);
    return gs_format("http://127.0.0.1:%d", ntohs(at.sin_port));
}

// Asks through the proxy and gives what it was asked.
static const char *asked_of_proxy(struct fixture *f, struct proxy *p,
                                  const struct endpoint_settings *http, const char *url)
{
    gs_buf_clear(&p->asked);
    p->closed = false;
    get(f, http, "GET", url);
    loop_until(&f->loop, p->closed); // the client has gone
    return p->asked.data;
}

static void test_headers_for_the_proxy_go_with_connect_alone(void **state)
{
    static const struct http_header own[] = {{"X-Pass", "one"}, {"X-Pass", "two"}, {0}};
    struct fixture f;
    struct proxy p;
    setup(&f, NULL);
    GS_AUTO_FREE char *url = start_proxy(&p, &f.loop);
    const struct endpoint_settings http = {.proxy_url = url, .proxy_headers = own};
    const char *asked = asked_of_proxy(&f, &p, &http, "https://gpu.invalid/m");
    assert_true(gs_starts(asked, "CONNECT gpu.invalid:443 "));
    assert_non_null(strstr(asked, "\r\nX-Pass: one\r\nX-Pass: two\r\n"));
    asked = asked_of_proxy(&f, &p, &http, "http://gpu.invalid/m");
    assert_true(gs_starts(asked, "GET http://gpu.invalid/m "));
    assert_null(strstr(asked, "X-Pass"));
    uv_close((uv_handle_t *)&p.listener, NULL);
    finish(&f);
    gs_buf_finish(&p.asked);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redirects_are_followed_when_they_may),
        cmocka_unit_test(test_redirects_to_other_hosts_lose_credentials),
        cmocka_unit_test(test_redirects_keep_method_and_body_or_are_not_followed),
        cmocka_unit_test(test_redirects_end),
        cmocka_unit_test(test_a_proxy_is_asked_for_the_whole_url),
        cmocka_unit_test(test_the_certificate_is_checked_for_server_name),
        cmocka_unit_test(test_headers_are_those_of_the_configuration),
        cmocka_unit_test(test_headers_for_the_proxy_go_with_connect_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
