// SPDX-License-Identifier: Apache-2.0
// /api/v1/gpuscale/report: who uses GPUs. /api/v1/gpuscale/inference: inference engines, and what
// their pages have.
#include "engine/api/api_private.h"

#include "base/clock.h"

#define DEFAULT_BY      "namespace,workload"
#define DEFAULT_DAYS    7
#define DEFAULT_IDLE_MS (INT64_C(10) * 60 * 1000)

void engine_api_report(struct engine_api_request *r)
{
    const char *by = engine_api_param(r, "by");
    struct ledger_report_options o = {0};
    int64_t idle_ns = DEFAULT_IDLE_MS * GS_NS_PER_MS;
    json_t *data = NULL;
    if (!r->api->cfg.report) {
        engine_api_fail(r, ENGINE_API_NOT_FOUND, "this engine has no ledger of GPU hours");
        return;
    }
    if (!engine_api_time(r, "until", r->now_ms, &o.until_ms) ||
        !engine_api_time(r, "since", o.until_ms - DEFAULT_DAYS * 24 * LEDGER_HOUR_MS,
                         &o.since_ms) ||
        !engine_api_duration(r, "idle", &idle_ns))
        return;
    o.idle_after_ms = idle_ns / GS_NS_PER_MS;
    struct gs_error *err = ledger_parse_by(*by ? by : DEFAULT_BY, o.by, &o.n_by);
    if (err) {
        engine_api_fail_param(r, "by", err);
        return;
    }
    err = r->api->cfg.report(r->api->cfg.arg, &o, engine_api_queue_pause, r->api->queue, &data);
    if (err)
        engine_api_fail_query(r, err);
    else
        engine_api_reply_json(r, data);
}

void engine_api_inference(struct engine_api_request *r)
{
    engine_api_reply_json(r, r->api->cfg.inference ? r->api->cfg.inference(r->api->cfg.arg)
                                                   : json_pack("{s:[], s:[]}", "engines", "pods"));
}
