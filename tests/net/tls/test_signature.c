// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "net/tls/signature.h"

#include <stdlib.h>

static struct tls_signing_key *new_key(void)
{
    struct tls_signing_key *key = NULL;
    GS_AUTO_FREE char *pem = NULL;
    assert_ok(tls_signing_key_create(&pem));
    assert_ok(tls_signing_key_read(pem, &key));
    return key;
}

static void test_only_the_signed_text_and_key_verify(void **state)
{
    struct tls_signing_key *key = new_key(), *other = new_key();
    unsigned char raw[TLS_SIGNATURE_SIZE];
    // Many signatures, so that some have numbers with leading zeros.
    for (int i = 0; i < 300; i++) {
        GS_AUTO_FREE char *text = gs_format("text %d", i);
        assert_ok(tls_sign(key, gs_slice_of(text), raw));
        struct gs_slice signature = gs_slice_make((const char *)raw, sizeof(raw));
        assert_true(tls_verify(key, gs_slice_of(text), signature));
        assert_false(tls_verify(key, GS_SLICE("other text"), signature));
        assert_false(tls_verify(other, gs_slice_of(text), signature));
    }
    raw[5] ^= 1;
    assert_false(
        tls_verify(key, GS_SLICE("text 299"), gs_slice_make((const char *)raw, sizeof(raw))));
    assert_false(tls_verify(key, GS_SLICE("text 299"), GS_SLICE("short")));
    assert_int_equal(strlen(tls_signing_key_id(key)), 64);
    assert_string_not_equal(tls_signing_key_id(key), tls_signing_key_id(other));
    tls_signing_key_free(key);
    tls_signing_key_free(other);
}

static void test_other_texts_are_no_keys(void **state)
{
    static const char *const texts[] = {"", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        struct tls_signing_key *key = NULL;
        struct gs_error *err = tls_signing_key_read(texts[i], &key);
        assert_int_equal(gs_error_code(err), GS_EINVAL);
        assert_null(key);
        gs_error_free(err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_signed_text_and_key_verify),
        cmocka_unit_test(test_other_texts_are_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
