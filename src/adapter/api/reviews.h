// SPDX-License-Identifier: Apache-2.0
// Questions to the cluster about who somebody is and what they may do (TokenReview,
// SubjectAccessReview): equal ones are asked once at a time, and answers are kept for a while.
#pragma once

#include "kube/client.h"

struct adapter_api_reviews;

struct adapter_api_reviews_options {
    struct kube_client *kube; // borrowed
    struct kube_gvr gvr;
    const char *kind;                // "TokenReview"
    int64_t good_ttl_ms, bad_ttl_ms; // by what is_good says of an answer's status
    bool (*is_good)(const json_t *status);
};
struct adapter_api_reviews *adapter_api_reviews_new(uv_loop_t *loop,
                                                    const struct adapter_api_reviews_options *o);
void adapter_api_reviews_free(struct adapter_api_reviews *r);

// status: the answer's, borrowed; NULL with an error (owned by the callee). until_ns: so long it
// would be given again (gs_mono_ns()); 0: it is not kept.
typedef void (*adapter_api_reviews_fn)(void *arg, const json_t *status, int64_t until_ns,
                                       struct gs_error *err);
struct adapter_api_reviews_op;
// Steals spec. cb may be called from inside, and then NULL is returned.
struct adapter_api_reviews_op *adapter_api_reviews_ask(struct adapter_api_reviews *r, json_t *spec,
                                                       adapter_api_reviews_fn cb, void *arg);
void adapter_api_reviews_cancel(struct adapter_api_reviews_op *op); // NULL is fine

struct adapter_api_reviews_stats {
    uint64_t asked, failed, cached;
};
void adapter_api_reviews_stats(const struct adapter_api_reviews *r,
                               struct adapter_api_reviews_stats *ret);
