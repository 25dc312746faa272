// SPDX-License-Identifier: Apache-2.0
// Option rows that several commands share. `at` is the name of a macro that turns the name of a
// field into its offset in the command's option struct. `heading` is the group in the help.
#pragma once

#include "base/clock.h"
#include "base/option.h"

#define CMD_AUTOSCALER_FLAGS "Autoscaler flags (as kube-controller-manager's)"

// Field: kubeconfig.
#define CMD_KUBECONFIG_ROW(at)                                                                     \
    {                                                                                              \
        .name = "kubeconfig", .arg = "FILE", .type = GS_OPT_STRING, at(kubeconfig),                \
        .help = "The cluster. Default: KUBECONFIG, the cluster in which gpuscale runs, or "        \
                "~/.kube/config."                                                                  \
    }

// Field: sync_period. `period` is the default.
#define CMD_SYNC_PERIOD_ROW(at, heading, period)                                                   \
    {                                                                                              \
        .name = "horizontal-pod-autoscaler-sync-period", .arg = "DURATION", .def = (period),       \
        .type = GS_OPT_DURATION, .min = GS_NS_PER_SEC, at(sync_period), .group = (heading),        \
        .help = "Interval between evaluations of each HorizontalPodAutoscaler. The default of "    \
                "kube-controller-manager is 15s."                                                  \
    }

// Fields: downscale_window, tolerance, cpu_init_period, readiness_delay.
#define CMD_AUTOSCALER_ROWS(at, heading)                                                           \
    {.name = "horizontal-pod-autoscaler-downscale-stabilization",                                  \
     .arg = "DURATION",                                                                            \
     .def = "5m",                                                                                  \
     .type = GS_OPT_DURATION,                                                                      \
     at(downscale_window),                                                                         \
     .group = (heading),                                                                           \
     .help = "Time during which the highest recommendation prevents a scale-down."},               \
        {.name = "horizontal-pod-autoscaler-tolerance",                                            \
         .arg = "RATIO",                                                                           \
         .def = "0.1",                                                                             \
         .type = GS_OPT_DOUBLE,                                                                    \
         at(tolerance),                                                                            \
         .group = (heading),                                                                       \
         .help = "Distance of the metric ratio from 1 within which nothing is scaled."},           \
        {.name = "horizontal-pod-autoscaler-cpu-initialization-period",                            \
         .arg = "DURATION",                                                                        \
         .def = "5m",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(cpu_init_period),                                                                      \
         .group = (heading),                                                                       \
         .help = "Time after a pod's start during which CPU samples from before it was ready are " \
                 "ignored."},                                                                      \
    {                                                                                              \
        .name = "horizontal-pod-autoscaler-initial-readiness-delay", .arg = "DURATION",            \
        .def = "30s", .type = GS_OPT_DURATION, at(readiness_delay), .group = (heading),            \
        .help = "Time after a pod's start during which changes of its readiness count as part of " \
                "the start.",                                                                      \
    }

#define CMD_NODE_AUTOSCALER_FLAGS "Node autoscaler flags (as cluster-autoscaler's)"

// Fields of struct autoscaler_settings (autoscaler/autoscaler.h). The defaults are those of
// autoscaler_settings_init().
#define CMD_NODE_AUTOSCALER_ROWS(at, heading)                                                      \
    {.name = "scan-interval",                                                                      \
     .arg = "DURATION",                                                                            \
     .def = "10s",                                                                                 \
     .type = GS_OPT_DURATION,                                                                      \
     at(scan_interval),                                                                            \
     .group = (heading),                                                                           \
     .help = "Interval between runs of the node autoscaler. A run also follows soon after a pod "  \
             "turned out to be unschedulable."},                                                   \
        {.name = "expander",                                                                       \
         .arg = "POLICY",                                                                          \
         .def = "cost",                                                                            \
         .type = GS_OPT_STRING,                                                                    \
         at(expander),                                                                             \
         .group = (heading),                                                                       \
         .help =                                                                                   \
             "Choice among pools: cost, speed, packing, or a model of an expander of the Cluster " \
             "Autoscaler: least-waste, least-nodes, most-pods, price, priority, random. The "      \
             "default of the Cluster Autoscaler is least-waste, which ignores GPUs."},             \
        {.name = "max-nodes-total",                                                                \
         .arg = "NUMBER",                                                                          \
         .def = "0",                                                                               \
         .type = GS_OPT_INT,                                                                       \
         at(max_nodes_total),                                                                      \
         .group = (heading),                                                                       \
         .max = 1000000,                                                                           \
         .help = "Maximum number of nodes. 0: no limit."},                                         \
        {.name = "max-nodes-per-scaleup",                                                          \
         .arg = "NUMBER",                                                                          \
         .def = "1000",                                                                            \
         .type = GS_OPT_INT,                                                                       \
         at(max_nodes_per_scale_up),                                                               \
         .group = (heading),                                                                       \
         .min = 1,                                                                                 \
         .max = 100000,                                                                            \
         .help = "Maximum number of nodes that one run adds."},                                    \
        {.name = "max-node-provision-time",                                                        \
         .arg = "DURATION",                                                                        \
         .def = "15m",                                                                             \
         .type = GS_OPT_DURATION,                                                                  \
         at(max_provision_time),                                                                   \
         .group = (heading),                                                                       \
         .help = "Time after which a machine that has not registered as a node is given up."},     \
        {.name = "max-node-startup-time",                                                          \
         .arg = "DURATION",                                                                        \
         .def = "15m",                                                                             \
         .type = GS_OPT_DURATION,                                                                  \
         at(max_startup_time),                                                                     \
         .group = (heading),                                                                       \
         .help = "Time after which a registered node that is not ready, or whose GPUs are not "    \
                 "allocatable, counts as unready."},                                               \
        {.name = "initial-node-group-backoff-duration",                                            \
         .arg = "DURATION",                                                                        \
         .def = "5m",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(backoff_initial),                                                                      \
         .group = (heading),                                                                       \
         .help = "Pause of a pool after a failed scale-up. Each further failure doubles it."},     \
        {.name = "max-node-group-backoff-duration",                                                \
         .arg = "DURATION",                                                                        \
         .def = "30m",                                                                             \
         .type = GS_OPT_DURATION,                                                                  \
         at(backoff_max),                                                                          \
         .group = (heading),                                                                       \
         .help = "Maximum pause of a pool after failed scale-ups."},                               \
        {.name = "node-group-backoff-reset-timeout",                                               \
         .arg = "DURATION",                                                                        \
         .def = "3h",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(backoff_reset),                                                                        \
         .group = (heading),                                                                       \
         .help = "Time after the last failure when failures of a pool are forgotten."},            \
        {.name = "new-pod-scale-up-delay",                                                         \
         .arg = "DURATION",                                                                        \
         .def = "0s",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(new_pod_scale_up_delay),                                                               \
         .group = (heading),                                                                       \
         .help = "Pods younger than this trigger no scale-up."},                                   \
        {.name = "expendable-pods-priority-cutoff",                                                \
         .arg = "NUMBER",                                                                          \
         .def = "-10",                                                                             \
         .type = GS_OPT_INT,                                                                       \
         at(expendable_priority),                                                                  \
         .group = (heading),                                                                       \
         .help = "Pods with a lower priority trigger no scale-up and keep no node."},              \
        {.name = "enforce-node-group-min-size",                                                    \
         .type = GS_OPT_BOOL,                                                                      \
         at(enforce_min_size),                                                                     \
         .group = (heading),                                                                       \
         .help = "Add machines to a pool that is below its minimum size."},                        \
        {.name = "max-total-unready-percentage",                                                   \
         .arg = "NUMBER",                                                                          \
         .def = "45",                                                                              \
         .type = GS_OPT_DOUBLE,                                                                    \
         at(max_unready_percentage),                                                               \
         .group = (heading),                                                                       \
         .help = "Above this share of unready nodes nothing is scaled."},                          \
        {.name = "ok-total-unready-count",                                                         \
         .arg = "NUMBER",                                                                          \
         .def = "3",                                                                               \
         .type = GS_OPT_INT,                                                                       \
         at(ok_unready_count),                                                                     \
         .group = (heading),                                                                       \
         .max = 1000000,                                                                           \
         .help = "This number of unready nodes is allowed, whatever their share is."},             \
        {.name = "scale-down-enabled",                                                             \
         .def = "true",                                                                            \
         .type = GS_OPT_BOOL,                                                                      \
         at(scale_down),                                                                           \
         .group = (heading),                                                                       \
         .help = "Remove nodes that are not needed."},                                             \
        {.name = "scale-down-unneeded-time",                                                       \
         .arg = "DURATION",                                                                        \
         .def = "10m",                                                                             \
         .type = GS_OPT_DURATION,                                                                  \
         at(unneeded_time),                                                                        \
         .group = (heading),                                                                       \
         .help = "How long a node must be unneeded before it is removed."},                        \
        {.name = "scale-down-unready-time",                                                        \
         .arg = "DURATION",                                                                        \
         .def = "20m",                                                                             \
         .type = GS_OPT_DURATION,                                                                  \
         at(unready_time),                                                                         \
         .group = (heading),                                                                       \
         .help = "The same for a node that is not ready."},                                        \
        {.name = "scale-down-delay-after-add",                                                     \
         .arg = "DURATION",                                                                        \
         .def = "10m",                                                                             \
         .type = GS_OPT_DURATION,                                                                  \
         at(delay_after_add),                                                                      \
         .group = (heading),                                                                       \
         .help = "Time after a scale-up during which no node is removed."},                        \
        {.name = "scale-down-delay-after-delete",                                                  \
         .arg = "DURATION",                                                                        \
         .def = "0s",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(delay_after_delete),                                                                   \
         .group = (heading),                                                                       \
         .help = "Time after the removal of a node during which no other is removed."},            \
        {.name = "scale-down-delay-after-failure",                                                 \
         .arg = "DURATION",                                                                        \
         .def = "3m",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(delay_after_failure),                                                                  \
         .group = (heading),                                                                       \
         .help = "Time after a failed removal during which no node is removed."},                  \
        {.name = "scale-down-utilization-threshold",                                               \
         .arg = "SHARE",                                                                           \
         .def = "0.5",                                                                             \
         .type = GS_OPT_DOUBLE,                                                                    \
         at(utilization_threshold),                                                                \
         .group = (heading),                                                                       \
         .help = "A node without GPUs may be removed if its pods request at most this share of "   \
                 "its CPU and of its memory."},                                                    \
        {.name = "scale-down-gpu-utilization-threshold",                                           \
         .arg = "SHARE",                                                                           \
         .def = "0.5",                                                                             \
         .type = GS_OPT_DOUBLE,                                                                    \
         at(gpu_utilization_threshold),                                                            \
         .group = (heading),                                                                       \
         .help = "A node with GPUs may be removed if its pods request at most this share of "      \
                 "them. CPU and memory do not count."},                                            \
        {.name = "max-scale-down-parallelism",                                                     \
         .arg = "NUMBER",                                                                          \
         .def = "10",                                                                              \
         .type = GS_OPT_INT,                                                                       \
         at(max_parallelism),                                                                      \
         .group = (heading),                                                                       \
         .min = 1,                                                                                 \
         .max = 100000,                                                                            \
         .help = "Maximum number of nodes that are being removed at the same time."},              \
        {.name = "max-drain-parallelism",                                                          \
         .arg = "NUMBER",                                                                          \
         .def = "1",                                                                               \
         .type = GS_OPT_INT,                                                                       \
         at(max_drain_parallelism),                                                                \
         .group = (heading),                                                                       \
         .min = 1,                                                                                 \
         .max = 100000,                                                                            \
         .help = "Maximum number of nodes with pods that are being removed at the same time."},    \
        {.name = "max-graceful-termination-sec",                                                   \
         .arg = "SECONDS",                                                                         \
         .def = "600",                                                                             \
         .type = GS_OPT_INT,                                                                       \
         at(max_graceful_termination_s),                                                           \
         .group = (heading),                                                                       \
         .max = 1000000,                                                                           \
         .help = "Maximum grace period of pods when their node is removed."},                      \
        {.name = "max-pod-eviction-time",                                                          \
         .arg = "DURATION",                                                                        \
         .def = "2m",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(max_eviction_time),                                                                    \
         .group = (heading),                                                                       \
         .help = "How long the eviction of a pod is tried."},                                      \
        {.name = "node-delete-delay-after-taint",                                                  \
         .arg = "DURATION",                                                                        \
         .def = "5s",                                                                              \
         .type = GS_OPT_DURATION,                                                                  \
         at(delay_after_taint),                                                                    \
         .group = (heading),                                                                       \
         .help = "Time between the taint of a node and its removal."},                             \
        {.name = "max-bulk-soft-taint-count",                                                      \
         .arg = "NUMBER",                                                                          \
         .def = "10",                                                                              \
         .type = GS_OPT_INT,                                                                       \
         at(max_soft_taints),                                                                      \
         .group = (heading),                                                                       \
         .max = 1000000,                                                                           \
         .help = "Maximum number of nodes that get or lose the taint "                             \
                 "DeletionCandidateOfClusterAutoscaler in one run."},                              \
        {.name = "ignore-daemonsets-utilization",                                                  \
         .type = GS_OPT_BOOL,                                                                      \
         at(ignore_daemonset_utilization),                                                         \
         .group = (heading),                                                                       \
         .help = "Leave out pods of DaemonSets when the utilization of a node is computed."},      \
        {.name = "daemonset-eviction-for-occupied-nodes",                                          \
         .def = "true",                                                                            \
         .type = GS_OPT_BOOL,                                                                      \
         at(evict_daemonsets),                                                                     \
         .group = (heading),                                                                       \
         .help = "Evict pods of DaemonSets, too, from a node that is removed with pods."},         \
        {.name = "skip-nodes-with-local-storage",                                                  \
         .def = "true",                                                                            \
         .type = GS_OPT_BOOL,                                                                      \
         at(skip_local_storage),                                                                   \
         .group = (heading),                                                                       \
         .help = "Keep nodes whose pods use emptyDir or hostPath volumes."},                       \
        {.name = "balance-similar-node-groups",                                                    \
         .type = GS_OPT_BOOL,                                                                      \
         at(balance_similar),                                                                      \
         .group = (heading),                                                                       \
         .help = "Divide new nodes among pools that differ only in their names and zones, so "     \
                 "that their sizes become equal."},                                                \
        {.name = "early-cordon",                                                                   \
         .type = GS_OPT_BOOL,                                                                      \
         at(early_cordon),                                                                         \
         .group = (heading),                                                                       \
         .help = "Cordon idle nodes with several GPUs while a smaller node is cheaper for "        \
                 "smaller pods. A pod that needs the node ends the cordon. Not a flag of the "     \
                 "Cluster Autoscaler."},                                                           \
        {.name = "consolidation",                                                                  \
         .type = GS_OPT_BOOL,                                                                      \
         at(consolidation),                                                                        \
         .group = (heading),                                                                       \
         .help = "Move pods to nodes that are in use or smaller, add a smaller node if it is "     \
                 "cheaper, and remove the nodes that become empty. Not a flag of the Cluster "     \
                 "Autoscaler."},                                                                   \
    {                                                                                              \
        .name = "skip-nodes-with-system-pods", .def = "true", .type = GS_OPT_BOOL,                 \
        at(skip_system_pods), .group = (heading),                                                  \
        .help = "Keep nodes with pods of the namespace kube-system, except those of DaemonSets."   \
    }

// Fields of struct engine_receivers (engine/engine.h).
#define CMD_RECEIVER_ROWS(at, heading)                                                             \
    {.name = "web.enable-remote-write-receiver",                                                   \
     .type = GS_OPT_BOOL,                                                                          \
     at(write),                                                                                    \
     .group = (heading),                                                                           \
     .help = "Store samples that others push with remote write to /api/v1/write."},                \
        {.name = "web.remote-write-receiver.accepted-protobuf-messages",                           \
         .arg = "NAME",                                                                            \
         .type = GS_OPT_STRINGS,                                                                   \
         at(messages),                                                                             \
         .group = (heading),                                                                       \
         .help = "Message that it accepts: prometheus.WriteRequest or "                            \
                 "io.prometheus.write.v2.Request. Repeatable. Default: both."},                    \
    {                                                                                              \
        .name = "web.enable-otlp-receiver", .type = GS_OPT_BOOL, at(otlp), .group = (heading),     \
        .help = "Store metrics that others push with OTLP to /api/v1/otlp/v1/metrics."             \
    }
