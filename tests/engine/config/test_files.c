// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "engine/config/config.h"

static void test_files_of_the_account_are_moved_at_any_depth(void **state)
{
    CODEC_AUTO_JSON json_t *doc =
        json_pack("{s:[{s:s, s:{s:s, s:s}}], s:s}", "jobs", "bearer_token_file",
                  "/var/run/secrets/kubernetes.io/serviceaccount/token", "tls_config", "ca_file",
                  "/run/secrets/kubernetes.io/serviceaccount/ca.crt", "cert_file", "/etc/own.crt",
                  "text", "/var/run/secrets/kubernetes.io/serviceaccount/token");
    engine_config_move_account_files(doc, "/d");
    const json_t *job = json_array_get(json_object_get(doc, "jobs"), 0);
    assert_string_equal(codec_json_str(job, "bearer_token_file", NULL), "/d/token");
    assert_string_equal(codec_json_str(job, "tls_config", "ca_file", NULL), "/d/ca.crt");
    assert_string_equal(codec_json_str(job, "tls_config", "cert_file", NULL), "/etc/own.crt");
    assert_string_equal(codec_json_str(doc, "text", NULL),
                        "/var/run/secrets/kubernetes.io/serviceaccount/token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_the_account_are_moved_at_any_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
