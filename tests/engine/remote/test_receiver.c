// SPDX-License-Identifier: Apache-2.0
// Received remote writes: what is stored, and what is refused with which text.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/turn.h"
#include "engine/remote/receiver.h"
#include "messages.h"
#include "tsdb/exemplars.h"

struct fixture {
    struct tsdb *db;
    struct remote_receiver *r;
    struct remote_receiver_reply reply;
    int64_t now;
};

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    f->db = tsdb_new(&(struct tsdb_config){.retention_ms = 3600000, .max_series = 1000});
    f->r = remote_receiver_new(f->db, REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2, 3600000, 0);
    f->now = gs_unix_ms();
    gs_turn_set_ns(0); // it pauses wherever it can
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    gs_buf_finish(&f->reply.text);
    remote_receiver_free(f->r);
    tsdb_free(f->db);
    free(f);
    return 0;
}

static void send_with(struct fixture *f, const struct remote_receiver_request *more,
                      const struct gs_buf *message)
{
    GS_AUTO_BUF struct gs_buf packed = {0};
    remote_compress(gs_buf_slice(message), &packed);
    struct remote_receiver_request q = *more;
    q.peer = "test";
    q.content_encoding = "snappy";
    q.body = gs_buf_slice(&packed);
    gs_buf_finish(&f->reply.text);
    remote_receiver_write(f->r, &q, &f->reply);
}

static void send_v1(struct fixture *f, const struct gs_buf *message)
{
    send_with(f, &(struct remote_receiver_request){0}, message);
}

static void send_v2(struct fixture *f, const struct gs_buf *message)
{
    send_with(f, &(struct remote_receiver_request){.content_type = V2_TYPE}, message);
}

static void assert_reply(const struct fixture *f, int status, const char *text)
{
    assert_string_equal(f->reply.text.data ? f->reply.text.data : "", text);
    assert_int_equal(f->reply.status, status);
}

static size_t count(const struct fixture *f)
{
    struct tsdb_stats s;
    tsdb_stats(f->db, &s);
    return s.samples_appended;
}

static void assert_latest(struct fixture *f, const char *name, int64_t t_ms, double v)
{
    struct tsdb_refs refs = {0};
    const struct metrics_label label = {GS_SLICE("__name__"), gs_slice_of(name)};
    tsdb_ref ref;
    double got;
    int64_t at;
    assert_ok(tsdb_series_get(f->db, &label, 1, &ref));
    tsdb_latest(f->db, &ref, 1, INT64_MAX, INT64_MIN, &got, &at);
    assert_memory_equal(&got, &v, sizeof(v)); // a stale marker, too
    assert_int_equal(at, t_ms);
    tsdb_refs_finish(&refs);
}

static void add_v1(struct gs_buf *message, const char *name, const char *label, int64_t t, double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(name)},
                                           {gs_slice_of(label), GS_SLICE("x")}};
    remote_encode_series(message, labels, *label ? 2 : 1, &t, &v, 1);
}

// --- 1.0 ---

static void test_v1(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0}, end = {0};
    add_v1(&m, "a", "", f->now, 1.5);
    add_v1(&m, "b", "", f->now - 10, 2);
    codec_proto_add_bytes(&m, 3, GS_SLICE("\x08\x02")); // metadata
    codec_proto_add_bytes(&m, 77, GS_SLICE("a later version"));
    send_v1(f, &m);
    assert_reply(f, 204, "");
    assert_false(f->reply.has_counts);
    assert_latest(f, "a", f->now, 1.5);
    assert_latest(f, "b", f->now - 10, 2);
    send_v1(f, &m); // a retry
    assert_reply(f, 204, "");
    assert_int_equal(count(f), 2);
    add_v1(&end, "a", "", f->now + 5, tsdb_stale_marker());
    send_v1(f, &end);
    assert_reply(f, 204, "");
    assert_latest(f, "a", f->now + 5, tsdb_stale_marker());
}

// The valid samples of a request are stored.
static void test_v1_refused_samples(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf first = {0}, second = {0}, third = {0};
    add_v1(&first, "a", "", f->now, 1);
    send_v1(f, &first);
    add_v1(&second, "a", "", f->now, 2);
    add_v1(&second, "b", "", f->now, 3);
    add_v1(&second, "a", "", f->now - 1, 3);
    send_v1(f, &second);
    GS_AUTO_FREE char *text = gs_format("duplicate sample for timestamp %lld; overrides not "
                                        "allowed: existing 1, new value 2",
                                        (long long)f->now);
    assert_reply(f, 400, text);
    assert_latest(f, "b", f->now, 3);
    add_v1(&third, "a", "", f->now - 1, 3);
    send_v1(f, &third);
    assert_reply(f, 400, "out of order sample");
}

static void test_v1_out_of_bounds(void **state)
{
    struct fixture *f = *state;
    const struct {
        int64_t t_ms;
        const char *text;
    } cases[] = {
        {f->now + 700000, "out of bounds: timestamp is too far in the future"},
        {INT64_MAX, "out of bounds: timestamp is too far in the future"},
        {f->now - 3700000, "out of bounds"},
        {0, "out of bounds"},
        {INT64_MIN, "out of bounds"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf m = {0};
        add_v1(&m, "a", "", cases[i].t_ms, 1);
        send_v1(f, &m);
        assert_reply(f, 400, cases[i].text);
    }
    assert_int_equal(count(f), 0);
}

// As in Prometheus, series with wrong labels are ignored.
static void test_v1_wrong_labels(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    const double v = 1;
    const struct metrics_label nameless = {GS_SLICE("a"), GS_SLICE("b")};
    const struct metrics_label unnamed = {GS_SLICE("__name__"), GS_SLICE("")};
    const struct metrics_label bytes = {GS_SLICE("__name__"), GS_SLICE("\xff")};
    remote_encode_series(&m, &nameless, 1, &f->now, &v, 1);
    remote_encode_series(&m, &unnamed, 1, &f->now, &v, 1);
    remote_encode_series(&m, &bytes, 1, &f->now, &v, 1);
    add_v1(&m, "twice", "__name__", f->now, 1);
    add_v1(&m, "a", "", f->now, 1);
    send_v1(f, &m);
    assert_reply(f, 204, "");
    assert_int_equal(count(f), 1);
    GS_AUTO_BUF struct gs_buf metrics = {0};
    remote_receiver_write_metrics(f->r, &metrics);
    assert_non_null(
        strstr(metrics.data, "prometheus_api_remote_write_invalid_labels_samples_total 4\n"));
    assert_non_null(strstr(metrics.data, "gpuscale_remote_write_received_samples_total 1\n"));
}

static void test_limits_of_labels(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf many = {0}, large = {0}, text = {0};
    static struct metrics_label labels[REMOTE_MAX_LABELS + 1];
    static char names[REMOTE_MAX_LABELS + 1][16];
    const double v = 1;
    labels[0] = (struct metrics_label){GS_SLICE("__name__"), GS_SLICE("m")};
    for (size_t i = 1; i < GS_ARRAY_LEN(labels); i++) {
        snprintf(names[i], sizeof(names[i]), "l%03zu", i);
        labels[i] = (struct metrics_label){gs_slice_of(names[i]), GS_SLICE("v")};
    }
    remote_encode_series(&many, labels, GS_ARRAY_LEN(labels), &f->now, &v, 1);
    add_v1(&many, "a", "", f->now, 1);
    send_v1(f, &many);
    assert_reply(f, 400, "more than 256 labels for series");
    assert_int_equal(count(f), 1);
    for (int i = 0; i < 70000; i++)
        gs_buf_add_char(&text, 'x');
    labels[1].value = gs_buf_slice(&text);
    remote_encode_series(&large, labels, 2, &f->now, &v, 1);
    send_v1(f, &large);
    assert_reply(f, 400, "labels of more than 65536 bytes for series {__name__=\"m\", …}");
    assert_int_equal(count(f), 1);
}

static void test_limit_of_series(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    char name[16];
    for (int i = 0; i < 1010; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        add_v1(&m, name, "", f->now, 1);
    }
    send_v1(f, &m);
    assert_reply(f, 400, "the store holds its limit of 1000 series");
    assert_int_equal(count(f), 1000);
}

// --- 2.0 ---

static void test_v2(void **state)
{
    struct fixture *f = *state;
    static const char *const symbols[] = {"", "__name__", "a", "b", "x", "y"};
    GS_AUTO_BUF struct gs_buf m = {0}, one = {0}, two = {0};
    add_refs(&one, "\1\2", 2);
    add_sample(&one, f->now, 1.5);
    add_sample(&one, f->now + 1, 2.5);
    codec_proto_add_bytes(&one, 4, GS_SLICE("")); // an exemplar
    add_series(&m, &one);
    codec_proto_add_varint(&two, 1,
                           4); // references that are not packed, labels that are not sorted
    codec_proto_add_varint(&two, 1, 5);
    codec_proto_add_varint(&two, 1, 1);
    codec_proto_add_varint(&two, 1, 3);
    add_sample(&two, f->now, 3);
    add_series(&m, &two);
    add_symbols(&m, symbols, GS_ARRAY_LEN(symbols)); // after the series
    send_v2(f, &m);
    assert_reply(f, 204, "");
    assert_true(f->reply.has_counts);
    assert_int_equal(f->reply.samples, 3);
    assert_latest(f, "a", f->now + 1, 2.5);
    assert_int_equal(tsdb_series_count(f->db), 2);
}

// fields: the labels
static void add_exemplar(struct gs_buf *series, unsigned number, const struct gs_buf *fields,
                         int64_t t_ms, double v)
{
    GS_AUTO_BUF struct gs_buf e = {0};
    gs_buf_add_slice(&e, gs_buf_slice(fields));
    gs_buf_add_char(&e, 0x11);
    gs_buf_add(&e, &v, sizeof(v));
    codec_proto_add_varint(&e, 3, (uint64_t)t_ms);
    codec_proto_add_bytes(series, number, gs_buf_slice(&e));
}

static void print_exemplar(void *arg, const struct tsdb_exemplar_series *s,
                           const struct tsdb_exemplar *e, bool is_first)
{
    struct gs_buf *out = arg;
    if (is_first)
        gs_buf_addf(out, GS_SLICE_FMT ":", GS_SLICE_ARG(s->labels[0].value));
    for (size_t i = 0; i < e->n_labels; i++)
        gs_buf_addf(out, " " GS_SLICE_FMT "=" GS_SLICE_FMT, GS_SLICE_ARG(e->labels[i].name),
                    GS_SLICE_ARG(e->labels[i].value));
    gs_buf_addf(out, " %g;", e->value);
}

static void expect_exemplars(struct fixture *f, const char *expected)
{
    const struct tsdb_exemplar_selector all = {NULL, 0};
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add_str(&out, "");
    tsdb_exemplars_select(f->db, &all, 1, INT64_MIN, INT64_MAX, print_exemplar, &out);
    assert_string_equal(out.data, expected);
}

static void test_v1_exemplars(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0}, one = {0}, labels = {0}, bad = {0};
    codec_proto_add_bytes(&one, 1, GS_SLICE("\x0a\x08__name__\x12\x01m"));
    codec_proto_add_bytes(&labels, 1, GS_SLICE("\x0a\x01t\x12\x01x"));
    codec_proto_add_bytes(&bad, 1, GS_SLICE("\x0a\x01t\x12\x01\xff")); // not UTF-8
    add_sample(&one, f->now, 1);
    add_exemplar(&one, 3, &labels, f->now, 2); // later than the next
    add_exemplar(&one, 3, &labels, f->now - 5, 1);
    add_exemplar(&one, 3, &bad, f->now - 4, 9);
    add_exemplar(&one, 3, &labels, f->now + 3600000, 9); // too far in the future
    codec_proto_add_bytes(&m, 1, gs_buf_slice(&one));
    send_v1(f, &m); // none are stored
    assert_reply(f, 204, "");
    assert_int_equal(f->reply.exemplars, 0);
    tsdb_exemplars_set_max(f->db, 10);
    send_v1(f, &m);
    assert_reply(f, 204, "");
    assert_int_equal(f->reply.exemplars, 2);
    expect_exemplars(f, "m: t=x 1; t=x 2;");
    send_v1(f, &m); // a retry
    assert_reply(f, 204, "");
    expect_exemplars(f, "m: t=x 1; t=x 2;");
}

static void test_v2_exemplars(void **state)
{
    struct fixture *f = *state;
    static const char *const symbols[] = {"", "__name__", "a", "t", "x"};
    GS_AUTO_BUF struct gs_buf m = {0}, one = {0}, labels = {0}, wrong = {0}, alone = {0};
    tsdb_exemplars_set_max(f->db, 10);
    codec_proto_add_bytes(&labels, 1, GS_SLICE("\3\4"));
    codec_proto_add_bytes(&wrong, 1, GS_SLICE("\3\5"));
    add_refs(&one, "\1\2", 2);
    add_sample(&one, f->now, 1);
    add_exemplar(&one, 4, &labels, f->now, 1);
    add_series(&m, &one);
    add_symbols(&m, symbols, GS_ARRAY_LEN(symbols));
    send_v2(f, &m);
    assert_reply(f, 204, "");
    assert_int_equal(f->reply.exemplars, 1);
    expect_exemplars(f, "a: t=x 1;");
    add_exemplar(&one, 4, &labels, f->now - 1, 1);
    add_exemplar(&one, 4, &wrong, f->now + 1, 1);
    gs_buf_clear(&m);
    add_series(&m, &one);
    add_refs(&alone, "\1\2", 2);
    add_exemplar(&alone, 4, &labels, f->now + 2, 1);
    add_series(&m, &alone);
    add_symbols(&m, symbols, GS_ARRAY_LEN(symbols));
    send_v2(f, &m);
    assert_reply(f, 400,
                 "out of order exemplar for series {__name__=\"a\"}\n"
                 "parsing exemplar for series {__name__=\"a\"}: labelRefs 3 (name) = 5 (value) "
                 "outside of symbols table (size 5)");
    assert_int_equal(f->reply.exemplars, 2);
    expect_exemplars(f, "a: t=x 1; t=x 1;");
}

static void test_v2_refused_parts(void **state)
{
    struct fixture *f = *state;
    static const char *const symbols[] = {"", "__name__", "a", "b", "x \"\n", "ä"};
    static const struct {
        const char *refs;
        size_t n, samples;
        const char *rest; // fields of the series
        const char *text;
    } cases[] = {
        {"\1\2", 2, 0, "",
         "TimeSeries must contain at least one sample or histogram for series {__name__=\"a\"}"},
        {"\1\2", 2, 0, "\x1a\x00",
         "native histograms are not supported for series {__name__=\"a\"}"},
        {"\1\77", 2, 1, "",
         "parsing labels for series [1 63]: labelRefs 1 (name) = 63 (value) outside of symbols "
         "table (size 6)"},
        {"\1\2\3", 3, 1, "", "parsing labels for series [1 2 3]: invalid labelRefs length 3"},
        {"\1\2", 2, 1, "\x2a\x02\x20\x09",
         "parsing metadata for series [1 2]: metadata unit_ref 9 outside of symbols table (size "
         "6)"},
        {"\5\4", 2, 1, "", "invalid metric name or labels, got {\"ä\"=\"x \\\"\\n\"}"},
        {"\1\2\3\2\3\3", 6, 1, "",
         "invalid labels for series, labels {__name__=\"a\", b=\"a\", b=\"b\"}, duplicated label "
         "b"},
    };
    GS_AUTO_BUF struct gs_buf all = {0}, expected = {0};
    add_symbols(&all, symbols, GS_ARRAY_LEN(symbols));
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf m = {0}, series = {0};
        add_symbols(&m, symbols, GS_ARRAY_LEN(symbols));
        add_refs(&series, cases[i].refs, cases[i].n);
        if (cases[i].samples)
            add_sample(&series, f->now, 1);
        size_t rest = cases[i].rest[0] == '\x1a' ? 2 : strlen(cases[i].rest);
        gs_buf_add(&series, cases[i].rest, rest);
        add_series(&m, &series);
        add_series(&all, &series);
        send_v2(f, &m);
        assert_reply(f, 400, cases[i].text);
        gs_buf_addf(&expected, "%s%s", i ? "\n" : "", cases[i].text);
    }
    GS_AUTO_BUF struct gs_buf good = {0};
    add_refs(&good, "\1\2", 2);
    add_sample(&good, f->now, 7);
    add_series(&all, &good);
    send_v2(f, &all);
    assert_reply(f, 400, expected.data);
    assert_int_equal(f->reply.samples, 1);
    assert_latest(f, "a", f->now, 7);
}

static void test_v2_many_errors(void **state)
{
    struct fixture *f = *state;
    static const char *const symbols[] = {"", "__name__", "a"};
    GS_AUTO_BUF struct gs_buf m = {0}, series = {0};
    add_symbols(&m, symbols, GS_ARRAY_LEN(symbols));
    add_refs(&series, "\1\2", 2);
    add_sample(&series, f->now, 1);
    for (int i = 0; i < 30; i++)
        add_sample(&series, f->now - 1, 1);
    add_series(&m, &series);
    send_v2(f, &m);
    assert_int_equal(f->reply.status, 400);
    assert_int_equal(f->reply.samples, 1);
    assert_non_null(
        strstr(f->reply.text.data, "out of order sample for series {__name__=\"a\"}\n"));
    assert_non_null(strstr(f->reply.text.data, "\n10 more errors"));
}

// --- messages ---

// Nothing of a malformed message is stored.
static void test_malformed_messages(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *bytes;
        size_t len;
    } ends[] = {
        {"\x0a\x05"
         "abc",
         5},                             // a series beyond the end
        {"\x08\x01", 2},                 // a series that is a number
        {"\x0a\x02\x08\x01", 4},         // labels that are a number
        {"\x0a\x04\x0a\x02\x08\x01", 6}, // a name that is a number
        {"\x0a\x04\x12\x02\x08\x01", 6}, // a value that is not a double
        {"\x0a\x02\x12\x05", 4},         // a sample beyond the end
        {"\xff", 1},
        {"\x0b", 1}, // a group
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(ends); i++) {
        GS_AUTO_BUF struct gs_buf m = {0};
        add_v1(&m, "a", "", f->now, 1);
        gs_buf_add(&m, ends[i].bytes, ends[i].len);
        send_v1(f, &m);
        assert_int_equal(f->reply.status, 400);
    }
    assert_int_equal(count(f), 0);
}

static void test_limit_of_symbols(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    for (size_t i = 0; i <= REMOTE_MAX_SYMBOLS; i++)
        gs_buf_add(&m, "\x22\x00", 2);
    send_v2(f, &m);
    assert_reply(f, 400, "more than 1000000 symbols");
}

static void test_types(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *type, *encoding;
        int status;
        const char *text;
    } cases[] = {
        {"application/x-protobuf", "", 204, ""},
        {"application/x-protobuf; proto=io.prometheus.write.v2.Request", NULL, 204, ""},
        {"application/json", "snappy", 415,
         "expected application/x-protobuf as the first (media) part, got application/json "
         "content-type"},
        {"application/x-protobuf;proto=other", "snappy", 415,
         "got application/x-protobuf;proto=other content type; unknown type for remote write "
         "protobuf message other, supported: prometheus.WriteRequest, "
         "io.prometheus.write.v2.Request"},
        {"application/x-protobuf", "gzip", 415,
         "gzip encoding (compression) is not accepted by this server; only snappy is acceptable"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const struct remote_receiver_request q = {.peer = "test",
                                                  .content_type = cases[i].type,
                                                  .content_encoding = cases[i].encoding,
                                                  .body = GS_SLICE("\0")};
        gs_buf_finish(&f->reply.text);
        remote_receiver_write(f->r, &q, &f->reply);
        assert_reply(f, cases[i].status, cases[i].text);
    }
    gs_buf_finish(&f->reply.text);
    remote_receiver_free(f->r);
    f->r = remote_receiver_new(f->db, REMOTE_MESSAGE_V2, 0, 0);
    const struct remote_receiver_request q = {.peer = "test", .body = GS_SLICE("\0")};
    remote_receiver_write(f->r, &q, &f->reply);
    assert_reply(f, 415,
                 "prometheus.WriteRequest protobuf message is not accepted by this server; only "
                 "accepts io.prometheus.write.v2.Request");
}

static void test_size_of_a_request(void **state)
{
    struct fixture *f = *state;
    const struct remote_receiver_request q = {.peer = "test",
                                              .body = GS_SLICE("\x81\x80\x80\x10\x00")};
    remote_receiver_write(f->r, &q, &f->reply);
    assert_reply(f, 400, "decoded size exceeds the 33554432 bytes limit");
}

// --- pauses ---

struct pauses {
    struct fixture *f;
    const struct gs_buf *message;
    int calls, stop_at;
    int busy; // replies 429 to requests that began in a pause
};

static struct remote_receiver_request pausing(struct pauses *p);

// Other requests begin in the pauses of the first.
static bool on_pause(void *arg)
{
    struct pauses *p = arg;
    p->calls++;
    if (p->message && p->calls < 5) {
        struct fixture other = *p->f;
        other.reply = (struct remote_receiver_reply){0};
        const struct remote_receiver_request q = pausing(p);
        send_with(&other, &q, p->message);
        p->busy += other.reply.status == 429;
        gs_buf_finish(&other.reply.text);
    }
    return p->calls != p->stop_at;
}

static struct remote_receiver_request pausing(struct pauses *p)
{
    return (struct remote_receiver_request){.go_on = on_pause, .arg = p};
}

static void make_long(const struct fixture *f, struct gs_buf *m)
{
    enum { SAMPLES = 1500000 };
    const struct metrics_label label = {GS_SLICE("__name__"), GS_SLICE("long")};
    int64_t *t = gs_alloc_array(SAMPLES, sizeof(*t));
    double *v = gs_alloc_array(SAMPLES, sizeof(*v));
    for (int i = 0; i < SAMPLES; i++)
        t[i] = f->now - SAMPLES + i;
    remote_encode_series(m, &label, 1, t, v, SAMPLES);
    free(t);
    free(v);
}

static void test_a_long_request_pauses(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    make_long(f, &m);
    struct pauses p = {.f = f};
    const struct remote_receiver_request q = pausing(&p);
    send_with(f, &q, &m);
    assert_reply(f, 204, "");
    assert_int_equal(count(f), 1500000);
    assert_true(p.calls > 0);
}

// --- pauses within one part of a message ---

enum { FIELDS = 6400 };

static void add_unknown(struct gs_buf *message)
{
    for (int i = 0; i < FIELDS; i++)
        codec_proto_add_varint(message, 15, 1);
}

struct steps {
    size_t calls, stop_at;
};

static bool count_step(void *arg)
{
    struct steps *s = arg;
    assert_true(!s->stop_at || s->calls < s->stop_at); // it is not called after it returned false
    return ++s->calls != s->stop_at;
}

// A series with a label, a sample and an exemplar, and unknown fields in each of them.
static void make_unknown(struct gs_buf *m)
{
    GS_AUTO_BUF struct gs_buf label = {0}, sample = {0}, exemplar = {0}, series = {0};
    codec_proto_add_bytes(&label, 1, GS_SLICE("__name__"));
    codec_proto_add_bytes(&label, 2, GS_SLICE("a"));
    codec_proto_add_varint(&sample, 2, 1);
    codec_proto_add_varint(&exemplar, 3, 1);
    struct gs_buf *parts[] = {&label, &sample, &exemplar};
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        add_unknown(parts[i]);
        codec_proto_add_bytes(&series, i + 1, gs_buf_slice(parts[i]));
    }
    add_unknown(&series);
    add_unknown(m);
    codec_proto_add_bytes(m, 1, gs_buf_slice(&series));
}

static size_t calls_since(const struct steps *s, size_t *before)
{
    size_t n = s->calls - *before;
    *before = s->calls;
    return n;
}

// No part of a message is read without pauses, however many fields it has.
static void test_every_part_of_a_message_pauses(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf m = {0};
    struct remote_decoder d;
    struct remote_decoder_series series;
    struct remote_decoder_exemplar e;
    struct metrics_label labels[REMOTE_MAX_LABELS];
    struct steps s = {0};
    const size_t each = FIELDS / 64;
    size_t before = 0, n;
    int64_t t;
    double v;
    bool more;
    make_unknown(&m);
    assert_ok(remote_decoder_init(&d, false, gs_buf_slice(&m), count_step, &s));
    assert_true(calls_since(&s, &before) >= 5 * each);
    assert_ok(remote_decoder_next(&d, &series, &more));
    assert_true(more);
    assert_true(calls_since(&s, &before) >= 3 * each); // message, series, label
    assert_true(remote_decoder_sample(&d, &series, &t, &v));
    assert_true(calls_since(&s, &before) >= each);
    assert_true(remote_decoder_exemplar(&d, &series, &e));
    assert_true(calls_since(&s, &before) >= each);
    assert_ok(remote_decoder_exemplar_labels(&d, &e, labels, &n));
    assert_true(calls_since(&s, &before) >= each);
    assert_false(remote_decoder_sample(&d, &series, &t, &v));
    assert_true(calls_since(&s, &before) >= each); // the rest of the series
    remote_decoder_series_finish(&series);
    remote_decoder_finish(&d);
}

static void test_the_peer_disconnects_in_each_part(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf m = {0};
    struct steps s = {0};
    make_unknown(&m);
    do { // of all calls in turn
        struct remote_decoder d;
        struct remote_decoder_series series;
        struct remote_decoder_exemplar e;
        int64_t t;
        double v;
        bool more = false;
        s = (struct steps){.stop_at = s.stop_at + 1};
        struct gs_error *err = remote_decoder_init(&d, false, gs_buf_slice(&m), count_step, &s);
        if (!err) {
            err = remote_decoder_next(&d, &series, &more);
            while (more && remote_decoder_sample(&d, &series, &t, &v))
                ;
            while (more && remote_decoder_exemplar(&d, &series, &e))
                ;
            if (!err && !d.stopped)
                assert_ok(remote_decoder_next(&d, &series, &more));
            assert_true(err || d.stopped || s.calls < s.stop_at);
            if (more)
                remote_decoder_series_finish(&series);
            remote_decoder_finish(&d);
        }
        gs_error_free(err);
    } while (s.calls == s.stop_at);
    assert_true(s.stop_at > FIELDS / 64);
}

static void test_the_peer_disconnects(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    make_long(f, &m);
    struct pauses p = {.f = f, .stop_at = 1};
    const struct remote_receiver_request q = pausing(&p);
    send_with(f, &q, &m);
    assert_int_equal(f->reply.status, 0);
    assert_int_equal(p.calls, 1);
}

static void test_bytes_in_progress(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    make_long(f, &m); // 28 MiB: two fit
    struct pauses p = {.f = f, .message = &m};
    const struct remote_receiver_request q = pausing(&p);
    send_with(f, &q, &m);
    assert_true(p.busy > 0);
    send_v1(f, &m); // the others have ended
    assert_int_not_equal(f->reply.status, 429);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_v1_exemplars),
        TEST(test_v2_exemplars),
        TEST(test_v1),
        TEST(test_v1_refused_samples),
        TEST(test_v1_out_of_bounds),
        TEST(test_v1_wrong_labels),
        TEST(test_limits_of_labels),
        TEST(test_limit_of_series),
        TEST(test_v2),
        TEST(test_v2_refused_parts),
        TEST(test_v2_many_errors),
        TEST(test_malformed_messages),
        TEST(test_limit_of_symbols),
        TEST(test_types),
        TEST(test_size_of_a_request),
        TEST(test_a_long_request_pauses),
        TEST(test_every_part_of_a_message_pauses),
        TEST(test_the_peer_disconnects_in_each_part),
        TEST(test_the_peer_disconnects),
        TEST(test_bytes_in_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
