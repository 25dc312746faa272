// SPDX-License-Identifier: Apache-2.0
#include "base/database.h"

#include "base/file.h"
#include "base/mem.h"
#include "unit.h"

static void write_bytes(const char *path, const char *bytes)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(bytes, f);
    assert_int_equal(fclose(f), 0);
}

static void test_only_an_existing_file_without_contents_is_emptied(void **state)
{
    char dir[] = "/tmp/gpuscale-database-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/x.db", dir), *log = gs_format("%s/x.db-wal", dir);
    assert_false(gs_database_is_emptied(path));
    assert_false(gs_database_is_emptied(dir));
    write_bytes(path, "");
    assert_true(gs_database_is_emptied(path));
    write_bytes(log, "");
    assert_true(gs_database_is_emptied(path));
    write_bytes(log, "frames"); // from which SQLite restores it
    assert_false(gs_database_is_emptied(path));
    unlink(log);
    write_bytes(path, "SQLite format 3");
    assert_false(gs_database_is_emptied(path));
    gs_remove_tree(dir);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_an_existing_file_without_contents_is_emptied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
