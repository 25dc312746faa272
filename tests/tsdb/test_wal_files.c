// SPDX-License-Identifier: Apache-2.0
// Files of the log and of snapshots that are empty or cut.
#include "unit.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "tsdb/tsdb.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    char dir[64];
    struct gs_buf log;
};

static void keep_line(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    strcpy(f->dir, "/tmp/gpuscale-wal-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    gs_log_set_sink(keep_line, &f->log);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *command = gs_format("rm -rf %s", f->dir);
    gs_log_set_sink(NULL, NULL);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c)
    gs_buf_finish(&f->log);
    free(f);
    return 0;
}

// Adds one sample, in a segment of its own. Returns the number of samples that are there then.
static size_t live(struct fixture *f, int64_t t)
{
    struct tsdb *db;
    const struct metrics_label label = {gs_slice_of("__name__"), gs_slice_of("m")};
    struct tsdb_samples samples = {0};
    assert_ok(tsdb_open(
        &(struct tsdb_config){.storage_path = f->dir, .retention_ms = INT64_MAX / 4}, &db));
    assert_ok(tsdb_append(db, &label, 1, t, 1));
    tsdb_sync(db);
    tsdb_read(db, 0, 0, INT64_MAX, &samples);
    size_t n = samples.n;
    tsdb_samples_finish(&samples);
    tsdb_free(db);
    return n;
}

static char *path_of(const struct fixture *f, const char *name)
{
    return gs_format("%s/wal/%s", f->dir, name);
}

static void assert_logged(const struct fixture *f, const char *text)
{
    if (!f->log.data || !strstr(f->log.data, text))
        fail_msg("\"%s\" is not logged: %s", text, f->log.data ? f->log.data : "nothing is");
}

// The warning is not repeated at each start.
static void assert_silent_from_now_on(struct fixture *f, size_t samples)
{
    gs_buf_finish(&f->log);
    assert_int_equal(live(f, 1000), samples + 1);
    assert_null(f->log.data);
}

static void test_emptied_segments_are_named(void **state)
{
    struct fixture *f = *state;
    live(f, 1);
    live(f, 2);
    assert_int_equal(live(f, 3), 3);
    assert_null(f->log.data);
    GS_AUTO_FREE char *second = path_of(f, "wal-00000002");
    assert_int_equal(truncate(second, 0), 0);
    assert_int_equal(live(f, 4), 3);
    assert_logged(f, "wal/wal-00000002 has 0 bytes: the samples that were in it are lost");
    assert_silent_from_now_on(f, 3);
}

static void test_emptied_last_segments_are_named(void **state)
{
    struct fixture *f = *state;
    live(f, 1);
    live(f, 2);
    live(f, 3);
    GS_AUTO_FREE char *second = path_of(f, "wal-00000002"), *third = path_of(f, "wal-00000003");
    assert_int_equal(truncate(second, 0), 0);
    assert_int_equal(truncate(third, 0), 0);
    assert_int_equal(live(f, 4), 2);
    assert_logged(f, "wal/wal-00000002 and 1 more files have 0 bytes");
    assert_silent_from_now_on(f, 2);
}

static void test_cut_segments_are_named(void **state)
{
    struct fixture *f = *state;
    live(f, 1);
    live(f, 2);
    live(f, 3);
    GS_AUTO_FREE char *second = path_of(f, "wal-00000002");
    assert_int_equal(truncate(second, 40), 0);
    assert_int_equal(live(f, 4), 3);
    assert_logged(f, "The first of these files is wal-00000002");
    assert_logged(f, "records in 1 files are incomplete or corrupt");
}

static void test_emptied_snapshots_are_named(void **state)
{
    struct fixture *f = *state;
    live(f, 1);
    GS_AUTO_FREE char *old = path_of(f, "blocks-00000001");
    GS_AUTO_FREE char *cut = path_of(f, "blocks-00000002");
    assert_ok(gs_file_write_atomic(old, 0644, gs_slice_of("")));
    assert_ok(gs_file_write_atomic(cut, 0644, gs_slice_of("gs")));
    assert_int_equal(live(f, 2), 2);
    assert_logged(f, "wal/blocks-00000001 has 0 bytes");
    assert_logged(f, "The first of these files is blocks-00000002");
}

// The program may end between the creation of a file and its first records.
static void test_files_that_were_just_begun_are_no_loss(void **state)
{
    struct fixture *f = *state;
    const struct metrics_label label = {gs_slice_of("__name__"), gs_slice_of("m")};
    live(f, 1);
    pid_t child = fork();
    if (child == 0) {
        struct tsdb *db;
        assert_ok(tsdb_open(
            &(struct tsdb_config){.storage_path = f->dir, .retention_ms = INT64_MAX / 4}, &db));
        assert_ok(tsdb_append(db, &label, 1, 2, 2));
        _exit(0); // without a write
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    GS_AUTO_FREE char *begun = path_of(f, "wal-00000002");
    assert_int_equal(access(begun, F_OK), 0);
    assert_int_equal(live(f, 3), 2);
    assert_null(f->log.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_emptied_segments_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_emptied_last_segments_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_segments_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_emptied_snapshots_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_that_were_just_begun_are_no_loss, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
