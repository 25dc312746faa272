// SPDX-License-Identifier: Apache-2.0
// The API server with its loops (all but the kubelet) behind TLS, for tests with the real kubectl:
//   local-api-server DIR    keeps its state in DIR, writes DIR/kubeconfig, runs until its input
//   ends
#include "base/error.h"
#include "base/mem.h"
#include "kube/kubeconfig.h"
#include "local/api.h"
#include "local/cluster.h"
#include "local/scheduler.h"
#include "local/services.h"
#include "local/workloads.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/tls/tls.h"

#include <stdio.h>

static const char *const admin_groups[] = {"system:masters"};

static void on_input(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    free(buf->base);
    if (n < 0)
        uv_stop(s->loop);
}

static void give_room(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
    *buf = uv_buf_init(gs_alloc(size), (unsigned)size);
}

struct keys {
    struct tls_pair ca, server, client;
};

static struct gs_error *make_keys(struct keys *ret)
{
    static const char *const addresses[] = {"127.0.0.1"};
    const struct tls_leaf server = {.common_name = "kube-apiserver",
                                    .ip_addresses = addresses,
                                    .n_ip_addresses = 1,
                                    .server = 1,
                                    .days = 2};
    const struct tls_leaf client = {.common_name = "system:admin",
                                    .organizations = admin_groups,
                                    .n_organizations = 1,
                                    .days = 2};

    struct gs_error *err = tls_make_ca("local test CA", 2, &ret->ca);
    if (!err)
        err = tls_make_leaf(&ret->ca, &server, &ret->server);
    return err ? err : tls_make_leaf(&ret->ca, &client, &ret->client);
}

static struct gs_error *serve(uv_loop_t *loop, struct local_api *api, const char *dir,
                              struct http_server **ret)
{
    struct keys k = {0};
    struct gs_error *err = make_keys(&k);

    if (!err)
        err = http_server_start(loop,
                                &(struct http_server_config){.address = "127.0.0.1",
                                                             .cert_pem = k.server.cert_pem,
                                                             .key_pem = k.server.key_pem,
                                                             .client_ca_pem = k.ca.cert_pem,
                                                             .require_identity = true},
                                local_api_handle, api, ret);
    if (!err) {
        GS_AUTO_FREE char *url = gs_format("https://127.0.0.1:%u", http_server_port(*ret));
        GS_AUTO_FREE char *path = gs_format("%s/kubeconfig", dir);
        err = kube_config_write(path, "local",
                                &(struct kube_config){.server = url,
                                                      .ca_pem = k.ca.cert_pem,
                                                      .client_cert_pem = k.client.cert_pem,
                                                      .client_key_pem = k.client.key_pem,
                                                      .ns = (char[]){"default"}});
    }
    tls_pair_finish(&k.ca);
    tls_pair_finish(&k.server);
    tls_pair_finish(&k.client);
    return err;
}

struct loops {
    struct http_client *http;
    struct kube_client *kube;
    struct local_cluster *cluster;
    struct local_workloads *workloads;
    struct local_scheduler *scheduler;
    struct local_services *services;
};

static void loops_start(struct loops *l, uv_loop_t *loop, struct local_api *api, const char *dir)
{
    static const char *const devices[] = {"GPU-0", "GPU-1"};
    const struct http_identity admin = {"system:admin", admin_groups, 1};

    l->http = http_client_new_loopback(loop, local_api_handle, api, &admin);
    l->kube = kube_client_new(l->http);
    l->cluster = local_cluster_new(loop, l->kube, "testnode", dir);
    l->workloads = controllers_workloads_new(l->cluster);
    l->scheduler = controllers_scheduler_new(l->cluster, devices, GS_ARRAY_LEN(devices));
    l->services = services_new(l->cluster);
}

static void loops_stop(struct loops *l)
{
    services_free(l->services);
    controllers_scheduler_free(l->scheduler);
    controllers_workloads_free(l->workloads);
    local_cluster_free(l->cluster);
    kube_client_free(l->kube);
    http_client_free(l->http);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    struct local_api *api = NULL;
    struct http_server *server = NULL;
    struct loops loops = {0};
    uv_pipe_t input;

    if (argc != 2 || uv_loop_init(&loop) != 0) {
        fprintf(stderr, "usage: local-api-server DIR\n");
        return 2;
    }
    GS_AUTO_ERROR struct gs_error *err = local_api_new(
        &loop, &(struct local_api_config){.data_dir = argv[1], .node_name = "testnode"}, &api);
    if (!err)
        err = serve(&loop, api, argv[1], &server);
    if (err) {
        fprintf(stderr, "local-api-server: %s\n", gs_error_message(err));
        return 1;
    }
    loops_start(&loops, &loop, api, argv[1]);
    uv_pipe_init(&loop, &input, 0);
    uv_pipe_open(&input, 0);
    uv_read_start((uv_stream_t *)&input, give_room, on_input);
    printf("ready\n");
    (void)fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&input, NULL);
    http_server_stop(server);
    loops_stop(&loops);
    local_api_free(api);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}
