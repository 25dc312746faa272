// SPDX-License-Identifier: Apache-2.0
// Cases of nodes_plan(): files of clusters with the expected orders, removals, cordons and reasons.
// docs/replay.md, "Cases of nodes", describes the format.
#pragma once

#include "codec/test_report.h"

// Runs the cases of a file, as replay_run_cases() does.
struct gs_error *replay_run_node_cases(const char *path, const char *run,
                                       struct codec_test_report *ret);
// `gpuscale test nodes`, as replay_test_files().
struct gs_error *replay_test_node_files(const struct codec_test_options *o, int n_files,
                                        char **files, int *ret_exit);
