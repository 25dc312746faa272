// SPDX-License-Identifier: Apache-2.0
// Replaces scraping and rules in the tests of the HTTP API. The functions return fixed data, so
// that only the API is tested.
#pragma once

#include "engine/rules/rules.h"
#include "engine/scrape/scrape.h"
#include "unit.h"

struct scrape_manager {
    int nothing;
};
struct rules_manager {
    int nothing;
};

static json_t *json_of(const char *text)
{
    json_t *j = NULL;
    assert_ok(codec_json_parse(gs_slice_of(text), true, &j));
    return j;
}

// Returns its arguments.
json_t *scrape_targets_json(const struct scrape_manager *m, const char *state, const char *pool)
{
    return json_pack("{s:s,s:s}", "state", state, "pool", pool ? pool : "all");
}

json_t *scrape_metadata_json(const struct scrape_manager *m, const char *metric, int64_t limit,
                             int64_t limit_per_metric)
{
    return json_pack("{s:s,s:I,s:I}", "metric", metric ? metric : "all", "limit", (json_int_t)limit,
                     "per", (json_int_t)limit_per_metric);
}

json_t *scrape_targets_metadata_json(const struct scrape_manager *m,
                                     const struct tsdb_matcher *matchers, size_t n_matchers,
                                     const char *metric, int64_t limit)
{
    return json_pack("[i,s,I]", (int)n_matchers, metric ? metric : "all", (json_int_t)limit);
}

json_t *scrape_pools_json(const struct scrape_manager *m)
{
    return json_of("{\"scrapePools\":[\"a\"]}");
}

const struct engine_config_scrape_config *scrape_pool_config(const struct scrape_manager *m,
                                                             const char *name)
{
    return NULL;
}

void scrape_manager_write_metrics(const struct scrape_manager *m, struct gs_buf *out)
{
    gs_buf_add_str(out, "prometheus_target_scrapes_total 1\n");
}

json_t *rules_json(const struct rules_manager *m, const char *type)
{
    if (type && strcmp(type, "record") == 0)
        return json_of("{\"groups\":[{\"name\":\"g1\",\"file\":\"a.yml\",\"rules\":["
                       "{\"name\":\"r\",\"labels\":{\"team\":\"x\"}}]}]}");
    return json_of("{\"groups\":["
                   "{\"name\":\"g1\",\"file\":\"a.yml\",\"rules\":["
                   "{\"name\":\"r\",\"labels\":{\"team\":\"x\"}},"
                   "{\"name\":\"A\",\"labels\":{\"team\":\"y\"},\"alerts\":[{}]}]},"
                   "{\"name\":\"g2\",\"file\":\"a.yml\",\"rules\":[{\"name\":\"r\"}]},"
                   "{\"name\":\"g1\",\"file\":\"b.yml\",\"rules\":[{\"name\":\"s\"}]},"
                   "{\"name\":\"none\",\"file\":\"b.yml\",\"rules\":[]}]}");
}

json_t *rules_alerts_json(const struct rules_manager *m)
{
    return json_of("{\"alerts\":[1]}");
}

json_t *rules_alertmanagers_json(const struct rules_manager *m)
{
    return json_of("{\"activeAlertmanagers\":[1]}");
}

void rules_manager_write_metrics(const struct rules_manager *m, struct gs_buf *out)
{
    gs_buf_add_str(out, "prometheus_rule_evaluations_total 1\n");
}
