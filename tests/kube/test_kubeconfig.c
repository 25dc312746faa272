// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/mem.h"
#include "kube/kubeconfig.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>

struct fixture {
    char *path;
    char dir[64];
};

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    memcpy(f->dir, "/tmp/gpuscale-kubeconfig-XXXXXX", sizeof("/tmp/gpuscale-kubeconfig-XXXXXX"));
    if (!mkdtemp(f->dir)) {
        free(f);
        return -1;
    }
    f->path = gs_format("%s/config", f->dir);
    unsetenv("KUBECONFIG");
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", f->dir, 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *command = gs_format("rm -rf '%s'", f->dir);
    int rc = system(command);
    free(f->path);
    free(f);
    return rc;
}

static void put(struct fixture *f, const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", f->dir, name);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

static void test_written_is_read(void **state)
{
    struct fixture *f = *state;
    struct kube_config c = {
        .server = (char *)"https://127.0.0.1:6443",
        .ca_pem = (char *)"-----BEGIN CERTIFICATE-----\nAA\n",
        .client_cert_pem = (char *)"cert",
        .client_key_pem = (char *)"key",
        .ns = (char *)"team \"a\"",
        .engine_url = (char *)"http://127.0.0.1:9090",
        .simulated_gpus = (char *)"/set-1",
    };
    struct kube_config r = {0};
    assert_ok(kube_config_write(f->path, "gpuscale", &c));
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(kube_config_load(f->path, NULL, &r));
    assert_string_equal(r.server, c.server);
    assert_string_equal(r.ca_pem, c.ca_pem);
    assert_string_equal(r.client_cert_pem, c.client_cert_pem);
    assert_string_equal(r.client_key_pem, c.client_key_pem);
    assert_string_equal(r.ns, c.ns);
    assert_string_equal(r.engine_url, c.engine_url);
    assert_string_equal(r.simulated_gpus, c.simulated_gpus);
    assert_null(r.token);
    kube_config_finish(&r);
    assert_error(kube_config_load(f->path, "other", &r), GS_EINVAL,
                 "context \"other\" does not exist");
}

static void test_files_beside_and_several_sources(void **state)
{
    struct fixture *f = *state;
    put(f, "ca.pem", "the ca\n");
    put(f, "token", "secret\n");
    put(f, "one", "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n");
    put(f, "two",
        "clusters:\n- name: k\n  cluster: {server: 'https://x', certificate-authority: ca.pem}\n"
        "users:\n- name: u\n  user: {tokenFile: token}\n");
    GS_AUTO_FREE char *list = gs_format("%s/one:%s/absent:%s/two", f->dir, f->dir, f->dir);
    setenv("KUBECONFIG", list, 1);
    struct kube_config r = {0};
    assert_ok(kube_config_load(NULL, NULL, &r));
    assert_string_equal(r.server, "https://x");
    assert_string_equal(r.ca_pem, "the ca\n");
    assert_string_equal(r.token, "secret");
    assert_string_equal(r.ns, "default");
    kube_config_finish(&r);
}

static void test_errors_name_the_place(void **state)
{
    struct fixture *f = *state;
    struct kube_config r = {0};
    assert_error(kube_config_load(NULL, NULL, &r), GS_ENOTFOUND, "KUBECONFIG");
    put(f, "config", "- a\n");
    assert_error(kube_config_load(f->path, NULL, &r), GS_EINVAL, "/config: not a kubeconfig");
    put(f, "config", "clusters: []\n");
    assert_error(kube_config_load(f->path, NULL, &r), GS_EINVAL, "current-context");
    put(f, "config",
        "current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n"
        "clusters:\n- {name: k, cluster: {server: s, certificate-authority-data: '?'}}\n");
    assert_error(kube_config_load(f->path, NULL, &r), GS_EINVAL, "certificate-authority-data");
    put(f, "config",
        "current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n"
        "clusters:\n- {name: k, cluster: {server: s}}\nusers:\n- {name: u, user: {auth-provider: "
        "{}}}\n");
    assert_error(kube_config_load(f->path, NULL, &r), GS_ENOTSUP, "auth-provider");
    assert_null(r.server);
}

static void test_impersonation(void **state)
{
    static const char *const want[][2] = {{"Impersonate-User", "jane"},
                                          {"Impersonate-Uid", "7"},
                                          {"Impersonate-Group", "dev"},
                                          {"Impersonate-Group", "ops"},
                                          {"Impersonate-Extra-a%2Fb", "x"}};
    struct fixture *f = *state;
    struct kube_config r = {0};
    put(f, "config",
        "current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\nclusters:\n- "
        "{name: k, cluster: {server: s}}\nusers:\n- {name: u, user: {token: t, as: jane, as-uid: "
        "'7', as-groups: [dev, ops], as-user-extra: {a/b: [x]}}}\n");
    assert_ok(kube_config_load(f->path, NULL, &r));
    const struct endpoint_settings s = kube_config_endpoint(&r);
    assert_int_equal(s.n_headers, GS_ARRAY_LEN(want));
    for (size_t i = 0; i < s.n_headers; i++) {
        assert_string_equal(s.headers[i].name, want[i][0]);
        assert_string_equal(s.headers[i].value.text, want[i][1]);
    }
    kube_config_finish(&r);
}

// The program runs when a connection needs it, not when the file is read.
static void test_a_credential_plugin(void **state)
{
    struct fixture *f = *state;
    struct kube_config r = {0};
    put(f, "plugin",
        "#!/bin/sh\ncase $KUBERNETES_EXEC_INFO in *'\"tls-server-name\":\"api\"'*'\"config\":7'*) "
        "token=yes;; *) token=no;; esac\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":"
        "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"'$token'\"}}'\n");
    GS_AUTO_FREE char *plugin = gs_format("%s/plugin", f->dir);
    assert_int_equal(chmod(plugin, 0700), 0);
    put(f, "config",
        "current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\nclusters:\n- "
        "{name: k, cluster: {server: s, tls-server-name: api, proxy-url: 'http://p:1', extensions: "
        "[{name: client.authentication.k8s.io/exec, extension: 7}]}}\nusers:\n- {name: u, user: "
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: "
        "Never, provideClusterInfo: true}}}\n");
    assert_ok(kube_config_load(f->path, NULL, &r));
    assert_null(r.login);
    assert_ok(kube_config_login(&r));
    const struct endpoint_settings s = kube_config_endpoint(&r);
    assert_string_equal(s.credentials.current(s.credentials.arg), "yes");
    assert_string_equal(s.server_name, "api");
    assert_string_equal(s.proxy_url, "http://p:1");
    kube_config_finish(&r);
}

// Without any other file, the cluster of this user's gpuscale up is used while it runs.
static void test_a_running_up_is_found(void **state)
{
    static const char text[] = "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k}\n"
                               "clusters:\n- name: k\n  cluster: {server: 'https://up'}\n";
    struct fixture *f = *state;
    struct kube_config r = {0};
    GS_AUTO_FREE char *folder = gs_format("%s/.local/share/gpuscale", f->dir);
    GS_AUTO_FREE char *lock = gs_format("gpuscale up\n%d\n", (int)getpid());
    if (access("/var/run/secrets/kubernetes.io/serviceaccount/token", F_OK) == 0)
        skip_because("this test runs in a pod");
    assert_ok(gs_mkdir_p(folder, 0700));
    put(f, ".local/share/gpuscale/kubeconfig", text);
    put(f, ".local/share/gpuscale/lock", "gpuscale up\n"); // it has ended
    assert_null(kube_config_of_up());
    assert_error(kube_config_load(NULL, NULL, &r), GS_ENOTFOUND, "KUBECONFIG");
    put(f, ".local/share/gpuscale/lock", lock);
    assert_ok(kube_config_load(NULL, NULL, &r));
    assert_string_equal(r.server, "https://up");
    kube_config_finish(&r);
}

// A program in a pod must not use the cluster of the machine's user.
static void test_in_a_pod_the_home_directory_does_not_count(void **state)
{
    static const char text[] = "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k}\n"
                               "clusters:\n- name: k\n  cluster: {server: 'https://home'}\n";
    struct fixture *f = *state;
    struct kube_config r = {0};
    GS_AUTO_FREE char *folder = gs_format("%s/.kube", f->dir);
    if (access("/var/run/secrets/kubernetes.io/serviceaccount/token", F_OK) == 0)
        skip_because("this test runs in a pod");
    assert_int_equal(mkdir(folder, 0700), 0);
    put(f, ".kube/config", text);
    assert_ok(kube_config_load(NULL, NULL, &r));
    assert_string_equal(r.server, "https://home");
    kube_config_finish(&r);
    setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "6443", 1);
    assert_error(kube_config_load(NULL, NULL, &r), GS_ENOTFOUND, "the pod's service account");
    setenv("KUBECONFIG", f->path, 1);
    put(f, "config", text);
    assert_ok(kube_config_load(NULL, NULL, &r));
    assert_string_equal(r.server, "https://home");
    kube_config_finish(&r);
    unsetenv("KUBECONFIG");
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_beside_and_several_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_name_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impersonation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_credential_plugin, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_running_up_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_a_pod_the_home_directory_does_not_count, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
