// SPDX-License-Identifier: Apache-2.0
// Which process applies the budgets. Two with the same ConfigMap would limit each other's
// autoscalers, and count all GPUs twice, so a Lease beside the ConfigMap names one.
#include "hpa_controller/budgets_private.h"

#include "base/log.h"
#include "base/slice.h"
#include "base/timer.h"
#include "kube/election.h"

#define PATIENCE_MS 500 // until the next look at the Lease

struct hpa_budget_holder {
    struct hpa_budgets *budgets;
    struct kube_election *election;
    struct gs_timer *timer;
    char *rival; // that was logged
};

static void look_at_rival(void *arg)
{
    struct hpa_budget_holder *h = arg;
    const char *rival = kube_election_rival(h->election);
    if (gs_streq(rival, h->rival))
        return;
    if (rival)
        gs_warn("hpa",
                "GPU budgets: %s holds the Lease %s/" BUDGET_LEASE
                " and applies them. This process limits and counts nothing. Give two deployments "
                "budgets of their own namespaces (--leader-elect-resource-namespace), or stop one",
                rival, h->budgets->cfg.ns);
    free(h->rival);
    h->rival = gs_strdup(rival);
}

static void on_leading(void *arg)
{
    (void)arg; // the next visits and decisions see it
}

void hpa_budget_holder_update(struct hpa_budgets *b)
{
    bool wanted = b->has_policy && !b->cfg.shadow;
    const struct kube_election_config cfg = {
        .ns = b->cfg.ns, .name = BUDGET_LEASE, .on_leading = on_leading, .on_lost = on_leading};
    if (wanted == (b->holder != NULL))
        return;
    if (!wanted) {
        hpa_budget_holder_free(GS_TAKE(b->holder));
        return;
    }
    b->holder = gs_alloc(sizeof(*b->holder));
    b->holder->budgets = b;
    b->holder->election = kube_election_new(b->cfg.loop, b->cfg.client, &cfg);
    b->holder->timer = gs_timer_new(b->cfg.loop, b->holder);
    gs_timer_repeat(b->holder->timer, look_at_rival, PATIENCE_MS, PATIENCE_MS);
}

const char *hpa_budget_rival(const struct hpa_budgets *b)
{
    return b->holder ? kube_election_rival(b->holder->election) : NULL;
}

bool hpa_budget_holds(const struct hpa_budgets *b)
{
    return b->holder && (kube_election_leading(b->holder->election) ||
                         kube_election_denied(b->holder->election));
}

void hpa_budget_holder_free(struct hpa_budget_holder *h)
{
    if (!h)
        return;
    kube_election_free(h->election);
    gs_timer_free(h->timer);
    free(h->rival);
    free(h);
}
