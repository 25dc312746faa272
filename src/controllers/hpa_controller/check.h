// SPDX-License-Identifier: Apache-2.0
// `gpuscale check hpa`: autoscalers in manifests.
#pragma once

#include <stdbool.h>

// Checks each HorizontalPodAutoscaler of the files ("-": standard input) as the API server does,
// with its annotations. Prints what is wrong, and the number of autoscalers of each file. Returns
// the exit code: 1 for an error, for a file without an autoscaler and, if strict, for a warning.
int hpa_check_files(int n_files, char *const *files, bool strict);
