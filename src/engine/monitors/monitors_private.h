// SPDX-License-Identifier: Apache-2.0
// An object's jobs as the `scrape_configs` of a configuration, whose scalars are all texts. A
// function of the object and the secrets that it names.
// https://prometheus-operator.dev/docs/api-reference/api/
#pragma once

#include "base/error.h"
#include "codec/json.h"

enum monitors_kind { MONITORS_SERVICE, MONITORS_POD };
#define MONITORS_KINDS 2

enum monitors_asset { MONITORS_SECRET, MONITORS_CONFIGMAP };

// The object with this name in the monitor's namespace: NULL when there is none. *ret_pending: it
// cannot be told yet.
typedef const json_t *(*monitors_lookup_fn)(void *arg, enum monitors_asset kind, const char *name,
                                            bool *ret_pending);

struct monitors_build {
    enum monitors_kind kind;
    const json_t *obj;
    monitors_lookup_fn lookup;
    void *arg;
    bool pending; // something was not known yet: no error, no jobs
    struct gs_error *err;
};

// "serviceMonitor/NS/NAME". Caller frees.
char *monitors_name(enum monitors_kind kind, const json_t *obj);
// *ret_jobs: a new array; NULL while something is pending.
struct gs_error *monitors_jobs(struct monitors_build *b, json_t **ret_jobs);

// --- between the parts ---

// The settings of one endpoint but its discovery and relabelling, into job.
void monitors_endpoint(struct monitors_build *b, const json_t *endpoint, json_t *job);
// A member as text: strings as they are, numbers and booleans as YAML writes them; NULL when it is
// absent, empty or no scalar.
json_t *monitors_text(const json_t *value);
void monitors_fail(struct monitors_build *b, struct gs_error *err); // the first one counts
// Members of `from` under other names: pairs end with a NULL name.
struct monitors_rename {
    const char *from, *to;
};
void monitors_copy(const json_t *from, const struct monitors_rename *names, json_t *to);
