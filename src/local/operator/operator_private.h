// SPDX-License-Identifier: Apache-2.0
// Private to the module: the watched resources, the Prometheus objects that the engine follows, and
// functions that make the objects which prometheus-operator would make.
#pragma once

#include "base/error.h"
#include "base/hmap.h"
#include "base/timer.h"
#include "kube/selector.h"
#include "local/operator/operator.h"
#include "local/workqueue.h"

#define OPERATOR_GROUP "monitoring.coreos.com"

// --- watches.c: the resources of the operator, while their definitions exist ---

enum operator_resource {
    OPERATOR_PROMETHEUSES,
    OPERATOR_ALERTMANAGERS,
    OPERATOR_UNREAD, // the first one that is not read: its objects are reported
    OPERATOR_RESOURCES = OPERATOR_UNREAD + 5,
};

struct operator_watches;

struct operator_watches_handlers {
    void (*on_object)(void *arg, enum operator_resource r, const json_t *old_obj,
                      const json_t *new_obj);
    void (*on_synced)(void *arg); // a resource has been listed, or the definitions have
    void *arg;
};

struct operator_watches *operator_watches_new(struct local_cluster *c,
                                              const struct operator_watches_handlers *h);
void operator_watches_free(struct operator_watches *w);
bool operator_watches_synced(const struct operator_watches *w);
// NULL: the definition does not exist.
const struct kube_cache *operator_watches_cache(const struct operator_watches *w,
                                                enum operator_resource r);
struct kube_gvr operator_watches_gvr(const struct operator_watches *w, enum operator_resource r);
bool operator_watches_has_status(const struct operator_watches *w, enum operator_resource r);

// --- objects.c: what the objects of both kinds share ---

#define OPERATOR_MANAGED_BY "app.kubernetes.io/managed-by"
#define OPERATOR_ANN_INPUT  "prometheus-operator-input-hash" // of the desired object

// What one object becomes.
struct operator_set {
    const json_t *obj; // the Prometheus or Alertmanager
    const char *app;   // "prometheus", "alertmanager": container, and prefix of names
    const char *repository, *version; // of the image without spec.image
    int64_t port;
    const char *config_dir; // where the configuration is mounted
    const char *data_dir;
    const char *reloader;      // image of the config-reloader
    const char *config_secret; // name of its Secret with the configuration
    const char *config_file;   // key of that Secret, for the reloader
};

// The text of a member; fallback: it is absent or "".
const char *operator_text(const json_t *obj, const char *key, const char *fallback);
// "prometheus-N". Caller frees.
char *operator_set_name(const struct operator_set *s);
// The StatefulSet NAME with pods of these labels, containers and volumes. Takes labels and args.
// New reference.
json_t *operator_set_make(const struct operator_set *s, const char *name, json_t *labels,
                          json_t *args);
// The labels that all pods of the object have. New reference.
json_t *operator_set_labels(const struct operator_set *s);
int64_t operator_replicas(const json_t *obj); // of each shard
// The headless Service of all objects of a kind in the namespace. New reference.
json_t *operator_governing_service(const json_t *owner, const char *app, int64_t port);
// Creates the Service, or adds the owner to its owners.
void operator_ensure_service(struct local_reconcile *w, const json_t *existing, const json_t *owner,
                             json_t *desired);
// A Secret with these texts; entries is {"key": "text"}, borrowed. New reference.
json_t *operator_secret(const json_t *owner, const char *name, const json_t *entries);
// The decoded text of a key of a Secret. GS_ENOTFOUND: the Secret or the key does not exist.
struct gs_error *operator_secret_text(const struct kube_cache *secrets, const char *ns,
                                      const char *name, const char *key, struct gs_buf *ret);
// Creates the object or updates it if another input made it. existing NULL: it does not exist.
// False: the existing object belongs to another owner, and nothing was written.
bool operator_ensure(struct local_reconcile *w, struct kube_gvr r, const json_t *existing,
                     json_t *desired);

// --- prometheus.c, alertmanager.c ---

// The StatefulSet of a shard. New references.
json_t *operator_prometheus_set(const json_t *obj, int64_t shard, const char *reloader);
int64_t operator_prometheus_shards(const json_t *obj);
char *operator_prometheus_set_name(const json_t *obj, int64_t shard); // caller frees
json_t *operator_prometheus_service(const json_t *obj);
json_t *operator_alertmanager_set(const json_t *obj, const char *reloader);
json_t *operator_alertmanager_service(const json_t *obj);
// alertmanager-N-generated. New reference.
json_t *operator_alertmanager_secret(const json_t *obj, const struct kube_cache *secrets);

// --- status.c ---

// The status of the object from its StatefulSets (borrowed). failure NULL: the object was
// reconciled. New reference.
json_t *operator_status(const json_t *obj, const json_t *const *sets, size_t n, int64_t shards,
                        const char *failure);

// --- followed.c: one Prometheus object as settings of the engine ---

struct operator_followed {
    json_t *obj;      // as it is followed: of before, if it is paused
    char *versions;   // resource versions of what was read
    json_t *sections; // of prometheus.yml
    json_t *global;   // of its monitors
    char *error;      // why the previous sections stay; NULL: none
    struct kube_selector labels[ENGINE_CONFIG_KINDS], namespaces[ENGINE_CONFIG_KINDS];
    unsigned pass; // in which it was read first: orders objects of the same second
    bool reported; // its events were recorded
};

struct operator_followed *operator_followed_new(void);
void operator_followed_free(void *f);
// Reads the object and the Secrets that it names if they have changed. A paused object that was
// read before is not read.
void operator_followed_read(struct operator_followed *f, const json_t *obj,
                            const struct kube_cache *secrets);
bool operator_followed_selects(const struct operator_followed *f, enum engine_config_kind kind,
                               const json_t *obj, const json_t *ns);
// Whether the object refers to this Secret.
bool operator_followed_names(const json_t *obj, const char *secret);
// Why the object does not select another one, with what to do. ns: the Namespace object. Caller
// frees.
char *operator_followed_why_not(const struct operator_followed *f, enum engine_config_kind kind,
                                const json_t *obj, const json_t *ns);

// --- merge.c ---

// The sections of all objects, the oldest first; the oldest one decides about global settings. New
// reference. problem (may be NULL) is called with each job that another object has already.
json_t *operator_merge(struct operator_followed *const *all, size_t n,
                       void (*problem)(void *arg, const json_t *obj, const char *text), void *arg);

// --- reports.c ---

// Reports what has no effect in a Prometheus object, and the engine that it shares with the oldest.
void operator_report(struct kube_recorder *recorder, const json_t *obj, const json_t *oldest);
void operator_report_unread(struct kube_recorder *recorder, const json_t *obj); // a kind

// --- account.c ---

struct operator_account;
struct operator_account *operator_account_new(struct local_cluster *c, const char *dir,
                                              const char *ca_pem);
void operator_account_free(struct operator_account *a); // accepts NULL
void operator_account_set(struct operator_account *a, const char *ns, const char *name);

// --- kubelet_service.c: the Service and Endpoints of all kubelets ---

struct operator_kubelets;
struct operator_kubelets *operator_kubelets_new(struct local_cluster *c);
void operator_kubelets_free(struct operator_kubelets *k);

// --- unselected.c: monitors and rules that no Prometheus object selects ---

struct operator_unselected;
// why: text for an object, which the caller frees; NULL: it is selected now.
struct operator_unselected *
operator_unselected_new(struct local_cluster *c, struct kube_recorder *recorder,
                        char *(*why)(void *arg, enum engine_config_kind kind, const json_t *obj),
                        void *arg);
void operator_unselected_free(struct operator_unselected *u);
// Reports the object a moment later if it is still not selected.
void operator_unselected_add(struct operator_unselected *u, enum engine_config_kind kind,
                             const json_t *obj);
const char *operator_kind_name(enum engine_config_kind kind); // "ServiceMonitor"
