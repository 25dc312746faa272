// SPDX-License-Identifier: Apache-2.0
// dns_sd_configs with a name server on this machine: the resulting groups as lines of text.
#include "engine/discovery/discovery.h"

#include "../../net/dns/dns_server.h"

struct fixture {
    uv_loop_t loop;
    struct dns_server server;
    const char *names[40];
    struct engine_config_dns_sd cfg;
    struct discovery_stats stats;
    struct discovery_provider *sd;
    struct gs_buf heard; // of the last update
    int updates;
};

static void on_update(void *arg, const struct discovery_group *groups, size_t n)
{
    struct fixture *f = arg;
    f->updates++;
    gs_buf_clear(&f->heard);
    gs_buf_add(&f->heard, "", 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(groups[i].n_labels, 0);
        gs_buf_addf(&f->heard, "%s:", groups[i].source);
        for (size_t k = 0; k < groups[i].n_targets; k++) {
            gs_buf_add_str(&f->heard, k ? " |" : "");
            for (size_t l = 0; l < groups[i].n_target_labels[k]; l++) {
                const struct metrics_label *label = &groups[i].targets[k][l];
                gs_buf_addf(&f->heard, " " GS_SLICE_FMT "=" GS_SLICE_FMT, GS_SLICE_ARG(label->name),
                            GS_SLICE_ARG(label->value));
            }
        }
        gs_buf_add_char(&f->heard, '\n');
    }
}

static void setup(struct fixture *f, const struct dns_row *rows)
{
    memset(f, 0, sizeof(*f));
    uv_loop_init(&f->loop);
    dns_server_start(&f->server, &f->loop, rows);
    f->names[0] = "gpu.example";
    f->cfg = (struct engine_config_dns_sd){
        .names = f->names, .n_names = 1, .type = DNS_SRV, .port = 9400, .refresh_ms = 50};
}

static void start(struct fixture *f)
{
    const struct discovery_context ctx = {
        .loop = &f->loop, .stats = &f->stats, .dns = &f->server.config};
    assert_ok(discovery_provider_new(&ctx, (struct discovery_source){DISCOVERY_KIND_DNS, &f->cfg},
                                     on_update, f, &f->sd));
}

static void finish(struct fixture *f)
{
    discovery_provider_free(f->sd);
    dns_server_stop(&f->server, &f->loop);
    gs_buf_finish(&f->heard);
}

static const struct dns_row kinds[] = {
    {"1 gpu.example", SAYS_RECORDS,
     DNS_RECORDS(DNS_CNAME_RECORD DNS_ALIAS_A_RECORD("\x0a", "\0", "\0", "\x01")
                     DNS_ALIAS_A_RECORD("\x0a", "\0", "\0", "\x02"),
                 3)},
    {"28 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_AAAA_RECORD, 1)},
    {"33 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_SRV_RECORD, 1)},
    {"15 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_MX_RECORD, 1)},
    {"2 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_NS_RECORD, 1)},
    {0},
};

static void test_records_become_targets(void **state)
{
    static const struct {
        int type;
        const char *want;
    } cases[] = {
        {DNS_A, "gpu.example: __address__=10.0.0.1:9400 __meta_dns_name=gpu.example | "
                "__address__=10.0.0.2:9400 __meta_dns_name=gpu.example\n"},
        {DNS_AAAA, "gpu.example: __address__=[fd00::1]:9400 __meta_dns_name=gpu.example\n"},
        {DNS_SRV, "gpu.example: __address__=gpu0.gpu.example:9400 __meta_dns_name=gpu.example "
                  "__meta_dns_srv_record_target=gpu0.gpu.example. "
                  "__meta_dns_srv_record_port=9400\n"},
        {DNS_MX, "gpu.example: __address__=mx1.gpu.example:9400 __meta_dns_name=gpu.example "
                 "__meta_dns_mx_record_target=mx1.gpu.example.\n"},
        {DNS_NS, "gpu.example: __address__=ns1.gpu.example:9400 __meta_dns_name=gpu.example "
                 "__meta_dns_ns_record_target=ns1.gpu.example.\n"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct fixture f;
        setup(&f, kinds);
        f.cfg.type = cases[i].type;
        start(&f);
        loop_until(&f.loop, f.updates >= 2);
        assert_string_equal(f.heard.data, cases[i].want);
        finish(&f);
    }
    (void)state;
}

static void test_a_name_that_nobody_can_tell_of_keeps_its_targets(void **state)
{
    static const struct dns_row sick[] = {{"33 gpu.example", SAYS_SERVFAIL, NULL, 0, 0}, {0}};
    static const struct dns_row none[] = {{0}};
    struct fixture f;
    setup(&f, kinds);
    f.names[1] = "none.example";
    f.cfg.n_names = 2;
    start(&f);
    loop_until(&f.loop, f.updates == 1);
    assert_non_null(strstr(f.heard.data, "__meta_dns_name=gpu.example"));
    assert_non_null(strstr(f.heard.data, "none.example:\n"));
    assert_int_equal(f.stats.dns_lookups, 2);
    assert_int_equal(f.stats.dns_lookup_failures, 0);
    f.server.rows = sick;
    loop_until(&f.loop, f.stats.dns_lookup_failures >= 2);
    // No targets of the other name.
    loop_until(&f.loop, strcmp(f.heard.data, "none.example:\n") == 0);
    f.server.rows = none;
    loop_until(&f.loop, strstr(f.heard.data, "gpu.example:\n") != NULL);
    GS_AUTO_BUF struct gs_buf text = {0};
    discovery_stats_write(&f.stats, &text);
    assert_non_null(strstr(text.data, "\nprometheus_sd_dns_lookups_total "));
    assert_non_null(
        strstr(text.data, "prometheus_sd_refresh_failures_total{config=\"\",mechanism=\"dns\"} 0"));
    finish(&f);
    (void)state;
}

static void test_many_names_are_asked_for_a_few_at_a_time(void **state)
{
    static const struct dns_row silent[] = {{"33 gpu.example", SAYS_NOTHING, NULL, 0, 0}, {0}};
    struct fixture f;
    setup(&f, silent);
    f.cfg.n_names = GS_ARRAY_LEN(f.names);
    for (size_t i = 0; i < f.cfg.n_names; i++)
        f.names[i] = "gpu.example";
    f.server.config.timeout_ms = 3600000;
    f.cfg.refresh_ms = 3600000;
    start(&f);
    loop_until(&f.loop, f.server.asked.len >= 16 * strlen("33 gpu.example;"));
    loop_for_ms(&f.loop, 50);
    assert_int_equal(f.server.asked.len, 16 * strlen("33 gpu.example;"));
    f.server.rows = kinds;
    discovery_provider_reconfigure(f.sd, (struct discovery_source){DISCOVERY_KIND_DNS, &f.cfg});
    loop_until(&f.loop, f.updates == 1);
    assert_int_equal(f.stats.dns_lookups, 40);
    assert_int_equal(f.stats.dns_lookup_failures, 0);
    finish(&f);
    (void)state;
}

static void test_a_reload_and_an_end_come_while_names_are_asked_for(void **state)
{
    static const struct dns_row silent[] = {{"33 gpu.example", SAYS_NOTHING, NULL, 0, 0}, {0}};
    struct fixture f;
    setup(&f, silent);
    start(&f);
    loop_until(&f.loop, f.server.asked.len);
    gs_buf_clear(&f.server.asked);
    f.server.rows = kinds;
    const struct engine_config_dns_sd other = f.cfg;
    discovery_provider_reconfigure(f.sd, (struct discovery_source){DISCOVERY_KIND_DNS, &other});
    loop_until(&f.loop, f.updates == 1);
    f.server.rows = silent;
    gs_buf_clear(&f.server.asked);
    loop_until(&f.loop, f.server.asked.len);
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_become_targets),
        cmocka_unit_test(test_a_name_that_nobody_can_tell_of_keeps_its_targets),
        cmocka_unit_test(test_many_names_are_asked_for_a_few_at_a_time),
        cmocka_unit_test(test_a_reload_and_an_end_come_while_names_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
