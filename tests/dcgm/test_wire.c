// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "dcgm/wire.h"

// A frame with the message of one kind, as the peer sends it.
static struct dcgm_wire_frame framed(struct gs_buf *out, enum dcgm_wire_kind kind, void *message,
                                     struct gs_slice values)
{
    struct dcgm_wire_frame frame = {0};
    bool complete = false;
    dcgm_wire_add(out, kind, 7, DCGM_OK, message, values);
    struct gs_slice stream = gs_buf_slice(out);
    assert_ok(dcgm_wire_cut(&stream, &frame, &complete));
    assert_true(complete);
    assert_int_equal(stream.len, 0);
    return frame;
}

static void test_a_login_has_the_bytes_of_the_protocol(void **state)
{
    static const unsigned char expected[] = {
        0xad, 0xbc, 0xbc, 0xad, 9, 0, 0, 0, 32, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, // frame
        32,   0,    0,    0,    0, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, // command
        0x20, 0,    0,    1,    0, 0, 0, 0, 0,  0, 0, 0,
    };
    GS_AUTO_BUF struct gs_buf out = {0};
    struct dcgm_wire_login login = {0};
    dcgm_wire_add(&out, DCGM_WIRE_LOGIN, 9, DCGM_OK, &login, (struct gs_slice){0});
    assert_int_equal(out.len, sizeof(expected));
    assert_memory_equal(out.data, expected, sizeof(expected));
}

// The version words that engines check, as printed by a program compiled against their headers.
static void test_version_words_of_the_engines(void **state)
{
    static const struct {
        enum dcgm_wire_kind kind;
        uint32_t size, word;
    } rows[] = {
        {DCGM_WIRE_LOGIN, 32, 0x01000020},
        {DCGM_WIRE_VERSION, 540, 0x0100021c},
        {DCGM_WIRE_DEVICES, 164, 0x010000a4},
        {DCGM_WIRE_ENTITIES, 296, 0x01000128},
        {DCGM_WIRE_HIERARCHY, 73508, 0x01011f24},
        {DCGM_WIRE_METRIC_GROUPS, 1400, 0x01000578},
        {DCGM_WIRE_GROUP_CREATE, 1072, 0x01000430},
        {DCGM_WIRE_GROUP_ADD, 40, 0x01000028},
        {DCGM_WIRE_GROUP_DESTROY, 32, 0x01000020},
        {DCGM_WIRE_FIELD_GROUP_CREATE, 560, 0x01000230},
        {DCGM_WIRE_FIELD_GROUP_DESTROY, 560, 0x01000230},
        {DCGM_WIRE_WATCH, 56, 0x01000038},
        {DCGM_WIRE_UNWATCH, 56, 0x01000038},
        {DCGM_WIRE_READ, 820, 0x023fe334},
        {DCGM_WIRE_LINKS_V3, 14808, 0x030039d8},
        {DCGM_WIRE_LINKS_V4, 17112, 0x040042d8},
        {DCGM_WIRE_CPUS, 3232, 0x01000ca0},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_AUTO_BUF struct gs_buf out = {0};
        union dcgm_wire_message m = {0};
        struct dcgm_wire_frame f = framed(&out, rows[i].kind, &m, (struct gs_slice){0});
        enum dcgm_wire_kind kind = DCGM_WIRE_KINDS;
        assert_int_equal(f.body.len, rows[i].size);
        assert_int_equal(m.command.version, rows[i].word);
        assert_true(dcgm_wire_find(f.body, &kind));
        assert_int_equal(kind, rows[i].kind);
        assert_ok(dcgm_wire_take(f.body, kind, &m, NULL));
    }
}

static void add_number(struct gs_buf *values, uint16_t field, char type, double dbl, int64_t i64,
                       int8_t status)
{
    struct dcgm_wire_value v = {{DCGM_ENTITY_GPU, 3}, field, type, status,
                                1700000000000000,     i64,   dbl,  {0}};
    dcgm_wire_value_add(values, &v);
}

static void test_values_are_read_as_written(void **state)
{
    GS_AUTO_BUF struct gs_buf values = {0};
    struct dcgm_wire_value text = {{DCGM_ENTITY_GPU_I, 9}, 50, DCGM_TYPE_TEXT, 0, 5, 0, 0,
                                   GS_SLICE("1g.5gb")};
    add_number(&values, 1001, DCGM_TYPE_DOUBLE, 0.25, 0, 0);
    add_number(&values, 100, DCGM_TYPE_INT64, 0, -7, DCGM_NOT_SUPPORTED);
    dcgm_wire_value_add(&values, &text);
    struct gs_slice rest = gs_buf_slice(&values);
    struct dcgm_wire_value v;
    assert_ok(dcgm_wire_value_next(&rest, &v));
    assert_int_equal(v.field, 1001);
    assert_int_equal(v.entity.group, DCGM_ENTITY_GPU);
    assert_int_equal(v.entity.id, 3);
    assert_true(v.dbl == 0.25);
    assert_int_equal(v.ts, 1700000000000000);
    assert_ok(dcgm_wire_value_next(&rest, &v));
    assert_int_equal(v.i64, -7);
    assert_int_equal(v.status, DCGM_NOT_SUPPORTED);
    assert_ok(dcgm_wire_value_next(&rest, &v));
    assert_int_equal(v.entity.group, DCGM_ENTITY_GPU_I);
    assert_true(gs_slice_eq_str(v.text, "1g.5gb"));
    assert_int_equal(rest.len, 0);
}

// An entry of a short text has 24 bytes, the text and its NUL: less than that of a number.
static void test_a_text_of_one_letter_is_an_entry(void **state)
{
    GS_AUTO_BUF struct gs_buf values = {0};
    struct dcgm_wire_value text = {{DCGM_ENTITY_GPU, 0}, 50, DCGM_TYPE_TEXT, 0, 5, 0, 0,
                                   GS_SLICE("A")};
    dcgm_wire_value_add(&values, &text);
    assert_int_equal(values.len, 26);
    struct gs_slice rest = gs_buf_slice(&values);
    struct dcgm_wire_value v;
    assert_ok(dcgm_wire_value_next(&rest, &v));
    assert_true(gs_slice_eq_str(v.text, "A"));
}

static void test_malformed_values(void **state)
{
    static const struct {
        size_t at;
        unsigned char byte;
    } rows[] = {
        {0, 0},    // an entry without progress
        {0, 31},   // a number without its last byte
        {0, 33},   // more than there is
        {1, 0xff}, // much more
        {2, 2},    // another version
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_AUTO_BUF struct gs_buf values = {0};
        struct dcgm_wire_value v;
        add_number(&values, 1001, DCGM_TYPE_DOUBLE, 0.25, 0, 0);
        values.data[rows[i].at] = (char)rows[i].byte;
        struct gs_slice rest = gs_buf_slice(&values);
        assert_error(dcgm_wire_value_next(&rest, &v), GS_EPROTO, "a value of DCGM");
    }
    struct gs_slice cut = GS_SLICE("too short");
    struct dcgm_wire_value v;
    assert_error(dcgm_wire_value_next(&cut, &v), GS_EPROTO, "cut off");
}

static void test_frames_in_pieces(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct dcgm_wire_login login = {.persist = 1};
    dcgm_wire_add(&out, DCGM_WIRE_LOGIN, 9, DCGM_GENERIC, &login, (struct gs_slice){0});
    struct dcgm_wire_frame f = {0};
    bool complete = true;
    for (size_t n = 0; n < out.len; n++) {
        struct gs_slice part = gs_slice_make(out.data, n);
        assert_ok(dcgm_wire_cut(&part, &f, &complete));
        assert_false(complete);
        assert_int_equal(part.len, n);
    }
    gs_buf_add_char(&out, 'x');
    struct gs_slice stream = gs_buf_slice(&out);
    assert_ok(dcgm_wire_cut(&stream, &f, &complete));
    assert_true(complete);
    assert_int_equal(f.request, 9);
    assert_int_equal(f.status, DCGM_GENERIC);
    assert_true(gs_slice_eq_str(stream, "x"));
}

static void test_another_protocol_is_an_error(void **state)
{
    struct gs_slice http = GS_SLICE("HTTP/1.1 400 Bad Request\r\n\r\n");
    struct dcgm_wire_frame f;
    bool complete;
    assert_error(dcgm_wire_cut(&http, &f, &complete), GS_EPROTO, "does not speak");
    GS_AUTO_BUF struct gs_buf out = {0};
    struct dcgm_wire_login login = {0};
    dcgm_wire_add(&out, DCGM_WIRE_LOGIN, 9, DCGM_OK, &login, (struct gs_slice){0});
    out.data[10] = 0x41; // 4 MiB and 64 KiB
    struct gs_slice stream = gs_buf_slice(&out);
    assert_error(dcgm_wire_cut(&stream, &f, &complete), GS_EPROTO, "the limit is 4194304");
    out.data[10] = 0;
    out.data[11] = (char)0x80;
    stream = gs_buf_slice(&out);
    assert_error(dcgm_wire_cut(&stream, &f, &complete), GS_EPROTO, "the limit is 4194304");
}

static void test_counts_of_a_peer_are_within_their_arrays(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    union dcgm_wire_message m = {0};
    m.hierarchy.data.count = UINT32_MAX;
    memset(m.hierarchy.data.rows[0].info.gpu_uuid, 'x', 128);
    struct dcgm_wire_frame f = framed(&out, DCGM_WIRE_HIERARCHY, &m, (struct gs_slice){0});
    assert_ok(dcgm_wire_take(f.body, DCGM_WIRE_HIERARCHY, &m, NULL));
    assert_int_equal(m.hierarchy.data.count, DCGM_MAX_HIERARCHY);
    assert_int_equal(strlen(m.hierarchy.data.rows[0].info.gpu_uuid), 127);

    gs_buf_clear(&out);
    memset(&m, 0, sizeof(m));
    m.read.n_bytes = UINT32_MAX;
    m.read.n_entities = 65;
    struct gs_slice values;
    f = framed(&out, DCGM_WIRE_READ, &m, GS_SLICE("four"));
    assert_ok(dcgm_wire_take(f.body, DCGM_WIRE_READ, &m, &values));
    assert_int_equal(m.read.n_entities, DCGM_WIRE_MAX_ENTITIES);
    assert_true(gs_slice_eq_str(values, "four"));
}

static void test_a_body_that_is_not_the_message(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    union dcgm_wire_message m = {0}, got;
    struct dcgm_wire_frame f = framed(&out, DCGM_WIRE_WATCH, &m, (struct gs_slice){0});
    assert_error(dcgm_wire_take(f.body, DCGM_WIRE_UNWATCH, &got, NULL), GS_EPROTO,
                 "unwatch fields");
    struct gs_slice cut = gs_slice_make(f.body.data, f.body.len - 1);
    assert_error(dcgm_wire_take(cut, DCGM_WIRE_WATCH, &got, NULL), GS_EPROTO, "watch fields");
    out.data[DCGM_WIRE_HEADER_SIZE + 23] = 2; // the version of a newer engine
    assert_error(dcgm_wire_take(f.body, DCGM_WIRE_WATCH, &got, NULL), GS_ENOTSUP, "0x02000038");
    enum dcgm_wire_kind kind;
    assert_false(dcgm_wire_find(f.body, &kind));
}

static void test_the_result_of_a_message(void **state)
{
    union dcgm_wire_message m = {0};
    m.watch.result = DCGM_PROFILING_FAILED;
    assert_int_equal(dcgm_wire_result(DCGM_WIRE_WATCH, &m), DCGM_PROFILING_FAILED);
    assert_int_equal(dcgm_wire_result(DCGM_WIRE_CPUS, &m), DCGM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_login_has_the_bytes_of_the_protocol),
        cmocka_unit_test(test_version_words_of_the_engines),
        cmocka_unit_test(test_values_are_read_as_written),
        cmocka_unit_test(test_a_text_of_one_letter_is_an_entry),
        cmocka_unit_test(test_malformed_values),
        cmocka_unit_test(test_frames_in_pieces),
        cmocka_unit_test(test_another_protocol_is_an_error),
        cmocka_unit_test(test_counts_of_a_peer_are_within_their_arrays),
        cmocka_unit_test(test_a_body_that_is_not_the_message),
        cmocka_unit_test(test_the_result_of_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
