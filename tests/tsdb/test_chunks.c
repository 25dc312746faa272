// SPDX-License-Identifier: Apache-2.0
// Compares compressed samples with a plain list.
#include "tsdb/chunk.h"

#include "base/mem.h"
#include "unit.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#define N 3000

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

// Kinds of series of GPUs, and hostile ones.
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
    case 7: { // changes of every width, up to six places
        double wide = (double)(next_random(r) << 9 >> next_random(r) % 40);
        return (next_random(r) % 2 ? wide : -wide) / pow(10, (double)(i / 40 % 7));
    }
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
    return tsdb_decimal_bits(a) == tsdb_decimal_bits(b);
}

static void check_window(const struct tsdb_chunks *s, const struct tsdb_point *p, size_t n,
                         int64_t mint, int64_t maxt, struct tsdb_samples *out)
{
    size_t from = 0, k = 0;
    out->n = 0;
    tsdb_chunks_read(s, mint, maxt, out);
    while (from < n && p[from].t_ms < mint)
        from++;
    for (; from + k < n && p[from + k].t_ms <= maxt; k++) {
        assert_true(k < out->n);
        assert_int_equal(out->t[k], p[from + k].t_ms);
        assert_true(same_bits(out->v[k], p[from + k].value));
    }
    assert_int_equal(out->n, k);
    struct tsdb_point at;
    bool found = tsdb_chunks_find(s, maxt, &at);
    size_t until = n;
    while (until && p[until - 1].t_ms > maxt)
        until--;
    assert_int_equal(found, until > 0);
    if (until)
        assert_true(at.t_ms == p[until - 1].t_ms && same_bits(at.value, p[until - 1].value));
}

static void test_what_is_appended_is_read_bit_for_bit(void **state)
{
    GS_AUTO_FREE struct tsdb_point *p = gs_alloc_array(N, sizeof(*p));
    struct tsdb_samples out = {0};
    for (int kind = 0; kind < 8; kind++) {
        uint64_t r = (uint64_t)kind + 1;
        struct tsdb_chunks s = {0};
        struct tsdb_chunk_heap heap = {0};
        int64_t t = kind == 6 ? -5000 : 1700000000000;
        for (size_t i = 0; i < N; i++) {
            // A second with jitter; sometimes a long gap.
            t += next_random(&r) % 500 == 0 ? (int64_t)(next_random(&r) % 100000000)
                                            : 997 + (int64_t)(next_random(&r) % 7);
            p[i] = (struct tsdb_point){t, make_value(kind, i, &r)};
            tsdb_chunks_append(&s, p[i].t_ms, p[i].value, &heap);
        }
        assert_true(heap.bytes > 0);
        check_window(&s, p, N, INT64_MIN, INT64_MAX, &out);
        for (int i = 0; i < 200; i++) {
            size_t a = next_random(&r) % N, b = next_random(&r) % N;
            check_window(&s, p, N, p[a].t_ms - (int64_t)(next_random(&r) % 3),
                         p[b].t_ms + (int64_t)(next_random(&r) % 3), &out);
        }
        tsdb_chunks_clear(&s, &heap);
        assert_int_equal(heap.bytes, 0);
        tsdb_regions_finish(&heap.regions);
    }
    tsdb_samples_finish(&out);
    (void)state;
}

// Runs of rows with gaps, several streams on one column of times.
static void test_runs_with_gaps_are_read_bit_for_bit(void **state)
{
    static const int kinds[] = {0, 6, 2, 6, 4, 1, 3, 5, 7};
    enum { STREAMS = GS_ARRAY_LEN(kinds) };
    struct tsdb_chunks s[STREAMS] = {0};
    struct tsdb_samples out = {0};
    struct tsdb_chunk_heap heap = {0};
    GS_AUTO_FREE struct tsdb_point *p = gs_alloc_array(STREAMS * N, sizeof(*p));
    size_t n[STREAMS] = {0};
    uint64_t r = 7;
    int64_t t = 1700000000000;
    for (size_t column = 0; column < N / TSDB_TIMESTAMPS_MAX; column++) {
        struct tsdb_timestamps *times = tsdb_timestamps_new(TSDB_TIMESTAMPS_MAX);
        heap.bytes += (ptrdiff_t)tsdb_timestamps_bytes(times);
        for (size_t at = 0; at < TSDB_TIMESTAMPS_MAX; at += TSDB_CHUNK_RUN) {
            double values[STREAMS][TSDB_CHUNK_RUN];
            for (size_t i = 0; i < TSDB_CHUNK_RUN; i++) {
                t += 1000 + (int64_t)(next_random(&r) % 9);
                times = tsdb_timestamps_append(times, t);
                for (size_t k = 0; k < STREAMS; k++) {
                    // The first is steady; others have gaps from one row to whole columns.
                    bool hole = next_random(&r) % 10 < k % 5 * (column % 3);
                    double v = make_value(kinds[k], column * TSDB_TIMESTAMPS_MAX + at + i, &r);
                    values[k][i] = hole ? tsdb_absent() : v;
                    if (!hole)
                        p[k * N + n[k]++] = (struct tsdb_point){t, v};
                }
            }
            for (size_t k = 0; k < STREAMS; k++)
                tsdb_chunks_put(&s[k], times, at, values[k], TSDB_CHUNK_RUN, &heap);
        }
        heap.bytes -= (ptrdiff_t)tsdb_timestamps_unref(times);
    }
    for (size_t k = 0; k < STREAMS; k++) {
        assert_true(n[k] > 0);
        check_window(&s[k], p + k * N, n[k], INT64_MIN, INT64_MAX, &out);
        for (int i = 0; i < 300; i++) {
            int64_t a = p[k * N + next_random(&r) % n[k]].t_ms;
            check_window(&s[k], p + k * N, n[k], a - (int64_t)(next_random(&r) % 3),
                         a + (int64_t)(next_random(&r) % 400000), &out);
        }
        tsdb_chunks_clear(&s[k], &heap);
    }
    assert_int_equal(heap.bytes, 0);
    tsdb_regions_finish(&heap.regions);
    tsdb_samples_finish(&out);
    (void)state;
}

static void test_numbers_of_a_run_are_those_of_its_values(void **state)
{
    uint64_t r = 3;
    size_t fit = 0;
    for (int round = 0; round < 20000; round++) {
        unsigned places = (unsigned)(next_random(&r) % (TSDB_DECIMAL_MAX_PLACES + 1));
        int kind = (int)(next_random(&r) % 9);
        double v[TSDB_DECIMAL_RUN];
        int64_t numbers[TSDB_DECIMAL_RUN], n;
        for (size_t i = 0; i < TSDB_DECIMAL_RUN; i++)
            v[i] = kind == 8 ? ldexp(1, 48 + (int)i) / tsdb_decimal_powers[places]
                             : make_value(kind, i, &r);
        bool all = tsdb_decimal_run(v, places, numbers);
        fit += all;
        for (size_t i = 0; i < TSDB_DECIMAL_RUN && all; i++) {
            assert_true(same_bits((double)numbers[i] / tsdb_decimal_powers[places], v[i]));
            if (tsdb_decimal_places(v[i], places, &n) ==
                (int)places) // values from 1e12 on are not decimal
                assert_int_equal(numbers[i], n);
        }
        for (size_t i = 0; i < TSDB_DECIMAL_RUN && !all; i++)
            all = tsdb_decimal_places(v[i], places, &n) != (int)places || llabs(n) >= INT64_C(1)
                                                                                          << 51;
        assert_true(all);
    }
    assert_in_range(fit, 2000, 18000);
    (void)state;
}

static void test_old_blocks_are_dropped(void **state)
{
    struct tsdb_chunks s = {0};
    uint64_t dropped = 0;
    struct tsdb_chunk_heap heap = {0};
    for (int i = 0; i < 1000; i++)
        tsdb_chunks_append(&s, i * 1000, i, &heap);
    tsdb_chunks_drop(&s, 500000, &dropped, &heap);
    assert_true(dropped > 300 && dropped <= 500);
    struct tsdb_samples out = {0};
    tsdb_chunks_read(&s, INT64_MIN, INT64_MAX, &out);
    assert_int_equal(out.n, 1000 - dropped);
    assert_true(out.t[0] <= 500000 && out.v[0] * 1000 == (double)out.t[0]);
    tsdb_chunks_drop(&s, INT64_MAX, &dropped, &heap);
    assert_true(tsdb_chunks_empty(&s));
    assert_int_equal(dropped, 1000);
    assert_int_equal(heap.bytes, 0);
    tsdb_regions_finish(&heap.regions);
    tsdb_chunks_append(&s, 2000000, 5, &heap);
    out.n = 0;
    tsdb_chunks_read(&s, 0, INT64_MAX, &out);
    assert_int_equal(out.n, 1);
    tsdb_samples_finish(&out);
    tsdb_chunks_clear(&s, &heap);
    (void)state;
}

// A record with a valid checksum can contain any value, also the lowest number, from which nothing
// can be subtracted.
static void test_a_block_of_a_file_with_the_lowest_number_takes_more_values(void **state)
{
    static const char lowest[] = "\xf8\xff\xff\xff\xff\xff\xff\xff\xff";
    struct tsdb_chunks s = {0};
    struct tsdb_chunk_heap heap = {0};
    struct tsdb_samples out = {0};
    ptrdiff_t samples = 0;
    struct tsdb_timestamps *times = tsdb_timestamps_append(tsdb_timestamps_new(1), 1000);
    heap.bytes += (ptrdiff_t)tsdb_timestamps_bytes(times);
    const struct tsdb_saved_chunk b = {.times = times,
                                       .n = 1,
                                       .samples = 1,
                                       .data = gs_slice_make(lowest, sizeof(lowest) - 1),
                                       .room = sizeof(lowest) - 1};
    assert_true(tsdb_chunks_load(&s, &b, &samples, &heap));
    tsdb_timestamps_unref(times);
    tsdb_chunks_resume(&s, &samples, &heap);
    assert_int_equal(samples, 1);
    tsdb_chunks_append(&s, 2000, 5, &heap);
    tsdb_chunks_read(&s, INT64_MIN, INT64_MAX, &out);
    assert_int_equal(out.n, 2);
    assert_true(out.v[0] == (double)INT64_MIN && out.v[1] == 5);
    tsdb_chunks_clear(&s, &heap);
    tsdb_regions_finish(&heap.regions);
    tsdb_samples_finish(&out);
    (void)state;
}

// Series of one target, and series with individual times.
static void test_typical_series_are_small(void **state)
{
    static const struct {
        int kind;
        double shared, own; // bytes a sample at most, all included; kinds 1 and 2 are noise
    } cases[] = {{0, 0.5, 1.9}, {1, 1.5, 3.7}, {2, 3.1, 5.6}, {3, 1.2, 4.9}};
    for (size_t c = 0; c < GS_ARRAY_LEN(cases); c++) {
        struct tsdb_chunks s = {0}, own = {0};
        struct tsdb_chunk_heap heap = {0}, own_heap = {0};
        uint64_t r = 1;
        struct tsdb_timestamps *times = NULL;
        for (size_t i = 0; i < 7200; i += TSDB_CHUNK_RUN) {
            double values[TSDB_CHUNK_RUN];
            if (i % TSDB_TIMESTAMPS_MAX == 0) {
                tsdb_timestamps_unref(times);
                times = tsdb_timestamps_new(TSDB_TIMESTAMPS_MAX);
            }
            for (size_t k = 0; k < TSDB_CHUNK_RUN; k++) {
                int64_t t = (int64_t)(i + k) * 1000 + (int64_t)(next_random(&r) % 4);
                values[k] = make_value(cases[c].kind, i + k, &r);
                times = tsdb_timestamps_append(times, t);
                tsdb_chunks_append(&own, t, values[k], &own_heap);
            }
            tsdb_chunks_put(&s, times, i % TSDB_TIMESTAMPS_MAX, values, TSDB_CHUNK_RUN, &heap);
        }
        double each = (double)heap.bytes / 7200, own_each = (double)own_heap.bytes / 7200;
        if (each > cases[c].shared || own_each > cases[c].own)
            fail_msg("kind %d: %g and %g bytes a sample, wanted at most %g and %g", cases[c].kind,
                     each, own_each, cases[c].shared, cases[c].own);
        tsdb_timestamps_unref(times);
        tsdb_chunks_clear(&s, &heap);
        tsdb_chunks_clear(&own, &own_heap);
        tsdb_regions_finish(&heap.regions);
        tsdb_regions_finish(&own_heap.regions);
    }
    (void)state;
}

// The last bytes of readable memory. Caller unmaps two pages from *ret_pages on.
static uint8_t *guarded_end(void **ret_pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    *ret_pages = pages;
    return (uint8_t *)pages + page;
}

// Chunks end at the end of a region, of an allocation or of a file. Samples are appended one by one
// or in runs.
static void test_nothing_is_read_after_the_end_of_a_block(void **state)
{
    static const struct {
        int64_t step, modulus;
        double scale;
    } kinds[] = {{37, 101, 1},
                 {1, 1000, 1},
                 {7919, 100000, 1},
                 {3, 50, 0.25},
                 {0, 1, 1},
                 {-7919, 1000000, .5},
                 {1, 3, 1},
                 {99999989, INT64_MAX, 1},
                 {777767777, 1 << 30, 1},
                 {1000003, INT64_MAX, 1000000}};
    void *pages;
    uint8_t *end = guarded_end(&pages);
    for (size_t k = 0; k < 2 * GS_ARRAY_LEN(kinds); k++) {
        struct tsdb_chunk_heap heap = {0};
        struct tsdb_chunks s = {0};
        struct tsdb_timestamps *times = tsdb_timestamps_new(TSDB_TIMESTAMPS_MAX);
        double want[TSDB_TIMESTAMPS_MAX], got[TSDB_TIMESTAMPS_MAX];
        heap.bytes += (ptrdiff_t)tsdb_timestamps_bytes(times);
        size_t step = k % 2 ? TSDB_CHUNK_RUN : 1;
        for (size_t n = step; n <= 100; n += step) {
            for (size_t i = n - step; i < n; i++) {
                want[i] = (double)((int64_t)(i + 1) * kinds[k / 2].step % kinds[k / 2].modulus) *
                          kinds[k / 2].scale;
                times = tsdb_timestamps_append(times, (int64_t)i * 1000);
            }
            tsdb_chunks_put(&s, times, n - step, want + n - step, step, &heap);
            struct tsdb_chunk b = tsdb_chunks_at(&s, 0);
            memcpy(end - b.len, b.data, b.len);
            for (size_t from = 0; from < n; from += 3) {
                for (size_t until = from; until <= n; until += n - until < 5 ? 1 : 5) {
                    tsdb_chunk_decode(end - b.len, b.len, from, until, got, NULL);
                    assert_memory_equal(got, want + from, (until - from) * sizeof(*want));
                }
            }
        }
        heap.bytes -= (ptrdiff_t)tsdb_timestamps_unref(times);
        tsdb_chunks_clear(&s, &heap);
        tsdb_regions_finish(&heap.regions);
    }
    munmap(pages, 2 * (size_t)sysconf(_SC_PAGESIZE));
    (void)state;
}

// What a file may contain after its checksum was computed.
static void test_damaged_blocks_are_read_within_their_bounds(void **state)
{
    static const uint8_t codes[] = {TSDB_CHUNK_NUMBERS, TSDB_CHUNK_CHANGES, TSDB_CHUNK_RAW,
                                    TSDB_CHUNK_PLACES,  TSDB_CHUNK_ABSENT,  TSDB_CHUNK_WIDE};
    void *pages;
    uint8_t *end = guarded_end(&pages);
    uint64_t r = 11;
    for (int round = 0; round < 50000; round++) {
        size_t n = 1 + next_random(&r) % TSDB_TIMESTAMPS_MAX, room = n * TSDB_DECIMAL_MAX_BYTES;
        size_t len = 1 + next_random(&r) % room, from = next_random(&r) % n;
        uint8_t *data = end - room;
        double got[TSDB_TIMESTAMPS_MAX];
        for (size_t i = 0; i < room; i++)
            data[i] = next_random(&r) % 4 ? (uint8_t)next_random(&r)
                                          : codes[next_random(&r) % GS_ARRAY_LEN(codes)];
        tsdb_chunk_decode(data, len, from, n, got, NULL);
    }
    munmap(pages, 2 * (size_t)sysconf(_SC_PAGESIZE));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_appended_is_read_bit_for_bit),
        cmocka_unit_test(test_runs_with_gaps_are_read_bit_for_bit),
        cmocka_unit_test(test_numbers_of_a_run_are_those_of_its_values),
        cmocka_unit_test(test_nothing_is_read_after_the_end_of_a_block),
        cmocka_unit_test(test_damaged_blocks_are_read_within_their_bounds),
        cmocka_unit_test(test_old_blocks_are_dropped),
        cmocka_unit_test(test_a_block_of_a_file_with_the_lowest_number_takes_more_values),
        cmocka_unit_test(test_typical_series_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
