// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/mem.h"
#include "kube/session.h"
#include "unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

// A server of one connection: sends `reply` and ends; NULL: it never answers.
struct peer {
    int listener;
    char url[64];
    const char *reply;
    pthread_t thread;
};

static void *serve(void *arg)
{
    struct peer *p = arg;
    char request[4096];
    int fd = accept(p->listener, NULL, NULL);
    if (fd >= 0 && p->reply && read(fd, request, sizeof(request)) > 0)
        assert_true(write(fd, p->reply, strlen(p->reply)) > 0);
    if (fd >= 0 && !p->reply) // until the client gives up
        while (read(fd, request, sizeof(request)) > 0) {
        }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void start(struct peer *p, const char *reply)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    p->reply = reply;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(p->listener, 8), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&a, &len), 0);
    (void)snprintf(p->url, sizeof(p->url), "http://127.0.0.1:%u", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
}

static void stop(struct peer *p)
{
    pthread_join(p->thread, NULL);
    close(p->listener);
}

static struct gs_error *list_pods(const char *url, unsigned timeout_ms, json_t **ret)
{
    char path[] = "/tmp/gpuscale-session-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    GS_AUTO_FREE char *text =
        gs_format("current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u, "
                  "namespace: shop}}\nclusters:\n- {name: k, cluster: {server: \"%s\"}}\n"
                  "users:\n- {name: u, user: {}}\n",
                  url);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    struct kube_session s;
    struct gs_error *err = kube_session_open(&s, path, NULL, "test");
    if (!err) {
        assert_string_equal(s.ns, "shop");
        err = kube_session_list(&s, KUBE_PODS, s.ns, NULL, timeout_ms, ret);
    }
    kube_session_close(&s);
    (void)unlink(path);
    return err;
}

static void test_a_list_is_returned(void **state)
{
    struct peer p;
    CODEC_AUTO_JSON json_t *list = NULL;
    start(&p, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 32\r\n"
              "Connection: close\r\n\r\n{\"items\":[{\"kind\":\"Pod\"}, null]}");
    struct gs_error *err = list_pods(p.url, 60000, &list);
    stop(&p);
    assert_ok(err);
    assert_int_equal(json_array_size(json_object_get(list, "items")), 2);
}

static void test_errors_of_the_api_are_returned(void **state)
{
    struct peer p;
    CODEC_AUTO_JSON json_t *list = NULL;
    start(&p, "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 59\r\n"
              "Connection: close\r\n\r\n{\"kind\":\"Status\",\"code\":403,\"message\":\"pods are "
              "forbidden\"}");
    struct gs_error *err = list_pods(p.url, 60000, &list);
    stop(&p);
    assert_error(err, GS_EPERM, "forbidden");
    assert_null(list);
}

static void test_a_silent_server_is_given_up(void **state)
{
    struct peer p;
    json_t *list = NULL;
    start(&p, NULL);
    struct gs_error *err = list_pods(p.url, 200, &list);
    stop(&p);
    assert_error(err, GS_ETIMEOUT, "did not answer within 1 s");
    assert_null(list);
}

static void test_a_missing_kubeconfig_is_an_error(void **state)
{
    struct kube_session s;
    assert_error(kube_session_open(&s, "/nonexistent/config", NULL, "test"), GS_ENOTFOUND,
                 "kubeconfig");
    kube_session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_is_returned),
        cmocka_unit_test(test_errors_of_the_api_are_returned),
        cmocka_unit_test(test_a_silent_server_is_given_up),
        cmocka_unit_test(test_a_missing_kubeconfig_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
