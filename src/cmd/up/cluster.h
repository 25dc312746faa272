// SPDX-License-Identifier: Apache-2.0
// All parts of the one-machine loop, started and stopped in the right order: API, controllers,
// scheduler, kubelet, services, metrics engine, adapter, autoscaler, and the exporter as a child
// process.
#pragma once

#include "adapter/adapter.h"
#include "cmd/up/child.h"
#include "cmd/up/devices.h"
#include "cmd/up/options.h"
#include "cmd/up/pki.h"
#include "engine/engine.h"
#include "hpa/controller.h"
#include "local/api.h"
#include "local/cluster.h"
#include "local/kubelet.h"
#include "local/scheduler.h"
#include "local/services.h"
#include "local/workloads.h"
#include "net/http/server.h"

struct up_cluster {
    uv_loop_t *loop;
    char *data_dir, *node_name, *self_exe, *kubeconfig, *podresources;
    struct up_devices devices;
    struct up_pki pki;
    struct local_image *images;
    size_t n_images;
    uint16_t api_port, exporter_port, prometheus_port;

    struct local_api *api;
    struct http_server *server;
    struct http_client *http;
    struct kube_client *client;
    struct local_cluster *cluster;
    struct local_workloads *workloads;
    struct local_scheduler *scheduler;
    struct local_services *services;
    struct kubelet *kubelet;
    char *engine_config;
    struct engine *engine;
    struct http_server *prometheus; // the engine's HTTP API
    struct adapter *adapter;
    struct hpa_controller *hpa;
    struct up_child *exporter;
};

// line: gets the exporter's output; observer: each autoscaling decision. Both with arg.
struct gs_error *up_cluster_start(uv_loop_t *loop, const struct up_options *o, const char *data_dir,
                                  void (*line)(void *arg, const char *line), hpa_observer observer,
                                  void *arg, struct up_cluster **ret);
// Whether objects may be applied: caches are in and the node is Ready.
bool up_cluster_ready(const struct up_cluster *c);
// Ends all containers, then calls done. up_cluster_free() comes after that.
void up_cluster_stop(struct up_cluster *c, void (*done)(void *arg), void *arg);
// NULL and half-started ones are fine. Run the loop until it is empty afterwards.
void up_cluster_free(struct up_cluster *c);
