// SPDX-License-Identifier: Apache-2.0
// The newest chunks of a group's series lie in blocks: series come, go and change their group.
#include "tsdb/tsdb.h"

#include "base/mem.h"
#include "unit.h"

enum { SERIES = 100, PASSES = 400 };

struct world {
    struct tsdb *db;
    double values[SERIES][PASSES];
    bool has[SERIES][PASSES], silent[SERIES][PASSES];
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 11;
}

static struct world *new_world(void)
{
    struct world *w = gs_alloc(sizeof(*w));
    w->db = tsdb_new(&(struct tsdb_config){.retention_ms = INT64_MAX / 4});
    return w;
}

// text: for the name
static struct metrics_label label_of(size_t i, char text[32])
{
    snprintf(text, 32, "s%zu", i);
    return (struct metrics_label){GS_SLICE("__name__"), gs_slice_of(text)};
}

static tsdb_ref ref_of(struct tsdb *db, size_t i)
{
    char text[32];
    const struct metrics_label l = label_of(i, text);
    tsdb_ref ref;
    assert_ok(tsdb_series_get(db, &l, 1, &ref));
    return ref;
}

// A row with the values of the series from `first` on, each `step`-th one.
static void put_row(struct world *w, struct tsdb_group *g, size_t pass, size_t first, size_t step)
{
    size_t added, fresh;
    assert_ok(tsdb_group_begin(g, (int64_t)pass * 1000));
    for (size_t i = first; i < SERIES; i += step) {
        char text[32];
        const struct metrics_label l = label_of(i, text);
        uint32_t slot;
        assert_ok(tsdb_group_slot(g, &l, 1, &slot));
        w->has[i][pass] |= !w->silent[i][pass] && tsdb_group_put(g, slot, w->values[i][pass]);
    }
    tsdb_group_commit(g, &added, &fresh);
}

static void check(struct world *w)
{
    struct tsdb_samples s = {0};
    for (size_t i = 0; i < SERIES; i++) {
        size_t k = 0;
        tsdb_read(w->db, ref_of(w->db, i), 0, INT64_MAX, &s);
        for (size_t pass = 0; pass < PASSES; pass++) {
            if (!w->has[i][pass])
                continue;
            while (k < s.n && tsdb_is_stale(s.v[k])) // it was without a group
                k++;
            assert_true(k < s.n);
            assert_int_equal(s.t[k], pass * 1000);
            assert_memory_equal(&s.v[k], &w->values[i][pass], sizeof(s.v[k]));
            k++;
        }
    }
    tsdb_samples_finish(&s);
}

static void end_world(struct world *w)
{
    tsdb_free(w->db);
    free(w);
}

static void test_the_largest_chunks_have_room(void **state)
{
    struct world *w = new_world();
    struct tsdb_group *g = tsdb_group_new(w->db);
    uint64_t r = 1;
    for (size_t pass = 0; pass < PASSES; pass++) {
        for (size_t i = 0; i < SERIES; i++) // no decimal numbers, or other places each time
            w->values[i][pass] =
                i % 2 ? (double)next_random(&r) / 7
                      : (double)(next_random(&r) % 1000000000000) / (pass % 2 ? 1000000 : 1);
        put_row(w, g, pass, 0, 1);
    }
    check(w);
    tsdb_group_free(g);
    check(w);
    end_world(w);
    (void)state;
}

static void test_series_keep_their_samples_when_they_leave_a_group(void **state)
{
    struct world *w = new_world();
    struct tsdb_group *g[3] = {tsdb_group_new(w->db), NULL, NULL};
    uint64_t r = 2;
    for (size_t pass = 0; pass < PASSES; pass++) {
        for (size_t i = 0; i < SERIES; i++) {
            w->values[i][pass] = (double)(next_random(&r) % (i * i + 1));
            w->silent[i][pass] = i % 6 == 0 && pass >= 60 && pass < 120;
        }
        if (pass == 80)
            g[1] = tsdb_group_new(w->db); // shares each third series; no row is buffered
        if (pass == 150) {
            tsdb_group_free(g[0]);
            g[0] = NULL;
            g[2] = tsdb_group_new(w->db);
        }
        if (pass == 300) {
            tsdb_group_free(g[1]); // its series are of one group again
            g[1] = NULL;
        }
        if (g[1] && pass % 2 == 0)
            put_row(w, g[1], pass, 0, 3);
        if (g[0])
            put_row(w, g[0], pass, 0, 1);
        if (g[2])
            put_row(w, g[2], pass, pass % 5 ? 0 : 1, pass < 200 ? 2 : 1);
        if (pass % 50 == 0)
            check(w);
    }
    check(w);
    for (size_t i = 0; i < GS_ARRAY_LEN(g); i++)
        tsdb_group_free(g[i]);
    check(w);
    end_world(w);
    (void)state;
}

static void test_samples_are_deleted_from_blocks(void **state)
{
    struct world *w = new_world();
    struct tsdb_group *g = tsdb_group_new(w->db);
    for (size_t pass = 0; pass < PASSES; pass++) {
        for (size_t i = 0; i < SERIES; i++)
            w->values[i][pass] = (double)(pass * i % 37);
        put_row(w, g, pass, 0, 1);
        if (pass != 205 && pass != 333)
            continue;
        assert_true(tsdb_delete_after(w->db, ((int64_t)pass - 20) * 1000) > 0);
        for (size_t i = 0; i < SERIES; i++)
            memset(&w->has[i][pass - 19], 0, 20 * sizeof(w->has[i][0]));
        check(w);
    }
    check(w);
    tsdb_group_free(g);
    end_world(w);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_chunks_have_room),
        cmocka_unit_test(test_series_keep_their_samples_when_they_leave_a_group),
        cmocka_unit_test(test_samples_are_deleted_from_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
