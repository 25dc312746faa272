// SPDX-License-Identifier: Apache-2.0
// The audit log: who asked what and was answered how, as events of audit.k8s.io/v1, one JSON line
// each. What is told of which request says a policy.
// https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
#pragma once

#include "adapter/api/audit_log.h"
#include "adapter/api/auth.h"

struct adapter_api_audit;

struct adapter_api_audit_options {
    uv_loop_t *loop;
    const char *policy_file;
    struct adapter_api_audit_log_options log;
    bool batch; // lines are written each second and when they are many, not one by one
};
struct gs_error *adapter_api_audit_new(const struct adapter_api_audit_options *o,
                                       struct adapter_api_audit **ret);
void adapter_api_audit_free(struct adapter_api_audit *a); // writes what waits

struct adapter_api_audit_stats {
    uint64_t events, failures; // failures: those that could not be written
};
void adapter_api_audit_stats(const struct adapter_api_audit *a,
                             struct adapter_api_audit_stats *ret);

// One request. Reads what it needs of the exchange at once, and is told its answer by it.
struct adapter_api_audit_event;
struct adapter_api_audit_event *adapter_api_audit_begin(struct adapter_api_audit *a,
                                                        struct http_exchange *x, const char *id);
void adapter_api_audit_decided(struct adapter_api_audit_event *e,
                               const struct adapter_api_auth_decision *d);
// The request is over: answered, or its peer left. Frees; NULL is fine.
void adapter_api_audit_end(struct adapter_api_audit_event *e);
