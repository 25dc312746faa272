// SPDX-License-Identifier: Apache-2.0
// The part of the Prometheus operator that charts need: Prometheus and Alertmanager objects
// (monitoring.coreos.com/v1) become StatefulSets, Services, Secrets and a status, and the settings
// of the one metrics engine of `gpuscale up`. It acts only while their CustomResourceDefinitions
// exist, without a pod of the operator. Only the thread of the loop may use it.
#pragma once

#include "engine/config/selection.h"
#include "local/cluster.h"

struct operator_controller;

struct operator_config {
    struct local_cluster *cluster;
    // The engine reads the files of a service account in this folder: ca.crt, namespace and token
    // of the account of the oldest Prometheus object, else of default in the namespace default.
    const char *account_dir; // NULL: none are written
    const char *ca_pem;      // of the API's certificate
    // The sections or the selection have changed. Called from the loop only.
    void (*on_change)(void *arg);
    void *arg;
};

// Strings are borrowed.
struct operator_controller *operator_new(const struct operator_config *cfg);
void operator_free(struct operator_controller *o); // accepts NULL

// Sections of prometheus.yml (global, scrape_configs, alerting) from all Prometheus objects, with
// strings as scalars. NULL: there is no such object. Borrowed until the next change.
const json_t *operator_sections(const struct operator_controller *o);
// A function of struct engine_config_selection; arg: the controller. While a Prometheus object
// exists, its selectors decide; before the objects are listed, nothing is selected.
enum engine_config_choice operator_choose(void *arg, enum engine_config_kind kind,
                                          const json_t *obj, const json_t **ret_global);
