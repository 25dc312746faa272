// SPDX-License-Identifier: Apache-2.0
#include "ledger_fixture.h"

#include "base/file.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct ledger_key web = {
    .text = {"ml", "deployment/web", "t", "a", "p", "m", "T4", "exclusive"}};

static void remove_store(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        GS_AUTO_FREE char *file = gs_format("%s%s", path, suffixes[i]);
        unlink(file);
    }
}

static double busy_minutes(struct ledger_store *s)
{
    struct sum sum = {0};
    assert_ok(ledger_store_read(s, 0, T0 * 2, add_to_sum, &sum));
    return sum.amount.ms[LEDGER_BUSY] / (double)MINUTE;
}

static void write_minutes(struct ledger_store *s, int64_t from, int n)
{
    struct ledger_table *t = ledger_table_new(100);
    struct ledger_meter *m = ledger_meter_new();
    for (int i = 0; i < n; i++) {
        ledger_table_add(t, from, from + MINUTE, &web, LEDGER_BUSY, 1, 0.5);
        from += MINUTE;
        assert_ok(ledger_store_write(s, t, m, from));
        ledger_table_written(t, from);
    }
    ledger_table_free(t);
    ledger_meter_free(m);
}

static void test_hours_are_added_up_and_survive_a_restart(void **state)
{
    char dir[] = "/tmp/ledger-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/ledger.db", dir);
    struct ledger_store *s, *reader;
    int64_t until;
    assert_error(ledger_store_open_reader(path, &reader), GS_ENOTFOUND, "does not exist");
    assert_ok(ledger_store_open(path, &s));
    write_minutes(s, T0 + 58 * MINUTE, 4);
    assert_ok(ledger_store_open_reader(path, &reader)); // while it is being written
    assert_near(busy_minutes(reader), 4);
    ledger_store_close(reader);
    ledger_store_close(s);
    assert_ok(ledger_store_open(path, &s));
    assert_ok(ledger_store_until(s, &until));
    assert_int_equal(until, T0 + 62 * MINUTE);
    write_minutes(s, until, 1);
    assert_near(busy_minutes(s), 5);
    struct sum sum = {0};
    assert_ok(ledger_store_read(s, T0 + 60 * MINUTE, T0 + 61 * MINUTE, add_to_sum, &sum));
    assert_int_equal(sum.rows, 1);
    assert_near(sum.amount.ms[LEDGER_BUSY], 3 * MINUTE);
    assert_near(sum.amount.used_ms, 1.5 * MINUTE);
    ledger_store_close(s);
    remove_store(path);
    rmdir(dir);
}

// The time that is complete and the hours are written together: what is counted again after a crash
// is what was not written.
static void test_killed_writer_leaves_no_half_of_a_write(void **state)
{
    char dir[] = "/tmp/ledger-XXXXXX";
    struct ledger_store *s;
    int64_t until;
    int status, ready[2];
    char byte;
    (void)state;
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/ledger.db", dir);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        assert_ok(ledger_store_open(path, &s));
        for (int64_t at = T0;; at += 50 * MINUTE) {
            write_minutes(s, at, 50);
            (void)!write(ready[1], "", 1);
        }
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ready[0]);
    close(ready[1]);
    assert_ok(ledger_store_open(path, &s));
    assert_ok(ledger_store_until(s, &until));
    assert_true(until >= T0 + 150 * MINUTE);
    assert_near(busy_minutes(s), (double)(until - T0) / (double)MINUTE);
    ledger_store_close(s);
    remove_store(path);
    rmdir(dir);
}

static void test_expected_gpus_survive_a_restart(void **state)
{
    struct ledger_store *s;
    struct ledger_table *t = ledger_table_new(10);
    struct ledger_meter *m = ledger_meter_new(), *after = ledger_meter_new();
    struct ledger_observation *o = ledger_observation_new("team");
    (void)state;
    assert_ok(ledger_store_open(NULL, &s));
    add_sample(o, LEDGER_UTIL, "UUID=GPU-1,gpu=3,Hostname=a,pod=web-1,namespace=ml,modelName=T4",
               0);
    ledger_meter_observe(m, o, T0, T0 + MINUTE, t);
    assert_ok(ledger_store_write(s, t, m, T0 + MINUTE));
    assert_ok(ledger_store_restore(s, after));
    size_t pos = 0;
    const struct ledger_gpu *g = ledger_meter_next(after, &pos);
    assert_non_null(g);
    assert_string_equal(g->gpu, "3");
    assert_string_equal(g->pod, "web-1");
    assert_int_equal(g->idle_ms, MINUTE);
    assert_int_equal(g->seen_ms, T0 + MINUTE);
    // The same GPU is found again, and its idle time continues.
    struct ledger_observation *next = ledger_observation_new("team");
    add_sample(next, LEDGER_UTIL, "UUID=GPU-1,gpu=3,Hostname=a,pod=web-1,namespace=ml", 0);
    ledger_meter_observe(after, next, T0 + MINUTE, T0 + 2 * MINUTE, t);
    pos = 0;
    assert_int_equal(ledger_meter_next(after, &pos)->idle_ms, 2 * MINUTE);
    assert_null(ledger_meter_next(after, &pos));
    ledger_observation_free(o);
    ledger_observation_free(next);
    ledger_meter_free(m);
    ledger_meter_free(after);
    ledger_table_free(t);
    ledger_store_close(s);
}

static void test_old_hours_and_hours_above_the_limit_are_deleted(void **state)
{
    struct ledger_store *s;
    struct ledger_table *t = ledger_table_new(100000);
    struct ledger_meter *m = ledger_meter_new();
    (void)state;
    assert_ok(ledger_store_open(NULL, &s));
    write_minutes(s, T0, 1);
    write_minutes(s, T0 + 300 * 24 * LEDGER_HOUR_MS, 1);
    assert_ok(ledger_store_prune(s, T0 + LEDGER_DAYS * 24 * LEDGER_HOUR_MS, 0));
    assert_near(busy_minutes(s), 2);
    assert_ok(ledger_store_prune(s, T0 + (LEDGER_DAYS * 24 + 1) * LEDGER_HOUR_MS, 0));
    assert_near(busy_minutes(s), 1);
    for (int i = 0; i < 5000; i++) {
        GS_AUTO_FREE char *pod = gs_format("pod/%d", i);
        const struct ledger_key key = {.text = {"ml", pod, "", "a", "", "", "", ""}};
        ledger_table_add(t, T0, T0 + MINUTE, &key, LEDGER_BUSY, 1, 1);
    }
    assert_ok(ledger_store_write(s, t, m, T0));
    assert_ok(ledger_store_prune(s, T0, INT64_C(200) << 10));
    assert_near(busy_minutes(s), 1);
    ledger_table_free(t);
    ledger_meter_free(m);
    ledger_store_close(s);
}

static void test_wrong_clock_does_not_delete_the_history(void **state)
{
    const int64_t year = 365 * 24 * LEDGER_HOUR_MS, day = 24 * LEDGER_HOUR_MS;
    struct ledger_store *s;
    (void)state;
    assert_ok(ledger_store_open(NULL, &s));
    for (int i = 0; i < 5; i++)
        write_minutes(s, T0 + i * day, 1);
    write_minutes(s, T0 + 10 * year, 1);
    assert_ok(ledger_store_prune(s, T0 + 10 * year, 0));
    assert_near(busy_minutes(s), 5);
    assert_ok(ledger_store_prune(s, INT64_MIN, 0));
    assert_near(busy_minutes(s), 5);
    ledger_store_close(s);
}

static void test_archive_in_a_directory_without_write_permission_is_read(void **state)
{
    char dir[] = "/tmp/ledger-%41-XXXXXX";
    struct ledger_store *s;
    (void)state;
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/a?b#c.db", dir);
    assert_ok(ledger_store_open(path, &s));
    write_minutes(s, T0, 3);
    ledger_store_close(s);
    assert_int_equal(chmod(dir, 0500), 0);
    assert_ok(ledger_store_open_reader(path, &s));
    assert_near(busy_minutes(s), 3);
    ledger_store_close(s);
    assert_int_equal(chmod(dir, 0700), 0);
    remove_store(path);
    rmdir(dir);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static double saved_in(const char *path)
{
    struct ledger_store *s;
    struct sum sum = {0};
    assert_ok(ledger_store_open_reader(path, &s));
    assert_ok(ledger_store_read(s, 0, T0 * 2, add_to_sum, &sum));
    ledger_store_close(s);
    return sum.amount.saved_ms / (double)MINUTE;
}

static void write_saved_minutes(struct ledger_store *s, int64_t from, double gpus)
{
    struct ledger_table *t = ledger_table_new(100);
    struct ledger_meter *m = ledger_meter_new();
    ledger_table_add_saved(t, from, from + MINUTE, &web, gpus);
    assert_ok(ledger_store_write(s, t, m, from + MINUTE));
    ledger_table_free(t);
    ledger_meter_free(m);
}

// Also in the file of a gpuscale that did not know them.
static void test_saved_hours_are_kept_and_deleted(void **state)
{
    char path[] = "/tmp/ledger-XXXXXX";
    struct ledger_store *s;
    (void)state;
    close(mkstemp(path));
    assert_ok(ledger_store_open(path, &s));
    write_minutes(s, T0, 1);
    ledger_store_close(s);
    run_sql(path, "DROP TABLE saved");
    assert_near(saved_in(path), 0);
    assert_ok(ledger_store_open(path, &s));
    write_saved_minutes(s, T0 + MINUTE, 2);
    write_saved_minutes(s, T0 + 59 * MINUTE, 1);
    assert_near(busy_minutes(s), 1);
    assert_near(saved_in(path), 3);
    // The model that prices a workload at zero is known after a restart.
    struct ledger_meter *m = ledger_meter_new();
    struct ledger_table *t = ledger_table_new(100);
    struct ledger_observation *o = ledger_observation_new("team");
    assert_ok(ledger_store_restore(s, m));
    add_sample(o, LEDGER_ZERO, "namespace=ml,owner_kind=Deployment,owner_name=web", 1);
    ledger_meter_observe(m, o, T0, T0 + MINUTE, t);
    assert_near(saved_minutes(t, LEDGER_MODEL, "T4"), 1);
    ledger_observation_free(o);
    ledger_table_free(t);
    ledger_meter_free(m);
    assert_ok(ledger_store_prune(s, T0 + (LEDGER_DAYS + 1) * 24 * LEDGER_HOUR_MS, 0));
    assert_near(saved_in(path), 0);
    ledger_store_close(s);
    remove_store(path);
}

static void test_impossible_numbers_are_errors(void **state)
{
    static const char *const changes[] = {
        "UPDATE hours SET busy = 9e999",
        "UPDATE hours SET idle = -1",
        "UPDATE hours SET used = NULL, free = 1e300",
        "INSERT INTO saved SELECT hour, grp, -1 FROM hours",
        "INSERT INTO gpus (id, share, seen, idle_since, idle) VALUES ('x', 9e999, 1, 1, 1)",
        "INSERT INTO gpus (id, share, seen, idle_since, idle) VALUES ('x', 1, -1, 1, 1)",
        "INSERT INTO gpus (id, share, seen, idle_since, idle)"
        " VALUES ('x', 1, 9223372036854775807, 1, 1)",
    };
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(changes); i++) {
        char path[] = "/tmp/ledger-XXXXXX";
        struct ledger_store *s;
        sqlite3 *db;
        struct sum sum = {0};
        struct ledger_meter *m = ledger_meter_new();
        close(mkstemp(path));
        assert_ok(ledger_store_open(path, &s));
        write_minutes(s, T0, 1);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, changes[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        struct gs_error *err = ledger_store_read(s, 0, T0 * 2, add_to_sum, &sum);
        if (!err)
            err = ledger_store_restore(s, m);
        assert_error(err, GS_EIO, "damaged");
        ledger_meter_free(m);
        ledger_store_close(s);
        remove_store(path);
    }
}

static void test_other_files_are_refused(void **state)
{
    char path[] = "/tmp/ledger-XXXXXX";
    struct ledger_store *s;
    (void)state;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "not a database, and long enough to be read as one", 49), 49);
    close(fd);
    assert_error(ledger_store_open_reader(path, &s), GS_EIO, "not a database");
    assert_error(ledger_store_open(path, &s), GS_EIO, "not a database");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hours_are_added_up_and_survive_a_restart),
        cmocka_unit_test(test_killed_writer_leaves_no_half_of_a_write),
        cmocka_unit_test(test_expected_gpus_survive_a_restart),
        cmocka_unit_test(test_old_hours_and_hours_above_the_limit_are_deleted),
        cmocka_unit_test(test_wrong_clock_does_not_delete_the_history),
        cmocka_unit_test(test_archive_in_a_directory_without_write_permission_is_read),
        cmocka_unit_test(test_saved_hours_are_kept_and_deleted),
        cmocka_unit_test(test_impossible_numbers_are_errors),
        cmocka_unit_test(test_other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
