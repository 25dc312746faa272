// SPDX-License-Identifier: Apache-2.0
// Regular expressions with the syntax and semantics of Go (RE2), executed by PCRE2 with limits.
// Patterns of Prometheus, prometheus-adapter and dcgm-exporter are written for Go.
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct gs_regex; // compiled; used by one thread at a time

struct gs_regex_options {
    bool whole;           // matches whole texts only, and "." matches a newline; else searches
    bool any_bytes;       // texts may be invalid UTF-8, which no character class matches
    bool jit;             // compile to machine code: for patterns that are matched often
    size_t max_pattern;   // bytes; 0: 16 KiB
    uint32_t match_limit; // PCRE2 steps per match, bounds its time; 0: 1000000
};

// GS_EINVAL: the pattern is not valid in Go, with the text of Go's regexp package. Look-around,
// back references and other syntax of Perl that Go does not have are errors.
struct gs_error *gs_regex_check(struct gs_slice pattern);
// o may be NULL. GS_EINVAL as gs_regex_check(), which it calls; GS_ELIMIT: too long.
struct gs_error *gs_regex_new(struct gs_slice pattern, const struct gs_regex_options *o,
                              struct gs_regex **ret);
void gs_regex_free(struct gs_regex *r);             // accepts NULL
unsigned gs_regex_groups(const struct gs_regex *r); // number of capture groups

// A match that exceeds a limit is no match.
bool gs_regex_matches(const struct gs_regex *r, struct gs_slice text);
// The named group of the first match, a view of text. False: no match, or no such group.
bool gs_regex_group(const struct gs_regex *r, struct gs_slice text, const char *name,
                    struct gs_slice *ret);
// Appends `form` with $1, ${1}, $name, ${name} and $$ replaced by the groups of the first match, as
// Go's Regexp.Expand does: groups that do not exist are empty. False: no match, nothing appended.
bool gs_regex_expand(const struct gs_regex *r, struct gs_slice text, struct gs_slice form,
                     struct gs_buf *out);
// Appends text with each match replaced by the expanded form, as Go's Regexp.ReplaceAllString.
void gs_regex_replace_all(const struct gs_regex *r, struct gs_slice text, struct gs_slice form,
                          struct gs_buf *out);
// Finds the first reference of `form` to a group that the pattern does not have, which is replaced
// by nothing: "1_x" of "$1_x". False: none.
bool gs_regex_unknown_group(const struct gs_regex *r, struct gs_slice form,
                            struct gs_slice *ret_name);
// The length of "[:alpha:]" at the beginning, up to the first ":]". 0: another text. *ret_known is
// false for a name that Go does not have.
size_t gs_regex_class_len(struct gs_slice s, bool *ret_known);
