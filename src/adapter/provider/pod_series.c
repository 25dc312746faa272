// SPDX-License-Identifier: Apache-2.0
// The built-in rules for every series with the labels namespace and pod, as a configuration in
// prometheus-adapter's format and with its default names: counters become rates and lose the
// suffixes _seconds_total and _total; container_ of cAdvisor's series is removed, too.
#include "adapter/provider/provider.h"

#include "base/mem.h"

#include <string.h>

// GPU metrics have their own rules. Buckets and creation times are no values of a pod.
#define OTHERS "DCGM_(FI|CUSTOM|EXP)_.+|.+_bucket|.+_created"
#define SELECTED(more)                                                                             \
    "- seriesQuery: '{__name__!~\"" OTHERS "\",namespace!=\"\",pod!=\"\"" more "}'\n"
#define LABELS                                                                                     \
    "  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}\n"

#define RULE_OF(how, filters, matches, as, query)                                                  \
    SELECTED("")                                                                                   \
    "  seriesFilters: [" filters "]\n"                                                             \
    "  name: {matches: '" matches "', as: '" as "'}\n" LABELS "  metricsQuery: " how               \
    " by (<<.GroupBy>>) (" query ")\n"
#define RULE(filters, matches, as, query) RULE_OF("sum", filters, matches, as, query)
#define NOT(pattern)                      "{isNot: '" pattern "'}"
#define CONTAINER                         "^container_"
#define SERIES                            "<<.Series>>{<<.LabelMatchers>>}"
#define RATE(series)                      "rate(" series "[@])"
// A pod can serve several models, whose shares and latencies do not add up.
#define LEVELS_OF_ENGINES "^gpuscale_inference_(kv_used_ratio|(ttft|itl)_p90_seconds|sleeping)$"
// A pod has its own series beside those of its containers, with the same total.
#define CONTAINERS                           "<<.Series>>{<<.LabelMatchers>>,container!~\"|POD\"}"
#define OF_CONTAINERS(of_containers, of_pod) of_containers ") or sum by (<<.GroupBy>>) (" of_pod

// The last matching rule wins: a name that a series has itself. @: the window of rates.
static const char rules[] = "rules:\n" RULE("", "^container_(.*)_seconds_total$", "",
                                            OF_CONTAINERS(RATE(CONTAINERS), RATE(SERIES)))
    RULE(NOT("_seconds_total$"), "^container_(.*)_total$", "",
         OF_CONTAINERS(RATE(CONTAINERS), RATE(SERIES)))
        RULE(NOT("_total$"), "^container_(.*)$", "", OF_CONTAINERS(CONTAINERS, SERIES))
            RULE(NOT(CONTAINER), "^(.*)_seconds_total$", "", RATE(SERIES))
                RULE(NOT(CONTAINER) ", " NOT("_seconds_total$"), "^(.*)_total$", "", RATE(SERIES))
                    RULE(NOT(CONTAINER) ", " NOT("_total$"), "", "", SERIES)
                        RULE_OF("max", "{is: '" LEVELS_OF_ENGINES "'}", "", "", SERIES);

char *provider_pod_series_rules(int64_t window_ms)
{
    bool seconds = window_ms % 1000 == 0;
    GS_AUTO_FREE char *window =
        gs_format("%lld%s", (long long)window_ms / (seconds ? 1000 : 1), seconds ? "s" : "ms");
    struct gs_buf out = {0};
    const char *at = rules;
    for (const char *end; (end = strchr(at, '@')); at = end + 1) {
        gs_buf_add(&out, at, (size_t)(end - at));
        gs_buf_add_str(&out, window);
    }
    gs_buf_add_str(&out, at);
    return gs_buf_take(&out);
}

// Values that do not add up: the workload has that of its worst pod.
static const char *const levels[] = {"_ratio", "_percent", "_perc", "_seconds", "_celsius"};

enum provider_aggregate provider_pod_series_aggregate(const char *metric)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(levels); i++)
        if (gs_slice_ends(gs_slice_of(metric), levels[i]))
            return PROVIDER_MAX;
    return PROVIDER_SUM;
}
