// SPDX-License-Identifier: Apache-2.0
// /api/v1/status/config: the complete configuration without secrets.
#include "engine/config/config.h"
#include "unit.h"

static void assert_shown(const char *text, const char *want)
{
    struct engine_config *c = NULL;
    assert_ok(engine_config_parse(gs_slice_of(text), "x.yml", "/tmp", &c));
    assert_string_equal(c->shown, want);
    engine_config_free(c);
}

static void test_block_style(void **state)
{
    assert_shown("", "");
    assert_shown("global: {scrape_interval: 5s, external_labels: {a: 'x: y', b: \"\"}}\n"
                 "scrape_configs:\n"
                 "- job_name: a\n"
                 "  static_configs: [{targets: ['h:1', 'h:2'], labels: {rack: r1}}]\n",
                 "global:\n"
                 "  scrape_interval: 5s\n"
                 "  external_labels:\n"
                 "    a: \"x: y\"\n"
                 "    b: \"\"\n"
                 "scrape_configs:\n"
                 "- job_name: a\n"
                 "  static_configs:\n"
                 "  - targets:\n"
                 "    - \"h:1\"\n"
                 "    - \"h:2\"\n"
                 "    labels:\n"
                 "      rack: r1\n");
}

// In each YAML style.
static void test_secrets(void **state)
{
    static const char *const texts[] = {
        "scrape_configs: [{job_name: a, basic_auth: {username: u, password: s3cr3t}}]\n",
        "scrape_configs:\n- job_name: a\n  basic_auth:\n    username: u\n    password: s3cr3t\n",
        "scrape_configs:\n- job_name: a\n  basic_auth:\n    \"password\" : |\n      s3cr3t\n",
        "scrape_configs:\n- job_name: a\n  authorization: {credentials: 's3cr3t'}\n",
        "{\"scrape_configs\":[{\"job_name\":\"a\",\"bearer_token\":\"s3cr3t\"}]}",
        "remote_write: [{url: 'http://u:s3cr3t@host/x?y=1'}]\n",
        "remote_write: [{url: 'http://host/', headers: {X-Api-Key: s3cr3t}}]\n",
        "scrape_configs: [{job_name: a, http_headers: {X-A: {secrets: [s3cr3t, 's3cr3t 2']}}}]\n",
        "scrape_configs: [{job_name: a, proxy_url: 'http://p', proxy_connect_header: {X-A: "
        "[s3cr3t]}}]\n",
        "scrape_configs: [{job_name: a, oauth2: {client_id: c, client_secret: s3cr3t, token_url: "
        "'http://u:s3cr3t@t/', proxy_url: 'http://p', proxy_connect_header: {X-A: [s3cr3t]}}}]\n",
        "# s3cr3t in a comment\nglobal: {scrape_interval: 5s}\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct engine_config *c = NULL;
        assert_ok(engine_config_parse(gs_slice_of(texts[i]), "x.yml", "/tmp", &c));
        if (strstr(c->shown, "s3cr3t"))
            fail_msg("%s is shown as\n%s", texts[i], c->shown);
        engine_config_free(c);
    }
    assert_shown("scrape_configs: [{job_name: a, http_headers: {X-A: {values: [b], secrets: [c, "
                 "d]}}}]\n",
                 "scrape_configs:\n"
                 "- job_name: a\n"
                 "  http_headers:\n"
                 "    X-A:\n"
                 "      values:\n"
                 "      - b\n"
                 "      secrets:\n"
                 "      - <secret>\n"
                 "      - <secret>\n");
    assert_shown("remote_write: [{url: 'http://u:s3cr3t@host/x?y=1'}]\n",
                 "remote_write:\n- url: \"http://u:xxxxx@host/x?y=1\"\n");
}

// The output is a valid configuration.
static void test_reads_back(void **state)
{
    static const char text[] =
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "- job_name: 'a b'\n"
        "  params: {match: ['up{x=\"1\"}', '-', '~', '5', 'true', ' x ', '#', \"a\\nb\"]}\n"
        "  metric_relabel_configs: [{source_labels: [__name__], regex: 'a|b.*', action: drop}]\n";
    struct engine_config *a = NULL, *b = NULL;
    assert_ok(engine_config_parse(gs_slice_of(text), "x.yml", "/tmp", &a));
    assert_ok(engine_config_parse(gs_slice_of(a->shown), "x.yml", "/tmp", &b));
    assert_string_equal(a->shown, b->shown);
    assert_int_equal(a->scrapes[0].n_params, 8);
    assert_int_equal(b->scrapes[0].n_params, 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(gs_slice_eq(a->scrapes[0].params[i].value, b->scrapes[0].params[i].value));
    // An interval below the default timeout shortens the timeout.
    assert_int_equal(a->scrapes[0].timeout_ms, 1000);
    engine_config_free(a);
    engine_config_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_style),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
