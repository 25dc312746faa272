// SPDX-License-Identifier: Apache-2.0
// The engine put together: store, queries, scraping, rules, remote write, HTTP API, reload.
// `gpuscale engine` runs one; `gpuscale up` and the adapter embed one.
#pragma once

#include "engine/config/config.h"
#include "engine/rules/rules.h"
#include "engine/scrape/manager.h"
#include "net/http.h"
#include "promql/promql.h"

#include <uv.h>

struct engine;

struct engine_options {
    const char *config_path; // NULL: config_text, or an empty configuration
    const char *config_text;
    struct tsdb_config store;
    struct promql_config query;
    struct kube_client *kube; // NULL: no cluster
    const char *external_url;
    bool enable_lifecycle;           // /-/reload, /-/quit
    const struct http_header *flags; // name/value pairs for status/flags, ends with NULL
};

struct gs_error *engine_new(uv_loop_t *loop, const struct engine_options *o, struct engine **ret);
void engine_free(struct engine *e);
// All or nothing: on an error the old configuration goes on.
struct gs_error *engine_reload(struct engine *e);
void engine_handle(void *e, struct http_exchange *x); // an http_handler: the whole HTTP API

struct tsdb *engine_tsdb(struct engine *e);
struct promql_engine *engine_promql(struct engine *e);
struct scrape_manager *engine_scrapes(struct engine *e);
struct rules_manager *engine_rules(struct engine *e);
