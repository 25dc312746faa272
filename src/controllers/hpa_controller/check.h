// SPDX-License-Identifier: Apache-2.0
// `gpuscale check hpa` and `check budgets`: autoscalers and GPU budgets in manifests.
#pragma once

#include <stdbool.h>

// Checks each HorizontalPodAutoscaler of the files ("-": standard input) as the API server does,
// with its annotations. Prints what is wrong, and the number of autoscalers of each file. Returns
// the exit code: 1 for an error, for a file without an autoscaler and, if strict, for a warning.
int hpa_check_files(int n_files, char *const *files, bool strict);

// Checks each ConfigMap with GPU budgets of the files, or a file with the text of one. Prints the
// number of budgets, or what is wrong. Returns the exit code: 1 for an error and for a file without
// budgets.
int hpa_check_budgets(int n_files, char *const *files);
