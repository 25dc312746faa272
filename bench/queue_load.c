// SPDX-License-Identifier: Apache-2.0
// The requests are long enough to be in progress during a step.
#include "queue_load.h"

#include "base/mem.h"
#include "bench.h"
#include "net/http/client.h"

static const char body[] =
    "{\"prompt\": \"Hello\", \"max_tokens\": 4000, \"ignore_eos\": true, \"stream\": false}";

struct queue_load {
    struct http_client *http;
};

static void on_completion(void *arg, const struct http_response *response, struct gs_error *err)
{
    (void)arg, (void)response;
    gs_error_free(err); // the pod may end before its request
}

struct queue_load *queue_load_new(uv_loop_t *loop, const char *url, size_t n)
{
    static const struct http_callbacks callbacks = {.on_done = on_completion};
    const struct http_client_config cfg = {.base_url = url};
    const struct http_request request = {.method = "POST",
                                         .path = "/v1/completions",
                                         .content_type = "application/json",
                                         .body = gs_slice_of(body),
                                         .timeout_ms = HTTP_NO_TIMEOUT};
    struct queue_load *l = gs_alloc(sizeof(*l));
    bench_check(http_client_new_curl(loop, &cfg, &l->http));
    for (size_t i = 0; i < n; i++)
        http_send(l->http, &request, &callbacks, l);
    return l;
}

void queue_load_free(struct queue_load *l)
{
    if (!l)
        return;
    http_client_free(l->http);
    free(l);
}
