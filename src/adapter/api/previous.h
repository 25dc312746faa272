// SPDX-License-Identifier: Apache-2.0
// A previous owner of API groups: who served them before this program, and goes on to serve what no
// rule here serves. An API group has one owner in a cluster, so two providers of metrics can only
// stand one behind the other.
#pragma once

#include "adapter/api/auth.h"
#include "adapter/source/peer.h"

struct previous;

#define PREVIOUS_MARK "X-Gpuscale-Passed-On" // on what is passed on: it is not passed on again

struct previous_options {
    struct peer_options peer;
    // The client certificate is that of a front proxy: who asks is told by X-Remote-… headers.
    // Otherwise the owner sees our own credentials; who asks was asked about here.
    bool front_proxy;
    int64_t relist_ms, timeout_ms; // 0: 30 s both
};
struct gs_error *previous_new(uv_loop_t *loop, const struct previous_options *o,
                              struct previous **ret);
void previous_free(struct previous *p);
const char *previous_name(const struct previous *p);
bool previous_wants_user(const struct previous *p);

// Its resources in a group's version ("external.metrics.k8s.io/v1beta1") are asked for from now on.
void previous_follow(struct previous *p, const char *group_version);
// An array of APIResource objects; NULL: none known. Borrowed.
const json_t *previous_resources(const struct previous *p, const char *group_version);

struct previous_op;
// The request as it came, without its credentials. user: with wants_user. cb is told the answer as
// http_callbacks' on_done is. GS_ELIMIT: too many are under way; then NULL in *ret.
struct gs_error *
previous_ask(struct previous *p, const struct http_exchange *x, const struct auth_user *user,
             void (*cb)(void *arg, const struct http_answer *a, struct gs_error *err), void *arg,
             struct previous_op **ret);
void previous_cancel(struct previous_op *op); // NULL is fine

struct previous_stats {
    uint64_t requests, failures; // failures: without an answer
    bool up;                     // the last question of any kind was answered
};
void previous_stats(const struct previous *p, struct previous_stats *ret);
