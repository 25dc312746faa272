// SPDX-License-Identifier: Apache-2.0
// The built-in rules for metrics of GPU exporters and of the activator, and for the decisions of
// latency targets, as a configuration in prometheus-adapter's format.
#include "adapter/provider/provider.h"

#include <string.h>

// One of several pairs of labels names the pod of a series. Several jobs or exporters may export
// the same device, with different target labels (job, instance, host names, pod labels). Series are
// therefore matched by device and pod, and equal ones count once.
//
// A shared device has several series: one of the device and one of each pod.
//  - Utilization and FB_USED: each pod has its share, and a namespace has the sum. An exporter that
//    cannot attribute shares repeats the device's value for each pod. No share exceeds this value,
//    so the minimum of two values of a share is correct.
//  - Other families repeat the device's value, which counts once. MIG devices repeat values that
//    only the whole GPU has.
//  - Processes are added up, and so are the kinds of counted events, which are separate series.
//  - The compute instances of a GPU instance share its memory, and may repeat its values. Levels
//    are averaged over them. Of FB_USED the maximum counts. Memory of processes is added up.
// As a result each device has one value for an object. Devices are averaged for levels and added up
// for amounts. A node uses the series of a device without a pod; no pod's share exceeds it.
#define AMOUNTS_OF_GPUS    "POWER_USAGE|BOARD_POWER_WATTS|ENERGY|ERRORS|_COUNT|_total$|_bytes$"
#define AMOUNTS_OF_DEVICES "MEM_USED|MEM_ALLOCATED|FB_USED|FB_FREE|FB_TOTAL|FB_CAPACITY|FB_RESERVED"
#define RATIOS             "PERCENT|RATIO"
#define PROCESS            "^DCGM_CUSTOM_(ILLEGAL_)?PROCESS_"
#define CONTAINER          "^DCGM_CUSTOM_CONTAINER_"
#define NOT_OF_DEVICES     PROCESS "|" CONTAINER
#define EVENTS             "^DCGM_EXP_(XID_ERRORS|CLOCK_EVENTS)_(COUNT|TOTAL)$"
#define PARTS                                                                                      \
    "^DCGM_FI_DEV_(GPU_UTIL|MEM_COPY_UTIL|ENC_UTIL|DEC_UTIL|FB_USED|(GPU|MEMORY|ENC|DEC)_UTIL_"    \
    "RATIO|FB_USED_BYTES)$"

// Exporters may number devices differently, so the number is used only without a UUID.
#define GPU      "UUID, gpu"
#define DEVICE   GPU ", GPU_I_ID"
#define INSTANCE DEVICE ", GPU_CI_ID"
#define MATCHING(of)                                                                               \
    "label_replace(label_join(" of ", 'UUID', '', 'UUID', 'uuid'), 'gpu', '', 'UUID', '.+')"
#define SERIES   "<<.Series>>{<<.LabelMatchers>>}"
#define GROUP_BY "<<.GroupBy>>, "
// The label pod of a GPU without a pod is that of the scraped exporter (metrics/gpu_owner.h), which
// is also a label of its series up.
#define USED        SERIES " unless on (job, instance, namespace, pod) up{pod!=''}"
#define OF_GPUS(of) "max by (" GROUP_BY GPU ") (" MATCHING(of) ")"
#define OF_EVENTS(of)                                                                              \
    "sum by (" GROUP_BY GPU ") (max by (" GROUP_BY GPU ", xid, clock_event) (" MATCHING(of) "))"
#define OF_DEVICES(of) "max by (" GROUP_BY DEVICE ") (" MATCHING(of) ")"
// One value for each compute instance. Only divided GPU instances have the label GPU_CI_ID.
#define OF_INSTANCES(of)      "max by (" GROUP_BY INSTANCE ") (" MATCHING(of) ")"
#define OF_PROCESSES(of)      SUM_OF("max by (" GROUP_BY INSTANCE ", ProcessId) (" MATCHING(of) ")")
#define OF_CONTAINERS(of, by) SUM_OF("max by (" by ", " INSTANCE ") (" MATCHING(of) ")")
#define OF_PARTS(of, by)      SUM_OF("min by (" by ", " INSTANCE ") (" MATCHING(of) ")")
#define SUM_OF(lines)         "sum by (" GROUP_BY INSTANCE ") (" lines ")"
// One value for each device.
#define MEAN(instances)    "avg by (" GROUP_BY DEVICE ") (" instances ")"
#define LARGEST(instances) "max by (" GROUP_BY DEVICE ") (" instances ")"

#define RULE(match, overrides, filters, query)                                                     \
    "- seriesQuery: \"{__name__=~'DCGM_(FI|CUSTOM|EXP)_.+'" match "}\"\n"                          \
    "  seriesFilters: [" filters "]\n"                                                             \
    "  resources: {overrides: {" overrides "}}\n"                                                  \
    "  metricsQuery: " query "\n"
#define IS(pattern)       "{is: '" pattern "'}"
#define IS_NOT(pattern)   "{isNot: '" pattern "'}"
#define IS_AMOUNT(amount) IS(amount) ", " IS_NOT(RATIOS)
#define TOTAL(values)     "sum by (<<.GroupBy>>) (" values ")"
#define AVERAGE(values)   "avg by (<<.GroupBy>>) (" values ")"
#define AT_MOST_100(v)    "clamp_max(" v ", 100)"

// The last matching rule wins, so rules for fewer names come later.
#define RULES(match, overrides, of, parts, containers)                                             \
    RULE(match, overrides, IS_NOT(NOT_OF_DEVICES), AVERAGE(MEAN(OF_INSTANCES(of))))                \
    RULE(match, overrides, IS_NOT(NOT_OF_DEVICES) ", " IS_AMOUNT(AMOUNTS_OF_GPUS),                 \
         TOTAL(OF_GPUS(of)))                                                                       \
    RULE(match, overrides, IS(EVENTS), TOTAL(OF_EVENTS(of)))                                       \
    RULE(match, overrides, IS_NOT(NOT_OF_DEVICES) ", " IS_AMOUNT(AMOUNTS_OF_DEVICES),              \
         TOTAL(OF_DEVICES(of)))                                                                    \
    RULE(match, overrides, IS(PARTS), AVERAGE(MEAN(AT_MOST_100(parts))))                           \
    RULE(match, overrides, IS(PARTS) ", " IS(AMOUNTS_OF_DEVICES), TOTAL(LARGEST(parts)))           \
    RULE(match, overrides, IS(PROCESS), AVERAGE(MEAN(AT_MOST_100(OF_PROCESSES(of)))))              \
    RULE(match, overrides, IS(PROCESS) ", " IS(AMOUNTS_OF_DEVICES), TOTAL(OF_PROCESSES(of)))       \
    RULE(match, overrides, IS(CONTAINER), AVERAGE(MEAN(AT_MOST_100(containers))))                  \
    RULE(match, overrides, IS(CONTAINER) ", " IS(AMOUNTS_OF_DEVICES), TOTAL(containers))

#define POD_RULES(of, pod, ns, container)                                                          \
    RULES("," pod "!=''," ns "!=''", pod ": {resource: pod}, " ns ": {resource: namespace}", of,   \
          OF_PARTS(of, pod ", " ns ", " container), OF_CONTAINERS(of, pod ", " ns ", " container))
#define NODE_RULES(node)                                                                           \
    RULES("," node "!=''", node ": {resource: node}", SERIES, OF_INSTANCES(SERIES),                \
          OF_CONTAINERS(SERIES, node ", PodName, NamespaceName, ContainerName"))

// Decisions of `gpuscale hpa` about an autoscaler, as metrics of it, of its target, and as external
// metrics. Several replicas of the controller have equal series.
#define DECISIONS                                                                                  \
    "- seriesQuery: \"{__name__=~'gpuscale_(desired_replicas|slo_pressure)',namespace!='',"        \
    "horizontalpodautoscaler!=''}\"\n"
#define DECISION_RULE                                                                              \
    DECISIONS "  resources: {overrides: {namespace: {resource: namespace}, "                       \
              "horizontalpodautoscaler: {group: autoscaling, resource: horizontalpodautoscaler}, " \
              "deployment: {group: apps, resource: deployment}, "                                  \
              "statefulset: {group: apps, resource: statefulset}}}\n"                              \
              "  metricsQuery: max by (<<.GroupBy>>) (" SERIES ")\n"
#define EXTERNAL_DECISION_RULE                                                                     \
    DECISIONS "  resources: {overrides: {namespace: {resource: namespace}}}\n"                     \
              "  metricsQuery: max by (namespace, horizontalpodautoscaler) (" SERIES ")\n"

// What waits at activators for the pods of a Service, as metrics of it, and as external metrics
// with the label service. Each connection is at one activator only.
#define ACTIVATOR_RULE(resources, names, name, query)                                              \
    "- seriesQuery: \"{__name__=~'gpuscale_activator_" names "',namespace!='',service!=''}\"\n"    \
    "  name: {matches: '" name "', as: ''}\n"                                                      \
    "  resources: {overrides: {namespace: {resource: namespace}" resources "}}\n"                  \
    "  metricsQuery: " query "\n"
#define ACTIVATOR_RULES(resources, by)                                                             \
    ACTIVATOR_RULE(resources, "(waiting|silent|open|active)", "", "sum by (" by ") (" SERIES ")")  \
    ACTIVATOR_RULE(resources, "oldest_wait_seconds", "", "max by (" by ") (" SERIES ")")           \
    ACTIVATOR_RULE(resources, "(arrivals|released|rejected)_total", "^(.*)_total$",                \
                   "sum by (" by ") (rate(" SERIES "[1m]))")
#define SERVICE_ACTIVATOR_RULES  ACTIVATOR_RULES(", service: {resource: service}", "<<.GroupBy>>")
#define EXTERNAL_ACTIVATOR_RULES ACTIVATOR_RULES("", "namespace, service")

const char *provider_gpu_rules(void)
{
    return "rules:\n" NODE_RULES("Hostname") NODE_RULES("hostname") NODE_RULES("NodeName")
        POD_RULES(SERIES, "pod_name", "pod_namespace", "container_name")
            POD_RULES(USED, "pod", "namespace", "container")
                POD_RULES(SERIES, "exported_pod", "exported_namespace", "exported_container")
                    POD_RULES(SERIES, "PodName", "NamespaceName", "ContainerName")
                        SERVICE_ACTIVATOR_RULES DECISION_RULE
        "externalRules:\n" EXTERNAL_DECISION_RULE EXTERNAL_ACTIVATOR_RULES;
}

bool provider_gpu_name(const char *metric)
{
    return gs_starts(metric, "DCGM_FI_") || gs_starts(metric, "DCGM_CUSTOM_") ||
           gs_starts(metric, "DCGM_EXP_");
}

struct gs_slice provider_gpu_metric(const char *name, enum provider_aggregate *ret_aggregate)
{
    static const struct {
        const char *suffix;
        enum provider_aggregate aggregate;
    } suffixes[] = {{"_MAX", PROVIDER_MAX}, {"_MIN", PROVIDER_MIN}, {"_AVG", PROVIDER_AVERAGE}};
    struct gs_slice s = gs_slice_of(name);
    *ret_aggregate = PROVIDER_AVERAGE;
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
        size_t n = strlen(suffixes[i].suffix);
        if (s.len > n && gs_slice_ends(s, suffixes[i].suffix)) {
            *ret_aggregate = suffixes[i].aggregate;
            s.len -= n;
            break;
        }
    }
    return s;
}

double provider_aggregate_values(enum provider_aggregate how, double so_far, double v, size_t n)
{
    if (n == 0)
        return v;
    switch (how) {
    case PROVIDER_MAX:
        return v > so_far ? v : so_far;
    case PROVIDER_MIN:
        return v < so_far ? v : so_far;
    case PROVIDER_SUM:
        return so_far + v;
    case PROVIDER_AVERAGE:
        break;
    }
    return so_far + (v - so_far) / (double)(n + 1);
}

const struct provider_workload_kind *provider_workload_kind_nth(size_t i)
{
    static const struct provider_workload_kind list[] = {
        {"apps", "deployments", "Deployment", 1, 1},
        {"apps", "replicasets", "ReplicaSet", 1, 1},
        {"apps", "statefulsets", "StatefulSet", 1, 1},
        {"apps", "daemonsets", "DaemonSet", 1, 1},
        {"batch", "jobs", "Job", 1, 1},
        {"", "services", "Service", 0, 0},
    };
    return i < GS_ARRAY_LEN(list) ? &list[i] : NULL;
}
