// SPDX-License-Identifier: Apache-2.0
#include "tsdb/tsdb.h"
#include "tsdb/wal.h"

#include "base/file.h"
#include "base/mem.h"
#include "patience.h"
#include "unit.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define L(name, value)                                                                             \
    {                                                                                              \
        GS_SLICE(name), GS_SLICE(value)                                                            \
    }

// "name{...} t=v t=v" lines of what matches, in the order of the series.
static char *dump(struct tsdb *db, const struct tsdb_matcher *m, size_t n, int64_t mint,
                  int64_t maxt)
{
    struct gs_buf out = {0};
    struct tsdb_refs refs = {0};
    struct tsdb_samples samples = {0};
    assert_ok(tsdb_find(db, m, n, mint, maxt, 0, &refs));
    for (size_t i = 0; i < refs.len; i++) {
        struct tsdb_labels l = tsdb_series_labels(db, refs.items[i]);
        for (size_t k = 0; k < tsdb_labels_len(l); k++) {
            struct metrics_label label = tsdb_labels_text_at(tsdb_symbols(db), l, k);
            gs_buf_addf(&out, "%s" GS_SLICE_FMT "=" GS_SLICE_FMT, k ? "," : "",
                        GS_SLICE_ARG(label.name), GS_SLICE_ARG(label.value));
        }
        tsdb_read(db, refs.items[i], mint, maxt, &samples);
        for (size_t k = 0; k < samples.n; k++) {
            if (tsdb_is_stale(samples.v[k]))
                gs_buf_addf(&out, " %lld=stale", (long long)samples.t[k]);
            else
                gs_buf_addf(&out, " %lld=%g", (long long)samples.t[k], samples.v[k]);
        }
        gs_buf_add_str(&out, "\n");
    }
    tsdb_samples_finish(&samples);
    tsdb_refs_finish(&refs);
    return gs_buf_take(&out);
}

#define assert_dump(db, m, n, mint, maxt, text)                                                    \
    do {                                                                                           \
        GS_AUTO_FREE char *dump_ = dump((db), (m), (n), (mint), (maxt));                           \
        assert_string_equal(dump_, text);                                                          \
    } while (0)

static void append(struct tsdb *db, const char *name, const char *pod, int64_t t, double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("pod"), gs_slice_of(pod)},
                                           {GS_SLICE("__name__"), gs_slice_of(name)}};
    assert_ok(tsdb_append(db, labels, 2, t, v));
}

static struct tsdb_matcher matcher(const char *name, enum tsdb_match op, const char *value)
{
    struct tsdb_matcher m = {gs_slice_of(name), gs_slice_of(value), op, NULL};
    if (op == TSDB_RE || op == TSDB_NRE)
        assert_ok(tsdb_regex_new(m.value, &m.regex));
    return m;
}

static void test_matchers_select(void **state)
{
    static const struct {
        const char *name;
        enum tsdb_match op;
        const char *value, *found;
    } cases[] = {
        {"pod", TSDB_EQ, "a", "a"},         {"pod", TSDB_NEQ, "a", "bc-"},
        {"pod", TSDB_EQ, "", "-"},          {"pod", TSDB_NEQ, "", "abc"},
        {"pod", TSDB_RE, "a|c", "ac"},      {"pod", TSDB_RE, "[ab]", "ab"},
        {"pod", TSDB_NRE, "[ab]", "c-"},    {"pod", TSDB_RE, ".*", "abc-"},
        {"pod", TSDB_RE, ".+", "abc"},      {"pod", TSDB_RE, "a?", "a-"},
        {"none", TSDB_EQ, "x", ""},         {"none", TSDB_NEQ, "x", "abc-"},
        {"none", TSDB_RE, ".*", "abc-"},    {"none", TSDB_RE, ".+", ""},
        {"pod", TSDB_RE, "b.*", "b"},       {"pod", TSDB_RE, ".*c", "c"},
        {"__name__", TSDB_RE, "m", "abc-"},
    };
    struct tsdb *db = tsdb_new(NULL);
    append(db, "m", "a", 1, 1);
    append(db, "m", "b", 1, 1);
    append(db, "m", "c", 1, 1);
    append(db, "m", "", 1, 1);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct tsdb_matcher m = matcher(cases[i].name, cases[i].op, cases[i].value);
        struct tsdb_refs refs = {0};
        assert_ok(tsdb_find(db, &m, 1, 0, 10, 0, &refs));
        struct gs_buf found = {0};
        for (size_t k = 0; k < refs.len; k++) {
            struct gs_slice pod = tsdb_series_label(db, refs.items[k], "pod");
            gs_buf_add_slice(&found, pod.len ? pod : GS_SLICE("-"));
        }
        GS_AUTO_FREE char *text = gs_buf_take(&found);
        assert_string_equal(text, cases[i].found);
        tsdb_refs_finish(&refs);
        tsdb_regex_free(m.regex);
    }
    tsdb_free(db);
    (void)state;
}

static void test_samples_come_in_order(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    const struct metrics_label labels[] = {L("__name__", "m")};
    // There is no series that could end.
    assert_ok(tsdb_append(db, labels, 1, 5, tsdb_stale_marker()));
    assert_ok(tsdb_append(db, labels, 1, 10, 1));
    assert_ok(tsdb_append(db, labels, 1, 10, 1)); // the same again
    assert_error(tsdb_append(db, labels, 1, 10, 2), GS_EEXIST, "duplicate");
    assert_error(tsdb_append(db, labels, 1, 9, 2), GS_ECONFLICT, "out of order");
    assert_ok(tsdb_append(db, labels, 1, 20, tsdb_stale_marker()));
    assert_ok(tsdb_append(db, labels, 1, 30, tsdb_stale_marker())); // ended already
    assert_ok(tsdb_append(db, labels, 1, 40, 4));
    assert_dump(db, NULL, 0, 0, 100, "__name__=m 10=1 20=stale 40=4\n");
    assert_dump(db, NULL, 0, 11, 39, "__name__=m 20=stale\n");
    tsdb_free(db);
    (void)state;
}

static void test_latest_looks_back(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    append(db, "m", "a", 10, 1);
    append(db, "m", "a", 20, 2);
    tsdb_ref ref = 0;
    double v;
    int64_t t;
    tsdb_latest(db, &ref, 1, 25, 15, &v, &t);
    assert_true(v == 2 && t == 20);
    tsdb_latest(db, &ref, 1, 19, 9, &v, &t);
    assert_true(v == 1 && t == 10);
    tsdb_latest(db, &ref, 1, 19, 10, &v, NULL); // left-open
    assert_true(tsdb_is_stale(v));
    tsdb_free(db);
    (void)state;
}

static uint32_t slot_of(struct tsdb_group *g, const char *pod)
{
    const struct metrics_label labels[] = {L("__name__", "m"), {GS_SLICE("pod"), gs_slice_of(pod)}};
    uint32_t slot;
    assert_ok(tsdb_group_slot(g, labels, 2, &slot));
    return slot;
}

// pods: one letter each, with value v.
static void pass(struct tsdb_group *g, int64_t t, const char *pods, double v)
{
    size_t added, fresh;
    assert_ok(tsdb_group_begin(g, t));
    for (const char *p = pods; *p; p++)
        assert_true(tsdb_group_put(g, slot_of(g, (char[]){*p, 0}), v));
    tsdb_group_commit(g, &added, &fresh);
    assert_int_equal(added, strlen(pods));
}

static void test_a_slot_without_a_sample_ends(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_group *g = tsdb_group_new(db);
    pass(g, 10, "ab", 1);
    pass(g, 20, "a", 2);
    pass(g, 30, "a", 3);
    pass(g, 40, "ab", 4);
    assert_error(tsdb_group_begin(g, 40), GS_ECONFLICT, "not newer");
    assert_dump(db, NULL, 0, 0, 100,
                "__name__=m,pod=a 10=1 20=2 30=3 40=4\n"
                "__name__=m,pod=b 10=1 20=stale 40=4\n");
    tsdb_group_free(g);
    tsdb_free(db);
    (void)state;
}

static void test_a_pass_that_is_rolled_back_leaves_nothing(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_group *g = tsdb_group_new(db);
    pass(g, 10, "a", 1);
    assert_ok(tsdb_group_begin(g, 20));
    assert_true(tsdb_group_put(g, 0, 9));
    assert_false(tsdb_group_put(g, 0, 8)); // twice in a row
    tsdb_group_rollback(g);
    pass(g, 20, "a", 2);
    assert_dump(db, NULL, 0, 0, 100, "__name__=m,pod=a 10=1 20=2\n");
    tsdb_group_free(g);
    tsdb_free(db);
    (void)state;
}

// Two targets expose the series: samples of both are stored in their order, as in Prometheus.
static void test_a_series_of_two_groups(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_group *g = tsdb_group_new(db), *h = tsdb_group_new(db);
    size_t added, fresh;
    pass(g, 10, "ab", 1);
    pass(h, 15, "b", 7);
    pass(g, 20, "a", 2); // g's b ends
    pass(h, 25, "b", 8);
    pass(g, 30, "ab", 3);
    assert_ok(tsdb_group_begin(h, 30));
    assert_true(tsdb_group_put(h, slot_of(h, "b"), 9)); // g was first at this time
    tsdb_group_commit(h, &added, &fresh);
    assert_int_equal(added, 0);
    assert_dump(db, NULL, 0, 0, 100,
                "__name__=m,pod=a 10=1 20=2 30=3\n"
                "__name__=m,pod=b 10=1 15=7 20=stale 25=8 30=3\n");
    tsdb_group_free(g);
    // h is again the only group, and buffers rows.
    for (int i = 4; i < 30; i++)
        pass(h, i * 10, "b", i);
    assert_dump(db, NULL, 0, 35, 60, "__name__=m,pod=b 40=4 50=5 60=6\n");
    assert_dump(db, NULL, 0, 255, 1000, "__name__=m,pod=b 260=26 270=27 280=28 290=29\n");
    tsdb_group_free(h);
    tsdb_free(db);
    (void)state;
}

// A series that was set aside after its end is a change when it gets a sample again.
static void test_an_ended_series_returns(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_group *g = tsdb_group_new(db), *h = tsdb_group_new(db);
    int64_t end;
    pass(g, 101, "a", 1);
    tsdb_ref a = tsdb_group_ref(g, slot_of(g, "a"));
    uint64_t changes = tsdb_changes_end(db);
    assert_false(tsdb_series_set_aside(db, a, 1000, &end));
    pass(g, 102, "", 0);
    assert_false(tsdb_series_set_aside(db, a, 101, &end));
    assert_true(tsdb_series_set_aside(db, a, 102, &end) && end == 102);
    pass(g, 103, "", 0);
    assert_true(tsdb_changes_end(db) == changes);
    pass(g, 104, "a", 2);
    assert_true(tsdb_changes_end(db) == changes + 1);
    assert_true(tsdb_change_at(db, changes) == a);
    pass(g, 105, "a", 2);
    assert_true(tsdb_changes_end(db) == changes + 1);
    // Another group ends it, and goes. The last row of the first one still has a value.
    pass(h, 110, "a", 3);
    pass(h, 111, "", 0);
    tsdb_group_free(h);
    assert_true(tsdb_series_set_aside(db, a, 1000, &end) && end == 111);
    size_t added, fresh;
    for (int64_t t = 106; t < 109; t++) {
        assert_ok(tsdb_group_begin(g, t));
        assert_true(tsdb_group_put(g, slot_of(g, "a"), 4)); // too old
        tsdb_group_commit(g, &added, &fresh);
    }
    assert_true(tsdb_changes_end(db) == changes + 2);
    assert_false(tsdb_series_set_aside(db, a, 1000, &end));
    pass(g, 112, "a", 5);
    pass(g, 113, "", 0);
    assert_true(tsdb_series_set_aside(db, a, 1000, &end) && end == 113);
    append(db, "m", "a", 114, 6);
    assert_true(tsdb_changes_end(db) == changes + 3);
    tsdb_group_free(g);
    // After the clock was set back, the end may be gone.
    append(db, "m", "a", 115, tsdb_stale_marker());
    assert_true(tsdb_series_set_aside(db, a, 1000, &end));
    assert_true(tsdb_changes_kept(db, changes + 3));
    tsdb_delete_after(db, 114);
    assert_false(tsdb_changes_kept(db, changes + 3));
    assert_true(tsdb_changes_kept(db, tsdb_changes_end(db)));
    assert_false(tsdb_series_set_aside(db, a, 1000, &end));
    tsdb_free(db);
    (void)state;
}

// The store has the same samples as plain lists, while groups and series are added and removed at
// random.
static void test_groups_hold_what_a_plain_list_holds(void **state)
{
    enum { GROUPS = 3, PODS = 12, PASSES = 3000 };
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.retention_ms = INT64_MAX / 4});
    struct tsdb_group *g[GROUPS] = {0};
    bool live[PODS] = {0};
    struct gs_buf want[PODS] = {0};
    unsigned r = 5;
    for (int i = 1; i <= PASSES; i++) {
        int k = (int)((r = r * 1103515245 + 12345) >> 16) % GROUPS;
        if (g[k] && (r >> 8) % 97 == 0) {
            tsdb_group_free(g[k]);
            g[k] = NULL;
            for (int p = k; p < PODS; p += GROUPS)
                live[p] = false; // freed without end markers
        }
        if (!g[k])
            g[k] = tsdb_group_new(db);
        char pods[PODS + 1] = "";
        size_t n = 0;
        for (int p = k; p < PODS; p += GROUPS) {
            bool has = ((r = r * 1103515245 + 12345) >> 16) % 4 != 0;
            if (has) {
                pods[n++] = (char)('a' + p);
                gs_buf_addf(&want[p], " %d=%d", i, i);
            } else if (live[p]) {
                gs_buf_addf(&want[p], " %d=stale", i);
            }
            live[p] = has;
        }
        pass(g[k], i, pods, i);
        if (i % 500 == 0)
            tsdb_gc(db, i);
    }
    for (int p = 0; p < PODS; p++) {
        const char pod[] = {(char)('a' + p), 0};
        const struct tsdb_matcher m = {GS_SLICE("pod"), gs_slice_of(pod), TSDB_EQ, NULL};
        GS_AUTO_FREE char *samples = gs_buf_take(&want[p]);
        GS_AUTO_FREE char *text = gs_format("__name__=m,pod=%s%s\n", pod, samples);
        assert_dump(db, &m, 1, 0, PASSES, text);
    }
    for (int k = 0; k < GROUPS; k++)
        tsdb_group_free(g[k]);
    tsdb_free(db);
    (void)state;
}

// Pods are created and deleted on one target: their series are removed, and their slots are reused.
static void test_series_of_a_group_go_after_the_retention(void **state)
{
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.retention_ms = 100});
    struct tsdb_group *g = tsdb_group_new(db);
    uint64_t epoch = tsdb_group_epoch(g);
    for (int i = 0; i < 2000; i++) {
        pass(g, i * 10, (char[]){'x', (char)('a' + i / 100), 0}, i);
        if (i % 10 == 0)
            tsdb_gc(db, i * 10);
    }
    assert_int_not_equal(tsdb_group_epoch(g), epoch);
    assert_int_equal(tsdb_series_count(db), 2);
    assert_true(slot_of(g, "x") < 5 && slot_of(g, "t") < 5);
    assert_dump(db, NULL, 0, 19980, 20000,
                "__name__=m,pod=x 19980=1998 19990=1999\n__name__=m,pod=t 19980=1998 19990=1999\n");
    tsdb_group_free(g);
    tsdb_free(db);
    (void)state;
}

static void test_old_samples_and_series_go(void **state)
{
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.retention_ms = 100});
    append(db, "m", "a", 10, 1);
    append(db, "m", "b", 150, 1);
    uint64_t before = tsdb_generation(db);
    tsdb_gc(db, 200);
    assert_int_equal(tsdb_series_count(db), 1);
    assert_int_not_equal(tsdb_generation(db), before);
    assert_dump(db, NULL, 0, 0, 1000, "__name__=m,pod=b 150=1\n");
    append(db, "m", "c", 150, 2);
    assert_dump(db, NULL, 0, 0, 1000, "__name__=m,pod=c 150=2\n__name__=m,pod=b 150=1\n");
    tsdb_free(db);
    (void)state;
}

enum { MANY = 3000 };

static void append_many(struct tsdb *db, int first, int64_t t)
{
    char pod[16];
    for (int i = first; i < MANY; i += 3) {
        (void)snprintf(pod, sizeof(pod), "p%d", i);
        append(db, "many", pod, t, i);
    }
}

static size_t count_found(struct tsdb *db, const char *pod)
{
    const struct tsdb_matcher m[] = {{GS_SLICE("__name__"), GS_SLICE("many"), TSDB_EQ, NULL},
                                     {GS_SLICE("pod"), gs_slice_of(pod), TSDB_EQ, NULL}};
    struct tsdb_refs refs = {0};
    assert_ok(tsdb_find(db, m, pod ? 2 : 1, 0, INT64_MAX, 0, &refs));
    size_t n = refs.len;
    for (size_t i = 1; i < n; i++)
        assert_true(refs.items[i - 1] < refs.items[i]);
    tsdb_refs_finish(&refs);
    return n;
}

// Their numbers are reused in another order than in the lists of the index.
static void test_many_series_go_and_come_at_once(void **state)
{
    const int64_t later = INT64_C(36000000);
    struct tsdb *db = tsdb_new(NULL);
    for (int i = 0; i < 3; i++)
        append_many(db, i, i == 1 ? later : 1000);
    assert_int_equal(count_found(db, NULL), MANY);
    tsdb_gc(db, later);
    assert_int_equal(tsdb_series_count(db), MANY / 3);
    assert_int_equal(count_found(db, NULL), MANY / 3);
    assert_int_equal(count_found(db, "p1"), 1);
    assert_int_equal(count_found(db, "p2"), 0);
    append_many(db, 2, later + 1);
    append_many(db, 0, later + 1);
    assert_int_equal(count_found(db, NULL), MANY);
    assert_int_equal(count_found(db, "p2"), 1);
    tsdb_gc(db, later * 2);
    assert_int_equal(tsdb_series_count(db), 0);
    assert_int_equal(count_found(db, NULL), 0);
    struct tsdb_stats stats;
    tsdb_stats(db, &stats);
    assert_int_equal(stats.label_pairs, 0);
    tsdb_free(db);
    (void)state;
}

static void test_over_the_byte_limit_the_oldest_go(void **state)
{
    struct tsdb *db =
        tsdb_new(&(struct tsdb_config){.max_bytes = 1 << 20, .retention_ms = INT64_MAX / 4});
    struct tsdb_stats stats;
    for (int i = 0; i < 4000; i++) {
        for (int k = 0; k < 100; k++)
            append(db, "m", (char[]){(char)(' ' + k), 0}, i * 1000, (double)i * k / 7);
        if (i % 100 == 0)
            tsdb_gc(db, i * 1000);
    }
    tsdb_gc(db, 4000000);
    tsdb_stats(db, &stats);
    assert_true(stats.evicted_samples > 100000);
    assert_true(stats.bytes < (1 << 20) + (1 << 18));
    assert_true(stats.min_t_ms > 1000000 && stats.max_t_ms == 3999000);
    assert_int_equal(stats.series, 100);
    tsdb_free(db);
    (void)state;
}

static void test_the_series_limit_holds(void **state)
{
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.max_series = 1});
    append(db, "m", "a", 1, 1);
    const struct metrics_label other[] = {L("__name__", "x")};
    assert_error(tsdb_append(db, other, 1, 1, 1), GS_ELIMIT, "limit of 1 series");
    append(db, "m", "a", 2, 1);
    struct tsdb_stats stats;
    tsdb_stats(db, &stats);
    assert_int_equal(stats.series_refused, 1);
    tsdb_free(db);
    (void)state;
}

static void test_a_series_over_a_limit_of_one_series_is_no_full_store(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct metrics_label labels[TSDB_MAX_LABELS + 1];
    char names[TSDB_MAX_LABELS + 1][16];
    for (size_t i = 0; i < GS_ARRAY_LEN(labels); i++) {
        snprintf(names[i], sizeof(names[i]), "l%03zu", i);
        labels[i] = (struct metrics_label){gs_slice_of(names[i]), GS_SLICE("v")};
    }
    assert_ok(tsdb_append(db, labels, TSDB_MAX_LABELS, 1, 1));
    assert_error(tsdb_append(db, labels, TSDB_MAX_LABELS + 1, 1, 1), GS_EINVAL,
                 "more than 256 labels");
    GS_AUTO_BUF struct gs_buf value = {0};
    while (value.len < TSDB_MAX_LABEL_BYTES)
        gs_buf_add_char(&value, 'v');
    labels[0].value = gs_buf_slice(&value);
    assert_error(tsdb_append(db, labels, 1, 1, 1), GS_EINVAL, "labels of more than 65536 bytes");
    labels[0].value.len -= labels[0].name.len;
    assert_ok(tsdb_append(db, labels, 1, 1, 1));
    struct tsdb_stats stats;
    tsdb_stats(db, &stats);
    assert_int_equal(stats.series, 2);
    assert_int_equal(stats.series_refused, 2);
    tsdb_free(db);
    (void)state;
}

static void test_the_limit_of_label_texts_holds(void **state)
{
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.max_series = 1000, .retention_ms = 1000});
    GS_AUTO_BUF struct gs_buf value = {0};
    struct gs_error *err = NULL;
    int n = 0;
    for (int i = 0; i < 1 << 15; i++)
        gs_buf_add_char(&value, 'x');
    while (!err && n < 10000) {
        memcpy(value.data, &(uint16_t){(uint16_t)++n}, 2);
        const struct metrics_label l[] = {{GS_SLICE("a"), gs_buf_slice(&value)}};
        err = tsdb_append(db, l, 1, 1, 1);
    }
    assert_int_equal(n, 512); // with their ends, 512 texts exceed the limit of 16 MiB
    assert_error(err, GS_ELIMIT,
                 "label names and values of the store exceed their limit of 16 MiB");
    assert_int_equal(tsdb_series_count(db), 511);
    const struct metrics_label small[] = {L("b", "c")},
                               again[] = {{GS_SLICE("a"), gs_buf_slice(&value)}};
    assert_ok(tsdb_append(db, small, 1, 1, 1));
    tsdb_gc(db, 1000000); // the series are older than the retention
    assert_ok(tsdb_append(db, again, 1, 1000000, 1));
    tsdb_free(db);
    (void)state;
}

static void add_name(void *arg, struct gs_slice value)
{
    gs_buf_add_slice(arg, value);
    gs_buf_add_char(arg, ' ');
}

static void test_label_names_and_values(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    append(db, "m", "a", 1, 1);
    append(db, "x", "b", 1, 1);
    struct gs_buf out = {0};
    struct tsdb_matcher m = matcher("__name__", TSDB_EQ, "x");
    assert_ok(tsdb_label_values(db, GS_SLICE("pod"), &m, 1, 0, 10, add_name, &out));
    gs_buf_add_char(&out, '|');
    assert_ok(tsdb_label_values(db, GS_SLICE(""), NULL, 0, 0, 10, add_name, &out));
    GS_AUTO_FREE char *text = gs_buf_take(&out);
    assert_string_equal(text, "b |__name__ pod ");
    tsdb_free(db);
    (void)state;
}

static void test_templates_expand_as_in_go(void **state)
{
    static const char *const cases[][4] = {
        {"(.*):(.*)", "host:80", "$2/$1", "80/host"},
        {"(.*):(.*)", "host:80", "${1}x $$ $", "hostx $ $"},
        {"(.*):(.*)", "host:80", "$1x", ""},
        {"(?P<h>.*):.*", "host:80", "${h}-$h", "host-host"},
        {"a(b)?", "a", "[$1][$9]", "[][]"},
        {"(a)", "a", "${1", "${1"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct tsdb_regex *r;
        struct gs_buf out = {0};
        assert_ok(tsdb_regex_new(gs_slice_of(cases[i][0]), &r));
        assert_true(tsdb_regex_expand(r, gs_slice_of(cases[i][1]), gs_slice_of(cases[i][2]), &out));
        GS_AUTO_FREE char *text = gs_buf_take(&out);
        assert_string_equal(text, cases[i][3]);
        tsdb_regex_free(r);
    }
    struct tsdb_regex *r;
    assert_error(tsdb_regex_new(GS_SLICE("a("), &r), GS_EINVAL, "missing closing )");
    (void)state;
}

// --- the log ---

struct stored {
    char dir[64];
    struct tsdb *db;
};

static void open_store(struct stored *s)
{
    assert_ok(tsdb_open(
        &(struct tsdb_config){.storage_path = s->dir, .retention_ms = INT64_MAX / 4}, &s->db));
}

static void make_store(struct stored *s)
{
    strcpy(s->dir, "/tmp/gpuscale-tsdb-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    open_store(s);
}

static void remove_store(struct stored *s)
{
    tsdb_free(s->db);
    GS_AUTO_FREE char *command = gs_format("rm -r %s", s->dir);
    assert_int_equal(system(command), 0);
}

static void test_what_was_written_comes_back(void **state)
{
    struct stored s;
    make_store(&s);
    struct tsdb_group *g = tsdb_group_new(s.db);
    pass(g, 10, "ab", 0.1);
    pass(g, 20, "a", -1234.5);
    append(s.db, "x", "q", 15, NAN);
    append(s.db, "x", "q", 16, INFINITY);
    append(s.db, "x", "r", 15, 1e300);
    tsdb_group_free(g);
    tsdb_free(s.db);
    open_store(&s);
    assert_dump(s.db, NULL, 0, 0, 100,
                "__name__=m,pod=a 10=0.1 20=-1234.5\n"
                "__name__=m,pod=b 10=0.1 20=stale\n"
                "__name__=x,pod=q 15=nan 16=inf\n"
                "__name__=x,pod=r 15=1e+300\n");
    append(s.db, "m", "a", 30, 3); // appending continues
    tsdb_free(s.db);
    open_store(&s);
    struct tsdb_matcher m = matcher("pod", TSDB_EQ, "a");
    assert_dump(s.db, &m, 1, 0, 100, "__name__=m,pod=a 10=0.1 20=-1234.5 30=3\n");
    remove_store(&s);
    (void)state;
}

static void test_a_second_process_is_refused(void **state)
{
    struct stored s;
    make_store(&s);
    struct tsdb *other;
    assert_error(tsdb_open(&(struct tsdb_config){.storage_path = s.dir}, &other), GS_EEXIST,
                 "another process uses this storage path");
    remove_store(&s);
    (void)state;
}

static void test_a_torn_or_changed_byte_costs_its_record(void **state)
{
    struct stored s;
    make_store(&s);
    for (int i = 0; i < 50; i++)
        append(s.db, "m", "a", 10 + i, i);
    tsdb_free(s.db);
    GS_AUTO_FREE char *path = gs_format("%s/wal/wal-00000001", s.dir);
    GS_AUTO_BUF struct gs_buf content = {0};
    assert_ok(gs_file_read(path, 1 << 20, &content));
    // In the middle: each damaged position affects one record after the first one (the labels).
    for (size_t at = 80; at < content.len; at += 37) {
        content.data[at] ^= 0x55;
        assert_ok(gs_file_write_atomic(path, 0644, gs_buf_slice(&content)));
        content.data[at] ^= 0x55;
        open_store(&s);
        struct tsdb_samples samples = {0};
        tsdb_read(s.db, 0, 0, 1000, &samples);
        assert_int_equal(samples.n, 49);
        struct tsdb_stats stats;
        tsdb_stats(s.db, &stats);
        assert_int_equal(stats.wal_corrupt_records, 1);
        tsdb_samples_finish(&samples);
        tsdb_free(s.db);
    }
    // A torn tail.
    assert_ok(gs_file_write_atomic(path, 0644, gs_slice_make(content.data, content.len - 3)));
    open_store(&s);
    struct tsdb_samples samples = {0};
    tsdb_read(s.db, 0, 0, 1000, &samples);
    assert_int_equal(samples.n, 49);
    tsdb_samples_finish(&samples);
    remove_store(&s);
    (void)state;
}

static void test_a_killed_process_leaves_what_was_synced(void **state)
{
    struct stored s;
    make_store(&s);
    tsdb_free(s.db);
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        if (child == 0) {
            open_store(&s);
            for (int i = 0; i < 100; i++)
                append(s.db, "m", "a", 1000 * round + i + 1, i);
            tsdb_sync(s.db);
            append(s.db, "m", "a", 1000 * round + 500, 500); // not synced
            raise(SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
    }
    open_store(&s);
    struct tsdb_samples samples = {0};
    tsdb_read(s.db, 0, 0, 1000000, &samples);
    assert_int_equal(samples.n, 1000);
    tsdb_samples_finish(&samples);
    remove_store(&s);
    (void)state;
}

static bool log_begins_at_1(const struct stored *s)
{
    GS_AUTO_FREE char *first = gs_format("%s/wal/wal-00000001", s->dir);
    return access(first, F_OK) == 0;
}

// One life of a process with groups and single series and frequent snapshots. It writes its samples
// to a file and is killed.
static void live_and_die(const struct stored *s, unsigned seed, int64_t from, const char *seen)
{
    struct stored mine = *s;
    assert_ok(tsdb_open(&(struct tsdb_config){.storage_path = s->dir,
                                              .retention_ms = INT64_MAX / 4,
                                              .snapshot_bytes = 700},
                        &mine.db));
    struct tsdb_group *g[3] = {tsdb_group_new(mine.db), tsdb_group_new(mine.db)};
    unsigned r = seed;
    for (int64_t t = from; t < from + 100; t++) {
        r = r * 1103515245 + 12345;
        append(mine.db, "own", "z", t, (double)(r >> 20) / 8);
        if ((r >> 16) % 50 == 0) { // one target is removed, another is added
            tsdb_group_free(g[0]);
            g[0] = tsdb_group_new(mine.db);
        }
        // Both expose "c".
        pass(g[t % 2], t, t % 2 ? "bc" : (r >> 18) % 3 ? "ac" : "a", (double)(r >> 24));
        tsdb_sync(mine.db);
    }
    // A snapshot counts when its file is durable. One life of five waits for that; the others end
    // before.
    for (int64_t end = gs_mono_ns() + WAIT_NS;
         seed % 5 == 0 && log_begins_at_1(s) && gs_mono_ns() < end;) {
        usleep(1000);
        tsdb_sync(mine.db);
    }
    GS_AUTO_FREE char *all = dump(mine.db, NULL, 0, 0, INT64_MAX);
    assert_ok(gs_file_write_atomic(seen, 0644, gs_slice_of(all)));
    raise(SIGKILL);
}

static void test_snapshots_and_log_give_all_that_was_there(void **state)
{
    struct stored s;
    make_store(&s);
    tsdb_free(s.db);
    GS_AUTO_FREE char *seen = gs_format("%s/seen", s.dir);
    for (unsigned round = 0; round < 50; round++) {
        pid_t child = fork();
        if (child == 0)
            live_and_die(&s, round + 1, 1 + 100 * (int64_t)round, seen);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        GS_AUTO_BUF struct gs_buf want = {0};
        assert_ok(gs_file_read(seen, 1 << 24, &want));
        assert_ok(tsdb_open(
            &(struct tsdb_config){.storage_path = s.dir, .retention_ms = INT64_MAX / 4}, &s.db));
        GS_AUTO_FREE char *got = dump(s.db, NULL, 0, 0, INT64_MAX);
        assert_string_equal(got, want.data);
        struct tsdb_stats stats;
        tsdb_stats(s.db, &stats);
        assert_int_equal(stats.wal_corrupt_records, 0);
        // The log does not grow with the number of lives: its size is that of a few snapshots.
        assert_true(round < 5 || !log_begins_at_1(&s));
        tsdb_free(s.db);
    }
    assert_ok(tsdb_open(&(struct tsdb_config){.storage_path = s.dir, .retention_ms = INT64_MAX / 4},
                        &s.db));
    remove_store(&s);
    (void)state;
}

// The disk is full for a while: samples are kept in memory, and later samples are written again.
static void test_a_full_disk_is_survived(void **state)
{
    struct stored s;
    struct tsdb_stats stats;
    struct rlimit old, none;
    make_store(&s);
    append(s.db, "m", "a", 10, 1);
    tsdb_sync(s.db);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    for (int i = 0; i < 5; i++) {
        append(s.db, "m", "a", 20 + i, 2);
        tsdb_sync(s.db);
    }
    tsdb_stats(s.db, &stats);
    assert_true(stats.wal_failing && stats.wal_errors == 5);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    append(s.db, "m", "a", 30, 3);
    tsdb_sync(s.db);
    tsdb_stats(s.db, &stats);
    assert_false(stats.wal_failing);
    assert_dump(s.db, NULL, 0, 0, 100, "__name__=m,pod=a 10=1 20=2 21=2 22=2 23=2 24=2 30=3\n");
    tsdb_free(s.db);
    open_store(&s);
    assert_dump(s.db, NULL, 0, 0, 100, "__name__=m,pod=a 10=1 30=3\n");
    remove_store(&s);
    (void)state;
}

// A changed byte in a file of blocks never causes a crash, and the rest is available.
static void test_a_changed_byte_of_a_snapshot_costs_its_series(void **state)
{
    struct stored s;
    make_store(&s);
    tsdb_free(s.db);
    assert_ok(tsdb_open(&(struct tsdb_config){.storage_path = s.dir,
                                              .retention_ms = INT64_MAX / 4,
                                              .snapshot_bytes = 1},
                        &s.db));
    for (int i = 0; i < 300; i++)
        for (const char *pod = "abcdef"; *pod; pod++)
            append(s.db, "m", (char[]){*pod, 0}, 10 + i, i * *pod);
    // Until the file is durable and the log before it is deleted.
    for (int64_t end = gs_mono_ns() + WAIT_NS; log_begins_at_1(&s);) {
        assert_true(gs_mono_ns() < end);
        tsdb_sync(s.db);
        usleep(10000);
    }
    tsdb_free(s.db);
    GS_AUTO_FREE char *path = gs_format("%s/wal/blocks-00000001", s.dir);
    GS_AUTO_FREE char *rm =
        gs_format("rm -f %s/wal/wal-* %s/wal/blocks-0000000[2-9]", s.dir, s.dir);
    GS_AUTO_BUF struct gs_buf content = {0};
    assert_ok(gs_file_read(path, 1 << 20, &content));
    assert_true(content.len > 1000);
    for (size_t at = 0; at < content.len; at += 7) {
        assert_int_equal(system(rm), 0);
        content.data[at] ^= 0x41;
        assert_ok(gs_file_write_atomic(path, 0644, gs_buf_slice(&content)));
        content.data[at] ^= 0x41;
        assert_ok(tsdb_open(
            &(struct tsdb_config){.storage_path = s.dir, .retention_ms = INT64_MAX / 4}, &s.db));
        struct tsdb_stats stats;
        tsdb_stats(s.db, &stats);
        assert_true(stats.wal_corrupt_records > 0);
        tsdb_free(s.db);
    }
    // Single samples have the codes of the version before, too.
    assert_int_equal(system(rm), 0);
    memcpy(content.data, TSDB_WAL_BLOCKS_BEFORE, sizeof(TSDB_WAL_BLOCKS_BEFORE) - 1);
    assert_ok(gs_file_write_atomic(path, 0644, gs_buf_slice(&content)));
    assert_ok(tsdb_open(&(struct tsdb_config){.storage_path = s.dir, .retention_ms = INT64_MAX / 4},
                        &s.db));
    struct tsdb_stats stats;
    tsdb_stats(s.db, &stats);
    assert_int_equal(stats.wal_corrupt_records, 0);
    assert_int_equal(stats.series, 6);
    remove_store(&s);
    (void)state;
}

// The names of many objects. Groups of an alternation are available for replacements.
static void test_many_literals(void **state)
{
    GS_AUTO_BUF struct gs_buf pattern = {0}, out = {0};
    struct tsdb_regex *r = NULL;
    for (int i = 0; i < 20000; i++)
        gs_buf_addf(&pattern, "%spod-%05d", i ? "|" : "", i);
    assert_ok(tsdb_regex_new(gs_buf_slice(&pattern), &r));
    assert_true(tsdb_regex_matches(r, GS_SLICE("pod-19999")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("pod-20000")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("pod-1999")));
    tsdb_regex_free(r);
    assert_ok(tsdb_regex_new(GS_SLICE("(a|b\\.c)"), &r));
    assert_false(tsdb_regex_expand(r, GS_SLICE("c"), GS_SLICE("<$1>"), &out));
    assert_true(tsdb_regex_expand(r, GS_SLICE("b.c"), GS_SLICE("<$1>$0"), &out));
    assert_string_equal(out.data, "<b.c>b.c");
    tsdb_regex_free(r);
    gs_buf_clear(&pattern);
    for (int i = 0; i < 20000; i++)
        gs_buf_addf(&pattern, "%spod-%05d.*", i ? "|" : "", i);
    assert_error(tsdb_regex_new(gs_buf_slice(&pattern), &r), GS_ELIMIT, "longer than");
}

// Addresses with dots that are not escaped: each matches any character.
static void test_many_literals_with_dots(void **state)
{
    GS_AUTO_BUF struct gs_buf pattern = {0}, out = {0};
    struct tsdb_regex *r = NULL;
    gs_buf_add_char(&pattern, '(');
    for (int i = 0; i < 3000; i++)
        gs_buf_addf(&pattern, "%s10.1.%d.%d:9100", i ? "|" : "", i / 250, i % 250);
    gs_buf_add_char(&pattern, ')');
    assert_ok(tsdb_regex_new(gs_buf_slice(&pattern), &r));
    assert_true(tsdb_regex_matches(r, GS_SLICE("10.1.11.249:9100")));
    assert_true(tsdb_regex_matches(r, GS_SLICE("10-1_11\n249:9100")));
    assert_true(tsdb_regex_matches(r, GS_SLICE("10é1.11.249:9100")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("10.1.12.0:9100")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("10.1.11.249:910")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("10é1.11.249:910")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("")));
    assert_true(tsdb_regex_expand(r, GS_SLICE("10.1.0.7:9100"), GS_SLICE("<$1>$0$2"), &out));
    assert_string_equal(out.data, "<10.1.0.7:9100>10.1.0.7:9100");
    tsdb_regex_free(r);
    assert_ok(tsdb_regex_new(GS_SLICE("a\\.b|c.d|"), &r));
    assert_true(tsdb_regex_matches(r, GS_SLICE("a.b")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("axb")));
    assert_true(tsdb_regex_matches(r, GS_SLICE("cxd")));
    assert_true(tsdb_regex_matches(r, GS_SLICE("")));
    assert_false(tsdb_regex_matches(r, gs_slice_make("a\0b", 3)));
    assert_true(tsdb_regex_matches(r, GS_SLICE("c\xf0\x9f\x98\x80"
                                               "d"))); // one character
    assert_false(tsdb_regex_matches(r, GS_SLICE("c\xc3\xa9\xc3\xa9"
                                                "d")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("a\xc3\xa9"
                                                "b")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("c\xf0\x9f\x98"
                                                "d"))); // not UTF-8
    assert_false(tsdb_regex_matches(r, GS_SLICE("c\xff"
                                                "d")));
    assert_false(tsdb_regex_matches(r, GS_SLICE("\x80"
                                                "c.d")));
    tsdb_regex_free(r);
    gs_buf_clear(&pattern);
    gs_buf_clear(&out);
    for (int i = 0; i < 256; i++) { // the longest literal
        gs_buf_add_char(&pattern, '.');
        gs_buf_add_str(&out, "\xe2\x82\xac");
    }
    gs_buf_add_str(&pattern, "|x");
    assert_ok(tsdb_regex_new(gs_buf_slice(&pattern), &r));
    assert_true(tsdb_regex_matches(r, gs_buf_slice(&out)));
    gs_buf_add_char(&out, 'x');
    assert_false(tsdb_regex_matches(r, gs_buf_slice(&out)));
    tsdb_regex_free(r);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matchers_select),
        cmocka_unit_test(test_many_literals),
        cmocka_unit_test(test_many_literals_with_dots),
        cmocka_unit_test(test_samples_come_in_order),
        cmocka_unit_test(test_latest_looks_back),
        cmocka_unit_test(test_a_slot_without_a_sample_ends),
        cmocka_unit_test(test_a_pass_that_is_rolled_back_leaves_nothing),
        cmocka_unit_test(test_a_series_of_two_groups),
        cmocka_unit_test(test_an_ended_series_returns),
        cmocka_unit_test(test_groups_hold_what_a_plain_list_holds),
        cmocka_unit_test(test_series_of_a_group_go_after_the_retention),
        cmocka_unit_test(test_old_samples_and_series_go),
        cmocka_unit_test(test_many_series_go_and_come_at_once),
        cmocka_unit_test(test_over_the_byte_limit_the_oldest_go),
        cmocka_unit_test(test_the_series_limit_holds),
        cmocka_unit_test(test_a_series_over_a_limit_of_one_series_is_no_full_store),
        cmocka_unit_test(test_the_limit_of_label_texts_holds),
        cmocka_unit_test(test_label_names_and_values),
        cmocka_unit_test(test_templates_expand_as_in_go),
        cmocka_unit_test(test_what_was_written_comes_back),
        cmocka_unit_test(test_a_second_process_is_refused),
        cmocka_unit_test(test_a_torn_or_changed_byte_costs_its_record),
        cmocka_unit_test(test_a_killed_process_leaves_what_was_synced),
        cmocka_unit_test(test_snapshots_and_log_give_all_that_was_there),
        cmocka_unit_test(test_a_full_disk_is_survived),
        cmocka_unit_test(test_a_changed_byte_of_a_snapshot_costs_its_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
