// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/series/aliases: the parts of an expression that depend on one selector
// linearly, and pieces of text that replace others.
#pragma once

#include "aliases/aliases.h"

// The label of the driver's version that exporters of 4.8 and of 4.9 write.
#define ALIASES_OLD_DRIVER_LABEL "DCGM_FI_DRIVER_VERSION"
#define ALIASES_NEW_DRIVER_LABEL "DCGM_FI_SYSTEM_DRIVER_VERSION"

// How the value of a unit changes when the values of its series are multiplied.
enum aliases_scale {
    ALIASES_LINEAR,
    ALIASES_SQUARE,  // a variance
    ALIASES_FREE,    // not at all: a count, a time
    ALIASES_ABSENCE, // absent(): there is a value if no series exists
    ALIASES_RAW,     // a range without a function: cannot be multiplied
};

// The smallest part of an expression that is an instant vector and contains the selector: the
// selector itself, or a call of a function with a range vector or of absent() or timestamp().
struct aliases_unit {
    const struct promql_node *whole, *selector;
    const struct promql_node *parent; // of `whole`; NULL: none
    enum aliases_scale scale;
    bool named; // the name of the metric can reach the result
};

// The factor for a unit.
struct aliases_name aliases_scaled(const struct aliases_name *a, enum aliases_scale scale);

// In the order of the text.
void aliases_each_unit(const struct promql_node *root,
                       void (*fn)(void *arg, const struct aliases_unit *u), void *arg);

// The name that the selector requires; empty: none, or a regular expression.
struct gs_slice aliases_selected_name(const struct promql_node *selector);
// Whether the matchers of the metric name fit a name, and at least one is a regular expression.
bool aliases_pattern_fits(const struct promql_node *selector, const char *name);
bool aliases_has_pattern(const struct promql_node *selector);
// Calls fn for each name of a metric that has several.
void aliases_each_name(void (*fn)(void *arg, const char *name), void *arg);

// Adds the selector with this name. driver_label: NULL, or the label that is replaced by the one
// that exporters with this name use. identified: only series with a UUID.
void aliases_add_selector(const struct promql_node *selector, const char *name,
                          const char *driver_label, bool identified, struct gs_buf *out);
// Calls fn for each name that the pattern of the selector fits and that exists only under names
// that it does not fit.
void aliases_each_in_pattern(const struct promql_node *selector,
                             const struct aliases_source *source,
                             void (*fn)(void *arg, const char *shown, const struct aliases_name *a),
                             void *arg);

// Adds the line to a list of lines if it does not contain it.
void aliases_add_line(struct gs_buf *lines, struct gs_slice line);
void aliases_note(const char *from, const struct aliases_name *to, struct gs_buf *lines);

// --- replacements of a text, in its order ---

struct aliases_edit {
    uint32_t start, end;
    char *text;
};
struct aliases_edits {
    struct aliases_edit *items;
    size_t len, cap;
};
void aliases_edits_add(struct aliases_edits *e, uint32_t start, uint32_t end, struct gs_buf *text);
// Adds "(", after "() " if the parenthesis would otherwise begin the labels of group_left or
// group_right, which end at this position of the text.
void aliases_open_paren(struct gs_slice text, uint32_t at, struct gs_buf *out);
void aliases_edits_apply(const struct aliases_edits *e, struct gs_slice text, struct gs_buf *out);
void aliases_edits_finish(struct aliases_edits *e);
