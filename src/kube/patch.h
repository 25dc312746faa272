// SPDX-License-Identifier: Apache-2.0
// The three patch forms of the Kubernetes API: RFC 7386 merge patch, RFC 6902 JSON patch, and
// strategic merge patch (list merging by key, $patch: delete/replace/merge,
// $deleteFromPrimitiveList, $setElementOrder, $retainKeys). All return a new object and leave
// inputs alone. Errors are the patch's fault: GS_EINVAL with Kubernetes' text where it has one,
// GS_ELIMIT for what is too deep or too long.
#pragma once

#include "kube/schema.h"

struct gs_error *kube_patch_merge(const json_t *target, const json_t *patch, json_t **ret);
struct gs_error *kube_patch_json(const json_t *target, const json_t *patch, json_t **ret);
// type NULL: nothing is known about the kind; its lists are replaced as wholes, directives count.
// (kube-apiserver refuses strategic patches of custom resources with 415.)
struct gs_error *kube_patch_strategic(const struct kube_type *type, const json_t *target,
                                      const json_t *patch, json_t **ret);
