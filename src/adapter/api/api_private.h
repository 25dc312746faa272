// SPDX-License-Identifier: Apache-2.0
// Between the files of the API.
#pragma once

#include "adapter/api/api.h"
#include "adapter/api/ready.h"

#include <sys/queue.h>

struct adapter_api_call;
TAILQ_HEAD(api_calls, adapter_api_call);

struct adapter_api_counts {
    uint64_t requests[3][6]; // by group (custom, external, resource) and class of status
    uint64_t answered;
};

struct adapter_api {
    struct adapter_api_options o;
    struct adapter_api_world w;
    struct api_calls calls;
    struct adapter_api_counts counts;
    struct adapter_api_ready *ready;
    char *id_seed; // random
    uint64_t id_count;
    bool stopping;
};

// One request until it is answered or its peer left.
struct adapter_api_call {
    struct adapter_api *a;
    TAILQ_ENTRY(adapter_api_call) all;
    struct http_exchange *x;
    struct adapter_api_path path;
    struct adapter_api_auth_op *auth;
    struct provider_call *ask;
    struct kube_selector metric_selector;
    const char *metric_selector_text;
    struct adapter_api_usage_call *usage;
    struct adapter_api_audit_event *audit;
    struct adapter_api_previous_op *passed;
    char *passed_cause;
    struct gs_timer *timeout;          // of the parameter; NULL: none
    struct adapter_api_auth_user user; // where the previous owner is told
};

void adapter_api_call_end(struct adapter_api_call *c); // answered: frees it

// --- by kind of request ---

void adapter_api_metric(struct adapter_api_call *c); // custom.c
void adapter_api_usage(struct adapter_api_call *c);  // usage.c
void adapter_api_usage_cancel(struct adapter_api_usage_call *u);
// Discovery, OpenAPI, health and the rest, all answered at once (discovery.c, openapi.c, health.c).
// False: no such path.
bool adapter_api_discovery(struct adapter_api_call *c);
bool adapter_api_reply_openapi(struct adapter_api_call *c);
bool adapter_api_health(struct adapter_api_call *c);

// --- methods and parameters (params.c) ---

// True: the request is refused, and answered.
bool adapter_api_refuse_request(struct adapter_api_call *c);
bool adapter_api_refuse_list(struct adapter_api_call *c); // of a list that this API serves
void adapter_api_end_timeout(struct adapter_api_call *c);

// --- forms of answers (accept.c, table.c) ---

enum adapter_api_form {
    ADAPTER_API_NOT_ACCEPTABLE,
    ADAPTER_API_PLAIN,
    ADAPTER_API_TABLE,
    ADAPTER_API_PARTIAL,      // PartialObjectMetadata
    ADAPTER_API_PARTIAL_LIST, // PartialObjectMetadataList
};
bool adapter_api_accepts(const struct http_exchange *x, const struct adapter_api_path *p);
// The first one of the request's that is known; ret_version: "meta.k8s.io/v1" or v1beta1.
enum adapter_api_form adapter_api_form_of(const struct http_exchange *x,
                                          const struct adapter_api_path *p,
                                          const char **ret_version);
// Of a PodMetricsList or NodeMetricsList, or one of either. include: the parameter includeObject.
json_t *adapter_api_usage_table(const json_t *body, const char *version, const char *include);
json_t *adapter_api_usage_partial(const json_t *body, const char *version);

// --- the previous owner (pass_on.c) ---

struct adapter_api_previous *adapter_api_previous(const struct adapter_api *a,
                                                  const char *group); // NULL: none
// False: there is none for this request. cause: why it is not answered here.
bool adapter_api_pass_on(struct adapter_api_call *c, const char *cause);
void adapter_api_keep_user(struct adapter_api_call *c, const struct adapter_api_auth_user *u);
void adapter_api_drop_user(struct adapter_api_call *c);

// --- writing ---

// 404 for a metric; theirs: what the previous owner said, may be NULL.
void adapter_api_reply_not_found(struct adapter_api_call *c, const char *cause, const char *theirs);

void adapter_api_add_json_string(struct gs_buf *out,
                                 struct gs_slice s); // quoted, HTML-escaped as Go does
bool adapter_api_has_group(const struct adapter_api *a, const char *group);
