// SPDX-License-Identifier: Apache-2.0
// Which engine or Prometheus a command asks. `gpuscale up` writes the URL of its engine into its
// kubeconfig, so that KUBECONFIG is the only setting of a cluster and two clusters never mix.
#pragma once

#define KUBE_ENGINE_DEFAULT_URL "http://localhost:9090"

enum kube_engine_origin {
    KUBE_ENGINE_OF_FLAG,
    KUBE_ENGINE_OF_GPUSCALE_URL,
    KUBE_ENGINE_OF_PROMETHEUS_URL,
    KUBE_ENGINE_OF_KUBECONFIG,
    KUBE_ENGINE_OF_DEFAULT,
};

struct kube_engine_url {
    char *url;
    enum kube_engine_origin origin;
};

// The first that is set: flag (the value of an option, perhaps of its variable GPUSCALE_URL; NULL:
// none), GPUSCALE_URL, PROMETHEUS_URL, the kubeconfig, the default. kubeconfig and context: as of
// kube_config_load(); a kubeconfig that cannot be read has no URL.
void kube_engine_url_find(const char *flag, const char *kubeconfig, const char *context,
                          struct kube_engine_url *ret);
void kube_engine_url_finish(struct kube_engine_url *u);
// Why this one is used, for errors and tables: "of $GPUSCALE_URL". NULL: the command line names it.
const char *kube_engine_url_reason(const struct kube_engine_url *u);
