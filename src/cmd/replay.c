// SPDX-License-Identifier: Apache-2.0
// `gpuscale replay`: an autoscaler in a simulated cluster.
#include "replay/replay.h"

#include "base/mem.h"
#include "base/num.h"
#include "cmd/replay_record.h"
#include "cmd/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_SWEEP 1000

struct replay_opts {
    const char *output, *prices, *save;
    struct replay_record record;
    struct gs_opt_list set, sweep, compare;
};

static struct gs_error *apply(struct replay_scenario *s, const char *setting)
{
    const char *equals = strchr(setting, '=');
    if (!equals)
        return gs_error_new(GS_EINVAL, "--set %s: write NAME=VALUE", setting);
    GS_AUTO_FREE char *name = gs_strndup(setting, (size_t)(equals - setting));
    struct gs_error *err = replay_scenario_set(s, name, equals + 1);
    return err ? gs_error_wrap(err, "--set %s", setting) : NULL;
}

static struct gs_error *load(const struct replay_opts *o, const char *path,
                             struct replay_scenario **ret)
{
    struct gs_error *err = replay_scenario_load(path, ret);
    if (err)
        return err;
    if (o->prices)
        err = replay_scenario_prices(*ret, o->prices);
    for (size_t i = 0; !err && i < o->set.len; i++)
        err = apply(*ret, o->set.items[i]);
    if (err)
        replay_scenario_free(*ret);
    return err;
}

static void write_out(const struct gs_buf *out)
{
    (void)fwrite(out->data, 1, out->len, stdout);
    (void)fflush(stdout);
}

// --- one scenario ---

static struct gs_error *show(const struct replay_opts *o, const char *path)
{
    struct replay_scenario *s = NULL;
    struct replay_result r;
    struct gs_error *err = load(o, path, &s);
    if (err)
        return err;
    GS_AUTO_BUF struct gs_buf out = {0};
    replay_run(s, &r);
    if (gs_streq(o->output, "csv")) {
        replay_print_csv(&r, &out);
    } else if (gs_streq(o->output, "svg")) {
        replay_print_svg(&(struct replay_shown){s, &r}, 1, &out);
    } else if (gs_streq(o->output, "json")) {
        CODEC_AUTO_JSON json_t *j = replay_json(s, &r);
        codec_json_dump_pretty(j, &out);
        gs_buf_add_char(&out, '\n');
    } else {
        replay_print_table(s, &r, &out);
    }
    write_out(&out);
    replay_result_finish(&r);
    replay_scenario_free(s);
    return NULL;
}

// --- several, side by side ---

static void show_several(const struct replay_opts *o, const struct replay_shown *shown, size_t n)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    if (gs_streq(o->output, "svg")) {
        replay_print_svg(shown, n, &out);
    } else if (gs_streq(o->output, "json")) {
        CODEC_AUTO_JSON json_t *j = replay_comparison_json(shown, n);
        codec_json_dump_pretty(j, &out);
        gs_buf_add_char(&out, '\n');
    } else {
        replay_print_comparison(shown, n, &out);
    }
    write_out(&out);
}

static struct gs_error *compare(const struct replay_opts *o, const char *path)
{
    size_t n = 0, want = o->compare.len + 1;
    GS_AUTO_FREE struct replay_scenario **scenarios = gs_alloc_array(want, sizeof(*scenarios));
    GS_AUTO_FREE struct replay_result *results = gs_alloc_array(want, sizeof(*results));
    GS_AUTO_FREE struct replay_shown *shown = gs_alloc_array(want, sizeof(*shown));
    struct gs_error *err = NULL;
    if (gs_streq(o->output, "csv"))
        return gs_error_new(GS_EINVAL, "--compare has no csv; want table, json or svg");
    while (!err && n < want) {
        err = load(o, n ? o->compare.items[n - 1] : path, &scenarios[n]);
        if (err)
            break;
        replay_run(scenarios[n], &results[n]);
        shown[n] = (struct replay_shown){scenarios[n], &results[n]};
        n++;
    }
    if (!err)
        show_several(o, shown, n);
    for (size_t i = 0; i < n; i++) {
        replay_result_finish(&results[i]);
        replay_scenario_free(scenarios[i]);
    }
    return err;
}

// --- sweeps ---

static void add_value(struct gs_opt_list *l, char *value)
{
    gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
    l->items[l->len++] = value;
}

// "10..90:10"; without ":10" the step is 1.
static struct gs_error *read_range(struct gs_slice from_text, struct gs_slice rest,
                                   struct gs_opt_list *ret)
{
    double from = 0, to = 0, step = 1;
    struct gs_slice to_text = gs_slice_cut(&rest, ':');
    struct gs_error *err = gs_parse_double(from_text, &from);
    if (!err)
        err = gs_parse_double(to_text, &to);
    if (!err && rest.data)
        err = gs_parse_double(rest, &step);
    if (!err && (!(step > 0) || !(from <= to) || (to - from) / step > MAX_SWEEP))
        err = gs_error_new(GS_EINVAL, "want FROM..TO:STEP, with at most %d steps", MAX_SWEEP);
    for (int i = 0; !err && from + i * step <= to + step / 1e6; i++)
        add_value(ret, gs_format("%.10g", from + i * step));
    return err;
}

// A range, or "10,30,50".
static struct gs_error *read_values(const char *text, struct gs_opt_list *ret)
{
    struct gs_slice rest = gs_slice_of(text);
    const char *dots = strstr(text, "..");
    if (dots)
        return read_range(gs_slice_make(text, (size_t)(dots - text)), gs_slice_of(dots + 2), ret);
    while (rest.data)
        add_value(ret, gs_slice_dup(gs_slice_cut(&rest, ',')));
    return NULL;
}

struct lines {
    char **names;
    struct replay_scenario **scenarios;
    size_t n;
};

static struct gs_error *add_setting(const struct replay_opts *o, const char *path, const char *name,
                                    const char *value, struct lines *l)
{
    struct replay_scenario *s = NULL;
    struct gs_error *err = load(o, path, &s);
    if (err)
        return err;
    err = replay_scenario_set(s, name, value);
    if (err) {
        replay_scenario_free(s);
        return gs_error_wrap(err, "--sweep %s=%s", name, value);
    }
    l->names[l->n] = gs_format("%s=%s", name, value);
    l->scenarios[l->n++] = s;
    return NULL;
}

static void print_lines(const struct lines *l)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    GS_AUTO_FREE struct replay_summary *sums = gs_alloc_array(l->n + 1, sizeof(*sums));
    GS_AUTO_FREE const struct replay_summary **list = gs_alloc_array(l->n + 1, sizeof(*list));
    replay_summarize_all((const struct replay_scenario *const *)l->scenarios, l->n, sums);
    for (size_t i = 0; i < l->n; i++)
        list[i] = &sums[i];
    replay_print_summaries((const char *const *)l->names, list, l->n, &out);
    write_out(&out);
}

static void lines_finish(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->names[i]);
        replay_scenario_free(l->scenarios[i]);
    }
    free(l->names);
    free(l->scenarios);
}

static struct gs_error *sweep(const struct replay_opts *o, const char *path, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return gs_error_new(GS_EINVAL, "--sweep %s: write NAME=FROM..TO:STEP or NAME=A,B,C", text);
    GS_AUTO_FREE char *name = gs_strndup(text, (size_t)(equals - text));
    struct gs_opt_list values = {0};
    struct gs_error *err = read_values(equals + 1, &values);
    if (err)
        err = gs_error_wrap(err, "--sweep %s", text);
    struct lines l = {.names = gs_alloc_array(values.len + 1, sizeof(*l.names)),
                      .scenarios = gs_alloc_array(values.len + 1, sizeof(*l.scenarios))};
    for (size_t i = 0; !err && i < values.len; i++)
        err = add_setting(o, path, name, values.items[i], &l);
    if (!err)
        print_lines(&l);
    lines_finish(&l);
    for (size_t i = 0; i < values.len; i++)
        free((char *)values.items[i]);
    free(values.items);
    return err;
}

static struct gs_error *replay(const struct replay_opts *o, const char *path)
{
    struct gs_error *err = NULL;
    if (o->compare.len)
        return compare(o, path);
    for (size_t i = 0; !err && i < o->sweep.len; i++)
        err = sweep(o, path, o->sweep.items[i]);
    return err || o->sweep.len ? err : show(o, path);
}

// A recording becomes a scenario in a file, which stays with --save.
static struct gs_error *replay_recording(const struct replay_opts *o)
{
    char temp[] = "/tmp/gpuscale-replay-XXXXXX";
    const char *path = o->save;
    if (!path) {
        int fd = mkstemp(temp);
        if (fd < 0)
            return gs_error_errno(errno, "%s", temp);
        close(fd);
        path = temp;
    }
    struct gs_error *err = replay_record_write(&o->record, path);
    if (!err)
        err = replay(o, path);
    if (!o->save)
        unlink(path);
    return err;
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct replay_opts *o = opts;
    static const char *const outputs[] = {"table", "csv", "json", "svg"};
    bool known = false;
    *ret_exit = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(outputs); i++)
        known = known || gs_streq(o->output, outputs[i]);
    if (!known)
        return gs_error_new(GS_EINVAL, "--output \"%s\": want table, csv, json or svg", o->output);
    bool recorded = o->record.hpa || o->record.from || o->record.queries.len;
    if (recorded == (argc > 0))
        return gs_error_new(GS_EINVAL, "replay needs a SCENARIO, or --hpa, --from and --query");
    return recorded ? replay_recording(o) : replay(o, argv[0]);
}

#define AT(field) .offset = offsetof(struct replay_opts, field)
#define RECORDED  .group = "A recording in place of a scenario"

static const struct gs_opt opts[] = {
    {.name = "output",
     .alias = "o",
     .arg = "FORM",
     .def = "table",
     .type = GS_OPT_STRING,
     AT(output),
     .help = "table (the passes at which something changed, and a summary), csv and json (every "
             "pass), svg (a picture)."},
    {.name = "compare",
     .arg = "SCENARIO",
     .type = GS_OPT_STRINGS,
     AT(compare),
     .help = "Another scenario: all figures side by side, or both in one picture (-o svg). "
             "Repeatable."},
    {.name = "prices",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prices),
     .help = "Prices of GPUs and instances, in place of those that the scenario names."},
    {.name = "sweep",
     .arg = "NAME=VALUES",
     .type = GS_OPT_STRINGS,
     AT(sweep),
     .help = "A summary for each value: target=10..90:10, downscaleWindow=60s,300s. Names as of "
             "--set. Repeatable: one table each."},
    {.name = "set",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     AT(set),
     .help = "Before it runs: target (of the first metric), min, max, tolerance, downscaleWindow, "
             "sync, startup, drain, delay, capacity, nodes (the most), provision, idle, gpu, "
             "instance, duration. "
             "Repeatable."},
    {.name = "hpa",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(record.hpa),
     RECORDED,
     .help = "The autoscaler, a HorizontalPodAutoscaler of any version."},
    {.name = "from",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(record.from),
     RECORDED,
     .help = "A Prometheus, or another server with its API."},
    {.name = "query",
     .arg = "EXPR",
     .type = GS_OPT_STRINGS,
     AT(record.queries),
     RECORDED,
     .help = "What a metric of the autoscaler showed: one for each, in its order, of one series. "
             "Of Pods and Resource metrics the average of the pods (Resource: in percent)."},
    {.name = "replicas-query",
     .arg = "EXPR",
     .type = GS_OPT_STRING,
     AT(record.replicas_query),
     RECORDED,
     .help = "How many replicas there were. With it the recorded whole is shared by the replicas "
             "that the replay decides; without it the values stay as recorded."},
    {.name = "range",
     .arg = "DURATION",
     .def = "24h",
     .type = GS_OPT_DURATION,
     AT(record.range_ns),
     RECORDED,
     .help = "How long a time."},
    {.name = "end",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     AT(record.end),
     RECORDED,
     .help = "Its end: now, -1h, RFC 3339 or Unix seconds. Default: now."},
    {.name = "step",
     .arg = "DURATION",
     .def = "15s",
     .type = GS_OPT_DURATION,
     AT(record.step_ns),
     RECORDED,
     .help = "Time between two values; a server gives at most 11,000."},
    {.name = "http.config.file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(record.http_config_file),
     RECORDED,
     .help = "How to reach and log in to the server, as promtool's."},
    {.name = "save",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(save),
     RECORDED,
     .help = "Keep the scenario that is made of it."},
    {.name = NULL},
};

const struct gs_verb verb_replay = {
    .name = "replay",
    .args = "[SCENARIO]",
    .summary = "Try an autoscaler on a load, faster than time.",
    .description =
        "Runs the autoscaler of a scenario (a YAML file, docs/replay.md) in a simulated cluster: "
        "a load over time, replicas that serve it, nodes that take time to come. The decisions "
        "are made by the function that the controller uses; the cluster is a model. Prints the "
        "replicas over time with the reason of each change, GPU hours, price, time over the "
        "level, queueing and waits. In place of a scenario it can ask a Prometheus what the "
        "autoscaler's metrics showed, and decide on that.",
    .examples = "gpuscale replay burst.yaml\n"
                "gpuscale replay burst.yaml -o svg > burst.svg\n"
                "gpuscale replay burst.yaml --sweep target=30..90:10\n"
                "gpuscale replay today.yaml --compare proposed.yaml\n"
                "gpuscale replay --hpa=hpa.yaml --from=http://prometheus:9090 "
                "--query='avg(DCGM_FI_DEV_GPU_UTIL{pod=~\"api-.*\"})' "
                "--replicas-query='kube_deployment_status_replicas_ready{deployment=\"api\"}' "
                "--sweep target=40..80:10",
    .opts = opts,
    .opts_size = sizeof(struct replay_opts),
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
