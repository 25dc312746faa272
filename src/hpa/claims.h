// SPDX-License-Identifier: Apache-2.0
// Whose an autoscaler is: two controllers must not scale one object. Who controls one writes its
// status, and the API server keeps who wrote what last (metadata.managedFields).
//
// An object whose status we wrote last is ours. Of others we wait whether somebody writes it: a
// controller does so with a new object in its first pass. One that was written before and rests
// is asked: a message in its status is changed, which its controller puts right in its next pass.
// An object that somebody else writes is left alone, and asked again later.
#pragma once

#include "kube/client.h"

struct hpa_claims;

struct hpa_claims_config {
    const char *manager; // our name in managedFields: the user agent up to its slash
    int64_t wait_ms;     // longer than another controller's period
    int64_t again_ms;    // until one that is another's is asked again
    bool trusted;        // nobody else is there: an object is ours until somebody writes it
    // An object became ours or was lost.
    void (*changed)(void *arg, const char *ns, const char *name);
    void *arg;
};

struct hpa_claims *hpa_claims_new(uv_loop_t *loop, struct kube_client *client,
                                  const struct hpa_claims_config *cfg);
void hpa_claims_free(struct hpa_claims *c); // NULL is fine
// To be told of each change of an object. True: it is ours now.
bool hpa_claims_see(struct hpa_claims *c, const json_t *hpa);
void hpa_claims_forget(struct hpa_claims *c, const json_t *hpa); // deleted, or not wanted
