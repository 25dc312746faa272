// SPDX-License-Identifier: Apache-2.0
// CustomResourceDefinition objects, for programs that follow custom resources.
#pragma once

#include <jansson.h>

// For kube_cache_set_trim(): removes what is large and not needed to follow the resource.
void kube_definition_trim(json_t *crd);
// A version in which all objects can be read: the stored one if it is served, else another served
// one. Borrowed. NULL: the definition is not established, or no version is served.
const json_t *kube_definition_version(const json_t *crd);
