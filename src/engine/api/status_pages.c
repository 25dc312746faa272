// SPDX-License-Identifier: Apache-2.0
// /api/v1/status/… and /version.
#include "engine/api/api_private.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { DEFAULT_TOP = 10, MAX_TOP = 10000 };

static json_t *text_or_empty(const char *s)
{
    return json_string(s ? s : "");
}

void engine_api_status_config(struct engine_api_request *r)
{
    const struct engine_config *c = r->api->config;
    engine_api_reply_json(r, json_pack("{s:o}", "yaml", text_or_empty(c ? c->shown : NULL)));
}

void engine_api_status_flags(struct engine_api_request *r)
{
    json_t *data = json_object();
    for (const struct http_header *f = r->api->cfg.flags; f && f->name; f++)
        json_object_set_new(data, f->name, text_or_empty(f->value));
    engine_api_reply_json(r, data);
}

// Clients such as Grafana select features by this version. It is therefore the version of the
// Prometheus API that gpuscale implements, and the revision is the version of gpuscale.
static json_t *build_info(void)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "version", ENGINE_API_PROMETHEUS_VERSION,
                     "revision", "gpuscale-" GPUSCALE_VERSION, "branch", "", "buildUser", "",
                     "buildDate", "", "goVersion", "");
}

void engine_api_status_buildinfo(struct engine_api_request *r)
{
    engine_api_reply_json(r, build_info());
}

void engine_api_version(struct engine_api_request *r)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    json_t *info = build_info();
    codec_json_dump(info, &out);
    json_decref(info);
    engine_api_reply_body(r, 200, "application/json", gs_buf_slice(&out));
}

void engine_api_status_runtimeinfo(struct engine_api_request *r)
{
    const struct engine_api *a = r->api;
    char cwd[4096] = "", host[256] = "", started[GS_RFC3339_SIZE], loaded[GS_RFC3339_SIZE],
         now[GS_RFC3339_SIZE], retention[GS_RFC3339_SIZE];
    if (!getcwd(cwd, sizeof(cwd)))
        cwd[0] = '\0';
    gethostname(host, sizeof(host) - 1);
    struct tsdb_stats s;
    tsdb_stats(a->cfg.db, &s);
    // Clients expect the goroutine and GO… keys. The process has one thread for queries.
    engine_api_reply_json(
        r,
        json_pack("{s:s,s:s,s:s,s:s,s:b,s:s,s:I,s:i,s:i,s:i,s:s,s:s,s:s}", "startTime",
                  gs_format_rfc3339(a->started_ms, started), "CWD", cwd, "hostname", host,
                  "serverTime", gs_format_rfc3339(r->now_ms, now), "reloadConfigSuccess",
                  a->reload_ok, "lastConfigTime", gs_format_rfc3339(a->reload_ms, loaded),
                  "corruptionCount", (json_int_t)s.wal_corrupt_records, "goroutineCount", 1,
                  "GOMAXPROCS", 1, "GOMEMLIMIT", 0, "GOGC", "", "GODEBUG", "", "storageRetention",
                  gs_format_units(a->cfg.retention_ms * GS_NS_PER_MS, retention)));
}

// The store has no blocks of Prometheus.
void engine_api_status_blocks(struct engine_api_request *r)
{
    engine_api_reply_json(r, json_pack("{s:[]}", "blocks"));
}

void engine_api_status_walreplay(struct engine_api_request *r)
{
    engine_api_reply_json(r, json_pack("{s:i,s:i,s:i}", "min", 0, "max", 0, "current", 0));
}

void engine_api_notifications(struct engine_api_request *r)
{
    engine_api_reply_json(r, json_array());
}

// What Prometheus responds if there are too many subscribers. There are no notifications.
void engine_api_notifications_live(struct engine_api_request *r)
{
    http_add_header(r->x, "Cache-Control", "no-cache");
    engine_api_reply_body(r, 204, "text/event-stream", GS_SLICE(""));
}

// --- APIs that are off in Prometheus unless a flag turns them on ---

void engine_api_search(struct engine_api_request *r)
{
    engine_api_fail(r, ENGINE_API_UNAVAILABLE, "search API disabled");
}

void engine_api_admin(struct engine_api_request *r)
{
    engine_api_fail(r, ENGINE_API_UNAVAILABLE, "admin APIs disabled");
}

// --- status/tsdb ---

// The largest counts, in descending order, at most `cap`.
struct top {
    struct entry {
        char *name;
        uint64_t value;
    } * items;
    size_t len, cap;
};

static void top_finish(struct top *t)
{
    for (size_t i = 0; i < t->len; i++)
        free(t->items[i].name);
    free(t->items);
}

static bool top_takes(const struct top *t, uint64_t value)
{
    return t->len < t->cap || value > t->items[t->len - 1].value;
}

// Takes ownership of name.
static void top_add(struct top *t, char *name, uint64_t value)
{
    if (t->len == t->cap)
        free(t->items[--t->len].name);
    size_t at = t->len++;
    for (; at && t->items[at - 1].value < value; at--)
        t->items[at] = t->items[at - 1];
    t->items[at] = (struct entry){name, value};
}

static void top_offer(struct top *t, struct gs_slice name, uint64_t value)
{
    if (top_takes(t, value))
        top_add(t, gs_slice_dup(name), value);
}

static json_t *top_json(const struct top *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->len; i++)
        json_array_append_new(list, json_pack("{s:s,s:I}", "name", t->items[i].name, "value",
                                              (json_int_t)t->items[i].value));
    return list;
}

struct cardinality {
    const struct tsdb *db;
    struct top metrics, labels, bytes, pairs;
    struct gs_slice label; // the label whose values are being counted
    size_t n_values, n_pairs, label_bytes;
    struct gs_slice *names;
    size_t n_names, cap_names;
};

static void add_label_name(void *arg, struct gs_slice name)
{
    struct cardinality *c = arg;
    gs_grow(&c->names, &c->cap_names, c->n_names, sizeof(*c->names));
    c->names[c->n_names++] = name;
}

static void add_label_value(void *arg, struct gs_slice value, size_t series)
{
    struct cardinality *c = arg;
    c->n_values++;
    c->label_bytes += series * value.len;
    if (gs_slice_eq_str(c->label, "__name__"))
        top_offer(&c->metrics, value, series);
    if (top_takes(&c->pairs, series))
        top_add(
            &c->pairs,
            gs_format(GS_SLICE_FMT "=" GS_SLICE_FMT, GS_SLICE_ARG(c->label), GS_SLICE_ARG(value)),
            series);
}

static struct gs_error *count_cardinality(struct cardinality *c)
{
    struct gs_error *err = tsdb_label_values(c->db, GS_SLICE(""), NULL, 0, INT64_MIN / 4,
                                             INT64_MAX / 4, add_label_name, c);
    for (size_t i = 0; !err && i < c->n_names; i++) {
        c->label = c->names[i];
        c->n_values = c->label_bytes = 0;
        tsdb_count_by_label(c->db, c->label, add_label_value, c);
        top_offer(&c->labels, c->label, c->n_values);
        top_offer(&c->bytes, c->label, c->label_bytes);
        c->n_pairs += c->n_values;
    }
    return err;
}

static json_t *cardinality_json(const struct cardinality *c)
{
    struct tsdb_stats s;
    tsdb_stats(c->db, &s);
    return json_pack("{s:{s:I,s:I,s:I,s:I,s:I},s:o,s:o,s:o,s:o}", "headStats", "numSeries",
                     (json_int_t)s.series, "numLabelPairs", (json_int_t)c->n_pairs, "chunkCount",
                     (json_int_t)s.chunks, "minTime", (json_int_t)s.min_t_ms, "maxTime",
                     (json_int_t)s.max_t_ms, "seriesCountByMetricName", top_json(&c->metrics),
                     "labelValueCountByLabelName", top_json(&c->labels), "memoryInBytesByLabelName",
                     top_json(&c->bytes), "seriesCountByLabelValuePair", top_json(&c->pairs));
}

void engine_api_status_tsdb(struct engine_api_request *r)
{
    static const char wrong[] = "limit must be a positive number";
    int64_t limit;
    if (!engine_api_int(r, "limit", wrong, DEFAULT_TOP, &limit))
        return;
    if (limit < 1) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "%s", wrong);
        return;
    }
    if (limit > MAX_TOP) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "limit must not exceed %d", MAX_TOP);
        return;
    }
    struct cardinality c = {.db = r->api->cfg.db};
    struct top *tops[] = {&c.metrics, &c.labels, &c.bytes, &c.pairs};
    for (size_t i = 0; i < GS_ARRAY_LEN(tops); i++) {
        tops[i]->cap = (size_t)limit;
        tops[i]->items = gs_alloc_array(tops[i]->cap + 1, sizeof(struct entry));
    }
    struct gs_error *err = count_cardinality(&c);
    if (err)
        engine_api_fail_query(r, err);
    else
        engine_api_reply_json(r, cardinality_json(&c));
    for (size_t i = 0; i < GS_ARRAY_LEN(tops); i++)
        top_finish(tops[i]);
    free(c.names);
}
