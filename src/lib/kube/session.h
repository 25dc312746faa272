// SPDX-License-Identifier: Apache-2.0
// The API of a cluster for a command that waits for its responses: a loop, a client, and a limit on
// the time of a wait. Only the thread that opened a session may use it.
#pragma once

#include "kube/client.h"

#include <stdbool.h>

struct kube_session {
    uv_loop_t loop;
    uv_timer_t timer;
    struct http_client *http;
    struct kube_client *client; // NULL: the session could not be opened
    char *ns;                   // of the kubeconfig's context
    bool timed_out;
};

// kubeconfig and context: as of kube_config_load(). command: for the user agent ("explain"). After
// an error, too, kube_session_close() is needed.
struct gs_error *kube_session_open(struct kube_session *s, const char *kubeconfig,
                                   const char *context, const char *command);
// Cancels requests. A session of zeros is not allowed.
void kube_session_close(struct kube_session *s);

// Runs the loop until *done. GS_ETIMEOUT after timeout_ms; callbacks may still come then, until the
// session is closed.
struct gs_error *kube_session_wait(struct kube_session *s, const bool *done, unsigned timeout_ms);
// Sends a list request and waits for the response: the whole list (new reference). ns NULL: all
// namespaces. query: as of kube_list().
struct gs_error *kube_session_list(struct kube_session *s, struct kube_gvr r, const char *ns,
                                   const char *query, unsigned timeout_ms, json_t **ret);
