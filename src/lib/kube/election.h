// SPDX-License-Identifier: Apache-2.0
// Leader election by a Lease, as in Kubernetes' components. One of several replicas holds the lease
// and renews it; another replica takes it if it was not renewed for its duration. Timestamps of
// other holders are never compared with the local clock: a lease has expired if its record did not
// change for its duration. Only the thread of the loop may use an election.
#pragma once

#include "kube/client.h"

#include <uv.h>

struct kube_election;

struct kube_election_config {
    const char *ns, *name; // of the Lease
    const char *identity;  // of this replica; NULL: host name and process ID
    int64_t lease_ms;      // 0: 15 s
    int64_t renew_ms;      // 0: 10 s; leadership ends if no renewal succeeds in this time
    int64_t retry_ms;      // 0: 2 s
    void (*on_leading)(void *arg);
    void (*on_lost)(void *arg); // only after on_leading
    void *arg;
};

// Copies the texts. Starts immediately.
struct kube_election *kube_election_new(uv_loop_t *loop, struct kube_client *client,
                                        const struct kube_election_config *cfg);
bool kube_election_leading(const struct kube_election *e);
// Another holder that has renewed the lease since this election began, and whose lease has not
// expired. NULL: none; the holder that was read first may have ended. Valid until the next event.
const char *kube_election_rival(const struct kube_election *e);
// Whether the lease was never read, and the last request for it was refused for good, such as for
// lack of permission. False if the server was unavailable: another holder may exist.
bool kube_election_denied(const struct kube_election *e);
// Does not change the Lease, which expires. No callback follows. Accepts NULL.
void kube_election_free(struct kube_election *e);
