// SPDX-License-Identifier: Apache-2.0
// Remote write 2.0, and what the sender does with the responses of receivers of both versions.
#include "base/log.h"
#include "engine/remote/remote_private.h"
#include "sender.h"

static bool find_metadata(void *arg, struct gs_slice metric, struct metrics_metadata *ret)
{
    ++*(size_t *)arg;
    if (!gs_slice_eq_str(metric, "m"))
        return false;
    *ret = (struct metrics_metadata){
        .help = GS_SLICE("Help."), .unit = GS_SLICE("u"), .type_name = "counter"};
    return true;
}

static void wait_for(struct fixture *f, const char *name, const char *labels, unsigned value)
{
    GS_AUTO_FREE char *line =
        gs_format("prometheus_remote_storage_%s{%sremote_name=\"\",url=\"%s\"} %u\n", name, labels,
                  f->url, value);
    f->times_up = false;
    uv_timer_start(&f->clock, on_time, WAIT_MS, 0);
    while (!f->times_up && !tells(f, line))
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_timer_stop(&f->clock);
    assert_true(tells(f, line));
}

static void keep_exemplars(struct fixture *f)
{
    tsdb_exemplars_set_max(f->db, 100);
    tsdb_exemplars_set_max(f->received, 100);
    f->cfg.send_exemplars = true;
    f->receiver = remote_receiver_new(f->received, REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2, 0, 0);
}

// Prometheus refuses series without samples.
static void check_that_all_series_have_samples(struct fixture *f)
{
    struct remote_decoder d;
    struct remote_decoder_series s;
    bool more;
    assert_true(f->v2);
    assert_ok(remote_decoder_init(&d, true, gs_buf_slice(&f->message), NULL, NULL));
    for (;;) {
        assert_ok(remote_decoder_next(&d, &s, &more));
        if (!more)
            break;
        assert_true(s.n_samples > 0 && s.has_metadata);
        remote_decoder_series_finish(&s);
    }
    remote_decoder_finish(&d);
}

static void test_samples_exemplars_and_metadata_arrive(void **state)
{
    struct fixture *f = *state;
    size_t lookups = 0;
    int64_t now = gs_unix_ms();
    keep_exemplars(f);
    f->cfg.v2 = true;
    f->cfg.max_samples_per_send = 3;
    f->on_request = check_that_all_series_have_samples;
    append(f, 0, now - 1000, 1);
    add_exemplar(f, 0, now - 1, "before"); // is not sent
    start(f);
    remote_write_set_metadata(f->w, find_metadata, &lookups);
    for (int i = 1; i < 8; i++) {
        append(f, i, now + 1000, i);
        add_exemplar(f, i, now + i, "a");
    }
    append(f, 0, now + 1000, tsdb_stale_marker());
    add_exemplar(f, 1, now + 5, "b");
    run_until_is(f, &f->samples, 16);
    GS_AUTO_FREE char *got = received_exemplars(f);
    assert_non_null(strstr(got, "__name__=m cluster=c id=1 trace_id=a 0.5;trace_id=b 0.5;"
                                "__name__=m cluster=c id=2 trace_id=a 0.5;"));
    assert_null(strstr(got, "before"));
    assert_non_null(memmem(f->message.data, f->message.len, "Help.", 5));
    wait_for(f, "samples_total", "", 8);
    wait_for(f, "exemplars_total", "", 8);
    wait_for(f, "exemplars_failed_total", "", 0);
    assert_int_equal(lookups, 1);
    // The next sync sends none of them again.
    append(f, 1, now + 2000, 1);
    add_exemplar(f, 1, now + 2000, "c");
    run_until_is(f, &f->samples, 18);
    wait_for(f, "exemplars_total", "", 9);
}

static void test_an_exemplar_without_a_new_sample_is_sent_alone(void **state)
{
    struct fixture *f = *state;
    int64_t now = gs_unix_ms();
    keep_exemplars(f);
    f->cfg.v2 = true;
    start(f);
    append(f, 1, now + 1000, 1);
    run_until_is(f, &f->samples, 1);
    wait_for(f, "samples_total", "", 1);
    add_exemplar(f, 1, now, "a");
    run_until_is(f, &f->samples, 2);
    GS_AUTO_FREE char *got = received_exemplars(f);
    assert_string_equal(got, "__name__=m cluster=c id=1 trace_id=a 0.5;");
}

// More exemplars of a series than a batch can have.
static void test_exemplars_above_the_size_of_a_batch(void **state)
{
    struct fixture *f = *state;
    int64_t now = gs_unix_ms();
    keep_exemplars(f);
    f->cfg.v2 = true;
    f->cfg.max_samples_per_send = 4;
    start(f);
    append(f, 1, now + 1000, 1);
    for (int i = 0; i < 30; i++) {
        GS_AUTO_FREE char *id = gs_format("t%d", i);
        add_exemplar(f, 1, now + i, id);
    }
    run_until_is(f, &f->samples, 31);
    wait_for(f, "exemplars_total", "", 30);
}

// Each call with a later time.
static void append_some(struct fixture *f)
{
    static int64_t last;
    int64_t now = gs_unix_ms() + 1000;
    if (now <= last)
        now = last + 1;
    last = now;
    for (int i = 0; i < 5; i++)
        append(f, i, now, i);
}

static void test_partial_writes(void **state)
{
    static const struct {
        bool v2;
        int status;
        const char *written;
        unsigned sent, failed;
    } cases[] = {
        {true, 400, "2", 2, 3},
        {true, 403, NULL, 0, 5},
        {true, 413, NULL, 0, 5},
        {true, 204, "5", 5, 0},
        {true, 204, "3", 3, 2},
        {true, 204, "0", 0, 5},
        {true, 204, "-1", 0, 5},
        {true, 204, "x", 0, 5},
        {true, 204, "18446744073709551615", 5, 0},
        {true, 204, "18446744073709551616", 0, 5},
        {true, 429, "1", 1, 4},
        {false, 204, NULL, 5, 0},
        {false, 204, "4", 4, 1},
        {false, 400, "4", 4, 1},
        {false, 429, NULL, 0, 5},
    };
    struct fixture *f = *state;
    unsigned sent = 0, failed = 0;
    f->cfg.retry_429 = false;
    start(f);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        size_t requests = f->requests;
        f->cfg.v2 = cases[i].v2;
        f->status = cases[i].status;
        f->samples_written = cases[i].written;
        sent += cases[i].sent;
        failed += cases[i].failed;
        append_some(f);
        wait_for(f, "samples_failed_total", "", failed);
        wait_for(f, "samples_total", "", sent);
        assert_int_equal(f->requests, requests + 1);
        assert_int_equal(f->v2, cases[i].v2);
    }
    wait_for(f, "samples_retried_total", "", 0);
}

// --- receivers without 2.0 ---

static size_t n_series(const struct tsdb *db)
{
    struct tsdb_stats stats;
    tsdb_stats(db, &stats);
    return stats.series;
}

static void test_a_receiver_of_1_0_gets_every_sample(void **state)
{
    // Those that accept 2.0 read an empty message.
    static const int statuses[] = {415, 400, 404, 405, 406, 422, 501, 200, 202, 204};
    struct fixture *f = *state;
    keep_exemplars(f);
    f->cfg.v2 = true;
    f->cfg.max_samples_per_send = 3;
    start(f);
    unsigned sent = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(statuses); i++) {
        size_t before = f->requests;
        f->v2_status = statuses[i];
        remote_write_reconfigure(f->w, &f->cfg, external, GS_ARRAY_LEN(external));
        assert_true(tells(f, ",version=\"2.0\"} 1\n"));
        append_some(f);
        sent += 5;
        wait_for(f, "samples_total", "", sent);
        assert_int_equal(f->requests, before + 3); // refused, and two batches of 1.0
        assert_false(f->v2);
        assert_true(tells(f, ",version=\"1.0\"} 1\n"));
        // 2.0 is not tried again.
        append_some(f);
        sent += 5;
        wait_for(f, "samples_total", "", sent);
        assert_int_equal(f->requests, before + 5);
    }
    wait_for(f, "samples_failed_total", "", 0);
    wait_for(f, "samples_retried_total", "", 0);
    assert_int_equal(n_series(f->received), n_series(f->db));
    assert_int_equal(f->samples, sent);
    // The receiver was replaced.
    f->v2_status = 0;
    remote_write_reconfigure(f->w, &f->cfg, external, GS_ARRAY_LEN(external));
    append_some(f);
    wait_for(f, "samples_total", "", sent + 5);
    assert_true(f->v2);
    assert_true(tells(f, ",version=\"2.0\"} 1\n"));
}

// What relabeling drops is counted once, and exemplars arrive once.
static void test_a_batch_that_is_sent_in_1_0_is_counted_once(void **state)
{
    struct fixture *f = *state;
    struct engine_config *parsed = NULL;
    int64_t now = gs_unix_ms();
    assert_ok(engine_config_parse(
        GS_SLICE("remote_write: [{url: 'http://h', write_relabel_configs: [{source_labels: [id], "
                 "regex: '3', action: drop}]}]"),
        "c", ".", &parsed));
    keep_exemplars(f);
    f->cfg.write_relabel = parsed->remote_writes[0].write_relabel;
    f->cfg.v2 = true;
    f->v2_status = 415;
    start(f);
    for (int i = 1; i < 5; i++) {
        append(f, i, now + 1000, i);
        add_exemplar(f, i, now, "a");
    }
    wait_for(f, "samples_total", "", 3);
    wait_for(f, "exemplars_total", "", 3);
    wait_for(f, "samples_dropped_total", "reason=\"dropped_series\",", 1);
    wait_for(f, "exemplars_dropped_total", "reason=\"dropped_series\",", 1);
    wait_for(f, "exemplars_dropped_total", "reason=\"too_old\",", 0);
    GS_AUTO_FREE char *got = received_exemplars(f);
    assert_string_equal(got, "__name__=m cluster=c id=1 trace_id=a 0.5;"
                             "__name__=m cluster=c id=2 trace_id=a 0.5;"
                             "__name__=m cluster=c id=4 trace_id=a 0.5;");
    remote_write_free(f->w);
    f->w = NULL;
    engine_config_free(parsed);
}

static void wait_for_refused(struct fixture *f, const char *reason, unsigned value)
{
    GS_AUTO_FREE char *line =
        gs_format("gpuscale_remote_write_refused_samples_total{reason=\"%s\",remote_name=\"\","
                  "url=\"%s\"} %u\n",
                  reason, f->url, value);
    f->times_up = false;
    uv_timer_start(&f->clock, on_time, WAIT_MS, 0);
    while (!f->times_up && !tells(f, line))
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_timer_stop(&f->clock);
    assert_true(tells(f, line));
}

static void count_line(void *arg, const char *line, size_t len)
{
    *(size_t *)arg += memmem(line, len, "dropped", 7) != NULL;
}

// A wrong address: both versions are refused. The next batch begins with 2.0 again.
static void test_what_both_versions_refuse_has_a_reason_and_one_line(void **state)
{
    struct fixture *f = *state;
    size_t lines = 0;
    f->cfg.v2 = true;
    f->status = 404;
    gs_log_set_sink(count_line, &lines);
    start(f);
    for (unsigned i = 1; i <= 20; i++) {
        append_some(f);
        wait_for_refused(f, "not_found", i * 5);
        assert_int_equal(f->requests, i * 2);
        assert_false(f->v2);
    }
    f->status = 400;
    append_some(f);
    wait_for_refused(f, "bad_request", 5);
    wait_for_refused(f, "not_found", 100);
    wait_for(f, "samples_failed_total", "", 105);
    gs_log_set_sink(NULL, NULL);
    assert_int_equal(lines, 1);
}

// The first request has written a part, the second one the rest.
static void test_repeated_requests_add_up(void **state)
{
    struct fixture *f = *state;
    f->cfg.v2 = true;
    f->status = 503;
    f->samples_written = "2";
    start(f);
    append_some(f);
    run_until_is(f, &f->requests, 1);
    f->status = 204;
    wait_for(f, "samples_total", "", 4);
    wait_for(f, "samples_failed_total", "", 1);
    wait_for(f, "samples_retried_total", "", 5);
}

// A batch is sent in the version in which it was written.
static void test_another_version_after_a_reload(void **state)
{
    struct fixture *f = *state;
    f->status = 503;
    start(f);
    append_some(f);
    run_until_is(f, &f->requests, 1);
    struct engine_config_remote_write_config later = f->cfg;
    later.v2 = true;
    remote_write_reconfigure(f->w, &later, external, GS_ARRAY_LEN(external));
    f->receiver = remote_receiver_new(f->received, REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2, 0, 0);
    f->status = 0;
    run_until_is(f, &f->samples, 5);
    assert_false(f->v2);
    append(f, 6, gs_unix_ms() + 1000, 1);
    run_until_is(f, &f->samples, 6);
    assert_true(f->v2);
    remote_write_free(f->w);
    f->w = NULL;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_samples_exemplars_and_metadata_arrive),
        TEST(test_an_exemplar_without_a_new_sample_is_sent_alone),
        TEST(test_exemplars_above_the_size_of_a_batch),
        TEST(test_partial_writes),
        TEST(test_a_receiver_of_1_0_gets_every_sample),
        TEST(test_a_batch_that_is_sent_in_1_0_is_counted_once),
        TEST(test_what_both_versions_refuse_has_a_reason_and_one_line),
        TEST(test_repeated_requests_add_up),
        TEST(test_another_version_after_a_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
