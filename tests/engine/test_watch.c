// SPDX-License-Identifier: Apache-2.0
#include "engine/watch.h"

#include "../kube/loop.h"
#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <unistd.h>

struct fixture {
    uv_loop_t loop;
    struct engine_watch *watch;
    char dir[64], path[96];
    int changes;
};

static void on_changed(void *arg)
{
    ((struct fixture *)arg)->changes++;
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    strcpy(f->dir, "/tmp/gpuscale-watch-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/c.yml", f->dir);
    assert_ok(gs_file_write_atomic(f->path, 0600, GS_SLICE("one\n")));
    f->watch = engine_watch_new(&f->loop, 3600000, on_changed, f);
    engine_watch_set(f->watch, f->path, NULL, 0);
}

static void finish(struct fixture *f)
{
    engine_watch_free(f->watch);
    loop_finish(&f->loop);
    unlink(f->path);
    rmdir(f->dir);
}

static void a_replaced_file_is_told_once(void **state)
{
    struct fixture f;
    setup(&f);
    assert_ok(gs_file_write_atomic(f.path, 0600, GS_SLICE("two\n")));
    loop_until(&f.loop, f.changes == 1);
    assert_ok(gs_file_write_atomic(f.path, 0600, GS_SLICE("two\n"))); // nothing new in it
    loop_for_ms(&f.loop, 1000);
    assert_int_equal(f.changes, 1);
    finish(&f);
    (void)state;
}

// As `echo text >file` and editors do: nobody is told of the empty file between.
static void a_file_that_is_written_in_place_is_whole_when_it_is_told(void **state)
{
    struct fixture f;
    setup(&f);
    int fd = open(f.path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    int64_t start = gs_mono_ns();
    loop_for_ms(&f.loop, 1000);
    if (gs_mono_ns() - start < 2 * GS_NS_PER_SEC) // at some time an empty file is meant
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

static void a_file_that_stays_empty_is_told(void **state)
{
    struct fixture f;
    setup(&f);
    close(open(f.path, O_WRONLY | O_TRUNC | O_CLOEXEC));
    loop_until(&f.loop, f.changes == 1);
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replaced_file_is_told_once),
        cmocka_unit_test(a_file_that_is_written_in_place_is_whole_when_it_is_told),
        cmocka_unit_test(a_file_that_stays_empty_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
