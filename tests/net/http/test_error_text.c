// SPDX-License-Identifier: Apache-2.0
// Texts of failed requests are equal for equal failures, however long each attempt took.
#include "net/http/curl_private.h"
#include "unit.h"

static void test_times_of_attempts_are_removed(void **state)
{
    static const struct {
        const char *from, *want;
    } cases[] = {
        {"Failed to connect to a port 1 after 0 ms: Couldn't connect to server",
         "Failed to connect to a port 1: Couldn't connect to server"},
        {"Failed to connect to a port 1 after 437 ms: x", "Failed to connect to a port 1: x"},
        {"Failed to connect to a port 1 after 30291 ms: x",
         "Failed to connect to a port 1 after 30 s: x"},
        {"Operation timed out after 5003 milliseconds with 0 bytes received",
         "Operation timed out after 5 s with 0 bytes received"},
        {"Resolving timed out after 999 milliseconds", "Resolving timed out"},
        {"a after 1 ms after 2 ms", "a"},
        {"read after 12 msgs, after ms, after 7", "read after 12 msgs, after ms, after 7"},
        {"", ""},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        char text[CURL_ERROR_SIZE];
        snprintf(text, sizeof(text), "%s", cases[i].from);
        http_curl_text_settle(text);
        assert_string_equal(text, cases[i].want);
        http_curl_text_settle(text);
        assert_string_equal(text, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_of_attempts_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
