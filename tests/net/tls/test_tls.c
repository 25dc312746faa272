// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/slice.h"
#include "net/tls/tls.h"
#include "unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <cmocka.h>

static gnutls_x509_crt_t read_cert(const char *pem)
{
    gnutls_x509_crt_t crt;
    gnutls_datum_t d = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_crt_import(crt, &d, GNUTLS_X509_FMT_PEM), 0);
    return crt;
}

static unsigned verify(gnutls_x509_crt_t leaf, gnutls_x509_crt_t ca, const char *purpose)
{
    unsigned status = 0;
    gnutls_x509_trust_list_t list;
    gnutls_typed_vdata_st data = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                  .data = (unsigned char *)(uintptr_t)purpose};
    gnutls_x509_trust_list_init(&list, 0);
    gnutls_x509_trust_list_add_cas(list, &ca, 1, 0);
    assert_int_equal(gnutls_x509_trust_list_verify_crt2(list, &leaf, 1, &data, 1, 0, &status, NULL),
                     0);
    gnutls_x509_trust_list_deinit(list, 0);
    return status;
}

static void test_ca_and_leaf(void **state)
{
    struct tls_pair ca = {0}, other = {0}, server = {0}, client = {0};
    const char *dns[] = {"localhost", "kubernetes.default.svc"}, *ip[] = {"127.0.0.1", "::1"};
    const char *groups[] = {"system:masters", "devs"};
    assert_null(tls_make_ca("ca", 10, &ca));
    assert_null(tls_make_ca("ca", 10, &other));
    struct tls_leaf s = {.common_name = "srv",
                         .dns_names = dns,
                         .n_dns_names = 2,
                         .ip_addresses = ip,
                         .n_ip_addresses = 2,
                         .server = 1,
                         .days = 3};
    struct tls_leaf c = {
        .common_name = "alice", .organizations = groups, .n_organizations = 2, .days = 3};
    assert_null(tls_make_leaf(&ca, &s, &server));
    assert_null(tls_make_leaf(&ca, &c, &client));
    gnutls_x509_crt_t ca_crt = read_cert(ca.cert_pem), other_crt = read_cert(other.cert_pem);
    gnutls_x509_crt_t server_crt = read_cert(server.cert_pem);
    gnutls_x509_crt_t client_crt = read_cert(client.cert_pem);
    assert_int_equal(verify(server_crt, ca_crt, GNUTLS_KP_TLS_WWW_SERVER), 0);
    assert_int_equal(verify(client_crt, ca_crt, GNUTLS_KP_TLS_WWW_CLIENT), 0);
    assert_int_not_equal(verify(client_crt, ca_crt, GNUTLS_KP_TLS_WWW_SERVER), 0);
    assert_int_not_equal(verify(server_crt, ca_crt, GNUTLS_KP_TLS_WWW_CLIENT), 0);
    // The same name, but another key.
    assert_int_not_equal(verify(server_crt, other_crt, GNUTLS_KP_TLS_WWW_SERVER), 0);
    assert_true(gnutls_x509_crt_check_hostname(server_crt, "localhost"));
    assert_true(gnutls_x509_crt_check_hostname(server_crt, "kubernetes.default.svc"));
    assert_true(gnutls_x509_crt_check_hostname(server_crt, "127.0.0.1"));
    assert_false(gnutls_x509_crt_check_hostname(server_crt, "127.0.0.2"));
    assert_false(gnutls_x509_crt_check_hostname(server_crt, "srv"));
    assert_true(gnutls_x509_crt_get_ca_status(ca_crt, NULL) > 0);
    assert_int_equal(gnutls_x509_crt_get_ca_status(server_crt, NULL), 0);
    time_t from = gnutls_x509_crt_get_activation_time(server_crt);
    assert_true(from <= time(NULL) - 3600 && from > time(NULL) - 3700);
    uint8_t serial_a[32], serial_b[32];
    size_t size_a = sizeof(serial_a), size_b = sizeof(serial_b);
    gnutls_x509_crt_get_serial(server_crt, serial_a, &size_a);
    gnutls_x509_crt_get_serial(client_crt, serial_b, &size_b);
    assert_int_equal(size_a, 16);
    assert_true(size_a != size_b || memcmp(serial_a, serial_b, size_a) != 0);
    uint8_t id_a[64], id_b[64];
    size_a = sizeof(id_a), size_b = sizeof(id_b);
    assert_int_equal(gnutls_x509_crt_get_authority_key_id(server_crt, id_a, &size_a, NULL), 0);
    assert_int_equal(gnutls_x509_crt_get_subject_key_id(ca_crt, id_b, &size_b, NULL), 0);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(id_a, id_b, size_a);
    gnutls_x509_crt_t all[] = {ca_crt, other_crt, server_crt, client_crt};
    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++)
        gnutls_x509_crt_deinit(all[i]);
    struct tls_pair *pairs[] = {&ca, &other, &server, &client};
    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++)
        tls_pair_finish(pairs[i]);
}

static void test_errors(void **state)
{
    struct tls_pair ca = {0}, leaf = {0};
    assert_null(tls_make_ca("ca", 1, &ca));
    const char *ip[] = {"localhost"};
    struct tls_leaf l = {.common_name = "x", .ip_addresses = ip, .n_ip_addresses = 1, .days = 1};
    struct gs_error *err = tls_make_leaf(&ca, &l, &leaf);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    assert_non_null(strstr(gs_error_message(err), "\"localhost\" is not an IP address"));
    gs_error_free(err);
    char text[] = "not pem";
    struct tls_pair broken = {text, text};
    l.n_ip_addresses = 0;
    err = tls_make_leaf(&broken, &l, &leaf);
    assert_non_null(err);
    assert_non_null(strstr(gs_error_message(err), "making a certificate for \"x\""));
    gs_error_free(err);
    assert_null(leaf.cert_pem);
    long left = 0;
    err = tls_cert_seconds_left("not pem", &left);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    gs_error_free(err);
    assert_null(tls_cert_seconds_left(ca.cert_pem, &left));
    assert_true(left > 86400 - 60 && left <= 86400);
    assert_null(tls_pair_seconds_left(ca.cert_pem, ca.key_pem, &left));
    assert_true(left > 86400 - 60 && left <= 86400);
    err = tls_pair_seconds_left(ca.cert_pem, "not pem", &left);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    gs_error_free(err);
    tls_pair_finish(&ca);
    assert_null(ca.key_pem);
}

static void test_secrets(void **state)
{
    assert_true(tls_secret_equal("abc", "abc"));
    assert_true(tls_secret_equal("", ""));
    assert_false(tls_secret_equal("abc", "abd"));
    assert_false(tls_secret_equal("abc", "ab"));
    assert_false(tls_secret_equal("abc", "abcd"));
}

static void test_checks(void **state)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair ca = {0}, other = {0};
    int64_t from = 0, until = 0;
    assert_ok(tls_make_ca("one", 1, &ca));
    assert_ok(tls_make_ca("two", 1, &other));
    GS_AUTO_FREE char *both = gs_format("%s%s", ca.cert_pem, other.cert_pem);
    assert_ok(tls_check_certificates(both));
    assert_error(tls_check_certificates("nonsense"), GS_EINVAL, "not a PEM certificate");
    assert_error(tls_check_certificates(ca.key_pem), GS_EINVAL, "not a PEM certificate");
    assert_ok(tls_check_pair(ca.cert_pem, ca.key_pem));
    assert_error(tls_check_pair(ca.cert_pem, other.key_pem), GS_EINVAL, "does not belong");
    assert_error(tls_check_pair(ca.cert_pem, "nonsense"), GS_EINVAL, "the key: ");
    assert_ok(tls_cert_validity(ca.cert_pem, &from, &until));
    assert_int_equal(until - from, 86400 + 3600);
    assert_error(tls_cert_validity("nonsense", &from, &until), GS_EINVAL, "not a PEM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_ca_and_leaf),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
