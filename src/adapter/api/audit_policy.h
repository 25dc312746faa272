// SPDX-License-Identifier: Apache-2.0
// Which requests the audit log tells of, and how much of them: a Policy of audit.k8s.io/v1.
// https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/#audit-k8s-io-v1-Policy
#pragma once

#include "adapter/api/auth.h"

enum audit_level { AUDIT_NONE, AUDIT_METADATA, AUDIT_REQUEST, AUDIT_REQUEST_RESPONSE };
const char *audit_level_name(enum audit_level level); // "Metadata"

enum audit_stage {
    AUDIT_RECEIVED = 1,
    AUDIT_STARTED = 2, // of what runs long
    AUDIT_COMPLETE = 4,
    AUDIT_PANIC = 8,
};

struct audit_policy;
// Errors name file, line and column; unknown keys are errors.
struct gs_error *audit_policy_load(const char *path, struct audit_policy **ret);
struct gs_error *audit_policy_parse(struct gs_slice text, const char *name,
                                    struct audit_policy **ret);
void audit_policy_free(struct audit_policy *p);
// By the first rule that fits; none: AUDIT_NONE. ret_omitted: stages (bits) that are left out.
enum audit_level audit_policy_level(const struct audit_policy *p, const struct auth_user *user,
                                    const struct auth_attributes *asked, unsigned *ret_omitted);
