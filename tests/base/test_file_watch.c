// SPDX-License-Identifier: Apache-2.0
#include "base/file_watch.h"

#include "../kube/loop.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    uv_loop_t loop;
    struct gs_file_watch *watch;
    char dir[64], path[96], pattern[96];
    int changes;
    char events[256]; // "+c.yml ~c.yml -c.yml"
    bool free_in_callback;
};

static void on_change(void *arg)
{
    struct fixture *f = arg;
    f->changes++;
    if (f->free_in_callback) {
        gs_file_watch_free(f->watch);
        f->watch = NULL;
    }
}

static void on_file(void *arg, const char *path, enum gs_file_event event)
{
    static const char signs[] = {
        [GS_FILE_ADDED] = '+', [GS_FILE_CHANGED] = '~', [GS_FILE_REMOVED] = '-'};
    struct fixture *f = arg;
    size_t len = strlen(f->events);
    snprintf(f->events + len, sizeof(f->events) - len, "%s%c%s", len ? " " : "", signs[event],
             strrchr(path, '/') + 1);
}

static void write_file(const struct fixture *f, const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", f->dir, name);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

static void make_dir(struct fixture *f)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    strcpy(f->dir, "/tmp/gpuscale-watch-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/c.yml", f->dir);
    snprintf(f->pattern, sizeof(f->pattern), "%s/*.yml", f->dir);
    write_file(f, "c.yml", "one\n");
}

static void start(struct fixture *f, struct gs_file_watch_options o, const char *pattern)
{
    o.poll_ms = 3600000;
    o.on_file = on_file;
    o.on_change = on_change;
    o.arg = f;
    f->watch = gs_file_watch_new(&o);
    gs_file_watch_set(f->watch, &pattern, 1);
}

// With a loop, and the options of the engine.
static void setup(struct fixture *f)
{
    make_dir(f);
    start(f,
          (struct gs_file_watch_options){
              .loop = &f->loop, .empty_after_ms = 3000, .missing_is_change = true},
          f->path);
}

// Without a loop, and with default options.
static void setup_check(struct fixture *f)
{
    make_dir(f);
    start(f, (struct gs_file_watch_options){0}, f->path);
}

static void finish(struct fixture *f)
{
    gs_file_watch_free(f->watch);
    loop_finish(&f->loop);
    GS_AUTO_FREE char *command = gs_format("rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
}

static void test_a_replaced_file_is_reported_once(void **state)
{
    struct fixture f;
    setup(&f);
    write_file(&f, "c.yml", "two\n");
    loop_until(&f.loop, f.changes == 1);
    write_file(&f, "c.yml", "two\n"); // the contents are unchanged
    loop_for_ms(&f.loop, 1000);
    assert_int_equal(f.changes, 1);
    assert_string_equal(f.events, "~c.yml");
    finish(&f);
    (void)state;
}

// Like `echo text >file` and editors: the temporarily empty file is not reported.
static void test_a_file_that_is_written_in_place_is_complete_when_it_is_reported(void **state)
{
    struct fixture f;
    setup(&f);
    int fd = open(f.path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    int64_t begin = gs_mono_ns();
    loop_for_ms(&f.loop, 1000);
    if (gs_mono_ns() - begin < 2 * GS_NS_PER_SEC) // after some time, an empty file is reported
        assert_int_equal(f.changes, 0);
    assert_int_equal(write(fd, "two\n", 4), 4);
    close(fd);
    loop_until(&f.loop, f.changes > 0);
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_ok(gs_file_read(f.path, 100, &text));
    assert_int_equal(text.len, 4);
    finish(&f);
    (void)state;
}

static void test_a_file_that_stays_empty_is_reported(void **state)
{
    struct fixture f;
    setup(&f);
    close(open(f.path, O_WRONLY | O_TRUNC | O_CLOEXEC));
    loop_until(&f.loop, f.changes == 1);
    finish(&f);
    (void)state;
}

// Like the kubelet with a ConfigMap volume: c.yml -> ..data/c.yml, ..data -> a directory.
static void test_a_swapped_link_of_a_configmap_volume_is_reported(void **state)
{
    struct fixture f;
    make_dir(&f);
    GS_AUTO_FREE char *command = gs_format(
        "cd %s && rm c.yml && mkdir ..1 ..2 && echo one >..1/c.yml && echo two >..2/c.yml && "
        "ln -s ..1 ..data && ln -s ..data/c.yml c.yml",
        f.dir);
    GS_AUTO_FREE char *swap =
        gs_format("cd %s && ln -s ..2 ..data_tmp && mv -T ..data_tmp ..data && rm -r ..1", f.dir);
    GS_AUTO_FREE char *in_place = gs_format("echo three >%s/..2/c.yml", f.dir);
    assert_int_equal(system(command), 0);
    start(&f, (struct gs_file_watch_options){.loop = &f.loop}, f.path);
    assert_int_equal(system(swap), 0);
    loop_until(&f.loop, f.changes == 1);
    assert_int_equal(system(in_place), 0); // the directory to which the link points is watched, too
    loop_until(&f.loop, f.changes == 2);
    finish(&f);
    (void)state;
}

static void test_files_of_a_glob_come_and_go(void **state)
{
    struct fixture f;
    make_dir(&f);
    start(&f, (struct gs_file_watch_options){.loop = &f.loop, .missing_is_change = true},
          f.pattern);
    write_file(&f, "d.yml", "d");
    loop_until(&f.loop, f.changes == 1);
    assert_string_equal(f.events, "+d.yml");
    unlink(f.path);
    loop_until(&f.loop, f.changes == 2);
    assert_string_equal(f.events, "+d.yml -c.yml");
    write_file(&f, "c.yml", "again");
    loop_until(&f.loop, f.changes == 3);
    assert_string_equal(f.events, "+d.yml -c.yml +c.yml");
    finish(&f);
    (void)state;
}

static void test_all_files_can_be_reported_at_the_start(void **state)
{
    struct fixture f;
    const char *const none = "/nonexistent/*.yml", *patterns[] = {f.pattern, NULL, ""};
    make_dir(&f);
    start(&f, (struct gs_file_watch_options){.loop = &f.loop}, NULL);
    gs_file_watch_set_new(f.watch, patterns, 3);
    loop_until(&f.loop, f.changes == 1);
    assert_string_equal(f.events, "+c.yml");
    gs_file_watch_set_new(f.watch, &none, 1); // on_change is called also for no files
    loop_until(&f.loop, f.changes == 2);
    assert_string_equal(f.events, "+c.yml");
    finish(&f);
    (void)state;
}

static void test_the_watch_can_be_freed_in_its_callback(void **state)
{
    struct fixture f;
    setup(&f);
    f.free_in_callback = true;
    write_file(&f, "c.yml", "two\n");
    loop_until(&f.loop, f.changes == 1);
    finish(&f);
    (void)state;
}

static void test_a_check_compares_with_the_last_one(void **state)
{
    struct fixture f;
    setup_check(&f);
    assert_false(gs_file_watch_check(f.watch));
    write_file(&f, "c.yml", "two\n");
    assert_true(gs_file_watch_check(f.watch));
    assert_false(gs_file_watch_check(f.watch));
    assert_string_equal(f.events, "~c.yml");
    assert_int_equal(f.changes, 0);
    finish(&f);
    (void)state;
}

// Also if the length is equal and both writes are within one tick of the file system's clock.
static void test_a_file_that_is_written_twice_at_once_is_reported_twice(void **state)
{
    struct fixture f;
    setup_check(&f);
    for (int i = 0; i < 100; i++) {
        FILE *file = fopen(f.path, "we");
        assert_non_null(file);
        fprintf(file, "%03d", i);
        (void)fclose(file);
        assert_true(gs_file_watch_check(f.watch));
    }
    finish(&f);
    (void)state;
}

static void test_an_old_file_is_read_again_when_it_changes(void **state)
{
    struct fixture f;
    setup_check(&f);
    const struct timespec old[] = {{1000000000, 0}, {1000000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, f.path, old, 0), 0);
    assert_false(gs_file_watch_check(f.watch)); // only touched
    assert_false(gs_file_watch_check(f.watch));
    write_file(&f, "c.yml", "two\n");
    assert_int_equal(utimensat(AT_FDCWD, f.path, old, 0), 0);
    assert_true(gs_file_watch_check(f.watch));
    finish(&f);
    (void)state;
}

static void test_an_empty_or_missing_file_is_no_change(void **state)
{
    struct fixture f;
    setup_check(&f);
    close(open(f.path, O_WRONLY | O_TRUNC | O_CLOEXEC));
    assert_false(gs_file_watch_check(f.watch));
    unlink(f.path);
    assert_false(gs_file_watch_check(f.watch));
    write_file(&f, "c.yml", "one\n"); // the contents that were last reported
    assert_false(gs_file_watch_check(f.watch));
    write_file(&f, "c.yml", "two\n");
    assert_true(gs_file_watch_check(f.watch));
    finish(&f);
    (void)state;
}

static void test_a_check_follows_links(void **state)
{
    struct fixture f;
    setup_check(&f);
    GS_AUTO_FREE char *b = gs_format("%s/b", f.dir), *link_path = gs_format("%s/link", f.dir);
    const char *const paths[] = {f.path, NULL, link_path}; // the link does not exist yet
    gs_file_watch_set(f.watch, paths, 3);
    assert_false(gs_file_watch_check(f.watch));
    write_file(&f, "c.yml", "2");
    assert_true(gs_file_watch_check(f.watch));
    assert_false(gs_file_watch_check(f.watch));
    assert_int_equal(truncate(f.path, 0), 0); // the state before the file is written in place
    assert_false(gs_file_watch_check(f.watch));
    write_file(&f, "c.yml", "4");
    assert_true(gs_file_watch_check(f.watch));
    assert_int_equal(symlink(f.path, link_path), 0);
    assert_true(gs_file_watch_check(f.watch));
    // Like the kubelet when it swaps the directory of a ConfigMap.
    write_file(&f, "b", "3");
    assert_int_equal(unlink(link_path), 0);
    // The file is missing: the previous contents are kept.
    assert_false(gs_file_watch_check(f.watch));
    assert_int_equal(symlink(b, link_path), 0);
    assert_true(gs_file_watch_check(f.watch));
    finish(&f);
    (void)state;
}

static void test_a_fifo_is_not_read(void **state)
{
    struct fixture f;
    make_dir(&f);
    GS_AUTO_FREE char *fifo = gs_format("%s/f.yml", f.dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    start(&f, (struct gs_file_watch_options){.missing_is_change = true}, f.pattern);
    assert_false(gs_file_watch_check(f.watch));
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_replaced_file_is_reported_once),
        cmocka_unit_test(test_a_file_that_is_written_in_place_is_complete_when_it_is_reported),
        cmocka_unit_test(test_a_file_that_stays_empty_is_reported),
        cmocka_unit_test(test_a_swapped_link_of_a_configmap_volume_is_reported),
        cmocka_unit_test(test_files_of_a_glob_come_and_go),
        cmocka_unit_test(test_all_files_can_be_reported_at_the_start),
        cmocka_unit_test(test_the_watch_can_be_freed_in_its_callback),
        cmocka_unit_test(test_a_check_compares_with_the_last_one),
        cmocka_unit_test(test_a_file_that_is_written_twice_at_once_is_reported_twice),
        cmocka_unit_test(test_an_old_file_is_read_again_when_it_changes),
        cmocka_unit_test(test_an_empty_or_missing_file_is_no_change),
        cmocka_unit_test(test_a_check_follows_links),
        cmocka_unit_test(test_a_fifo_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
