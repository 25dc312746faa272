// SPDX-License-Identifier: Apache-2.0
// What every unit test includes: cmocka with its prerequisites, and asserts on errors.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

// Ends the test as skipped; tools/run-tests prints the reason (a format and its arguments) in its
// summary.
#undef skip
#define skip_because(...)                                                                          \
    do {                                                                                           \
        printf("skipped: %s: ", __func__);                                                         \
        printf(__VA_ARGS__);                                                                       \
        putchar('\n');                                                                             \
        fflush(stdout);                                                                            \
        _skip(__FILE__, __LINE__);                                                                 \
    } while (0)

#define assert_ok(expr)                                                                            \
    do {                                                                                           \
        struct gs_error *unit_err_ = (expr);                                                       \
        if (unit_err_)                                                                             \
            fail_msg("unexpected error: %s", gs_error_message(unit_err_));                         \
    } while (0)

// The expression fails with this code and a message that contains the text.
#define assert_error(expr, code_, text)                                                            \
    do {                                                                                           \
        struct gs_error *unit_err_ = (expr);                                                       \
        if (!unit_err_)                                                                            \
            fail_msg("no error where one was expected: %s", text);                                 \
        if (!strstr(gs_error_message(unit_err_), text))                                            \
            fail_msg("error \"%s\" does not contain \"%s\"", gs_error_message(unit_err_), text);   \
        assert_int_equal(gs_error_code(unit_err_), code_);                                         \
        gs_error_free(unit_err_);                                                                  \
    } while (0)
