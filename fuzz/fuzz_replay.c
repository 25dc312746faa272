// SPDX-License-Identifier: Apache-2.0
// Decision tables and scenarios of autoscalers. The first byte chooses: 'd' a table, 't' learned
// start-up times, 'c' a trace, else a scenario, which is run when it is short.
#include "replay/decision_tables.h"
#include "replay/replay.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_PASSES 500
#define MAX_PODS   50

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_fleet(const struct replay_fleet *f)
{
    struct replay_fleet_result r;
    GS_AUTO_BUF struct gs_buf out = {0};
    const char *name = replay_fleet_name(f);
    GS_AUTO_ERROR struct gs_error *err = replay_fleet_run(f, &r);
    if (err)
        return;
    for (size_t i = 0; i < r.n_rows; i++)
        if (r.rows[i].used > r.rows[i].gpus)
            abort();
    replay_fleet_print_table(&r, &out);
    replay_fleet_print_svg(&name, &r, 1, &out);
    json_decref(replay_fleet_json(&r));
    replay_fleet_result_finish(&r);
}

static void run_fleet(const char *path)
{
    struct replay_fleet *f = NULL;
    GS_AUTO_ERROR struct gs_error *err = replay_fleet_load(path, &f);
    if (err)
        return;
    GS_AUTO_ERROR struct gs_error *set_err = replay_fleet_set(f, "duration", "30m");
    if (!set_err && replay_fleet_size(f) <= 4 * MAX_PODS)
        print_fleet(f);
    replay_fleet_free(f);
}

// A scenario with two pools and these jobs.
static void run_with(const char *jobs, const char *start_times)
{
    char scenario[256], path[64];
    struct replay_fleet *f = NULL;
    int fd = memfd_create("scenario", MFD_CLOEXEC);
    int len = snprintf(scenario, sizeof(scenario),
                       "pools: [{name: a, max: 3, machine: {gpus: 1}}, {name: b, max: 3, machine: "
                       "{gpus: 4}}]\nworkloads: [{name: w, jobs: %s}]\n",
                       jobs);
    if (fd < 0 || write(fd, scenario, (size_t)len) != len)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    GS_AUTO_ERROR struct gs_error *err = replay_fleet_load(path, &f);
    close(fd);
    if (err)
        return;
    GS_AUTO_ERROR struct gs_error *times_err =
        start_times ? replay_fleet_start_times(f, start_times) : NULL;
    if (!times_err && replay_fleet_size(f) <= 4 * MAX_PODS)
        print_fleet(f);
    replay_fleet_free(f);
}

static void run_scenario(const char *path)
{
    struct replay_scenario *s = NULL;
    if (replay_is_fleet(path)) {
        run_fleet(path);
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = replay_scenario_load(path, &s);
    if (err)
        return;
    bool is_short = s->duration_ms / s->sync_ms < MAX_PASSES && s->duration_ms < 3600 * 1000;
    bool is_small = s->spec.max_replicas <= MAX_PODS && s->replicas <= MAX_PODS &&
                    s->min_nodes <= MAX_PODS && s->max_nodes <= MAX_PODS;
    for (size_t i = 0; i < s->n_events; i++)
        is_small = is_small && s->events[i].scale <= MAX_PODS;
    if (is_short && is_small) {
        struct replay_result r;
        GS_AUTO_BUF struct gs_buf out = {0};
        replay_run(s, &r);
        for (size_t i = 0; i < r.n; i++)
            if (r.rows[i].desired < 0 || r.rows[i].ready > r.rows[i].running)
                abort();
        replay_print_table(s, &r, &out);
        replay_print_svg(&(struct replay_outcome){s, &r}, 1, &out);
        json_decref(replay_json(s, &r));
        replay_result_finish(&r);
    }
    replay_scenario_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    if (size < 2)
        return 0;
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (data[0] == 'd') {
        struct codec_test_report r = {0};
        gs_error_free(replay_run_cases(path, NULL, &r));
        codec_test_report_finish(&r);
    } else if (data[0] == 't') {
        run_with("[{run: 1m}]", path);
    } else if (data[0] == 'c') {
        run_with(path, NULL);
    } else {
        run_scenario(path);
    }
    close(fd);
    return 0;
}
