// SPDX-License-Identifier: Apache-2.0
// Finds queries that give an autoscaler the value of a counter since its start instead of its
// rate. Such a value only grows, so the autoscaler scales to its maximum and stays there.
#include "adapter/config/config.h"

#include "base/mem.h"
#include "promql/ast.h"
#include "promql/functions.h"

// Counters of inference servers and GPU exporters whose names do not end as those of counters.
static const char *const known[] = {
    "ts_inference_latency_microseconds", // TorchServe
    "ts_queue_latency_microseconds",
    "nv_inference_request_success", // Triton
    "nv_inference_request_failure",
    "nv_inference_request_duration_us",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_input_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_energy_consumption",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", // dcgm-exporter 4.9
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
};

bool adapter_config_is_counter(struct gs_slice metric)
{
    static const char *const suffixes[] = {"_total", "_count", "_sum", "_bucket"};
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (gs_slice_ends(metric, suffixes[i]))
            return true;
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
        if (gs_slice_eq_str(metric, known[i]))
            return true;
    return false;
}

// Functions whose result is not the raw value: rates, and those that read no value.
static bool hides_value(const char *function)
{
    static const char *const names[] = {"rate",
                                        "irate",
                                        "increase",
                                        "delta",
                                        "idelta",
                                        "deriv",
                                        "resets",
                                        "changes",
                                        "timestamp",
                                        "absent",
                                        "time",
                                        "absent_over_time",
                                        "count_over_time",
                                        "present_over_time",
                                        "predict_linear",
                                        "histogram_quantile",
                                        "histogram_fraction",
                                        "histogram_avg",
                                        "double_exponential_smoothing",
                                        "stddev_over_time",
                                        "stdvar_over_time",
                                        "mad_over_time"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(function, names[i]))
            return true;
    return false;
}

static bool counts_series(enum promql_agg op)
{
    return op == PROMQL_COUNT || op == PROMQL_GROUP || op == PROMQL_COUNT_VALUES;
}

struct search {
    struct gs_slice series;
    enum { BY_NAME, COUNTER, NO_COUNTER } type; // of series
    struct gs_slice found;
};

static void search_node(struct search *s, const struct promql_node *n);

static void search_selector(struct search *s, const struct promql_node *n)
{
    struct gs_slice name = n->u.selector.name;
    for (size_t i = 0; !name.len && i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        if (gs_slice_eq_str(m->name, "__name__") && m->op == TSDB_EQ)
            name = m->value;
    }
    bool typed = s->type != BY_NAME && gs_slice_eq(name, s->series);
    if (typed ? s->type == COUNTER : adapter_config_is_counter(name))
        s->found = name;
}

// A quotient of two counters is an average since the start, and a difference may be a rate.
static void search_binary(struct search *s, const struct promql_node *n)
{
    const struct promql_node *l = n->u.binary.lhs, *r = n->u.binary.rhs;
    bool relative = n->u.binary.op == PROMQL_DIV || n->u.binary.op == PROMQL_SUB ||
                    n->u.binary.op == PROMQL_MOD;
    if (relative && l->type == PROMQL_VECTOR && r->type == PROMQL_VECTOR)
        return;
    search_node(s, l);
    if (!promql_op_is_comparison(n->u.binary.op) && n->u.binary.op != PROMQL_AND &&
        n->u.binary.op != PROMQL_UNLESS)
        search_node(s, r);
}

static void search_node(struct search *s, const struct promql_node *n)
{
    if (s->found.len)
        return;
    switch (n->kind) {
    case PROMQL_SELECTOR:
        search_selector(s, n);
        break;
    case PROMQL_SUBQUERY:
        search_node(s, n->u.subquery.expr);
        break;
    case PROMQL_PAREN:
    case PROMQL_UNARY:
        search_node(s, n->u.unary.expr);
        break;
    case PROMQL_BINARY:
        search_binary(s, n);
        break;
    case PROMQL_AGGREGATE:
        if (!counts_series(n->u.aggregate.op))
            search_node(s, n->u.aggregate.expr);
        break;
    case PROMQL_CALL:
        for (size_t i = 0; i < n->u.call.n_args && !hides_value(n->u.call.fn->name); i++)
            search_node(s, n->u.call.args[i]);
        break;
    case PROMQL_NUMBER:
    case PROMQL_STRING_LITERAL:
        break;
    }
}

char *adapter_config_raw_counter(const struct adapter_config_rule *r, struct gs_slice series,
                                 const char *type)
{
    bool typed = type && *type && !gs_streq(type, "unknown") && !gs_streq(type, "untyped");
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    struct search s = {.series = series,
                       .type = !typed                      ? BY_NAME
                               : gs_streq(type, "counter") ? COUNTER
                                                           : NO_COUNTER};
    GS_AUTO_ERROR struct gs_error *err = adapter_config_rule_probe(r, series, &query);
    if (!err)
        err = promql_parse(gs_buf_slice(&query), &x);
    if (!err)
        search_node(&s, promql_expr_root(x));
    return s.found.len ? gs_slice_dup(s.found) : NULL;
}
