// SPDX-License-Identifier: Apache-2.0
#include "adapter/provider/gpu.h"

#include <string.h>

// Whose a series is stands in one of three pairs of labels; processes on one device are added up,
// and never pass 100 % there; devices are averaged for levels and added up for amounts.
#define AMOUNTS                                                                                    \
    "(MEM_USED|MEM_ALLOCATED|FB_USED|FB_FREE|FB_TOTAL|FB_RESERVED|POWER_USAGE|ENERGY|ERRORS|"      \
    "_COUNT|_total$|_bytes$)"
#define DEVICES "{__name__=~'DCGM_(FI|CUSTOM|EXP)_.+'"
#define RULES(match, pod, ns, extra)                                                               \
    "- seriesQuery: \"" DEVICES match "}\"\n"                                                      \
    "  seriesFilters: [{isNot: '" AMOUNTS "'}]\n"                                                  \
    "  resources:\n"                                                                               \
    "    overrides: {" pod ns extra "}\n"                                                          \
    "  metricsQuery: avg by (<<.GroupBy>>) (sum by (<<.GroupBy>>, UUID, gpu) "                     \
    "(<<.Series>>{<<.LabelMatchers>>}))\n"                                                         \
    "- seriesQuery: \"" DEVICES match "}\"\n"                                                      \
    "  seriesFilters: [{is: '_UTIL$'}]\n"                                                          \
    "  resources:\n"                                                                               \
    "    overrides: {" pod ns extra "}\n"                                                          \
    "  metricsQuery: avg by (<<.GroupBy>>) (clamp_max(sum by (<<.GroupBy>>, UUID, gpu) "           \
    "(<<.Series>>{<<.LabelMatchers>>}), 100))\n"                                                   \
    "- seriesQuery: \"" DEVICES match "}\"\n"                                                      \
    "  seriesFilters: [{is: '" AMOUNTS "'}]\n"                                                     \
    "  resources:\n"                                                                               \
    "    overrides: {" pod ns extra "}\n"                                                          \
    "  metricsQuery: sum by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})\n"

const char *gpu_rules(void)
{
    return "rules:\n" RULES(",Hostname!=''", "", "", "Hostname: {resource: node}")
        RULES(",NodeName!=''", "", "", "NodeName: {resource: node}")
            RULES(",pod!='',namespace!=''", "pod: {resource: pod}, ",
                  "namespace: {resource: namespace}", "")
                RULES(",exported_pod!='',exported_namespace!=''", "exported_pod: {resource: pod}, ",
                      "exported_namespace: {resource: namespace}", "")
                    RULES(",PodName!='',NamespaceName!=''", "PodName: {resource: pod}, ",
                          "NamespaceName: {resource: namespace}", "");
}

struct gs_slice gpu_metric(const char *name, enum gpu_fold *ret_fold)
{
    static const struct {
        const char *suffix;
        enum gpu_fold fold;
    } known[] = {{"_MAX", GPU_MAX}, {"_MIN", GPU_MIN}, {"_AVG", GPU_AVERAGE}};
    struct gs_slice s = gs_slice_of(name);
    *ret_fold = GPU_AVERAGE;
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++) {
        size_t n = strlen(known[i].suffix);
        if (s.len > n && gs_slice_ends(s, known[i].suffix)) {
            *ret_fold = known[i].fold;
            s.len -= n;
            break;
        }
    }
    return s;
}

double gpu_fold_values(enum gpu_fold fold, double so_far, double v, size_t n)
{
    if (n == 0)
        return v;
    switch (fold) {
    case GPU_MAX:
        return v > so_far ? v : so_far;
    case GPU_MIN:
        return v < so_far ? v : so_far;
    case GPU_AVERAGE:
        break;
    }
    return so_far + (v - so_far) / (double)(n + 1);
}

const struct gpu_owner *gpu_owner_nth(size_t i)
{
    static const struct gpu_owner list[] = {
        {"apps", "deployments", 1}, {"apps", "replicasets", 1}, {"apps", "statefulsets", 1},
        {"apps", "daemonsets", 1},  {"batch", "jobs", 1},       {"", "services", 0},
    };
    return i < GS_ARRAY_LEN(list) ? &list[i] : NULL;
}
