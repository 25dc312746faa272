// SPDX-License-Identifier: Apache-2.0
// Sequences of samples for a ScaledObject: the decisions of the converted autoscaler, which reads
// them by its rule, and of the one that KEDA creates are equal in each step. What KEDA reads
// follows from rules here; test_keda.c compares them with KEDA's own code.
#pragma once

#include "unit.h"

#include "adapter/scaledobject/scaledobject.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/yaml.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "promql/promql.h"

#include <math.h>

#define SEQUENCES    1000
#define STEPS        12
#define T0_MS        INT64_C(1700000000000)
#define SYNC_MS      15000
#define MAX_TRIGGERS 4

// The rows of objects.yaml and public.yaml. New reference.
static json_t *load_rows(void)
{
    static const char *const files[] = {"objects", "public"};
    json_t *rows = json_array();
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        struct codec_yaml_docs docs = {0};
        GS_AUTO_FREE char *path = gs_format("%s/tests/adapter/scaledobject/%s.yaml",
                                            getenv("GPUSCALE_SOURCE_ROOT"), files[i]);
        assert_ok(codec_yaml_load_file(path, &docs));
        json_array_extend(rows, docs.items[0].value);
        codec_yaml_docs_finish(&docs);
    }
    return rows;
}

static struct adapter_config *load_rules(const json_t *rules)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct adapter_config *config = NULL;
    CODEC_AUTO_JSON json_t *all = json_pack("{s:O}", "externalRules", rules);
    codec_yaml_dump(all, &text);
    assert_ok(adapter_config_parse(gs_buf_slice(&text), "rules", &config));
    return config;
}

// A trigger as KEDA reads it, and the sample of the step.
struct trigger {
    double threshold, activation;
    bool ignores, by_value;
    double v;
    bool there;
    int64_t milli; // of the sample, as KEDA passes it on
    bool active, failed;
};

struct run;
// Runs KEDA for the samples of a step, compares what it reads with the rules, and returns the
// replicas that it sets.
typedef int32_t (*keda_fn)(void *arg, const struct run *run, int64_t seconds, int32_t replicas);

struct run {
    struct trigger triggers[MAX_TRIGGERS];
    size_t n;
    bool from_zero;
    struct hpa_spec ours, theirs;
    struct adapter_config *rules;
    struct promql_expr *queries[MAX_TRIGGERS];
    uint64_t seed;
    keda_fn keda; // NULL: the rules alone
    void *arg;
};

static uint64_t next_random(struct run *run)
{
    run->seed = run->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return run->seed >> 33;
}

static double number_of(const json_t *metadata, const char *field)
{
    const json_t *v = json_object_get(metadata, field);
    double number = json_number_value(v);
    if (json_is_string(v))
        assert_ok(gs_parse_double(gs_slice_of(json_string_value(v)), &number));
    return number;
}

// With the query "q0" for the first trigger, and so on. Objects with other triggers: false.
static bool read_triggers(json_t *object, struct run *run)
{
    json_t *list = codec_json_get(object, "spec", "triggers", NULL), *t;
    size_t i;
    run->n = json_array_size(list);
    json_array_foreach (list, i, t) {
        json_t *m = json_object_get(t, "metadata");
        if (!gs_streq(codec_json_str(t, "type", NULL), "prometheus"))
            return false;
        json_object_set_new(m, "query", codec_json_strf("q%zu", i));
        run->triggers[i] = (struct trigger){
            .threshold = number_of(m, "threshold"),
            .activation = number_of(m, "activationThreshold"),
            .ignores = !gs_streq(codec_json_str(m, "ignoreNullValues", NULL), "false"),
            .by_value = gs_streq(codec_json_str(t, "metricType", NULL), "Value")};
    }
    return true;
}

static void parse_hpa(const json_t *object, struct hpa_spec *ret)
{
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(object);
    hpa_default(copy);
    assert_ok(hpa_spec_parse(copy, ret));
}

// theirs: the autoscaler that KEDA creates.
static void start(const json_t *object, const json_t *theirs, struct run *run)
{
    struct scaledobject_result r;
    scaledobject_result_init(&r);
    scaledobject_to_hpa(object, &r);
    assert_int_equal(json_array_size(r.rules), run->n);
    run->rules = load_rules(r.rules);
    for (size_t i = 0; i < run->n; i++)
        assert_ok(promql_parse(gs_slice_of(run->rules->rules[i].query_text), &run->queries[i]));
    parse_hpa(json_array_get(r.objects, 0), &run->ours);
    parse_hpa(theirs, &run->theirs);
    run->from_zero = codec_json_int(object, 0, "spec", "minReplicaCount", NULL) == 0;
    scaledobject_result_finish(&r);
}

static void stop(struct run *run)
{
    for (size_t i = 0; i < run->n; i++)
        promql_expr_free(run->queries[i]);
    hpa_spec_finish(&run->ours);
    hpa_spec_finish(&run->theirs);
    adapter_config_free(run->rules);
}

// Absent, NaN, infinite, negative, zero, or up to four times what the replicas manage. In eighths,
// which KEDA (that rounds) and the adapter (that truncates) have as the same thousandths.
static double random_sample(struct run *run, const struct trigger *t, int32_t replicas, bool *there)
{
    uint64_t kind = next_random(run) % 20;
    *there = kind != 0;
    if (kind == 1)
        return NAN;
    if (kind == 2)
        return next_random(run) % 2 ? INFINITY : -INFINITY;
    if (kind < 6)
        return kind == 5 ? -1 : 0;
    double scale = (double)(next_random(run) % 4000) / 1000;
    double v = scale * t->threshold * (replicas ? replicas : 1);
    return kind == 6 ? t->activation : floor(v * 8) / 8;
}

// What KEDA's scaler returns for a sample.
static void read_as_keda(struct trigger *t)
{
    bool none = !t->there || isnan(t->v) || isinf(t->v);
    double v = none ? 0 : t->v;
    t->failed = none && !t->ignores;
    t->milli = v > 0 ? llround(v * 1000) : 0;
    t->active = !t->failed && v > t->activation;
}

// The sum that the adapter serves for a rule. False: no value.
static bool read_as_adapter(struct promql_engine *engine, const struct promql_expr *query,
                            int64_t t_ms, int64_t *ret_milli)
{
    struct promql_result r = {0};
    size_t n = 0;
    assert_ok(promql_instant(engine, query, t_ms, &r));
    *ret_milli = 0;
    for (size_t i = 0; i < r.matrix.n; i++) {
        int64_t milli = 0;
        double v = r.matrix.series[i].v[0];
        if (promql_absent(v) || !kube_quantity_from_double(v, &milli))
            continue;
        *ret_milli += milli;
        n++;
    }
    promql_result_finish(&r);
    return n > 0;
}

struct observed {
    struct hpa_sample samples[MAX_TRIGGERS];
    struct hpa_metric_observation metrics[MAX_TRIGGERS];
};

static void put_value(struct observed *o, size_t i, bool there, int64_t milli)
{
    o->samples[i] = (struct hpa_sample){.value = milli, .timestamp_ms = T0_MS};
    o->metrics[i] = (struct hpa_metric_observation){&o->samples[i], there, NULL};
}

static void decide(const struct hpa_spec *spec, const struct observed *o, int32_t replicas,
                   struct hpa_history *history, int64_t now_ms, struct hpa_decision *ret)
{
    struct hpa_config cfg = hpa_config_default();
    GS_AUTO_FREE struct hpa_pod *pods = gs_alloc_array((size_t)replicas + 1, sizeof(*pods));
    for (int32_t i = 0; i < replicas; i++)
        pods[i] = (struct hpa_pod){.name = "p",
                                   .phase = HPA_POD_RUNNING,
                                   .ready = HPA_CONDITION_TRUE,
                                   .has_start_time = true};
    const struct hpa_observation obs = {.scale_found = true,
                                        .spec_replicas = replicas,
                                        .status_replicas = replicas,
                                        .selector = "a=b",
                                        .pods = pods,
                                        .n_pods = (size_t)replicas,
                                        .metrics = o->metrics,
                                        .scaled_to_zero = replicas == 0,
                                        .has_scaled_to_zero = true};
    hpa_decide(spec, &obs, &cfg, history, now_ms, ret);
}

// KEDA itself decides between zero and one.
static int32_t keda_replicas(const struct run *run, int32_t replicas, bool active, bool failed)
{
    if (replicas == 0)
        return active ? 1 : 0;
    return run->from_zero && !active && !failed ? 0 : replicas;
}

// Ours and that of KEDA's autoscaler.
static int32_t compare(const struct run *run, const struct hpa_decision *ours,
                       const struct hpa_decision *theirs, int32_t replicas, bool active,
                       bool failed)
{
    int32_t keda = keda_replicas(run, replicas, active, failed);
    if (replicas == 0) {
        assert_int_equal(ours->desired > 0, active);
        return keda;
    }
    if (keda == 0) {
        assert_int_equal(ours->proposal, 0);
        return 0;
    }
    assert_int_equal(ours->outcome, theirs->outcome);
    assert_int_equal(ours->proposal, theirs->proposal);
    assert_int_equal(ours->desired, theirs->desired);
    return theirs->desired;
}

static int32_t step(struct run *run, struct promql_engine *engine, struct tsdb *db, int64_t t_ms,
                    int32_t replicas, struct hpa_history *const histories[2])
{
    struct observed ours, theirs;
    struct hpa_decision a, b;
    bool active = false, failed = false;
    for (size_t i = 0; i < run->n; i++) {
        struct trigger *t = &run->triggers[i];
        int64_t milli;
        char name[8] = {'q', (char)('0' + i)};
        t->v = random_sample(run, t, replicas, &t->there);
        const struct metrics_label label = {GS_SLICE("__name__"), gs_slice_of(name)};
        if (t->there)
            assert_ok(tsdb_append(db, &label, 1, t_ms, t->v));
        read_as_keda(t);
        active |= t->active;
        failed |= t->failed;
        put_value(&theirs, i, !t->failed, t->milli);
        bool read = read_as_adapter(engine, run->queries[i], t_ms, &milli);
        put_value(&ours, i, read, milli);
    }
    if (run->keda)
        assert_int_equal(run->keda(run->arg, run, (t_ms - T0_MS) / 1000, replicas),
                         keda_replicas(run, replicas, active, failed));
    decide(&run->ours, &ours, replicas, histories[0], t_ms, &a);
    decide(&run->theirs, &theirs, replicas, histories[1], t_ms, &b);
    int32_t next = compare(run, &a, &b, replicas, active, failed);
    hpa_history_scaled(histories[0], &run->ours, replicas, next, t_ms);
    hpa_history_scaled(histories[1], &run->theirs, replicas, next, t_ms);
    hpa_decision_finish(&a);
    hpa_decision_finish(&b);
    return next;
}

// Samples are older than the look-back of the next step, so that an absent one is absent.
static void run_sequence(struct run *run)
{
    const struct promql_config cfg = {.lookback_ms = SYNC_MS / 2};
    struct tsdb *db = tsdb_new(NULL);
    struct promql_engine *engine = promql_engine_new(db, &cfg);
    struct hpa_history *histories[2] = {hpa_history_new(), hpa_history_new()};
    int32_t replicas = run->theirs.min_replicas;
    for (int i = 0; i < STEPS; i++) {
        int32_t next = step(run, engine, db, T0_MS + i * SYNC_MS, replicas, histories);
        if (next == 0 || replicas == 0) { // KEDA's autoscaler does not see zero replicas
            for (size_t k = 0; k < 2; k++) {
                hpa_history_free(histories[k]);
                histories[k] = hpa_history_new();
            }
        }
        replicas = next;
    }
    hpa_history_free(histories[0]);
    hpa_history_free(histories[1]);
    promql_engine_free(engine);
    tsdb_free(db);
}
