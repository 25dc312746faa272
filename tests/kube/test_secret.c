// SPDX-License-Identifier: Apache-2.0
#include "kube/secret.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_read(void **state)
{
    CODEC_AUTO_JSON json_t *secret =
        json_pack("{s:{s:s, s:s}}", "data", "a", "aGVsbG8=", "bad", "!");
    GS_AUTO_FREE char *a = kube_secret_text(secret, "a");
    assert_string_equal(a, "hello");
    assert_null(kube_secret_text(secret, "bad"));
    assert_null(kube_secret_text(secret, "absent"));
    assert_null(kube_secret_text(NULL, "a"));
}

static void test_write(void **state)
{
    CODEC_AUTO_JSON json_t *secret = json_object();
    kube_secret_set_text(secret, "a", "hello");
    kube_secret_set_text(secret, "empty", "");
    assert_string_equal(codec_json_str(secret, "data", "a", NULL), "aGVsbG8=");
    GS_AUTO_FREE char *empty = kube_secret_text(secret, "empty");
    assert_string_equal(empty, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_write)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
