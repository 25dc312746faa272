// SPDX-License-Identifier: Apache-2.0
// Option rows that several commands share. `at` is the name of a macro that turns the name of a
// field into its offset in the command's option struct. `heading` is the group in the help.
#pragma once

#include "base/option.h"

#define CMD_AUTOSCALER_FLAGS "Autoscaler flags (as kube-controller-manager's)"

// Field: kubeconfig.
#define CMD_KUBECONFIG_ROW(at)                                                                     \
    {                                                                                              \
        .name = "kubeconfig", .arg = "FILE", .type = GS_OPT_STRING, at(kubeconfig),                \
        .help =                                                                                    \
            "The cluster. Default: KUBECONFIG, ~/.kube/config, or the cluster in which gpuscale "  \
            "runs."                                                                                \
    }

// Field: sync_period. `period` is the default.
#define CMD_SYNC_PERIOD_ROW(at, heading, period)                                                   \
    {                                                                                              \
        .name = "horizontal-pod-autoscaler-sync-period", .arg = "DURATION", .def = (period),       \
        .type = GS_OPT_DURATION, at(sync_period), .group = (heading),                              \
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
