// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/tls/tls.h"
#include "up/up_private.h"

#include <stdlib.h>
#include <sys/stat.h>

static char dir[] = "/tmp/gs-pki-XXXXXX";

static int make_dir(void **state)
{
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    GS_AUTO_FREE char *command = gs_format("rm -r %s", dir);
    return system(command);
}

static void test_made_once_and_private(void **state)
{
    struct up_pki first = {0}, second = {0};
    assert_ok(up_pki_load(dir, &first));
    assert_ok(up_pki_load(dir, &second));
    assert_string_equal(first.ca.cert_pem, second.ca.cert_pem);
    assert_string_equal(first.server.cert_pem, second.server.cert_pem);
    assert_string_equal(first.client.key_pem, second.client.key_pem);
    assert_string_equal(first.token, second.token);
    assert_string_equal(first.service_account_key, second.service_account_key);
    static const char *const secrets[] = {"ca.key", "apiserver.key", "admin.key", "token",
                                          "sa.key"};
    for (size_t i = 0; i < GS_ARRAY_LEN(secrets); i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, secrets[i]);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    up_pki_finish(&first);
    up_pki_finish(&second);
}

// A damaged certificate is created again with the same CA. Without the CA, all are created again.
static void test_damage_is_mended(void **state)
{
    struct up_pki before = {0}, after = {0};
    GS_AUTO_FREE char *leaf = gs_format("%s/apiserver.crt", dir);
    GS_AUTO_FREE char *ca = gs_format("%s/ca.key", dir);
    assert_ok(up_pki_load(dir, &before));
    assert_ok(gs_file_write_atomic(leaf, 0600, GS_SLICE("not a certificate")));
    assert_ok(up_pki_load(dir, &after));
    assert_string_equal(before.ca.cert_pem, after.ca.cert_pem);
    assert_string_not_equal(before.server.cert_pem, after.server.cert_pem);
    assert_string_equal(before.client.cert_pem, after.client.cert_pem);
    up_pki_finish(&after);
    assert_int_equal(unlink(ca), 0);
    assert_ok(up_pki_load(dir, &after));
    assert_string_not_equal(before.ca.cert_pem, after.ca.cert_pem);
    assert_string_not_equal(before.client.cert_pem, after.client.cert_pem);
    up_pki_finish(&before);
    up_pki_finish(&after);
}

static void keep_line(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

static void cut(const char *name, bool half)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, half ? st.st_size / 2 : 0), 0);
}

static void test_empty_and_cut_files_are_named_and_made_again(void **state)
{
    static const struct {
        const char *file, *named;
    } files[] = {{"ca.crt", "/ca.crt is damaged"},       {"ca.key", "/ca.crt is damaged"},
                 {"apiserver.crt", "/apiserver.crt is"}, {"apiserver.key", "/apiserver.crt is"},
                 {"admin.crt", "/admin.crt is damaged"}, {"admin.key", "/admin.crt is damaged"},
                 {"token", "/token is damaged"},         {"sa.key", "/sa.key is damaged"}};
    GS_AUTO_BUF struct gs_buf log = {0};
    struct up_pki p = {0};
    assert_ok(up_pki_load(dir, &p));
    up_pki_finish(&p);
    gs_log_set_sink(keep_line, &log);
    for (size_t i = 0; i < 2 * GS_ARRAY_LEN(files); i++) {
        gs_buf_clear(&log);
        cut(files[i / 2].file, i % 2);
        assert_ok(up_pki_load(dir, &p));
        if (!log.data || !strstr(log.data, files[i / 2].named))
            fail_msg("%s is not named: %s", files[i / 2].file, log.data);
        assert_ok(tls_check_pair(p.ca.cert_pem, p.ca.key_pem));
        assert_ok(tls_check_pair(p.server.cert_pem, p.server.key_pem));
        assert_ok(tls_check_pair(p.client.cert_pem, p.client.key_pem));
        assert_int_equal(strlen(p.token), 64);
        up_pki_finish(&p);
        gs_buf_clear(&log);
        assert_ok(up_pki_load(dir, &p)); // once
        assert_int_equal(log.len, 0);
        up_pki_finish(&p);
    }
    gs_log_set_sink(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_once_and_private), cmocka_unit_test(test_damage_is_mended),
        cmocka_unit_test(test_empty_and_cut_files_are_named_and_made_again)};
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
