// SPDX-License-Identifier: Apache-2.0
// The two names of a GPU metric in PromQL: dcgm-exporter 4.9 renames metrics of 4.8 and changes
// units. An expression with one name can read the series of the other, or be converted for good.
// All functions may be called on each thread, unless a callback of the caller says otherwise.
#pragma once

#include "base/error.h"
#include "promql/ast.h"
#include "tsdb/tsdb.h"

#include <stdbool.h>

// --- names ---

enum { ALIASES_MAX = 2 };

// The release of dcgm-exporter whose default file has a name. ALIASES_DCGM_4_6: a name that only
// DCGM 4.6 gives, with the unit of 4.8.
enum aliases_release { ALIASES_4_8, ALIASES_DCGM_4_6, ALIASES_4_9 };

// Another name of a metric: a value under the queried name is a value under `name`, multiplied by
// `multiplier` and divided by `divisor`. One of them is 1; both are 1 if the units are equal.
struct aliases_name {
    const char *name; // constant
    enum aliases_release release;
    double multiplier, divisor;
};

// Returns the number of other names of a metric. 0: it has only one.
size_t aliases_of(struct gs_slice metric, struct aliases_name ret[ALIASES_MAX]);
// Adds " * 100" or " / 1000000", or nothing.
void aliases_add_factor(const struct aliases_name *a, struct gs_buf *out);

// --- reading ---

// Which names a source has.
struct aliases_source {
    bool (*has)(void *arg, struct gs_slice metric);
    void *arg;
    // `has` is true for all names of the source. Otherwise the queried name may exist, too.
    bool complete;
};

// A source that is a store; `arg` is the struct tsdb. Call it on the thread of the store.
bool aliases_store_has(void *db, struct gs_slice metric);
// For promql_engine_set_substitute(): aliases_read() with this store. NULL: unchanged.
struct promql_expr *aliases_substitute(void *db, const struct promql_expr *x);

// Rewrites an expression so that selectors of a name also read the series of its other names, in
// the unit of the queried name. A GPU (labels UUID and GPU_I_ID) that has series with the queried
// name is read from them alone. The result has the queried names. Selectors of a name are unchanged
// if the source has no series of its other names, or if the expression contains these, too.
// ret_text: the new expression; empty: unchanged. ret_notes: a line such as
// "DCGM_FI_DEV_GPU_UTIL: DCGM_FI_DEV_GPU_UTIL_RATIO * 100" for each pair of names; NULL: not
// wanted.
void aliases_read(const struct promql_expr *x, const struct aliases_source *s,
                  struct gs_buf *ret_text, struct gs_buf *ret_notes);

// Calls fn for each name that a series selector reads under another name, as in match[] of the HTTP
// API: `selector` selects the series of `name`, which have to be shown as `shown`.
void aliases_each_selector(const struct promql_expr *selector, const struct aliases_source *s,
                           void (*fn)(void *arg, struct gs_slice selector, const char *name,
                                      const char *shown),
                           void *arg);

// Whether the matchers of a series selector for the name of the metric fit a name.
bool aliases_selector_fits(const struct promql_expr *selector, struct gs_slice metric);
// A selector that also selects the series of the other names, for a source whose names are not
// known. ret_text: empty: the selector has no other names.
void aliases_widen_selector(const struct promql_expr *selector, struct gs_buf *ret_text);

// --- conversion ---

// Replaces the names in an expression by those of a release (ALIASES_4_8 or ALIASES_4_9) and
// multiplies by the factor, so that the values stay equal. The rest of the text stays as it is
// written. ret_text: empty: unchanged. ret_changes: lines as of aliases_read(). ret_problem: why a
// selector was not converted; empty: all were. GS_EINVAL: the text is no PromQL.
struct gs_error *aliases_convert(struct gs_slice expr, enum aliases_release to,
                                 struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                 struct gs_buf *ret_problem);
// The same for a selector of series whose values are not used.
struct gs_error *aliases_convert_selector(struct gs_slice selector, enum aliases_release to,
                                          struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                          struct gs_buf *ret_problem);
// Replaces the labels that have other names in this release, in a text with expressions or names of
// labels. ret_text: empty: unchanged.
void aliases_convert_labels(struct gs_slice text, enum aliases_release to, struct gs_buf *ret_text);
