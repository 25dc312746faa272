// SPDX-License-Identifier: Apache-2.0
// Compressed samples against a plain list of them.
#include "tsdb/stream.h"

#include "base/mem.h"
#include "unit.h"

#include <math.h>

#define N 3000

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

// Kinds of series that GPUs have, and hostile ones.
static double make_value(int kind, size_t i, uint64_t *r)
{
    static const double odd[] = {0, -0.0, 1e300, -1e-300, 0.1, 1.0 / 3, 123456789012345678.0, -7.5};
    double random = (double)next_random(r);
    switch (kind) {
    case 0:
        return 42;
    case 1:
        return (double)((uint64_t)random % 101); // a utilisation
    case 2:
        return (double)((uint64_t)random % 700000) / 1000; // watts
    case 3:
        return (double)(i * 12345); // a counter
    case 4:
        return random / 7; // many digits
    case 5:
        return (uint64_t)random % 10 == 0 ? tsdb_stale_marker() : (double)i / 100;
    default:
        break;
    }
    switch ((uint64_t)random % 12) {
    case 8:
        return (double)NAN;
    case 9:
        return (double)INFINITY;
    case 10:
        return -(double)INFINITY;
    case 11:
        return tsdb_stale_marker();
    default:
        return odd[(uint64_t)random % 8];
    }
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void check_window(const struct stream *s, const struct tsdb_point *p, size_t n, int64_t mint,
                         int64_t maxt, struct tsdb_samples *out)
{
    size_t from = 0, k = 0;
    stream_read(s, mint, maxt, out);
    while (from < n && p[from].t_ms < mint)
        from++;
    for (; from + k < n && p[from + k].t_ms <= maxt; k++) {
        assert_true(k < out->n);
        assert_int_equal(out->t[k], p[from + k].t_ms);
        assert_true(same_bits(out->v[k], p[from + k].value));
    }
    assert_int_equal(out->n, k);
    struct tsdb_point at;
    bool found = stream_at(s, maxt, &at);
    size_t until = n;
    while (until && p[until - 1].t_ms > maxt)
        until--;
    assert_int_equal(found, until > 0);
    if (until)
        assert_true(at.t_ms == p[until - 1].t_ms && same_bits(at.value, p[until - 1].value));
}

static void what_is_appended_is_read_bit_for_bit(void **state)
{
    GS_AUTO_FREE struct tsdb_point *p = gs_alloc_array(N, sizeof(*p));
    struct tsdb_samples out = {0};
    for (int kind = 0; kind < 7; kind++) {
        uint64_t r = (uint64_t)kind + 1;
        struct stream s = {0};
        size_t bytes = 0;
        int64_t t = kind == 6 ? -5000 : 1700000000000;
        for (size_t i = 0; i < N; i++) {
            // A second with jitter; sometimes a long gap.
            t += next_random(&r) % 500 == 0 ? (int64_t)(next_random(&r) % 100000000)
                                            : 997 + (int64_t)(next_random(&r) % 7);
            p[i] = (struct tsdb_point){t, make_value(kind, i, &r)};
            bytes += stream_append(&s, p[i].t_ms, p[i].value);
        }
        assert_int_equal(bytes, stream_bytes(&s));
        check_window(&s, p, N, INT64_MIN, INT64_MAX, &out);
        for (int i = 0; i < 200; i++) {
            size_t a = next_random(&r) % N, b = next_random(&r) % N;
            check_window(&s, p, N, p[a].t_ms - (int64_t)(next_random(&r) % 3),
                         p[b].t_ms + (int64_t)(next_random(&r) % 3), &out);
        }
        stream_finish(&s);
    }
    tsdb_samples_finish(&out);
    (void)state;
}

static void old_blocks_are_dropped(void **state)
{
    struct stream s = {0};
    uint64_t dropped = 0;
    size_t bytes = 0;
    for (int i = 0; i < 1000; i++)
        bytes += stream_append(&s, i * 1000, i);
    bytes -= stream_drop(&s, 500000, &dropped);
    assert_int_equal(bytes, stream_bytes(&s));
    assert_true(dropped > 300 && dropped <= 500);
    struct tsdb_samples out = {0};
    stream_read(&s, INT64_MIN, INT64_MAX, &out);
    assert_int_equal(out.n, 1000 - dropped);
    assert_true(out.t[0] <= 500000 && out.v[0] * 1000 == (double)out.t[0]);
    bytes -= stream_drop(&s, INT64_MAX, &dropped);
    assert_true(stream_empty(&s));
    stream_append(&s, 2000000, 5);
    stream_read(&s, 0, INT64_MAX, &out);
    assert_int_equal(out.n, 1);
    tsdb_samples_finish(&out);
    stream_finish(&s);
    (void)state;
}

static void typical_series_are_small(void **state)
{
    static const struct {
        int kind;
        double most; // bytes a sample, with the heads of blocks; kinds 1 and 2 are noise
    } cases[] = {{0, 1.6}, {1, 3.2}, {2, 5.0}, {3, 4.4}};
    for (size_t c = 0; c < GS_ARRAY_LEN(cases); c++) {
        struct stream s = {0};
        uint64_t r = 1;
        for (size_t i = 0; i < 7200; i++)
            stream_append(&s, (int64_t)i * 1000 + (int64_t)(next_random(&r) % 4),
                          make_value(cases[c].kind, i, &r));
        double each = (double)stream_bytes(&s) / 7200;
        if (each > cases[c].most)
            fail_msg("kind %d: %g bytes a sample, wanted at most %g", cases[c].kind, each,
                     cases[c].most);
        stream_finish(&s);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_appended_is_read_bit_for_bit),
        cmocka_unit_test(old_blocks_are_dropped),
        cmocka_unit_test(typical_series_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
