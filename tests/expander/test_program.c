// SPDX-License-Identifier: Apache-2.0
// The program: a certificate that it makes, gRPC over TLS, HTTP.
#include "patience.h"
#include "requests.h"

#include "base/file.h"
#include "base/slice.h"
#include "net/grpc/grpc.h"
#include "net/http/client.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct program {
    pid_t pid;
    FILE *log;
    char dir[64], ca_file[96];
    unsigned grpc_port, http_port;
};

static void start(struct program *p, const char *policy, const char *pools)
{
    int fds[2];
    unsigned line_port = 0;
    char line[4096], dir_flag[96];
    GS_AUTO_FREE char *exe = gs_format("%s/src/cmd/gpuscale", getenv("GPUSCALE_BUILD_ROOT"));
    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/gs-expander-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(p->ca_file, sizeof(p->ca_file), "%s/ca.crt", p->dir);
    (void)snprintf(dir_flag, sizeof(dir_flag), "--cert-dir=%s", p->dir);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)fcntl(fds[1], F_SETPIPE_SZ, 1 << 20); // the log is not read later
    p->pid = fork();
    if (p->pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        execl(exe, exe, "expander", policy, dir_flag, pools, "--grpc-listen-address=127.0.0.1:0",
              "--web.listen-address=127.0.0.1:0", "--tls-name=expander.example", (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    p->log = fdopen(fds[0], "r");
    assert_non_null(p->log);
    while (!p->http_port && fgets(line, sizeof(line), p->log)) {
        const char *at = strstr(line, "Autoscaler on 127.0.0.1:");
        if (at && sscanf(at, "Autoscaler on 127.0.0.1:%u", &line_port) == 1)
            p->grpc_port = line_port;
        at = strstr(line, "http://127.0.0.1:");
        if (at && sscanf(at, "http://127.0.0.1:%u", &line_port) == 1)
            p->http_port = line_port;
    }
    assert_true(p->grpc_port && p->http_port);
}

static void stop(struct program *p)
{
    static const char *const files[] = {"ca.crt", "tls.crt", "tls.key"};
    int status = 0;
    kill(p->pid, SIGTERM);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fclose(p->log);
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", p->dir, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(p->dir), 0);
}

struct result {
    bool done;
    int status;
    struct gs_buf body;
};

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct result *r = arg;
    r->done = true;
    r->status = (int)reply->status;
    gs_buf_add_slice(&r->body, reply->body);
}

static void call(const struct program *p, uv_loop_t *loop, struct gs_slice request,
                 struct result *ret)
{
    GS_AUTO_FREE char *target = gs_format("127.0.0.1:%u", p->grpc_port);
    GS_AUTO_BUF struct gs_buf ca = {0};
    struct grpc_client *c = NULL;
    assert_ok(gs_file_read(p->ca_file, 1 << 20, &ca));
    const struct grpc_tls tls = {.ca_pem = ca.data, .server_name = "expander.example"};
    assert_ok(grpc_client_new(loop, target, &c));
    assert_ok(grpc_client_set_tls(c, &tls));
    grpc_client_call(c, "/grpcplugin.Expander/BestOptions", request, WAIT_MS, on_reply, ret);
    while (!ret->done)
        uv_run(loop, UV_RUN_ONCE);
    grpc_client_free(c);
}

static void on_response(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct result *r = arg;
    assert_ok(err);
    r->done = true;
    r->status = response->status;
    gs_buf_add_slice(&r->body, response->body);
}

static void get(const struct program *p, uv_loop_t *loop, const char *path, struct result *ret)
{
    GS_AUTO_FREE char *url = gs_format("http://127.0.0.1:%u", p->http_port);
    struct http_client *c = NULL;
    const struct http_client_config cfg = {.base_url = url};
    assert_ok(http_client_new_curl(loop, &cfg, &c));
    const struct http_request request = {.path = path};
    const struct http_callbacks callbacks = {.on_done = on_response};
    http_send(c, &request, &callbacks, ret);
    while (!ret->done)
        uv_run(loop, UV_RUN_ONCE);
    http_client_free(c);
}

static void drop(struct result *r)
{
    gs_buf_finish(&r->body);
    *r = (struct result){0};
}

static void write_prices(const char *path, const char *one, const char *four)
{
    GS_AUTO_FREE char *text = gs_format("pools:\n"
                                        "- {name: gpu-1, price: %s, machine: {gpus: 1}}\n"
                                        "- {name: gpu-4, price: %s, machine: {gpus: 4}}\n",
                                        one, four);
    assert_ok(gs_file_write_atomic(path, 0644, gs_slice_of(text)));
}

static void test_changed_pools_count(void **state)
{
    uv_loop_t loop;
    struct program p = {0};
    char path[] = "/tmp/gs-expander-pools-XXXXXX";
    GS_AUTO_BUF struct gs_buf request = {0}, groups = {0};
    CODEC_AUTO_JSON json_t *pod = make_pod("gpu-pod", 1);
    const struct requested options[] = {
        {"gpu-4", 1, 4, .pods = (const json_t *const *)&pod, .n_pods = 1},
        {"gpu-1", 1, 1, .pods = (const json_t *const *)&pod, .n_pods = 1},
    };
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    GS_AUTO_FREE char *flag = gs_format("--pools=%s", path);
    write_prices(path, "1", "4");
    uv_loop_init(&loop);
    start(&p, "--policy=cost", flag);
    make_request(RELEASE_1_35, options, GS_ARRAY_LEN(options), &request);
    int64_t end = gs_mono_ns() + WAIT_NS;
    const char *want = "gpu-1;";
    for (bool changed = false; gs_mono_ns() < end; usleep(200000)) {
        struct result r = {0};
        gs_buf_clear(&groups);
        call(&p, &loop, gs_buf_slice(&request), &r);
        read_answer(gs_buf_slice(&r.body), &groups);
        drop(&r);
        if (!gs_streq(groups.data, want))
            continue;
        if (changed)
            break;
        changed = true;
        want = "gpu-4;";
        write_prices(path, "9", "4");
    }
    assert_string_equal(groups.data, "gpu-4;");
    stop(&p);
    assert_int_equal(unlink(path), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_a_choice_from_request_to_explanation(void **state)
{
    uv_loop_t loop;
    struct program p = {0};
    struct result r = {0};
    GS_AUTO_BUF struct gs_buf request = {0}, groups = {0};
    CODEC_AUTO_JSON json_t *pod = make_pod("gpu-pod", 1);
    const struct requested options[] = {
        {"gpu-4", 1, 4, .pods = (const json_t *const *)&pod, .n_pods = 1},
        {"gpu-1", 1, 1, .pods = (const json_t *const *)&pod, .n_pods = 1},
    };
    uv_loop_init(&loop);
    start(&p, "--policy=packing", "--decisions=5");
    for (int release = RELEASE_1_33; release <= RELEASE_1_34; release++) {
        gs_buf_clear(&request);
        gs_buf_clear(&groups);
        make_request((enum release)release, options, GS_ARRAY_LEN(options), &request);
        call(&p, &loop, gs_buf_slice(&request), &r);
        assert_int_equal(r.status, GRPC_OK);
        read_answer(gs_buf_slice(&r.body), &groups);
        assert_string_equal(groups.data, "gpu-1;");
        drop(&r);
    }
    call(&p, &loop, GS_SLICE("\x0a\xff"), &r);
    assert_int_equal(r.status, GRPC_INVALID_ARGUMENT);
    drop(&r);
    get(&p, &loop, "/api/v1/decisions?limit=1", &r);
    assert_int_equal(r.status, 200);
    CODEC_AUTO_JSON json_t *all = json_loadb(r.body.data, r.body.len, 0, NULL);
    const json_t *decision = json_array_get(json_object_get(all, "items"), 0);
    assert_string_equal(codec_json_str(decision, "chosen", NULL), "gpu-1");
    drop(&r);
    get(&p, &loop, "/metrics", &r);
    assert_non_null(strstr(r.body.data, "gpuscale_expander_requests_total{result=\"chosen\"} 3\n"));
    assert_non_null(
        strstr(r.body.data, "gpuscale_expander_requests_total{result=\"refused\"} 1\n"));
    drop(&r);
    get(&p, &loop, "/readyz", &r);
    assert_int_equal(r.status, 200);
    drop(&r);
    get(&p, &loop, "/api/v1/decisions?limit=x", &r);
    assert_int_equal(r.status, 400);
    drop(&r);
    stop(&p);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_choice_from_request_to_explanation),
        cmocka_unit_test(test_changed_pools_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
