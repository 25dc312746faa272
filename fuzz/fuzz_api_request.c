// SPDX-License-Identifier: Apache-2.0
// A request through the whole API server on a memory store. The input: a line with the method, one
// with the path and query, one with the body's media type, one with the Accept header, then the
// body. A pod, a Deployment and an autoscaler exist. After the request, a list in table form must
// work with whatever was stored.
#include "base/mem.h"
#include "local/api.h"
#include "net/http/client.h"

#define MAX_TURNS 20

struct call {
    bool done;
};

static void on_data(void *arg, struct gs_slice bytes)
{
    (void)arg;
    (void)bytes;
}

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct call *c = arg;
    (void)response;
    c->done = true;
    gs_error_free(err);
}

static void ask(uv_loop_t *loop, struct http_client *client, const char *method, const char *path,
                const char *type, const char *accept, struct gs_slice body)
{
    const struct http_header headers[] = {{"Accept", accept}, {NULL, NULL}};
    struct call c = {0};
    struct http_op *op = http_send(client,
                                   &(struct http_request){.method = method,
                                                          .path = path,
                                                          .headers = headers,
                                                          .content_type = type,
                                                          .body = body,
                                                          .timeout_ms = UINT32_MAX},
                                   &(struct http_callbacks){on_data, on_done}, &c);

    // A watch does not end by itself.
    for (int i = 0; i < MAX_TURNS && !c.done; i++)
        uv_run(loop, UV_RUN_NOWAIT);
    if (!c.done)
        http_op_cancel(op);
}

static const struct {
    const char *path, *body;
} existing[] = {
    {"/api/v1/namespaces/default/pods", "{\"metadata\":{\"name\":\"p\",\"labels\":{\"app\":\"x\"}},"
                                        "\"spec\":{\"containers\":[{\"name\":"
                                        "\"c\",\"image\":\"i\"}]}}"},
    {"/apis/apps/v1/namespaces/default/deployments",
     "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"x\"}},"
     "\"template\":{\"metadata\":{\"labels\":{\"app\":\"x\"}},\"spec\":{\"containers\":[{\"name\":"
     "\"c\",\"image\":\"i\"}]}}}}"},
    {"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
     "{\"metadata\":{\"name\":\"h\"},\"spec\":{\"maxReplicas\":3,\"scaleTargetRef\":{"
     "\"apiVersion\":"
     "\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"d\"}}}"},
};

static char *line(struct gs_slice *rest)
{
    return gs_slice_dup(gs_slice_cut(rest, '\n'));
}

static void on_walk(uv_handle_t *h, void *arg)
{
    (void)h;
    ++*(int *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const groups[] = {"system:masters"};
    static const char table[] = "application/json;as=Table;v=v1;g=meta.k8s.io";
    struct gs_slice rest = gs_slice_make(data, size);
    GS_AUTO_FREE char *method = line(&rest);
    GS_AUTO_FREE char *path = line(&rest);
    GS_AUTO_FREE char *type = line(&rest);
    GS_AUTO_FREE char *accept = line(&rest);
    struct local_api *api = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    GS_AUTO_ERROR struct gs_error *err =
        local_api_new(&loop, &(struct local_api_config){.node_name = "n"}, &api);
    if (err)
        abort();
    struct http_client *client = http_client_new_loopback(
        &loop, local_api_handle, api, &(struct http_identity){"system:admin", groups, 1});
    for (size_t i = 0; i < GS_ARRAY_LEN(existing); i++)
        ask(&loop, client, "POST", existing[i].path, "application/json", "*/*",
            gs_slice_of(existing[i].body));
    ask(&loop, client, method, path, type, accept, rest);
    ask(&loop, client, "GET", "/api/v1/pods", NULL, table, (struct gs_slice){0});
    ask(&loop, client, "GET", "/api/v1/services", NULL, table, (struct gs_slice){0});
    ask(&loop, client, "GET", "/apis/apps/v1/deployments", NULL, table, (struct gs_slice){0});
    ask(&loop, client, "GET", "/apis/autoscaling/v2beta1/horizontalpodautoscalers", NULL, table,
        (struct gs_slice){0});
    http_client_free(client);
    local_api_free(api);
    int open = 1;
    while (open > 0) {
        uv_run(&loop, UV_RUN_NOWAIT);
        open = 0;
        uv_walk(&loop, on_walk, &open);
    }
    if (uv_loop_close(&loop) != 0)
        abort();
    return 0;
}
