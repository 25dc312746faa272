// SPDX-License-Identifier: Apache-2.0
// Label matchers: =, !=, =~, !~. Regular expressions are anchored at both ends, as in Prometheus,
// and run by PCRE2 under match limits. A label that a series lacks has the value "".
#pragma once

#include "base/buf.h"
#include "base/error.h"

enum tsdb_match { TSDB_EQ, TSDB_NEQ, TSDB_RE, TSDB_NRE };

struct tsdb_regex; // compiled, immutable, counted

// Compiles a pattern. GS_EINVAL with PCRE2's reason and offset. Literals, alternations of literals
// ("a|b|c"), ".*", ".+" and "prefix.*" are matched without PCRE2.
struct gs_error *tsdb_regex_new(struct gs_slice pattern, struct tsdb_regex **ret);
void tsdb_regex_free(struct tsdb_regex *r);
bool tsdb_regex_matches(const struct tsdb_regex *r, struct gs_slice text); // the whole text
// PCRE2 runs it: a match can take milliseconds.
bool tsdb_regex_can_be_slow(const struct tsdb_regex *r);
// The capture groups of a whole match, for relabeling and label_replace. spans[2*i] and
// spans[2*i+1] are the byte range of group i (0: the match; -1, -1: not part of the match). False:
// no match. Expands "$1", "${1}", "${name}" and "$$" in the template like Go's regexp.Expand.
bool tsdb_regex_expand(const struct tsdb_regex *r, struct gs_slice text, struct gs_slice template_,
                       struct gs_buf *ret);

struct tsdb_matcher {
    struct gs_slice name, value; // borrowed
    enum tsdb_match op;
    struct tsdb_regex *regex; // TSDB_RE and TSDB_NRE; borrowed
    // Private: results that are known already, by symbol (enum tsdb_answer). NULL: none.
    const unsigned char *answers;
    size_t n_answers;
};

bool tsdb_matcher_matches(const struct tsdb_matcher *m, struct gs_slice value);
