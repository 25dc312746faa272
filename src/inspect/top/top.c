// SPDX-License-Identifier: Apache-2.0
// Runs `gpuscale top`: one loop with the refresh, the clock, the keys and the signals. Only one
// refresh is in progress; a slow source makes refreshes rarer. The terminal is restored on every
// end.
#include "top/top.h"

#include "base/clock.h"
#include "base/columns.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/engine_url.h"
#include "top/top_private.h"

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    SECOND_MS = 250, // between the first two refreshes of a source of rates
    CLOCK_MS = 1000, // ages and the time are drawn at this interval
    LEAST_RETRY_MS = 1000,
    EXIT_TURNS = 200, // of the loop, 10 ms each, for a driver call that does not return
    CTRL_Z = 26,
    ANY_WIDTH = 1 << 20, // of a table that no window limits
    N_SIGNALS = 5,
};

struct app {
    const struct top_options *o;
    uv_loop_t loop;
    struct top_source *source;
    struct top_model model;
    struct top_ui ui;
    struct top_frame frame;
    struct top_screen *screen; // NULL: once
    struct gs_timer *refresh_timer, *clock_timer;
    uv_poll_t keys;
    uv_signal_t signals[N_SIGNALS];
    size_t n_signals;
    bool once, guessed; // guessed: no option and no environment variable named the source
    bool refreshing, done;
    size_t n_refreshes;
    char *problem; // of the last refresh
    char *why_guessed;
    struct kube_engine_url server;
    const char *reason; // why the server is the source; NULL: it is named, guessed or not used
    struct gs_error *err;
};

static struct top_status status_of(const struct app *a)
{
    return (struct top_status){.source = a->source->name,
                               .problem = a->problem,
                               .now_ms = gs_unix_ms(),
                               .colour = a->screen && top_screen_colour(a->screen)};
}

static void draw(struct app *a)
{
    if (!a->screen || a->done)
        return;
    struct top_status s = status_of(a);
    size_t rows, columns;
    top_screen_size(a->screen, &rows, &columns);
    top_frame_draw(&a->model, &a->ui, &s, rows, columns, &a->frame);
    top_screen_draw(a->screen, gs_buf_slice(&a->frame.text));
}

static void stop(struct app *a)
{
    a->done = true;
    uv_stop(&a->loop);
}

// --- refreshing ---

static void refresh(void *arg);

static void schedule(struct app *a)
{
    // Once in each interval of the history, not too close to its ends.
    int64_t interval = a->ui.interval_ms;
    bool second = a->source->needs_two && a->n_refreshes == 1;
    int64_t ms = second ? SECOND_MS : interval - (gs_unix_ms() - interval / 10) % interval;
    if (a->problem && ms < LEAST_RETRY_MS)
        ms = LEAST_RETRY_MS;
    if (!a->ui.paused)
        gs_timer_start(a->refresh_timer, refresh, (uint64_t)ms);
}

static void take_problem(struct app *a, struct gs_error *err)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_columns_clean(&text, gs_slice_of(gs_error_message(err)));
    free(a->problem);
    a->problem = gs_buf_take(&text);
}

static void on_values(void *arg, const struct top_samples *samples, const struct top_samples *past,
                      struct gs_error *err)
{
    struct app *a = arg;
    a->refreshing = false;
    if (err && (a->once || (a->guessed && !a->model.complete))) {
        a->err = err;
        stop(a);
        return;
    }
    if (err) {
        take_problem(a, err);
        gs_error_free(err);
    } else {
        free(a->problem);
        a->problem = NULL;
        top_model_update(&a->model, samples, gs_unix_ms());
        if (past)
            top_model_add_past(&a->model, past);
        if (!a->n_refreshes++ && !a->model.n_gpus && a->model.n_pods && a->ui.pane == TOP_GPUS)
            a->ui.pane = TOP_PODS;
    }
    if (a->once && !(a->source->needs_two && a->n_refreshes < 2))
        stop(a);
    else
        schedule(a);
    draw(a);
}

static void refresh(void *arg)
{
    struct app *a = arg;
    if (a->refreshing)
        return;
    a->refreshing = true;
    a->source->ops->refresh(a->source, on_values, a);
}

// --- terminal ---

static void on_clock(void *arg)
{
    draw(arg);
}

static void after_keys(struct app *a)
{
    if (a->ui.redraw)
        top_screen_resize(a->screen);
    if (a->model.refresh_ms != a->ui.interval_ms)
        top_model_set_refresh(&a->model, a->ui.interval_ms);
    if (a->ui.refresh_now && !a->ui.paused)
        gs_timer_start(a->refresh_timer, refresh, 0);
    if (a->ui.paused)
        gs_timer_stop(a->refresh_timer);
    a->ui.redraw = a->ui.refresh_now = false;
    if (a->ui.quit)
        stop(a);
    else
        draw(a);
}

static void on_key(uv_poll_t *poll, int status, int events)
{
    struct app *a = poll->data;
    size_t line = 0, column = 0, n = 0;
    struct termios modes;
    int key;
    (void)events;
    while (!a->ui.quit && (key = top_screen_key(a->screen, &line, &column)) != TOP_KEY_NONE) {
        n++;
        if (key == CTRL_Z && !a->ui.typing)
            top_screen_suspend(a->screen);
        else if (key == TOP_KEY_CLICK)
            top_frame_click(&a->frame, &a->ui, line, column);
        else
            top_ui_key(&a->ui, key);
    }
    // The terminal was closed.
    if (status < 0 || (!n && tcgetattr(STDIN_FILENO, &modes) < 0))
        a->ui.quit = true;
    after_keys(a);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct app *a = handle->data;
    if (number == SIGWINCH) {
        top_screen_resize(a->screen);
        draw(a);
    } else {
        stop(a);
    }
}

static void open_handles(struct app *a)
{
    static const int numbers[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    a->refresh_timer = gs_timer_new(&a->loop, a);
    a->clock_timer = gs_timer_new(&a->loop, a);
    if (!a->screen)
        return;
    gs_timer_repeat(a->clock_timer, on_clock, CLOCK_MS, CLOCK_MS);
    for (; a->n_signals < N_SIGNALS; a->n_signals++) {
        uv_signal_t *s = &a->signals[a->n_signals];
        s->data = a;
        (void)uv_signal_init(&a->loop, s);
        (void)uv_signal_start(s, on_signal, numbers[a->n_signals]);
    }
    a->keys.data = a;
    // libuv sets O_NONBLOCK, which the shell and stdout share with stdin and would keep.
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    (void)uv_poll_init(&a->loop, &a->keys, STDIN_FILENO);
    if (flags >= 0)
        (void)fcntl(STDIN_FILENO, F_SETFL, flags);
    (void)uv_poll_start(&a->keys, UV_READABLE, on_key);
}

// False if a thread hangs in the driver.
static bool close_handles(struct app *a)
{
    gs_timer_free(a->refresh_timer);
    gs_timer_free(a->clock_timer);
    for (size_t i = 0; i < a->n_signals; i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    if (a->n_signals)
        uv_close((uv_handle_t *)&a->keys, NULL);
    if (a->source)
        a->source->ops->free(a->source);
    for (int i = 0; i < EXIT_TURNS && uv_run(&a->loop, UV_RUN_NOWAIT); i++)
        (void)usleep(10000);
    return uv_loop_close(&a->loop) == 0;
}

static void ignore_log(void *arg, const char *line, size_t len)
{
    (void)arg, (void)line, (void)len;
}

// --- output once ---

static bool has_colour(void)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && term && !gs_streq(term, "dumb");
}

static size_t window_columns(void)
{
    struct winsize size = {0};
    if (!isatty(STDOUT_FILENO))
        return ANY_WIDTH;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static void print_values(struct app *a)
{
    GS_AUTO_BUF struct gs_buf out = {0}, ascii = {0};
    struct top_status s = status_of(a);
    if (gs_streq(a->o->output, "json")) {
        CODEC_AUTO_JSON json_t *j = top_print_json(&a->model, &a->ui, &s);
        codec_json_dump_pretty(j, &out);
        gs_buf_add_char(&out, '\n');
    } else {
        s.colour = has_colour();
        top_print_table(&a->model, &a->ui, &s, window_columns(), &out);
        if (a->model.note)
            (void)fprintf(stderr, "%s\n", a->model.note);
        if (a->model.simulated)
            (void)fputs("SIMULATED GPUs: no value comes from a real GPU\n", stderr);
        if (a->reason)
            (void)fprintf(stderr, "source: %s (%s)\n", a->server.url, a->reason);
        locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
        bool utf8 = locale && gs_streq(nl_langinfo_l(CODESET, locale), "UTF-8");
        if (locale)
            freelocale(locale);
        if (isatty(STDOUT_FILENO) && !utf8)
            top_frame_ascii(gs_buf_slice(&out), &ascii);
    }
    const struct gs_buf *text = ascii.len ? &ascii : &out;
    (void)fwrite(text->data, 1, text->len, stdout);
    (void)fflush(stdout);
}

// --- options ---

static struct gs_error *choose_order(struct app *a)
{
    bool found = !a->o->sort;
    for (int i = 0; i < TOP_PANES; i++) {
        a->ui.order[i].column = -1;
        int column = a->o->sort ? top_columns_find((enum top_pane)i, a->o->sort) : -1;
        if (column < 0 || gs_streq(a->o->sort, "history"))
            continue;
        a->ui.order[i].column = column;
        found = true;
    }
    if (found)
        return NULL;
    return gs_error_new(GS_EINVAL,
                        "--sort \"%s\": want the name of a column: util, memory, temp, power, "
                        "age, node, gpu, model, pods, pod, namespace, status, gpus, process, pid",
                        a->o->sort);
}

// Neither an option nor a setting names the source, and this machine has no GPUs: a Service of the
// cluster, its metrics API, or the default URL.
static struct gs_error *guess_source(struct app *a, const struct gs_error *why_not_nvml,
                                     const char **ret_url)
{
    kube_engine_url_finish(&a->server);
    struct gs_error *err = kube_engine_url_locate(NULL, NULL, NULL, &a->server);
    if (!err && a->server.origin == KUBE_ENGINE_OF_SERVICE) {
        *ret_url = a->server.url;
        a->reason = kube_engine_url_reason(&a->server);
        return NULL;
    }
    GS_AUTO_ERROR struct gs_error *no_cluster = top_source_cluster_new(&a->loop, a->o, &a->source);
    if (!no_cluster) {
        gs_error_free(err); // several Services: the metrics API is the source
        return NULL;
    }
    a->guessed = true;
    // The reason, without the list of paths that were tried.
    const char *why = gs_error_message(why_not_nvml);
    a->why_guessed = gs_strndup(why, strcspn(why, ";"));
    *ret_url = a->server.url;
    return err;
}

static struct gs_error *choose_source(struct app *a)
{
    const struct top_options *o = a->o;
    const char *url = o->url;
    bool cluster = o->cluster || o->kubeconfig || o->context || o->ns;
    if ((o->url != NULL) + (o->exporter != NULL) + o->nvml + cluster > 1)
        return gs_error_new(GS_EINVAL,
                            "only one of --url, --exporter, --nvml and a cluster can be given");
    if (cluster)
        return top_source_cluster_new(&a->loop, o, &a->source);
    if (o->exporter)
        return top_source_exporter_new(&a->loop, o, o->exporter, &a->source);
    if (!o->nvml)
        kube_engine_url_find(url, NULL, NULL, &a->server);
    if (a->server.url && a->server.origin != KUBE_ENGINE_OF_DEFAULT) {
        url = a->server.url;
        a->reason = kube_engine_url_reason(&a->server);
    }
    if (!url && !o->nvml) {
        GS_AUTO_ERROR struct gs_error *no_gpus = top_source_nvml_probe(o->nvml_library);
        struct gs_error *err = no_gpus ? guess_source(a, no_gpus, &url) : NULL;
        if (err || a->source)
            return err;
    }
    if (url)
        return top_source_prometheus_new(&a->loop, o, url, kube_engine_url_settings(&a->server),
                                         a->ui.interval_ms, &a->source);
    top_source_nvml_new(&a->loop, o->nvml_library, &a->source);
    return NULL;
}

static struct gs_error *explain_guess(const struct app *a, struct gs_error *err)
{
    if (err && a->reason)
        return gs_error_wrap(err, "server %s (%s)", a->server.url, a->reason);
    if (!err || !a->guessed)
        return err;
    struct gs_error *both = gs_error_new(
        GS_EUNAVAIL,
        "no source of values; name one with --url, --exporter, --cluster or GPUSCALE_URL\n"
        "  this machine: %s\n"
        "  cluster: no kubeconfig\n"
        "  %s: %s",
        a->why_guessed, KUBE_ENGINE_DEFAULT_URL, gs_error_message(err));
    gs_error_free(err);
    return both;
}

static struct gs_error *prepare(struct app *a)
{
    const struct top_options *o = a->o;
    if (!gs_streq(o->output, "table") && !gs_streq(o->output, "json"))
        return gs_error_new(GS_EINVAL, "--output \"%s\": want table or json", o->output);
    if (o->interval_ns < 100 * GS_NS_PER_MS || o->interval_ns > 3600 * GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--interval: want 100ms to 1h");
    if (o->timeout_ns < GS_NS_PER_MS || o->timeout_ns > 3600 * GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--timeout: want 1ms to 1h");
    if (o->filter && strlen(o->filter) >= TOP_FILTER_SIZE)
        return gs_error_new(GS_EINVAL, "--filter: at most %d bytes", TOP_FILTER_SIZE - 1);
    a->ui.interval_ms = o->interval_ns / GS_NS_PER_MS;
    if (o->filter)
        (void)snprintf(a->ui.filter, sizeof(a->ui.filter), "%s", o->filter);
    struct gs_error *err = choose_order(a);
    return err ? err : choose_source(a);
}

struct gs_error *top_run(const void *options, int argc, char **argv, int *ret_exit)
{
    struct app *a = gs_alloc(sizeof(*a));
    const char *term = getenv("TERM");
    (void)argc, (void)argv;
    a->o = options;
    uv_loop_init(&a->loop);
    a->once = a->o->once || !gs_streq(a->o->output, "table") || !isatty(STDIN_FILENO) ||
              !isatty(STDOUT_FILENO) || !term || !*term || gs_streq(term, "dumb");
    struct gs_error *err = prepare(a);
    top_model_init(&a->model, a->ui.interval_ms);
    if (!err && !a->once)
        err = top_screen_open(&a->screen);
    if (!err) {
        open_handles(a);
        if (a->screen)
            gs_log_set_sink(ignore_log, NULL);
        draw(a);
        refresh(a);
        while (!a->done && uv_run(&a->loop, UV_RUN_DEFAULT))
            continue;
        err = explain_guess(a, GS_TAKE(a->err));
        if (a->once && !err)
            print_values(a);
    }
    top_screen_close(a->screen);
    gs_log_set_sink(NULL, NULL);
    bool closed = close_handles(a);
    top_ui_finish(&a->ui);
    top_frame_finish(&a->frame);
    top_model_finish(&a->model);
    free(a->problem);
    free(a->why_guessed);
    kube_engine_url_finish(&a->server);
    *ret_exit = 0;
    if (!closed && !err)
        _exit(0); // libuv would wait for the thread that hangs
    if (closed)
        free(a);
    return err;
}
