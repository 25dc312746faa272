// SPDX-License-Identifier: Apache-2.0
// Which resource serves a kind ("Deployment" of "apps/v1" is deployments): the usual ones from a
// table, others by asking the API once. As in Kubernetes the group decides: where the version named
// does not have the kind, another one may. Strings of what was found stay valid as long as the
// object.
#pragma once

#include "kube/client.h"

struct hpa_resources;
struct hpa_lookup;

struct hpa_resources *hpa_resources_new(struct kube_client *client);
void hpa_resources_free(struct hpa_resources *r); // cancels look-ups

// *ret_known false: hpa_resources_discover() has to ask. Fails on a malformed engine_api_version.
struct gs_error *hpa_resources_get(const struct hpa_resources *r, const char *api_version,
                                   const char *kind, bool *ret_known, struct kube_gvr *ret);
// cb is called later, once: err NULL when hpa_resources_get() knows the kind now (err is owned by
// the callee).
struct hpa_lookup *hpa_resources_discover(struct hpa_resources *r, const char *api_version,
                                          const char *kind,
                                          void (*cb)(void *arg, struct gs_error *err), void *arg);
// It is looked up again when it is asked for next: the API does not have it there any more.
void hpa_resources_forget(struct hpa_resources *r, const char *api_version, const char *kind);
void hpa_lookup_cancel(struct hpa_lookup *l); // NULL is fine
