// SPDX-License-Identifier: Apache-2.0
// Signals and the phases of a program: start, run, stop, drain, end.
#include "net/program/program_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <signal.h>

enum {
    DRAIN_STEP_MS = 5,
    // Kubernetes kills a container after 30 s.
    DRAIN_MS = 25000,
};

// --- the end ---

static void end_run(struct program *p)
{
    p->phase = PROGRAM_ENDED;
    uv_stop(&p->loop);
}

static bool all_idle(const struct program *p)
{
    for (size_t i = 0; i < p->n_servers; i++)
        if (!p->servers[i].idle(p->servers[i].server))
            return false;
    return true;
}

static void drain_servers(struct program *p)
{
    p->drain_since_ns = gs_mono_ns();
    for (size_t i = 0; i < p->n_servers; i++)
        p->servers[i].drain(p->servers[i].server);
}

static void on_drain_timer(uv_timer_t *t)
{
    struct program *p = t->data;
    if (!p->drain_since_ns) {
        drain_servers(p);
        return;
    }
    bool late = gs_mono_ns() - p->drain_since_ns > DRAIN_MS * GS_NS_PER_MS;
    if (late && !all_idle(p))
        gs_warn(p->cfg.name, "requests are still in progress after %d s; they end now",
                DRAIN_MS / 1000);
    if (late || all_idle(p))
        end_run(p);
}

void program_stopped(struct program *p)
{
    if (p->phase != PROGRAM_STOPPING)
        return;
    p->phase = PROGRAM_DRAINING;
    // Later: a handler of a server may have called this.
    uv_timer_start(&p->drain, on_drain_timer, 0, DRAIN_STEP_MS);
}

static void begin_stop(struct program *p)
{
    p->phase = PROGRAM_STOPPING;
    program_notify(p, "STOPPING=1");
    if (p->cfg.stop)
        p->cfg.stop(p->cfg.arg);
    else
        program_stopped(p);
}

// After a second request nothing is awaited. A third signal has its default effect, so that a
// release that hangs can be ended.
static void stop_again(struct program *p)
{
    for (size_t i = 0; i < PROGRAM_SIGNALS; i++)
        uv_signal_stop(&p->signals[i]);
    if (p->phase != PROGRAM_STARTING)
        end_run(p);
}

void program_stop(struct program *p, const char *why)
{
    if (!p->cfg.reports_stop)
        gs_info(p->cfg.name, "%s: stopping", why);
    if (p->stopping) {
        stop_again(p);
        return;
    }
    p->stopping = true;
    if (p->phase == PROGRAM_RUNNING)
        begin_stop(p);
}

void program_fail(struct program *p, struct gs_error *err)
{
    if (p->err)
        gs_error_free(err);
    else
        p->err = err;
    end_run(p);
}

// --- signals ---

static void reload(struct program *p)
{
    if (!p->cfg.reload) {
        gs_info(p->cfg.name, "SIGHUP: there is nothing to reload");
        return;
    }
    GS_AUTO_FREE char *message =
        gs_format("RELOADING=1\nMONOTONIC_USEC=%" PRId64, gs_mono_ns() / (GS_NS_PER_MS / 1000));
    gs_info(p->cfg.name, "SIGHUP: reloading the configuration");
    program_notify(p, message);
    p->cfg.reload(p->cfg.arg);
    program_notify(p, "READY=1");
}

static void on_hangup(struct program *p)
{
    if (p->has_terminal && !isatty(STDERR_FILENO))
        program_stop(p, "the terminal has gone");
    else if (p->phase == PROGRAM_STARTING)
        p->reload_later = true;
    else if (p->phase == PROGRAM_RUNNING)
        reload(p);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct program *p = s->data;
    if (number == SIGHUP)
        on_hangup(p);
    else
        program_stop(p, strsignal(number));
}

// --- life ---

struct program *program_new(const struct program_config *cfg)
{
    static const int numbers[PROGRAM_SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    struct program *p = gs_alloc(sizeof(*p));
    p->cfg = *cfg;
    p->health = (struct http_routes){.rows = program_health_rows, .ctx = p};
    p->has_terminal = cfg->stops_with_terminal && isatty(STDERR_FILENO);
    p->notify_socket = program_take_notify_socket();
    gs_raise_file_limit();
    uv_loop_init(&p->loop);
    uv_timer_init(&p->loop, &p->drain);
    p->drain.data = p;
    for (size_t i = 0; i < PROGRAM_SIGNALS; i++) {
        uv_signal_init(&p->loop, &p->signals[i]);
        p->signals[i].data = p;
        if (numbers[i] != SIGQUIT || cfg->stops_on_quit)
            uv_signal_start(&p->signals[i], on_signal, numbers[i]);
    }
    return p;
}

uv_loop_t *program_loop(struct program *p)
{
    return &p->loop;
}

bool program_stopping(const struct program *p)
{
    return p->stopping;
}

struct gs_error *program_run(struct program *p)
{
    if (p->err || p->stopping)
        return GS_TAKE(p->err);
    p->phase = PROGRAM_RUNNING;
    program_notify(p, "READY=1");
    if (p->reload_later)
        reload(p);
    while (p->phase != PROGRAM_ENDED)
        uv_run(&p->loop, UV_RUN_DEFAULT);
    return GS_TAKE(p->err);
}

void program_free(struct program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < PROGRAM_SIGNALS; i++)
        uv_close((uv_handle_t *)&p->signals[i], NULL);
    uv_close((uv_handle_t *)&p->drain, NULL);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&p->loop);
    gs_error_free(p->err);
    free(p->notify_socket);
    free(p);
}
