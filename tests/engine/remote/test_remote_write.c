// SPDX-License-Identifier: Apache-2.0
// remote_write to a simulated receiver that fails at times: the received samples are decoded and
// compared with the appended ones.
#include "sender.h"

static void compare(struct fixture *f)
{
    struct tsdb_refs mine = {0};
    struct tsdb_samples a = {0}, b = {0};
    assert_int_equal(f->refused, 0);
    assert_int_equal(tsdb_series_count(f->db), tsdb_series_count(f->received));
    assert_ok(tsdb_find(f->db, NULL, 0, INT64_MIN, INT64_MAX, 0, &mine));
    for (size_t i = 0; i < mine.len; i++) {
        const struct metrics_label want[] = {
            {GS_SLICE("__name__"), GS_SLICE("m")},
            {GS_SLICE("cluster"), GS_SLICE("c")},
            {GS_SLICE("id"), tsdb_series_label(f->db, mine.items[i], "id")}};
        tsdb_ref theirs;
        assert_ok(tsdb_series_get(f->received, want, 3, &theirs));
        tsdb_read(f->db, mine.items[i], INT64_MIN, INT64_MAX, &a);
        tsdb_read(f->received, theirs, INT64_MIN, INT64_MAX, &b);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.t, b.t, a.n * sizeof(*a.t));
        assert_memory_equal(a.v, b.v, a.n * sizeof(*a.v)); // stale markers bit by bit
    }
    assert_int_equal(tsdb_series_count(f->db), tsdb_series_count(f->received));
    tsdb_refs_finish(&mine);
    tsdb_samples_finish(&a);
    tsdb_samples_finish(&b);
}

static size_t n_samples(struct tsdb *db)
{
    struct tsdb_refs refs = {0};
    struct tsdb_samples of = {0};
    size_t n = 0;
    assert_ok(tsdb_find(db, NULL, 0, INT64_MIN, INT64_MAX, 0, &refs));
    for (size_t i = 0; i < refs.len; i++) {
        tsdb_read(db, refs.items[i], INT64_MIN, INT64_MAX, &of);
        n += of.n;
    }
    tsdb_refs_finish(&refs);
    tsdb_samples_finish(&of);
    return n;
}

static void test_nothing_is_lost_while_the_receiver_is_away(void **state)
{
    struct fixture *f = *state;
    int64_t now = gs_unix_ms() + 1000;
    append(f, 1000, now - 60000, 1); // before the start: not sent
    start(f);
    append(f, 1000, now, 2);
    for (int s = 0; s < 50; s++)
        for (int i = 0; i < 3; i++)
            append(f, s, now + i, s * 10 + i);
    run_until_is(f, &f->samples, 151);
    f->status = 503;
    for (int s = 0; s < 50; s++)
        for (int i = 3; i < 60; i++)
            append(f, s, now + i, i == 59 ? tsdb_stale_marker() : s * 10 + i);
    run_until_is(f, &f->requests, f->requests + 5);
    assert_int_equal(f->samples, 151);
    for (int s = 50; s < 60; s++) // series that were created meanwhile
        append(f, s, now, s);
    f->status = 0;
    run_until_is(f, &f->samples, 151 + 50 * 57 + 10);
    run_for(f, 200);
    assert_int_equal(f->samples, 151 + 50 * 57 + 10); // no sample was sent twice
    const struct metrics_label old[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                        {GS_SLICE("cluster"), GS_SLICE("c")},
                                        {GS_SLICE("id"), GS_SLICE("1000")}};
    // For the comparison: the sample before the start.
    struct tsdb_samples got = {0};
    tsdb_ref ref;
    assert_ok(tsdb_series_get(f->received, old, 3, &ref));
    tsdb_read(f->received, ref, INT64_MIN, INT64_MAX, &got);
    assert_int_equal(got.n, 1);
    assert_true(got.t[0] == now && got.v[0] == 2);
    tsdb_samples_finish(&got);
}

static void test_all_samples_are_equal(void **state)
{
    struct fixture *f = *state;
    start(f);
    int64_t now = gs_unix_ms() + 1000;
    for (int round = 0; round < 20; round++) {
        f->status = round % 5 == 3 ? 500 : 0;
        for (int s = 0; s < 40 + round; s++)
            append(f, s, now + round, (round * 7 + s) % 11 == 0 ? tsdb_stale_marker() : s / 3.0);
        run_for(f, 30);
    }
    f->status = 0;
    run_until_is(f, &f->samples, n_samples(f->db));
    compare(f);
}

static void test_retry_after_is_honoured(void **state)
{
    struct fixture *f = *state;
    start(f);
    append(f, 1, gs_unix_ms() + 1000, 1);
    f->status = 429;
    f->retry_after = "1";
    run_until_is(f, &f->requests, 1);
    f->status = 0;
    run_until_is(f, &f->samples, 1);
    assert_int_equal(f->requests, 2);
    assert_true(f->longest_gap_ns > 900 * GS_NS_PER_MS);
}

static void test_what_is_refused_is_dropped(void **state)
{
    struct fixture *f = *state;
    int64_t now = gs_unix_ms() + 1000;
    start(f);
    append(f, 1, now, 1);
    f->status = 400;
    run_until_is(f, &f->requests, 1);
    f->status = 0;
    append(f, 1, now + 1, 2);
    run_until_is(f, &f->samples, 1);
    assert_int_equal(f->requests, 2);
    GS_AUTO_BUF struct gs_buf text = {0};
    remote_write_metrics(f->w, &text);
    assert_non_null(strstr(text.data, "samples_failed_total{remote_name=\"\",url="));
    GS_AUTO_FREE char *failed = gs_format(
        "prometheus_remote_storage_samples_failed_total{remote_name=\"\",url=\"%s\"} 1\n", f->url);
    assert_non_null(strstr(text.data, failed));
}

// Unsent samples are sent with the new configuration.
static void test_a_reload_loses_nothing(void **state)
{
    struct fixture *f = *state;
    start(f);
    int64_t now = gs_unix_ms() + 1000;
    f->status = 503;
    for (int s = 0; s < 50; s++)
        for (int i = 0; i < 10; i++)
            append(f, s, now + i, s + i);
    run_until_is(f, &f->requests, 1);
    struct engine_config_remote_write_config other = f->cfg, later = f->cfg;
    other.url = "http://127.0.0.1:1/";
    assert_false(remote_write_is(f->w, &other));
    assert_true(remote_write_is(f->w, &later));
    later.max_samples_per_send = 200;
    later.http = (struct endpoint_settings){.user.text = "u"};
    remote_write_reconfigure(f->w, &later, external, GS_ARRAY_LEN(external));
    f->cfg = (struct engine_config_remote_write_config){0}; // not used any more
    run_for(f, 100);
    f->status = 0;
    run_until_is(f, &f->samples, 500);
    run_for(f, 200);
    compare(f);
    remote_write_free(f->w);
    f->w = NULL;
}

static void on_flushed(void *arg)
{
    struct fixture *f = arg;
    f->times_up = true;
}

static void test_a_flush_sends_all_at_once(void **state)
{
    struct fixture *f = *state;
    f->cfg.batch_deadline_ms = 3600000; // no batch is sent before the deadline
    start(f);
    int64_t now = gs_unix_ms() + 1000;
    for (int s = 0; s < 50; s++)
        for (int i = 0; i < 10; i++)
            append(f, s, now + i, s + i);
    run_for(f, 100);
    assert_int_equal(f->requests, 0);
    f->times_up = false;
    uv_timer_start(&f->clock, on_time, WAIT_MS, 0);
    remote_write_flush(f->w, on_flushed, f);
    while (!f->times_up)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->samples, 500);
    compare(f);
}

// A flush includes samples that are appended during a sync.
static void test_a_flush_within_a_turn_waits_for_the_next_one(void **state)
{
    struct fixture *f = *state;
    start(f);
    int64_t now = gs_unix_ms() + 1000;
    for (int s = 0; s < 50; s++)
        for (int i = 0; i < 10; i++)
            append(f, s, now + i, s + i);
    f->status = 503;
    run_until_is(f, &f->requests, 2); // the first batch has failed
    for (int s = 0; s < 50; s++)
        append(f, s, now + 10, 10);
    f->status = 0;
    f->times_up = false;
    uv_timer_start(&f->clock, on_time, WAIT_MS, 0);
    remote_write_flush(f->w, on_flushed, f);
    while (!f->times_up)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->samples, 550);
    compare(f);
}

// Samples that relabeling drops use no space in a batch, even if it is almost full.
static void test_dropped_series_take_no_room(void **state)
{
    struct fixture *f = *state;
    struct engine_config *parsed = NULL;
    assert_ok(engine_config_parse(
        GS_SLICE("remote_write: [{url: 'http://h', write_relabel_configs: [{source_labels: [id], "
                 "regex: '2', action: drop}]}]"),
        "c", ".", &parsed));
    f->cfg.write_relabel = parsed->remote_writes[0].write_relabel;
    start(f);
    int64_t now = gs_unix_ms() + 1000;
    static const int samples[] = {30, 20, 5}; // of 37 in a batch
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < samples[s]; i++)
            append(f, s + 1, now + i, i);
    run_until_is(f, &f->samples, 35);
    GS_AUTO_FREE char *line = gs_format(",remote_name=\"\",url=\"%s\"} 20\n", f->url);
    assert_true(tells(f, line));
    remote_write_free(f->w);
    f->w = NULL;
    engine_config_free(parsed);
}

static void test_samples_that_became_too_old_are_left_out(void **state)
{
    struct fixture *f = *state;
    f->cfg.age_limit_ms = 300;
    f->status = 503;
    start(f);
    int64_t now = gs_unix_ms() + 1;
    for (int i = 0; i < 100; i++)
        append(f, 1, now + i, i);
    GS_AUTO_FREE char *line =
        gs_format("reason=\"too_old\",remote_name=\"\",url=\"%s\"} 100\n", f->url);
    for (int i = 0; i < WAIT_MS / 50 && !tells(f, line); i++)
        run_for(f, 50);
    assert_true(tells(f, line));
    f->status = 0;
    append(f, 1, now + WAIT_MS, 1);
    run_until_is(f, &f->samples, 1);
}

static void test_exemplars_are_sent(void **state)
{
    struct fixture *f = *state;
    int64_t now = gs_unix_ms();
    f->receiver = remote_receiver_new(f->received, REMOTE_MESSAGE_V1, 0, 0);
    f->cfg.send_exemplars = true;
    f->cfg.max_samples_per_send = 3;
    tsdb_exemplars_set_max(f->db, 100);
    tsdb_exemplars_set_max(f->received, 100);
    append(f, 0, now - 1000, 1);
    add_exemplar(f, 0, now - 1, "before"); // is not sent
    start(f);
    for (int i = 1; i < 5; i++) {
        append(f, i, now + 1000, i);
        add_exemplar(f, i, now + i, "a");
    }
    add_exemplar(f, 1, now + 5, "b");
    run_until_is(f, &f->samples, 9);
    GS_AUTO_FREE char *got = received_exemplars(f);
    assert_string_equal(got, "__name__=m cluster=c id=1 trace_id=a 0.5;trace_id=b 0.5;"
                             "__name__=m cluster=c id=2 trace_id=a 0.5;"
                             "__name__=m cluster=c id=3 trace_id=a 0.5;"
                             "__name__=m cluster=c id=4 trace_id=a 0.5;");
    GS_AUTO_FREE char *line = gs_format(
        "prometheus_remote_storage_exemplars_total{remote_name=\"\",url=\"%s\"} 5\n", f->url);
    f->times_up = false;
    uv_timer_start(&f->clock, on_time, WAIT_MS, 0);
    while (!f->times_up && !tells(f, line)) // the sender receives the last response
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_timer_stop(&f->clock);
    assert_true(tells(f, line));
}

// A series with an exemplar begins while a request is in progress.
static void append_with_exemplar(struct fixture *f)
{
    int64_t now = gs_unix_ms();
    f->on_request = NULL;
    append(f, 2, now + 1000, 2);
    add_exemplar(f, 2, now, "b");
}

static void test_exemplars_follow_the_first_sample_of_their_series(void **state)
{
    struct fixture *f = *state;
    f->receiver = remote_receiver_new(f->received, REMOTE_MESSAGE_V1, 0, 0);
    f->cfg.send_exemplars = true;
    f->on_request = append_with_exemplar;
    tsdb_exemplars_set_max(f->db, 100);
    tsdb_exemplars_set_max(f->received, 100);
    start(f);
    append(f, 1, gs_unix_ms() + 1000, 1);
    run_until_is(f, &f->samples, 3);
    assert_int_equal(f->exemplars_without_samples, 0);
    GS_AUTO_FREE char *got = received_exemplars(f);
    assert_string_equal(got, "__name__=m cluster=c id=2 trace_id=b 0.5;");
}

static void test_exemplars_are_not_sent_by_default(void **state)
{
    struct fixture *f = *state;
    int64_t now = gs_unix_ms();
    f->receiver = remote_receiver_new(f->received, REMOTE_MESSAGE_V1, 0, 0);
    tsdb_exemplars_set_max(f->db, 100);
    tsdb_exemplars_set_max(f->received, 100);
    start(f);
    add_exemplar(f, 1, now, "a");
    append(f, 1, now + 1000, 1);
    run_until_is(f, &f->samples, 1);
    GS_AUTO_FREE char *got = received_exemplars(f);
    assert_string_equal(got, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_exemplars_are_sent),
        TEST(test_exemplars_follow_the_first_sample_of_their_series),
        TEST(test_exemplars_are_not_sent_by_default),
        TEST(test_nothing_is_lost_while_the_receiver_is_away),
        TEST(test_all_samples_are_equal),
        TEST(test_retry_after_is_honoured),
        TEST(test_what_is_refused_is_dropped),
        TEST(test_a_reload_loses_nothing),
        TEST(test_a_flush_sends_all_at_once),
        TEST(test_a_flush_within_a_turn_waits_for_the_next_one),
        TEST(test_dropped_series_take_no_room),
        TEST(test_samples_that_became_too_old_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
