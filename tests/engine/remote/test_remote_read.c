// SPDX-License-Identifier: Apache-2.0
#include "codec/protobuf.h"
#include "unit.h"

#include "base/mem.h"
#include "base/turn.h"
#include "codec/encoding.h"
#include "engine/remote/remote_private.h"
#include "engine/remote/remote_read.h"

#include <stdlib.h>

static const struct metrics_label external[] = {{{"cluster", 7}, {"c", 1}},
                                                {{"site", 4}, {"s", 1}}};

static int set_up(void **state)
{
    static const char *const pods[] = {"a", "b", "b-2"};
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.max_series = 100});
    for (size_t i = 0; i < GS_ARRAY_LEN(pods); i++)
        for (int t = 1; t <= 3; t++) {
            const struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                              {GS_SLICE("cluster"), GS_SLICE("own")},
                                              {GS_SLICE("pod"), gs_slice_of(pods[i])}};
            assert_ok(tsdb_append(db, l, 3, t * 1000, (double)(10 * i) + t));
        }
    *state = db;
    return 0;
}

static int tear_down(void **state)
{
    tsdb_free(*state);
    return 0;
}

static void add_matcher(struct gs_buf *query, uint64_t type, const char *name, const char *value)
{
    GS_AUTO_BUF struct gs_buf m = {0};
    codec_proto_add_varint(&m, 1, type);
    codec_proto_add_bytes(&m, 2, gs_slice_of(name));
    codec_proto_add_bytes(&m, 3, gs_slice_of(value));
    codec_proto_add_bytes(query, 3, gs_buf_slice(&m));
}

// A query from 2 s to 3 s, with one matcher.
static void add_query(struct gs_buf *request, uint64_t type, const char *name, const char *value)
{
    GS_AUTO_BUF struct gs_buf query = {0};
    codec_proto_add_varint(&query, 1, 2000);
    codec_proto_add_varint(&query, 2, 3000);
    add_matcher(&query, type, name, value);
    codec_proto_add_bytes(request, 1, gs_buf_slice(&query));
}

static struct gs_error *read_with(const struct remote_read_options *o, const struct gs_buf *request,
                                  struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf packed = {0}, answer = {0};
    remote_compress(gs_buf_slice(request), &packed);
    struct gs_error *err = remote_read(o, gs_buf_slice(&packed), &answer);
    if (!err)
        err = codec_unsnappy(gs_buf_slice(&answer), (size_t)64 << 20, NULL, NULL, ret);
    return err;
}

static struct gs_slice take(struct gs_slice *message, struct codec_proto_token *t)
{
    assert_ok(codec_proto_next(message, t));
    return t->bytes;
}

static void print_series(struct gs_slice series, struct gs_buf *out)
{
    struct codec_proto_token t, part;
    while (series.len) {
        struct gs_slice message = take(&series, &t);
        while (message.len) {
            struct gs_slice text = take(&message, &part);
            if (t.number == 1)
                gs_buf_addf(out, "%s" GS_SLICE_FMT, part.number == 1 ? " " : "=",
                            GS_SLICE_ARG(text));
            else if (part.number == 1)
                gs_buf_addf(out, " %g", remote_otlp_double_of(text));
            else
                gs_buf_addf(out, "@%llu", (unsigned long long)part.varint);
        }
    }
    gs_buf_add_str(out, ";");
}

static void assert_response(struct tsdb *db, const struct gs_buf *request, const char *expected)
{
    const struct remote_read_options o = {
        .db = db, .external_labels = external, .n_external_labels = 2};
    GS_AUTO_BUF struct gs_buf response = {0}, out = {0};
    struct codec_proto_token t;
    assert_ok(read_with(&o, request, &response));
    struct gs_slice rest = gs_buf_slice(&response);
    gs_buf_add_str(&out, "");
    while (rest.len) {
        struct gs_slice result = take(&rest, &t);
        while (result.len)
            print_series(take(&result, &t), &out);
        gs_buf_add_str(&out, "|");
    }
    assert_string_equal(out.data, expected);
}

static void test_series_with_external_labels(void **state)
{
    GS_AUTO_BUF struct gs_buf request = {0};
    add_query(&request, 0, "pod", "a");
    add_query(&request, 2, "pod", "b.+");
    add_query(&request, 0, "pod", "none");
    assert_response(*state, &request,
                    " __name__=m cluster=own pod=a site=s 2@2000 3@3000;|"
                    " __name__=m cluster=own pod=b-2 site=s 22@2000 23@3000;||");
}

static void test_matchers(void **state)
{
    GS_AUTO_BUF struct gs_buf request = {0}, all = {0};
    add_query(&request, 3, "pod", "a|b");
    add_query(&request, 1, "pod", "b");
    assert_response(*state, &request,
                    " __name__=m cluster=own pod=b-2 site=s 22@2000 23@3000;|"
                    " __name__=m cluster=own pod=a site=s 2@2000 3@3000;"
                    " __name__=m cluster=own pod=b-2 site=s 22@2000 23@3000;|");
    add_query(&all, 0, "site", "s"); // all series have it
    codec_proto_add_varint(&all, 2, 1);
    codec_proto_add_varint(&all, 2, 0);
    assert_response(*state, &all,
                    " __name__=m cluster=own pod=a site=s 2@2000 3@3000;"
                    " __name__=m cluster=own pod=b site=s 12@2000 13@3000;"
                    " __name__=m cluster=own pod=b-2 site=s 22@2000 23@3000;|");
}

static void test_wrong_requests(void **state)
{
    const struct remote_read_options o = {.db = *state};
    GS_AUTO_BUF struct gs_buf chunks = {0}, type = {0}, pattern = {0}, many = {0}, wire = {0},
                              out = {0};
    add_query(&chunks, 0, "pod", "a");
    codec_proto_add_varint(&chunks, 2, 1);
    assert_error(read_with(&o, &chunks, &out), GS_EINVAL, "supported: [SAMPLES]");
    add_query(&type, 4, "pod", "a");
    assert_error(read_with(&o, &type, &out), GS_EINVAL, "invalid matcher type");
    add_query(&pattern, 2, "pod", "(");
    assert_error(read_with(&o, &pattern, &out), GS_EINVAL, "");
    for (int i = 0; i < 65; i++)
        add_query(&many, 0, "pod", "a");
    assert_error(read_with(&o, &many, &out), GS_ELIMIT, "more than 64 queries");
    codec_proto_add_varint(&wire, 1, 5);
    assert_error(read_with(&o, &wire, &out), GS_EINVAL, "wrong wireType");
    assert_error(remote_read(&o, GS_SLICE("nonsense"), &out), GS_EINVAL, "");
    assert_int_equal(out.len, 0);
}

// The parts that are compressed separately are one block.
static void test_long_responses(void **state)
{
    struct tsdb *db = *state;
    GS_AUTO_BUF struct gs_buf request = {0}, query = {0}, response = {0};
    const struct remote_read_options o = {.db = db};
    const struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("long")}};
    struct codec_proto_token t;
    size_t n = 0;
    srand(3);
    for (int i = 0; i < 300000; i++)
        assert_ok(tsdb_append(db, l, 1, INT64_C(100000) + i, rand()));
    codec_proto_add_varint(&query, 2, 100000000);
    add_matcher(&query, 0, "__name__", "long");
    codec_proto_add_bytes(&request, 1, gs_buf_slice(&query));
    assert_ok(read_with(&o, &request, &response));
    struct gs_slice rest = gs_buf_slice(&response), result = take(&rest, &t);
    struct gs_slice series = take(&result, &t);
    for (; series.len; n++)
        take(&series, &t);
    assert_int_equal(n, 300001); // with the label
    assert_true(response.len > 3 << 20);
    for (int i = 0; i < 12; i++)
        codec_proto_add_bytes(&request, 1, gs_buf_slice(&query));
    assert_error(read_with(&o, &request, &response), GS_ELIMIT, "select fewer series");
}

static bool count_pause(void *arg)
{
    ++*(int *)arg;
    return true;
}

// The request paused only once, after all series had been read.
static void test_series_without_samples_do_not_block(void **state)
{
    enum { SERIES = 20000 };
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.max_series = SERIES});
    GS_AUTO_BUF struct gs_buf request = {0}, response = {0};
    int pauses = 0;
    const struct remote_read_options o = {.db = db, .go_on = count_pause, .arg = &pauses};
    (void)state;
    gs_turn_set_ns(0);
    for (int i = 0; i < SERIES; i++) {
        GS_AUTO_FREE char *pod = gs_format("p%d", i);
        const struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                          {GS_SLICE("pod"), gs_slice_of(pod)}};
        assert_ok(tsdb_append(db, l, 2, 1000, 1));
        assert_ok(tsdb_append(db, l, 2, 4000, 1)); // the queries are between them
    }
    for (int i = 0; i < 64; i++)
        add_query(&request, 0, "__name__", "m");
    assert_ok(read_with(&o, &request, &response));
    assert_true(pauses > 1);
    tsdb_free(db);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_series_with_external_labels), TEST(test_matchers),
                                       TEST(test_wrong_requests), TEST(test_long_responses),
                                       TEST(test_series_without_samples_do_not_block)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
