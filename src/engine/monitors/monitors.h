// SPDX-License-Identifier: Apache-2.0
// ServiceMonitor and PodMonitor objects (monitoring.coreos.com/v1) as scrape jobs, with the names,
// relabelling and labels that the Prometheus operator gives them. The resources are optional. An
// invalid object is logged and has no jobs until it is fixed; the others are not affected.
#pragma once

#include "engine/scrape/scrape.h"
#include "kube/client.h"

struct monitors;

// The jobs of each object are a named set of the manager: "serviceMonitor/NS/NAME".
struct monitors *monitors_new(uv_loop_t *loop, struct kube_client *client,
                              struct scrape_manager *scrapes);
// Sets the defaults of jobs: the scrape interval, timeout and limits of a configuration. They are
// copied.
void monitors_set_defaults(struct monitors *m, const struct engine_config *cfg);
// Free it after the scrape manager, whose jobs use the configurations of the objects.
void monitors_free(struct monitors *m);

struct monitors_count {
    size_t selected, rejected, waiting; // waiting: for a Secret or ConfigMap
};
struct monitors_count monitors_count(const struct monitors *m);
// Why an object ("serviceMonitor/NS/NAME") has no jobs; NULL: it has jobs or does not exist.
const char *monitors_error(const struct monitors *m, const char *name);
