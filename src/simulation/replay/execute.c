// SPDX-License-Identifier: Apache-2.0
// `gpuscale replay`: runs one scenario, several side by side, or one with a range of values.
#include "replay/command_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_SWEEP 1000

struct gs_error *replay_read_setting(const char *text, char **ret_name, const char **ret_value)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return gs_error_new(GS_EINVAL, "--set %s: write NAME=VALUE", text);
    *ret_name = gs_strndup(text, (size_t)(equals - text));
    *ret_value = equals + 1;
    return NULL;
}

static struct gs_error *apply_setting(struct replay_scenario *s, const char *setting)
{
    const char *value = NULL;
    GS_AUTO_FREE char *name = NULL;
    struct gs_error *err = replay_read_setting(setting, &name, &value);
    if (err)
        return err;
    err = replay_scenario_set(s, name, value);
    return err ? gs_error_wrap(err, "--set %s", setting) : NULL;
}

static struct gs_error *load_scenario(const struct replay_options *o, const char *path,
                                      struct replay_scenario **ret)
{
    struct gs_error *err = replay_scenario_load(path, ret);
    if (err)
        return err;
    if (o->prices)
        err = replay_scenario_prices(*ret, o->prices);
    for (size_t i = 0; !err && i < o->set.len; i++)
        err = apply_setting(*ret, o->set.items[i]);
    if (err)
        replay_scenario_free(*ret);
    return err;
}

// --- one scenario ---

static struct gs_error *run_one(const struct replay_options *o, const char *path,
                                struct gs_buf *out)
{
    struct replay_scenario *s = NULL;
    struct replay_result r;
    struct gs_error *err = load_scenario(o, path, &s);
    if (err)
        return err;
    replay_run(s, &r);
    if (gs_streq(o->output, "csv")) {
        replay_print_csv(&r, out);
    } else if (gs_streq(o->output, "svg")) {
        replay_print_svg(&(struct replay_outcome){s, &r}, 1, out);
    } else if (gs_streq(o->output, "json")) {
        CODEC_AUTO_JSON json_t *j = replay_json(s, &r);
        codec_json_dump_pretty(j, out);
        gs_buf_add_char(out, '\n');
    } else {
        replay_print_table(s, &r, out);
    }
    replay_result_finish(&r);
    replay_scenario_free(s);
    return NULL;
}

// --- several, side by side ---

static void add_comparison(const struct replay_options *o, const struct replay_outcome *shown,
                           size_t n, struct gs_buf *out)
{
    if (gs_streq(o->output, "svg")) {
        replay_print_svg(shown, n, out);
    } else if (gs_streq(o->output, "json")) {
        CODEC_AUTO_JSON json_t *j = replay_comparison_json(shown, n);
        codec_json_dump_pretty(j, out);
        gs_buf_add_char(out, '\n');
    } else {
        replay_print_comparison(shown, n, out);
    }
}

static struct gs_error *run_comparison(const struct replay_options *o, const char *path,
                                       struct gs_buf *out)
{
    size_t n = 0, want = o->compare.len + 1;
    GS_AUTO_FREE struct replay_scenario **scenarios = gs_alloc_array(want, sizeof(*scenarios));
    GS_AUTO_FREE struct replay_result *results = gs_alloc_array(want, sizeof(*results));
    GS_AUTO_FREE struct replay_outcome *shown = gs_alloc_array(want, sizeof(*shown));
    struct gs_error *err = NULL;
    if (gs_streq(o->output, "csv"))
        return gs_error_new(GS_EINVAL, "--compare has no csv; want table, json or svg");
    while (!err && n < want) {
        err = load_scenario(o, n ? o->compare.items[n - 1] : path, &scenarios[n]);
        if (err)
            break;
        if (!scenarios[n]->service != !scenarios[0]->service) {
            err = gs_error_new(GS_EINVAL, "--compare %s: only one of the scenarios has a service",
                               o->compare.items[n - 1]);
            replay_scenario_free(scenarios[n]);
            break;
        }
        replay_run(scenarios[n], &results[n]);
        shown[n] = (struct replay_outcome){scenarios[n], &results[n]};
        n++;
    }
    if (!err)
        add_comparison(o, shown, n, out);
    for (size_t i = 0; i < n; i++) {
        replay_result_finish(&results[i]);
        replay_scenario_free(scenarios[i]);
    }
    return err;
}

// --- sweeps ---

static void add_value(struct replay_sweep *s, char *value)
{
    gs_grow(&s->values, &s->cap, s->n, sizeof(*s->values));
    s->values[s->n++] = value;
}

// "10..90:10"; without ":10" the step is 1.
static struct gs_error *read_range(struct gs_slice from_text, struct gs_slice rest,
                                   struct replay_sweep *ret)
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

void replay_sweep_finish(struct replay_sweep *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->values[i]);
    free(s->values);
    free(s->name);
    *s = (struct replay_sweep){0};
}

struct gs_error *replay_sweep_read(const char *text, struct replay_sweep *ret)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return gs_error_new(GS_EINVAL, "--sweep %s: write NAME=FROM..TO:STEP or NAME=A,B,C", text);
    struct replay_sweep s = {.name = gs_strndup(text, (size_t)(equals - text))};
    struct gs_slice rest = gs_slice_of(equals + 1);
    const char *dots = strstr(equals + 1, "..");
    if (dots) {
        struct gs_slice from = gs_slice_make(equals + 1, (size_t)(dots - equals - 1));
        struct gs_error *err = read_range(from, gs_slice_of(dots + 2), &s);
        if (err) {
            replay_sweep_finish(&s);
            return gs_error_wrap(err, "--sweep %s", text);
        }
    } else {
        while (rest.data)
            add_value(&s, gs_slice_dup(gs_slice_cut(&rest, ',')));
    }
    *ret = s;
    return NULL;
}

struct sweep_runs {
    char **names;
    struct replay_scenario **scenarios;
    size_t n;
};

static struct gs_error *add_sweep_value(const struct replay_options *o, const char *path,
                                        const char *name, const char *value, struct sweep_runs *l)
{
    struct replay_scenario *s = NULL;
    struct gs_error *err = load_scenario(o, path, &s);
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

static void add_sweep_table(const struct sweep_runs *l, struct gs_buf *out)
{
    GS_AUTO_FREE struct replay_summary *sums = gs_alloc_array(l->n + 1, sizeof(*sums));
    GS_AUTO_FREE const struct replay_summary **list = gs_alloc_array(l->n + 1, sizeof(*list));
    replay_summarize_all((const struct replay_scenario *const *)l->scenarios, l->n, sums);
    for (size_t i = 0; i < l->n; i++)
        list[i] = &sums[i];
    replay_print_summaries((const char *const *)l->names, list, l->n, out);
}

static void sweep_finish(struct sweep_runs *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->names[i]);
        replay_scenario_free(l->scenarios[i]);
    }
    free(l->names);
    free(l->scenarios);
}

static struct gs_error *run_sweep(const struct replay_options *o, const char *path,
                                  const char *text, struct gs_buf *out)
{
    GS_CLEANUP(replay_sweep_finish) struct replay_sweep sweep = {0};
    struct gs_error *err = replay_sweep_read(text, &sweep);
    struct sweep_runs l = {.names = gs_alloc_array(sweep.n + 1, sizeof(*l.names)),
                           .scenarios = gs_alloc_array(sweep.n + 1, sizeof(*l.scenarios))};
    for (size_t i = 0; !err && i < sweep.n; i++)
        err = add_sweep_value(o, path, sweep.name, sweep.values[i], &l);
    if (!err)
        add_sweep_table(&l, out);
    sweep_finish(&l);
    return err;
}

static struct gs_error *check_output(const char *output)
{
    static const char *const outputs[] = {"table", "csv", "json", "svg"};
    for (size_t i = 0; i < GS_ARRAY_LEN(outputs); i++)
        if (gs_streq(output, outputs[i]))
            return NULL;
    return gs_error_new(GS_EINVAL, "--output \"%s\": want table, csv, json or svg", output);
}

static struct gs_error *execute_scenario(const struct replay_options *o, const char *path,
                                         struct gs_buf *out)
{
    struct gs_error *err = NULL;
    if (replay_is_fleet(path))
        return replay_execute_fleet(o, path, out);
    if (o->start_times)
        return gs_error_new(GS_EINVAL, "--start-times: %s has no pools", path);
    if (o->compare.len)
        return run_comparison(o, path, out);
    for (size_t i = 0; !err && i < o->sweep.len; i++)
        err = run_sweep(o, path, o->sweep.items[i], out);
    return err || o->sweep.len ? err : run_one(o, path, out);
}

// Writes the recording as a scenario to a file: that of --save, or a temporary file.
static struct gs_error *execute_recording(const struct replay_options *o, struct gs_buf *out)
{
    char temporary[] = "/tmp/gpuscale-replay-XXXXXX";
    const char *path = o->recording.save;
    if (!path) {
        int fd = mkstemp(temporary);
        if (fd < 0)
            return gs_error_errno(errno, "%s", temporary);
        close(fd);
        path = temporary;
    }
    struct gs_error *err = replay_recording_write(&o->recording, path);
    if (!err)
        err = execute_scenario(o, path, out);
    if (!o->recording.save)
        unlink(path);
    return err;
}

struct gs_error *replay_execute(const struct replay_options *o, const char *path,
                                struct gs_buf *out)
{
    const struct replay_recording *r = &o->recording;
    bool recorded = r->hpa || r->from || r->queries.len;
    struct gs_error *err = check_output(o->output);
    if (err)
        return err;
    if (recorded == (path != NULL))
        return gs_error_new(GS_EINVAL, "replay needs a SCENARIO, or --hpa, --from and --query");
    return recorded ? execute_recording(o, out) : execute_scenario(o, path, out);
}
