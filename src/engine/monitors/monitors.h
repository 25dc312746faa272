// SPDX-License-Identifier: Apache-2.0
// ServiceMonitor and PodMonitor objects (monitoring.coreos.com/v1) as scrape jobs, with the names,
// relabelling and labels that the Prometheus operator gives them. The resources are optional. An
// invalid object is logged and has no jobs until it is fixed; the others are not affected.
#pragma once

#include "codec/yaml.h"
#include "engine/config/selection.h"
#include "engine/scrape/scrape.h"
#include "kube/client.h"

struct monitors;

// Label selectors of the objects; NULL: all objects. The texts must outlive the monitors. Objects
// that are not selected are logged.
struct monitors_selectors {
    const char *services, *pods;
    const struct engine_config_selection *selection; // takes precedence; NULL: none
    // The folder with the files of a service account (engine_config_move_account_files); NULL:
    // files are read where the objects say.
    const char *account_dir;
};

// The jobs of each object are a named set of the manager: "serviceMonitor/NS/NAME".
struct monitors *monitors_new(uv_loop_t *loop, struct kube_client *client,
                              struct scrape_manager *scrapes,
                              const struct monitors_selectors *selectors);
// Sets the defaults of jobs: the scrape interval, timeout and limits of a configuration. They are
// copied.
void monitors_set_defaults(struct monitors *m, const struct engine_config *cfg);
// The selection decides differently from now on: all objects are decided again.
void monitors_select_again(struct monitors *m);
// Free it after the scrape manager, whose jobs use the configurations of the objects.
void monitors_free(struct monitors *m);

struct monitors_count {
    size_t selected, rejected, waiting; // waiting: for a Secret or ConfigMap
};
struct monitors_count monitors_count(const struct monitors *m);
// Why an object ("serviceMonitor/NS/NAME") or one of its endpoints has no job; NULL: all have, or
// it does not exist.
const char *monitors_error(const struct monitors *m, const char *name);
// Iterates over objects whose endpoints scrape a port twice; *pos starts at 0. Returns the text;
// NULL: the end. Both texts are borrowed until an object changes.
const char *monitors_warning(const struct monitors *m, size_t *pos, const char **ret_name);
// Checks a ServiceMonitor or PodMonitor object of a file without a cluster; others pass. Errors and
// warnings have the position in the file if marks has it. marks may be NULL. Adds texts to
// warnings: endpoints that scrape a port twice, rules that never match.
struct gs_error *monitors_check(const json_t *obj, const char *file,
                                const struct codec_yaml_marks *marks, json_t *warnings);
