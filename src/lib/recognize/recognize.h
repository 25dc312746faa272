// SPDX-License-Identifier: Apache-2.0
// Names the program that reads a file, by the file's content. Checks use it for files that are not
// theirs: "Helm values of the NVIDIA GPU operator" instead of "unknown field".
#pragma once

#include "base/slice.h"
#include "codec/json.h"

// The kinds that a check of this program reads. A check passes its own kinds.
enum recognize_own {
    RECOGNIZE_OTHER = 0,
    RECOGNIZE_CONFIG = 1 << 0,       // prometheus.yml
    RECOGNIZE_STACK_VALUES = 1 << 1, // values of kube-prometheus-stack
    RECOGNIZE_MONITORS = 1 << 2,     // ServiceMonitor or PodMonitor objects
    RECOGNIZE_RULES = 1 << 3,        // a rule file, or PrometheusRule objects
    RECOGNIZE_ADAPTER = 1 << 4,      // rules of prometheus-adapter in a file or in Helm values
    RECOGNIZE_EXPOSITION = 1 << 5,   // metrics in the text format
    RECOGNIZE_WEB_CONFIG = 1 << 6,
};

struct recognize_result {
    enum recognize_own own;
    char *text; // "Helm values of the NVIDIA GPU operator (helm install nvidia/gpu-operator)", or
                // "empty"; caller frees. NULL: not recognized
};

// The text of a file. With several documents, the first one that is recognized decides.
struct recognize_result recognize_text(struct gs_slice text);
// One document of a YAML or JSON file.
struct recognize_result recognize_document(const json_t *doc);
// The text of a file that cannot be used: "this is a Grafana dashboard (…), not WANTED", or NULL if
// the file is not recognized or is of a kind in `own`, a sum of enum recognize_own. wanted: what
// the command reads. Caller frees.
char *recognize_foreign(struct gs_slice text, unsigned own, const char *wanted);
