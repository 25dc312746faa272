// SPDX-License-Identifier: Apache-2.0
// Asynchronous client of a Kubernetes API on any http_client: TLS to a cluster, or the in-process
// loopback to the embedded API. Only the thread of the loop may use it.
#pragma once

#include "codec/json.h"
#include "kube/resource.h"
#include "net/http/client.h"

struct kube_client;
struct kube_request;

// A resource of the API: group "" for core.
struct kube_gvr {
    const char *group, *version, *resource;
};
#define KUBE_GVR_OF_ROW(group, version, plural, ...) ((struct kube_gvr){group, version, plural})
#define KUBE_GVR(...)                                KUBE_GVR_OF_ROW(__VA_ARGS__)
#define KUBE_PODS                                    KUBE_GVR(KUBE_RESOURCE_PODS)
#define KUBE_SERVICES                                KUBE_GVR(KUBE_RESOURCE_SERVICES)
#define KUBE_ENDPOINTS                               KUBE_GVR(KUBE_RESOURCE_ENDPOINTS)
#define KUBE_NODES                                   KUBE_GVR(KUBE_RESOURCE_NODES)
#define KUBE_NAMESPACES                              KUBE_GVR(KUBE_RESOURCE_NAMESPACES)
#define KUBE_EVENTS                                  KUBE_GVR(KUBE_RESOURCE_EVENTS)
#define KUBE_CONFIGMAPS                              KUBE_GVR(KUBE_RESOURCE_CONFIGMAPS)
#define KUBE_SECRETS                                 KUBE_GVR(KUBE_RESOURCE_SECRETS)
#define KUBE_SERVICEACCOUNTS                         KUBE_GVR(KUBE_RESOURCE_SERVICEACCOUNTS)
#define KUBE_DEFINITIONS                             KUBE_GVR(KUBE_RESOURCE_CUSTOMRESOURCEDEFINITIONS)
#define KUBE_CLAIMS                                  KUBE_GVR(KUBE_RESOURCE_PERSISTENTVOLUMECLAIMS)
#define KUBE_REPLICATIONCONTROLLERS                  KUBE_GVR(KUBE_RESOURCE_REPLICATIONCONTROLLERS)
#define KUBE_DEPLOYMENTS                             KUBE_GVR(KUBE_RESOURCE_DEPLOYMENTS)
#define KUBE_REPLICASETS                             KUBE_GVR(KUBE_RESOURCE_REPLICASETS)
#define KUBE_DAEMONSETS                              KUBE_GVR(KUBE_RESOURCE_DAEMONSETS)
#define KUBE_STATEFULSETS                            KUBE_GVR(KUBE_RESOURCE_STATEFULSETS)
#define KUBE_REVISIONS                               KUBE_GVR(KUBE_RESOURCE_CONTROLLERREVISIONS)
#define KUBE_HPAS                                    KUBE_GVR(KUBE_RESOURCE_HORIZONTALPODAUTOSCALERS)
#define KUBE_JOBS                                    KUBE_GVR(KUBE_RESOURCE_JOBS)
#define KUBE_CRONJOBS                                KUBE_GVR(KUBE_RESOURCE_CRONJOBS)
#define KUBE_PODDISRUPTIONBUDGETS                    KUBE_GVR(KUBE_RESOURCE_PODDISRUPTIONBUDGETS)
#define KUBE_LEASES                                  KUBE_GVR(KUBE_RESOURCE_LEASES)

// client is borrowed and must outlive the kube_client.
struct kube_client *kube_client_new(struct http_client *client);
// Its requests do not wait for others of the http_client.
struct kube_client *kube_client_new_urgent(struct http_client *client);
void kube_client_free(struct kube_client *c);                      // cancels all requests
struct http_client *kube_client_http(const struct kube_client *c); // borrowed

// status 0 and err set: the transfer failed. Else the HTTP status and the parsed body (borrowed for
// the call; take a reference to keep it). For status >= 400 err is set too, with the Status message
// (GS_ENOTFOUND 404, GS_EEXIST / GS_ECONFLICT 409, GS_EPERM 401 and 403, GS_EINVAL 400 and 422).
// err is owned by the callee. kube_done may be NULL: the result is ignored.
typedef void (*kube_done)(void *arg, int status, json_t *body, struct gs_error *err);

struct kube_request *kube_get(struct kube_client *c, struct kube_gvr r, const char *ns,
                              const char *name, const char *subresource, kube_done cb, void *arg);
// query: encoded extra parameters such as "labelSelector=a%3Db", NULL for none.
struct kube_request *kube_list(struct kube_client *c, struct kube_gvr r, const char *ns,
                               const char *query, kube_done cb, void *arg);
// As kube_list(), of a path with the query, for lists of any length: requested in pages. The body
// has all objects, unless the query has a limit: then one page is requested. take is called with
// arg for each object when its page arrives, to remove unneeded members; NULL: objects are kept
// whole.
typedef void (*kube_take)(void *arg, json_t *object);
struct kube_request *kube_list_pages(struct kube_client *c, const char *path, kube_take take,
                                     kube_done cb, void *arg);
struct kube_request *kube_create(struct kube_client *c, struct kube_gvr r, const char *ns,
                                 const json_t *obj, kube_done cb, void *arg);
// POSTs to a subresource of an object: "binding", "eviction".
struct kube_request *kube_create_sub(struct kube_client *c, struct kube_gvr r, const char *ns,
                                     const char *name, const char *subresource, const json_t *obj,
                                     kube_done cb, void *arg);
// PUTs the object; subresource "status", "scale" or NULL. An outdated metadata.resourceVersion
// returns 409.
struct kube_request *kube_update(struct kube_client *c, struct kube_gvr r, const char *ns,
                                 const char *name, const char *subresource, const json_t *obj,
                                 kube_done cb, void *arg);
// content_type: KUBE_MERGE_PATCH …
#define KUBE_MERGE_PATCH     "application/merge-patch+json"
#define KUBE_STRATEGIC_PATCH "application/strategic-merge-patch+json"
#define KUBE_JSON_PATCH      "application/json-patch+json"
struct kube_request *kube_patch(struct kube_client *c, struct kube_gvr r, const char *ns,
                                const char *name, const char *subresource, const char *content_type,
                                const json_t *patch, kube_done cb, void *arg);
// grace_seconds < 0: the object's own grace period.
// Dependents are deleted in the background.
struct kube_request *kube_delete(struct kube_client *c, struct kube_gvr r, const char *ns,
                                 const char *name, int grace_seconds, kube_done cb, void *arg);
// policy: "Background", "Foreground" or "Orphan".
struct kube_request *kube_delete_with(struct kube_client *c, struct kube_gvr r, const char *ns,
                                      const char *name, int grace_seconds, const char *policy,
                                      kube_done cb, void *arg);
struct kube_request *kube_raw_get(struct kube_client *c, const char *path, kube_done cb, void *arg);
void kube_request_cancel(struct kube_request *r); // cb is not called; accepts NULL

// "/api/v1/namespaces/NS/pods/NAME/SUB"; ns, name and subresource may be NULL.
void kube_path(struct gs_buf *out, struct kube_gvr r, const char *ns, const char *name,
               const char *subresource);
