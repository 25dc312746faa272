// SPDX-License-Identifier: Apache-2.0
// Which requests the audit log tells of, and how much of them: a Policy of audit.k8s.io/v1.
// https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/#audit-k8s-io-v1-Policy
#pragma once

#include "adapter/api/auth.h"

enum adapter_api_audit_level {
    ADAPTER_API_AUDIT_NONE,
    ADAPTER_API_AUDIT_METADATA,
    ADAPTER_API_AUDIT_REQUEST,
    ADAPTER_API_AUDIT_REQUEST_RESPONSE
};
const char *adapter_api_audit_level_name(enum adapter_api_audit_level level); // "Metadata"

enum adapter_api_audit_stage {
    ADAPTER_API_AUDIT_RECEIVED = 1,
    ADAPTER_API_AUDIT_STARTED = 2, // of what runs long
    ADAPTER_API_AUDIT_COMPLETE = 4,
    ADAPTER_API_AUDIT_PANIC = 8,
};

struct adapter_api_audit_policy;
// Errors name file, line and column; unknown keys are errors.
struct gs_error *adapter_api_audit_policy_load(const char *path,
                                               struct adapter_api_audit_policy **ret);
struct gs_error *adapter_api_audit_policy_parse(struct gs_slice text, const char *name,
                                                struct adapter_api_audit_policy **ret);
void adapter_api_audit_policy_free(struct adapter_api_audit_policy *p);
// By the first rule that fits; none: ADAPTER_API_AUDIT_NONE. ret_omitted: stages (bits) that are
// left out.
enum adapter_api_audit_level adapter_api_audit_policy_level(
    const struct adapter_api_audit_policy *p, const struct adapter_api_auth_user *user,
    const struct adapter_api_auth_attributes *asked, unsigned *ret_omitted);
