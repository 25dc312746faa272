// SPDX-License-Identifier: Apache-2.0
// Metrics about the exporter itself, and the HTML page.
#include "exporter/render.h"

#include "base/clock.h"
#include "codec/encoding.h"
#include "metrics/process.h"
#include "metrics/write.h"

#include <stdio.h>

static void family(struct gs_buf *out, const char *name, enum metrics_type type, const char *help)
{
    metrics_write_family(out, name, type, help);
}

static void single(struct gs_buf *out, const char *name, enum metrics_type type, const char *help,
                   double value)
{
    family(out, name, type, help);
    metrics_write_sample(out, name, NULL, 0, value);
}

static struct metrics_label label(const char *name, const char *value)
{
    return (struct metrics_label){gs_slice_of(name), gs_slice_of(value)};
}

static void render_build(const struct exporter_render_self *self, struct gs_buf *out)
{
    static const char name[] = "gpuscale_exporter_build_info";
    struct metrics_label labels[] = {
        label("version", GPUSCALE_VERSION),
        label("simulated", self->simulated ? "true" : "false"),
    };
    family(out, name, METRICS_GAUGE, "Version, and whether the GPUs are simulated.");
    metrics_write_sample(out, name, labels, self->has_opened ? 2 : 1, 1);
    if (self->has_opened)
        single(out, "gpuscale_exporter_simulated", METRICS_GAUGE,
               "1 when the GPUs of this page are simulated.", self->simulated);
}

static void render_sampling(const struct exporter_render_self *self, struct gs_buf *out)
{
    single(out, "gpuscale_exporter_samples_total", METRICS_COUNTER, "Samples that succeeded.",
           (double)self->samples);
    single(out, "gpuscale_exporter_sample_failures_total", METRICS_COUNTER,
           "Samples that failed because NVML as a whole failed.", (double)self->failures);
    single(out, "gpuscale_exporter_sampler_stuck", METRICS_GAUGE,
           "1 while the driver does not return from a call.", self->stuck);
    if (!self->sample)
        return;
    single(out, "gpuscale_exporter_sample_age_seconds", METRICS_GAUGE,
           "Time since the last sample ended.",
           (double)(self->now_ns - self->sample->mono_ns) / (double)GS_NS_PER_SEC);
    single(out, "gpuscale_exporter_sample_duration_seconds", METRICS_GAUGE,
           "Duration of the last sample.", (double)self->sample->gpus->duration_us / 1e6);
}

// As in the label of the metric; NULL: none.
static const char *driver_problem(const struct exporter_render_self *self)
{
    if (self->stuck)
        return "no_answer";
    return self->driver != GPU_DRIVER_UP ? gpu_driver_name(self->driver) : NULL;
}

static void render_driver(const struct exporter_render_self *self, struct gs_buf *out)
{
    static const char name[] = "gpuscale_exporter_driver_problem";
    const char *problem = driver_problem(self);
    single(out, "gpuscale_exporter_driver_up", METRICS_GAUGE,
           "1 while the driver provides samples.", self->fresh);
    family(out, name, METRICS_GAUGE,
           "1 for the reason why the driver provides no samples, 0 for the others.");
    for (enum gpu_driver d = GPU_DRIVER_UP; d < GPU_DRIVER_STATES; d++) {
        const char *reason = d == GPU_DRIVER_UP ? "no_answer" : gpu_driver_name(d);
        struct metrics_label l = label("reason", reason);
        metrics_write_sample(out, name, &l, 1, gs_streq(reason, problem));
    }
}

static void render_state(const struct gpu_snapshot *g, const char *name, const char *help,
                         bool (*state)(const struct gpu_device *), struct gs_buf *out)
{
    family(out, name, METRICS_GAUGE, help);
    for (size_t i = 0; i < g->n_devices; i++) {
        char index[16];
        snprintf(index, sizeof(index), "%u", g->devices[i].index);
        struct metrics_label labels[] = {label("gpu", index), label("UUID", g->devices[i].uuid)};
        metrics_write_sample(out, name, labels, 2, state(&g->devices[i]));
    }
}

static bool is_lost(const struct gpu_device *d)
{
    return d->lost;
}

static bool is_hung(const struct gpu_device *d)
{
    return d->hung;
}

// How many fields of each GPU are absent, by reason.
static void render_absent(const struct gpu_snapshot *g, struct gs_buf *out)
{
    static const char name[] = "gpuscale_exporter_absent_fields";
    family(out, name, METRICS_GAUGE,
           "Fields that the GPU does not provide, by reason; the page / lists them.");
    for (size_t i = 0; i < g->n_devices; i++) {
        char index[16];
        snprintf(index, sizeof(index), "%u", g->devices[i].index);
        unsigned n[GPU_HUNG + 1] = {0};
        for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
            n[g->devices[i].fields[f].validity]++;
        n[g->devices[i].process_util]++;
        for (enum gpu_validity v = GPU_NOT_SUPPORTED; v <= GPU_HUNG; v++) {
            struct metrics_label labels[] = {label("gpu", index), label("UUID", g->devices[i].uuid),
                                             label("reason", gpu_validity_text(v))};
            if (n[v])
                metrics_write_sample(out, name, labels, 3, n[v]);
        }
    }
}

static void render_calls(const struct gpu_snapshot *g, struct gs_buf *out)
{
    static const char count[] = "gpuscale_exporter_nvml_calls_total";
    static const char seconds[] = "gpuscale_exporter_nvml_call_seconds_total";
    family(out, count, METRICS_COUNTER, "NVML calls.");
    for (size_t i = 0; i < g->n_calls; i++) {
        struct metrics_label l = label("call", g->calls[i].call);
        if (g->calls[i].count)
            metrics_write_sample(out, count, &l, 1, (double)g->calls[i].count);
    }
    family(out, seconds, METRICS_COUNTER, "Duration of NVML calls.");
    for (size_t i = 0; i < g->n_calls; i++) {
        struct metrics_label l = label("call", g->calls[i].call);
        if (g->calls[i].count)
            metrics_write_sample(out, seconds, &l, 1, (double)g->calls[i].ns / 1e9);
    }
}

static void render_errors(const struct gpu_snapshot *g, struct gs_buf *out)
{
    static const char name[] = "gpuscale_exporter_nvml_errors_total";
    if (!g->n_errors)
        return;
    family(out, name, METRICS_COUNTER, "NVML calls that failed, by call and return code.");
    for (size_t i = 0; i < g->n_errors; i++) {
        const struct gpu_call_errors *e = &g->errors[i];
        char code[16];
        snprintf(code, sizeof(code), "%d", e->code);
        struct metrics_label labels[] = {
            label("call", e->call),
            label("code", code),
            label("error", gpu_nvml_error_name(e->code)),
        };
        metrics_write_sample(out, name, labels, 3, (double)e->count);
    }
}

static void render_attributions(const struct exporter_sample *s, struct gs_buf *out)
{
    static const char name[] = "gpuscale_exporter_attributions_total";
    family(out, name, METRICS_COUNTER, "Processes looked up in /proc, by result.");
    for (int k = 0; k < EXPORTER_OWNER_KINDS; k++) {
        struct metrics_label l = label("result", exporter_owner_kind_name(k));
        metrics_write_sample(out, name, &l, 1, (double)s->resolved[k]);
    }
}

static void render_podresources(const struct exporter_render_self *self, struct gs_buf *out)
{
    const struct exporter_attribution_status *a = self->attribution;
    single(out, "gpuscale_exporter_podresources_up", METRICS_GAUGE,
           "1 if the last PodResources call succeeded.", a->up);
    static const char name[] = "gpuscale_exporter_podresources_calls_total";
    family(out, name, METRICS_COUNTER, "PodResources List calls, by result.");
    struct metrics_label ok = label("result", "ok"), failed = label("result", "failed");
    metrics_write_sample(out, name, &ok, 1, (double)a->ok);
    metrics_write_sample(out, name, &failed, 1, (double)a->failed);
    if (a->last_ok_ns)
        single(out, "gpuscale_exporter_podresources_age_seconds", METRICS_GAUGE,
               "Age of the device-to-container map.",
               (double)(self->now_ns - a->last_ok_ns) / (double)GS_NS_PER_SEC);
}

static void render_missing(const struct exporter_render_self *self, struct gs_buf *out)
{
    static const char name[] = "gpuscale_exporter_pods_missing";
    family(out, name, METRICS_GAUGE,
           "1 for each reason why pods cannot be named, 0 for the others.");
    for (enum exporter_attribution_problem r = 0; r < EXPORTER_PROBLEM_COUNT; r++) {
        struct metrics_label l = label("reason", exporter_attribution_problem_name(r));
        metrics_write_sample(out, name, &l, 1, self->missing >> r & 1);
    }
}

void exporter_render_self(const struct exporter_render_self *self, struct gs_buf *out)
{
    render_build(self, out);
    render_driver(self, out);
    render_sampling(self, out);
    if (self->sample) {
        single(out, "gpuscale_exporter_gpus_not_opened", METRICS_GAUGE,
               "GPUs that the driver counts but the exporter cannot open.",
               (double)self->sample->gpus->n_unopened);
        render_state(self->sample->gpus, "gpuscale_exporter_gpu_lost",
                     "1 when the driver has lost the GPU.", is_lost, out);
        render_state(self->sample->gpus, "gpuscale_exporter_gpu_hung",
                     "1 when a driver call for the GPU does not return.", is_hung, out);
        render_absent(self->sample->gpus, out);
        render_calls(self->sample->gpus, out);
        render_errors(self->sample->gpus, out);
        render_attributions(self->sample, out);
    }
    if (self->attribution)
        render_podresources(self, out);
    render_missing(self, out);
    if (self->sources)
        exporter_sources_render(self->sources, out);
    single(out, "gpuscale_exporter_rows_left_out", METRICS_GAUGE,
           "Ignored rows of the counters file.", (double)self->rows_left_out);
}

void exporter_render_process(int64_t started_ms, uint64_t pages, uint64_t refused,
                             struct gs_buf *out)
{
    static const char name[] = "promhttp_metric_handler_requests_total";
    const struct metrics_label ok = label("code", "200"), unavailable = label("code", "503");
    metrics_write_process(out, started_ms);
    single(out, "promhttp_metric_handler_requests_in_flight", METRICS_GAUGE,
           "Current number of scrapes being served.", 1);
    family(out, name, METRICS_COUNTER, "Total number of scrapes by HTTP status code.");
    metrics_write_sample(out, name, &ok, 1, (double)pages);
    metrics_write_sample(out, name, &unavailable, 1, (double)refused);
}

// --- page ---

static void index_device(const struct gpu_device *d, struct gs_buf *out)
{
    gs_buf_addf(out, "<h2>GPU %u: ", d->index);
    codec_html_escape(gs_slice_of(d->name), out);
    gs_buf_add_str(out, "</h2>\n<p>");
    codec_html_escape(gs_slice_of(d->uuid), out);
    gs_buf_add_str(out, d->lost   ? " is lost.</p>\n"
                        : d->hung ? " does not respond.</p>\n"
                                  : "</p>\n");
    if (d->lost || d->hung)
        return;
    gs_buf_add_str(out, "<ul>\n");
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        if (d->fields[f].validity != GPU_VALID && d->fields[f].validity != GPU_UNKNOWN)
            gs_buf_addf(out, "<li>%s: %s</li>\n", gpu_field_name(f),
                        gpu_validity_text(d->fields[f].validity));
    if (d->process_util != GPU_VALID)
        gs_buf_addf(out, "<li>DCGM_CUSTOM_PROCESS_SM_UTIL: %s</li>\n",
                    gpu_validity_text(d->process_util));
    gs_buf_add_str(out, "</ul>\n");
}

void exporter_render_index(const struct exporter_render_self *self, struct gs_buf *out)
{
    gs_buf_add_str(out,
                   "<!DOCTYPE html>\n<html lang=\"en\"><head><title>GPU Exporter</title></head>"
                   "<body>\n<h1>GPU Exporter</h1>\n");
    if (self->simulated)
        gs_buf_add_str(out,
                       "<p><strong>SIMULATED: no value here comes from a real GPU.</strong></p>\n");
    gs_buf_add_str(out,
                   "<p><a href=\"./metrics\">Metrics</a> <a href=\"./health\">Health</a></p>\n");
    if (self->stuck)
        gs_buf_add_str(out, "<p>The driver does not return from a call.</p>\n");
    if (self->problem) {
        gs_buf_add_str(out, "<p>No driver: ");
        codec_html_escape(gs_slice_of(self->problem), out);
        gs_buf_add_str(out, "</p>\n");
    }
    if (self->attribution && !self->attribution->up && self->attribution->problem[0]) {
        gs_buf_add_str(out, "<p>The PodResources API is unavailable: ");
        codec_html_escape(gs_slice_of(self->attribution->problem), out);
        gs_buf_add_str(out, "</p>\n");
    }
    if (self->sample) {
        gs_buf_add_str(out, "<p>Fields that are absent, and why:</p>\n");
        for (size_t i = 0; i < self->sample->gpus->n_devices; i++)
            index_device(&self->sample->gpus->devices[i], out);
    }
    gs_buf_add_str(out, "</body></html>\n");
}
