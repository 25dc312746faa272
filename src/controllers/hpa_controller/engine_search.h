// SPDX-License-Identifier: Apache-2.0
// The HTTP API of the engine or Prometheus from which samples are read: of a flag or a variable,
// else of a Service in the cluster. The search for a Service waits for the cluster and perhaps for
// a credential plug-in, so it runs on another thread, and autoscalers that need no samples go on.
// All functions are called on the thread of the loop.
#pragma once

#include "net/http/client.h"

#include <uv.h>

struct hpa_engine_search;

// url: of the flag; NULL: none. kubeconfig: as of kube_config_load(). Borrowed.
struct hpa_engine_search *hpa_engine_search_new(uv_loop_t *loop, const char *url,
                                                const char *kubeconfig, const char *user_agent);
// Closes the client. A search that waits ends within some seconds, and the loop must run until
// then. NULL is fine.
void hpa_engine_search_free(struct hpa_engine_search *s);
// As engine of struct hpa_controller_config; search: a struct hpa_engine_search. Searches when it
// is called first, and again if nothing was found a minute ago.
struct http_client *hpa_engine_search_client(void *search, const char **ret_why);
