// SPDX-License-Identifier: Apache-2.0
// The object store: order, versions, the ring of changes, survival of restarts, damaged files, full
// disks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "local/api/store.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *const names[] = {"/pods", "apps/deployments"};

struct dir {
    char path[64];
    char db[96];
};

static int make_dir(void **state)
{
    struct dir *d = gs_alloc(sizeof *d);

    snprintf(d->path, sizeof d->path, "/tmp/gpuscale-store-XXXXXX");
    assert_non_null(mkdtemp(d->path));
    snprintf(d->db, sizeof d->db, "%s/state.db", d->path);
    *state = d;
    return 0;
}

static int remove_dir(void **state)
{
    struct dir *d = *state;
    DIR *dir = opendir(d->path);
    struct dirent *e;

    while ((e = readdir(dir))) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", d->path, e->d_name);
        unlink(path);
    }
    closedir(dir);
    rmdir(d->path);
    free(d);
    return 0;
}

static struct local_api_store *open_store(const char *path, size_t ring_len, size_t ring_bytes)
{
    struct local_api_store *s = NULL;
    struct gs_error *err =
        local_api_store_open(&(struct local_api_store_config){.path = path,
                                                              .bucket_names = names,
                                                              .n_buckets = GS_ARRAY_LEN(names),
                                                              .ring_len = ring_len,
                                                              .ring_bytes = ring_bytes},
                             &s);
    if (err)
        fail_msg("%s", gs_error_message(err));
    return s;
}

static struct gs_error *put(struct local_api_store *s, const char *ns, const char *name,
                            const char *value)
{
    json_t *obj = json_object();

    codec_json_set(obj, json_string(name), "metadata", "name", NULL);
    if (*ns)
        codec_json_set(obj, json_string(ns), "metadata", "namespace", NULL);
    codec_json_set_str(obj, "value", value);
    return local_api_store_put(s, 0, obj, NULL);
}

static void test_objects_come_in_order(void **state)
{
    static const char *const want[][2] = {{"a", "x"}, {"a", "y"}, {"a-b", "a"}, {"b", "a"}};
    GS_CLEANUP(local_api_store_closep) struct local_api_store *s = open_store(NULL, 0, 0);

    assert_null(put(s, "b", "a", "1"));
    assert_null(put(s, "a", "y", "1"));
    assert_null(put(s, "a-b", "a", "1"));
    assert_null(put(s, "a", "x", "1"));
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++) {
        const char *ns, *name;
        assert_non_null(local_api_store_at(s, 0, i, &ns, &name));
        assert_string_equal(ns, want[i][0]);
        assert_string_equal(name, want[i][1]);
    }
    assert_null(local_api_store_at(s, 0, GS_ARRAY_LEN(want), NULL, NULL));
    assert_int_equal(local_api_store_seek(s, 0, "a", "xx"), 1);
    assert_int_equal(local_api_store_len(s, 1), 0);
}

static void test_every_change_has_a_version(void **state)
{
    GS_CLEANUP(local_api_store_closep) struct local_api_store *s = open_store(NULL, 0, 0);

    assert_null(put(s, "a", "x", "1"));
    assert_null(put(s, "a", "x", "2"));
    const struct local_api_store_version *v = local_api_store_get(s, 0, "a", "x");
    assert_int_equal(v->rv, 2);
    assert_string_equal(codec_json_str(v->tree, "metadata", "resourceVersion", NULL), "2");
    assert_string_equal(codec_json_str(v->tree, "value", NULL), "2");
    assert_null(local_api_store_delete(s, 0, "a", "x"));
    assert_int_equal(local_api_store_rv(s), 3);
    assert_null(local_api_store_get(s, 0, "a", "x"));
    GS_AUTO_ERROR struct gs_error *err = local_api_store_delete(s, 0, "a", "x");
    assert_int_equal(gs_error_code(err), GS_ENOTFOUND);
}

struct seen {
    size_t n;
    uint64_t last;
    enum local_api_store_change_type type;
    char *before;
};

static void on_change(void *arg, const struct local_api_store_change *c)
{
    struct seen *seen = arg;

    seen->n++;
    assert_true(c->rv > seen->last);
    seen->last = c->rv;
    seen->type = c->type;
    free(seen->before);
    seen->before = c->before ? gs_strdup(c->before->text) : NULL;
    CODEC_AUTO_JSON json_t *tree = local_api_store_version_tree(c->after);
    assert_non_null(codec_json_str(tree, "metadata", "name", NULL));
}

static void test_changes_are_replayed(void **state)
{
    GS_CLEANUP(local_api_store_closep) struct local_api_store *s = open_store(NULL, 3, 0);
    struct seen seen = {0};

    for (int i = 0; i < 4; i++)
        assert_null(put(s, "a", "x", "v"));
    assert_null(local_api_store_delete(s, 0, "a", "x"));
    assert_true(local_api_store_replay(s, 3, on_change, &seen));
    assert_int_equal(seen.n, 2);
    assert_int_equal(seen.last, 5);
    assert_int_equal(seen.type, LOCAL_API_STORE_DELETED);
    assert_non_null(strstr(seen.before, "\"resourceVersion\":\"4\""));
    assert_int_equal(local_api_store_oldest_rv(s), 2);
    assert_false(local_api_store_replay(s, 1, on_change, &seen));
    free(seen.before);
}

static void test_the_ring_is_bounded_in_bytes(void **state)
{
    GS_CLEANUP(local_api_store_closep) struct local_api_store *s = open_store(NULL, 1000, 4096);

    for (int i = 0; i < 200; i++)
        assert_null(put(s, "a", "x", "a value of some length"));
    assert_true(local_api_store_oldest_rv(s) > 150);
}

static void test_objects_survive(void **state)
{
    struct dir *d = *state;
    struct stat st;
    struct local_api_store *s = open_store(d->db, 0, 0);

    assert_null(put(s, "a", "x", "1"));
    assert_null(put(s, "a", "y", "1"));
    assert_null(local_api_store_delete(s, 0, "a", "y"));
    uint64_t rv = local_api_store_rv(s);
    local_api_store_close(s);
    assert_int_equal(stat(d->db, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    s = open_store(d->db, 0, 0);
    assert_int_equal(local_api_store_len(s, 0), 1);
    assert_non_null(local_api_store_get(s, 0, "a", "x"));
    // Watches of before the restart have to start anew.
    assert_true(local_api_store_rv(s) >= rv);
    assert_true(local_api_store_oldest_rv(s) > 1);
    assert_null(put(s, "a", "y", "2"));
    assert_true(local_api_store_get(s, 0, "a", "y")->rv > rv);
    local_api_store_close(s);
}

// managedFields repeat the levels of the object below four of their own.
static void test_an_object_with_as_many_levels_as_requests_may_have_survives(void **state)
{
    struct dir *d = *state;
    struct local_api_store *s = open_store(d->db, 0, 0);
    json_t *obj = json_object(), *deep = json_object();
    for (int i = 0; i < CODEC_JSON_MAX_DEPTH; i++)
        deep = json_pack("{s:o}", "a", deep);
    codec_json_set(obj, json_string("x"), "metadata", "name", NULL);
    codec_json_set(obj, deep, "metadata", "managedFields", "deep", NULL);
    assert_null(local_api_store_put(s, 0, obj, NULL));
    local_api_store_close(s);
    s = open_store(d->db, 0, 0);
    assert_non_null(local_api_store_get(s, 0, "", "x"));
    local_api_store_close(s);
}

static void test_a_second_program_is_refused(void **state)
{
    struct dir *d = *state;
    GS_CLEANUP(local_api_store_closep) struct local_api_store *s = open_store(d->db, 0, 0);
    struct local_api_store *other = NULL;

    // The lock is held by this process: another one must ask.
    pid_t pid = fork();
    if (pid == 0) {
        struct gs_error *err = local_api_store_open(
            &(struct local_api_store_config){
                .path = d->db, .bucket_names = names, .n_buckets = GS_ARRAY_LEN(names)},
            &other);
        _exit(err && gs_error_code(err) == GS_EEXIST ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_damage_is_set_aside(void **state)
{
    struct dir *d = *state;
    struct local_api_store *s = open_store(d->db, 0, 0);
    size_t aside = 0;
    struct dirent *e;

    assert_null(put(s, "a", "x", "1"));
    local_api_store_close(s);
    FILE *f = fopen(d->db, "w");
    fputs("this is no database, whatever its name says; it is long enough to have a header page, "
          "which is what is looked at first",
          f);
    fclose(f);
    s = open_store(d->db, 0, 0);
    assert_int_equal(local_api_store_len(s, 0), 0);
    assert_null(put(s, "a", "x", "2"));
    local_api_store_close(s);
    DIR *dir = opendir(d->path);
    while ((e = readdir(dir)))
        aside += strstr(e->d_name, ".corrupt-") != NULL;
    closedir(dir);
    assert_true(aside >= 1);
}

static void test_a_full_disk_changes_nothing(void **state)
{
    struct dir *d = *state;
    struct rlimit old, tight;
    GS_AUTO_FREE char *big = gs_alloc(256 * 1024);
    GS_CLEANUP(local_api_store_closep) struct local_api_store *s = open_store(d->db, 0, 0);

    memset(big, 'x', 256 * 1024 - 1);
    assert_null(put(s, "a", "x", "1"));
    uint64_t rv = local_api_store_rv(s);
    // A limit on file sizes stands for a full file system.
    (void)signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = (struct rlimit){64 * 1024, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    GS_AUTO_ERROR struct gs_error *refused = put(s, "a", "x", big);
    GS_AUTO_ERROR struct gs_error *also = put(s, "a", "y", big);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_non_null(refused);
    assert_non_null(also);
    assert_int_equal(gs_error_code(refused), GS_EIO);
    assert_int_equal(local_api_store_rv(s), rv);
    assert_string_equal(codec_json_str(local_api_store_get(s, 0, "a", "x")->tree, "value", NULL),
                        "1");
    assert_null(local_api_store_get(s, 0, "a", "y"));
    assert_null(put(s, "a", "y", "2"));
    assert_int_equal(local_api_store_rv(s), rv + 1);
}

static void test_the_number_of_objects_is_limited(void **state)
{
    struct local_api_store *s = NULL;

    assert_null(local_api_store_open(
        &(struct local_api_store_config){
            .bucket_names = names, .n_buckets = GS_ARRAY_LEN(names), .max_objects = 2},
        &s));
    assert_null(put(s, "a", "x", "1"));
    assert_null(put(s, "a", "y", "1"));
    GS_AUTO_ERROR struct gs_error *err = put(s, "a", "z", "1");
    assert_int_equal(gs_error_code(err), GS_ELIMIT);
    assert_null(put(s, "a", "y", "2"));
    local_api_store_close(s);
}

static void keep_line(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

// As a full disk or a copy that was cut leaves it. A new file has no warning.
static void test_an_emptied_file_is_reported(void **state)
{
    struct dir *d = *state;
    GS_AUTO_BUF struct gs_buf log = {0};
    gs_log_set_sink(keep_line, &log);
    struct local_api_store *s = open_store(d->db, 100, 0);
    assert_null(put(s, "default", "a", "1"));
    local_api_store_close(s);
    assert_null(log.data);
    assert_int_equal(truncate(d->db, 0), 0);
    s = open_store(d->db, 100, 0);
    local_api_store_close(s);
    gs_log_set_sink(NULL, NULL);
    assert_non_null(strstr(log.data, "state.db has 0 bytes: the objects that were in it are lost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_come_in_order),
        cmocka_unit_test(test_every_change_has_a_version),
        cmocka_unit_test(test_changes_are_replayed),
        cmocka_unit_test(test_the_ring_is_bounded_in_bytes),
        cmocka_unit_test(test_the_number_of_objects_is_limited),
        cmocka_unit_test_setup_teardown(test_objects_survive, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(
            test_an_object_with_as_many_levels_as_requests_may_have_survives, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_a_second_program_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_an_emptied_file_is_reported, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_damage_is_set_aside, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_a_full_disk_changes_nothing, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
