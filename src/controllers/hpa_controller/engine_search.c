// SPDX-License-Identifier: Apache-2.0
// The thread fills a request of its own, which it shares with nobody until it has ended.
#include "hpa_controller/engine_search.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/engine_url.h"
#include "net/endpoint/endpoint.h"

#define AGAIN_MS   60000 // pause between two searches
#define SECRETS_MS 10000 // after which secrets of the connection are read again

struct request {
    uv_work_t work;
    struct hpa_engine_search *search; // NULL: it was freed
    char *url, *kubeconfig;
    struct kube_engine_url found;
    struct gs_error *err;
};

struct hpa_engine_search {
    uv_loop_t *loop;
    const char *url, *kubeconfig, *user_agent;
    struct request *request;      // NULL: none is under way
    struct kube_engine_url found; // of the client
    struct http_client *client;   // NULL: not found, or not needed yet
    char *why;                    // there is no client
    int64_t searched_ns;          // the last search; 0: none
};

struct hpa_engine_search *hpa_engine_search_new(uv_loop_t *loop, const char *url,
                                                const char *kubeconfig, const char *user_agent)
{
    struct hpa_engine_search *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->url = url;
    s->kubeconfig = kubeconfig;
    s->user_agent = user_agent;
    return s;
}

void hpa_engine_search_free(struct hpa_engine_search *s)
{
    if (!s)
        return;
    if (s->request)
        s->request->search = NULL;
    http_client_free(s->client);
    kube_engine_url_finish(&s->found);
    free(s->why);
    free(s);
}

static void set_reason(struct hpa_engine_search *s, const char *why)
{
    free(s->why);
    s->why = gs_format("no engine and no Prometheus (--url): %s", why);
}

static struct gs_error *open_client(struct hpa_engine_search *s)
{
    const struct endpoint_options options = {.user_agent = s->user_agent,
                                             .refresh_ms = SECRETS_MS,
                                             .component = "hpa",
                                             .name = "engine"};
    const struct endpoint_settings none = {0}, *settings;
    GS_AUTO_FREE char *name = NULL;
    if (s->found.searched)
        return gs_error_new(GS_ENOTFOUND, "%s", s->found.searched);
    settings = kube_engine_url_settings(&s->found);
    struct gs_error *err = endpoint_client_open(s->loop, s->found.url, settings ? settings : &none,
                                                &options, &s->client, &name);
    if (!err)
        gs_info("hpa", "samples are read from %s", name);
    return err;
}

// Takes err. Settings point into s->found, which therefore stays where it is.
static void end_search(struct hpa_engine_search *s, struct gs_error *error)
{
    GS_AUTO_ERROR struct gs_error *err = error ? error : open_client(s);
    if (err)
        set_reason(s, gs_error_message(err));
    else
        free(GS_TAKE(s->why));
}

// --- a Service ---

static void locate(uv_work_t *work) // on a thread of the pool
{
    struct request *r = work->data;
    r->err = kube_engine_url_locate(r->url, r->kubeconfig, NULL, &r->found);
}

static void after_locate(uv_work_t *work, int status)
{
    struct request *r = work->data;
    struct hpa_engine_search *s = r->search;
    (void)status;
    if (s) {
        s->request = NULL;
        kube_engine_url_finish(&s->found);
        kube_engine_url_move(&r->found, &s->found);
        end_search(s, GS_TAKE(r->err));
    }
    kube_engine_url_finish(&r->found);
    gs_error_free(r->err);
    free(r->url);
    free(r->kubeconfig);
    free(r);
}

static void search_service(struct hpa_engine_search *s)
{
    struct request *r = gs_alloc(sizeof(*r));
    r->work.data = r;
    r->search = s;
    r->url = gs_strdup(s->url);
    r->kubeconfig = gs_strdup(s->kubeconfig);
    s->request = r;
    set_reason(s, "a Service in the cluster is being searched");
    (void)uv_queue_work(s->loop, &r->work, locate, after_locate);
}

// --- the search ---

static void begin_search(struct hpa_engine_search *s)
{
    kube_engine_url_finish(&s->found);
    kube_engine_url_find(s->url, s->kubeconfig, NULL, &s->found);
    if (s->found.origin == KUBE_ENGINE_OF_DEFAULT)
        search_service(s);
    else
        end_search(s, NULL);
}

struct http_client *hpa_engine_search_client(void *search, const char **ret_why)
{
    struct hpa_engine_search *s = search;
    int64_t now_ns = gs_mono_ns();
    bool waits = s->searched_ns && now_ns - s->searched_ns < AGAIN_MS * GS_NS_PER_MS;
    if (!s->client && !s->request && !waits) {
        s->searched_ns = now_ns;
        begin_search(s);
    }
    *ret_why = s->why;
    return s->client;
}
