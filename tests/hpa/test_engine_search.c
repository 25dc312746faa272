// SPDX-License-Identifier: Apache-2.0
// The search for an engine: with a cluster that does not answer, the loop goes on.
#include "hpa_controller/engine_search.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"
#include "patience.h"
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

struct bench {
    uv_loop_t loop;
    uv_timer_t tick;
    int ticks;
    int fd; // accepts connections, and answers nothing
    char dir[40];
    char *kubeconfig;
    struct hpa_engine_search *search;
};

static void on_tick(uv_timer_t *t)
{
    ((struct bench *)t->data)->ticks++;
}

static int listen_silently(char url[64])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(url, 64, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    char url[64];
    unsetenv("GPUSCALE_URL");
    unsetenv("PROMETHEUS_URL");
    uv_loop_init(&b->loop);
    uv_timer_init(&b->loop, &b->tick);
    b->tick.data = b;
    uv_timer_start(&b->tick, on_tick, 1, 1);
    b->fd = listen_silently(url);
    snprintf(b->dir, sizeof(b->dir), "/tmp/gpuscale-engine-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    b->kubeconfig = gs_format("%s/config", b->dir);
    GS_AUTO_FREE char *text = gs_format(
        "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: "
        "{server: '%s'}}], users: [{name: u, user: {token: t}}], contexts: [{name: c, "
        "context: {cluster: c, user: u}}]}",
        url);
    assert_ok(gs_file_write_atomic(b->kubeconfig, 0600, gs_slice_of(text)));
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_engine_search_free(b->search);
    uv_close((uv_handle_t *)&b->tick, NULL);
    if (b->fd >= 0)
        close(b->fd);
    uv_run(&b->loop, UV_RUN_DEFAULT); // until the search has ended
    assert_int_equal(uv_loop_close(&b->loop), 0);
    gs_remove_tree(b->dir);
    free(b->kubeconfig);
    free(b);
    return 0;
}

static void test_the_loop_goes_on_while_the_cluster_hangs(void **state)
{
    struct bench *b = *state;
    const char *why = NULL;
    b->search = hpa_engine_search_new(&b->loop, NULL, b->kubeconfig, "test/1");
    assert_null(hpa_engine_search_client(b->search, &why));
    assert_non_null(strstr(why, "is being searched"));
    for (int end = b->ticks + 5; b->ticks < end;)
        uv_run(&b->loop, UV_RUN_ONCE);
    // Another evaluation begins no second search.
    assert_null(hpa_engine_search_client(b->search, &why));
    assert_non_null(strstr(why, "is being searched"));
}

static void test_a_search_that_fails_says_why(void **state)
{
    struct bench *b = *state;
    const char *why = NULL;
    int64_t deadline = gs_mono_ns() + WAIT_NS;
    b->search = hpa_engine_search_new(&b->loop, NULL, b->kubeconfig, "test/1");
    close(b->fd); // connections are refused
    b->fd = -1;
    assert_null(hpa_engine_search_client(b->search, &why));
    while (strstr(why, "is being searched") && gs_mono_ns() < deadline) {
        uv_run(&b->loop, UV_RUN_ONCE);
        (void)hpa_engine_search_client(b->search, &why);
    }
    assert_non_null(strstr(why, "no engine and no Prometheus (--url): "));
    assert_null(strstr(why, "is being searched"));
}

static void test_a_url_needs_no_search(void **state)
{
    struct bench *b = *state;
    const char *why = "";
    b->search = hpa_engine_search_new(&b->loop, "http://127.0.0.1:9", b->kubeconfig, "test/1");
    assert_non_null(hpa_engine_search_client(b->search, &why));
    assert_null(why);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_loop_goes_on_while_the_cluster_hangs),
        TEST(test_a_search_that_fails_says_why),
        TEST(test_a_url_needs_no_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
