// SPDX-License-Identifier: Apache-2.0
// Responses of a faulty cluster to a TokenReview and a SubjectAccessReview. The first byte selects
// the statuses. A NUL separates the two responses.
#include "adapter/api/auth.h"
#include "base/mem.h"
#include "kube/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TURNS = 200 };

struct fuzz {
    struct adapter_api_auth *auth;
    int token_status, access_status;
    struct gs_slice token, access;
    struct adapter_api_path path;
    bool done;
};

static void cluster(void *arg, struct http_exchange *x)
{
    const struct fuzz *f = arg;
    bool token = strstr(http_path(x), "tokenreviews") != NULL;
    http_reply(x, token ? f->token_status : f->access_status, "application/json",
               token ? f->token : f->access);
}

struct request {
    struct http_exchange *x;
    struct fuzz *f;
};

static void on_decision(void *arg, const struct adapter_api_auth_decision *d)
{
    struct request *r = arg;
    // Authenticated users have a name. Reads all results, for the sanitizers.
    if (d->allowed && (!d->user->name || !json_is_array(d->user->groups)))
        abort();
    if (d->allowed)
        http_reply_text(r->x, 200, "%s", d->reason ? d->reason : "");
    free(r);
}

static void serve(void *arg, struct http_exchange *x)
{
    struct request *r = gs_alloc(sizeof(*r));
    *r = (struct request){x, arg};
    adapter_api_auth_check(r->f->auth, x, &r->f->path, on_decision, r);
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct fuzz *f = arg;
    (void)a;
    f->done = true;
    gs_error_free(err);
}

static void on_ready(void *arg, struct gs_error *err)
{
    (void)arg;
    gs_error_free(err);
}

static void ask(uv_loop_t *loop, struct fuzz *f)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    static const struct http_header headers[] = {{"Authorization", "Bearer t"}, {NULL, NULL}};
    const struct http_request get = {.path = "/apis/custom.metrics.k8s.io/v1beta1/nodes/n/m",
                                     .headers = headers};
    struct http_client *client = http_client_new_loopback(loop, serve, f, NULL);
    http_send(client, &get, &callbacks, f);
    for (int i = 0; i < MAX_TURNS && !f->done; i++)
        uv_run(loop, UV_RUN_NOWAIT);
    http_client_free(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {201, 200, 500, 403};
    if (size < 1)
        return 0;
    struct gs_slice rest = gs_slice_make((const char *)data + 1, size - 1);
    struct fuzz f = {.token_status = statuses[data[0] & 3],
                     .access_status = statuses[data[0] >> 2 & 3],
                     .token = gs_slice_cut(&rest, '\0')};
    f.access = rest.data ? rest : GS_SLICE("{\"status\":{\"allowed\":true}}");
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct http_client *http = http_client_new_loopback(&loop, cluster, &f, NULL);
    struct kube_client *kube = kube_client_new(http);
    const struct adapter_api_auth_options o = {.authn = kube,
                                               .authz = kube,
                                               .skip_lookup = true,
                                               .token_ttl_ms = 10000,
                                               .allowed_ttl_ms = 10000,
                                               .denied_ttl_ms = 10000};
    gs_error_free(adapter_api_auth_new(&loop, &o, on_ready, NULL, &f.auth));
    gs_error_free(adapter_api_path_read("/apis/custom.metrics.k8s.io/v1beta1/nodes/n/m", &f.path));
    ask(&loop, &f);
    f.done = false;
    ask(&loop, &f); // from the cache
    adapter_api_path_finish(&f.path);
    adapter_api_auth_free(f.auth);
    kube_client_free(kube);
    http_client_free(http);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0)
        abort();
    return 0;
}
