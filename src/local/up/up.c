// SPDX-License-Identifier: Apache-2.0
// The main loop of `gpuscale up`: start, a tick every second (apply files, run the load, draw the
// status block), stop.
#include "up/up.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/shell.h"
#include "engine/monitors/monitors.h"
#include "kube/object.h"
#include "local/ports.h"
#include "up/console/console.h"
#include "up/up_private.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

#define TICK_MS          1000
#define DUPLICATES_TICKS 2
#define LOAD_DELAY_TICKS 5 // seconds with a ready endpoint before the load starts

enum phase {
    PHASE_STARTING,
    PHASE_APPLYING,
    PHASE_READY,
    PHASE_LOAD,
    PHASE_COOLING,
    PHASE_AFTER, // the command of --after-load
    PHASE_IDLE
};

struct up {
    const struct up_options *o;
    struct program *program;
    uv_timer_t tick;
    uv_signal_t sigwinch;
    struct up_cluster *cluster;
    struct console_terminal *terminal;
    struct console_decisions *decisions;
    struct console_timeline *timeline;
    struct up_values values;
    struct up_apply *apply;
    struct up_child *load;
    struct kube_cache *events;
    struct console_problems *problems;
    struct up_detached detached;
    char *headline, *addresses, *hints[CONSOLE_STATUS_HINTS], *service_url, *load_log;
    enum phase phase;
    unsigned ready_ticks, ticks;
    bool load_on;
    bool load_ok, after_ok; // the command ended with exit code 0
    struct gs_error *err;   // why the program ends
};

// Each phase follows the previous one.
static void set_phase(struct up *u, enum phase next)
{
    gs_assert(next == u->phase + 1);
    u->phase = next;
}

// --- stop ---

static void on_cluster_stopped(void *arg)
{
    struct up *u = arg;
    program_stopped(u->program);
}

static void on_stop(void *arg)
{
    struct up *u = arg;
    uv_timer_stop(&u->tick);
    console_terminal_draw(u->terminal, (struct gs_slice){NULL, 0});
    console_terminal_line(u->terminal, "Stopping all pods (press Ctrl-C again to stop at once)");
    up_child_stop(u->load);
    up_cluster_stop(u->cluster, on_cluster_stopped, u);
}

static bool is_stopping(const struct up *u)
{
    return program_stopping(u->program);
}

static void stop_with_error(struct up *u, struct gs_error *err)
{
    if (u->err)
        gs_error_free(err);
    else
        u->err = err;
    if (!is_stopping(u))
        program_stop(u->program, "error");
}

static void on_reload(void *arg)
{
    const struct up *u = arg;
    up_cluster_reload(u->cluster);
}

// --- timeline and status block ---

static void record_in_timeline(struct up *u, const char *why)
{
    int64_t now = gs_unix_ms();
    GS_AUTO_BUF struct gs_buf replicas = {0};
    for (size_t i = 0; i < console_decisions_len(u->decisions); i++) {
        const struct console_decision *d = console_decisions_at(u->decisions, i);
        gs_buf_addf(&replicas, "%s%d", i ? "," : "", d->current);
        if (d->desired != d->current)
            gs_buf_addf(&replicas, "→%d", d->desired);
    }
    gs_buf_add(&replicas, "", 0);
    double gpu = console_status_gpu_percent(engine_tsdb(u->cluster->engine), now);
    console_timeline_add(u->timeline, now, u->load_on, gpu, replicas.data, why);
    if (console_terminal_live(u->terminal))
        return;
    if (isnan(gpu))
        console_terminal_line(u->terminal, "replicas %s, load %s: %s", replicas.data,
                              u->load_on ? "on" : "off", why);
    else
        console_terminal_line(u->terminal, "replicas %s, GPU %.0f %%, load %s: %s", replicas.data,
                              gpu, u->load_on ? "on" : "off", why);
}

static void on_decision(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    struct up *u = arg;
    const struct console_decision *r = console_decisions_record(u->decisions, spec, d);
    if (d->rescale)
        record_in_timeline(u, r->why);
}

// Leaves rows for the cursor below the block and, except in tiny windows, for the last log lines
// above it.
static size_t rows_of_block(size_t rows)
{
    size_t others = rows >= 20 ? 4 : rows >= 8 ? 2 : 1;
    return rows > others ? rows - others : 1;
}

static bool has_simulated_gpus(const struct up *u)
{
    bool any = u->cluster->devices.simulated;
    for (size_t i = 0; i < u->cluster->pools.len; i++)
        any = any || u->cluster->pools.items[i].gpus;
    return any;
}

static void draw_status_block(struct up *u)
{
    if (!console_terminal_live(u->terminal))
        return;
    GS_AUTO_BUF struct gs_buf block = {0};
    size_t rows, columns;
    console_terminal_size(u->terminal, &rows, &columns);
    GS_AUTO_BUF struct gs_buf pools = {0};
    up_pools_print(&u->cluster->pools, u->cluster->machines, &pools);
    const struct console_status_source source = {
        .db = engine_tsdb(u->cluster->engine),
        .pods = u->cluster->cluster->pods,
        .decisions = u->decisions,
        .problems = u->problems,
        .headline = u->headline,
        .pools = pools.data,
        .hints = {u->hints[0], u->hints[1]},
        .service_url = u->service_url,
        .load = u->load_on ? u->o->load : NULL,
        .simulated = has_simulated_gpus(u),
        .colour = console_terminal_colour(u->terminal),
    };
    console_status_render(&source, gs_unix_ms(), rows_of_block(rows), columns > 1 ? columns - 1 : 1,
                          &block);
    console_terminal_draw(u->terminal, gs_buf_slice(&block));
}

// --- the service and its load ---

static bool has_ready_endpoint(const struct up *u, const json_t *service)
{
    const json_t *endpoints =
        kube_cache_get(u->cluster->cluster->endpoints, kube_namespace(service), kube_name(service));
    size_t i;
    json_t *subset;
    json_array_foreach (json_object_get(endpoints, "subsets"), i, subset)
        if (json_array_size(json_object_get(subset, "addresses")))
            return true;
    return false;
}

// The address of the first LoadBalancer Service with a ready pod; NULL: no such Service exists.
static char *find_service_url(const struct up *u)
{
    size_t pos = 0;
    for (const json_t *s; (s = kube_cache_next(u->cluster->cluster->services, &pos));) {
        const json_t *ingress =
            json_array_get(codec_json_get(s, "status", "loadBalancer", "ingress", NULL), 0);
        const json_t *port = json_array_get(codec_json_get(s, "spec", "ports", NULL), 0);
        const char *ip = codec_json_str(ingress, "ip", NULL);
        if (!ip || !port || !has_ready_endpoint(u, s))
            continue;
        int number = kube_port(s, (int)codec_json_int(port, 80, "port", NULL));
        return number == 80 ? gs_format("http://%s", ip) : gs_format("http://%s:%d", ip, number);
    }
    return NULL;
}

// Output goes to the log of the load.
static void run_command(struct up *u, const char *flag, const char *command,
                        void (*on_exit)(void *arg, int64_t status, int term_signal))
{
    GS_AUTO_FREE char *url = gs_format("SERVICE_URL=%s", u->service_url);
    GS_AUTO_FREE char *kubeconfig = gs_format("KUBECONFIG=%s", u->cluster->kubeconfig);
    // The supervisor process ends the command even if gpuscale is killed.
    const char *const argv[] = {u->cluster->self_exe,
                                "pod-shim",
                                "--log",
                                u->load_log,
                                "--",
                                "/bin/sh",
                                "-c",
                                command,
                                NULL};
    const char *const env[] = {url, kubeconfig, NULL};
    const struct up_child_config cfg = {
        .name = "load", .argv = argv, .extra_env = env, .on_exit = on_exit, .arg = u};
    up_child_free(u->load);
    u->load = NULL;
    struct gs_error *err = up_child_start(program_loop(u->program), &cfg, &u->load);
    if (err)
        stop_with_error(u, gs_error_wrap(err, "%s", flag));
}

static char *describe_exit(const struct up *u, const char *what, int64_t status, int term_signal)
{
    if (!status && !term_signal)
        return gs_format("%s ended", what);
    return gs_format("%s ended with %s %d, its output is in %s", what,
                     term_signal ? "signal" : "exit code", term_signal ? term_signal : (int)status,
                     u->load_log);
}

static void on_load_exit(void *arg, int64_t status, int term_signal)
{
    struct up *u = arg;
    u->load_on = false;
    if (is_stopping(u))
        return;
    u->load_ok = !status && !term_signal;
    set_phase(u, PHASE_COOLING);
    GS_AUTO_FREE char *why = describe_exit(u, "load", status, term_signal);
    record_in_timeline(u, why);
}

static void start_load(struct up *u)
{
    run_command(u, "--load", u->o->load, on_load_exit);
    if (is_stopping(u))
        return;
    u->load_on = true;
    set_phase(u, PHASE_LOAD);
    record_in_timeline(u, "load started");
}

static void finish_demo(struct up *u)
{
    set_phase(u, PHASE_IDLE);
    if (u->o->exit_after_load)
        program_stop(u->program, "--exit-after-load");
    else
        console_terminal_line(u->terminal,
                              "gpuscale up continues to run; press Ctrl-C to stop it.");
}

static void on_after_exit(void *arg, int64_t status, int term_signal)
{
    struct up *u = arg;
    if (is_stopping(u))
        return;
    u->after_ok = !status && !term_signal;
    GS_AUTO_FREE char *why = describe_exit(u, "the command of --after-load", status, term_signal);
    console_terminal_line(u->terminal, "%s", why);
    finish_demo(u);
}

static void print_timeline(struct up *u)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    record_in_timeline(u, "back at the minimum");
    gs_buf_addf(&out, "\nTimeline%s:\n", has_simulated_gpus(u) ? " (SIMULATED GPUs)" : "");
    size_t rows, columns;
    console_terminal_size(u->terminal, &rows, &columns);
    console_timeline_print(u->timeline, console_terminal_live(u->terminal) ? columns : 0, &out);
    console_terminal_line(u->terminal, "%s", out.data);
    set_phase(u, PHASE_AFTER);
    if (!u->o->after_load) {
        finish_demo(u);
        return;
    }
    console_terminal_line(u->terminal, "Running the command of --after-load: %s", u->o->after_load);
    run_command(u, "--after-load", u->o->after_load, on_after_exit);
}

// --- start ---

// The lines of "Ready", again for the process that waits for this one.
static void tell_ready(struct up *u)
{
    if (u->detached.ready < 0)
        return;
    const char *option = u->o->data_dir ? u->cluster->data_dir : NULL;
    const char *context = u->cluster->kube_context;
    GS_AUTO_FREE char *dir = option ? gs_shell_word(option) : NULL;
    GS_AUTO_FREE char *flag = option ? gs_format(" --data-dir %s", dir) : gs_strdup("");
    GS_AUTO_FREE char *text =
        gs_format("Ready: %s, %s%s\n"
                  "%s%s%s"
                  "  eval \"$(gpuscale up --env%s)\"   # KUBECONFIG and PATH\n"
                  "  gpuscale up --stop%s   # ends it\n",
                  u->headline, u->addresses, has_simulated_gpus(u) ? " [SIMULATED GPUs]" : "",
                  context ? "  kubectl uses it: " : "", context ? context : "", context ? "\n" : "",
                  flag, flag);
    up_detach_ready(&u->detached, text);
}

static void on_applied(void *arg, struct gs_error *err)
{
    struct up *u = arg;
    set_phase(u, PHASE_READY);
    if (err)
        stop_with_error(u, err);
    else
        tell_ready(u);
}

static void on_ready(struct up *u)
{
    console_terminal_line(u->terminal, "Ready: %s, %s%s", u->headline, u->addresses,
                          has_simulated_gpus(u) ? " [SIMULATED GPUs]" : "");
    for (size_t i = 0; i < CONSOLE_STATUS_HINTS && u->hints[i]; i++)
        console_terminal_line(u->terminal, "  %s", u->hints[i]);
    if (local_ports_first() > 80) {
        GS_AUTO_FREE char *why = local_ports_remedy(80);
        console_terminal_line(u->terminal, "Port 80 of pods and Services is reached at %d: %s",
                              local_host_port(80), why);
    }
    if (u->cluster->kube_context)
        console_terminal_line(u->terminal, "  kubectl uses it: %s", u->cluster->kube_context);
    set_phase(u, PHASE_APPLYING);
    up_apply_start(u->apply, u->cluster->client, on_applied, u);
}

static void watch_service(struct up *u)
{
    char *url = find_service_url(u);
    if (url && !gs_streq(url, u->service_url))
        console_terminal_line(u->terminal, "Service: %s", url);
    if (url) {
        free(u->service_url);
        u->service_url = url;
        u->ready_ticks++;
    }
    if (u->o->load && u->phase == PHASE_READY && u->ready_ticks > LOAD_DELAY_TICKS)
        start_load(u);
}

static void on_resize(uv_signal_t *s, int number)
{
    (void)number;
    struct up *u = s->data;
    if (!is_stopping(u))
        draw_status_block(u);
}

// Monitors that scrape a port twice.
static void report_monitors(struct up *u)
{
    size_t pos = 0;
    const char *name, *text;
    const struct monitors *m = engine_monitors(u->cluster->engine);
    while ((text = monitors_warning(m, &pos, &name))) {
        const char *remedy = strstr(text, "; ");
        GS_AUTO_FREE char *problem =
            remedy ? gs_strndup(text, (size_t)(remedy - text)) : gs_strdup(text);
        console_problems_report(u->problems, name, "ScrapedTwice", problem,
                                remedy ? remedy + 2 : "");
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct up *u = timer->data;
    if (u->phase == PHASE_STARTING && up_cluster_ready(u->cluster))
        on_ready(u);
    if (u->phase >= PHASE_READY)
        watch_service(u);
    if (u->phase == PHASE_COOLING && console_decisions_all_at_min(u->decisions))
        print_timeline(u);
    if (is_stopping(u))
        return;
    if (u->phase >= PHASE_APPLYING) {
        report_monitors(u);
        if (++u->ticks % DUPLICATES_TICKS == 0)
            up_cluster_hide_duplicates(u->cluster);
        console_problems_update(u->problems, gs_unix_ms());
    }
    up_detach_rotate(&u->detached);
    draw_status_block(u);
}

static void on_exporter_line(void *arg, const char *line)
{
    struct up *u = arg;
    console_terminal_line(u->terminal, "exporter: %s", line);
}

static void watch_problems(struct up *u)
{
    u->events =
        kube_cache_new(program_loop(u->program), u->cluster->client, KUBE_EVENTS, NULL, NULL);
    kube_cache_start(u->events);
    const struct console_problems_source source = {.client = u->cluster->client,
                                                   .pods = u->cluster->cluster->pods,
                                                   .nodes = u->cluster->cluster->nodes,
                                                   .events = u->events,
                                                   .pools = u->cluster->pools_json};
    u->problems = console_problems_new(&source, gs_unix_ms());
    u->cluster->problems = u->problems;
}

static bool in_path(const char *name)
{
    GS_AUTO_FREE char *path = gs_find_program(name);
    return path != NULL;
}

static void describe_cluster(struct up *u)
{
    const struct up_cluster *c = u->cluster;
    GS_AUTO_FREE char *kubeconfig = gs_shell_word(c->kubeconfig);
    GS_AUTO_FREE char *pools =
        c->pools.len ? gs_format(", %zu pool%s", c->pools.len, c->pools.len == 1 ? "" : "s")
                     : gs_strdup("");
    u->headline = gs_format("node %s, %zu GPU%s%s", c->node_name, c->devices.n_gpus,
                            c->devices.n_gpus == 1 ? "" : "s", pools);
    u->addresses = gs_format("API https://127.0.0.1:%u, Prometheus API http://127.0.0.1:%u",
                             c->api_port, c->prometheus_port);
    u->hints[0] = gs_format("export KUBECONFIG=%s", kubeconfig);
    if (c->devices.sim_name || !in_path("gpuscale")) {
        GS_AUTO_FREE char *bin = gs_shell_word(c->bin_dir);
        u->hints[1] = gs_format("export PATH=%s:$PATH", bin);
    }
}

static struct gs_error *start_up(struct up *u, const char *data_dir)
{
    struct gs_error *err = up_values_load(u->o, &u->values);
    if (!err)
        err = up_apply_load(u->o->files.items, u->o->files.len, &u->apply);
    if (!err)
        err = up_apply_add(u->apply, u->values.chart.objects, "--values");
    if (!err)
        err = up_cluster_start(u->program, u->o, &u->values, data_dir, on_exporter_line,
                               on_decision, u, &u->cluster);
    if (!err)
        err = up_release_apply(u->cluster->release, u->cluster, u->apply);
    if (err)
        return err;
    watch_problems(u);
    describe_cluster(u);
    u->load_log = gs_format("%s/load.log", data_dir);
    uv_timer_start(&u->tick, on_tick, 100, TICK_MS);
    uv_signal_start(&u->sigwinch, on_resize, SIGWINCH);
    return NULL;
}

static void release_up(struct up *u)
{
    console_terminal_draw(u->terminal, (struct gs_slice){NULL, 0});
    program_close(u->program);
    up_child_free(u->load);
    up_apply_free(u->apply);
    console_problems_free(u->problems);
    kube_cache_free(u->events);
    up_cluster_free(u->cluster);
    up_values_finish(&u->values);
    uv_close((uv_handle_t *)&u->tick, NULL);
    uv_close((uv_handle_t *)&u->sigwinch, NULL);
    program_free(u->program);
    console_decisions_free(u->decisions);
    console_timeline_free(u->timeline);
    console_terminal_free(u->terminal);
    free(u->headline);
    free(u->addresses);
    for (size_t i = 0; i < CONSOLE_STATUS_HINTS; i++)
        free(u->hints[i]);
    free(u->service_url);
    free(u->load_log);
}

// With --exit-after-load, the exit code reports whether the load ran and the replicas went back.
static struct gs_error *exit_error(const struct up *u)
{
    const bool after_ok = u->after_ok || !u->o->after_load;
    if (u->err || !u->o->exit_after_load || (u->load_ok && after_ok && u->phase == PHASE_IDLE))
        return u->err;
    if (u->phase < PHASE_LOAD)
        return gs_error_new(GS_EUNAVAIL, "stopped before the load had started");
    if (u->load_ok && u->phase == PHASE_AFTER)
        return gs_error_new(GS_EUNAVAIL, "stopped before the command of --after-load had ended");
    if (u->load_ok && u->phase == PHASE_IDLE)
        return gs_error_new(GS_EUNAVAIL, "the command of --after-load failed; its output is in %s",
                            u->load_log);
    if (u->phase == PHASE_LOAD || u->load_ok)
        return gs_error_new(GS_EUNAVAIL, "stopped before %s",
                            u->load_ok ? "the replicas were back at their minimum"
                                       : "the load had ended");
    return gs_error_new(GS_EUNAVAIL, "the load failed; its output is in %s", u->load_log);
}

static struct gs_error *run_cluster(struct up *u, const char *data_dir)
{
    const struct program_config program = {.name = "up",
                                           .reload = on_reload,
                                           .stop = on_stop,
                                           .arg = u,
                                           .stops_with_terminal = true,
                                           .reports_stop = true};
    // The limit of open files is raised, as container runtimes do for their containers.
    u->program = program_new(&program);
    uv_timer_init(program_loop(u->program), &u->tick);
    uv_signal_init(program_loop(u->program), &u->sigwinch);
    u->tick.data = u->sigwinch.data = u;
    u->terminal = console_terminal_new(STDERR_FILENO);
    u->decisions = console_decisions_new();
    u->timeline = console_timeline_new(gs_unix_ms());
    struct gs_error *err = start_up(u, data_dir);
    if (!err)
        err = program_run(u->program);
    if (!err)
        err = exit_error(u);
    release_up(u);
    return err;
}

static struct gs_error *print_env(const struct up_options *o)
{
    GS_AUTO_FREE char *dir = NULL;
    struct gs_error *err = up_datadir_running(o->data_dir, &dir);
    if (!err)
        up_env_print(dir, up_env_shell(o), o->data_dir);
    return err;
}

struct gs_error *up_run(const struct up_options *o)
{
    struct up u = {.o = o, .detached.ready = -1};
    GS_AUTO_CLOSE int lock = -1;
    GS_AUTO_FREE char *data_dir = NULL;
    bool waits = false;
    struct gs_error *err = up_options_check(o);
    if (!err && up_env_shell(o) && !o->detach)
        return print_env(o);
    if (!err)
        err = up_datadir_prepare(o->data_dir, o->stop, o->reset, &data_dir, &lock);
    if (!err && data_dir && o->detach)
        err = up_detach(data_dir, lock, &u.detached, &waits);
    if (!err && data_dir && !waits)
        err = run_cluster(&u, data_dir);
    else if (!err && waits && up_env_shell(o))
        up_env_print(data_dir, up_env_shell(o), o->data_dir);
    up_detach_finish(&u.detached);
    return err;
}
