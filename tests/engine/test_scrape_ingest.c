// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "engine/scrape_ingest.h"

static const struct metrics_label target_labels[] = {
    {GS_SLICE("instance"), GS_SLICE("127.0.0.1:9400")},
    {GS_SLICE("pod"), GS_SLICE("the-exporter")},
};

struct found {
    int n;
    double value;
    char pod[64], exported[64];
};

static void copy(char *to, struct gs_slice s)
{
    if (s.len)
        memcpy(to, s.data, s.len);
    to[s.len] = '\0';
}

static int on_found(void *arg, const struct metrics_labels *labels, struct ring_point p)
{
    struct found *f = arg;
    f->n++;
    f->value = p.value;
    copy(f->pod, metrics_labels_get(labels, "pod"));
    copy(f->exported, metrics_labels_get(labels, "exported_pod"));
    return 1;
}

static struct found look(struct ring *db, const char *name, int64_t t)
{
    const struct ring_matcher m = {"__name__", RING_EQ, name};
    struct found f = {0};
    ring_select(db, &m, 1, t, 300000, on_found, &f);
    return f;
}

static void test_a_conflicting_label_becomes_exported(void **state)
{
    struct ring *db = ring_new(NULL);
    struct ingest *in = ingest_new(db, target_labels, 2, false);
    size_t n;
    assert_ok(ingest_text(in, GS_SLICE("util{pod=\"w-0\"} 40\n"), 1000, &n));
    assert_int_equal(n, 1);
    struct found f = look(db, "util", 1000);
    assert_string_equal(f.pod, "the-exporter");
    assert_string_equal(f.exported, "w-0");
    assert_ok(ingest_text(in, GS_SLICE("util{pod=\"w-0\",exported_pod=\"x\"} 1\n"), 2000, &n));
    assert_string_equal(look(db, "util", 2000).exported, "x");
    ingest_free(in);

    in = ingest_new(db, target_labels, 2, true);
    assert_ok(ingest_text(in, GS_SLICE("honoured{pod=\"w-0\"} 40\n"), 3000, &n));
    assert_string_equal(look(db, "honoured", 3000).pod, "w-0");
    ingest_free(in);
    ring_free(db);
}

static void test_a_series_that_goes_away_ends(void **state)
{
    struct ring *db = ring_new(NULL);
    struct ingest *in = ingest_new(db, target_labels, 2, false);
    size_t n;
    assert_ok(ingest_text(in, GS_SLICE("a 1\nb 2\n"), 1000, &n));
    assert_ok(ingest_text(in, GS_SLICE("a 1\n"), 2000, &n));
    assert_int_equal(look(db, "a", 2000).n, 1);
    assert_int_equal(look(db, "b", 2000).n, 0);
    assert_int_equal(look(db, "b", 1500).n, 1);
    ingest_end_all(in, 3000);
    assert_int_equal(look(db, "a", 3000).n, 0);
    ingest_free(in);
    ring_free(db);
}

static void test_a_malformed_body_counts_for_nothing(void **state)
{
    struct ring *db = ring_new(NULL);
    struct ingest *in = ingest_new(db, target_labels, 2, false);
    size_t n;
    assert_ok(ingest_text(in, GS_SLICE("a 1\n"), 1000, &n));
    assert_error(ingest_text(in, GS_SLICE("c 1\na x\n"), 2000, &n), GS_EINVAL, "line 2");
    assert_int_equal(look(db, "c", 2000).n, 0);
    assert_int_equal(look(db, "a", 2000).n, 0);
    ingest_own(in, "up", 2000, 0);
    assert_int_equal(look(db, "up", 2000).n, 1);
    ingest_free(in);
    ring_free(db);
}

// The marker was refused as not newer than the sample, and the series went on.
static void test_ending_within_the_millisecond_of_a_scrape(void **state)
{
    struct ring *db = ring_new(NULL);
    struct ingest *in = ingest_new(db, target_labels, 2, false);
    size_t n;
    assert_ok(ingest_text(in, GS_SLICE("a 1\n"), 1000, &n));
    ingest_end_all(in, 1000);
    assert_int_equal(look(db, "a", 1001).n, 0);
    ingest_free(in);
    ring_free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_conflicting_label_becomes_exported),
        cmocka_unit_test(test_a_series_that_goes_away_ends),
        cmocka_unit_test(test_ending_within_the_millisecond_of_a_scrape),
        cmocka_unit_test(test_a_malformed_body_counts_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
