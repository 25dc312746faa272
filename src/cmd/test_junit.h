// SPDX-License-Identifier: Apache-2.0
// Results of unit tests in JUnit's XML, with the elements and attributes that promtool writes.
#pragma once

#include "base/buf.h"
#include "engine/rules/unit_test.h"

void junit_begin(struct gs_buf *out);
// A file of tests. error: why the file could not be used, NULL when it could.
void junit_suite(struct gs_buf *out, const char *file, const struct rules_tests_report *r,
                 const char *error);
void junit_end(struct gs_buf *out);
