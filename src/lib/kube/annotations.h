// SPDX-License-Identifier: Apache-2.0
// Misspelled annotations of gpuscale. The API stores every annotation, so that nobody else reports
// one that nothing reads.
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

// GS_EINVAL: an annotation of gpuscale.dev is not in the list of full names, but similar to one.
struct gs_error *kube_check_annotations(const json_t *obj, const char *const *known, size_t n);
