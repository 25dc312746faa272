// SPDX-License-Identifier: Apache-2.0
// Rules from the cluster: each PrometheusRule object (monitoring.coreos.com/v1) is a set of rules
// of the manager. A cluster without that resource is a cluster without such rules.
#pragma once

#include "engine/rules/rules.h"
#include "kube/client.h"

struct rules_objects;

// ns NULL: all namespaces. selector: a label selector of the objects, or NULL.
struct rules_objects *rules_objects_new(uv_loop_t *loop, struct kube_client *client, const char *ns,
                                        const char *selector, struct rules_manager *m);
void rules_objects_free(struct rules_objects *o); // its rules stay until the manager goes
// Why the objects cannot be seen; NULL when they can.
const char *rules_objects_error(const struct rules_objects *o);
