// SPDX-License-Identifier: Apache-2.0
// Between the files of the API.
#pragma once

#include "adapter/api/api.h"
#include "adapter/api/ready.h"

#include <sys/queue.h>

struct api_call;
TAILQ_HEAD(api_calls, api_call);

struct api_counts {
    uint64_t requests[3][6]; // by group (custom, external, resource) and class of status
    uint64_t answered;
};

struct api {
    struct api_options o;
    struct api_world w;
    struct api_calls calls;
    struct api_counts counts;
    struct ready *ready;
    char *id_seed; // random
    uint64_t id_count;
    bool stopping;
};

// One request until it is answered or its peer left.
struct api_call {
    struct api *a;
    TAILQ_ENTRY(api_call) all;
    struct http_exchange *x;
    struct api_path path;
    struct auth_op *auth;
    struct provider_call *ask;
    struct kube_selector metric_selector;
    const char *metric_selector_text;
    struct usage_call *usage;
    struct audit_event *audit;
    struct previous_op *passed;
    char *passed_cause;
    uv_timer_t *timeout;   // of the parameter; NULL: none
    struct auth_user user; // where the previous owner is told
};

void api_call_end(struct api_call *c); // answered: frees it

// --- by kind of request ---

void api_metric(struct api_call *c); // custom.c
void api_usage(struct api_call *c);  // usage.c
void api_usage_cancel(struct usage_call *u);
// Discovery, OpenAPI, health and the rest, all answered at once (discovery.c, openapi.c, health.c).
// False: no such path.
bool api_discovery(struct api_call *c);
bool api_reply_openapi(struct api_call *c);
bool api_health(struct api_call *c);

// --- methods and parameters (params.c) ---

// True: the request is refused, and answered.
bool api_refuse_request(struct api_call *c);
bool api_refuse_list(struct api_call *c); // of a list that this API serves
void api_end_timeout(struct api_call *c);

// --- forms of answers (accept.c, table.c) ---

enum api_form {
    API_NOT_ACCEPTABLE,
    API_PLAIN,
    API_TABLE,
    API_PARTIAL,      // PartialObjectMetadata
    API_PARTIAL_LIST, // PartialObjectMetadataList
};
bool api_accepts(const struct http_exchange *x, const struct api_path *p);
// The first one of the request's that is known; ret_version: "meta.k8s.io/v1" or v1beta1.
enum api_form api_form_of(const struct http_exchange *x, const struct api_path *p,
                          const char **ret_version);
// Of a PodMetricsList or NodeMetricsList, or one of either. include: the parameter includeObject.
json_t *api_usage_table(const json_t *body, const char *version, const char *include);
json_t *api_usage_partial(const json_t *body, const char *version);

// --- the previous owner (pass_on.c) ---

struct previous *api_previous(const struct api *a, const char *group); // NULL: none
// False: there is none for this request. cause: why it is not answered here.
bool api_pass_on(struct api_call *c, const char *cause);
void api_keep_user(struct api_call *c, const struct auth_user *u);
void api_drop_user(struct api_call *c);

// --- writing ---

// 404 for a metric; theirs: what the previous owner said, may be NULL.
void api_reply_not_found(struct api_call *c, const char *cause, const char *theirs);

void api_add_json_string(struct gs_buf *out, struct gs_slice s); // quoted, HTML-escaped as Go does
bool api_has_group(const struct api *a, const char *group);
