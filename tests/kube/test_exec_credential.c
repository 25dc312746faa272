// SPDX-License-Identifier: Apache-2.0
#include "kube/exec_credential.h"

#include "base/file.h"
#include "base/mem.h"
#include "patience.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>

struct fixture {
    char dir[64];
};

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    memcpy(f->dir, "/tmp/gpuscale-exec-XXXXXX", sizeof("/tmp/gpuscale-exec-XXXXXX"));
    *state = f;
    return mkdtemp(f->dir) ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    gs_remove_tree(f->dir);
    free(f);
    return 0;
}

// A plug-in in the folder of the kubeconfig.
static void put_plugin(const struct fixture *f, const char *script)
{
    GS_AUTO_FREE char *path = gs_format("%s/plugin", f->dir);
    GS_AUTO_FREE char *text = gs_format("#!/bin/sh\ncd '%s'\n%s", f->dir, script);
    assert_ok(gs_file_write_atomic(path, 0700, gs_slice_of(text)));
}

static json_t *entry_of(const char *command)
{
    return json_pack("{s:s, s:s, s:[s,s], s:[{s:s,s:s}], s:s, s:s, s:b}", "apiVersion",
                     "client.authentication.k8s.io/v1", "command", command, "args", "get-token",
                     "two words", "env", "name", "REGION", "value", "eu", "interactiveMode",
                     "Never", "installHint", "apt install it", "provideClusterInfo", 1);
}

#define ANSWER(status)                                                                             \
    "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","       \
    "\"status\":{" status "}}'\n"

static const struct kube_exec_cluster cluster = {.server = "https://c", .ca_pem = "PEM"};

static struct gs_error *get(const struct fixture *f, const char *command,
                            struct kube_exec_credential **ret)
{
    CODEC_AUTO_JSON json_t *entry = entry_of(command);
    return kube_exec_credential_get(entry, f->dir, &cluster, ret);
}

static char *read_text(const struct fixture *f, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", f->dir, name);
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_ok(gs_file_read(path, 65536, &text));
    return gs_buf_take(&text);
}

static void test_a_token_is_kept(void **state)
{
    const struct fixture *f = *state;
    struct kube_exec_credential *c = NULL, *again = NULL;
    put_plugin(f, "echo \"$1|$2|$REGION\" >>runs\necho \"$KUBERNETES_EXEC_INFO\" >info\n" ANSWER(
                      "\"token\":\"t1\""));
    assert_ok(get(f, "./plugin", &c));
    assert_string_equal(kube_exec_credential_token(c), "t1");
    assert_null(kube_exec_credential_cert(c));
    assert_ok(get(f, "./plugin", &again));
    assert_ptr_equal(c, again);
    GS_AUTO_FREE char *runs = read_text(f, "runs"), *info = read_text(f, "info");
    assert_string_equal(runs, "get-token|two words|eu\n");
    assert_string_equal(
        info, "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","
              "\"spec\":{\"interactive\":false,\"cluster\":{\"server\":\"https://c\","
              "\"certificate-authority-data\":\"UEVN\",\"config\":null}}}\n");
}

static void test_a_certificate(void **state)
{
    const struct fixture *f = *state;
    struct kube_exec_credential *c = NULL;
    put_plugin(f, ANSWER("\"clientCertificateData\":\"CERT\",\"clientKeyData\":\"KEY\""));
    assert_ok(get(f, "./plugin", &c));
    assert_null(kube_exec_credential_token(c));
    assert_string_equal(kube_exec_credential_cert(c), "CERT");
    assert_string_equal(kube_exec_credential_key(c), "KEY");
}

// The second token ends in an hour.
static void test_a_token_is_renewed(void **state)
{
    const struct fixture *f = *state;
    struct kube_exec_credential *c = NULL;
    put_plugin(f, "echo >>runs\nn=$(wc -l <runs)\n[ $n = 1 ] && life=4 || life=3600\n"
                  "until=$(date -u -d \"+$life seconds\" +%Y-%m-%dT%H:%M:%SZ)\n"
                  "echo \"{\\\"kind\\\":\\\"ExecCredential\\\",\\\"apiVersion\\\":"
                  "\\\"client.authentication.k8s.io/v1\\\",\\\"status\\\":{\\\"token\\\":"
                  "\\\"t$n\\\",\\\"expirationTimestamp\\\":\\\"$until\\\"}}\"\n");
    assert_ok(get(f, "./plugin", &c));
    assert_string_equal(kube_exec_credential_token(c), "t1");
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (!gs_streq(kube_exec_credential_token(c), "t2") && gs_mono_ns() < end)
        usleep(50000);
    assert_string_equal(kube_exec_credential_token(c), "t2");
    GS_AUTO_FREE char *runs = read_text(f, "runs");
    assert_string_equal(runs, "\n\n");
}

static void test_a_failed_renewal_keeps_the_token(void **state)
{
    const struct fixture *f = *state;
    struct kube_exec_credential *c = NULL;
    put_plugin(f, "echo >>runs\n[ $(wc -l <runs) = 1 ] || exit 3\n" ANSWER(
                      "\"token\":\"t1\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\""));
    assert_ok(get(f, "./plugin", &c));
    for (int i = 0; i < 3; i++)
        assert_string_equal(kube_exec_credential_token(c), "t1");
    GS_AUTO_FREE char *runs = read_text(f, "runs");
    assert_string_equal(runs, "\n\n"); // it is not tried again at once
}

static void expect_failure(const struct fixture *f, const char *command, const char *script,
                           const char *reason)
{
    struct kube_exec_credential *c = NULL;
    put_plugin(f, script);
    GS_AUTO_ERROR struct gs_error *err = get(f, command, &c);
    if (!err || !strstr(gs_error_message(err), reason))
        fail_msg("want \"%s\", got \"%s\"", reason, err ? gs_error_message(err) : "no error");
}

static void test_failures(void **state)
{
    const struct fixture *f = *state;
    expect_failure(f, "no-such-plugin", "",
                   "plug-in no-such-plugin is not installed: apt install it");
    expect_failure(f, "./plugin", "exit 7", "failed with exit status 7");
    expect_failure(f, "./plugin", "kill -9 $$", "ended by signal 9");
    expect_failure(f, "./plugin", "echo hello", "its answer is not JSON");
    expect_failure(f, "./plugin", "", "its answer is not JSON");
    expect_failure(f, "./plugin", "echo '{\"kind\":\"Secret\"}'", "is no ExecCredential");
    expect_failure(f, "./plugin", ANSWER(""), "neither a token nor a certificate");
    expect_failure(f, "./plugin", ANSWER("\"clientCertificateData\":\"C\""),
                   "neither a token nor a certificate");
    expect_failure(f, "./plugin", ANSWER("\"token\":\"a\\u000ab\""),
                   "neither a token nor a certificate");
    expect_failure(f, "./plugin", ANSWER("\"token\":\"a\",\"expirationTimestamp\":\"soon\""),
                   "expirationTimestamp");
    expect_failure(f, "./plugin", "head -c 2000000 /dev/zero", "larger than");
}

static void test_wrong_entries(void **state)
{
    const struct fixture *f = *state;
    struct kube_exec_credential *c = NULL;
    CODEC_AUTO_JSON json_t *old = json_pack(
        "{s:s, s:s}", "apiVersion", "client.authentication.k8s.io/v1alpha1", "command", "x");
    CODEC_AUTO_JSON json_t *without =
        json_pack("{s:s}", "apiVersion", "client.authentication.k8s.io/v1");
    CODEC_AUTO_JSON json_t *asks = entry_of("./plugin");
    codec_json_set_str(asks, "interactiveMode", "Always");
    assert_non_null(freopen("/dev/null", "r", stdin));
    const struct {
        const json_t *entry;
        const char *reason;
    } cases[] = {{old, "v1alpha1 is not supported"},
                 {without, "no command"},
                 {asks, "asks its user, and needs a terminal"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_ERROR struct gs_error *err =
            kube_exec_credential_get(cases[i].entry, f->dir, &cluster, &c);
        assert_non_null(err);
        assert_non_null(strstr(gs_error_message(err), cases[i].reason));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_token_is_kept),    TEST(test_a_certificate),
        TEST(test_a_token_is_renewed), TEST(test_a_failed_renewal_keeps_the_token),
        TEST(test_failures),           TEST(test_wrong_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
