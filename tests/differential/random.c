// SPDX-License-Identifier: Apache-2.0
// Creates random expressions with valid types, sometimes with invalid matchings and parameters.
#include "differential.h"

struct dice {
    uint64_t state;
    struct gs_buf *out;
    int budget; // of nested parts
};

static unsigned roll(struct dice *d, unsigned n)
{
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return (unsigned)((d->state >> 20) % n);
}

#define PICK(d, list) ((list)[roll(d, sizeof(list) / sizeof((list)[0]))])

static void put(struct dice *d, const char *text)
{
    gs_buf_add_str(d->out, text);
}

static void vector(struct dice *d);

static void scalar(struct dice *d)
{
    static const char *const numbers[] = {"0",   "1",   "2",    "-1",   "0.5", "10",   "100",
                                          "NaN", "Inf", "-Inf", "3.25", "1e3", "pi()", "time()"};
    if (d->budget > 0 && roll(d, 6) == 0) {
        d->budget--;
        put(d, "scalar(");
        vector(d);
        put(d, ")");
        return;
    }
    put(d, PICK(d, numbers));
}

static void shift(struct dice *d)
{
    static const char *const shifts[] = {" offset 1m",   " offset -2m", " @ 1700002000.25",
                                         " @ start()",   " @ end()",    " @ end() offset 5m",
                                         " offset 10m7s"};
    if (roll(d, 6) == 0)
        put(d, PICK(d, shifts));
}

static void series(struct dice *d)
{
    static const char *const names[] = {"DCGM_FI_DEV_GPU_UTIL",
                                        "DCGM_FI_DEV_GPU_TEMP",
                                        "DCGM_FI_DEV_POWER_USAGE",
                                        "http_requests_total",
                                        "special",
                                        "gaps",
                                        "kube_pod_labels",
                                        "DCGM_FI_DEV_FB_USED",
                                        "queue_wait_seconds_bucket"};
    static const char *const matchers[] = {
        "{pod=\"vision-0\"}",  "{pod!=\"bert-0\"}", "{node=\"\"}",         "{gpu=\"0\"}",
        "{pod=~\"vision.*\"}", "{node!~\".*a\"}",   "{code=~\"200|500\"}", "{pod=\"none\"}"};
    put(d, PICK(d, names));
    if (roll(d, 3) == 0)
        put(d, PICK(d, matchers));
}

static void range(struct dice *d)
{
    static const char *const ranges[] = {"[1m]", "[5m]", "[10m]", "[20s]", "[37m]", "[90s]"};
    static const char *const subs[] = {"[5m:1m]", "[10m:30s]", "[20m:90s]", "[7m:]"};
    if (d->budget > 1 && roll(d, 4) == 0) {
        d->budget -= 2;
        put(d, "(");
        vector(d);
        put(d, ")");
        put(d, PICK(d, subs));
    } else {
        series(d);
        put(d, PICK(d, ranges));
    }
    shift(d);
}

static void grouping(struct dice *d)
{
    static const char *const groups[] = {
        " by (pod) ",   " by (node) ",     " without (gpu) ",           " by () ",
        " without () ", " by (pod, gpu) ", " without (pod, code, le) ", " "};
    put(d, PICK(d, groups));
}

// topk only for series without equal values, because the selected series would be undefined.
static void aggregate(struct dice *d)
{
    static const char *const plain[] = {"sum",   "avg",   "min",    "max",
                                        "count", "group", "stddev", "stdvar"};
    if (roll(d, 4)) {
        put(d, PICK(d, plain));
        grouping(d);
        put(d, "(");
    } else if (roll(d, 3)) {
        put(d, roll(d, 2) ? "quantile" : roll(d, 2) ? "topk" : "bottomk");
        grouping(d);
        put(d, "(");
        scalar(d);
        put(d,
            roll(d, 2) ? ", DCGM_FI_DEV_POWER_USAGE)" : ", sum by (pod) (DCGM_FI_DEV_GPU_UTIL))");
        return;
    } else {
        put(d, "count_values");
        grouping(d);
        put(d, "(\"value\", ");
    }
    vector(d);
    put(d, ")");
}

static void call_range(struct dice *d)
{
    static const char *const plain[] = {"rate",
                                        "increase",
                                        "delta",
                                        "irate",
                                        "idelta",
                                        "deriv",
                                        "changes",
                                        "resets",
                                        "avg_over_time",
                                        "sum_over_time",
                                        "min_over_time",
                                        "max_over_time",
                                        "count_over_time",
                                        "last_over_time",
                                        "present_over_time",
                                        "stddev_over_time",
                                        "stdvar_over_time",
                                        "absent_over_time"};
    if (roll(d, 5)) {
        put(d, PICK(d, plain));
        put(d, "(");
        range(d);
    } else if (roll(d, 2)) {
        put(d, "quantile_over_time(");
        scalar(d);
        put(d, ", ");
        range(d);
    } else {
        put(d, "predict_linear(");
        range(d);
        put(d, ", ");
        scalar(d);
    }
    put(d, ")");
}

// Without functions whose last digits differ between C libraries and Go, because later operations
// magnify the difference.
static void call(struct dice *d)
{
    static const char *const plain[] = {
        "abs",       "ceil",   "floor",        "sqrt",        "sgn",         "round",
        "deg",       "rad",    "day_of_month", "hour",        "month",       "year",
        "timestamp", "absent", "minute",       "day_of_week", "day_of_year", "days_in_month"};
    static const char *const with_scalar[] = {"clamp_min", "clamp_max", "round"};
    static const char *const labels[] = {
        "label_replace(", ", \"app\", \"$1\", \"pod\", \"(.*)-.*\")",
        "label_replace(", ", \"pod\", \"\", \"pod\", \".*\")",
        "label_join(",    ", \"both\", \"/\", \"pod\", \"node\")",
    };
    switch (roll(d, 6)) {
    case 0: {
        unsigned i = roll(d, 3) * 2;
        put(d, labels[i]);
        vector(d);
        put(d, labels[i + 1]);
        return;
    }
    case 1:
        put(d, PICK(d, with_scalar));
        put(d, "(");
        vector(d);
        put(d, ", ");
        scalar(d);
        break;
    case 2:
        put(d, "histogram_quantile(");
        scalar(d);
        put(d, ", ");
        put(d, roll(d, 2) ? "queue_wait_seconds_bucket" : "rate(queue_wait_seconds_bucket[5m])");
        break;
    default:
        put(d, PICK(d, plain));
        put(d, "(");
        vector(d);
    }
    put(d, ")");
}

static void binary(struct dice *d)
{
    static const char *const ops[] = {" + ", " - ", " * ", " / ", " % "};
    static const char *const compare[] = {" == ", " != ", " > ", " < ", " >= ", " <= "};
    static const char *const sets[] = {" and ", " or ", " unless "};
    static const char *const matching[] = {"",      "on(pod) ", "ignoring(gpu) ", "on(pod, gpu) ",
                                           "on() ", "on(node) "};
    static const char *const sides[] = {"", "", "group_left() ", "group_right() ",
                                        "group_left(label_app) "};
    unsigned kind = roll(d, 3);
    put(d, "(");
    if (kind == 0 && roll(d, 2)) {
        scalar(d);
        put(d, PICK(d, ops));
        vector(d);
    } else {
        vector(d);
        if (kind == 0) {
            bool cmp = roll(d, 2);
            put(d, cmp ? PICK(d, compare) : PICK(d, ops));
            put(d, cmp && roll(d, 2) ? "bool " : "");
            scalar(d);
        } else if (kind == 1) {
            put(d, PICK(d, sets));
            put(d, PICK(d, matching));
            vector(d);
        } else {
            bool cmp = roll(d, 3) == 0;
            put(d, cmp ? PICK(d, compare) : PICK(d, ops));
            put(d, cmp && roll(d, 2) ? "bool " : "");
            const char *on = PICK(d, matching);
            put(d, on);
            put(d, *on ? PICK(d, sides) : "");
            vector(d);
        }
    }
    put(d, ")");
}

static void vector(struct dice *d)
{
    if (d->budget-- <= 0) {
        series(d);
        shift(d);
        return;
    }
    switch (roll(d, 10)) {
    case 0:
    case 1:
        aggregate(d);
        break;
    case 2:
    case 3:
        call(d);
        break;
    case 4:
    case 5:
        call_range(d);
        break;
    case 6:
    case 7:
        binary(d);
        break;
    case 8:
        put(d, "-");
        series(d);
        break;
    default:
        series(d);
        shift(d);
    }
}

void random_query(uint64_t seed, struct gs_buf *out)
{
    struct dice d = {.state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15), .out = out};
    for (int i = 0; i < 8; i++)
        roll(&d, 2);
    d.budget = 1 + (int)roll(&d, 6);
    vector(&d);
}
