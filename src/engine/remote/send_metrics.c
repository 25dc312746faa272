// SPDX-License-Identifier: Apache-2.0
// Metrics of the senders, with the names of Prometheus where it has them.
#include "base/mem.h"
#include "engine/remote/send_private.h"
#include "metrics/write.h"

// Writes a sample. reason, version: values of labels; NULL: no such label.
static void add_sample(const struct remote_write *w, struct gs_buf *out, const char *name,
                       enum metrics_type type, const char *help, const char *reason,
                       const char *version, double value)
{
    const struct metrics_label all[] = {
        {GS_SLICE("reason"), gs_slice_of(reason)},
        {GS_SLICE("remote_name"), gs_slice_of(w->cfg->name ? w->cfg->name : "")},
        {GS_SLICE("url"), gs_slice_of(w->cfg->url)},
        {GS_SLICE("version"), gs_slice_of(version)},
    };
    const struct metrics_label *labels = reason ? all : all + 1;
    GS_AUTO_FREE char *type_line = gs_format("# TYPE %s ", name);
    if (!out->data || !strstr(out->data, type_line)) // another remote may have written it
        metrics_write_family(out, name, type, help);
    metrics_write_sample(out, name, labels, GS_ARRAY_LEN(all) - !reason - !version, value);
}

static void receiver_metric(const struct remote_write *w, struct gs_buf *out, const char *name,
                            enum metrics_type type, const char *help, const char *reason,
                            double value)
{
    add_sample(w, out, name, type, help, reason, NULL, value);
}

static void metric(const struct remote_write *w, struct gs_buf *out, const char *name,
                   enum metrics_type type, const char *help, double value)
{
    receiver_metric(w, out, name, type, help, NULL, value);
}

static void write_refusals(const struct remote_write *w, struct gs_buf *out)
{
    static const char *const reasons[] = {
        [REMOTE_BAD_REQUEST] = "bad_request", [REMOTE_UNAUTHORIZED] = "unauthorized",
        [REMOTE_NOT_FOUND] = "not_found",     [REMOTE_TOO_LARGE] = "too_large",
        [REMOTE_UNSUPPORTED] = "unsupported", [REMOTE_TOO_MANY_REQUESTS] = "too_many_requests",
        [REMOTE_NOT_WRITTEN] = "not_written", [REMOTE_OTHER_STATUS] = "other_status",
    };
    for (size_t i = 0; i < REMOTE_N_REFUSALS; i++)
        receiver_metric(w, out, "gpuscale_remote_write_refused_samples_total", METRICS_COUNTER,
                        "Samples that the receiver refused, by the reason.", reasons[i],
                        (double)w->refused[i]);
}

static void write_version(const struct remote_write *w, struct gs_buf *out)
{
    bool v2 = w->cfg->v2 && w->negotiation == REMOTE_AS_CONFIGURED;
    add_sample(w, out, "gpuscale_remote_write_protocol_info", METRICS_GAUGE,
               "The version of remote write in use: that of the configuration, or 1.0 if the "
               "receiver does not support 2.0.",
               NULL, v2 ? "2.0" : "1.0", 1);
}

void remote_write_metrics(const struct remote_write *w, struct gs_buf *out)
{
    static const char dropped[] = "prometheus_remote_storage_samples_dropped_total";
    static const char dropped_help[] =
        "Samples dropped by write_relabel_configs, or older than sample_age_limit.";
    metric(w, out, "prometheus_remote_storage_samples_total", METRICS_COUNTER,
           "Samples that the receiver accepted.", (double)w->n_samples.sent);
    metric(w, out, "prometheus_remote_storage_bytes_total", METRICS_COUNTER,
           "Bytes of compressed samples that the receiver accepted.", (double)w->bytes_sent);
    metric(w, out, "prometheus_remote_storage_samples_failed_total", METRICS_COUNTER,
           "Samples that the receiver rejected.", (double)w->n_samples.failed);
    write_refusals(w, out);
    write_version(w, out);
    metric(w, out, "prometheus_remote_storage_samples_retried_total", METRICS_COUNTER,
           "Samples in requests that were retried.", (double)w->n_samples.retried);
    receiver_metric(w, out, dropped, METRICS_COUNTER, dropped_help, "dropped_series",
                    (double)w->n_samples.dropped);
    receiver_metric(w, out, dropped, METRICS_COUNTER, dropped_help, "too_old",
                    (double)w->n_samples.old);
    static const char old[] = "prometheus_remote_storage_exemplars_dropped_total";
    static const char old_help[] = "Exemplars dropped by write_relabel_configs, or older than "
                                   "sample_age_limit or the store.";
    metric(w, out, "prometheus_remote_storage_exemplars_total", METRICS_COUNTER,
           "Exemplars that the receiver accepted.", (double)w->n_exemplars.sent);
    metric(w, out, "prometheus_remote_storage_exemplars_failed_total", METRICS_COUNTER,
           "Exemplars that the receiver rejected.", (double)w->n_exemplars.failed);
    metric(w, out, "prometheus_remote_storage_exemplars_retried_total", METRICS_COUNTER,
           "Exemplars in requests that were retried.", (double)w->n_exemplars.retried);
    receiver_metric(w, out, old, METRICS_COUNTER, old_help, "dropped_series",
                    (double)w->n_exemplars.dropped);
    receiver_metric(w, out, old, METRICS_COUNTER, old_help, "too_old", (double)w->n_exemplars.old);
    metric(w, out, "prometheus_remote_storage_queue_highest_sent_timestamp_seconds", METRICS_GAUGE,
           "Time of the newest sample that the receiver accepted.",
           (double)w->newest_sent_ms / 1000);
}
