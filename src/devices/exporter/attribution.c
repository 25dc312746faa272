// SPDX-License-Identifier: Apache-2.0
// Fetches the devices of pods from the kubelet (PodResources API), at an interval and soon after a
// new process was seen. Failures back off exponentially, and the last map stays in use. Replies
// are compared by a hash, since most are equal.
#include "exporter/attribution.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/timer.h"
#include "net/grpc/grpc.h"

#include <stdio.h>

#define LIST_PATH        "/v1.PodResourcesLister/List"
#define OLD_LIST_PATH    "/v1alpha1.PodResourcesLister/List" // its messages are a part of v1's
#define ALLOCATABLE_PATH "/v1.PodResourcesLister/GetAllocatableResources"

enum {
    CALL_TIMEOUT_MS = 10000,
    POKE_MIN_MS = 1000,
    BACKOFF_FIRST_MS = 500,
    BACKOFF_MAX_MS = 30000,
};
#define ALLOCATABLE_EVERY_NS (60 * GS_NS_PER_SEC)

struct exporter_attribution {
    struct exporter_attribution_config cfg;
    struct grpc_client *client;
    struct grpc_pending *list, *allocatable;
    struct gs_timer *timer;
    struct exporter_device_map *map;
    struct exporter_device_replicas *replicas;
    uint64_t list_hash, allocatable_hash; // of the last replies: equal replies change nothing
    int64_t called_ns;                    // when the last successful call was made
    int64_t last_list_ns, last_allocatable_ns;
    bool old;           // the kubelet only provides v1alpha1
    bool stale;         // a source has changed since the map was created
    int64_t backoff_ms; // 0: the last call succeeded
    struct exporter_attribution_status status;
    char *problem;
};

static void on_list_timer(void *arg);

static void schedule(struct exporter_attribution *a, int64_t delay_ms)
{
    gs_timer_start(a->timer, on_list_timer, (uint64_t)(delay_ms > 0 ? delay_ms : 0));
}

static void set_problem(struct exporter_attribution *a, char *text)
{
    free(a->problem);
    a->problem = text;
    a->status.up = text == NULL;
}

static void failed(struct exporter_attribution *a, char *text)
{
    a->status.failed++;
    set_problem(a, text);
    a->backoff_ms = gs_backoff_next(a->backoff_ms, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    schedule(a, a->backoff_ms);
}

static void take_map(struct exporter_attribution *a, struct gs_slice body)
{
    uint64_t hash = gs_hash(body.data, body.len);
    if (a->map && hash == a->list_hash && !a->stale)
        return;
    struct exporter_device_map *map = NULL;
    GS_AUTO_ERROR struct gs_error *err = exporter_device_map_parse(
        body, a->cfg.extra_resources, a->cfg.n_extra_resources, &a->cfg.sources, &map);
    if (err) {
        failed(a, gs_strdup(gs_error_message(err)));
        return;
    }
    exporter_device_map_free(a->map);
    a->map = map;
    a->list_hash = hash;
    a->stale = false;
    a->cfg.on_change(a->cfg.arg);
}

static void on_pod_list(void *arg, const struct grpc_reply *reply);

static void call_list(struct exporter_attribution *a)
{
    a->last_list_ns = gs_mono_ns();
    a->list = grpc_client_call(a->client, a->old ? OLD_LIST_PATH : LIST_PATH, GS_SLICE(""),
                               a->cfg.call_timeout_ms, on_pod_list, a);
}

static void on_pod_list(void *arg, const struct grpc_reply *reply)
{
    struct exporter_attribution *a = arg;
    a->list = NULL;
    if (reply->status == GRPC_UNIMPLEMENTED) {
        a->old = !a->old; // try the other version at once, then with backoff
        if (a->old && !a->backoff_ms) {
            call_list(a);
            return;
        }
    }
    if (reply->status != GRPC_OK) {
        failed(a, gs_format("%s (gRPC status %d)", reply->message, reply->status));
        return;
    }
    uint64_t failed_before = a->status.failed;
    take_map(a, reply->body);
    if (a->status.failed != failed_before)
        return;
    set_problem(a, NULL);
    a->backoff_ms = 0;
    a->status.ok++;
    a->called_ns = a->last_list_ns;
    a->status.last_ok_ns = gs_mono_ns();
    schedule(a, a->cfg.interval_ns / GS_NS_PER_MS);
}

// Optional. Without it, only the share that a replica represents is unknown.
static void on_allocatable(void *arg, const struct grpc_reply *reply)
{
    struct exporter_attribution *a = arg;
    a->allocatable = NULL;
    if (reply->status != GRPC_OK)
        return;
    uint64_t hash = gs_hash(reply->body.data, reply->body.len);
    if (a->replicas && hash == a->allocatable_hash)
        return;
    struct exporter_device_replicas *replicas = NULL;
    GS_AUTO_ERROR struct gs_error *err = exporter_device_replicas_parse(
        reply->body, a->cfg.extra_resources, a->cfg.n_extra_resources, &replicas);
    if (err)
        return;
    exporter_device_replicas_free(a->replicas);
    a->replicas = replicas;
    a->allocatable_hash = hash;
    a->cfg.on_change(a->cfg.arg);
}

static void on_list_timer(void *arg)
{
    struct exporter_attribution *a = arg;
    int64_t now = gs_mono_ns();
    struct gs_slice empty = GS_SLICE("");
    if (!a->list)
        call_list(a);
    if (a->status.up && !a->allocatable &&
        (!a->last_allocatable_ns || now - a->last_allocatable_ns > ALLOCATABLE_EVERY_NS)) {
        a->last_allocatable_ns = now;
        a->allocatable = grpc_client_call(a->client, ALLOCATABLE_PATH, empty,
                                          a->cfg.call_timeout_ms, on_allocatable, a);
    }
}

struct gs_error *exporter_attribution_new(uv_loop_t *loop,
                                          const struct exporter_attribution_config *cfg,
                                          struct exporter_attribution **ret)
{
    struct exporter_attribution *a = gs_alloc(sizeof(*a));
    a->cfg = *cfg;
    if (!a->cfg.call_timeout_ms)
        a->cfg.call_timeout_ms = CALL_TIMEOUT_MS;
    GS_AUTO_FREE char *target = gs_format("unix:%s", cfg->socket);
    struct gs_error *err = grpc_client_new(loop, target, &a->client);
    if (err) {
        exporter_attribution_free(a);
        return gs_error_wrap(err, "PodResources");
    }
    a->timer = gs_timer_new(loop, a);
    schedule(a, 0);
    *ret = a;
    return NULL;
}

void exporter_attribution_free(struct exporter_attribution *a)
{
    if (!a)
        return;
    gs_timer_free(a->timer);
    grpc_client_free(a->client);
    exporter_device_map_free(a->map);
    exporter_device_replicas_free(a->replicas);
    free(a->problem);
    free(a);
}

const struct exporter_device_map *exporter_attribution_map(const struct exporter_attribution *a)
{
    return a ? a->map : NULL;
}

const struct exporter_device_replicas *
exporter_attribution_replicas(const struct exporter_attribution *a)
{
    return a ? a->replicas : NULL;
}

int64_t exporter_attribution_requested_ns(const struct exporter_attribution *a)
{
    return a ? a->called_ns : 0;
}

struct exporter_attribution_status exporter_attribution_status(const struct exporter_attribution *a)
{
    struct exporter_attribution_status s = a->status;
    s.problem = a->problem ? a->problem : "";
    return s;
}

void exporter_attribution_request_soon(struct exporter_attribution *a)
{
    // While the kubelet is unavailable, the backoff timer runs.
    if (a->list || a->backoff_ms)
        return;
    int64_t since_ms = (gs_mono_ns() - a->last_list_ns) / GS_NS_PER_MS;
    int64_t delay = since_ms < POKE_MIN_MS ? POKE_MIN_MS - since_ms : 0;
    if ((int64_t)gs_timer_due_in(a->timer) > delay)
        schedule(a, delay);
}

void exporter_attribution_refresh(struct exporter_attribution *a)
{
    a->stale = true;
    exporter_attribution_request_soon(a);
}
