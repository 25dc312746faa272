// SPDX-License-Identifier: Apache-2.0
// Questions to the cluster about who somebody is and what they may do (TokenReview,
// SubjectAccessReview): equal ones are asked once at a time, and answers are kept for a while.
#pragma once

#include "kube/client.h"

struct reviews;

struct reviews_options {
    struct kube_client *kube; // borrowed
    struct kube_gvr gvr;
    const char *kind;                // "TokenReview"
    int64_t good_ttl_ms, bad_ttl_ms; // by what is_good says of an answer's status
    bool (*is_good)(const json_t *status);
};
struct reviews *reviews_new(uv_loop_t *loop, const struct reviews_options *o);
void reviews_free(struct reviews *r);

// status: the answer's, borrowed; NULL with an error (owned by the callee). until_ns: so long it
// would be given again (gs_mono_ns()); 0: it is not kept.
typedef void (*reviews_fn)(void *arg, const json_t *status, int64_t until_ns, struct gs_error *err);
struct reviews_op;
// Steals spec. cb may be called from inside, and then NULL is returned.
struct reviews_op *reviews_ask(struct reviews *r, json_t *spec, reviews_fn cb, void *arg);
void reviews_cancel(struct reviews_op *op); // NULL is fine

struct reviews_stats {
    uint64_t asked, failed, cached;
};
void reviews_stats(const struct reviews *r, struct reviews_stats *ret);
