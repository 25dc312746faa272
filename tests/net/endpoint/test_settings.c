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
    char *error;
};

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    gs_buf_addf(&f->seen, "%s %s;", http_header(x, "Host"), http_path(x));
    gs_buf_clear(&f->headers);
    const char *name, *value;
    for (size_t i = 0; (value = http_header_nth(x, i, &name)); i++)
        if (gs_starts(name, "X-") || gs_starts(name, "Authorization"))
            gs_buf_addf(&f->headers, "%s: %s;", name, value);
    if (strcmp(http_path(x), "/old") == 0) {
        http_add_header(x, "Location", "/new");
        http_reply(x, 302, "text/plain", GS_SLICE(""));
        return;
    }
    http_reply(x, 200, "text/plain", GS_SLICE("ok"));
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
}

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    f->status = response->status;
    free(f->error);
    f->error = err ? gs_strdup(gs_error_message(err)) : NULL;
    gs_error_free(err);
    f->done = true;
}

static void get(struct fixture *f, const struct endpoint_settings *http, const char *method,
                const char *url)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    static const struct endpoint_options options = {0};
    struct http_client *client;
    assert_ok(endpoint_client_new(&f->loop, "", http, &options, &client));
    const struct http_request request = {.path = url, .method = method, .timeout_ms = WAIT_MS};
    f->done = false;
    f->seen.len = 0;
    http_send(client, &request, &callbacks, f);
    loop_until(&f->loop, f->done);
    http_client_free(client);
    gs_buf_add_char(&f->seen, '\0');
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
        cmocka_unit_test(test_a_proxy_is_asked_for_the_whole_url),
        cmocka_unit_test(test_the_certificate_is_checked_for_server_name),
        cmocka_unit_test(test_headers_are_those_of_the_configuration),
        cmocka_unit_test(test_headers_for_the_proxy_go_with_connect_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
