// SPDX-License-Identifier: Apache-2.0
// Dropping of samples in the future: remaining samples, samples that are appended later, and the
// state after a restart.
#include "unit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "tsdb/tsdb.h"

#include <stdlib.h>
#include <unistd.h>

enum { SERIES = 20, STEP_MS = 1000 };

struct fixture {
    struct tsdb *db;
    struct tsdb_group *group;
    char dir[40];
    int64_t t_ms; // of the last pass
};

static void open_db(struct fixture *f)
{
    const struct tsdb_config cfg = {.storage_path = f->dir, .retention_ms = INT64_C(1) << 40};
    assert_ok(tsdb_open(&cfg, &f->db));
    f->group = tsdb_group_new(f->db);
}

static void close_db(struct fixture *f)
{
    tsdb_group_free(f->group);
    tsdb_free(f->db);
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    strcpy(f->dir, "/tmp/gpuscale-cut-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    open_db(f);
    f->t_ms = gs_unix_ms() / 1000 * 1000;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close_db(f);
    GS_AUTO_FREE char *command = gs_format("rm -r '%s'", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void name_of(unsigned i, char out[16], struct metrics_label ret[2])
{
    snprintf(out, 16, "%u", i);
    ret[0] = (struct metrics_label){GS_SLICE("__name__"), GS_SLICE("m")};
    ret[1] = (struct metrics_label){GS_SLICE("i"), gs_slice_of(out)};
}

static double value_at(unsigned i, int64_t t_ms)
{
    return (double)(t_ms / STEP_MS % 1000) * 0.5 + i;
}

// Series i misses each (i + 2)th pass, for gaps in blocks.
static bool has_value(unsigned i, int64_t t_ms)
{
    return i % 3 || (t_ms / STEP_MS) % (i + 2);
}

static void passes(struct fixture *f, unsigned n)
{
    for (unsigned k = 0; k < n; k++) {
        f->t_ms += STEP_MS;
        assert_ok(tsdb_group_begin(f->group, f->t_ms));
        for (unsigned i = 0; i < SERIES; i++) {
            char text[16];
            struct metrics_label l[2];
            uint32_t slot;
            name_of(i, text, l);
            assert_ok(tsdb_group_slot(f->group, l, 2, &slot));
            if (has_value(i, f->t_ms))
                assert_true(tsdb_group_put(f->group, slot, value_at(i, f->t_ms)));
        }
        size_t added, fresh;
        tsdb_group_commit(f->group, &added, &fresh);
    }
}

// The values of a series without stale markers are those of the scrapes in from..until.
static void assert_span(struct fixture *f, int64_t from, int64_t until)
{
    struct tsdb_samples s = {0};
    for (unsigned i = 0; i < SERIES; i++) {
        char text[16];
        struct metrics_label l[2];
        tsdb_ref ref;
        name_of(i, text, l);
        assert_ok(tsdb_series_get(f->db, l, 2, &ref));
        tsdb_read(f->db, ref, INT64_MIN, INT64_MAX, &s);
        size_t k = 0;
        for (int64_t t = from; t <= until; t += STEP_MS) {
            if (!has_value(i, t))
                continue;
            while (k < s.n && tsdb_is_stale(s.v[k]))
                k++;
            assert_true(k < s.n);
            assert_int_equal(s.t[k], t);
            assert_true(s.v[k] == value_at(i, t));
            k++;
        }
        while (k < s.n && tsdb_is_stale(s.v[k]))
            k++;
        assert_int_equal(k, s.n);
        for (size_t j = 1; j < s.n; j++)
            assert_true(s.t[j] > s.t[j - 1]);
    }
    tsdb_samples_finish(&s);
}

static void test_what_is_ahead_goes(void **state)
{
    struct fixture *f = *state;
    int64_t first = f->t_ms + STEP_MS;
    passes(f, 700); // several blocks
    static const unsigned dropped[] = {1, 3, 8, 60, 119, 250};
    for (size_t i = 0; i < GS_ARRAY_LEN(dropped); i++) {
        struct tsdb_stats before, after;
        tsdb_stats(f->db, &before);
        f->t_ms -= (int64_t)dropped[i] * STEP_MS;
        uint64_t n = tsdb_delete_after(f->db, f->t_ms);
        assert_in_range(n, dropped[i], dropped[i] * SERIES);
        assert_int_equal(tsdb_newest_ms(f->db), f->t_ms);
        tsdb_stats(f->db, &after);
        assert_int_equal(after.cut_samples, before.cut_samples + n);
        assert_span(f, first, f->t_ms);
        passes(f, i % 2 ? 200 : 5); // the same times can be used again
        assert_span(f, first, f->t_ms);
    }
    assert_int_equal(tsdb_delete_after(f->db, f->t_ms), 0);
    assert_true(tsdb_delete_after(f->db, first - 1) > 0); // all of it
    assert_span(f, 0, -1);
    f->t_ms = first - 1;
    passes(f, 0);
}

// The log contains the dropped samples, and after them samples with earlier times.
static void test_a_restart_finds_the_same(void **state)
{
    struct fixture *f = *state;
    int64_t first = f->t_ms + STEP_MS;
    passes(f, 150);
    int64_t right = f->t_ms;
    f->t_ms += INT64_C(86400000);
    passes(f, 30); // a day ahead
    f->t_ms = right;
    assert_true(tsdb_delete_after(f->db, right) > 0);
    passes(f, 50);
    assert_span(f, first, f->t_ms);
    tsdb_sync(f->db);
    close_db(f);
    open_db(f);
    assert_int_equal(tsdb_newest_ms(f->db), f->t_ms);
    assert_span(f, first, f->t_ms);
    passes(f, 10);
    assert_span(f, first, f->t_ms);
}

struct progress {
    unsigned calls;
    uint64_t done, total;
    bool go_on;
};

static bool on_recovery(void *arg, uint64_t done, uint64_t total)
{
    struct progress *p = arg;
    assert_true(done >= p->done && done <= total && (!p->total || total == p->total));
    p->calls++;
    p->done = done;
    p->total = total;
    return p->go_on;
}

// The caller of the recovery gets its progress, and can cancel it.
static void test_a_recovery_can_be_watched_and_ended(void **state)
{
    struct fixture *f = *state;
    struct progress p = {.go_on = false};
    int64_t first = f->t_ms + STEP_MS;
    passes(f, 300);
    tsdb_sync(f->db);
    close_db(f);
    struct tsdb_config cfg = {.storage_path = f->dir,
                              .retention_ms = INT64_C(1) << 40,
                              .on_recovery = on_recovery,
                              .arg = &p};
    GS_AUTO_ERROR struct gs_error *err = tsdb_open(&cfg, &f->db);
    assert_int_equal(gs_error_code(err), GS_EUNAVAIL);
    assert_int_equal(p.calls, 1);
    p = (struct progress){.go_on = true};
    assert_ok(tsdb_open(&cfg, &f->db));
    assert_true(p.calls >= 1 && p.done > 0);
    f->group = tsdb_group_new(f->db);
    assert_span(f, first, f->t_ms);
}

// A scrape continues if samples before it are dropped.
static void test_a_pass_under_way_goes_on(void **state)
{
    struct fixture *f = *state;
    int64_t first = f->t_ms + STEP_MS;
    passes(f, 133);
    for (unsigned back = 1; back < 10; back++) {
        int64_t t = f->t_ms + STEP_MS;
        char text[16];
        struct metrics_label l[2];
        uint32_t slot;
        name_of(1, text, l);
        assert_ok(tsdb_group_begin(f->group, t));
        assert_ok(tsdb_group_slot(f->group, l, 2, &slot));
        assert_true(tsdb_group_put(f->group, slot, value_at(1, t)));
        f->t_ms -= back * STEP_MS;
        assert_true(tsdb_delete_after(f->db, f->t_ms) > 0);
        size_t added, fresh;
        tsdb_group_commit(f->group, &added, &fresh);
        assert_int_equal(added, 1);
        tsdb_delete_after(f->db, f->t_ms);
        passes(f, 12);
        assert_span(f, first, f->t_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_ahead_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_restart_finds_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pass_under_way_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_recovery_can_be_watched_and_ended, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
