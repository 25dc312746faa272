// SPDX-License-Identifier: Apache-2.0
// Which workloads have idle GPUs, for budgets that lend those. Only workloads that can give
// something while others want it are measured, one after the other in each period, by a query of
// the engine. A result that is not renewed ends: stale data is not idle.
#include "hpa_controller/budgets_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/timer.h"
#include "hpa_controller/query_text.h"
#include "kube/object.h"

#include <math.h>

#define VALID_MS 120000 // of a result
#define MAX_PODS 64     // of a workload; one with more is never idle

// Minutes are whole ones of the clock: the one in which the time begins counts, too.
#define MINUTE_MS 60000

// --- the query ---

enum of { UTIL, MEMORY, MINUTES, MEASURED, N_MEASURES };

// The labels of a pod in the series of an exporter: its own, and those that Prometheus renames.
static const struct {
    const char *ns, *pod;
} names_of[] = {{"namespace", "pod"}, {"exported_namespace", "exported_pod"}};

#define PROCESS (N_MEASURES * (int)GS_ARRAY_LEN(names_of))
#define N_ROWS  (PROCESS + 1)

static char *selector_of(const char *metric, const char *ns_label, const char *pod_label,
                         const char *ns, const char *pods)
{
    return gs_format("%s{%s=\"%s\",%s=~\"%s\"}", metric, ns_label, ns, pod_label, pods);
}

static char *measure_of(enum of of, const char *pod, const char *util, const char *memory,
                        long long ms)
{
    switch (of) {
    case UTIL:
        return gs_format("max by (%s) (max_over_time(%s[%lldms]))", pod, util, ms);
    case MEMORY:
        return gs_format("max by (%s) (max_over_time(%s[%lldms]) - min_over_time(%s[%lldms]))", pod,
                         memory, ms, memory, ms);
    case MINUTES:
        return gs_format("min by (%s) (count_over_time(present_over_time(%s[1m])[%lldms:1m]))", pod,
                         util, ms + MINUTE_MS);
    default:
        return gs_format("count by (%s) (group by (%s, UUID) (present_over_time(%s[1m])))", pod,
                         pod, util);
    }
}

void hpa_budget_idle_expression(const char *ns, const char *const *pods, size_t n, int64_t after_ms,
                                struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    hpa_query_names(pods, n, &names);
    for (size_t i = 0; i < GS_ARRAY_LEN(names_of); i++) {
        const char *ns_label = names_of[i].ns, *pod = names_of[i].pod;
        GS_AUTO_FREE char *util =
            selector_of("DCGM_FI_DEV_GPU_UTIL", ns_label, pod, ns, names.data);
        GS_AUTO_FREE char *memory =
            selector_of("DCGM_FI_DEV_FB_USED", ns_label, pod, ns, names.data);
        for (int of = 0; of < N_MEASURES; of++) {
            GS_AUTO_FREE char *row =
                measure_of((enum of)of, pod, util, memory, (long long)after_ms);
            hpa_query_add_row(row, pod, (int)i * N_MEASURES + of, out);
        }
    }
    GS_AUTO_FREE char *process =
        selector_of("DCGM_CUSTOM_PROCESS_SM_UTIL", "NamespaceName", "PodName", ns, names.data);
    GS_AUTO_FREE char *row =
        gs_format("max by (PodName) (max_over_time(%s[%lldms]))", process, (long long)after_ms);
    hpa_query_add_row(row, "PodName", PROCESS, out);
}

// --- the response ---

// Two exporters can measure a pod with other labels, and any pod can have such series: of two
// values, the one of the busier pod counts.
static void read_measure(int row, double v, struct budget_idle_pod *p)
{
    double *const at[] = {
        [UTIL] = &p->util,
        [MEMORY] = &p->memory,
        [MINUTES] = &p->minutes,
        [MEASURED] = &p->measured,
    };
    int of = row % N_MEASURES;
    if (row == PROCESS)
        p->process = v;
    else
        *at[of] = of == UTIL || of == MEMORY ? fmax(*at[of], v) : fmin(*at[of], v);
}

bool hpa_budget_idle_read(const json_t *response, struct budget_idle_pod *pods, size_t n)
{
    const json_t *result = codec_json_get(response, "data", "result", NULL), *series;
    size_t k;
    for (size_t i = 0; i < n; i++)
        pods[i].measured = pods[i].minutes = pods[i].util = pods[i].process = pods[i].memory = NAN;
    json_array_foreach ((json_t *)(uintptr_t)result, k, series) {
        const char *name = codec_json_str(series, "metric", "name", NULL);
        int row = hpa_query_row_of(series, N_ROWS);
        for (size_t i = 0; i < n && row >= 0; i++)
            if (gs_streq(pods[i].name, name))
                read_measure(row, codec_json_sample(series), &pods[i]);
    }
    return json_is_array(result);
}

// --- measuring ---

struct task {
    char *key; // of the workload
    size_t scope;
};

struct hpa_budget_idle {
    struct hpa_budgets *budgets;
    struct gs_timer *timer;
    struct http_op *op;
    struct task *tasks; // of this round
    size_t n_tasks, tasks_cap, next;
    struct budget_idle_pod *pods; // of the task; names are owned
    size_t n_pods;
};

static void begin_round(void *arg);
static void measure_next(struct hpa_budget_idle *m);

static void drop_pods(struct hpa_budget_idle *m)
{
    for (size_t i = 0; i < m->n_pods; i++)
        free((char *)(uintptr_t)m->pods[i].name);
    free(GS_TAKE(m->pods));
    m->n_pods = 0;
}

// text is owned.
static void set_idle(struct hpa_budgets *b, struct hpa_budget_workload *w, size_t scope, bool idle,
                     char *text)
{
    uint32_t bit = UINT32_C(1) << scope;
    bool was = hpa_budget_is_idle(w, scope);
    free(w->idle_text);
    w->idle_text = text;
    w->idle = idle ? w->idle | bit : w->idle & ~bit;
    w->idle_mono_ns = gs_mono_ns();
    if (was == idle)
        return;
    gs_info("hpa", "%s: GPU budget %s: %s", w->key, b->policy.scopes[scope].name, text);
    b->cfg.wake(b->cfg.arg, w->key);
}

const char *hpa_budget_idle_text(const struct hpa_budget_workload *w)
{
    bool valid = gs_mono_ns() - w->idle_mono_ns < VALID_MS * GS_NS_PER_MS;
    return valid ? w->idle_text : NULL;
}

bool hpa_budget_is_idle(const struct hpa_budget_workload *w, size_t scope)
{
    return hpa_budget_has_scope(w->idle, scope) && hpa_budget_idle_text(w);
}

static void end_task(struct hpa_budget_idle *m, bool idle, char *text)
{
    const struct task *t = &m->tasks[m->next++];
    struct hpa_budgets *b = m->budgets;
    struct hpa_budget_workload *w = gs_hmap_get_str(b->workloads, t->key);
    if (w && t->scope < b->policy.n_scopes && b->policy.scopes[t->scope].idle_after_ms)
        set_idle(b, w, t->scope, idle, text);
    else
        free(text);
    drop_pods(m);
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct hpa_budget_idle *m = arg;
    const struct task *t = &m->tasks[m->next];
    CODEC_AUTO_JSON json_t *body = NULL;
    struct gs_buf text = {0};
    bool idle = false;
    m->op = NULL;
    GS_AUTO_ERROR struct gs_error *wrong = err ? NULL : codec_json_parse(a->body, false, &body);
    if (err) {
        gs_buf_addf(&text, "its use is unknown: %s", gs_error_message(err));
    } else if (a->status != 200 || wrong || !hpa_budget_idle_read(body, m->pods, m->n_pods)) {
        GS_AUTO_FREE char *why = hpa_query_refused(a->status, body);
        gs_buf_addf(&text, "its use is unknown: %s", why);
    } else if (t->scope < m->budgets->policy.n_scopes) {
        idle = budget_is_idle(m->pods, m->n_pods, m->budgets->policy.scopes[t->scope].idle_after_ms,
                              &text);
    }
    gs_error_free(err);
    end_task(m, idle, gs_buf_take(&text));
    measure_next(m);
}

static void copy_pods(struct hpa_budget_idle *m, const struct hpa_budget_workload *w)
{
    const struct hpa_budget_pod *p;
    m->pods = gs_alloc_array(MAX_PODS, sizeof(*m->pods));
    LIST_FOREACH (p, &w->pods, list)
        if (!p->ending && m->n_pods < MAX_PODS)
            m->pods[m->n_pods++] =
                (struct budget_idle_pod){.name = gs_strdup(kube_name(p->object)), .gpus = p->gpus};
}

static size_t count_pods(const struct hpa_budget_workload *w)
{
    const struct hpa_budget_pod *p;
    size_t n = 0;
    LIST_FOREACH (p, &w->pods, list)
        n += !p->ending;
    return n;
}

static void send_query(struct hpa_budget_idle *m, struct http_client *engine,
                       const struct hpa_budget_workload *w, int64_t after_ms)
{
    const struct http_callbacks callbacks = {.on_done = on_done};
    const char *names[MAX_PODS];
    GS_AUTO_BUF struct gs_buf expression = {0};
    copy_pods(m, w);
    for (size_t i = 0; i < m->n_pods; i++)
        names[i] = m->pods[i].name;
    hpa_budget_idle_expression(w->ns, names, m->n_pods, after_ms, &expression);
    m->op = hpa_query_send(engine, &expression, &callbacks, m);
}

// True: a query was sent, which continues with on_done().
static bool measure(struct hpa_budget_idle *m, const struct task *t)
{
    struct hpa_budgets *b = m->budgets;
    const struct hpa_budget_workload *w = gs_hmap_get_str(b->workloads, t->key);
    const char *why = "no engine is configured";
    struct http_client *engine = b->cfg.engine ? b->cfg.engine(b->cfg.engine_arg, &why) : NULL;
    size_t n = w ? count_pods(w) : 0;
    if (w && t->scope < b->policy.n_scopes && engine && n && n <= MAX_PODS) {
        send_query(m, engine, w, b->policy.scopes[t->scope].idle_after_ms);
        return true;
    }
    end_task(m, false,
             !engine ? gs_format("its use is unknown: %s", why)
                     : gs_format("not idle: it has %zu pods, want 1 to %d", n, MAX_PODS));
    return false;
}

static void measure_next(struct hpa_budget_idle *m)
{
    while (m->next < m->n_tasks)
        if (measure(m, &m->tasks[m->next]))
            return;
    for (size_t i = 0; i < m->n_tasks; i++)
        free(m->tasks[i].key);
    m->n_tasks = 0;
    gs_timer_start(m->timer, begin_round, (uint64_t)m->budgets->cfg.period_ms);
}

// --- a round ---

// One that is idle already must be measured until it is busy.
static bool can_give(const struct hpa_budget_workload *w, size_t scope)
{
    int32_t kept = w->member.floor > 1 ? w->member.floor : 1;
    return w->member.replicas > kept || hpa_budget_has_scope(w->idle, scope);
}

static bool is_scarce(const struct hpa_budget_set *s)
{
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(s->group.n + 1, sizeof(*shares));
    bool scarce = false;
    budget_share(&s->group, shares);
    for (size_t i = 0; i < s->group.n; i++)
        scarce = scarce || shares[i] < s->members[i].demand;
    return scarce;
}

static void add_tasks(struct hpa_budget_idle *m, size_t scope)
{
    struct hpa_budget_set s;
    hpa_budget_set_init(m->budgets, scope, NULL, &s);
    bool scarce = is_scarce(&s);
    for (size_t i = 0; i < s.group.n; i++) {
        struct hpa_budget_workload *w = s.workloads[i];
        if (!scarce || !can_give(w, scope)) {
            w->idle &= ~(UINT32_C(1) << scope);
            continue;
        }
        gs_grow(&m->tasks, &m->tasks_cap, m->n_tasks, sizeof(*m->tasks));
        m->tasks[m->n_tasks++] = (struct task){.key = gs_strdup(w->key), .scope = scope};
    }
    hpa_budget_set_finish(&s);
}

static void begin_round(void *arg)
{
    struct hpa_budget_idle *m = arg;
    const struct hpa_budgets *b = m->budgets;
    m->next = 0;
    for (size_t i = 0; b->has_policy && i < b->policy.n_scopes; i++)
        if (b->policy.scopes[i].idle_after_ms)
            add_tasks(m, i);
    measure_next(m);
}

struct hpa_budget_idle *hpa_budget_idle_new(struct hpa_budgets *b)
{
    struct hpa_budget_idle *m = gs_alloc(sizeof(*m));
    m->budgets = b;
    m->timer = gs_timer_new(b->cfg.loop, m);
    gs_timer_start(m->timer, begin_round, (uint64_t)b->cfg.period_ms);
    return m;
}

void hpa_budget_idle_free(struct hpa_budget_idle *m)
{
    if (!m)
        return;
    http_op_cancel(m->op);
    for (size_t i = 0; i < m->n_tasks; i++)
        free(m->tasks[i].key);
    free(m->tasks);
    drop_pods(m);
    gs_timer_free(m->timer);
    free(m);
}
