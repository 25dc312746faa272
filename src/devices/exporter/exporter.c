// SPDX-License-Identifier: Apache-2.0
// The exporter: samples arrive from the sampler's thread, maps from the kubelet, and /metrics is
// rendered at most once for each of them. Samples that are too old are not served: a repeated
// value would look like a measurement.
// States: not opened (503) -> serving -> stuck, when a driver call hangs (503) -> serving; without
// a driver, it waits and serves its own metrics only.
#include "exporter/exporter.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "exporter/attribution.h"
#include "exporter/render.h"
#include "net/http/routes.h"

#include <inttypes.h>

#define STUCK_DEFAULT_NS (10 * GS_NS_PER_SEC)
// This is success, not failure: a DaemonSet is complete on a node without a GPU.
#define NO_DEVICE_TEXT "OK, but there is no NVIDIA GPU in this machine"
enum { WATCH_MS = 1000 };

struct exporter {
    struct exporter_config cfg;
    struct exporter_sampler *sampler;
    struct exporter_attribution *attribution; // NULL: not configured
    struct exporter_cluster *cluster;         // NULL: not configured
    struct gs_timer *watch;
    struct exporter_sample *sample; // NULL: none yet, or NVML as a whole fails
    enum gpu_driver driver;         // as of the last sample
    char *problem;                  // why there is no sample; NULL: none
    int64_t away_since;             // when the driver became unavailable; 0: it is available
    size_t n_gpus;                  // as logged last
    size_t n_unopened;              // as logged last
    bool opened, simulated, was_stuck, has_given_up;
    unsigned missing,
        // bits of enum exporter_attribution_problem: as logged last, and as found last
        missing_before;
    struct exporter_gpu_events *gpu_events;
    struct exporter_sources sources;
    struct dcgm_source_status dcgm; // as of the last check
    bool has_dcgm;                  // DCGM was needed at least once
    uint64_t samples, failures;
    uint64_t pages, pages_refused; // replies to requests for /metrics
    int64_t started_ms;            // Unix time
    uint64_t processes_seen;       // lookups at the last sample; more mean new processes
    struct exporter_renderer *renderer;
    struct exporter_health *health; // NULL: no family needs it
    uint64_t map_version;
    // of /metrics; the first gpu_len bytes depend on the sample and the map
    struct http_bytes *page;
    size_t gpu_len;
    bool dirty;     // the sample or map is newer than the page
    bool requested; // the page was requested
    struct exporter_rhythm rhythm;
};

static size_t count_hung(const struct exporter *e)
{
    size_t n = 0;
    for (size_t i = 0; e->sample && i < e->sample->gpus->n_devices; i++)
        n += e->sample->gpus->devices[i].hung;
    return n;
}

// A hung GPU is skipped while the others are sampled. Stuck means that nothing is sampled.
static bool is_stuck(const struct exporter *e, int64_t now)
{
    int64_t since = exporter_sampler_busy_since_ns(e->sampler);
    size_t hung = count_hung(e);
    return (since && now - since > e->cfg.stuck_after_ns) ||
           (e->sample && hung && hung == e->sample->gpus->n_devices);
}

// Old samples are not served: a repeated value would look like a measurement.
static bool is_fresh(const struct exporter *e, int64_t now)
{
    return e->sample && !is_stuck(e, now) &&
           now - e->sample->mono_ns <= e->cfg.stuck_after_ns + e->cfg.interval_ns;
}

static struct exporter_render_self self_of(const struct exporter *e,
                                           struct exporter_attribution_status *status)
{
    int64_t now = gs_mono_ns();
    if (e->attribution)
        *status = exporter_attribution_status(e->attribution);
    return (struct exporter_render_self){
        .sample = e->sample,
        .simulated = e->simulated,
        .has_opened = e->opened,
        .fresh = is_fresh(e, now),
        .stuck = is_stuck(e, now),
        .driver = e->driver,
        .problem = e->problem,
        .samples = e->samples,
        .failures = e->failures,
        .now_ns = now,
        .attribution = e->attribution ? status : NULL,
        .missing = e->missing,
        .sources = &e->sources,
        .dcgm = e->has_dcgm ? &e->dcgm : NULL,
        .rows_left_out = e->cfg.names.counters ? e->cfg.names.counters->n_left_out : 0,
    };
}

// --- pages ---

// Without a need, and with auto without an engine, DCGM is not a source that is missing.
static void check_dcgm(struct exporter *e)
{
    if (!e->cfg.dcgm)
        return;
    dcgm_source_status(e->cfg.dcgm, &e->dcgm);
    enum dcgm_source_state state = e->dcgm.report.state;
    e->has_dcgm |= state != DCGM_SOURCE_UNUSED;
    GS_AUTO_FREE char *problem =
        state == DCGM_SOURCE_DOWN
            ? gs_format("DCGM at %s: %s", e->dcgm.address, e->dcgm.report.problem)
            : NULL;
    if (state == DCGM_SOURCE_UP || state == DCGM_SOURCE_DOWN)
        exporter_sources_set(&e->sources, EXPORTER_SOURCE_DCGM, problem);
}

static void reply_unavailable(const struct exporter *e, struct http_exchange *x)
{
    bool busy = exporter_sampler_busy_since_ns(e->sampler) != 0 || count_hung(e);
    GS_AUTO_BUF struct gs_buf problems = {0};
    if (e->sample)
        exporter_gpu_events_problems(e->sample->gpus, &problems);
    if (e->problem && e->driver == GPU_DRIVER_NO_DEVICE && !e->cfg.require_gpus)
        http_reply_text(x, 200, NO_DEVICE_TEXT);
    else if (e->problem && !is_stuck(e, gs_mono_ns()))
        http_reply_text(x, 503, "%s\n", e->problem);
    else
        http_reply_text(x, 503, "%s: %s%s%s\n",
                        e->sample ? "the last sample is too old" : "no sample yet",
                        busy ? "the driver has not returned from a call" : "the sampler is late",
                        problems.len ? "; " : "", problems.len ? problems.data : "");
}

static void write_page(struct exporter *e)
{
    const struct exporter_render_input in = {
        .sample = e->sample,
        .map = exporter_attribution_map(e->attribution),
        .map_version = e->map_version,
        .map_requested_ns = exporter_attribution_requested_ns(e->attribution),
        .replicas = exporter_attribution_replicas(e->attribution),
        .health = e->health};
    struct gs_buf *text = http_bytes_edit(&e->page, 0);
    if (e->sample)
        exporter_renderer_page(e->renderer, &in, text);
    e->gpu_len = text->len;
    e->dirty = false;
}

static void handle_metrics(void *arg, struct http_exchange *x)
{
    struct exporter *e = arg;
    if (!e->samples && !e->failures && !is_stuck(e, gs_mono_ns())) {
        e->pages_refused++;
        reply_unavailable(e, x);
        return;
    }
    int64_t next_ns = exporter_rhythm_next(&e->rhythm, gs_mono_ns());
    if (next_ns)
        exporter_sampler_expect(e->sampler, next_ns);
    e->requested = true;
    check_dcgm(e);
    struct exporter_attribution_status status;
    struct exporter_render_self self = self_of(e, &status);
    if (self.fresh && e->dirty)
        write_page(e);
    if (!self.fresh) {
        e->gpu_len = 0;
        e->dirty = true;
    }
    // The values of these metrics, such as ages, differ in each response.
    struct gs_buf *text = http_bytes_edit(&e->page, e->gpu_len);
    exporter_render_self(&self, text);
    if (e->cfg.process_metrics)
        exporter_render_process(e->started_ms, e->pages, e->pages_refused, text);
    e->pages++;
    http_reply_bytes(x, 200, HTTP_TYPE_METRICS, e->page);
}

static void handle_health(void *arg, struct http_exchange *x)
{
    struct exporter *e = arg;
    GS_AUTO_BUF struct gs_buf problems = {0};
    bool fresh = is_fresh(e, gs_mono_ns());
    if (fresh && e->driver == GPU_DRIVER_NO_GPU)
        http_reply_text(x, 503, "the driver knows no GPU");
    else if (fresh && e->driver == GPU_DRIVER_NO_DEVICE && e->cfg.require_gpus)
        http_reply_text(x, 503, "there is no NVIDIA GPU in this machine");
    else if (fresh && e->driver == GPU_DRIVER_NO_DEVICE)
        http_reply_text(x, 200, NO_DEVICE_TEXT);
    else if (fresh && exporter_gpu_events_problems(e->sample->gpus, &problems))
        http_reply_text(x, 200, "OK, but %s", problems.data);
    else if (fresh)
        http_reply_text(x, 200, "OK");
    else
        reply_unavailable(e, x);
}

static void handle_index(void *arg, struct http_exchange *x)
{
    struct exporter *e = arg;
    struct exporter_attribution_status status;
    check_dcgm(e);
    struct exporter_render_self self = self_of(e, &status);
    GS_AUTO_BUF struct gs_buf page = {0};
    exporter_render_index(&self, &page);
    http_reply(x, 200, "text/html; charset=utf-8", gs_buf_slice(&page));
}

static const struct http_route routes[] = {
    {.path = "/metrics", .handle = handle_metrics},
    {.path = "/health", .handle = handle_health},
    {.path = "/healthz", .handle = handle_health},
    {.path = "/", .handle = handle_index},
    {0},
};

void exporter_handle(void *exporter, struct http_exchange *x)
{
    struct http_routes all = {.rows = routes, .ctx = exporter, .not_found = "404 page not found\n"};
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_routes_handle(&all, x);
}

// --- updates ---

static void end_with_error(struct exporter *e, struct gs_error *err)
{
    if (e->has_given_up)
        gs_error_free(err);
    else
        e->cfg.on_open_failed(e->cfg.arg, err);
    e->has_given_up = true;
}

// Logs one line when the driver is unavailable, for each new cause, and when it is available again.
static void log_unavailable_driver(struct exporter *e, const char *problem, enum gpu_driver state)
{
    bool simulate = state == GPU_DRIVER_NO_LIBRARY || state == GPU_DRIVER_NO_DEVICE;
    if (e->away_since && state == e->driver)
        return;
    if (e->samples)
        gs_err("exporter", "%s; GPU metrics are absent until the driver responds", problem);
    else
        gs_warn("exporter", "waiting for the driver: %s%s%s", problem,
                state == GPU_DRIVER_NO_DEVICE ? "; this machine has no NVIDIA GPU" : "",
                simulate ? " (simulated GPUs: --simulate 2xTesla-T4)" : "");
}

static void take_failure(struct exporter *e, struct gs_error *err, enum gpu_driver driver)
{
    bool can_wait = e->cfg.wait_for_driver && gs_error_code(err) != GS_EINVAL;
    e->failures++;
    if (!e->samples && !can_wait) {
        end_with_error(e, err);
        return;
    }
    log_unavailable_driver(e, gs_error_message(err), driver);
    if (!e->away_since)
        e->away_since = gs_mono_ns();
    e->driver = driver;
    free(e->problem);
    e->problem = gs_strdup(gs_error_message(err));
    gs_error_free(err);
    exporter_sample_free(e->sample);
    e->sample = NULL;
}

// Logs GPUs that appear later.
static void log_driver_found(struct exporter *e, const struct gpu_snapshot *g)
{
    if (e->away_since)
        gs_info("exporter", "the driver is available after %" PRId64 " s: version %s, %zu GPUs",
                (gs_mono_ns() - e->away_since) / GS_NS_PER_SEC, g->driver_version, g->n_devices);
    else if (e->samples && g->n_devices != e->n_gpus)
        gs_info("exporter", "the number of GPUs changed from %zu to %zu", e->n_gpus, g->n_devices);
    if (!g->n_devices && (!e->samples || e->away_since || e->n_gpus))
        gs_warn("exporter", "the driver reports no GPU; every sample checks for new ones");
    if (g->n_unopened > e->n_unopened)
        gs_warn("exporter", "%zu of %zu GPUs cannot be opened: %s (%d); the others are sampled",
                g->n_unopened, g->n_unopened + g->n_devices, gpu_nvml_error_name(g->unopened_code),
                g->unopened_code);
    e->n_unopened = g->n_unopened;
    e->n_gpus = g->n_devices;
    e->away_since = 0;
    free(e->problem);
    e->problem = NULL;
}

static void poke_for_new_processes(struct exporter *e)
{
    uint64_t seen =
        e->sample->resolved[EXPORTER_OWNER_POD] + e->sample->resolved[EXPORTER_OWNER_HOST];
    if (e->attribution && seen != e->processes_seen)
        exporter_attribution_request_soon(e->attribution);
    e->processes_seen = seen;
}

// Logs one line per problem that begins or ends; the metric always shows the state. A problem must
// exist in two checks, because the API server and the kubelet do not respond at the same time.
static void log_attribution_problems(struct exporter *e)
{
    const struct exporter_attribution_facts facts = {e->sample, e->attribution, e->cluster,
                                                     e->cfg.podresources_socket};
    unsigned found = e->sample ? exporter_attribution_problems(&facts) : 0;
    unsigned now = found & e->missing_before;
    e->missing_before = found;
    for (enum exporter_attribution_problem r = 0; r < EXPORTER_PROBLEM_COUNT; r++) {
        char text[1024];
        bool is = now >> r & 1, was = e->missing >> r & 1;
        if (is && !was) {
            exporter_attribution_problem_text(&facts, r, text, sizeof(text));
            gs_warn("exporter", "GPUs cannot be attributed to pods: %s", text);
        } else if (was && !is) {
            gs_info("exporter", "attribution problem resolved: %s",
                    exporter_attribution_problem_name(r));
        }
    }
    e->missing = now;
}

static void copy_name(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

// Names that the kubelet's log directories did not provide may come from the API server.
static void name_owners(const struct exporter *e, struct exporter_sample *s)
{
    const char *ns, *pod, *container;
    for (size_t i = 0; e->cluster && i < s->gpus->n_devices; i++) {
        for (size_t k = 0; k < s->gpus->devices[i].n_processes; k++) {
            struct exporter_owner *o = &s->owners[i][k];
            if (o->kind != EXPORTER_OWNER_POD || (o->pod[0] && o->container[0]) ||
                !exporter_cluster_name(e->cluster, o->pod_uid, o->container_id, &ns, &pod,
                                       &container))
                continue;
            copy_name(o->namespace_name, sizeof(o->namespace_name), ns);
            copy_name(o->pod, sizeof(o->pod), pod);
            copy_name(o->container, sizeof(o->container), container);
        }
    }
}

static void accept_sample(struct exporter *e, struct exporter_sample *s, enum gpu_driver driver)
{
    name_owners(e, s);
    log_driver_found(e, s->gpus);
    e->driver = driver;
    exporter_sample_free(e->sample);
    e->sample = s;
    if (e->health)
        exporter_health_update(e->health, s->gpus, s->mono_ns);
    exporter_gpu_events_update(e->gpu_events, s->gpus, s->mono_ns);
    e->opened = true;
    e->simulated = s->gpus->simulated;
    poke_for_new_processes(e);
    if (e->samples++)
        return;
    if (e->cfg.on_ready)
        e->cfg.on_ready(e->cfg.arg, s->gpus);
    exporter_log_unsupported_fields(&(struct exporter_unsupported_fields){
        .counters = e->cfg.names.counters, .devices = e->cfg.names.devices, .gpus = s->gpus});
}

static void on_sample(void *arg, struct exporter_sample *s, struct gs_error *err,
                      enum gpu_driver driver)
{
    struct exporter *e = arg;
    e->dirty = true;
    if (err)
        take_failure(e, err, driver);
    else
        accept_sample(e, s, driver);
    // The client that requested the last page will request this one. Render it in advance.
    if (e->requested)
        write_page(e);
    e->requested = false;
}

// Requests from the API server only what the kubelet's reply lacks.
static void request_cluster_objects(struct exporter *e)
{
    const struct exporter_device_map *map = exporter_attribution_map(e->attribution);
    if (!e->cluster)
        return;
    bool names = e->missing_before >> EXPORTER_PROBLEM_NAMES & 1;
    bool pods = e->cfg.pod_labels || e->cfg.pod_uid || names;
    exporter_cluster_require(e->cluster, pods || (map && exporter_device_map_gaps(map)->wants_pods),
                             map && exporter_device_map_gaps(map)->wants_slices);
}

static void on_map_change(void *arg)
{
    struct exporter *e = arg;
    e->map_version++;
    e->dirty = true;
    request_cluster_objects(e);
}

static void on_cluster_change(void *arg)
{
    struct exporter *e = arg;
    e->dirty = true;
    exporter_attribution_refresh(e->attribution);
}

// In a container, the driver's files often date from its start. A new container may have those of
// the current driver.
static void end_waiting(struct exporter *e)
{
    int64_t limit = e->cfg.driver_wait_limit_ns;
    if (!limit || !e->away_since || e->driver == GPU_DRIVER_NO_DEVICE ||
        gs_mono_ns() - e->away_since < limit)
        return;
    end_with_error(e, gs_error_new(GS_EUNAVAIL, "no driver for %" PRId64 " s: %s",
                                   limit / GS_NS_PER_SEC, e->problem));
}

static void on_watch_timer(void *arg)
{
    struct exporter *e = arg;
    bool stuck = is_stuck(e, gs_mono_ns());
    request_cluster_objects(e);
    log_attribution_problems(e);
    exporter_sources_check(&e->sources);
    check_dcgm(e);
    end_waiting(e);
    if (stuck && !e->was_stuck)
        gs_err("exporter",
               "a driver call has not returned for %" PRId64
               " s; GPU metrics are left out until it does",
               e->cfg.stuck_after_ns / GS_NS_PER_SEC);
    else if (!stuck && e->was_stuck)
        gs_info("exporter", "the driver responds again");
    e->was_stuck = stuck;
}

// --- lifecycle ---

static struct gs_error *start_attribution(struct exporter *e, uv_loop_t *loop)
{
    if (!e->cfg.podresources_socket)
        return NULL;
    struct exporter_cluster_config cluster = {
        .connect = e->cfg.connect,
        .connect_arg = e->cfg.arg,
        .node_name = e->cfg.node_name,
        .labels = e->cfg.pod_labels,
        .uid = e->cfg.pod_uid,
        .allowlist = e->cfg.label_allowlist,
        .on_change = on_cluster_change,
        .arg = e,
    };
    e->cluster = exporter_cluster_new(loop, &cluster);
    e->cfg.names.pod = exporter_cluster_pod;
    e->cfg.names.pod_version = exporter_cluster_pod_version;
    e->cfg.names.pod_arg = e->cluster;
    struct exporter_attribution_config cfg = {
        .socket = e->cfg.podresources_socket,
        .interval_ns = e->cfg.podresources_interval_ns,
        .extra_resources = e->cfg.extra_resources,
        .n_extra_resources = e->cfg.n_extra_resources,
        .sources = exporter_cluster_sources(e->cluster),
        .on_change = on_map_change,
        .arg = e,
    };
    return exporter_attribution_new(loop, &cfg, &e->attribution);
}

static struct gpu_backend_config backend_config(const struct exporter *e, bool *wanted,
                                                int64_t *every_ns)
{
    struct gpu_backend_config cfg = e->cfg.backend;
    if (e->cfg.names.counters) {
        exporter_counters_wanted(e->cfg.names.counters, wanted);
        exporter_counters_intervals(e->cfg.names.counters, every_ns);
        cfg.wanted = wanted;
        cfg.every_ns = every_ns;
    }
    cfg.hung_after_ns = e->cfg.stuck_after_ns;
    cfg.xid_window_ns = (int64_t)e->cfg.names.xid_window_ms * GS_NS_PER_MS;
    cfg.clock_window_ns = (int64_t)e->cfg.names.clock_window_ms * GS_NS_PER_MS;
    return cfg;
}

// The fields that only DCGM has.
static void want_dcgm(struct exporter *e, const struct exporter_counters *counters)
{
    uint16_t ids[DCGM_SOURCE_MAX_FIELDS];
    size_t n = exporter_counters_dcgm_ids(counters, ids, GS_ARRAY_LEN(ids));
    exporter_sampler_want_dcgm(e->sampler, ids, n);
}

static struct gs_error *start_sampler(struct exporter *e, uv_loop_t *loop)
{
    bool wanted[GPU_F_COUNT];
    int64_t every_ns[GPU_F_COUNT];
    struct exporter_sampler_config cfg = {
        .backend = backend_config(e, wanted, every_ns),
        .interval_ns = e->cfg.interval_ns,
        .dcgm = e->cfg.dcgm,
        .owners.proc = e->cfg.proc,
        .on_sample = on_sample,
        .arg = e,
    };
    struct gs_error *err = exporter_sampler_start(loop, &cfg, &e->sampler);
    if (!err && e->cfg.names.counters)
        want_dcgm(e, e->cfg.names.counters);
    return err;
}

// Keeps the state if the families still need it.
static void set_health(struct exporter *e)
{
    const struct exporter_counters *c = e->cfg.names.counters;
    bool wanted = c && exporter_counters_have(c, EXPORTER_COUNTER_EXP_HEALTH);
    if (wanted && !e->health)
        e->health = exporter_health_new();
    if (!wanted) {
        exporter_health_free(e->health);
        e->health = NULL;
    }
}

struct gs_error *exporter_start(uv_loop_t *loop, const struct exporter_config *cfg,
                                struct exporter **ret)
{
    struct exporter *e = gs_alloc(sizeof(*e));
    e->cfg = *cfg;
    e->started_ms = gs_unix_ms();
    if (!e->cfg.stuck_after_ns)
        e->cfg.stuck_after_ns = STUCK_DEFAULT_NS;
    e->sources.hpc_dir = e->cfg.names.hpc_dir;
    e->sources.proc = e->cfg.proc;
    exporter_sources_check(&e->sources);
    set_health(e);
    e->gpu_events = exporter_gpu_events_new();
    e->renderer = exporter_renderer_new(&e->cfg.names);
    struct gs_buf empty = {0};
    e->page = http_bytes_new(&empty);
    e->watch = gs_timer_new(loop, e);
    gs_timer_repeat(e->watch, on_watch_timer, WATCH_MS, WATCH_MS);
    // The sampler starts first, because the pages show its state.
    struct gs_error *err = start_sampler(e, loop);
    if (!err)
        err = start_attribution(e, loop);
    if (err) {
        exporter_stop(e);
        return err;
    }
    *ret = e;
    return NULL;
}

void exporter_set_counters(struct exporter *e, const struct exporter_counters *counters)
{
    bool wanted[GPU_F_COUNT];
    int64_t every_ns[GPU_F_COUNT];
    e->cfg.names.counters = counters;
    exporter_renderer_free(e->renderer);
    e->renderer = exporter_renderer_new(&e->cfg.names);
    set_health(e);
    e->dirty = true;
    exporter_counters_wanted(counters, wanted);
    exporter_counters_intervals(counters, every_ns);
    exporter_sampler_want(e->sampler, wanted, every_ns);
    want_dcgm(e, counters);
}

void exporter_set_source(struct exporter *e, enum exporter_source_kind k, const char *problem)
{
    exporter_sources_set(&e->sources, k, problem);
}

bool exporter_stop(struct exporter *e)
{
    if (!e)
        return true;
    exporter_attribution_free(e->attribution);
    exporter_cluster_free(e->cluster);
    gs_timer_free(e->watch);
    bool ended = exporter_sampler_stop(e->sampler);
    exporter_sample_free(e->sample);
    exporter_renderer_free(e->renderer);
    exporter_health_free(e->health);
    exporter_gpu_events_free(e->gpu_events);
    http_bytes_unref(e->page);
    free(e->problem);
    free(e);
    return ended;
}
