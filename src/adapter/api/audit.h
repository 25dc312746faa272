// SPDX-License-Identifier: Apache-2.0
// The audit log: who asked what and was answered how, as events of audit.k8s.io/v1, one JSON line
// each. What is told of which request says a policy.
// https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
#pragma once

#include "adapter/api/auth.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

// --- audit log ---
//
// A file of lines that is exchanged for a new one when it is full: the old ones get the time into
// their names, and go by number and age.

struct adapter_api_audit_log;

struct adapter_api_audit_log_options {
    const char *path;   // "-": standard output
    uint64_t max_bytes; // of one file; 0: 100 MiB
    int64_t max_age_ms; // of old ones; 0: for ever
    uint64_t max_old;   // how many old ones; 0: any number
};
struct gs_error *adapter_api_audit_log_new(const struct adapter_api_audit_log_options *o,
                                           struct adapter_api_audit_log **ret);
void adapter_api_audit_log_free(struct adapter_api_audit_log *l);
// Whole lines. A file that someone took away is made again.
struct gs_error *adapter_api_audit_log_write(struct adapter_api_audit_log *l,
                                             struct gs_slice lines);

// --- audit policy ---
//
// Which requests the audit log tells of, and how much of them: a Policy of audit.k8s.io/v1.
// https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/#audit-k8s-io-v1-Policy

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

// --- audit ---

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
