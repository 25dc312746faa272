// SPDX-License-Identifier: Apache-2.0
// Name servers that answer, lie, are silent or cut their answers short.
#include "net/dns/dns.h"

#include "dns_server.h"

struct fixture {
    uv_loop_t loop;
    struct dns_server server;
    struct gs_buf said; // "10.0.0.1 10.0.0.2 " of the answer; "? text" of an error
    bool exists;
    int done;
};

static void on_answer(void *arg, const struct dns_answer *answer, struct gs_error *err)
{
    struct fixture *f = arg;
    gs_buf_clear(&f->said);
    if (err)
        gs_buf_addf(&f->said, "? %s", gs_error_message(err));
    else
        f->exists = answer->exists;
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
    dns_lookup_start(&f->loop, &f->server.config, name, type, on_answer, f);
    loop_until(&f->loop, f->done > done);
    return f->said.data ? f->said.data : "";
}

static const struct dns_row kinds[] = {
    {"1 gpu.example", SAYS_RECORDS,
     DNS_RECORDS(DNS_CNAME_RECORD DNS_ALIAS_A_RECORD("\x0a", "\0", "\0", "\x01")
                     DNS_ALIAS_A_RECORD("\x0a", "\0", "\0", "\x02"),
                 3)},
    {"28 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_AAAA_RECORD, 1)},
    {"33 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_SRV_RECORD DNS_SRV_RECORD, 2)},
    {"15 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_MX_RECORD, 1)},
    {"2 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_NS_RECORD, 1)},
    {"1 empty.example", SAYS_RECORDS, DNS_RECORDS("", 0)},
    {0},
};

static void test_records_of_all_kinds_are_read(void **state)
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
    assert_true(f.exists);
    assert_string_equal(look_up(&f, "none.example", DNS_A), "");
    assert_false(f.exists);
    assert_non_null(strstr(look_up(&f, "a..b", DNS_A), "Misformatted domain name"));
    finish(&f);
    (void)state;
}

static void test_suffixes_are_tried_in_the_order_of_the_file(void **state)
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
    dns_set_resolv_conf(&f.server, "nameserver 127.0.0.1\nsearch one.example two.example.\n");
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
    dns_set_resolv_conf(&f.server, "nameserver 127.0.0.1\nsearch one.example two.example\n"
                                   "options ndots:2\n");
    look_up(&f, "web.x", DNS_A);
    assert_string_equal(f.server.asked.data, "1 web.x.one.example;1 web.x.two.example;1 web.x;");
    finish(&f);
    (void)state;
}

static void test_cut_answers_are_asked_for_over_tcp(void **state)
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

static void test_the_next_server_is_asked_when_one_does_not_say(void **state)
{
    static const struct dns_row rows[] = {
        {"1 gpu.example", SAYS_RECORDS, DNS_RECORDS(DNS_A_RECORD("\x0a", "\0", "\0", "\x01"), 1)},
        {"1 silent.example", SAYS_NOTHING, NULL, 0, 0},
        {"1 false.example", SAYS_LIES, NULL, 0, 0},
        {"1 broken.example", SAYS_RECORDS, DNS_RECORDS(DNS_A_RECORD("\x0a", "\0", "\0", ""), 1)},
        {0}};
    struct fixture f;
    setup(&f, rows);
    f.server.config.timeout_ms = 50;
    assert_non_null(
        strstr(look_up(&f, "silent.example", DNS_A), "Timeout while contacting DNS servers"));
    assert_non_null(
        strstr(look_up(&f, "false.example", DNS_A), "Timeout while contacting DNS servers"));
    f.server.config.timeout_ms = WAIT_MS;
    assert_non_null(strstr(look_up(&f, "broken.example", DNS_A), "Misformatted DNS reply"));
    // 127.0.0.2 has no name server on this port.
    dns_set_resolv_conf(&f.server, "nameserver here\nnameserver 127.0.0.2\nnameserver 127.0.0.1\n");
    assert_string_equal(look_up(&f, "gpu.example", DNS_A), "10.0.0.1 ");
    // Without a file it is the server of this machine.
    assert_int_equal(unlink(f.server.resolv_conf), 0);
    assert_string_equal(look_up(&f, "gpu.example", DNS_A), "10.0.0.1 ");
    finish(&f);
    (void)state;
}

static void test_a_lookup_can_be_cancelled(void **state)
{
    static const struct dns_row rows[] = {{"1 silent.example", SAYS_NOTHING, NULL, 0, 0}, {0}};
    struct fixture f;
    setup(&f, rows);
    dns_lookup_cancel(
        dns_lookup_start(&f.loop, &f.server.config, "silent.example", DNS_A, on_answer, &f));
    struct dns_lookup *l =
        dns_lookup_start(&f.loop, &f.server.config, "silent.example", DNS_A, on_answer, &f);
    loop_until(&f.loop, f.server.asked.len);
    dns_lookup_cancel(l);
    finish(&f);
    assert_int_equal(f.done, 0);
    (void)state;
}

static void test_resolv_conf_is_read_as_it_is_written(void **state)
{
    static const struct dns_row none[] = {{0}};
    struct fixture f;
    setup(&f, none);
    dns_set_resolv_conf(&f.server,
                        "# one\n; two\nnameserver\nnameserver \t 127.0.0.1 more\n"
                        "search a b\nsearch c  d\noptions rotate ndots:3 timeout:9\nnonsense 1\n");
    look_up(&f, "web.x.y", DNS_A);
    assert_string_equal(f.server.asked.data, "1 web.x.y.c;1 web.x.y.d;1 web.x.y;");
    look_up(&f, "web.x.y.z", DNS_A);
    assert_string_equal(f.server.asked.data, "1 web.x.y.z;1 web.x.y.z.c;1 web.x.y.z.d;");
    GS_AUTO_BUF struct gs_buf many = {0};
    gs_buf_add_str(&many, "nameserver 127.0.0.1\nsearch");
    for (int i = 0; i < 40; i++)
        gs_buf_addf(&many, " s%d", i);
    dns_set_resolv_conf(&f.server, many.data);
    look_up(&f, "web", DNS_A);
    assert_true(gs_starts(f.server.asked.data, "1 web.s0;1 web.s1;"));
    assert_true(gs_ends(f.server.asked.data, ";1 web;"));
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_of_all_kinds_are_read),
        cmocka_unit_test(test_suffixes_are_tried_in_the_order_of_the_file),
        cmocka_unit_test(test_cut_answers_are_asked_for_over_tcp),
        cmocka_unit_test(test_the_next_server_is_asked_when_one_does_not_say),
        cmocka_unit_test(test_a_lookup_can_be_cancelled),
        cmocka_unit_test(test_resolv_conf_is_read_as_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
