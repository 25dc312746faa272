// SPDX-License-Identifier: Apache-2.0
// An object's jobs as the `scrape_configs` of a configuration, whose scalars are all texts. A
// function of the object and the secrets that it names. Private to the room.
// https://prometheus-operator.dev/docs/api-reference/api/
#pragma once

#include "base/error.h"
#include "codec/json.h"

enum monitor_kind { MONITOR_SERVICE, MONITOR_POD };
#define MONITOR_KINDS 2

enum monitor_asset { MONITOR_SECRET, MONITOR_CONFIGMAP };

// The object with this name in the monitor's namespace: NULL when there is none. *ret_pending: it
// cannot be told yet.
typedef const json_t *(*monitor_lookup_fn)(void *arg, enum monitor_asset kind, const char *name,
                                           bool *ret_pending);

struct monitor_build {
    enum monitor_kind kind;
    const json_t *obj;
    monitor_lookup_fn lookup;
    void *arg;
    bool pending; // something was not known yet: no error, no jobs
    struct gs_error *err;
};

// "serviceMonitor/NS/NAME". Caller frees.
char *monitor_name(enum monitor_kind kind, const json_t *obj);
// *ret_jobs: a new array; NULL while something is pending.
struct gs_error *monitor_jobs(struct monitor_build *b, json_t **ret_jobs);

// --- between the parts ---

// The settings of one endpoint but its discovery and relabelling, into job.
void monitor_endpoint(struct monitor_build *b, const json_t *endpoint, json_t *job);
// A member as text: strings as they are, numbers and booleans as YAML writes them; NULL when it is
// absent, empty or no scalar.
json_t *monitor_text(const json_t *value);
void monitor_fail(struct monitor_build *b, struct gs_error *err); // the first one counts
// Members of `from` under other names: pairs end with a NULL name.
struct monitor_rename {
    const char *from, *to;
};
void monitor_copy(const json_t *from, const struct monitor_rename *names, json_t *to);
