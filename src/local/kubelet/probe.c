// SPDX-License-Identifier: Apache-2.0
#include "local/kubelet/probe.h"

#include "base/mem.h"
#include "kube/event.h"
#include "local/kubelet/handler.h"
#include "local/kubelet/pod_worker.h"

#include <limits.h>

const char *const local_probe_members[LOCAL_N_PROBES] = {"startupProbe", "livenessProbe",
                                                         "readinessProbe"};
static const char *const titles[LOCAL_N_PROBES] = {"Startup", "Liveness", "Readiness"};

struct local_probe {
    struct local_container *c;
    enum local_probe_kind kind;
    json_t *spec;
    struct local_timer *timer;
    struct local_handler *handler; // a run under way
    int64_t successes, failures;   // in a row
    bool passing;                  // what the container was told last
};

static int64_t setting(const struct local_probe *p, const char *name, int64_t fallback)
{
    int64_t v = gs_json_int(p->spec, fallback, name, NULL);
    return v > 0 ? v : fallback;
}

static void succeeded(struct local_probe *p)
{
    p->failures = 0;
    p->successes++;
    if (p->successes < setting(p, "successThreshold", 1) || p->passing)
        return;
    p->passing = true;
    local_container_probed(p->c, p->kind, true);
}

static void failed(struct local_probe *p, const char *message)
{
    const struct local_worker *w = p->c->worker;
    kube_event(w->k->recorder, w->pod, "Warning", "Unhealthy", "%s probe failed: %s",
               titles[p->kind], message);
    p->successes = 0;
    p->failures++;
    if (p->failures < setting(p, "failureThreshold", 3))
        return;
    bool told = p->kind == LOCAL_PROBE_READINESS && !p->passing;
    p->passing = false;
    p->failures = 0;
    if (!told)
        local_container_probed(p->c, p->kind, false);
}

static void on_result(void *arg, bool ok, const char *message)
{
    struct local_probe *p = arg;
    p->handler = NULL;
    if (p->c->stopping)
        return;
    if (ok)
        succeeded(p);
    else
        failed(p, message);
}

static bool rests(const struct local_probe *p)
{
    return p->handler || p->c->stopping || (p->kind == LOCAL_PROBE_STARTUP) == p->c->started;
}

static void on_timer(void *arg)
{
    struct local_probe *p = arg;
    int64_t ms = (int64_t)setting(p, "timeoutSeconds", 1) * 1000;
    if (!rests(p))
        p->handler =
            local_handler_start(p->c, p->spec, ms < INT_MAX ? (unsigned)ms : INT_MAX, on_result, p);
}

struct local_probe *local_probe_new(struct local_container *c, enum local_probe_kind kind,
                                    const json_t *spec)
{
    struct local_probe *p = gs_alloc(sizeof(*p));
    *p = (struct local_probe){.c = c, .kind = kind, .spec = json_incref((json_t *)spec)};
    p->timer = local_timer_new(c->worker->k->cluster->loop, on_timer, p);
    local_timer_repeat(p->timer, (uint64_t)setting(p, "initialDelaySeconds", 0) * 1000,
                       (uint64_t)setting(p, "periodSeconds", 10) * 1000);
    return p;
}

void local_probe_free(struct local_probe *p)
{
    if (!p)
        return;
    local_handler_cancel(p->handler);
    local_timer_free(p->timer);
    json_decref(p->spec);
    free(p);
}
