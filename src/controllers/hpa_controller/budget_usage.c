// SPDX-License-Identifier: Apache-2.0
// What became of the GPUs of budgets over time, as counters: who was granted, used and was refused
// how much, and who took GPUs from whom. Time in which nothing was observed is not counted.
#include "hpa_controller/budgets_private.h"

#include "base/clock.h"
#include "base/slice.h"
#include "base/timer.h"

#define LATE_PERIODS 3 // a longer pause, as of a machine that was suspended, is unknown
// A new pair begins with 0 for so long, so that increase() counts its first move, too.
#define NEW_MS   120000
#define MAX_USES 20000 // further workloads are not counted

// In GPU seconds, and seconds.
struct use {
    double sums[HPA_BUDGET_KINDS], limited;
};

static const char *const kinds[HPA_BUDGET_KINDS] = {
    [HPA_BUDGET_HAS] = "budget",      [HPA_BUDGET_GRANTED] = "granted", [HPA_BUDGET_USED] = "used",
    [HPA_BUDGET_REFUSED] = "refused", [HPA_BUDGET_OVER] = "over",
};

// key: of a workload; "" for pods without one, and for the budget itself.
static struct use *use_of(const struct hpa_budgets *b, size_t scope, const char *key)
{
    GS_AUTO_FREE char *full = gs_format("%s/%s", b->policy.scopes[scope].name, key);
    struct use *u = gs_hmap_get_str(b->uses, full);
    if (u || gs_hmap_len(b->uses) >= MAX_USES)
        return u;
    u = gs_alloc(sizeof(*u));
    gs_hmap_put_str(b->uses, full, u);
    return u;
}

void hpa_budget_usage_forget(struct hpa_budgets *b, const char *key)
{
    for (size_t i = 0; i < b->policy.n_scopes; i++) {
        GS_AUTO_FREE char *full = gs_format("%s/%s", b->policy.scopes[i].name, key);
        free(gs_hmap_remove_str(b->uses, full));
    }
}

static bool is_in_policy(const struct budget_policy *p, struct gs_slice full)
{
    struct gs_slice name = gs_slice_cut(&full, '/');
    for (size_t i = 0; i < p->n_scopes; i++)
        if (gs_slice_eq_str(name, p->scopes[i].name))
            return true;
    return false;
}

void hpa_budget_usage_prune(struct hpa_budgets *b)
{
    struct gs_hmap *kept = gs_hmap_new(free);
    size_t pos = 0;
    struct gs_slice full;
    void *value;
    while (gs_hmap_next(b->uses, &pos, &full, &value)) {
        if (!is_in_policy(&b->policy, full))
            continue;
        struct use *u = gs_alloc(sizeof(*u));
        *u = *(struct use *)value;
        gs_hmap_put(kept, full, u);
    }
    gs_hmap_free(b->uses);
    b->uses = kept;
}

static double above(double a, double b)
{
    return a > b ? a - b : 0;
}

static void add_member(const struct hpa_budgets *b, size_t scope, const struct budget_member *m,
                       int32_t share, double seconds)
{
    struct use *u = use_of(b, scope, m->key);
    double wanted = (double)m->gpus * m->demand, granted = (double)m->gpus * share;
    // Not budget_used(): the replicas of other controllers count with their maxReplicas there.
    double used = (double)(m->live + m->ending);
    if (!u)
        return;
    u->sums[HPA_BUDGET_GRANTED] += granted * seconds;
    u->sums[HPA_BUDGET_USED] += used * seconds;
    u->sums[HPA_BUDGET_REFUSED] += above(wanted, granted) * seconds;
    u->sums[HPA_BUDGET_OVER] += above(used, wanted) * seconds;
    u->limited += share < m->demand ? seconds : 0;
}

static void add_scope(const struct hpa_budgets *b, size_t scope, double seconds)
{
    struct hpa_budget_set s;
    bool limited = false;
    hpa_budget_set_init(b, scope, NULL, &s);
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(s.group.n + 1, sizeof(*shares));
    budget_share(&s.group, shares);
    for (size_t i = 0; i < s.group.n; i++) {
        add_member(b, scope, &s.members[i], shares[i], seconds);
        limited = limited || shares[i] < s.members[i].demand;
    }
    struct use *all = use_of(b, scope, "");
    if (all) {
        all->sums[HPA_BUDGET_HAS] += (double)s.group.gpus * seconds;
        all->sums[HPA_BUDGET_USED] += (double)s.group.others * seconds;
        all->limited += limited ? seconds : 0;
    }
    hpa_budget_set_finish(&s);
}

static void on_usage(void *arg)
{
    struct hpa_budgets *b = arg;
    int64_t now_ns = gs_mono_ns(), elapsed_ns = b->usage_ns ? now_ns - b->usage_ns : 0;
    if (!hpa_budget_holds(b) || elapsed_ns > LATE_PERIODS * b->cfg.period_ms * GS_NS_PER_MS)
        elapsed_ns = 0;
    b->usage_ns = now_ns;
    for (size_t i = 0; b->has_policy && i < b->policy.n_scopes; i++)
        add_scope(b, i, (double)elapsed_ns / (double)GS_NS_PER_SEC);
}

void hpa_budget_usage_start(struct hpa_budgets *b)
{
    b->usage_timer = gs_timer_new(b->cfg.loop, b);
    gs_timer_repeat(b->usage_timer, on_usage, (uint64_t)b->cfg.period_ms,
                    (uint64_t)b->cfg.period_ms);
}

// --- metrics ---

static void write_head(const char *name, const char *type, const char *help, struct gs_buf *out)
{
    gs_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

// {budget="h100",namespace="chat",horizontalpodautoscaler="web"
static void write_labels(const struct budget_policy *p, size_t scope, const char *key,
                         struct gs_buf *out)
{
    struct gs_slice rest = gs_slice_of(key), ns = gs_slice_cut(&rest, '/');
    gs_buf_addf(out, "{budget=\"%s\"", p->scopes[scope].name);
    if (*key)
        gs_buf_addf(out, ",namespace=\"%.*s\",horizontalpodautoscaler=\"%.*s\"", (int)ns.len,
                    ns.data, (int)rest.len, rest.data);
}

static void write_use(const struct hpa_budgets *b, size_t scope, const char *key, bool times,
                      struct gs_buf *out)
{
    const struct use *u = use_of(b, scope, key);
    if (u && times) {
        gs_buf_add_str(out, "gpuscale_budget_limited_seconds_total");
        write_labels(&b->policy, scope, key, out);
        gs_buf_addf(out, "} %.3f\n", u->limited);
    }
    for (int k = 0; u && !times && k < HPA_BUDGET_KINDS; k++) {
        bool exists = *key ? k != HPA_BUDGET_HAS : k == HPA_BUDGET_HAS || k == HPA_BUDGET_USED;
        if (!exists)
            continue;
        gs_buf_add_str(out, "gpuscale_budget_gpu_seconds_total");
        write_labels(&b->policy, scope, key, out);
        gs_buf_addf(out, ",kind=\"%s\"} %.3f\n", kinds[k], u->sums[k]);
    }
}

static void write_uses(const struct hpa_budgets *b, bool times, struct gs_buf *out)
{
    for (size_t i = 0; i < b->policy.n_scopes; i++) {
        struct hpa_budget_set s;
        hpa_budget_set_init(b, i, NULL, &s);
        write_use(b, i, "", times, out);
        for (size_t k = 0; k < s.group.n; k++)
            write_use(b, i, s.members[k].key, times, out);
        hpa_budget_set_finish(&s);
    }
}

static void write_moves(const struct hpa_budgets *b, struct gs_buf *out)
{
    int64_t now_ms = gs_unix_ms();
    write_head(
        "gpuscale_budget_moved_gpus_total", "counter",
        "GPUs that one autoscaler lost and another one got; idle: the first did not use them.",
        out);
    for (size_t i = 0; i < b->policy.n_scopes; i++) {
        size_t n;
        const struct budget_transfer *t = budget_transfers(b->memories[i], &n);
        for (size_t k = 0; k < n; k++)
            gs_buf_addf(out,
                        "gpuscale_budget_moved_gpus_total{budget=\"%s\",from=\"%s\",to=\"%s\","
                        "idle=\"%s\"} %lld\n",
                        b->policy.scopes[i].name, t[k].from, t[k].to, t[k].lent ? "true" : "false",
                        (long long)(now_ms - t[k].since_ms < NEW_MS ? 0 : t[k].gpus));
    }
}

void hpa_budget_usage_write(const struct hpa_budgets *b, struct gs_buf *out)
{
    write_head("gpuscale_budget_enforced", "gauge",
               "Whether this process enforces the budget; 0 in a dry run.", out);
    for (size_t i = 0; i < b->policy.n_scopes; i++)
        gs_buf_addf(out, "gpuscale_budget_enforced{budget=\"%s\"} %d\n", b->policy.scopes[i].name,
                    hpa_budget_enforced(b));
    write_head("gpuscale_budget_gpu_seconds_total", "counter",
               "GPU seconds of a budget: what it has, and what its autoscalers were granted, used, "
               "were refused, and used over what they want.",
               out);
    write_uses(b, false, out);
    write_head("gpuscale_budget_limited_seconds_total", "counter",
               "Seconds in which an autoscaler, or one of a budget, wants more than its share.",
               out);
    write_uses(b, true, out);
    write_moves(b, out);
}
