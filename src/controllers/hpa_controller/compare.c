// SPDX-License-Identifier: Apache-2.0
// One round of a comparison of two adapters: autoscaler after autoscaler, its scale, then its
// metrics from both at once. Each step is a callback.
#include "hpa_controller/compare.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "hpa_controller/controller_private.h"
#include "kube/object.h"

#include <stdio.h>
#include <string.h>

#define REFRESH_MS 600000 // of the version of the custom metrics API
#define TRIES      3
#define MAX_ROWS   20000 // metrics

enum result { EQUAL, DIFFERENT, ONLY_BEFORE, ONLY_AFTER, NEITHER, RESULTS };

struct row {
    char *ns, *name, *type, *metric;
    uint64_t counts[RESULTS];
    char *difference; // the last one; NULL: none
};

struct hpa_compare {
    struct hpa_compare_config cfg;
    uv_loop_t *loop;
    struct hpa_resources *resources;
    struct hpa_metrics_source *sources[2];
    struct gs_timer *timer; // of the next try
    struct row *rows;
    size_t n_rows, cap_rows;
    struct gs_hmap *by_key; // to the index of the row plus 1

    // Of a round.
    void (*done)(void *arg, struct gs_error *err);
    void *arg;
    struct kube_request *list;
    json_t *items;
    size_t item;
    // Of an autoscaler.
    bool has_spec;
    struct hpa_spec spec;
    struct hpa_scale *scale;
    struct hpa_fetch *fetches[2];
    int tries;
};

static void next_item(struct hpa_compare *c);

// --- rows ---

static struct row *row_of(struct hpa_compare *c, const struct hpa_metric_spec *m, size_t i)
{
    GS_AUTO_FREE char *key =
        gs_format("%s/%s/%zu/%s/%s", c->spec.ns, c->spec.name, i, m->type_text, m->name);
    uintptr_t known = (uintptr_t)gs_hmap_get_str(c->by_key, key);
    if (known)
        return &c->rows[known - 1];
    if (c->n_rows == MAX_ROWS)
        return NULL;
    gs_grow(&c->rows, &c->cap_rows, c->n_rows, sizeof(*c->rows));
    c->rows[c->n_rows++] = (struct row){.ns = gs_strdup(c->spec.ns),
                                        .name = gs_strdup(c->spec.name),
                                        .type = gs_strdup(m->type_text),
                                        .metric = gs_strdup(m->name)};
    gs_hmap_put_str(c->by_key, key, (void *)(uintptr_t)c->n_rows);
    return &c->rows[c->n_rows - 1];
}

static void row_finish(struct row *r)
{
    free(r->ns);
    free(r->name);
    free(r->type);
    free(r->metric);
    free(r->difference);
}

// --- values ---

static const struct hpa_sample *sample_of(const struct hpa_metric_observation *o, const char *pod)
{
    for (size_t i = 0; i < o->n_samples; i++)
        if (gs_streq(o->samples[i].pod, pod))
            return &o->samples[i];
    return NULL;
}

static int64_t sum_of(const struct hpa_metric_observation *o)
{
    int64_t sum = 0;
    for (size_t i = 0; i < o->n_samples; i++)
        sum = gs_add_clamped(sum, o->samples[i].value);
    return sum;
}

static double number(int64_t milli)
{
    return (double)milli / 1000;
}

// How the values of pods differ; NULL: they are equal. Caller frees.
static char *differ_by_pod(const struct hpa_metric_observation *a,
                           const struct hpa_metric_observation *b)
{
    for (size_t i = 0; i < a->n_samples; i++) {
        const struct hpa_sample *x = &a->samples[i], *y = sample_of(b, x->pod);
        if (!y)
            return gs_format("%s: %g and no value", x->pod, number(x->value));
        if (x->value != y->value)
            return gs_format("%s: %g and %g", x->pod, number(x->value), number(y->value));
    }
    for (size_t i = 0; i < b->n_samples; i++)
        if (!sample_of(a, b->samples[i].pod))
            return gs_format("%s: no value and %g", b->samples[i].pod, number(b->samples[i].value));
    return NULL;
}

static char *differ(const struct hpa_metric_spec *m, const struct hpa_metric_observation *a,
                    const struct hpa_metric_observation *b)
{
    if (m->type == HPA_METRIC_PODS)
        return differ_by_pod(a, b);
    int64_t x = sum_of(a), y = sum_of(b);
    return x == y ? NULL : gs_format("%g and %g", number(x), number(y));
}

static bool has_value(const struct hpa_metric_observation *o)
{
    return !o->error && o->n_samples;
}

// *ret_text: NULL, or how they differ; the caller frees it.
static enum result compare_metric(const struct hpa_metric_spec *m,
                                  const struct hpa_metric_observation *a,
                                  const struct hpa_metric_observation *b, char **ret_text)
{
    const char *none = "no value";
    *ret_text = NULL;
    if (!has_value(a) && !has_value(b)) {
        *ret_text = gs_format("neither has a value: %s", a->error ? a->error : none);
        return NEITHER;
    }
    if (!has_value(a) || !has_value(b)) {
        *ret_text = gs_format(
            "only %s has a value; the other: %s", has_value(a) ? "the first" : "the second",
            has_value(a) ? (b->error ? b->error : none) : (a->error ? a->error : none));
        return has_value(a) ? ONLY_BEFORE : ONLY_AFTER;
    }
    *ret_text = differ(m, a, b);
    return *ret_text ? DIFFERENT : EQUAL;
}

// --- an autoscaler ---

static void finish_item(struct hpa_compare *c)
{
    for (size_t i = 0; i < 2; i++)
        hpa_fetch_free(GS_TAKE(c->fetches[i]));
    hpa_scale_free(GS_TAKE(c->scale));
    if (c->has_spec)
        hpa_spec_finish(&c->spec);
    c->has_spec = false;
    c->tries = 0;
}

static void record(struct hpa_compare *c, size_t i, enum result result, char *text)
{
    struct row *r = row_of(c, &c->spec.metrics[i], i);
    if (r)
        r->counts[result]++;
    if (r && text) {
        free(r->difference);
        r->difference = text;
        return;
    }
    free(text);
}

static void start_fetches(struct hpa_compare *c);

static void on_again(void *arg)
{
    struct hpa_compare *c = arg;
    for (size_t i = 0; i < 2; i++)
        hpa_fetch_free(GS_TAKE(c->fetches[i]));
    start_fetches(c);
}

static void compare_values(struct hpa_compare *c)
{
    const struct hpa_metric_observation *a = hpa_fetch_observations(c->fetches[0]);
    const struct hpa_metric_observation *b = hpa_fetch_observations(c->fetches[1]);
    bool last = ++c->tries == TRIES, again = false;
    for (size_t i = 0; i < c->spec.n_metrics && !last; i++) {
        char *text;
        enum result result = compare_metric(&c->spec.metrics[i], &a[i], &b[i], &text);
        again |= result != EQUAL && result != NEITHER;
        free(text);
    }
    if (again) {
        gs_timer_start(c->timer, on_again, (uint64_t)c->cfg.again_ms);
        return;
    }
    for (size_t i = 0; i < c->spec.n_metrics; i++) {
        char *text;
        enum result result = compare_metric(&c->spec.metrics[i], &a[i], &b[i], &text);
        record(c, i, result, text);
    }
    finish_item(c);
    next_item(c);
}

static bool has_both(const struct hpa_compare *c)
{
    return c->fetches[0] && c->fetches[1] && hpa_fetch_finished(c->fetches[0]) &&
           hpa_fetch_finished(c->fetches[1]);
}

static void on_values(void *arg)
{
    struct hpa_compare *c = arg;
    if (has_both(c))
        compare_values(c);
}

static void start_fetches(struct hpa_compare *c)
{
    const char *selector = hpa_scale_selector(c->scale);
    for (size_t i = 0; i < 2; i++)
        c->fetches[i] = hpa_fetch_start(c->sources[i], &c->spec, selector, false, on_values, c);
    if (has_both(c))
        compare_values(c);
}

static void on_scale(void *arg, struct gs_error *err)
{
    struct hpa_compare *c = arg;
    if (!err) {
        start_fetches(c);
        return;
    }
    gs_error_free(err); // the target does not exist: its controller reads no metrics either
    finish_item(c);
    next_item(c);
}

// Resource metrics are those of metrics-server.
static json_t *without_resources(const json_t *object)
{
    json_t *copy = json_deep_copy(object);
    json_t *metrics = codec_json_get(copy, "spec", "metrics", NULL);
    for (size_t i = json_array_size(metrics); i-- > 0;) {
        const char *type = codec_json_str(json_array_get(metrics, i), "type", NULL);
        if (!gs_streq(type, "Pods") && !gs_streq(type, "Object") && !gs_streq(type, "External"))
            json_array_remove(metrics, i);
    }
    return copy;
}

static bool start_item(struct hpa_compare *c, const json_t *object)
{
    CODEC_AUTO_JSON json_t *copy = without_resources(object);
    GS_AUTO_ERROR struct gs_error *err = hpa_spec_parse(copy, &c->spec);
    if (err)
        return false;
    c->has_spec = true;
    c->spec.n_loads = 0; // annotations of this controller are not compared
    if (!c->spec.n_metrics) {
        finish_item(c);
        return false;
    }
    c->scale = hpa_scale_new(c->loop, c->cfg.cluster, c->resources, &c->spec);
    hpa_scale_read(c->scale, on_scale, c);
    return true;
}

static void next_item(struct hpa_compare *c)
{
    while (c->item < json_array_size(c->items))
        if (start_item(c, json_array_get(c->items, c->item++)))
            return;
    json_decref(GS_TAKE(c->items));
    c->done(c->arg, NULL);
}

// --- a round ---

static void on_listed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_compare *c = arg;
    (void)status;
    c->list = NULL;
    if (err) {
        c->done(c->arg, gs_error_wrap(err, "autoscalers"));
        return;
    }
    c->items = json_incref(json_object_get(body, "items"));
    c->item = 0;
    next_item(c);
}

void hpa_compare_round(struct hpa_compare *c, void (*done)(void *arg, struct gs_error *err),
                       void *arg)
{
    c->done = done;
    c->arg = arg;
    c->list = kube_list(c->cfg.cluster, KUBE_HPAS, c->cfg.ns, NULL, on_listed, c);
}

struct hpa_compare *hpa_compare_new(uv_loop_t *loop, const struct hpa_compare_config *cfg)
{
    struct kube_client *const adapters[2] = {cfg->before, cfg->after};
    struct hpa_compare *c = gs_alloc(sizeof(*c));
    c->cfg = *cfg;
    c->loop = loop;
    c->resources = hpa_resources_new(cfg->cluster);
    for (size_t i = 0; i < 2; i++)
        c->sources[i] =
            hpa_metrics_source_new(adapters[i], c->resources, REFRESH_MS, HPA_RELEASE_NEWEST);
    c->timer = gs_timer_new(loop, c);
    c->by_key = gs_hmap_new(NULL);
    return c;
}

void hpa_compare_free(struct hpa_compare *c)
{
    if (!c)
        return;
    kube_request_cancel(c->list);
    finish_item(c);
    json_decref(c->items);
    gs_timer_stop(c->timer);
    gs_timer_close(c->timer, NULL);
    for (size_t i = 0; i < 2; i++)
        hpa_metrics_source_free(c->sources[i]);
    hpa_resources_free(c->resources);
    for (size_t i = 0; i < c->n_rows; i++)
        row_finish(&c->rows[i]);
    free(c->rows);
    gs_hmap_free(c->by_key);
    free(c);
}

// --- results ---

json_t *hpa_compare_json(const struct hpa_compare *c)
{
    static const char *const names[RESULTS] = {[EQUAL] = "equal",
                                               [DIFFERENT] = "different",
                                               [ONLY_BEFORE] = "onlyBefore",
                                               [ONLY_AFTER] = "onlyAfter",
                                               [NEITHER] = "neither"};
    json_t *out = json_array();
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct row *r = &c->rows[i];
        json_t *row = json_object();
        codec_json_set_str(row, "namespace", r->ns);
        codec_json_set_str(row, "name", r->name);
        codec_json_set_str(row, "type", r->type);
        codec_json_set_str(row, "metric", r->metric);
        for (size_t k = 0; k < RESULTS; k++)
            codec_json_set_int(row, names[k], (int64_t)r->counts[k]);
        codec_json_set_str(row, "difference", r->difference);
        json_array_append_new(out, row);
    }
    return out;
}

bool hpa_compare_agrees(const struct hpa_compare *c)
{
    uint64_t equal = 0, wrong = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        equal += c->rows[i].counts[EQUAL];
        wrong += c->rows[i].counts[DIFFERENT] + c->rows[i].counts[ONLY_BEFORE];
    }
    return equal && !wrong;
}
