// SPDX-License-Identifier: Apache-2.0
// Messages of remote write 2.0: their bytes, and what the decoder of the receiver reads.
#include "unit.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "engine/remote/send_private.h"

static const struct metrics_label up[] = {{GS_SLICE("__name__"), GS_SLICE("up")},
                                          {GS_SLICE("job"), GS_SLICE("a")}};
static const struct metrics_label trace = {GS_SLICE("trace_id"), GS_SLICE("a")};
static const struct metrics_metadata metadata = {
    .help = GS_SLICE("H"), .unit = GS_SLICE(""), .type_name = "gauge"};

static void end(struct remote_encoder *e, struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf packed = {0};
    remote_encoder_end(e, &packed);
    gs_buf_finish(ret);
    assert_ok(codec_unsnappy(gs_buf_slice(&packed), SIZE_MAX, NULL, NULL, ret));
}

static void encode_up(struct remote_encoder *e)
{
    const struct tsdb_exemplar x = {&trace, 1, 2, 3, true};
    remote_encoder_begin_series(e, up, GS_ARRAY_LEN(up));
    remote_encoder_sample(e, 5, 1);
    remote_encoder_exemplar(e, &x);
    remote_encoder_metadata(e, &metadata);
    remote_encoder_end_series(e);
}

static void test_bytes(void **state)
{
    static const char want[] = "\x22\x00"             // symbols
                               "\x22\x08__name__"     // 1
                               "\x22\x02up"           // 2
                               "\x22\x03job"          // 3
                               "\x22\x01"             // 4
                               "a"                    //
                               "\x22\x08trace_id"     // 5
                               "\x22\x01H"            // 6
                               "\x2a\x2c"             // timeseries
                               "\x0a\x04\x01\x02\x03" // labels_refs
                               "\x04"
                               "\x12\x0b\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x05" // samples
                               "\x22\x0f\x0a\x02\x05\x04"                             // exemplars
                               "\x11\x00\x00\x00\x00\x00\x00\x00\x40\x18\x03"
                               "\x2a\x06\x08\x02\x18\x06\x20"; // metadata, and a 0
    struct remote_encoder e = {0};
    GS_AUTO_BUF struct gs_buf got = {0};
    remote_encoder_begin(&e);
    assert_true(remote_encoder_is_empty(&e));
    encode_up(&e);
    assert_false(remote_encoder_is_empty(&e));
    end(&e, &got);
    assert_int_equal(got.len, sizeof(want));
    assert_memory_equal(got.data, want, sizeof(want));
    remote_encoder_begin(&e); // no symbol is left over
    assert_true(remote_encoder_is_empty(&e));
    end(&e, &got);
    assert_int_equal(got.len, 2);
    remote_encoder_finish(&e);
}

static void assert_labels(const struct metrics_label *got, size_t n,
                          const struct metrics_label *want, size_t n_want)
{
    assert_int_equal(n, n_want);
    for (size_t i = 0; i < n; i++)
        assert_true(gs_slice_eq(got[i].name, want[i].name) &&
                    gs_slice_eq(got[i].value, want[i].value));
}

static void test_the_receiver_reads_it(void **state)
{
    enum { SERIES = 300 };
    struct remote_encoder e = {0};
    struct remote_decoder d;
    struct remote_decoder_series s;
    struct remote_decoder_exemplar x;
    GS_AUTO_BUF struct gs_buf message = {0};
    struct metrics_label labels[REMOTE_MAX_LABELS];
    const double stale = tsdb_stale_marker();
    size_t n, i = 0;
    int64_t t;
    double v;
    bool more;
    remote_encoder_begin(&e);
    encode_up(&e);
    for (int k = 0; k < SERIES; k++) { // references of two bytes
        char id[16];
        (void)snprintf(id, sizeof(id), "%d", k);
        const struct metrics_label own[] = {up[0], {GS_SLICE("id"), gs_slice_of(id)}};
        remote_encoder_begin_series(&e, own, 2);
        remote_encoder_sample(&e, -1, k);
        remote_encoder_sample(&e, INT64_MAX, stale);
        remote_encoder_end_series(&e);
    }
    end(&e, &message);
    assert_ok(remote_decoder_init(&d, true, gs_buf_slice(&message), NULL, NULL));
    assert_ok(remote_decoder_next(&d, &s, &more));
    assert_labels(s.labels, s.n_labels, up, GS_ARRAY_LEN(up));
    assert_true(s.has_metadata && s.n_samples == 1 && s.n_exemplars == 1);
    assert_true(remote_decoder_sample(&d, &s, &t, &v) && t == 5 && v == 1);
    assert_true(remote_decoder_exemplar(&d, &s, &x) && x.t_ms == 3 && x.value == 2);
    assert_ok(remote_decoder_exemplar_labels(&d, &x, labels, &n));
    assert_labels(labels, n, &trace, 1);
    remote_decoder_series_finish(&s);
    while (true) {
        assert_ok(remote_decoder_next(&d, &s, &more));
        if (!more)
            break;
        assert_true(!s.labels_error && !s.metadata_error && !s.has_metadata);
        assert_true(s.n_labels == 2 && gs_slice_eq_str(s.labels[1].name, "id"));
        assert_true(remote_decoder_sample(&d, &s, &t, &v) && t == -1 && v == (double)i);
        assert_true(remote_decoder_sample(&d, &s, &t, &v) && t == INT64_MAX);
        assert_memory_equal(&v, &stale, sizeof(v));
        assert_false(remote_decoder_sample(&d, &s, &t, &v));
        remote_decoder_series_finish(&s);
        i++;
    }
    assert_int_equal(i, SERIES);
    remote_decoder_finish(&d);
    remote_encoder_finish(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_the_receiver_reads_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
