// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/mem.h"
#include "kube/kubeconfig.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char dir[64];
    char *file, *up; // the user's kubeconfig, a data directory
};

static const struct kube_config ours = {.server = (char *)"https://127.0.0.1:1",
                                        .engine_url = (char *)"http://127.0.0.1:2",
                                        .token = (char *)"t"};

static const char theirs[] = "# mine\napiVersion: v1\nkind: Config\ncurrent-context: work\n"
                             "clusters:\n- name: work\n  cluster: {server: 'https://work', "
                             "extensions: [{name: minikube, extension: {version: v1.38.0}}]}\n"
                             "users:\n- name: me\n  user: {exec: {command: aws, args: ['1.0', "
                             "'yes'], apiVersion: client.authentication.k8s.io/v1, env: null}}\n"
                             "contexts:\n- name: work\n  context: {cluster: work, user: me, "
                             "namespace: '007'}\npreferences: {colors: true}\n";

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    strcpy(f->dir, "/tmp/gpuscale-merge-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    f->file = gs_format("%s/kube/config", f->dir);
    f->up = gs_format("%s/up", f->dir);
    *state = f;
    unsetenv("KUBECONFIG");
    setenv("HOME", f->dir, 1);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    gs_remove_tree(f->dir);
    free(f->file);
    free(f->up);
    free(f);
    return 0;
}

static void put(const struct fixture *f, const char *name, const char *text, mode_t mode)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", f->dir, name);
    GS_AUTO_FREE char *parent = gs_strndup(path, (size_t)(strrchr(path, '/') - path));
    assert_ok(gs_mkdir_p(parent, 0700));
    assert_ok(gs_file_write_atomic(path, mode, gs_slice_of(text)));
}

static char *text_of(const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_ok(gs_file_read(path, 1 << 20, &text));
    return gs_buf_take(&text);
}

static void assert_server(const struct fixture *f, const char *context, const char *server)
{
    struct kube_config c = {0};
    assert_ok(kube_config_load(f->file, context, &c));
    assert_string_equal(c.server, server);
    kube_config_finish(&c);
}

static void assert_current(const struct fixture *f, const char *context)
{
    GS_AUTO_FREE char *text = text_of(f->file);
    GS_AUTO_FREE char *line = gs_format("current-context: %s\n", context);
    assert_non_null(strstr(text, line));
}

static void assert_unchanged(const struct fixture *f, const char *text)
{
    GS_AUTO_FREE char *now = text_of(f->file);
    GS_AUTO_FREE char *lock = gs_format("%s.lock", f->file);
    assert_string_equal(now, text);
    assert_int_not_equal(access(lock, F_OK), 0);
}

static void test_an_absent_file_is_created(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    struct kube_config c = {0};
    assert_ok(kube_config_merge(f->file, "gpuscale", f->up, &ours));
    assert_int_equal(stat(f->file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_ok(kube_config_load(f->file, NULL, &c));
    assert_string_equal(c.server, ours.server);
    assert_string_equal(c.engine_url, ours.engine_url);
    assert_string_equal(c.token, "t");
    kube_config_finish(&c);
    assert_ok(kube_config_unmerge(f->file, "gpuscale", f->up));
    assert_error(kube_config_load(f->file, "gpuscale", &c), GS_EINVAL, "does not exist");
}

static void test_entries_of_others_stay(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    put(f, "kube/config", theirs, 0640);
    assert_ok(kube_config_merge(f->file, "gpuscale-a", f->up, &ours));
    assert_server(f, NULL, "https://127.0.0.1:1");
    assert_server(f, "gpuscale-a", "https://127.0.0.1:1");
    assert_int_equal(stat(f->file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    GS_AUTO_FREE char *merged = text_of(f->file);
    assert_non_null(strstr(merged, "version: v1.38.0"));
    assert_non_null(strstr(merged, "namespace: \"007\""));
    assert_non_null(strstr(merged, "- \"yes\""));
    assert_non_null(strstr(merged, "colors: true"));
    // Again, with another address: one entry.
    struct kube_config other = ours;
    other.server = (char *)"https://127.0.0.1:9";
    assert_ok(kube_config_merge(f->file, "gpuscale-a", f->up, &other));
    assert_server(f, "gpuscale-a", "https://127.0.0.1:9");
    assert_ok(kube_config_unmerge(f->file, "gpuscale-a", f->up));
    GS_AUTO_FREE char *after = text_of(f->file);
    assert_null(strstr(after, "gpuscale-a"));
    assert_null(strstr(after, "dataDir"));
    assert_non_null(strstr(after, "current-context: work")); // as before the first call
    assert_non_null(strstr(after, "version: v1.38.0"));
    assert_int_equal(stat(f->file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    GS_AUTO_FREE char *once = text_of(f->file);
    assert_ok(kube_config_unmerge(f->file, "gpuscale-a", f->up));
    assert_unchanged(f, once);
}

static void test_a_context_that_the_user_chose_stays(void **state)
{
    struct fixture *f = *state;
    put(f, "kube/config", theirs, 0600);
    assert_ok(kube_config_merge(f->file, "gpuscale", f->up, &ours));
    GS_AUTO_FREE char *merged = text_of(f->file);
    char *at = strstr(merged, "current-context: gpuscale\n");
    assert_non_null(at);
    memcpy(at, "current-context:     work\n", strlen("current-context:     work\n"));
    put(f, "kube/config", merged, 0600);
    assert_ok(kube_config_unmerge(f->file, "gpuscale", f->up));
    assert_current(f, "work");
}

static void test_files_that_are_no_kubeconfig_are_unchanged(void **state)
{
    static const char *const texts[] = {"a: [1\n",       "- a\n",          "a: 1\n---\nb: 2\n",
                                        "contexts: x\n", "a: 1\na: 2\n",   "\x01\x02",
                                        "users: {}\n",   "just some words"};
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        put(f, "kube/config", texts[i], 0600);
        assert_error(kube_config_merge(f->file, "gpuscale", f->up, &ours), GS_EINVAL, "not change");
        assert_unchanged(f, texts[i]);
        assert_error(kube_config_unmerge(f->file, "gpuscale", f->up), GS_EINVAL, "not change");
        assert_unchanged(f, texts[i]);
    }
    put(f, "kube/config", "# nothing yet\n", 0600);
    assert_ok(kube_config_merge(f->file, "gpuscale", f->up, &ours));
    assert_server(f, NULL, ours.server);
}

static void test_names_of_others_are_refused(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *second = gs_format("%s/second", f->dir);
    GS_AUTO_FREE char *lock = gs_format("gpuscale up\n%d\n", (int)getpid());
    put(f, "kube/config", theirs, 0600);
    assert_error(kube_config_merge(f->file, "work", f->up, &ours), GS_EEXIST,
                 "that is not of gpuscale up");
    assert_error(kube_config_merge(f->file, "me", f->up, &ours), GS_EEXIST, "\"me\"");
    assert_ok(kube_config_unmerge(f->file, "work", f->up));
    assert_unchanged(f, theirs);
    // The name of another gpuscale up: only while that one runs.
    assert_ok(kube_config_merge(f->file, "gpuscale", f->up, &ours));
    put(f, "up/lock", lock, 0600);
    assert_error(kube_config_merge(f->file, "gpuscale", second, &ours), GS_EEXIST,
                 "is of the gpuscale up that runs in");
    put(f, "up/lock", "gpuscale up\n", 0600);
    assert_ok(kube_config_merge(f->file, "gpuscale", second, &ours));
    GS_AUTO_FREE char *text = text_of(f->file);
    assert_ok(kube_config_unmerge(f->file, "gpuscale", f->up)); // no longer its own
    assert_unchanged(f, text);
    assert_ok(kube_config_unmerge(f->file, "gpuscale", second));
    assert_current(f, "work");
}

static void test_the_lock_of_kubectl_is_respected(void **state)
{
    struct fixture *f = *state;
    put(f, "kube/config", theirs, 0600);
    put(f, "kube/config.lock", "", 0600);
    assert_error(kube_config_merge(f->file, "gpuscale", f->up, &ours), GS_EEXIST,
                 "config.lock exists: another program writes");
    GS_AUTO_FREE char *now = text_of(f->file);
    assert_string_equal(now, theirs);
    GS_AUTO_FREE char *lock = gs_format("%s.lock", f->file);
    assert_int_equal(access(lock, F_OK), 0); // it is not ours
}

static void test_links_stay_links(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    GS_AUTO_FREE char *real = gs_format("%s/dotfiles", f->dir);
    GS_AUTO_FREE char *kube = gs_format("%s/kube", f->dir);
    put(f, "dotfiles", theirs, 0600);
    assert_ok(gs_mkdir_p(kube, 0700));
    assert_int_equal(symlink(real, f->file), 0);
    assert_ok(kube_config_merge(f->file, "gpuscale", f->up, &ours));
    assert_int_equal(lstat(f->file, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    GS_AUTO_FREE char *text = text_of(real);
    assert_non_null(strstr(text, "current-context: gpuscale"));
}

static void assert_file(const char *list, const char *except, const char *want)
{
    if (list)
        setenv("KUBECONFIG", list, 1);
    else
        unsetenv("KUBECONFIG");
    GS_AUTO_FREE char *file = kube_config_file_to_change(except);
    assert_string_equal(file, want);
}

static void test_the_file_is_that_of_kind(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *home = gs_format("%s/.kube/config", f->dir);
    GS_AUTO_FREE char *list = gs_format("/nonexistent/a:%s:/nonexistent/b", f->file);
    assert_file(NULL, NULL, home);
    assert_file("", NULL, home);
    assert_file(list, NULL, "/nonexistent/b");
    put(f, "kube/config", theirs, 0600);
    assert_file(list, NULL, f->file);
    assert_file(list, f->file, "/nonexistent/b");
    assert_file(f->file, f->file, home); // KUBECONFIG is that of the cluster itself
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_absent_file_is_created, setup, teardown),
        cmocka_unit_test_setup_teardown(test_entries_of_others_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_context_that_the_user_chose_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_that_are_no_kubeconfig_are_unchanged, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_names_of_others_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_lock_of_kubectl_is_respected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_stay_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_file_is_that_of_kind, setup, teardown),
    };
    return cmocka_run_group_tests_name("kubeconfig_merge", tests, NULL, NULL);
}
