// SPDX-License-Identifier: Apache-2.0
// The texts of a decision.
#include "base/mem.h"
#include "base/num.h"
#include "nodes/nodes_private.h"

#include <math.h>

static void add_duration(struct gs_buf *b, int64_t ms)
{
    int64_t s = (ms + 500) / 1000;
    if (s >= 3600)
        gs_buf_addf(b, "%lldh%lldm", (long long)(s / 3600), (long long)(s % 3600 / 60));
    else if (s >= 120)
        gs_buf_addf(b, "%lldm%llds", (long long)(s / 60), (long long)(s % 60));
    else
        gs_buf_addf(b, "%llds", (long long)s);
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

// "2 nodes for 7 pods, 1 of 8 GPUs unused, 2.80 USD an hour, usable in about 40s"
static void add_offer(struct gs_buf *b, const struct nodes_option *o)
{
    gs_buf_addf(b, "%zu node%s for %zu pod%s", o->count, plural(o->count), o->n_pods,
                plural(o->n_pods));
    if (o->gpus)
        gs_buf_addf(b, ", %zu of %zu GPU%s unused", o->unused_gpus, o->gpus, plural(o->gpus));
    if (o->has_price)
        gs_buf_addf(b, ", %.2f %s an hour", o->price, o->group->pool->currency);
    else
        gs_buf_add_str(b, ", no price");
    if (o->ready_ms) {
        gs_buf_add_str(b, ", usable in about ");
        add_duration(b, o->ready_ms);
    }
    size_t failures = o->group->backoff.failures;
    if (failures)
        gs_buf_addf(b, ", %zu recent failure%s", failures, plural(failures));
}

static void add_score(struct gs_buf *b, const struct nodes_contest *c, const struct nodes_option *o)
{
    switch (c->settings->policy) {
    case NODES_POLICY_COST:
    case NODES_POLICY_PRICE:
        if (c->any_price && !o->has_price)
            gs_buf_add_str(b, "its price is not known");
        else if (c->any_price)
            gs_buf_addf(b, "%.2f times the average price of these requests", o->score);
        else
            gs_buf_addf(b,
                        "%.2f times the nodes that these pods need at least (no group has a "
                        "price)",
                        o->score);
        break;
    case NODES_POLICY_PACKING:
        gs_buf_addf(b, "%.2f times the nodes that pods like these fill", o->score);
        break;
    case NODES_POLICY_SPEED:
        gs_buf_add_str(b, "mean wait of all pods ");
        add_duration(b, (int64_t)(o->score * 1000));
        break;
    case NODES_POLICY_LEAST_WASTE:
        gs_buf_addf(b, "wastes %.0f%% of CPU and memory", o->score * 50);
        break;
    case NODES_POLICY_LEAST_NODES:
        gs_buf_addf(b, "adds %zu node%s", o->count, plural(o->count));
        break;
    case NODES_POLICY_MOST_PODS:
        gs_buf_addf(b, "places %zu pod%s", o->n_pods, plural(o->n_pods));
        break;
    case NODES_POLICY_PRIORITY:
        gs_buf_addf(b, "has priority %.0f", o->score == 0 ? 0 : -o->score);
        break;
    case NODES_POLICY_RANDOM:
        gs_buf_add_str(b, "drawn at random");
        break;
    }
}

// Why nodes of the group fit no pod: the reasons of the first few forms.
static void add_misfit(struct gs_buf *b, const struct nodes_contest *c, const struct nodes_bid *bid)
{
    struct nodes_reasons r = {0};
    size_t shown = 0;
    for (size_t i = 0; i < c->s->n_pods && shown < 20; i++) {
        if (c->s->pods[i].node != UINT32_MAX || bid->node == NODES_NONE)
            continue;
        nodes_fits_empty(c->s, i, bid->node, &r);
        shown++;
    }
    for (size_t i = 0; i < r.len; i++)
        gs_buf_addf(b, "%s%s", i ? ", " : ": ", r.items[i].text);
    nodes_reasons_finish(&r);
}

static void add_unusable(struct gs_buf *b, const struct nodes_contest *c,
                         const struct nodes_bid *bid)
{
    const struct nodes_group *g = bid->option->group;
    switch (bid->option->state) {
    case NODES_OPTION_FULL:
        if (g->size >= g->max)
            gs_buf_addf(b, "has its maximum of %zu node%s", g->max, plural(g->max));
        else
            gs_buf_addf(b, "the cluster has its maximum of %zu nodes",
                        c->settings->max_nodes_total);
        break;
    case NODES_OPTION_BACKOFF:
        gs_buf_addf(b, "in back-off for ");
        add_duration(b, g->backoff.until_ms - c->settings->now_ms);
        gs_buf_addf(b, " after %zu failure%s", g->backoff.failures, plural(g->backoff.failures));
        break;
    case NODES_OPTION_BLOCKED:
        gs_buf_add_str(b, g->blocked);
        break;
    default:
        gs_buf_add_str(b, "fits none of the pods");
        add_misfit(b, c, bid);
        break;
    }
}

static char *option_text(const struct nodes_contest *c, size_t i)
{
    struct gs_buf b = {0};
    const struct nodes_option *o = &c->d->options[i];
    if (o->state != NODES_OPTION_USABLE) {
        add_unusable(&b, c, &c->bids[i]);
        return gs_buf_take(&b);
    }
    add_offer(&b, o);
    gs_buf_add_str(&b, ": ");
    add_score(&b, c, o);
    if (i != c->d->chosen && o->score == c->d->options[c->d->chosen].score)
        gs_buf_add_str(&b, " (a tie)");
    return gs_buf_take(&b);
}

static void add_counts(struct gs_buf *b, const struct nodes_decision *d)
{
    gs_buf_addf(b, "%zu pod%s without a node", d->n_pending, plural(d->n_pending));
    if (d->n_waiting)
        gs_buf_addf(b, ", %zu fit%s on existing or upcoming nodes", d->n_waiting,
                    d->n_waiting == 1 ? "s" : "");
    if (d->n_helpless)
        gs_buf_addf(b, ", %zu fit%s on no group that can grow", d->n_helpless,
                    d->n_helpless == 1 ? "s" : "");
    gs_buf_add_str(b, ". ");
}

void nodes_contest_explain(struct nodes_contest *c)
{
    struct nodes_decision *d = c->d;
    struct gs_buf b = {0};
    for (size_t i = 0; i < d->n_options; i++)
        d->options[i].text = option_text(c, i);
    add_counts(&b, d);
    if (d->chosen != NODES_NONE)
        gs_buf_addf(&b, "Policy %s chose %s: %s.", nodes_policy_name(d->policy),
                    d->options[d->chosen].group->name, d->options[d->chosen].text);
    else if (d->n_pending == d->n_waiting)
        gs_buf_add_str(&b, "No group has to grow.");
    else
        gs_buf_add_str(&b, "No group can grow for them.");
    for (size_t i = 0; i < d->n_options && d->n_pending > d->n_waiting; i++)
        if (i != d->chosen)
            gs_buf_addf(&b, " Not %s: %s.", d->options[i].group->name, d->options[i].text);
    d->text = gs_buf_take(&b);
}

// --- JSON ---

static const char *const states[] = {"usable", "fits no pod", "full", "back-off", "blocked"};

static json_t *option_json(const struct nodes_option *o, bool chosen)
{
    json_t *j = json_object();
    codec_json_set_str(j, "group", o->group->name);
    codec_json_set_str(j, "state", states[o->state]);
    codec_json_set_bool(j, "chosen", chosen);
    if (o->state == NODES_OPTION_USABLE) {
        codec_json_set_int(j, "nodes", (int64_t)o->count);
        codec_json_set_int(j, "pods", (int64_t)o->n_pods);
        codec_json_set_int(j, "gpus", (int64_t)o->gpus);
        codec_json_set_int(j, "unusedGpus", (int64_t)o->unused_gpus);
        if (o->has_price) {
            json_object_set_new(j, "pricePerHour", json_real(o->price));
            codec_json_set_str(j, "currency", o->group->pool->currency);
        }
        if (o->ready_ms)
            codec_json_set_int(j, "usableInSeconds", o->ready_ms / 1000);
        if (isfinite(o->score))
            json_object_set_new(j, "score", json_real(o->score));
    }
    if (o->group->backoff.failures)
        codec_json_set_int(j, "recentFailures", (int64_t)o->group->backoff.failures);
    codec_json_set_str(j, "text", o->text);
    return j;
}

json_t *nodes_decision_json(const struct nodes_decision *d)
{
    json_t *j = json_object(), *options = json_array();
    codec_json_set_str(j, "policy", nodes_policy_name(d->policy));
    if (d->chosen != NODES_NONE)
        codec_json_set_str(j, "chosen", d->options[d->chosen].group->name);
    codec_json_set_int(j, "pendingPods", (int64_t)d->n_pending);
    codec_json_set_int(j, "waitingPods", (int64_t)d->n_waiting);
    codec_json_set_int(j, "podsThatFitNoGroup", (int64_t)d->n_helpless);
    codec_json_set_str(j, "text", d->text);
    for (size_t i = 0; i < d->n_options; i++)
        json_array_append_new(options, option_json(&d->options[i], i == d->chosen));
    json_object_set_new(j, "options", options);
    return j;
}

void nodes_decision_finish(struct nodes_decision *d)
{
    for (size_t i = 0; i < d->n_options; i++) {
        free(d->options[i].pods);
        free(d->options[i].text);
    }
    free(d->options);
    free(d->text);
    *d = (struct nodes_decision){.chosen = NODES_NONE};
}
