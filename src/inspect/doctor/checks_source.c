// SPDX-License-Identifier: Apache-2.0
// Checks of the server that is queried: whether it answers late, with a part of its series, or with
// the series of each replica of a Prometheus.
#include "base/mem.h"
#include "doctor/doctor_private.h"

#include <string.h>

#define MAX_AGE_S   90
#define MIN_DELAY_S 25 // the usual latency offset of 30 s, without the age of a sample
#define MAX_SERIES  5000
#define BUFFER_S    4

// --- delay ---

static double value_of(const json_t *result)
{
    return doctor_sample_value(json_array_get(codec_json_get(result, "result", NULL), 0));
}

// VictoriaMetrics reports this version of Prometheus, and nothing else.
static bool is_victoria_metrics(const json_t *delay)
{
    return gs_streq(codec_json_str(delay, "version", NULL), "2.24.0") &&
           !codec_json_str(delay, "revision", NULL);
}

// VictoriaMetrics keeps received samples in a buffer that queries do not see. It checks every 2 s
// whether the oldest one is 2 s old.
static void report_buffer(struct doctor_examination *e, double age, double interval)
{
    GS_AUTO_FREE char *subject =
        gs_format("source %s", doctor_text(codec_json_str(e->prometheus, "address", NULL)));
    doctor_add(e,
               (struct doctor_finding){
                   subject,
                   gs_format("The values of this source are up to %.2g s old, although a sample "
                             "comes each %.2g s.",
                             interval + BUFFER_S, interval),
                   gs_format("the server is VictoriaMetrics, which shows received samples up to "
                             "%d s later; the newest one is %.1f s old now",
                             BUFFER_S, age),
                   gs_strdup("No flag of VictoriaMetrics changes this. If autoscalers need newer "
                             "values, let the adapter use the engine that sends the samples: "
                             "--prometheus-url, or `sources` for some rules")});
}

// The source evaluates queries at an earlier time, although samples are frequent.
void doctor_check_source_delay(struct doctor_examination *e)
{
    const json_t *delay = json_object_get(e->prometheus, "delay");
    double newest = value_of(json_object_get(delay, "newest"));
    double uncached = value_of(json_object_get(delay, "newestUncached"));
    double interval = 120 / value_of(json_object_get(delay, "perTwoMinutes"));
    double age = (double)e->now_ms / 1000 - newest;
    bool holds_back = uncached - newest >= MIN_DELAY_S / 2.0;
    bool vm = is_victoria_metrics(delay) || holds_back;
    if (vm && age < MIN_DELAY_S && interval < BUFFER_S / 2.0)
        report_buffer(e, age > 0 ? age : 0, interval);
    if (!(age >= MIN_DELAY_S) || age > MAX_AGE_S || !(age > 2 * interval + 5))
        return;
    const char *address = doctor_text(codec_json_str(e->prometheus, "address", NULL));
    GS_AUTO_FREE char *subject = gs_format("source %s", address);
    doctor_add(
        e,
        (struct doctor_finding){
            subject,
            gs_format("The values of this source are %.0f s old, although a sample comes each %.0f "
                      "s.",
                      age, interval),
            gs_format("the newest GPU sample that a query sees is %.0f s old%s%s", age,
                      holds_back ? "; with nocache=1 a newer one is seen" : "",
                      vm ? "; the server is VictoriaMetrics" : ""),
            gs_strdup(vm ? "Start VictoriaMetrics (vmselect, vmsingle) with "
                           "-search.latencyOffset=1s; its default is 30s\n"
                           "or add the parameter to the adapter's URL: "
                           "--prometheus-url=http://…/?nocache=1"
                         : "Compare with the server's settings for late samples: a query offset or "
                           "latency offset, the interval of remote write, replication")});
}

// --- parts of the series ---

// Thanos and Mimir warn of stores that do not answer. A cluster of VictoriaMetrics sets isPartial.
void doctor_check_source_partial(struct doctor_examination *e)
{
    const json_t *partial = json_object_get(e->prometheus, "partial");
    const json_t *first = json_array_get(json_object_get(partial, "warnings"), 0);
    bool vm = json_is_true(json_object_get(partial, "isPartial"));
    if (!first && !vm)
        return;
    GS_AUTO_FREE char *subject =
        gs_format("source %s", doctor_text(codec_json_str(e->prometheus, "address", NULL)));
    doctor_add(e, (struct doctor_finding){
                      subject,
                      gs_strdup("The source answers without the series of some of its stores."),
                      vm ? gs_strdup("a query of GPU series returns isPartial: true")
                         : gs_format("a query of GPU series returns the warning: %.300s",
                                     doctor_text(json_string_value(first))),
                      gs_strdup(vm ? "Restore the vmstorage nodes that do not answer\n"
                                     "and add a parameter to the adapter's URL: "
                                     "--prometheus-url=http://…/?deny_partial_response=1"
                                   : "Restore the stores that do not answer\n"
                                     "and add a parameter to the adapter's URL (Thanos): "
                                     "--prometheus-url=http://…/?partial_response=false")});
}

// --- replicas ---

// Sets *ret_label to a label of a replica that b lacks or has with another value. False: another
// label differs.
static bool differs_in_replica(const json_t *a, const json_t *b, const char **ret_label)
{
    const char *label;
    json_t *value;

    json_object_foreach ((json_t *)a, label, value) {
        if (json_equal(value, json_object_get(b, label)))
            continue;
        if (!strstr(label, "replica"))
            return false;
        *ret_label = label;
    }
    return true;
}

// The label of a replica that is the only difference between two series; NULL: there is another
// difference, or none.
static const char *replica_label(const json_t *a, const json_t *b)
{
    const json_t *of_a = json_object_get(a, "metric"), *of_b = json_object_get(b, "metric");
    const char *label = NULL;
    return differs_in_replica(of_a, of_b, &label) && differs_in_replica(of_b, of_a, &label) ? label
                                                                                            : NULL;
}

static void report_replicas(struct doctor_examination *e, const char *uuid, const char *label,
                            const json_t *a, const json_t *b)
{
    GS_AUTO_FREE char *subject = gs_format("GPU %s", uuid);
    doctor_add(e, (struct doctor_finding){
                      subject, gs_strdup("The source has the series of two replicas."),
                      gs_format("%s with %s=\"%s\" and with %s=\"%s\"",
                                doctor_text(doctor_sample_label(a, "__name__")), label,
                                doctor_text(doctor_sample_label(a, label)), label,
                                doctor_text(doctor_sample_label(b, label))),
                      gs_format("Thanos: start `thanos query` with --query.replica-label=%s\n"
                                "VictoriaMetrics: drop the label in remote_write "
                                "(write_relabel_configs: [{action: labeldrop, regex: %s}]) and "
                                "start it with -dedup.minScrapeInterval=1s (the scrape interval)\n"
                                "Mimir: enable the HA tracker for this label",
                                label, label)});
}

void doctor_check_source_replicas(struct doctor_examination *e)
{
    const json_t *all = doctor_query(e, "gpus"), *a;
    size_t i, n = json_array_size(all) < MAX_SERIES ? json_array_size(all) : MAX_SERIES;

    json_array_foreach (all, i, a) {
        const char *uuid = doctor_sample_label(a, "UUID");
        for (size_t k = i + 1; uuid && i < n && k < n; k++) {
            const json_t *b = json_array_get(all, k);
            const char *label =
                gs_streq(uuid, doctor_sample_label(b, "UUID")) ? replica_label(a, b) : NULL;
            if (label) {
                report_replicas(e, uuid, label, a, b);
                return;
            }
        }
    }
}
