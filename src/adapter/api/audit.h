// SPDX-License-Identifier: Apache-2.0
// The audit log: events of audit.k8s.io/v1, one JSON line each, with the caller, the request and
// the response. A policy selects the requests and the detail of their events.
// https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
#pragma once

#include "adapter/api/auth.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

// --- audit log ---
//
// A log file with rotation by size. Rotated files have the time in their names and are deleted by
// number and age.

struct adapter_api_audit_log;

struct adapter_api_audit_log_options {
    const char *path;   // "-": standard output
    uint64_t max_bytes; // size of one file; 0: 100 MiB
    int64_t max_age_ms; // age of rotated files; 0: no limit
    uint64_t max_old;   // number of rotated files; 0: no limit
};
struct gs_error *adapter_api_audit_log_new(const struct adapter_api_audit_log_options *o,
                                           struct adapter_api_audit_log **ret);
void adapter_api_audit_log_free(struct adapter_api_audit_log *l);
// lines: complete lines. A deleted file is created again.
struct gs_error *adapter_api_audit_log_write(struct adapter_api_audit_log *l,
                                             struct gs_slice lines);

// --- audit policy ---
//
// A Policy of audit.k8s.io/v1: which requests are logged, and at which level.
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
    ADAPTER_API_AUDIT_STARTED = 2, // of long-running requests
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
// Returns the level of the first matching rule, or ADAPTER_API_AUDIT_NONE. ret_omitted: stages
// (bits) that are not logged.
enum adapter_api_audit_level adapter_api_audit_policy_level(
    const struct adapter_api_audit_policy *p, const struct adapter_api_auth_user *user,
    const struct adapter_api_auth_attributes *attributes, unsigned *ret_omitted);

// --- audit ---

struct adapter_api_audit;

struct adapter_api_audit_options {
    uv_loop_t *loop;
    const char *policy_file;
    struct adapter_api_audit_log_options log;
    bool batch; // write lines every second or when 256 KiB are pending, not one by one
};
struct gs_error *adapter_api_audit_new(const struct adapter_api_audit_options *o,
                                       struct adapter_api_audit **ret);
void adapter_api_audit_free(struct adapter_api_audit *a); // writes pending lines

struct adapter_api_audit_stats {
    uint64_t events, failures; // failures: failed writes
};
void adapter_api_audit_stats(const struct adapter_api_audit *a,
                             struct adapter_api_audit_stats *ret);

// The events of one request. adapter_api_audit_begin() copies what it needs from the exchange and
// registers for its response.
struct adapter_api_audit_event;
struct adapter_api_audit_event *adapter_api_audit_begin(struct adapter_api_audit *a,
                                                        struct http_exchange *x, const char *id);
void adapter_api_audit_decided(struct adapter_api_audit_event *e,
                               const struct adapter_api_auth_decision *d);
// Writes the last event and frees e. Call it after the response or the disconnection. NULL is fine.
void adapter_api_audit_end(struct adapter_api_audit_event *e);
