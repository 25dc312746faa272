// SPDX-License-Identifier: Apache-2.0
// One probe of a container: its schedule, and when a result counts (thresholds). Startup probes
// run until they succeed; the others only after that.
#include "local/kubelet/probe.h"

#include "base/mem.h"
#include "kube/event.h"
#include "local/kubelet/pod_worker.h"

#include <limits.h>

enum {
    STANDIN_START_MS = 500, // until the process of a stand-in is connected and its ports open
    STANDIN_RETRY_MS = 1000,
};

const char *const kubelet_probe_members[KUBELET_N_PROBES] = {"startupProbe", "livenessProbe",
                                                             "readinessProbe"};
static const char *const titles[KUBELET_N_PROBES] = {"Startup", "Liveness", "Readiness"};

struct kubelet_probe {
    struct kubelet_container *c;
    enum kubelet_probe_kind kind;
    json_t *spec;
    struct gs_timer *timer;
    struct kubelet_handler *handler; // a run under way
    int64_t successes, failures;     // in a row
    bool passing;                    // the last reported result
};

static int64_t setting(const struct kubelet_probe *p, const char *name, int64_t fallback)
{
    int64_t v = codec_json_int(p->spec, fallback, name, NULL);
    return v > 0 ? v : fallback;
}

static void succeeded(struct kubelet_probe *p)
{
    p->failures = 0;
    p->successes++;
    if (p->successes < setting(p, "successThreshold", 1) || p->passing)
        return;
    p->passing = true;
    kubelet_container_probed(p->c, p->kind, true);
}

static void on_probe_timer(void *arg);

static void schedule(struct kubelet_probe *p, uint64_t first_ms)
{
    gs_timer_repeat(p->timer, on_probe_timer, first_ms,
                    (uint64_t)setting(p, "periodSeconds", 10) * 1000);
}

static void failed(struct kubelet_probe *p, const char *message)
{
    const struct kubelet_worker *w = p->c->worker;
    // As Kubernetes: the period is not that of a container that has yet to become ready.
    if (p->kind == KUBELET_PROBE_READINESS && !p->passing && kubelet_container_is_standin(p->c))
        schedule(p, STANDIN_RETRY_MS);
    kube_event(w->k->recorder, w->pod, "Warning", "Unhealthy", "%s probe failed: %s",
               titles[p->kind], message);
    p->successes = 0;
    p->failures++;
    if (p->failures < setting(p, "failureThreshold", 3))
        return;
    bool told = p->kind == KUBELET_PROBE_READINESS && !p->passing;
    p->passing = false;
    p->failures = 0;
    if (!told)
        kubelet_container_probed(p->c, p->kind, false);
}

static void on_result(void *arg, bool ok, const char *message)
{
    struct kubelet_probe *p = arg;
    p->handler = NULL;
    if (p->c->stopping)
        return;
    if (ok)
        succeeded(p);
    else
        failed(p, message);
}

static bool rests(const struct kubelet_probe *p)
{
    return p->handler || p->c->stopping || (p->kind == KUBELET_PROBE_STARTUP) == p->c->started;
}

static void on_probe_timer(void *arg)
{
    struct kubelet_probe *p = arg;
    int64_t ms = (int64_t)setting(p, "timeoutSeconds", 1) * 1000;
    if (!rests(p))
        p->handler = kubelet_handler_start(p->c, p->spec, ms < INT_MAX ? (unsigned)ms : INT_MAX,
                                           on_result, p);
}

struct kubelet_probe *kubelet_probe_new(struct kubelet_container *c, enum kubelet_probe_kind kind,
                                        const json_t *spec)
{
    struct kubelet_probe *p = gs_alloc(sizeof(*p));
    *p = (struct kubelet_probe){.c = c, .kind = kind, .spec = json_incref((json_t *)spec)};
    p->timer = gs_timer_new(c->worker->k->cluster->loop, p);
    uint64_t first_ms = (uint64_t)setting(p, "initialDelaySeconds", 0) * 1000;
    // Its first probe would come too early, and the next one only after a period.
    if (first_ms < STANDIN_START_MS && kubelet_container_is_standin(c))
        first_ms = STANDIN_START_MS;
    schedule(p, first_ms);
    return p;
}

void kubelet_probe_free(struct kubelet_probe *p)
{
    if (!p)
        return;
    kubelet_handler_cancel(p->handler);
    gs_timer_free(p->timer);
    json_decref(p->spec);
    free(p);
}
