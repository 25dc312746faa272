// SPDX-License-Identifier: Apache-2.0
// The prometheus.yml of `gpuscale up`. It is written again when Prometheus objects, their Secrets
// or other exporters change. Rules and monitors are objects of the cluster.
#include "up/up_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "engine/config/config.h"

#include <errno.h>
#include <stdlib.h>

#define ALERTMANAGER_PORT "9093"

static json_t *job_of_exporter(const struct up_engine_config *c, const char *name, int interval_ms)
{
    json_t *job = json_pack("{s:s, s:o}", "job_name", name, "scrape_interval",
                            codec_json_strf("%dms", interval_ms));
    // The series of devices get the label of the series of processes, which ACK's rules use.
    json_t *rules = json_pack("[{s:[s,s], s:s, s:s, s:s}]", "source_labels", "NodeName", "hostname",
                              "regex", ";(.+)", "target_label", "NodeName", "replacement", "$1");
    if (c->hidden)
        json_array_append_new(rules,
                              json_pack("{s:s, s:[s,s], s:s}", "action", "drop", "source_labels",
                                        "__name__", "UUID", "regex", c->hidden));
    json_object_set_new(job, "metric_relabel_configs", rules);
    return job;
}

static void add_exporters(const struct up_engine_config *c, json_t *jobs)
{
    json_t *first = job_of_exporter(c, UP_EXPORTER_JOB, c->interval_ms);
    if (c->exporter)
        json_object_set_new(first, "static_configs",
                            json_pack("[{s:[s]}]", "targets", c->exporter));
    json_array_append_new(jobs, first);
    if (!c->targets)
        return;
    // A job of its own for the interval. The series have the same label.
    json_t *machines = job_of_exporter(c, "gpuscale-machines", c->targets_interval_ms);
    json_object_set_new(machines, "file_sd_configs", json_pack("[{s:[s]}]", "files", c->targets));
    json_object_set_new(
        machines, "relabel_configs",
        json_pack("[{s:s, s:s}]", "target_label", "job", "replacement", UP_EXPORTER_JOB));
    json_array_append_new(jobs, machines);
}

// "HOST", "HOST:PORT" or "http://HOST:PORT/PREFIX".
static struct gs_error *alertmanager(const char *text, json_t **ret)
{
    struct gs_slice rest = gs_slice_of(text), scheme = GS_SLICE("http");
    const char *end = strstr(text, "://");
    if (end) {
        scheme = gs_slice_make(text, (size_t)(end - text));
        rest = gs_slice_of(end + 3);
    }
    const char *slash = memchr(rest.data, '/', rest.len);
    struct gs_slice host = gs_slice_make(rest.data, slash ? (size_t)(slash - rest.data) : rest.len);
    if (!host.len || host.data[0] == ':' || memchr(host.data, '@', host.len) ||
        !(gs_slice_eq(scheme, GS_SLICE("http")) || gs_slice_eq(scheme, GS_SLICE("https"))))
        return gs_error_new(GS_EINVAL, "--alertmanager %s: write HOST:PORT or a URL", text);
    const char *bracket = memchr(host.data, ']', host.len);
    const char *from = bracket ? bracket : host.data;
    bool port = memchr(from, ':', (size_t)(host.data + host.len - from)) != NULL;
    GS_AUTO_FREE char *target =
        gs_format(GS_SLICE_FMT "%s", GS_SLICE_ARG(host), port ? "" : ":" ALERTMANAGER_PORT);
    GS_AUTO_FREE char *scheme_text = gs_slice_dup(scheme);
    *ret =
        json_pack("{s:s, s:[{s:[s]}]}", "scheme", scheme_text, "static_configs", "targets", target);
    if (slash && slash[1])
        codec_json_set_str(*ret, "path_prefix", slash);
    return NULL;
}

static json_t *member(json_t *doc, const char *key, json_t *fresh)
{
    json_t *value = json_object_get(doc, key);
    if (value) {
        json_decref(fresh);
        return value;
    }
    json_object_set_new(doc, key, fresh);
    return fresh;
}

static struct gs_error *add_alertmanagers(const struct up_options *o, json_t *doc)
{
    for (size_t i = 0; i < o->alertmanagers.len; i++) {
        json_t *item = NULL;
        struct gs_error *err = alertmanager(o->alertmanagers.items[i], &item);
        if (err)
            return err;
        json_t *alerting = member(doc, "alerting", json_object());
        json_array_append_new(member(alerting, "alertmanagers", json_array()), item);
    }
    return NULL;
}

static struct gs_error *add_scrape_files(const struct up_options *o, json_t *doc)
{
    for (size_t i = 0; i < o->scrape_configs.len; i++) {
        GS_AUTO_FREE char *path = realpath(o->scrape_configs.items[i], NULL);
        if (!path)
            return gs_error_errno(errno, "--scrape-config %s", o->scrape_configs.items[i]);
        json_array_append_new(member(doc, "scrape_config_files", json_array()), json_string(path));
    }
    return NULL;
}

struct gs_error *up_engine_config_write(const struct up_engine_config *c,
                                        const struct up_options *o, const struct up_values *v,
                                        const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *doc =
        json_pack("{s:{s:s, s:s}}", "global", "scrape_interval", "1s", "evaluation_interval", "1s");
    CODEC_AUTO_JSON json_t *values = json_deep_copy(c->objects ? c->objects : v->chart.config);
    json_t *jobs = json_array();
    add_exporters(c, jobs);
    if (c->account_dir)
        engine_config_move_account_files(values, c->account_dir);
    json_array_extend(jobs, json_object_get(values, "scrape_configs"));
    json_object_update(json_object_get(doc, "global"), json_object_get(values, "global"));
    json_object_set_new(doc, "scrape_configs", jobs);
    if (json_object_get(values, "alerting"))
        json_object_set(doc, "alerting", json_object_get(values, "alerting"));
    struct gs_error *err = add_alertmanagers(o, doc);
    if (!err)
        err = add_scrape_files(o, doc);
    if (err)
        return err;
    gs_buf_add_str(&text, "# Written by gpuscale up at each start and change.\n");
    codec_yaml_dump(doc, &text);
    return gs_file_write_atomic(path, 0600, gs_buf_slice(&text));
}
