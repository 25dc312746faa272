// SPDX-License-Identifier: Apache-2.0
// Option rows that several commands share. `at` is the name of a macro that turns the name of a
// field into its offset in the command's option struct. `heading` is the group in the help.
#pragma once

#include "base/clock.h"
#include "base/option.h"

#define CMD_AUTOSCALER_FLAGS "Autoscaler flags (as kube-controller-manager's)"

// Field: kubeconfig.
#define CMD_KUBECONFIG_ROW(at)                                                                     \
    GS_OPT("kubeconfig", GS_OPT_STRING, at(kubeconfig), "FILE",                                    \
           .help = "The cluster. Default: KUBECONFIG, the cluster in which gpuscale runs, or "     \
                   "~/.kube/config.")

// Field: sync_period. `period` is the default.
#define CMD_SYNC_PERIOD_ROW(at, heading, period)                                                   \
    GS_OPT("horizontal-pod-autoscaler-sync-period", GS_OPT_DURATION, at(sync_period), "DURATION",  \
           (period), .min = GS_NS_PER_SEC, .group = (heading),                                     \
           .help = "Interval between evaluations of each HorizontalPodAutoscaler. The "            \
                   "default of kube-controller-manager is 15s.")

// Fields: downscale_window, tolerance, cpu_init_period, readiness_delay.
#define CMD_AUTOSCALER_ROWS(at, heading)                                                           \
    GS_OPT("horizontal-pod-autoscaler-downscale-stabilization", GS_OPT_DURATION,                   \
           at(downscale_window), "DURATION", "5m", .group = (heading),                             \
           .help = "Time during which the highest recommendation prevents a scale-down."),         \
        GS_OPT("horizontal-pod-autoscaler-tolerance", GS_OPT_DOUBLE, at(tolerance), "RATIO",       \
               "0.1", .group = (heading),                                                          \
               .help = "Distance of the metric ratio from 1 within which nothing is scaled."),     \
        GS_OPT("horizontal-pod-autoscaler-cpu-initialization-period", GS_OPT_DURATION,             \
               at(cpu_init_period), "DURATION", "5m", .group = (heading),                          \
               .help = "Time after a pod's start during which CPU samples from before it was "     \
                       "ready are ignored."),                                                      \
        GS_OPT("horizontal-pod-autoscaler-initial-readiness-delay", GS_OPT_DURATION,               \
               at(readiness_delay), "DURATION", "30s", .group = (heading),                         \
               .help = "Time after a pod's start during which changes of its readiness count "     \
                       "as part of the start.")

#define CMD_NODE_AUTOSCALER_FLAGS "Node autoscaler flags (as cluster-autoscaler's)"

// Fields of struct autoscaler_settings (autoscaler/autoscaler.h). The defaults are those of
// autoscaler_settings_init().
#define CMD_NODE_AUTOSCALER_ROWS(at, heading)                                                      \
    GS_OPT("scan-interval", GS_OPT_DURATION, at(scan_interval), "DURATION", "10s",                 \
           .group = (heading),                                                                     \
           .help = "Interval between runs of the node autoscaler. A run also follows soon "        \
                   "after a pod turned out to be unschedulable."),                                 \
        GS_OPT("expander", GS_OPT_STRING, at(expander), "POLICY", "cost", .group = (heading),      \
               .help = "Choice among pools: cost, speed, packing, or a model of an expander "      \
                       "of the Cluster Autoscaler: least-waste, least-nodes, most-pods, "          \
                       "price, priority, random. The default of the Cluster Autoscaler is "        \
                       "least-waste, which ignores GPUs."),                                        \
        GS_OPT("max-nodes-total", GS_OPT_INT, at(max_nodes_total), "NUMBER", "0", .max = 1000000,  \
               .group = (heading), .help = "Maximum number of nodes. 0: no limit."),               \
        GS_OPT("max-nodes-per-scaleup", GS_OPT_INT, at(max_nodes_per_scale_up), "NUMBER", "1000",  \
               .min = 1, .max = 100000, .group = (heading),                                        \
               .help = "Maximum number of nodes that one run adds."),                              \
        GS_OPT("max-node-provision-time", GS_OPT_DURATION, at(max_provision_time), "DURATION",     \
               "15m", .group = (heading),                                                          \
               .help =                                                                             \
                   "Time after which a machine that has not registered as a node is given up."),   \
        GS_OPT("max-node-startup-time", GS_OPT_DURATION, at(max_startup_time), "DURATION", "15m",  \
               .group = (heading),                                                                 \
               .help = "Time after which a registered node that is not ready, or whose GPUs "      \
                       "are not allocatable, counts as unready."),                                 \
        GS_OPT("initial-node-group-backoff-duration", GS_OPT_DURATION, at(backoff_initial),        \
               "DURATION", "5m", .group = (heading),                                               \
               .help =                                                                             \
                   "Pause of a pool after a failed scale-up. Each further failure doubles it."),   \
        GS_OPT("max-node-group-backoff-duration", GS_OPT_DURATION, at(backoff_max), "DURATION",    \
               "30m", .group = (heading),                                                          \
               .help = "Maximum pause of a pool after failed scale-ups."),                         \
        GS_OPT("node-group-backoff-reset-timeout", GS_OPT_DURATION, at(backoff_reset), "DURATION", \
               "3h", .group = (heading),                                                           \
               .help = "Time after the last failure when failures of a pool are forgotten."),      \
        GS_OPT("new-pod-scale-up-delay", GS_OPT_DURATION, at(new_pod_scale_up_delay), "DURATION",  \
               "0s", .group = (heading), .help = "Pods younger than this trigger no scale-up."),   \
        GS_OPT("expendable-pods-priority-cutoff", GS_OPT_INT, at(expendable_priority), "NUMBER",   \
               "-10", .group = (heading),                                                          \
               .help = "Pods with a lower priority trigger no scale-up and keep no node."),        \
        GS_OPT("enforce-node-group-min-size", GS_OPT_BOOL, at(enforce_min_size),                   \
               .group = (heading),                                                                 \
               .help = "Add machines to a pool that is below its minimum size."),                  \
        GS_OPT("max-total-unready-percentage", GS_OPT_DOUBLE, at(max_unready_percentage),          \
               "NUMBER", "45", .group = (heading),                                                 \
               .help = "Above this share of unready nodes nothing is scaled."),                    \
        GS_OPT("ok-total-unready-count", GS_OPT_INT, at(ok_unready_count), "NUMBER", "3",          \
               .max = 1000000, .group = (heading),                                                 \
               .help = "This number of unready nodes is allowed, whatever their share is."),       \
        GS_OPT("scale-down-enabled", GS_OPT_BOOL, at(scale_down), .def = "true",                   \
               .group = (heading), .help = "Remove nodes that are not needed."),                   \
        GS_OPT("scale-down-unneeded-time", GS_OPT_DURATION, at(unneeded_time), "DURATION", "10m",  \
               .group = (heading),                                                                 \
               .help = "How long a node must be unneeded before it is removed."),                  \
        GS_OPT("scale-down-unready-time", GS_OPT_DURATION, at(unready_time), "DURATION", "20m",    \
               .group = (heading), .help = "The same for a node that is not ready."),              \
        GS_OPT("scale-down-delay-after-add", GS_OPT_DURATION, at(delay_after_add), "DURATION",     \
               "10m", .group = (heading),                                                          \
               .help = "Time after a scale-up during which no node is removed."),                  \
        GS_OPT("scale-down-delay-after-delete", GS_OPT_DURATION, at(delay_after_delete),           \
               "DURATION", "0s", .group = (heading),                                               \
               .help = "Time after the removal of a node during which no other is removed."),      \
        GS_OPT("scale-down-delay-after-failure", GS_OPT_DURATION, at(delay_after_failure),         \
               "DURATION", "3m", .group = (heading),                                               \
               .help = "Time after a failed removal during which no node is removed."),            \
        GS_OPT("scale-down-utilization-threshold", GS_OPT_DOUBLE, at(utilization_threshold),       \
               "SHARE", "0.5", .group = (heading),                                                 \
               .help = "A node without GPUs may be removed if its pods request at most this "      \
                       "share of its CPU and of its memory."),                                     \
        GS_OPT("scale-down-gpu-utilization-threshold", GS_OPT_DOUBLE,                              \
               at(gpu_utilization_threshold), "SHARE", "0.5", .group = (heading),                  \
               .help = "A node with GPUs may be removed if its pods request at most this "         \
                       "share of them. CPU and memory do not count."),                             \
        GS_OPT("max-scale-down-parallelism", GS_OPT_INT, at(max_parallelism), "NUMBER", "10",      \
               .min = 1, .max = 100000, .group = (heading),                                        \
               .help = "Maximum number of nodes that are being removed at the same time."),        \
        GS_OPT("max-drain-parallelism", GS_OPT_INT, at(max_drain_parallelism), "NUMBER", "1",      \
               .min = 1, .max = 100000, .group = (heading),                                        \
               .help =                                                                             \
                   "Maximum number of nodes with pods that are being removed at the same time."),  \
        GS_OPT("max-graceful-termination-sec", GS_OPT_INT, at(max_graceful_termination_s),         \
               "SECONDS", "600", .max = 1000000, .group = (heading),                               \
               .help = "Maximum grace period of pods when their node is removed."),                \
        GS_OPT("max-pod-eviction-time", GS_OPT_DURATION, at(max_eviction_time), "DURATION", "2m",  \
               .group = (heading), .help = "How long the eviction of a pod is tried."),            \
        GS_OPT("node-delete-delay-after-taint", GS_OPT_DURATION, at(delay_after_taint),            \
               "DURATION", "5s", .group = (heading),                                               \
               .help = "Time between the taint of a node and its removal."),                       \
        GS_OPT("max-bulk-soft-taint-count", GS_OPT_INT, at(max_soft_taints), "NUMBER", "10",       \
               .max = 1000000, .group = (heading),                                                 \
               .help = "Maximum number of nodes that get or lose the taint "                       \
                       "DeletionCandidateOfClusterAutoscaler in one run."),                        \
        GS_OPT("ignore-daemonsets-utilization", GS_OPT_BOOL, at(ignore_daemonset_utilization),     \
               .group = (heading),                                                                 \
               .help =                                                                             \
                   "Leave out pods of DaemonSets when the utilization of a node is computed."),    \
        GS_OPT("daemonset-eviction-for-occupied-nodes", GS_OPT_BOOL, at(evict_daemonsets),         \
               .def = "true", .group = (heading),                                                  \
               .help = "Evict pods of DaemonSets, too, from a node that is removed with pods."),   \
        GS_OPT("skip-nodes-with-local-storage", GS_OPT_BOOL, at(skip_local_storage),               \
               .def = "true", .group = (heading),                                                  \
               .help = "Keep nodes whose pods use emptyDir or hostPath volumes."),                 \
        GS_OPT("balance-similar-node-groups", GS_OPT_BOOL, at(balance_similar),                    \
               .group = (heading),                                                                 \
               .help = "Divide new nodes among pools that differ only in their names and "         \
                       "zones, so that their sizes become equal."),                                \
        GS_OPT("early-cordon", GS_OPT_BOOL, at(early_cordon), .group = (heading),                  \
               .help = "Cordon idle nodes with several GPUs while a smaller node is cheaper "      \
                       "for smaller pods. A pod that needs the node ends the cordon. Not a "       \
                       "flag of the Cluster Autoscaler."),                                         \
        GS_OPT("consolidation", GS_OPT_BOOL, at(consolidation), .group = (heading),                \
               .help = "Move pods to nodes that are in use or smaller, add a smaller node if "     \
                       "it is cheaper, and remove the nodes that become empty. Not a flag of "     \
                       "the Cluster Autoscaler."),                                                 \
        GS_OPT(                                                                                    \
            "skip-nodes-with-system-pods", GS_OPT_BOOL, at(skip_system_pods), .def = "true",       \
            .group = (heading),                                                                    \
            .help =                                                                                \
                "Keep nodes with pods of the namespace kube-system, except those of DaemonSets.")

// Fields of struct engine_receivers (engine/engine.h).
#define CMD_RECEIVER_ROWS(at, heading)                                                             \
    GS_OPT("web.enable-remote-write-receiver", GS_OPT_BOOL, at(write), .group = (heading),         \
           .help = "Store samples that others push with remote write to /api/v1/write."),          \
        GS_OPT("web.remote-write-receiver.accepted-protobuf-messages", GS_OPT_STRINGS,             \
               at(messages), "NAME", .group = (heading),                                           \
               .help = "Message that it accepts: prometheus.WriteRequest or "                      \
                       "io.prometheus.write.v2.Request. Repeatable. Default: both."),              \
        GS_OPT("web.enable-otlp-receiver", GS_OPT_BOOL, at(otlp), .group = (heading),              \
               .help = "Store metrics that others push with OTLP to /api/v1/otlp/v1/metrics.")
