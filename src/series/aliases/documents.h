// SPDX-License-Identifier: Apache-2.0
// Converts the names of GPU metrics in files: dashboards of Grafana (JSON, or a ConfigMap with one)
// and rules (rule files, PrometheusRule objects, Helm values with rules). Only the texts that
// change are replaced: comments, order and format of a file stay.
#pragma once

#include "aliases/aliases.h"

// What a conversion did, and what it could not do.
struct aliases_report {
    struct gs_buf changes;  // "DCGM_FI_DEV_GPU_UTIL: DCGM_FI_DEV_GPU_UTIL_RATIO * 100", once each
    struct gs_buf problems; // "rules.yaml:12: …"
    size_t n_changed;       // expressions and other texts
    size_t n_problems;
};
void aliases_report_finish(struct aliases_report *r);
#define ALIASES_AUTO_REPORT GS_CLEANUP(aliases_report_finish)

// Converts a file (at most 16 MiB) to the names of ALIASES_4_8 or ALIASES_4_9. name: of the file,
// for messages. ret_text: the whole new file, which is the old one if nothing changes. GS_EINVAL:
// the file is neither JSON nor YAML. GS_ENOTSUP: it cannot be edited without changing its format.
struct gs_error *aliases_convert_document(struct gs_slice text, const char *name,
                                          enum aliases_release to, struct aliases_report *report,
                                          struct gs_buf *ret_text);
