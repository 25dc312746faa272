// SPDX-License-Identifier: Apache-2.0
// Regular expressions of rules: searched, not anchored, in RE2's syntax as far as PCRE2 has the
// same; match limits stop expressions that explode.
#pragma once

#include "base/buf.h"
#include "base/error.h"

struct adapter_config_regex;

struct gs_error *adapter_config_regex_new(struct gs_slice pattern,
                                          struct adapter_config_regex **ret);
void adapter_config_regex_free(struct adapter_config_regex *r);
unsigned adapter_config_regex_groups(const struct adapter_config_regex *r); // capture groups
bool adapter_config_regex_matches(const struct adapter_config_regex *r, struct gs_slice text);
// Appends `form` with $1, ${1}, ${name}, $$ replaced as Go's regexp.Expand does: the matched part's
// groups, nothing for those that are not there. False: no match.
bool adapter_config_regex_expand(const struct adapter_config_regex *r, struct gs_slice text,
                                 const char *form, struct gs_buf *out);
// The named group of a match; false: no match or no such group. A view of text.
bool adapter_config_regex_group(const struct adapter_config_regex *r, struct gs_slice text,
                                const char *name, struct gs_slice *ret);
