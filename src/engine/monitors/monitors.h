// SPDX-License-Identifier: Apache-2.0
// ServiceMonitor and PodMonitor objects (monitoring.coreos.com/v1) as scrape jobs, with the names,
// relabelling and labels that the Prometheus operator gives them. A cluster without these resources
// is a cluster without such jobs. A wrong object is told in the log and has no jobs until it is
// mended; the others go on.
#pragma once

#include "engine/scrape/scrape.h"
#include "kube/client.h"

struct monitors;

// The jobs are extra sets of the manager, named as the objects: "serviceMonitor/NS/NAME".
struct monitors *monitors_new(uv_loop_t *loop, struct kube_client *client,
                              struct scrape_manager *scrapes);
// The defaults of jobs that set none: the scrape interval, timeout and limits of a configuration,
// of which nothing is kept.
void monitors_set_defaults(struct monitors *m, const struct engine_config *cfg);
// After the scrape manager, whose jobs use the objects' configurations to the end.
void monitors_free(struct monitors *m);

struct monitors_count {
    size_t selected, rejected, waiting; // waiting: for a Secret or ConfigMap
};
struct monitors_count monitors_count(const struct monitors *m);
// Why an object has no jobs ("serviceMonitor/NS/NAME"); NULL: it has, or is not known.
const char *monitors_error(const struct monitors *m, const char *name);
