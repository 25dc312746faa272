// SPDX-License-Identifier: Apache-2.0
// `gpuscale replay` of scenarios with pools.
#include "replay/command_private.h"
#include "replay/fleet_run.h"

#include "base/mem.h"

struct fleet_runs {
    char **names;
    struct replay_fleet **fleets;
    struct replay_fleet_result *results;
    size_t n;
};

static struct gs_error *set_by_text(struct replay_fleet *f, const char *setting)
{
    const char *value = NULL;
    GS_AUTO_FREE char *name = NULL;
    struct gs_error *err = replay_read_setting(setting, &name, &value);
    if (err)
        return err;
    err = replay_fleet_set(f, name, value);
    return err ? gs_error_wrap(err, "--set %s", setting) : NULL;
}

static struct gs_error *load_fleet(const struct replay_options *o, const char *path,
                                   struct replay_fleet **ret)
{
    struct replay_fleet *f = NULL;
    struct gs_error *err = replay_fleet_load(path, &f);
    if (err)
        return err;
    if (o->prices)
        err = replay_fleet_prices(f, o->prices);
    if (!err && o->start_times)
        err = replay_fleet_start_times(f, o->start_times);
    for (size_t i = 0; !err && i < o->set.len; i++)
        err = set_by_text(f, o->set.items[i]);
    if (err) {
        replay_fleet_free(f);
        return err;
    }
    *ret = f;
    return NULL;
}

static struct fleet_runs runs_of(size_t n)
{
    return (struct fleet_runs){.names = gs_alloc_array(n + 1, sizeof(char *)),
                               .fleets = gs_alloc_array(n + 1, sizeof(struct replay_fleet *)),
                               .results =
                                   gs_alloc_array(n + 1, sizeof(struct replay_fleet_result))};
}

static void runs_finish(struct fleet_runs *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->names[i]);
        replay_fleet_result_finish(&l->results[i]);
        replay_fleet_free(l->fleets[i]);
    }
    free(l->names);
    free(l->fleets);
    free(l->results);
}

// Takes the fleet.
static struct gs_error *add_run(struct fleet_runs *l, struct replay_fleet *f, const char *name)
{
    struct gs_error *err = replay_fleet_run(f, &l->results[l->n]);
    if (err) {
        replay_fleet_free(f);
        return err;
    }
    l->names[l->n] = gs_strdup(name);
    l->fleets[l->n++] = f;
    return NULL;
}

static void print_json(json_t *j, struct gs_buf *out)
{
    codec_json_dump_pretty(j, out);
    gs_buf_add_char(out, '\n');
    json_decref(j);
}

static void print_runs(const struct replay_options *o, const struct fleet_runs *l,
                       struct gs_buf *out)
{
    const char *const *names = (const char *const *)l->names;
    if (gs_streq(o->output, "svg"))
        replay_fleet_print_svg(names, l->results, l->n, out);
    else if (gs_streq(o->output, "json"))
        print_json(replay_fleet_summaries_json(names, l->results, l->n), out);
    else
        replay_fleet_print_summaries(names, l->results, l->n, out);
}

static struct gs_error *run_one(const struct replay_options *o, const char *path,
                                struct gs_buf *out)
{
    struct replay_fleet *f = NULL;
    struct gs_error *err = load_fleet(o, path, &f);
    if (err)
        return err;
    struct fleet_runs l = runs_of(1);
    err = add_run(&l, f, replay_fleet_name(f));
    if (err) {
        runs_finish(&l);
        return err;
    }
    if (gs_streq(o->output, "csv"))
        replay_fleet_print_csv(&l.results[0], out);
    else if (gs_streq(o->output, "json"))
        print_json(replay_fleet_json(&l.results[0]), out);
    else if (gs_streq(o->output, "table"))
        replay_fleet_print_table(&l.results[0], out);
    else
        print_runs(o, &l, out);
    runs_finish(&l);
    return NULL;
}

static struct gs_error *run_comparison(const struct replay_options *o, const char *path,
                                       struct gs_buf *out)
{
    struct fleet_runs l = runs_of(o->compare.len + 1);
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i <= o->compare.len; i++) {
        struct replay_fleet *f = NULL;
        const char *file = i ? o->compare.items[i - 1] : path;
        if (!replay_is_fleet(file))
            err = gs_error_new(GS_EINVAL, "--compare %s: this scenario has no pools", file);
        if (!err)
            err = load_fleet(o, file, &f);
        if (!err)
            err = add_run(&l, f, replay_fleet_name(f));
    }
    if (!err)
        print_runs(o, &l, out);
    runs_finish(&l);
    return err;
}

static struct gs_error *add_sweep_value(const struct replay_options *o, const char *path,
                                        const char *name, const char *value, struct fleet_runs *l)
{
    struct replay_fleet *f = NULL;
    struct gs_error *err = load_fleet(o, path, &f);
    if (err)
        return err;
    err = replay_fleet_set(f, name, value);
    if (err) {
        replay_fleet_free(f);
        return gs_error_wrap(err, "--sweep %s=%s", name, value);
    }
    GS_AUTO_FREE char *label = gs_format("%s=%s", name, value);
    return add_run(l, f, label);
}

static struct gs_error *run_sweep(const struct replay_options *o, const char *path,
                                  const char *text, struct gs_buf *out)
{
    GS_CLEANUP(replay_sweep_finish) struct replay_sweep sweep = {0};
    struct gs_error *err = replay_sweep_read(text, &sweep);
    struct fleet_runs l = runs_of(sweep.n);
    for (size_t i = 0; !err && i < sweep.n; i++)
        err = add_sweep_value(o, path, sweep.name, sweep.values[i], &l);
    if (!err)
        print_runs(o, &l, out);
    runs_finish(&l);
    return err;
}

struct gs_error *replay_execute_fleet(const struct replay_options *o, const char *path,
                                      struct gs_buf *out)
{
    struct gs_error *err = NULL;
    if (gs_streq(o->output, "csv") && (o->compare.len || o->sweep.len))
        return gs_error_new(GS_EINVAL,
                            "--compare and --sweep have no csv; want table, json or svg");
    if (o->compare.len)
        return run_comparison(o, path, out);
    for (size_t i = 0; !err && i < o->sweep.len; i++)
        err = run_sweep(o, path, o->sweep.items[i], out);
    return err || o->sweep.len ? err : run_one(o, path, out);
}
