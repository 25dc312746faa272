// SPDX-License-Identifier: Apache-2.0
#include "certificates.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "expander/expander_private.h"

#include <stdlib.h>
#include <unistd.h>

static void read_text(const char *dir, const char *name, struct gs_buf *ret)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    gs_buf_finish(ret);
    assert_ok(gs_file_read(path, 1 << 20, ret));
}

static void test_made_once_and_renewed_at_its_end(void **state)
{
    char dir[] = "/tmp/gs-expander-cert-XXXXXX";
    static const char *const files[] = {"ca.crt", "tls.crt", "tls.key"};
    GS_AUTO_BUF struct gs_buf first = {0}, second = {0}, key = {0};
    GS_CLEANUP(tls_pair_finish) struct tls_pair old = {0};
    struct expander_certificate c = {0};
    long left = 0;
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *sub = gs_format("%s/certs", dir);
    const struct expander_options o = {.cert_dir = sub};
    assert_ok(expander_certificate_load(&o, &c));
    read_text(sub, "tls.crt", &first);
    read_text(sub, "tls.key", &key);
    assert_ok(tls_check_pair(first.data, key.data));
    assert_ok(tls_cert_seconds_left(first.data, &left));
    assert_true(left > 3600L * 24 * 365 * 9);
    expander_certificate_finish(&c);

    assert_ok(expander_certificate_load(&o, &c));
    read_text(sub, "tls.crt", &second);
    assert_string_equal(first.data, second.data);

    make_certificate(-100, 5, &old);
    assert_ok(gs_file_write_atomic(c.cert_file, 0644, gs_slice_of(old.cert_pem)));
    assert_ok(gs_file_write_atomic(c.key_file, 0600, gs_slice_of(old.key_pem)));
    expander_certificate_finish(&c);
    assert_ok(expander_certificate_load(&o, &c));
    read_text(sub, "tls.crt", &second);
    assert_string_not_equal(old.cert_pem, second.data);
    assert_ok(tls_cert_seconds_left(second.data, &left));
    assert_true(left > 3600L * 24 * 365 * 9);
    expander_certificate_finish(&c);
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", sub, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(sub), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void keep_line(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

static void test_damaged_files_are_named_and_made_again(void **state)
{
    char dir[] = "/tmp/gs-expander-cert-XXXXXX";
    static const char *const files[] = {"ca.crt", "tls.crt", "tls.key"};
    assert_non_null(mkdtemp(dir));
    const struct expander_options o = {.cert_dir = dir};
    struct expander_certificate c = {0};
    GS_AUTO_BUF struct gs_buf log = {0}, text = {0}, key = {0}, ca = {0};
    gs_log_set_sink(keep_line, &log);
    assert_ok(expander_certificate_load(&o, &c));
    expander_certificate_finish(&c);
    assert_null(log.data ? strstr(log.data, "damaged") : NULL);
    for (size_t i = 0; i < 2 * GS_ARRAY_LEN(files); i++) {
        const char *name = files[i / 2];
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
        read_text(dir, name, &text);
        assert_int_equal(truncate(path, i % 2 ? (off_t)text.len / 2 : 0), 0);
        gs_buf_clear(&log);
        assert_ok(expander_certificate_load(&o, &c));
        expander_certificate_finish(&c);
        if (!strstr(log.data, "damaged") || !strstr(log.data, i < 2 ? "ca.crt" : "tls.crt"))
            fail_msg("damage of %s is not logged: %s", name, log.data);
        read_text(dir, "tls.crt", &text);
        read_text(dir, "tls.key", &key);
        read_text(dir, "ca.crt", &ca);
        assert_ok(tls_check_pair(text.data, key.data));
        assert_ok(tls_check_certificates(ca.data));
    }
    gs_log_set_sink(NULL, NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, files[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void expect_error(struct expander_options o, const char *text)
{
    struct expander_certificate c = {0};
    assert_error(expander_certificate_load(&o, &c), GS_EINVAL, text);
    assert_null(c.cert_file);
}

static void test_wrong_options(void **state)
{
    expect_error((struct expander_options){0}, "over TLS only");
    expect_error((struct expander_options){.cert_file = "a"}, "must be set together");
    expect_error((struct expander_options){.cert_file = "a", .key_file = "b", .cert_dir = "c"},
                 "cannot be combined");
    expect_error((struct expander_options){.secret = "name"}, "want NAMESPACE/NAME");
    expect_error((struct expander_options){.secret = "a/b/c"}, "want NAMESPACE/NAME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_once_and_renewed_at_its_end),
        cmocka_unit_test(test_damaged_files_are_named_and_made_again),
        cmocka_unit_test(test_wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
