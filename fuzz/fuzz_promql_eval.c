// SPDX-License-Identifier: Apache-2.0
// Any text as a query over a small store, instant and range, twice each. The second evaluation uses
// caches and must give the same result.
#include "base/mem.h"
#include "promql/promql.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS 40

static struct tsdb *store(void)
{
    static const char *const names[] = {"a", "b", "c_total", "h_bucket"};
    static const char *const values[] = {"1", "2", "+Inf"};
    struct tsdb *db = tsdb_new(NULL);
    for (size_t n = 0; n < GS_ARRAY_LEN(names); n++) {
        for (size_t v = 0; v < GS_ARRAY_LEN(values); v++) {
            const struct metrics_label l[] = {{GS_SLICE("__name__"), gs_slice_of(names[n])},
                                              {GS_SLICE("le"), gs_slice_of(values[v])},
                                              {GS_SLICE("x"), gs_slice_of(values[(v + n) % 3])}};
            for (int t = 0; t < STEPS; t++) {
                bool stale = (t + (int)v) % 11 == 10;
                gs_error_free(
                    tsdb_append(db, l, 3, t * 15000,
                                stale ? tsdb_stale_marker() : (double)(t * (int)(v + 1) % 17)));
            }
        }
    }
    return db;
}

static bool same(const struct promql_result *a, const struct promql_result *b)
{
    if (a->type != b->type || a->matrix.n != b->matrix.n || a->n_raw != b->n_raw)
        return false;
    for (size_t i = 0; i < a->matrix.n; i++) {
        const struct promql_series *x = &a->matrix.series[i], *y = &b->matrix.series[i];
        if (tsdb_labels_len(x->labels) != tsdb_labels_len(y->labels) ||
            memcmp(x->v, y->v, a->matrix.n_steps * sizeof(*x->v)) != 0)
            return false;
        for (size_t k = 0; k < tsdb_labels_len(x->labels); k++)
            if (!gs_slice_eq(promql_label_at(a, x->labels, k).value,
                             promql_label_at(b, y->labels, k).value))
                return false;
    }
    return true;
}

static struct gs_error *ask(struct promql_engine *e, const struct promql_expr *x, bool range,
                            struct promql_result *ret)
{
    return range ? promql_range(e, x, 60000, 540000, 30000, ret)
                 : promql_instant(e, x, 400000, ret);
}

static void twice(struct promql_engine *e, const struct promql_expr *x, bool range)
{
    struct promql_result first = {0}, second = {0};
    struct gs_error *err = ask(e, x, range, &first), *again = ask(e, x, range, &second);
    bool timed_out = (err && gs_error_code(err) == GS_ETIMEOUT) ||
                     (again && gs_error_code(again) == GS_ETIMEOUT);
    if (!timed_out && (!err != !again || (!err && !same(&first, &second))))
        abort();
    gs_error_free(err);
    gs_error_free(again);
    promql_result_finish(&second);
    promql_result_finish(&first);
}

static void evaluate(const struct promql_expr *x, unsigned features)
{
    const struct promql_config cfg = {
        .max_samples = 100000, .max_bytes = 8 << 20, .timeout_ms = 200};
    struct tsdb *db = store();
    struct promql_engine *e = promql_engine_new(db, &cfg);
    promql_set_features(features);
    twice(e, x, false);
    twice(e, x, true);
    promql_engine_free(e);
    tsdb_free(db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned features = PROMQL_EXPERIMENTAL_FUNCTIONS | PROMQL_FILL;
    struct promql_expr *x;
    promql_set_features(features);
    GS_AUTO_ERROR struct gs_error *err =
        promql_parse(gs_slice_make(size ? (const char *)data : "", size), &x);
    if (err)
        return 0;
    evaluate(x, features);
    evaluate(x, features | PROMQL_DELAYED_NAMES);
    promql_expr_free(x);
    return 0;
}
