// SPDX-License-Identifier: Apache-2.0
#include "net/http/http_private.h"
#include "unit.h"

static void release(struct http_exchange *x)
{
}

static const struct http_carrier_ops ops = {.release = release};

// The parameters as "name=value;", or the error.
static void check(const char *type, const char *body, const char *want)
{
    struct http_exchange x;
    GS_AUTO_BUF struct gs_buf got = {0};
    const char *name, *value;
    http_exchange_init(&x, NULL, &ops);
    assert_ok(http_exchange_set_target(&x, GS_SLICE("/p?u=1")));
    http_exchange_add_request_header(&x, "Content-Type", type);
    gs_buf_add_str(&x.body, body);
    struct gs_error *err = http_read_form(&x);
    if (err)
        gs_buf_addf(&got, "! %s", gs_error_message(err));
    for (size_t i = 0; !err && (value = http_query_nth(&x, i, &name)); i++)
        gs_buf_addf(&got, "%s=%s;", name, value);
    gs_error_free(err);
    assert_string_equal(got.data ? got.data : "", want);
    http_exchange_unref(&x);
}

#define PART(head, text) "--b\r\n" head "\r\n\r\n" text "\r\n"
#define FORM             "multipart/form-data; boundary=b"

static void test_fields_of_multipart_forms(void **state)
{
    (void)state;
    check(FORM,
          PART("Content-Disposition: form-data; name=\"query\"", "up{a=\"b\"}\r\n+ 1")
              PART("content-disposition: form-data; name=time", "5") "--b--\r\n",
          "u=1;query=up{a=\"b\"}\r\n+ 1;time=5;");
    check("Multipart/Form-Data; charset=x; boundary=\"b\"",
          "a preamble\r\n" PART("Content-Type: text/plain\r\n"
                                "Content-Disposition: form-data; name=\"a;b\"",
                                "") "--b--",
          "u=1;a;b=;");
    // Files are not fields, and parts without a name are ignored.
    check(FORM,
          PART("Content-Disposition: form-data; name=\"f\"; filename=\"x\"", "1")
              PART("X: y", "2") "--b--",
          "u=1;");
    check("application/x-www-form-urlencoded", "a=%62", "a=b;u=1;");
    check("text/plain", "a=b", "u=1;");
}

static void test_wrong_multipart_forms(void **state)
{
    static const char eof[] = "! form body: multipart: NextPart: EOF";
    (void)state;
    check("multipart/form-data", "--b--",
          "! form body: no multipart boundary param in Content-Type");
    check("multipart/form-data; boundary=", "--b--",
          "! form body: no multipart boundary param in Content-Type");
    check(FORM, "nothing", eof);
    check(FORM, "--b", eof);
    check(FORM, "--b\r\n", eof);
    check(FORM, "--bx\r\n\r\n--b--", eof);
    check(FORM, "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1", eof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_of_multipart_forms),
        cmocka_unit_test(test_wrong_multipart_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
