// SPDX-License-Identifier: Apache-2.0
// Generates the `scrape_configs` of an object; all scalars are strings. The result depends only on
// the object and the secrets that it names. https://prometheus-operator.dev/docs/api-reference/api/
#pragma once

#include "base/error.h"
#include "codec/json.h"
#include "engine/config/config.h"

enum monitors_kind { MONITORS_SERVICE, MONITORS_POD };
#define MONITORS_KINDS 2

enum monitors_asset { MONITORS_SECRET, MONITORS_CONFIGMAP };

// Returns the object with this name in the namespace of the monitor, or NULL. *ret_pending: it is
// not loaded yet.
typedef const json_t *(*monitors_lookup_fn)(void *arg, enum monitors_asset kind, const char *name,
                                            bool *ret_pending);

struct monitors_build {
    enum monitors_kind kind;
    const json_t *obj;
    monitors_lookup_fn lookup;
    void *arg;
    const json_t *global;    // the defaults, in the form of the configuration; NULL: none
    const char *account_dir; // see struct monitors_selectors
    // A wrong endpoint is left out, and the others have jobs. Otherwise it is an error.
    bool keep_valid;

    bool pending; // an object is not loaded yet: no error and no jobs
    struct gs_error *err;
    struct gs_error *left_out; // the first wrong endpoint; owned by the caller
};

// "serviceMonitor/NS/NAME". Caller frees.
char *monitors_name(enum monitors_kind kind, const json_t *obj);
// *ret_jobs: a new array; NULL while an object is pending.
struct gs_error *monitors_jobs(struct monitors_build *b, json_t **ret_jobs);
// The configuration with these jobs, which are borrowed.
struct gs_error *monitors_config(const struct monitors_build *b, json_t *jobs,
                                 struct engine_config **ret);
// Two endpoints that scrape the same port of the same objects, and how to fix it; NULL: none.
// Endpoints with relabelings are not compared. Caller frees.
char *monitors_doubles(enum monitors_kind kind, const json_t *spec);

// --- between the parts ---

// Writes the settings of one endpoint, except discovery and relabelling, into job.
void monitors_endpoint(struct monitors_build *b, const json_t *endpoint, json_t *job);
// Returns a member as text, with numbers and booleans in YAML notation; NULL if it is absent, empty
// or not a scalar.
json_t *monitors_text(const json_t *value);
void monitors_fail(struct monitors_build *b, struct gs_error *err); // the first error is kept
// Copies members of `from` under other names. pairs ends with a NULL name.
struct monitors_rename {
    const char *from, *to;
};
void monitors_copy(const json_t *from, const struct monitors_rename *names, json_t *to);
