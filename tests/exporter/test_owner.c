// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "exporter/sampler.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define UID_DASH  "0123abcd-1111-2222-3333-444455556666"
#define UID_UNDER "0123abcd_1111_2222_3333_444455556666"
#define CID       "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"
#define HASH      "0123456789abcdef0123456789abcdef"

static void check_cgroup(const char *text, const char *uid, const char *cid)
{
    struct exporter_owner o = {0};
    bool found = exporter_owner_parse_cgroup(gs_slice_of(text), &o);
    assert_int_equal(found, uid != NULL);
    assert_string_equal(o.pod_uid, uid ? uid : "");
    assert_string_equal(o.container_id, cid ? cid : "");
}

static void test_cgroup_paths_of_all_runtimes(void **state)
{
    check_cgroup("0::/kubepods/burstable/pod" UID_DASH "/" CID "\n", UID_DASH, CID);
    check_cgroup("0::/kubepods/pod" UID_DASH "/" CID "\n", UID_DASH, CID);
    check_cgroup("0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_UNDER
                 ".slice/cri-containerd-" CID ".scope\n",
                 UID_DASH, CID);
    check_cgroup("0::/kubepods.slice/kubepods-pod" UID_UNDER ".slice/crio-" CID
                 ".scope/container\n",
                 UID_DASH, CID);
    check_cgroup("12:pids:/system.slice/containerd.service/kubepods-burstable-pod" UID_UNDER
                 ".slice:cri-containerd:" CID "\n",
                 UID_DASH, CID);
    check_cgroup("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_UNDER
                 ".slice/cri-containerd-" CID ".scope",
                 UID_DASH, CID);
    // From another cgroup namespace; hybrid; a static pod.
    check_cgroup("0::/../../kubepods-pod" UID_UNDER ".slice/" CID "\n", UID_DASH, CID);
    check_cgroup("2:cpu:/\n1:name=systemd:/kubepods/pod" UID_DASH "/" CID "\n0::/\n", UID_DASH,
                 CID);
    check_cgroup("0::/kubepods/burstable/pod" HASH "/" CID "\n", HASH, CID);
    // In a nested container the inner one counts.
    check_cgroup("0::/docker/" HASH HASH "/kubelet/kubepods/pod" UID_DASH "/" CID "\n", UID_DASH,
                 CID);
}

static void test_cgroup_paths_that_are_no_pod(void **state)
{
    check_cgroup("", NULL, NULL);
    check_cgroup("0::/\n", NULL, NULL);
    check_cgroup("garbage\n::\n:\n", NULL, NULL);
    check_cgroup("0::/docker/" CID "\n", NULL, NULL);
    check_cgroup("0::/system.slice/podman.service\n", NULL, NULL);
    check_cgroup("0::/kubepods/pod0123\n", NULL, NULL);
    check_cgroup("0::/user.slice/tripod" UID_DASH "\n", NULL, NULL);
}

static void test_environment_of_local_pods(void **state)
{
    static const char env[] = "A=1\0GPUSCALE_POD_UID=u1\0GPUSCALE_POD_NAME=web-0\0"
                              "GPUSCALE_POD_NAMESPACE=default\0GPUSCALE_CONTAINER_NAME=main\0";
    struct exporter_owner o = {.process_name = "python3"};
    assert_true(exporter_owner_parse_environ(gs_slice_make(env, sizeof(env) - 1), &o));
    assert_int_equal(o.kind, EXPORTER_OWNER_POD);
    assert_string_equal(o.pod, "web-0");
    assert_string_equal(o.namespace_name, "default");
    assert_string_equal(o.container, "main");
    assert_string_equal(o.process_name, "python3");

    struct exporter_owner none = {0};
    assert_false(exporter_owner_parse_environ(GS_SLICE("GPUSCALE_POD_NAME=web-0"), &none));
    assert_false(exporter_owner_parse_environ(GS_SLICE(""), &none));
    assert_int_equal(none.kind, EXPORTER_OWNER_GONE);
}

static void test_environment_too_long_is_cut(void **state)
{
    char env[2000];
    int n = snprintf(env, sizeof(env),
                     "GPUSCALE_POD_UID=u%cGPUSCALE_POD_NAMESPACE=n%cGPUSCALE_POD_NAME=", 0, 0);
    memset(env + n, 'x', sizeof(env) - (size_t)n);
    struct exporter_owner o = {0};
    assert_true(exporter_owner_parse_environ(gs_slice_make(env, sizeof(env)), &o));
    assert_int_equal(strlen(o.pod), EXPORTER_OWNER_NAME_SIZE - 1);
}

// --- a /proc of our own ---

struct tree {
    char root[64];
    struct exporter_owner_cache *cache;
};

static void write_file(const struct tree *t, const char *content, size_t len, const char *path)
{
    GS_AUTO_FREE char *full = gs_format("%s/%s", t->root, path);
    GS_AUTO_FREE char *dir = gs_strdup(full);
    *strrchr(dir, '/') = '\0';
    assert_null(gs_mkdir_p(dir, 0700));
    assert_null(gs_file_write_atomic(full, 0600, gs_slice_make(content, len)));
}

#define WRITE(t, path, content) write_file((t), (content), sizeof(content) - 1, (path))

static void write_stat(const struct tree *t, int pid, const char *name, int start)
{
    GS_AUTO_FREE char *path = gs_format("%d/stat", pid);
    GS_AUTO_FREE char *text =
        gs_format("%d (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", pid, name, start);
    write_file(t, text, strlen(text), path);
}

static int tree_setup(void **state)
{
    struct tree *t = gs_alloc(sizeof(*t));
    strcpy(t->root, "/tmp/gpuscale-owner-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    GS_AUTO_FREE char *containers = gs_format("%s/containers", t->root);
    GS_AUTO_FREE char *pods = gs_format("%s/pods", t->root);
    struct exporter_owner_config cfg = {t->root, containers, pods};
    t->cache = exporter_owner_cache_new(&cfg);
    *state = t;
    return 0;
}

static int tree_teardown(void **state)
{
    struct tree *t = *state;
    exporter_owner_cache_free(t->cache);
    GS_AUTO_FREE char *command = gs_format("rm -rf %s", t->root);
    int rc = system(command);
    free(t);
    return rc;
}

static struct exporter_owner lookup(struct tree *t, uint32_t pid)
{
    exporter_owner_cache_begin(t->cache);
    struct exporter_owner o = *exporter_owner_lookup(t->cache, pid, gs_mono_ns());
    exporter_owner_cache_end(t->cache);
    return o;
}

static void test_names_come_from_the_kubelets_logs(void **state)
{
    struct tree *t = *state;
    write_stat(t, 42, "a (b) c", 7);
    WRITE(t, "42/cgroup", "0::/kubepods/pod" UID_DASH "/" CID "\n");
    struct exporter_owner o = lookup(t, 42);
    assert_int_equal(o.kind, EXPORTER_OWNER_POD);
    assert_string_equal(o.process_name, "a (b) c");
    assert_string_equal(o.pod, "");

    WRITE(t, "pods/team-a_web-0_" UID_DASH "/x", "");
    o = lookup(t, 42); // the names may come after the process
    assert_string_equal(o.pod, "web-0");
    assert_string_equal(o.namespace_name, "team-a");
    assert_string_equal(o.container, "");

    write_stat(t, 43, "x", 8);
    WRITE(t, "43/cgroup", "0::/kubepods/pod" UID_DASH "/" CID "\n");
    WRITE(t, "containers/web-0_team-a_main-" CID ".log", "");
    o = lookup(t, 43);
    assert_string_equal(o.pod, "web-0");
    assert_string_equal(o.namespace_name, "team-a");
    assert_string_equal(o.container, "main");
}

static void test_the_cgroup_beats_the_environment(void **state)
{
    struct tree *t = *state;
    write_stat(t, 42, "x", 7);
    WRITE(t, "42/cgroup", "0::/kubepods/pod" UID_DASH "/" CID "\n");
    WRITE(t, "42/environ",
          "GPUSCALE_POD_UID=u\0GPUSCALE_POD_NAME=liar\0GPUSCALE_POD_NAMESPACE=kube-system\0");
    struct exporter_owner o = lookup(t, 42);
    assert_string_equal(o.pod_uid, UID_DASH);
    assert_string_equal(o.pod, "");
}

static void test_a_reused_pid_is_somebody_else(void **state)
{
    struct tree *t = *state;
    write_stat(t, 42, "x", 7);
    WRITE(t, "42/cgroup", "0::/\n");
    WRITE(t, "42/environ", "GPUSCALE_POD_UID=u\0GPUSCALE_POD_NAME=one\0GPUSCALE_POD_NAMESPACE=n\0");
    assert_string_equal(lookup(t, 42).pod, "one");
    WRITE(t, "42/environ", "GPUSCALE_POD_UID=u\0GPUSCALE_POD_NAME=two\0GPUSCALE_POD_NAMESPACE=n\0");
    assert_string_equal(lookup(t, 42).pod, "one"); // from the cache
    write_stat(t, 42, "x", 8);
    assert_string_equal(lookup(t, 42).pod, "two");
    const uint64_t *resolved = exporter_owner_cache_resolved(t->cache);
    assert_int_equal(resolved[EXPORTER_OWNER_POD], 2);
}

static void test_kinds(void **state)
{
    struct tree *t = *state;
    assert_int_equal(lookup(t, 42).kind, EXPORTER_OWNER_GONE);
    write_stat(t, 42, "x", 7);
    WRITE(t, "42/cgroup", "0::/\n");
    WRITE(t, "42/environ", "HOME=/\0");
    assert_int_equal(lookup(t, 42).kind, EXPORTER_OWNER_HOST);
    write_stat(t, 43, "x", 7);
    GS_AUTO_FREE char *dir = gs_format("%s/43/environ", t->root);
    assert_int_equal(mkdir(dir, 0700), 0); // reading it fails
    assert_int_equal(lookup(t, 43).kind, EXPORTER_OWNER_UNREADABLE);
}

// --- races ---

// The driver has named pid 42; then it ended, and another process got its number.
static void test_who_started_later_is_not_meant(void **state)
{
    struct tree *t = *state;
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    long ticks = sysconf(_SC_CLK_TCK);
    write_stat(t, 42, "x", (int)(boot.tv_sec * ticks));
    WRITE(t, "42/cgroup", "0::/kubepods/pod" UID_DASH "/" CID "\n");
    exporter_owner_cache_begin(t->cache);
    int64_t now = gs_mono_ns();
    assert_int_equal(exporter_owner_lookup(t->cache, 42, now - 5 * GS_NS_PER_SEC)->kind,
                     EXPORTER_OWNER_GONE);
    assert_int_equal(exporter_owner_lookup(t->cache, 42, now + 1 * GS_NS_PER_SEC)->kind,
                     EXPORTER_OWNER_POD);
    // Also when it is known from another GPU by now.
    assert_int_equal(exporter_owner_lookup(t->cache, 42, now - 5 * GS_NS_PER_SEC)->kind,
                     EXPORTER_OWNER_GONE);
    write_stat(t, 43, "x", INT32_MAX);
    assert_int_equal(exporter_owner_lookup(t->cache, 43, now)->kind, EXPORTER_OWNER_GONE);
    exporter_owner_cache_end(t->cache);
}

// What happens while the cgroup is read: it is a pipe, and this waits for its reader.
struct change {
    struct tree *tree;
    bool ends; // else the pid becomes another process's
    char pipe[128];
};

static void *change_meanwhile(void *arg)
{
    static const char text[] = "0::/kubepods/pod" UID_DASH "/" CID "\n";
    struct change *c = arg;
    int fd = open(c->pipe, O_WRONLY);
    if (c->ends) {
        GS_AUTO_FREE char *path = gs_format("%s/42/stat", c->tree->root);
        unlink(path);
    } else {
        write_stat(c->tree, 42, "other", 9);
    }
    ssize_t n = write(fd, text, sizeof(text) - 1);
    close(fd);
    return n < 0 ? c : NULL;
}

static void test_who_changes_while_looked_at_is_nobody(void **state)
{
    struct tree *t = *state;
    struct change c = {.tree = t};
    snprintf(c.pipe, sizeof(c.pipe), "%s/42/cgroup", t->root);
    for (int i = 0; i < 2; i++) {
        write_stat(t, 42, "x", 7);
        assert_int_equal(mkfifo(c.pipe, 0600), 0);
        c.ends = i == 1;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, change_meanwhile, &c), 0);
        assert_int_equal(lookup(t, 42).kind, EXPORTER_OWNER_GONE);
        pthread_join(thread, NULL);
        unlink(c.pipe);
    }
    // Nothing of it is kept.
    write_stat(t, 42, "x", 7);
    WRITE(t, "42/cgroup", "0::/\n");
    WRITE(t, "42/environ", "HOME=/\0");
    assert_int_equal(lookup(t, 42).kind, EXPORTER_OWNER_HOST);
}

static void test_cut_and_strange_files(void **state)
{
    struct tree *t = *state;
    static const char *const stats[] = {"",
                                        "42",
                                        "42 (x",
                                        "42 (x)",
                                        ") 42 (",
                                        "42 (x) S 1 1",
                                        "42 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 "
                                        "0 0 20 0 1 0 nonsense 0 0"};
    for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++) {
        write_file(t, stats[i], strlen(stats[i]), "42/stat");
        assert_int_equal(lookup(t, 42).kind, EXPORTER_OWNER_GONE);
    }
    // A cgroup file that vanished, one that is far too long, an environment that never ends.
    write_stat(t, 42, "x", 7);
    assert_int_equal(lookup(t, 42).kind, EXPORTER_OWNER_GONE);
    GS_AUTO_FREE char *big = gs_alloc(2 * 1024 * 1024);
    memset(big, 'a', 2 * 1024 * 1024);
    write_stat(t, 44, "x", 7);
    write_file(t, big, 2 * 1024 * 1024, "44/cgroup");
    write_file(t, big, 2 * 1024 * 1024, "44/environ");
    enum exporter_owner_kind kind = lookup(t, 44).kind;
    assert_true(kind == EXPORTER_OWNER_UNREADABLE || kind == EXPORTER_OWNER_HOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cgroup_paths_of_all_runtimes),
        cmocka_unit_test(test_cgroup_paths_that_are_no_pod),
        cmocka_unit_test(test_environment_of_local_pods),
        cmocka_unit_test(test_environment_too_long_is_cut),
        cmocka_unit_test_setup_teardown(test_names_come_from_the_kubelets_logs, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(test_the_cgroup_beats_the_environment, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(test_a_reused_pid_is_somebody_else, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(test_kinds, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_who_started_later_is_not_meant, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(test_who_changes_while_looked_at_is_nobody, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(test_cut_and_strange_files, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
