// SPDX-License-Identifier: Apache-2.0
// The three patch forms of the Kubernetes API: RFC 7386 merge patch, RFC 6902 JSON patch, and
// strategic merge patch (list merging by key, $patch: delete/replace/merge,
// $deleteFromPrimitiveList, $setElementOrder, $retainKeys). Each function returns a new object and
// does not change its inputs. All errors are errors of the patch: GS_EINVAL with Kubernetes' text
// if there is one, GS_ELIMIT if the patch is nested too deeply or too long.
#pragma once

#include "kube/schema.h"

struct gs_error *kube_patch_merge(const json_t *target, const json_t *patch, json_t **ret);
struct gs_error *kube_patch_json(const json_t *target, const json_t *patch, json_t **ret);
// type NULL: the fields of the kind are unknown, so its lists are replaced as a whole. Directives
// are applied. (kube-apiserver rejects strategic patches of custom resources with 415.)
struct gs_error *kube_patch_strategic(const struct kube_type *type, const json_t *target,
                                      const json_t *patch, json_t **ret);
