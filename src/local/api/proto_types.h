// SPDX-License-Identifier: Apache-2.0
// Types of the bodies that are requests rather than objects: DeleteOptions, Eviction, Binding,
// reviews.
#pragma once

#include "kube/schema.h"

const struct kube_type *local_api_proto_request_type(const char *api_version, const char *kind);
