// SPDX-License-Identifier: Apache-2.0
// Which engine or Prometheus a command asks. `gpuscale up` writes the URL of its engine into its
// kubeconfig, so that KUBECONFIG is the only setting of a cluster and two clusters never mix.
#pragma once

#include "codec/json.h"
#include "kube/kubeconfig.h"
#include "kube/session.h"

#define KUBE_ENGINE_DEFAULT_URL "http://localhost:9090"

enum kube_engine_origin {
    KUBE_ENGINE_OF_FLAG,
    KUBE_ENGINE_OF_GPUSCALE_URL,
    KUBE_ENGINE_OF_PROMETHEUS_URL,
    KUBE_ENGINE_OF_KUBECONFIG,
    KUBE_ENGINE_OF_SERVICE,
    KUBE_ENGINE_OF_DEFAULT,
};

struct kube_engine_url {
    char *url;
    enum kube_engine_origin origin;
    char *reason;               // see kube_engine_url_reason()
    char *searched;             // why no Service is used; NULL: none was searched
    struct kube_config cluster; // of a Service
    struct endpoint_settings settings;
};

// The first that is set: flag (the value of an option, perhaps of its variable GPUSCALE_URL; NULL:
// none), GPUSCALE_URL, PROMETHEUS_URL, the kubeconfig, the default. kubeconfig and context: as of
// kube_config_load(); a kubeconfig that cannot be read has no URL. Nothing is sent.
void kube_engine_url_find(const char *flag, const char *kubeconfig, const char *context,
                          struct kube_engine_url *ret);
// The same, but before the default a Service in the cluster of the kubeconfig, through the proxy of
// its API server. Blocks for at most some seconds. GS_EINVAL: several Services can be meant; the
// error lists them, and *ret is empty.
struct gs_error *kube_engine_url_locate(const char *flag, const char *kubeconfig,
                                        const char *context, struct kube_engine_url *ret);
void kube_engine_url_finish(struct kube_engine_url *u);
// Moves it to another place, which is empty; settings borrow from it. *from is empty afterwards.
void kube_engine_url_move(struct kube_engine_url *from, struct kube_engine_url *to);
// Why this one is used, for errors and tables: "of $GPUSCALE_URL". NULL: the command line names it.
const char *kube_engine_url_reason(const struct kube_engine_url *u);
// The credentials of its connection; borrowed. NULL: it needs none.
const struct endpoint_settings *kube_engine_url_settings(const struct kube_engine_url *u);
// "source: URL (of the kubeconfig)", for tables; the caller frees it. NULL: the command line names
// it.
char *kube_engine_url_source(const struct kube_engine_url *u);
// The URL in the kubeconfig. NULL: none. The caller frees it.
char *kube_engine_url_of_kubeconfig(const char *kubeconfig, const char *context);

// --- the Service of an engine or a Prometheus ---

// Searches by the labels of gpuscale's chart, then of those of Prometheus. *ret: new reference.
// GS_ENOTFOUND: none. GS_EINVAL: several; the error lists them.
struct gs_error *kube_engine_service_find(struct kube_session *k, json_t **ret);
// The port of its HTTP API. NULL: it has none that is known.
const json_t *kube_engine_service_port(const json_t *service);
// The path of the API server's proxy to it: "/api/v1/namespaces/NS/services/NAME:9090/proxy". The
// caller frees it.
char *kube_engine_service_path(const json_t *service);
