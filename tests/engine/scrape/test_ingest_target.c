// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "engine/scrape/scrape.h"

#include "base/mem.h"
#include "tsdb/exemplars.h"

static const struct metrics_label target[] = {
    {GS_SLICE("instance"), GS_SLICE("a:1")},
    {GS_SLICE("job"), GS_SLICE("j")},
};

struct world {
    struct tsdb *db;
    struct engine_config_scrape_config cfg;
    struct scrape_ingest *in;
};

static struct world start(const struct engine_config_scrape_config *cfg)
{
    struct world w = {.db = tsdb_new(NULL), .cfg = *cfg};
    return w;
}

static void open_target(struct world *w)
{
    w->in = scrape_ingest_new(w->db, &w->cfg, target, 2);
}

static void stop(struct world *w)
{
    scrape_ingest_free(w->in);
    tsdb_free(w->db);
}

static const struct engine_config_scrape_config plain = {.honor_timestamps = true};

static void text(struct world *w, int64_t t, const char *body)
{
    assert_ok(scrape_ingest_text(w->in, gs_slice_of(body), NULL, t, 0.25));
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *describe(const struct tsdb *db, tsdb_ref ref, double v)
{
    struct gs_buf out = {0};
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = tsdb_labels_text_at(tsdb_symbols(db), l, i);
        gs_buf_add_slice(&out, label.name);
        gs_buf_add_char(&out, '=');
        gs_buf_add_slice(&out, label.value);
        gs_buf_add_char(&out, ',');
    }
    gs_buf_addf(&out, " %g\n", v);
    return gs_buf_take(&out);
}

// All series that have a value at t, without those about the scrape; sorted.
static void expect(struct world *w, int64_t t, const char *expected)
{
    struct tsdb_refs refs = {0};
    assert_ok(tsdb_find(w->db, NULL, 0, 0, INT64_MAX, 0, &refs));
    GS_AUTO_FREE double *v = gs_alloc_array(refs.len + 1, sizeof(*v));
    tsdb_latest(w->db, refs.items, refs.len, t, t - 300000, v, NULL);
    char *lines[64] = {0};
    size_t n = 0;
    for (size_t i = 0; i < refs.len; i++) {
        struct gs_slice name = tsdb_series_label(w->db, refs.items[i], "__name__");
        if (!tsdb_is_stale(v[i]) && !gs_slice_starts(name, "scrape_") &&
            !gs_slice_eq_str(name, "up"))
            lines[n++] = describe(w->db, refs.items[i], v[i]);
    }
    qsort(lines, n, sizeof(*lines), compare);
    GS_AUTO_BUF struct gs_buf all = {0};
    gs_buf_add(&all, "", 0);
    for (size_t i = 0; i < n; i++) {
        gs_buf_add_str(&all, lines[i]);
        free(lines[i]);
    }
    assert_string_equal(all.data ? all.data : "", expected);
    tsdb_refs_finish(&refs);
}

// The newest value of a series about the scrape at t. *ret_has: it has a value.
static double report(struct world *w, const char *name, int64_t t, bool *ret_has)
{
    struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    double v;
    assert_ok(tsdb_find(w->db, &m, 1, 0, INT64_MAX, 0, &refs));
    assert_int_equal(refs.len, 1);
    tsdb_latest(w->db, refs.items, 1, t, t - 300000, &v, NULL);
    tsdb_refs_finish(&refs);
    *ret_has = !tsdb_is_stale(v);
    return v;
}

static void expect_report(struct world *w, int64_t t, double up, double scraped, double post,
                          double added)
{
    bool has;
    assert_true(report(w, "up", t, &has) == up && has);
    assert_true(report(w, "scrape_duration_seconds", t, &has) == 0.25 && has);
    assert_true(report(w, "scrape_samples_scraped", t, &has) == scraped && has);
    assert_true(report(w, "scrape_samples_post_metric_relabeling", t, &has) == post && has);
    assert_true(report(w, "scrape_series_added", t, &has) == added && has);
}

#define T "instance=a:1,job=j,"

static void test_series_come_and_go(void **state)
{
    struct world w = start(&plain);
    open_target(&w);
    text(&w, 1000, "a 1\nb{x=\"1\"} 2\nc 3\n");
    expect(&w, 1000, "__name__=a," T " 1\n__name__=b," T "x=1, 2\n__name__=c," T " 3\n");
    expect_report(&w, 1000, 1, 3, 3, 3);
    text(&w, 2000, "a 4\nb{x=\"1\"} 5\nc 6\n");
    expect(&w, 2000, "__name__=a," T " 4\n__name__=b," T "x=1, 5\n__name__=c," T " 6\n");
    expect_report(&w, 2000, 1, 3, 3, 0);
    text(&w, 3000, "c 7\nd 8\na 9\n");
    expect(&w, 3000, "__name__=a," T " 9\n__name__=c," T " 7\n__name__=d," T " 8\n");
    expect_report(&w, 3000, 1, 3, 3, 1);
    text(&w, 4000, "c 7\n");
    expect(&w, 4000, "__name__=c," T " 7\n");
    text(&w, 5000, "b{x=\"1\"} 1\nc 2\na 3\n");
    expect(&w, 5000, "__name__=a," T " 3\n__name__=b," T "x=1, 1\n__name__=c," T " 2\n");
    expect_report(&w, 5000, 1, 3, 3, 2);
    text(&w, 6000, "");
    expect(&w, 6000, "");
    expect_report(&w, 6000, 1, 0, 0, 0);
    text(&w, 7000, "a 3\n");
    expect_report(&w, 7000, 1, 1, 1, 0);
    stop(&w);
}

static void test_failures_end_all(void **state)
{
    struct world w = start(&plain);
    bool has;
    open_target(&w);
    text(&w, 1000, "a 1\n");
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a 2\nb 3\nc\n"), NULL, 2000, 0.25), GS_EINVAL,
                 "line 3, column 2");
    expect(&w, 2000, "");
    expect_report(&w, 2000, 0, 2, 2, 1);
    text(&w, 3000, "a 3\n");
    expect(&w, 3000, "__name__=a," T " 3\n");
    expect_report(&w, 3000, 1, 1, 1, 0);
    scrape_ingest_failed(w.in, 4000, 0.25);
    expect(&w, 4000, "");
    expect_report(&w, 4000, 0, 0, 0, 0);
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a 3\n"), "text/html", 5000, 0.25), GS_EPROTO,
                 "text/html");
    expect_report(&w, 5000, 0, 0, 0, 0);
    text(&w, 6000, "a 5\n");
    scrape_ingest_end(w.in, 6000);
    expect(&w, 6001, "");
    report(&w, "up", 6001, &has);
    assert_false(has);
    stop(&w);
}

static void test_fallback_protocol(void **state)
{
    struct engine_config_scrape_config cfg = plain;
    cfg.fallback = ENGINE_CONFIG_FALLBACK_TEXT;
    struct world w = start(&cfg);
    open_target(&w);
    assert_ok(scrape_ingest_text(w.in, GS_SLICE("a 1\n"), "application/octet-stream", 1000, 0.25));
    expect(&w, 1000, "__name__=a," T " 1\n");
    // OpenMetrics, as declared by the response.
    assert_ok(scrape_ingest_text(w.in, GS_SLICE("a 2\n# EOF\n"),
                                 "application/openmetrics-text; version=1.0.0", 2000, 0.25));
    expect(&w, 2000, "__name__=a," T " 2\n");
    stop(&w);
    cfg.fallback = ENGINE_CONFIG_FALLBACK_OPENMETRICS;
    w = start(&cfg);
    open_target(&w);
    assert_error(
        scrape_ingest_text(w.in, GS_SLICE("a 1\n"), "application/octet-stream", 1000, 0.25),
        GS_EINVAL, "EOF");
    stop(&w);
    (void)state;
}

static void test_conflicting_labels(void **state)
{
    struct world w = start(&plain);
    open_target(&w);
    text(&w, 1000, "a{job=\"x\",exported_job=\"y\",exported_exported_job=\"z\",e=\"\"} 1\n");
    expect(&w, 1000,
           "__name__=a,exported_exported_exported_job=x,exported_exported_job=z,exported_job=y," T
           " 1\n");
    stop(&w);
    struct engine_config_scrape_config honor = plain;
    honor.honor_labels = true;
    w = start(&honor);
    open_target(&w);
    text(&w, 1000, "a{job=\"x\"} 1\nb{job=\"\"} 2\n");
    expect(&w, 1000, "__name__=a,instance=a:1,job=x, 1\n__name__=b,instance=a:1, 2\n");
    stop(&w);
}

static void test_own_timestamps(void **state)
{
    struct world w = start(&plain);
    struct scrape_ingest_counts counts;
    open_target(&w);
    text(&w, 10000, "a 1 9000\nb 2\n");
    text(&w, 11000, "a 1 9000\nb 2\n");
    text(&w, 12000, "a 5 8000\nb 2\n");
    text(&w, 13000, "a 7 9500\nb 2\n");
    expect(&w, 9000, "__name__=a," T " 1\n");
    text(&w, 14000, "b 2\n");
    expect(&w, 14000, "__name__=a," T " 7\n__name__=b," T " 2\n"); // no marker
    scrape_ingest_counts(w.in, &counts);
    assert_int_equal(counts.out_of_order, 1);
    stop(&w);
    struct engine_config_scrape_config ignore = {0};
    w = start(&ignore);
    open_target(&w);
    text(&w, 10000, "a 1 9000\n");
    expect(&w, 9999, "");
    expect(&w, 10000, "__name__=a," T " 1\n");
    stop(&w);
}

static void test_series_with_timestamps_end_when_asked(void **state)
{
    struct engine_config_scrape_config track = plain;
    track.track_staleness = true;
    struct world w = start(&track);
    open_target(&w);
    text(&w, 10000, "a 1 9000\nb 2 9000\nc 3\n");
    text(&w, 11000, "a 1 9000\nc 3\n"); // repeated: continues; b ends
    expect(&w, 10999, "__name__=a," T " 1\n__name__=b," T " 2\n__name__=c," T " 3\n");
    expect(&w, 11000, "__name__=a," T " 1\n__name__=c," T " 3\n");
    // It comes back; one behind its marker is as if it were not there.
    text(&w, 12000, "a 1 9000\nb 2 10500\nc 3\n");
    expect(&w, 12000, "__name__=a," T " 1\n__name__=c," T " 3\n");
    text(&w, 13000, "a 1 9000\nb 2 12500\nc 3\n");
    expect(&w, 13000, "__name__=a," T " 1\n__name__=b," T " 2\n__name__=c," T " 3\n");
    // Without timestamps it continues, too.
    text(&w, 14000, "a 4\nb 2 12500\nc 3\n");
    expect(&w, 14000, "__name__=a," T " 4\n__name__=b," T " 2\n__name__=c," T " 3\n");
    text(&w, 15000, "a 5\nb 2 12500\nc 3\n");
    expect(&w, 15000, "__name__=a," T " 5\n__name__=b," T " 2\n__name__=c," T " 3\n");
    scrape_ingest_failed(w.in, 16000, 0);
    expect(&w, 16000, "");
    text(&w, 17000, "b 2 16500\n");
    expect(&w, 17000, "__name__=b," T " 2\n");
    assert_error(scrape_ingest_text(w.in, GS_SLICE("{\n"), NULL, 18000, 0), GS_EINVAL, "");
    expect(&w, 18000, "");
    text(&w, 19000, "b 2 18500\n");
    scrape_ingest_end(w.in, 20000);
    expect(&w, 20000, "");
    stop(&w);
}

static void test_series_that_are_tracked_no_longer_go_on(void **state)
{
    struct engine_config_scrape_config track = plain;
    track.track_staleness = true;
    struct world w = start(&track);
    open_target(&w);
    text(&w, 10000, "a 1 9000\n");
    scrape_ingest_reconfigure(w.in, &plain);
    text(&w, 11000, "a 2 10500\n");
    text(&w, 12000, "a 3 10900\n"); // after the time of the stale marker
    expect(&w, 12000, "__name__=a," T " 3\n");
    stop(&w);
}

static void test_duplicates_are_counted(void **state)
{
    struct world w = start(&plain);
    struct scrape_ingest_counts counts;
    open_target(&w);
    text(&w, 1000, "a 1\na 2\nb 1\n");
    text(&w, 2000, "a 3\na 4\nb 1\n");
    expect(&w, 2000, "__name__=a," T " 3\n__name__=b," T " 1\n");
    expect_report(&w, 2000, 1, 3, 3, 0);
    scrape_ingest_counts(w.in, &counts);
    assert_int_equal(counts.duplicates, 2);
    stop(&w);
}

static void test_limits(void **state)
{
    struct engine_config_scrape_config cfg = plain;
    cfg.sample_limit = 2;
    struct world w = start(&cfg);
    open_target(&w);
    text(&w, 1000, "a 1\nb 2\n");
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a 1\nb 2\nc 3\nd 4\n"), NULL, 2000, 0.25),
                 GS_ELIMIT, "sample limit exceeded");
    expect(&w, 2000, "");
    expect_report(&w, 2000, 0, 4, 4, 0);
    stop(&w);
    cfg = plain;
    cfg.label_limit = 4;
    cfg.label_name_length_limit = 10;
    cfg.label_value_length_limit = 5;
    w = start(&cfg);
    open_target(&w);
    text(&w, 1000, "a{x=\"12345\"} 1\n");
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a{x=\"1\",y=\"2\"} 1\n"), NULL, 2000, 0.25),
                 GS_ELIMIT, "label_limit exceeded (metric: a, number of labels: 5, limit: 4)");
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a{xxxxxxxxxxx=\"1\"} 1\n"), NULL, 3000, 0.25),
                 GS_ELIMIT, "label_name_length_limit exceeded");
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a{x=\"123456\"} 1\n"), NULL, 4000, 0.25),
                 GS_ELIMIT, "label_value_length_limit exceeded");
    stop(&w);
}

static void test_legacy_names(void **state)
{
    struct engine_config_scrape_config cfg = plain;
    struct world w = start(&cfg);
    open_target(&w);
    text(&w, 1000, "{\"a.b\",\"c d\"=\"1\"} 1\n");
    expect(&w, 1000, "__name__=a.b,c d=1," T " 1\n");
    cfg.legacy_names = true;
    scrape_ingest_reconfigure(w.in, &cfg); // a name that was accepted before is checked again
    assert_error(scrape_ingest_text(w.in, GS_SLICE("x 1\n{\"a.b\"} 1\n"), NULL, 2000, 0.25),
                 GS_EINVAL,
                 "invalid metric name or label names: {__name__=\"a.b\", instance=\"a:1\", "
                 "job=\"j\"}");
    expect(&w, 2000, "");
    expect_report(&w, 2000, 0, 2, 1, 1);
    assert_error(scrape_ingest_text(w.in, GS_SLICE("{\"a\",\"c:d\"=\"1\"} 1\n"), NULL, 3000, 0.25),
                 GS_EINVAL,
                 "invalid metric name or label names: {__name__=\"a\", \"c:d\"=\"1\", instance=");
    text(&w, 4000, "a:b{c=\"\xc3\xbc\"} 1\n"); // values of labels are not restricted
    expect(&w, 4000, "__name__=a:b,c=\xc3\xbc," T " 1\n");
    stop(&w);
    (void)state;
}

static void test_metric_relabelling(void **state)
{
    static const char *const name[] = {"__name__"};
    struct tsdb_regex *drop, *all;
    assert_ok(tsdb_regex_new(GS_SLICE("go_.*"), &drop));
    assert_ok(tsdb_regex_new(GS_SLICE("(.*)"), &all));
    const struct engine_config_relabel rules[] = {
        {.source_labels = name,
         .n_source_labels = 1,
         .separator = ";",
         .regex = drop,
         .action = ENGINE_CONFIG_RELABEL_DROP},
        {.source_labels = name,
         .n_source_labels = 1,
         .separator = ";",
         .regex = all,
         .target_label = "was",
         .replacement = "x_$1",
         .action = ENGINE_CONFIG_RELABEL_REPLACE},
    };
    struct engine_config_scrape_config cfg = plain;
    cfg.metric_relabel = (struct engine_config_relabels){rules, 2};
    struct world w = start(&cfg);
    open_target(&w);
    for (int64_t t = 1000; t <= 3000; t += 1000) {
        text(&w, t, "go_a 1\na 2\ngo_b 1\n");
        expect(&w, t, "__name__=a," T "was=x_a, 2\n");
        expect_report(&w, t, 1, 3, 1, t == 1000);
    }
    w.cfg.metric_relabel.n = 1;
    scrape_ingest_reconfigure(w.in, &w.cfg);
    text(&w, 4000, "go_a 1\na 2\ngo_b 1\n");
    expect(&w, 4000, "__name__=a," T " 2\n");
    expect_report(&w, 4000, 1, 3, 1, 0);
    stop(&w);
    tsdb_regex_free(drop);
    tsdb_regex_free(all);
}

static void note(void *arg, const struct metrics_metadata *m)
{
    gs_buf_addf(arg, "%.*s|%s|%.*s\n", GS_SLICE_ARG(m->family), m->type_name,
                GS_SLICE_ARG(m->help));
}

static void test_metadata_is_kept(void **state)
{
    struct world w = start(&plain);
    open_target(&w);
    text(&w, 1000, "# HELP a one\\ntwo\n# TYPE a gauge\na 1\n");
    text(&w, 2000,
         "# HELP a th\\\"ree\n# TYPE a gauge\na 1\n"); // \" is an escape in OpenMetrics only
    GS_AUTO_BUF struct gs_buf out = {0};
    scrape_metadata_each(scrape_ingest_metadata(w.in), note, &out);
    assert_string_equal(out.data, "a|gauge|th\\\"ree\n");
    stop(&w);
}

// Compared with a model: random subsets in random order. The series of each scrape are those
// written.
static void test_random_scrapes(void **state)
{
    struct world w = start(&plain);
    uint32_t seed = 12345;
    open_target(&w);
    for (int64_t t = 1000; t < 200000; t += 1000) {
        GS_AUTO_BUF struct gs_buf body = {0}, want = {0};
        gs_buf_add(&want, "", 0);
        gs_buf_add(&body, "", 0);
        bool has[26] = {0};
        for (int i = 0; i < 26; i++) {
            seed = seed * 1664525 + 1013904223;
            int c = seed % 4 == 0 ? (int)(seed >> 8) % 26 : i;
            if ((seed >> 16) % 3 == 0 || has[c])
                continue;
            has[c] = true;
            gs_buf_addf(&body, "%c{x=\"%d\"} %lld\n", 'a' + c, c, (long long)(t + c));
        }
        for (int i = 0; i < 26; i++)
            if (has[i])
                gs_buf_addf(&want, "__name__=%c," T "x=%d, %g\n", 'a' + i, i, (double)(t + i));
        text(&w, t, body.data ? body.data : "");
        expect(&w, t, want.data ? want.data : "");
    }
    stop(&w);
}

static unsigned pick(uint32_t *seed, unsigned n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 16) % n;
}

// Series of this target and of others come and go, and take the slots and numbers of those that
// went. Some have timestamps. Some outages take longer than the retention.
static void test_numbers_of_gone_series_are_used_again(void **state)
{
    struct engine_config_scrape_config cfg = plain;
    cfg.track_staleness = true;
    struct world w = {.db = tsdb_new(&(struct tsdb_config){.retention_ms = 6000}), .cfg = cfg};
    uint32_t seed = 1;
    int series[12] = {0}, born = 0, outage = 0;
    open_target(&w);
    for (int64_t t = 1000; t < 600000; t += 1000) {
        GS_AUTO_BUF struct gs_buf body = {0}, want = {0};
        for (unsigned k = pick(&seed, 3); k > 0; k--)
            series[pick(&seed, 12)] = pick(&seed, 3) ? ++born : 0;
        gs_buf_add(&want, "", 0);
        gs_buf_add(&body, "", 0);
        if (outage > 0)
            outage--;
        else if (!pick(&seed, 10))
            outage = (int)pick(&seed, 12);
        bool lost = outage > 0;
        for (int i = 0; i < 12 && !lost; i++) {
            int s = series[i];
            if (s && s % 3 == 0)
                gs_buf_addf(&body, "m{x=\"%06d\"} %lld %lld\n", s, (long long)(t + s),
                            (long long)t);
            else if (s)
                gs_buf_addf(&body, "m{x=\"%06d\"} %lld\n", s, (long long)(t + s));
        }
        for (int s = 1; s <= born && !lost; s++)
            for (int i = 0; i < 12; i++)
                if (series[i] == s)
                    gs_buf_addf(&want, "__name__=m," T "x=%06d, %g\n", s, (double)(t + s));
        text(&w, t, body.data);
        expect(&w, t, want.data);
        const struct metrics_label other[] = {{GS_SLICE("__name__"), GS_SLICE("scrape_other")},
                                              {GS_SLICE("n"), gs_slice_of(body.data)}};
        for (unsigned k = pick(&seed, 3); k > 0; k--)
            gs_error_free(tsdb_append(w.db, other, 1 + k % 2, t, 1));
        tsdb_gc(w.db, t);
    }
    stop(&w);
    (void)state;
}

static double value_of(struct world *w, const char *name, int64_t t)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(name)},
                                           {GS_SLICE("instance"), GS_SLICE("a:1")},
                                           {GS_SLICE("job"), GS_SLICE("j")}};
    tsdb_ref ref;
    double v = -1;
    assert_ok(tsdb_series_get(w->db, labels, 3, &ref));
    tsdb_latest(w->db, &ref, 1, t, t - 300000, &v, NULL);
    return v;
}

// All series of a target or none. `up` is written in any case.
static void test_the_stores_series_limit(void **state)
{
    struct world w = {.db = tsdb_new(&(struct tsdb_config){.max_series = 8}), .cfg = plain};
    open_target(&w);
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a 1\nb 1\nc 1\nd 1\n"), NULL, 1000, 0.1),
                 GS_ELIMIT, "series limit of the store exceeded");
    assert_true(value_of(&w, "up", 1000) == 0);
    assert_true(value_of(&w, "scrape_samples_scraped", 1000) == 4);
    expect(&w, 1000, "");
    text(&w, 2000, "a 1\nb 1\n");
    assert_true(value_of(&w, "up", 2000) == 1);
    expect(&w, 2000, "__name__=a,instance=a:1,job=j, 1\n__name__=b,instance=a:1,job=j, 1\n");
    stop(&w);
}

static void add_wide_line(struct gs_buf *out, const char *name, size_t labels, size_t value)
{
    gs_buf_addf(out, "%s{", name);
    for (size_t i = 0; i < labels; i++) {
        gs_buf_addf(out, "l%zu=\"", i);
        for (size_t k = 0; k < value; k++)
            gs_buf_add_char(out, 'v');
        gs_buf_add_str(out, "\",");
    }
    gs_buf_add_str(out, "} 1\n");
}

// By the number of labels in the store and in the reader, by their bytes, and by the line.
static void test_a_series_over_a_limit_costs_only_itself(void **state)
{
    struct world w = start(&plain);
    GS_AUTO_BUF struct gs_buf body = {0};
    gs_buf_add_str(&body, "first 1\n");
    add_wide_line(&body, "labels", 300, 1);
    add_wide_line(&body, "more", 1500, 1);
    add_wide_line(&body, "value", 1, 70000);
    gs_buf_add_str(&body, "middle 2\n");
    add_wide_line(&body, "line", 1, 2 << 20);
    add_wide_line(&body, "largest", 250, 2);
    gs_buf_add_str(&body, "last 3\n");
    open_target(&w);
    struct scrape_ingest_counts counts;
    for (int64_t t = 1000; t <= 2000; t += 1000) { // new, and cached
        text(&w, t, body.data);
        assert_true(value_of(&w, "up", t) == 1);
        assert_true(value_of(&w, "first", t) == 1);
        assert_true(value_of(&w, "middle", t) == 2);
        assert_true(value_of(&w, "last", t) == 3);
        assert_true(value_of(&w, "scrape_samples_post_metric_relabeling", t) == 4);
    }
    scrape_ingest_counts(w.in, &counts);
    assert_int_equal(counts.series_refused, 5); // the long line is not cached
    assert_int_equal(counts.limit_failures, 0);
    stop(&w);
    (void)state;
}

static void test_a_series_with_a_time_over_a_limit_costs_only_itself(void **state)
{
    struct world w = start(&plain);
    GS_AUTO_BUF struct gs_buf body = {0};
    add_wide_line(&body, "labels", 300, 1);
    body.len--;
    gs_buf_add_str(&body, " 900\na 5 900\n");
    open_target(&w);
    text(&w, 1000, body.data);
    assert_true(value_of(&w, "up", 1000) == 1);
    assert_true(value_of(&w, "a", 1000) == 5);
    stop(&w);
    (void)state;
}

// … also for a target that is added when the store is full.
static void test_a_target_for_which_the_store_has_no_room(void **state)
{
    struct world w = {.db = tsdb_new(&(struct tsdb_config){.max_series = 2}), .cfg = plain};
    struct metrics_label own[] = {{GS_SLICE("__name__"), GS_SLICE("other")},
                                  {GS_SLICE("n"), GS_SLICE("1")}};
    assert_ok(tsdb_append(w.db, own, 2, 900, 1));
    own[1].value = GS_SLICE("2");
    assert_ok(tsdb_append(w.db, own, 2, 900, 1));
    open_target(&w);
    assert_error(scrape_ingest_text(w.in, GS_SLICE("a 1\n"), NULL, 1000, 0.1), GS_ELIMIT,
                 "series limit of the store exceeded");
    assert_true(value_of(&w, "up", 1000) == 0);
    assert_true(value_of(&w, "scrape_samples_scraped", 1000) == 1);
    stop(&w);
}

struct family_count {
    size_t n;
    bool gone;
};

static void expect_metadata(const struct world *w, const char *series, const char *help)
{
    struct metrics_metadata m = {.help = GS_SLICE("none")};
    bool found = scrape_metadata_find(scrape_ingest_metadata(w->in), gs_slice_of(series), &m);
    assert_int_equal(found, !gs_streq(help, "none"));
    assert_true(gs_slice_eq_str(m.help, help));
}

static void test_metadata_of_a_series(void **state)
{
    struct world w = start(&plain);
    open_target(&w);
    assert_ok(scrape_ingest_text(w.in,
                                 GS_SLICE("# HELP a A.\n# TYPE a histogram\n"
                                          "# HELP b B.\n# TYPE b summary\n"
                                          "# HELP c C.\n# TYPE c counter\n"
                                          "# HELP d_total D.\n# TYPE d_total counter\n"
                                          "# HELP e E.\n# TYPE e gauge\n"
                                          "# HELP a_count own\n# TYPE a_count gauge\n"
                                          "e 1\n"),
                                 NULL, 1000, 0.25));
    expect_metadata(&w, "a_bucket", "A.");
    expect_metadata(&w, "a_sum", "A.");
    expect_metadata(&w, "a_count", "own");
    expect_metadata(&w, "b", "B.");
    expect_metadata(&w, "b_count", "B.");
    expect_metadata(&w, "b_bucket", "none");
    expect_metadata(&w, "c_total", "C.");
    expect_metadata(&w, "d_total", "D.");
    expect_metadata(&w, "e", "E.");
    expect_metadata(&w, "e_total", "none");
    expect_metadata(&w, "_sum", "none");
    expect_metadata(&w, "up", "none");
    stop(&w);
    (void)state;
}

static void count_family(void *arg, const struct metrics_metadata *m)
{
    struct family_count *c = arg;
    c->n++;
    c->gone = c->gone || gs_slice_eq_str(m->family, "gone");
}

static void test_metadata_of_gone_families_is_dropped(void **state)
{
    struct world w = start(&plain);
    open_target(&w);
    int64_t t = 1000;
    for (int i = 0; i < 15; i++)
        text(&w, t += 1000, "# TYPE gone gauge\ngone 1\n# HELP b x\n# TYPE b gauge\nb 1\n");
    for (int i = 0; i < 5; i++)
        text(&w, t += 1000, "# HELP b x\n# TYPE b gauge\nb 1\n");
    struct family_count c = {0};
    scrape_metadata_each(scrape_ingest_metadata(w.in), count_family, &c);
    assert_true(c.gone);
    assert_int_equal(c.n, 2);
    for (int i = 0; i < 7; i++)
        text(&w, t += 1000, "# HELP b x\n# TYPE b gauge\nb 1\n");
    c = (struct family_count){0};
    scrape_metadata_each(scrape_ingest_metadata(w.in), count_family, &c);
    assert_false(c.gone);
    assert_int_equal(c.n, 1);
    stop(&w);
}

static char *families(int from, int until, const char *help)
{
    struct gs_buf out = {0};
    for (int i = from; i < until; i++)
        gs_buf_addf(&out, "# HELP f%d %s %d\n# TYPE f%d counter\nf%d 1\n", i, help, i, i, i);
    return gs_buf_take(&out);
}

// Counts the families that have the help text of a target and their own number.
struct expected_help {
    const char *help;
    size_t n, right;
};

static void check_help(void *arg, const struct metrics_metadata *m)
{
    struct expected_help *e = arg;
    GS_AUTO_FREE char *help =
        gs_format("%s %.*s", e->help, (int)m->family.len - 1, m->family.data + 1);
    e->n++;
    e->right += gs_slice_eq_str(m->help, help) && gs_streq(m->type_name, "counter");
}

static void expect_families(const struct world *w, const char *help, size_t n)
{
    struct expected_help e = {.help = help};
    scrape_metadata_each(scrape_ingest_metadata(w->in), check_help, &e);
    assert_int_equal(e.n, n);
    assert_int_equal(e.right, n);
}

// Targets share texts, but each has its own families.
static void test_targets_with_equal_families(void **state)
{
    enum { FAMILIES = 300, KEPT = 100 };
    struct world a = start(&plain), b = a;
    (void)state;
    GS_AUTO_FREE char *all = families(0, FAMILIES, "text");
    GS_AUTO_FREE char *fewer = families(FAMILIES - KEPT, FAMILIES, "text");
    GS_AUTO_FREE char *other = families(0, FAMILIES, "other");
    open_target(&a);
    b.in = scrape_ingest_new(b.db, &b.cfg, target, 1);
    text(&a, 1000, all);
    text(&b, 1000, all);
    for (int i = 2; i < 30; i++)
        text(&a, 1000 * i, fewer);
    expect_families(&a, "text", KEPT);
    expect_families(&b, "text", FAMILIES);
    text(&a, 30000, all);
    text(&b, 30000, other);
    expect_families(&a, "text", FAMILIES);
    expect_families(&b, "other", FAMILIES);
    scrape_ingest_free(b.in);
    stop(&a);
}

struct others { // use the store while a scrape is paused
    struct world *w;
    struct tsdb_group *group;
    uint32_t slot;
    int calls, stop_at;
    int64_t t;
};

static bool let_others(void *arg)
{
    static const struct metrics_label label = {GS_SLICE("__name__"), GS_SLICE("other")};
    struct others *o = arg;
    size_t added, fresh;
    o->calls++;
    assert_ok(tsdb_group_slot(o->group, &label, 1, &o->slot));
    assert_ok(tsdb_group_begin(o->group, ++o->t));
    assert_true(tsdb_group_put(o->group, o->slot, o->calls));
    tsdb_group_commit(o->group, &added, &fresh);
    tsdb_gc(o->w->db, o->t);
    return o->calls != o->stop_at;
}

static size_t count_named(struct world *w, const char *name)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    size_t live = 0;
    assert_ok(tsdb_find(w->db, &m, 1, 0, INT64_MAX, 0, &refs));
    for (size_t i = 0; i < refs.len; i++) {
        double v;
        tsdb_latest(w->db, &refs.items[i], 1, INT64_MAX, 0, &v, NULL);
        live += !tsdb_is_stale(v);
    }
    tsdb_refs_finish(&refs);
    return live;
}

static void test_long_texts_pause(void **state)
{
    struct world w = start(&plain);
    struct others o = {.w = &w, .group = tsdb_group_new(w.db), .t = 5000};
    GS_AUTO_BUF struct gs_buf body = {0}, timed = {0}, comments = {0};
    open_target(&w);
    for (int i = 0; i < 3000; i++) {
        gs_buf_addf(&body, "a{b=\"%d\"} %d\n", i, i);
        gs_buf_addf(&timed, "t{b=\"%d\"} %d 9000\n", i, i);
        gs_buf_add_str(&comments, i % 2 ? "# a comment\n" : "\n");
    }
    scrape_ingest_on_pause(w.in, let_others, &o);
    assert_ok(scrape_ingest_text(w.in, gs_buf_slice(&body), NULL, 1000, 0.1));
    assert_true(o.calls >= 10);
    assert_int_equal(count_named(&w, "a"), 3000);
    o.calls = 0;
    assert_ok(scrape_ingest_text(w.in, gs_buf_slice(&comments), NULL, 2000, 0.1));
    assert_true(o.calls >= 10);
    assert_int_equal(count_named(&w, "a"), 0);
    assert_ok(scrape_ingest_text(w.in, gs_buf_slice(&timed), NULL, 10000, 0.1));
    assert_int_equal(count_named(&w, "t"), 3000);
    assert_int_equal(count_named(&w, "other"), 1);
    tsdb_group_free(o.group);
    stop(&w);
    (void)state;
}

static void test_a_stopped_text_leaves_nothing(void **state)
{
    struct world w = start(&plain);
    struct others o = {.w = &w, .group = tsdb_group_new(w.db), .t = 5000, .stop_at = 3};
    GS_AUTO_BUF struct gs_buf body = {0};
    open_target(&w);
    for (int i = 0; i < 3000; i++)
        gs_buf_addf(&body, "a{b=\"%d\"} %d\n", i, i);
    scrape_ingest_on_pause(w.in, let_others, &o);
    assert_error(scrape_ingest_text(w.in, gs_buf_slice(&body), NULL, 1000, 0.1), GS_ECONFLICT, "");
    assert_int_equal(count_named(&w, "a"), 0);
    assert_int_equal(count_named(&w, "up"), 0);
    scrape_ingest_on_pause(w.in, NULL, NULL);
    assert_ok(scrape_ingest_text(w.in, gs_buf_slice(&body), NULL, 2000, 0.1));
    assert_int_equal(count_named(&w, "a"), 3000);
    tsdb_group_free(o.group);
    stop(&w);
    (void)state;
}

static void count_exemplars(void *arg, const struct tsdb_exemplar_series *s,
                            const struct tsdb_exemplar *e, bool is_first)
{
    struct gs_buf *out = arg;
    if (is_first)
        gs_buf_addf(out, GS_SLICE_FMT ":", GS_SLICE_ARG(s->labels[0].value));
    for (size_t i = 0; i < e->n_labels; i++)
        gs_buf_addf(out, " " GS_SLICE_FMT "=" GS_SLICE_FMT, GS_SLICE_ARG(e->labels[i].name),
                    GS_SLICE_ARG(e->labels[i].value));
    gs_buf_addf(out, " %g@%lld;", e->value, (long long)e->t_ms);
}

static void expect_exemplars(struct world *w, const char *expected)
{
    const struct tsdb_exemplar_selector all = {NULL, 0};
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add_str(&out, "");
    tsdb_exemplars_select(w->db, &all, 1, INT64_MIN, INT64_MAX, count_exemplars, &out);
    assert_string_equal(out.data, expected);
}

static void om_text(struct world *w, int64_t t, const char *body)
{
    assert_ok(
        scrape_ingest_text(w->in, gs_slice_of(body), "application/openmetrics-text", t, 0.25));
}

static void test_exemplars(void **state)
{
    struct world w = start(&plain);
    struct scrape_ingest_counts counts;
    open_target(&w);
    om_text(&w, 500, "a_total 1 # {t=\"0\"} 1 0.4\n# EOF\n"); // not stored by default
    tsdb_exemplars_set_max(w.db, 10);
    om_text(&w, 1000,
            "a_total 1 # {t=\"x\\n\"} 0.5\nb_bucket{le=\"1\"} 1 # {} 2 0.9\n"
            "c 1 0.8 # {le=\"1e1\"} 3\nd 1\n# EOF\n");
    expect_exemplars(&w, "a_total: t=x\n 0.5@1000;b_bucket: 2@900;c: le=1e1 3@800;");
    om_text(&w, 2000,
            "a_total 2 # {t=\"y\"} 0.5\na_total 3 # {t=\"z\"} 0.5\nb_bucket{le=\"1\"} 1 "
            "# {} 2 0.8\nc 2 0.8 # {le=\"late\"} 4\n# EOF\n");
    // Not that of a repeated, older or rejected sample.
    expect_exemplars(&w, "a_total: t=x\n 0.5@1000; t=y 0.5@2000;b_bucket: 2@900;c: le=1e1 3@800;");
    scrape_ingest_counts(w.in, &counts);
    assert_int_equal(counts.exemplars_out_of_order, 1);
    stop(&w);
}

static size_t n_exemplars(const struct world *w)
{
    struct tsdb_exemplar_stats s;
    tsdb_exemplars_stats(w->db, &s);
    return s.n;
}

static void test_many_exemplars_pause(void **state)
{
    static const char type[] = "application/openmetrics-text";
    struct world w = start(&plain);
    struct others o = {.w = &w, .group = tsdb_group_new(w.db), .t = 5000};
    GS_AUTO_BUF struct gs_buf body = {0};
    (void)state;
    open_target(&w);
    for (int i = 0; i < 3000; i++)
        gs_buf_addf(&body, "a_total{b=\"%d\"} %d # {t=\"x\"} 0.5\n", i, i);
    gs_buf_add_str(&body, "# EOF\n");
    scrape_ingest_on_pause(w.in, let_others, &o);
    assert_ok(scrape_ingest_text(w.in, gs_buf_slice(&body), type, 1000, 0.1));
    int without = o.calls;
    o.calls = 0;
    tsdb_exemplars_set_max(w.db, 5000);
    assert_ok(scrape_ingest_text(w.in, gs_buf_slice(&body), type, 2000, 0.1));
    assert_true(o.calls >= without + 10);
    assert_int_equal(n_exemplars(&w), 3000);
    o.stop_at = o.calls; // after all lines
    o.calls = 0;
    tsdb_exemplars_set_max(w.db, 0);
    tsdb_exemplars_set_max(w.db, 5000);
    assert_ok(scrape_ingest_text(w.in, gs_buf_slice(&body), type, 3000, 0.1));
    assert_int_equal(count_named(&w, "a_total"), 3000);
    assert_in_range(n_exemplars(&w), 1, 2999);
    tsdb_group_free(o.group);
    stop(&w);
}

static void test_exemplars_of_a_failed_scrape_are_dropped(void **state)
{
    struct world w = start(&plain);
    open_target(&w);
    tsdb_exemplars_set_max(w.db, 10);
    struct gs_error *err =
        scrape_ingest_text(w.in, GS_SLICE("a_total 1 # {t=\"x\"} 0.5\nb{ 1\n# EOF\n"),
                           "application/openmetrics-text", 1000, 0.25);
    assert_non_null(err);
    gs_error_free(err);
    expect_exemplars(&w, "");
    stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exemplars),
        cmocka_unit_test(test_many_exemplars_pause),
        cmocka_unit_test(test_exemplars_of_a_failed_scrape_are_dropped),
        cmocka_unit_test(test_series_come_and_go),
        cmocka_unit_test(test_failures_end_all),
        cmocka_unit_test(test_fallback_protocol),
        cmocka_unit_test(test_conflicting_labels),
        cmocka_unit_test(test_own_timestamps),
        cmocka_unit_test(test_series_with_timestamps_end_when_asked),
        cmocka_unit_test(test_series_that_are_tracked_no_longer_go_on),
        cmocka_unit_test(test_duplicates_are_counted),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_the_stores_series_limit),
        cmocka_unit_test(test_a_series_over_a_limit_costs_only_itself),
        cmocka_unit_test(test_a_series_with_a_time_over_a_limit_costs_only_itself),
        cmocka_unit_test(test_a_target_for_which_the_store_has_no_room),
        cmocka_unit_test(test_metadata_of_gone_families_is_dropped),
        cmocka_unit_test(test_metadata_of_a_series),
        cmocka_unit_test(test_legacy_names),
        cmocka_unit_test(test_metric_relabelling),
        cmocka_unit_test(test_metadata_is_kept),
        cmocka_unit_test(test_targets_with_equal_families),
        cmocka_unit_test(test_random_scrapes),
        cmocka_unit_test(test_numbers_of_gone_series_are_used_again),
        cmocka_unit_test(test_long_texts_pause),
        cmocka_unit_test(test_a_stopped_text_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
