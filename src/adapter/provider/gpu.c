// SPDX-License-Identifier: Apache-2.0
#include "adapter/provider/gpu.h"

#include <string.h>

// Whose a series is stands in one of several pairs of labels. Of one device there are several lines
// when it is shared: the device's own and each pod's. GPU_UTIL and FB_USED are then each pod's
// part, which are added up for a namespace; other families repeat the device's value, which counts
// once. Processes are added up. So each device has one value for an object; devices are averaged
// for levels and added up for amounts. A node's line of a device is the one without a pod, and no
// pod's part is more.
#define AMOUNTS                                                                                    \
    "MEM_USED|MEM_ALLOCATED|FB_USED|FB_FREE|FB_TOTAL|FB_RESERVED|POWER_USAGE|ENERGY|ERRORS|"       \
    "_COUNT|_total$|_bytes$"
#define PROCESS      "^DCGM_CUSTOM_(PROCESS|CONTAINER)_"
#define PARTS        "^DCGM_FI_DEV_(GPU_UTIL|FB_USED)$"
#define DEVICE       "UUID, gpu, GPU_I_ID"
#define MATCHING     "<<.Series>>{<<.LabelMatchers>>}"
#define OF_DEVICES   "max by (<<.GroupBy>>, " DEVICE ") (" MATCHING ")"
#define OF_PROCESSES "sum by (<<.GroupBy>>, " DEVICE ") (" MATCHING ")"
#define OF_PARTS(pod, ns, container)                                                               \
    "sum by (<<.GroupBy>>, " DEVICE ") (max by (" pod ", " ns ", " container ", " DEVICE           \
    ") (" MATCHING "))"

#define RULE(match, overrides, filters, query)                                                     \
    "- seriesQuery: \"{__name__=~'DCGM_(FI|CUSTOM|EXP)_.+'" match "}\"\n"                          \
    "  seriesFilters: [" filters "]\n"                                                             \
    "  resources: {overrides: {" overrides "}}\n"                                                  \
    "  metricsQuery: " query "\n"
#define IS(pattern)     "{is: '" pattern "'}"
#define IS_NOT(pattern) "{isNot: '" pattern "'}"

// A later rule counts where several fit: what is said of a part of the names stands behind.
#define RULES(match, overrides, parts)                                                             \
    RULE(match, overrides, IS_NOT(PROCESS), "avg by (<<.GroupBy>>) (" OF_DEVICES ")")              \
    RULE(match, overrides, IS_NOT(PROCESS) ", " IS(AMOUNTS),                                       \
         "sum by (<<.GroupBy>>) (" OF_DEVICES ")")                                                 \
    RULE(match, overrides, IS(PARTS), "avg by (<<.GroupBy>>) (clamp_max(" parts ", 100))")         \
    RULE(match, overrides, IS(PARTS) ", " IS(AMOUNTS), "sum by (<<.GroupBy>>) (" parts ")")        \
    RULE(match, overrides, IS(PROCESS),                                                            \
         "avg by (<<.GroupBy>>) (clamp_max(" OF_PROCESSES ", 100))")                               \
    RULE(match, overrides, IS(PROCESS) ", " IS(AMOUNTS), "sum by (<<.GroupBy>>) (" MATCHING ")")

#define POD_RULES(pod, ns, container)                                                              \
    RULES("," pod "!=''," ns "!=''", pod ": {resource: pod}, " ns ": {resource: namespace}",       \
          OF_PARTS(pod, ns, container))
#define NODE_RULES(node) RULES("," node "!=''", node ": {resource: node}", OF_DEVICES)

const char *gpu_rules(void)
{
    return "rules:\n" NODE_RULES("Hostname") NODE_RULES("hostname") NODE_RULES("NodeName")
        POD_RULES("pod", "namespace", "container")
            POD_RULES("exported_pod", "exported_namespace", "exported_container")
                POD_RULES("PodName", "NamespaceName", "ContainerName");
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
        {"apps", "deployments", "Deployment", 1, 1},
        {"apps", "replicasets", "ReplicaSet", 1, 1},
        {"apps", "statefulsets", "StatefulSet", 1, 1},
        {"apps", "daemonsets", "DaemonSet", 1, 1},
        {"batch", "jobs", "Job", 1, 1},
        {"", "services", "Service", 0, 0},
    };
    return i < GS_ARRAY_LEN(list) ? &list[i] : NULL;
}
