// SPDX-License-Identifier: Apache-2.0
// Compares a store with blocks in files and one with blocks in memory: both have the same samples,
// and only one of them grows.
#include "base/clock.h"
#include "base/mem.h"
#include "patience.h"
#include "tsdb/tsdb.h"
#include "unit.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SERIES       20
#define RETENTION_MS 900000
#define STEP_MS      1000

struct side {
    struct tsdb *db;
    struct tsdb_group *group;
    uint32_t slots[SERIES];
};

struct pair {
    char dir[64];
    struct side files, memory;
    unsigned random;
    int64_t retention_ms;
    uint64_t snapshot_bytes, max_file_bytes;
    double divisor; // of the values: how many digits they have
};

static void begin_side(const struct pair *p, struct side *s, const char *dir)
{
    const struct tsdb_config cfg = {.retention_ms = p->retention_ms,
                                    .storage_path = dir,
                                    .snapshot_bytes = p->snapshot_bytes,
                                    .max_file_bytes = p->max_file_bytes};
    assert_ok(tsdb_open(&cfg, &s->db));
    s->group = tsdb_group_new(s->db);
    for (int i = 0; i < SERIES; i++) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%02d", i);
        const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                               {GS_SLICE("gpu"), gs_slice_of(number)}};
        assert_ok(tsdb_group_slot(s->group, labels, 2, &s->slots[i]));
    }
}

static void begin(struct pair *p, int64_t retention_ms, uint64_t snapshot_bytes, double divisor)
{
    *p = (struct pair){.dir = "/tmp/gpuscale-history-XXXXXX",
                       .random = 1,
                       .retention_ms = retention_ms,
                       .snapshot_bytes = snapshot_bytes,
                       .divisor = divisor};
    assert_non_null(mkdtemp(p->dir));
    begin_side(p, &p->files, p->dir);
    begin_side(p, &p->memory, NULL);
}

static void restart(struct pair *p)
{
    tsdb_group_free(p->files.group);
    tsdb_free(p->files.db);
    begin_side(p, &p->files, p->dir);
}

static void end_side(struct side *s)
{
    tsdb_group_free(s->group);
    tsdb_free(s->db);
}

static void end(struct pair *p)
{
    end_side(&p->files);
    end_side(&p->memory);
    GS_AUTO_FREE char *command = gs_format("rm -r %s", p->dir);
    assert_int_equal(system(command), 0);
}

static unsigned next(struct pair *p)
{
    return p->random = p->random * 1103515245 + 12345;
}

// A scrape with gaps and ends of series, and a sample of a single series.
static void pass(struct pair *p, int64_t t_ms)
{
    const struct metrics_label own[] = {{GS_SLICE("__name__"), GS_SLICE("own")}};
    struct side *sides[] = {&p->files, &p->memory};
    double values[SERIES], single = next(p) % 1000;
    bool there[SERIES];
    for (int i = 0; i < SERIES; i++) {
        values[i] = (double)(next(p) >> 8) / p->divisor;
        there[i] = (next(p) >> 16) % 50 != 0;
    }
    for (int k = 0; k < 2; k++) {
        size_t added, fresh;
        assert_ok(tsdb_group_begin(sides[k]->group, t_ms));
        for (int i = 0; i < SERIES; i++)
            if (there[i])
                assert_true(tsdb_group_put(sides[k]->group, sides[k]->slots[i], values[i]));
        tsdb_group_commit(sides[k]->group, &added, &fresh);
        assert_ok(tsdb_append(sides[k]->db, own, 1, t_ms, single));
    }
}

static void assert_same(const struct pair *p, int64_t mint, int64_t maxt)
{
    struct tsdb_refs a = {0}, b = {0};
    struct tsdb_samples x = {0}, y = {0};
    assert_ok(tsdb_find(p->files.db, NULL, 0, mint, maxt, 0, &a));
    assert_ok(tsdb_find(p->memory.db, NULL, 0, mint, maxt, 0, &b));
    assert_int_equal(a.len, SERIES + 1);
    assert_int_equal(b.len, SERIES + 1);
    for (size_t i = 0; i < a.len; i++) {
        tsdb_read(p->files.db, a.items[i], mint, maxt, &x);
        tsdb_read(p->memory.db, b.items[i], mint, maxt, &y);
        assert_true(x.n > 0);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.t, y.t, x.n * sizeof(*x.t));
        assert_memory_equal(x.v, y.v, x.n * sizeof(*x.v));
        double v[2];
        tsdb_latest(p->files.db, &a.items[i], 1, mint + STEP_MS / 2, 0, &v[0], NULL);
        tsdb_latest(p->memory.db, &b.items[i], 1, mint + STEP_MS / 2, 0, &v[1], NULL);
        assert_memory_equal(&v[0], &v[1], sizeof(v[0]));
    }
    tsdb_samples_finish(&x);
    tsdb_samples_finish(&y);
    tsdb_refs_finish(&a);
    tsdb_refs_finish(&b);
}

static size_t files_of(const struct pair *p)
{
    GS_AUTO_FREE char *pattern = gs_format("%s/wal/blocks-*", p->dir);
    glob_t found;
    size_t n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static size_t sample_bytes(const struct side *s)
{
    struct tsdb_stats stats;
    tsdb_stats(s->db, &stats);
    return stats.bytes_samples;
}

// Waits until the disk has been synced and the following steps are done.
static void settle(struct pair *p, int times)
{
    for (int i = 0; i < times; i++) {
        usleep(1000);
        tsdb_sync(p->files.db);
    }
}

static void test_blocks_in_files_read_as_those_in_memory(void **state)
{
    (void)state;
    struct pair p;
    begin(&p, RETENTION_MS, 20000, 1000);
    int64_t from = gs_unix_ms() - 3000 * STEP_MS;
    for (int i = 0; i < 3000; i++) {
        int64_t t = from + (int64_t)i * STEP_MS;
        pass(&p, t);
        tsdb_sync(p.files.db);
        if (i % 30 == 0)
            settle(&p, 5);
        // Samples past the retention may be present or absent.
        int64_t oldest = gs_unix_ms() - RETENTION_MS + 2000;
        if (i % 50 == 49 && t > oldest) {
            int64_t mint = oldest + (int64_t)(next(&p) % (uint64_t)(t - oldest + 1));
            assert_same(&p, mint, t);
            assert_same(&p, mint, mint + 200000);
        }
    }
    GS_AUTO_FREE char *first = gs_format("%s/wal/blocks-00000001", p.dir);
    // All of the first file was past the retention.
    for (int64_t end = gs_mono_ns() + WAIT_NS;
         sample_bytes(&p.files) * 2 >= sample_bytes(&p.memory) || access(first, F_OK) == 0;
         settle(&p, 10))
        assert_true(gs_mono_ns() < end);
    assert_true(files_of(&p) > 1);
    // After a restart, they are read from the files, too.
    restart(&p);
    assert_true(sample_bytes(&p.files) * 2 < sample_bytes(&p.memory));
    int64_t oldest = gs_unix_ms() - RETENTION_MS + 2000;
    assert_same(&p, oldest, from + INT64_C(3000) * STEP_MS);
    pass(&p, from + INT64_C(3000) * STEP_MS);
    oldest = gs_unix_ms() - RETENTION_MS + 2000;
    assert_same(&p, oldest, from + INT64_C(3001) * STEP_MS);
    end(&p);
}

// The log is too short for a snapshot: blocks are written without waiting for one.
static void test_complete_blocks_do_not_wait_for_a_snapshot(void **state)
{
    (void)state;
    struct pair p;
    begin(&p, INT64_C(86400000), UINT64_MAX, 7); // not decimal: nine bytes each
    int64_t from = gs_unix_ms() - 9000 * STEP_MS;
    for (int i = 0; i < 9000; i++) {
        pass(&p, from + (int64_t)i * STEP_MS);
        if (i % 100 == 0)
            settle(&p, 5);
    }
    assert_true(sample_bytes(&p.memory) > (size_t)1500000);
    for (int64_t end = gs_mono_ns() + WAIT_NS; sample_bytes(&p.files) > (size_t)1500000;
         settle(&p, 10))
        assert_true(gs_mono_ns() < end);
    assert_same(&p, from, from + INT64_C(9000) * STEP_MS);
    restart(&p); // the log has all samples, too
    assert_same(&p, from, from + INT64_C(9000) * STEP_MS);
    end(&p);
}

static uint64_t bytes_of_files(const struct pair *p)
{
    struct tsdb_stats stats;
    tsdb_stats(p->files.db, &stats);
    return stats.blocks_bytes;
}

static void test_files_over_their_limit_lose_their_oldest_samples(void **state)
{
    (void)state;
    struct pair p;
    enum { LIMIT = 200000, PASSES = 9000 };
    begin(&p, INT64_C(86400000), 20000, 7);
    p.max_file_bytes = LIMIT;
    restart(&p);
    int64_t from = gs_unix_ms() - PASSES * STEP_MS, until = from + INT64_C(9000) * STEP_MS;
    uint64_t most = 0;
    for (int i = 0; i < PASSES; i++) {
        pass(&p, from + (int64_t)i * STEP_MS);
        settle(&p, i % 30 == 0 ? 5 : 1);
        most = bytes_of_files(&p) > most ? bytes_of_files(&p) : most;
    }
    assert_true(sample_bytes(&p.memory) > (size_t)1500000);
    // The file that is being written comes on top.
    for (int64_t end = gs_mono_ns() + WAIT_NS; bytes_of_files(&p) > 2 * LIMIT; settle(&p, 10))
        assert_true(gs_mono_ns() < end);
    assert_true(most < 5 * (uint64_t)LIMIT);
    struct tsdb_stats stats;
    tsdb_stats(p.files.db, &stats);
    assert_true(stats.min_t_ms > from + PASSES / 4 * STEP_MS);
    assert_same(&p, stats.min_t_ms + 200 * STEP_MS, until);
    restart(&p);
    assert_same(&p, stats.min_t_ms + 200 * STEP_MS, until);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_in_files_read_as_those_in_memory),
        cmocka_unit_test(test_complete_blocks_do_not_wait_for_a_snapshot),
        cmocka_unit_test(test_files_over_their_limit_lose_their_oldest_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
