// SPDX-License-Identifier: Apache-2.0
// The audit log: who asked what and was answered how, as events of audit.k8s.io/v1, one JSON line
// each. What is told of which request says a policy.
// https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
#pragma once

#include "adapter/api/audit_log.h"
#include "adapter/api/auth.h"

struct audit;

struct audit_options {
    uv_loop_t *loop;
    const char *policy_file;
    struct audit_log_options log;
    bool batch; // lines are written each second and when they are many, not one by one
};
struct gs_error *audit_new(const struct audit_options *o, struct audit **ret);
void audit_free(struct audit *a); // writes what waits

struct audit_stats {
    uint64_t events, failures; // failures: those that could not be written
};
void audit_stats(const struct audit *a, struct audit_stats *ret);

// One request. Reads what it needs of the exchange at once, and is told its answer by it.
struct audit_event;
struct audit_event *audit_begin(struct audit *a, struct http_exchange *x, const char *id);
void audit_decided(struct audit_event *e, const struct auth_decision *d);
// The request is over: answered, or its peer left. Frees; NULL is fine.
void audit_end(struct audit_event *e);
