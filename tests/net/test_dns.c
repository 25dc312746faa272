// SPDX-License-Identifier: Apache-2.0
// Name servers that answer, lie, are silent or cut their answers short.
#include "net/dns/dns.h"

#include "dns_server.h"

struct fixture {
    uv_loop_t loop;
    struct dns_server server;
    struct dns_config cfg;
    struct gs_buf said; // "10.0.0.1 10.0.0.2 " of the answer; "? text" of an error
    unsigned rcode;
    int done;
};

static void on_answer(void *arg, const struct dns_answer *answer, struct gs_error *err)
{
    struct fixture *f = arg;
    gs_buf_clear(&f->said);
    if (err)
        gs_buf_addf(&f->said, "? %s", gs_error_message(err));
    else
        f->rcode = answer->rcode;
    for (size_t i = 0; answer && i < answer->n; i++) {
        gs_buf_addf(&f->said, "%s", answer->records[i].target);
        if (answer->records[i].port)
            gs_buf_addf(&f->said, ":%u", answer->records[i].port);
        gs_buf_add_char(&f->said, ' ');
    }
    gs_buf_add(&f->said, "", 0);
    gs_error_free(err);
    f->done++;
}

static void setup(struct fixture *f, const struct dns_row *rows)
{
    memset(f, 0, sizeof(*f));
    uv_loop_init(&f->loop);
    dns_server_start(&f->server, &f->loop, rows);
    f->cfg = dns_config_of(&f->server);
}

static void finish(struct fixture *f)
{
    dns_server_stop(&f->server, &f->loop);
    gs_buf_finish(&f->said);
}

static const char *look_up(struct fixture *f, const char *name, enum dns_type type)
{
    int done = f->done;
    gs_buf_clear(&f->server.asked);
    f->rcode = 99;
    dns_lookup_start(&f->loop, &f->cfg, name, type, on_answer, f);
    loop_until(&f->loop, f->done > done);
    return f->said.data ? f->said.data : "";
}

static const struct dns_row kinds[] = {
    {"1 gpu.example", SAYS_RECORDS,
     DNS_RECORDS(DNS_CNAME_RECORD DNS_A_RECORD("\x0a", "\0", "\0", "\x01")
                     DNS_A_RECORD("\x0a", "\0", "\0", "\x02"),
                 3)},
    {"28 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_AAAA_RECORD, 1)},
    {"33 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_SRV_RECORD DNS_SRV_RECORD, 2)},
    {"15 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_MX_RECORD, 1)},
    {"2 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_NS_RECORD, 1)},
    {"1 empty.example", SAYS_RECORDS, DNS_RECORDS("", 0)},
    {0},
};

static void records_of_all_kinds_are_read(void **state)
{
    struct fixture f;
    setup(&f, kinds);
    assert_string_equal(look_up(&f, "gpu.example", DNS_A), "10.0.0.1 10.0.0.2 ");
    assert_string_equal(look_up(&f, "gpu.example.", DNS_AAAA), "fd00::1 ");
    assert_string_equal(look_up(&f, "gpu.example", DNS_SRV),
                        "gpu0.gpu.example.:9400 gpu0.gpu.example.:9400 ");
    assert_string_equal(look_up(&f, "gpu.example", DNS_MX), "mx1.gpu.example. ");
    assert_string_equal(look_up(&f, "gpu.example", DNS_NS), "ns1.gpu.example. ");
    assert_string_equal(look_up(&f, "empty.example", DNS_A), "");
    assert_int_equal(f.rcode, DNS_NOERROR);
    assert_string_equal(look_up(&f, "none.example", DNS_A), "");
    assert_int_equal(f.rcode, DNS_NXDOMAIN);
    assert_non_null(strstr(look_up(&f, "a..b", DNS_A), "is no name of the DNS"));
    finish(&f);
    (void)state;
}

static void suffixes_are_tried_in_the_order_of_the_file(void **state)
{
    static const struct dns_row rows[] = {
        {"1 web.two.example", SAYS_RECORDS,
         DNS_RECORDS(DNS_A_RECORD("\x0a", "\0", "\0", "\x01"), 1)},
        {"1 odd.one.example", SAYS_SERVFAIL, NULL, 0, 0},
        {"1 odd.two.example", SAYS_RECORDS,
         DNS_RECORDS(DNS_A_RECORD("\x0a", "\0", "\0", "\x02"), 1)},
        {"1 sick.one.example", SAYS_SERVFAIL, NULL, 0, 0},
        {0}};
    struct fixture f;
    setup(&f, rows);
    dns_config_read(GS_SLICE("nameserver 127.0.0.1\nsearch one.example two.example.\n"), &f.cfg);
    f.cfg.port = f.server.port;
    f.cfg.timeout_ms = WAIT_MS;
    assert_string_equal(look_up(&f, "web", DNS_A), "10.0.0.1 ");
    assert_string_equal(f.server.asked.data, "1 web.one.example;1 web.two.example;");
    assert_string_equal(look_up(&f, "web.x", DNS_A), "");
    assert_string_equal(f.server.asked.data, "1 web.x;1 web.x.one.example;1 web.x.two.example;");
    assert_string_equal(look_up(&f, "web.", DNS_A), "");
    assert_string_equal(f.server.asked.data, "1 web;");
    // An error in front of an answer is no harm; without an answer it is.
    assert_string_equal(look_up(&f, "odd", DNS_A), "10.0.0.2 ");
    assert_non_null(strstr(look_up(&f, "sick", DNS_A),
                           "? could not resolve \"sick\": all servers responded with errors to at "
                           "least one search domain"));
    assert_non_null(strstr(f.server.asked.data, "1 sick;"));
    f.cfg.ndots = 2;
    look_up(&f, "web.x", DNS_A);
    assert_string_equal(f.server.asked.data, "1 web.x.one.example;1 web.x.two.example;1 web.x;");
    finish(&f);
    (void)state;
}

static void cut_answers_are_asked_for_over_tcp(void **state)
{
    static const struct dns_row rows[] = {
        {"1 big.example", SAYS_CUT, DNS_RECORDS(DNS_A_RECORD("\x0a", "\0", "\0", "\x01"), 1)}, {0}};
    struct fixture f;
    setup(&f, rows);
    assert_string_equal(look_up(&f, "big.example", DNS_A), "10.0.0.1 ");
    assert_string_equal(f.server.asked.data, "1 big.example;tcp 1 big.example;");
    loop_until(&f.loop, !f.server.peer_open); // the connection ends
    finish(&f);
    (void)state;
}

static void the_next_server_is_asked_when_one_does_not_say(void **state)
{
    static const struct dns_row rows[] = {
        {"1 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_A_RECORD("\x0a", "\0", "\0", "\x01"), 1)},
        {"1 silent.example", SAYS_NOTHING, NULL, 0, 0},
        {"1 false.example", SAYS_LIES, NULL, 0, 0},
        {"1 broken.example", SAYS_RECORDS, DNS_RECORDS(DNS_A_RECORD("\x0a", "\0", "\0", ""), 1)},
        {0}};
    struct fixture f;
    setup(&f, rows);
    f.cfg.timeout_ms = 50;
    assert_non_null(strstr(look_up(&f, "silent.example", DNS_A), "i/o timeout"));
    assert_non_null(strstr(look_up(&f, "false.example", DNS_A), "i/o timeout"));
    f.cfg.timeout_ms = WAIT_MS;
    assert_non_null(strstr(look_up(&f, "broken.example", DNS_A), "a record of the DNS is broken"));
    // 127.0.0.2 has no name server on this port.
    dns_config_read(GS_SLICE("nameserver here\nnameserver 127.0.0.2\nnameserver 127.0.0.1\n"),
                    &f.cfg);
    f.cfg.port = f.server.port;
    f.cfg.timeout_ms = WAIT_MS;
    assert_string_equal(look_up(&f, "gpu.example", DNS_A), "10.0.0.1 ");
    f.cfg.n_servers = 0;
    assert_non_null(strstr(look_up(&f, "gpu.example", DNS_A), "no servers"));
    finish(&f);
    (void)state;
}

static void a_lookup_can_be_cancelled(void **state)
{
    static const struct dns_row rows[] = {{"1 silent.example", SAYS_NOTHING, NULL, 0, 0}, {0}};
    struct fixture f;
    setup(&f, rows);
    dns_lookup_cancel(dns_lookup_start(&f.loop, &f.cfg, "silent.example", DNS_A, on_answer, &f));
    struct dns_lookup *l =
        dns_lookup_start(&f.loop, &f.cfg, "silent.example", DNS_A, on_answer, &f);
    loop_until(&f.loop, f.server.asked.len);
    dns_lookup_cancel(l);
    finish(&f);
    assert_int_equal(f.done, 0);
    (void)state;
}

static void resolv_conf_is_read_as_it_is_written(void **state)
{
    struct dns_config c;
    dns_config_read(GS_SLICE("# one\n; two\nnameserver\nnameserver \t 10.0.0.1 more\n"
                             "  nameserver fd00::1\nsearch a b\ndomain x y\nsearch c  d\r\n"
                             "options rotate ndots:5 timeout:9\nnonsense 1\nnameserver 10.0.0.3"),
                    &c);
    assert_int_equal(c.n_servers, 3);
    assert_string_equal(c.servers[0], "10.0.0.1");
    assert_string_equal(c.servers[1], "fd00::1");
    assert_string_equal(c.servers[2], "10.0.0.3");
    assert_int_equal(c.n_search, 2);
    assert_string_equal(c.search[0], "c");
    assert_string_equal(c.search[1], "d");
    assert_int_equal(c.ndots, 5);
    assert_int_equal(c.port, 53);
    dns_config_read(GS_SLICE("domain\noptions ndots:99\n"), &c);
    assert_int_equal(c.n_search, 0);
    assert_int_equal(c.ndots, 15);
    GS_AUTO_BUF struct gs_buf many = {0};
    for (int i = 0; i < 100; i++)
        gs_buf_addf(&many, "nameserver 10.0.0.%d\n", i);
    gs_buf_add_str(&many, "search");
    for (int i = 0; i < 100; i++)
        gs_buf_addf(&many, " s%d", i);
    dns_config_read(gs_buf_slice(&many), &c);
    assert_int_equal(c.n_servers, DNS_MAX_SERVERS);
    assert_int_equal(c.n_search, DNS_MAX_SEARCH);
    assert_error(dns_config_load("/nonexistent/resolv.conf", &c), GS_ENOTFOUND, "resolv.conf");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_all_kinds_are_read),
        cmocka_unit_test(suffixes_are_tried_in_the_order_of_the_file),
        cmocka_unit_test(cut_answers_are_asked_for_over_tcp),
        cmocka_unit_test(the_next_server_is_asked_when_one_does_not_say),
        cmocka_unit_test(a_lookup_can_be_cancelled),
        cmocka_unit_test(resolv_conf_is_read_as_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
