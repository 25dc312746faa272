// SPDX-License-Identifier: Apache-2.0
// Replica counts of single metrics. The order of operations is that of Kubernetes: integer
// divisions truncate, ratios are doubles, and the multiplier depends on the kind of the metric.
#include "hpa/hpa_private.h"

#include "base/num.h"
#include "base/slice.h"

static struct gs_error *no_pods(void)
{
    return gs_error_new(GS_ENOTFOUND,
                        "no pods returned by selector while calculating replica count");
}

static struct gs_error *no_samples(const struct hpa_evaluation *p)
{
    bool newer = hpa_since(p->cfg->release, HPA_SINCE_TARGETED_PODS);
    return gs_error_new(GS_ENOTFOUND, "did not receive metrics for %s",
                        newer ? "targeted pods (pods might be unready)" : "any ready pods");
}

static int64_t average(const struct hpa_groups *g)
{
    int64_t sum = 0, n = 0;
    for (size_t i = 0; i < g->n_entries; i++) {
        if (g->entries[i].dropped)
            continue;
        sum = gs_add_clamped(sum, g->entries[i].value);
        n++;
    }
    return n ? sum / n : 0;
}

static void note_groups(const struct hpa_groups *g, struct hpa_metric_result *res)
{
    res->n_ready = g->n_ready;
    res->n_unready = g->n_unready;
    res->n_missing = g->n_missing;
    res->n_ignored = g->n_ignored;
}

// The ratio without assumed values. True if no pod needs an assumed value.
static bool settle_plainly(const struct hpa_evaluation *p, const struct hpa_groups *g,
                           struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    bool up_with_unready = g->n_unready && res->ratio > 1.0;
    if (up_with_unready || g->n_missing)
        return false;
    if (hpa_within(p->tolerance, res->ratio)) {
        calc->step = HPA_STEP_WITHIN;
        res->proposal = p->obs->spec_replicas;
        return true;
    }
    calc->step = HPA_STEP_RATIO;
    calc->multiplier = g->n_ready;
    res->proposal = hpa_ceil32(res->ratio * (double)g->n_ready);
    return true;
}

// Assumed values must neither reverse the direction of the change nor bring it within the
// tolerance.
static void settle_filled(const struct hpa_evaluation *p, const struct hpa_groups *g, double filled,
                          struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    int32_t current = p->obs->spec_replicas;
    res->proposal = current;
    calc->filled_ratio = filled;
    if (hpa_within(p->tolerance, filled)) {
        calc->step = HPA_STEP_FILLED_WITHIN;
        return;
    }
    calc->step = HPA_STEP_TURNED;
    if ((res->ratio < 1.0 && filled > 1.0) || (res->ratio > 1.0 && filled < 1.0))
        return;
    calc->multiplier = hpa_groups_live(g);
    int32_t n = hpa_ceil32(filled * (double)calc->multiplier);
    bool turned = (filled < 1.0 && n > current) || (filled > 1.0 && n < current);
    if (turned && (res->has_utilization || hpa_since(p->cfg->release, HPA_SINCE_NO_TURN)))
        return;
    calc->step = HPA_STEP_FILLED;
    res->proposal = n;
}

static void add_unready(struct hpa_groups *g, size_t metric)
{
    for (size_t i = 0; i < g->n_unready; i++) {
        const struct hpa_pod *pod = g->unready[i];
        hpa_groups_add(g, pod->name, 0, pod->requests_milli ? pod->requests_milli[metric] : -1);
    }
}

struct gs_error *hpa_replicas_plain(const struct hpa_evaluation *p, size_t metric,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    if (p->obs->n_pods == 0)
        return no_pods();
    int64_t target = p->spec->metrics[metric].average_value;
    struct hpa_groups g = {0};
    struct hpa_totals all;
    if (hpa_all_pods_count(p, metric, false, &all)) {
        g.n_ready = all.n;
        res->average_value = all.usage / (int64_t)all.n;
    } else {
        hpa_groups_init(p, metric, &g);
        if (hpa_groups_live(&g) == 0) {
            note_groups(&g, res);
            hpa_groups_finish(&g);
            return no_samples(p);
        }
        res->average_value = average(&g);
    }
    note_groups(&g, res);
    res->has_average_value = true;
    res->ratio = (double)res->average_value / (double)target;
    if (!settle_plainly(p, &g, res, calc)) {
        bool assume = res->ratio != 1.0 || !hpa_since(p->cfg->release, HPA_SINCE_EXACT_RATIO);
        for (size_t i = 0; assume && i < g.n_missing; i++)
            hpa_groups_add(&g, g.missing[i]->name, res->ratio < 1.0 ? target : 0, -1);
        if (res->ratio > 1.0)
            add_unready(&g, metric);
        settle_filled(p, &g, (double)average(&g) / (double)target, res, calc);
    }
    hpa_groups_finish(&g);
    return NULL;
}

// --- utilization of requests ---
struct utilization {
    int32_t percent;
    int64_t average; // of the usage, milli
    double ratio;
};

// A sum of 64-bit values times 100 may need more than 64 bits.
static struct gs_error *utilization_from(__int128 usage, __int128 requests, size_t n,
                                         int32_t target, struct utilization *ret)
{
    const __int128 small = INT64_MAX / 100; // 128-bit division is slower
    if (requests == 0)
        return gs_error_new(GS_ENOTFOUND, "no metrics returned matched known pods");
    bool is_small = usage >= 0 && usage <= small && requests <= small;
    __int128 percent = is_small ? (int64_t)usage * 100 / (int64_t)requests : usage * 100 / requests;
    ret->percent = percent > INT32_MAX   ? INT32_MAX
                   : percent < INT32_MIN ? INT32_MIN
                                         : (int32_t)percent;
    ret->average = is_small ? (int64_t)usage / (int64_t)n : (int64_t)(usage / (__int128)n);
    ret->ratio = (double)ret->percent / (double)target;
    return NULL;
}

static struct gs_error *utilization_of(const struct hpa_groups *g, int32_t target,
                                       struct utilization *ret)
{
    __int128 usage = 0, requests = 0;
    size_t n = 0;
    for (size_t i = 0; i < g->n_entries; i++) {
        const struct hpa_entry *e = &g->entries[i];
        if (e->dropped || e->request < 0)
            continue;
        usage += e->value;
        requests += e->request;
        n++;
    }
    return utilization_from(usage, requests, n, target, ret);
}

static struct gs_error *check_requests(const struct hpa_evaluation *p, size_t metric)
{
    const char *name = p->spec->metrics[metric].name;
    for (size_t i = 0; i < p->obs->n_pods; i++) {
        const struct hpa_pod *pod = &p->obs->pods[i];
        if (pod->requests_milli && pod->requests_milli[metric] >= 0)
            continue;
        if (!hpa_since(p->cfg->release, HPA_SINCE_LONG_REQUEST_ERROR))
            return gs_error_new(GS_EINVAL, "missing request for %s", name);
        const char *why = pod->request_errors ? pod->request_errors[metric] : NULL;
        return why ? gs_error_new(GS_EINVAL, "%s", why)
                   : gs_error_new(GS_EINVAL, "missing request for %s in Pod %s", name, pod->name);
    }
    return NULL;
}

static int64_t assumed_usage(const struct hpa_evaluation *p, int64_t request,
                             int32_t target_percent)
{
    bool to_target = target_percent > 100 && hpa_since(p->cfg->release, HPA_SINCE_FILL_TO_TARGET);
    int64_t percent = to_target ? target_percent : 100;
    __int128 usage = (__int128)request * percent / 100;
    return usage > INT64_MAX ? INT64_MAX : (int64_t)usage;
}

static void note_utilization(const struct utilization *u, struct hpa_metric_result *res)
{
    res->has_utilization = res->has_average_value = true;
    res->utilization = u->percent;
    res->average_value = u->average;
    res->ratio = u->ratio;
}

static struct gs_error *plain_utilization(const struct hpa_evaluation *p, size_t metric,
                                          const struct hpa_totals *all,
                                          struct hpa_metric_result *res,
                                          struct hpa_calculation *calc)
{
    const struct hpa_groups g = {.n_ready = all->n};
    struct utilization u;
    struct gs_error *err = utilization_from(all->exact_usage, all->requests, all->n,
                                            p->spec->metrics[metric].utilization, &u);
    if (err)
        return err;
    note_groups(&g, res);
    note_utilization(&u, res);
    settle_plainly(p, &g, res, calc);
    return NULL;
}

static struct gs_error *utilization_proposal(const struct hpa_evaluation *p, size_t metric,
                                             struct hpa_groups *g, struct hpa_metric_result *res,
                                             struct hpa_calculation *calc)
{
    int32_t target = p->spec->metrics[metric].utilization;
    struct utilization u = {0};
    struct gs_error *err = check_requests(p, metric);
    if (!err)
        err = utilization_of(g, target, &u);
    if (err)
        return err;
    note_utilization(&u, res);
    if (settle_plainly(p, g, res, calc))
        return NULL;
    for (size_t i = 0; res->ratio != 1.0 && i < g->n_missing; i++) {
        int64_t request = g->missing[i]->requests_milli[metric];
        int64_t usage = res->ratio < 1.0 ? assumed_usage(p, request, target) : 0;
        hpa_groups_add(g, g->missing[i]->name, usage, request);
    }
    if (res->ratio > 1.0)
        add_unready(g, metric);
    err = utilization_of(g, target, &u);
    if (!err)
        settle_filled(p, g, u.ratio, res, calc);
    return err;
}

struct gs_error *hpa_replicas_utilization(const struct hpa_evaluation *p, size_t metric,
                                          struct hpa_metric_result *res,
                                          struct hpa_calculation *calc)
{
    if (p->obs->n_pods == 0)
        return no_pods();
    struct hpa_totals all;
    if (hpa_all_pods_count(p, metric, true, &all) && all.requests > 0)
        return plain_utilization(p, metric, &all, res, calc);
    struct hpa_groups g;
    hpa_groups_init(p, metric, &g);
    note_groups(&g, res);
    struct gs_error *err =
        hpa_groups_live(&g) ? utilization_proposal(p, metric, &g, res, calc) : no_samples(p);
    hpa_groups_finish(&g);
    return err;
}

// --- Object and External ---
struct gs_error *hpa_replicas_value(const struct hpa_evaluation *p, size_t metric, int64_t usage,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    int32_t current = p->obs->spec_replicas;
    double ratio = (double)usage / (double)p->spec->metrics[metric].value;
    if (current == 0) {
        calc->step = HPA_STEP_RATIO;
        calc->multiplier = 1;
        res->proposal = hpa_ceil32(ratio);
    } else if (hpa_within(p->tolerance, ratio)) {
        calc->step = HPA_STEP_WITHIN;
        res->proposal = current;
    } else {
        struct gs_error *err = hpa_ready_pods(p->obs, &calc->multiplier);
        if (err)
            return err;
        calc->step = HPA_STEP_RATIO;
        res->n_ready = calc->multiplier;
        res->proposal = hpa_ceil32(ratio * (double)calc->multiplier);
    }
    res->ratio = ratio;
    res->has_value = true;
    res->value = usage;
    return NULL;
}

bool hpa_lacks_replicas(const struct hpa_metric_spec *m, const struct hpa_observation *obs)
{
    bool outside = m->type == HPA_METRIC_OBJECT || m->type == HPA_METRIC_EXTERNAL;
    return outside && m->has_average_value && obs->status_replicas == 0;
}

// False: no replicas, no average. kube-controller-manager shows 0 since 1.38, and the smallest
// number before, which is what amd64 makes of a division by zero.
static bool average_of(const struct hpa_evaluation *p, size_t metric, int64_t usage, int64_t *ret)
{
    bool external = p->spec->metrics[metric].type == HPA_METRIC_EXTERNAL;
    *ret = 0;
    if (!p->obs->status_replicas)
        return hpa_since(p->cfg->release, HPA_SINCE_ZERO_AVERAGE);
    *ret = external && (double)usage >= (double)INT64_MAX
               ? INT64_MAX
               : hpa_ceil64((double)usage / (double)p->obs->status_replicas);
    return true;
}

void hpa_replicas_per_replica(const struct hpa_evaluation *p, size_t metric, int64_t usage,
                              struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    double target = (double)p->spec->metrics[metric].average_value;
    double replicas = (double)p->obs->status_replicas;
    res->ratio = (double)usage / (target * replicas);
    calc->multiplier = (size_t)(p->obs->status_replicas > 0 ? p->obs->status_replicas : 0);
    calc->total = usage;
    if (hpa_within(p->tolerance, res->ratio)) {
        calc->step = HPA_STEP_WITHIN;
        res->proposal = p->obs->status_replicas;
        res->keeps_existing = p->obs->status_replicas != p->obs->spec_replicas;
    } else {
        calc->step = HPA_STEP_DIVIDED;
        res->proposal = hpa_ceil32((double)usage / target);
    }
    res->has_average_value = average_of(p, metric, usage, &res->average_value);
}

void hpa_replicas_given(const struct hpa_evaluation *p, size_t metric, int32_t replicas,
                        struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[metric];
    int64_t usage = (int64_t)replicas * 1000;
    double per_unit = (double)usage / (double)(m->has_average_value ? m->average_value : m->value);
    calc->step = HPA_STEP_DIVIDED;
    calc->total = usage;
    res->proposal = hpa_ceil32(per_unit);
    res->has_value = !m->has_average_value;
    res->value = usage;
    if (!m->has_average_value) {
        res->ratio = per_unit;
        return;
    }
    res->ratio = per_unit / (double)p->obs->status_replicas;
    res->has_average_value = average_of(p, metric, usage, &res->average_value);
}
