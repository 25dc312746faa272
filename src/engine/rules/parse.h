// SPDX-License-Identifier: Apache-2.0
// Rule groups from parsed YAML or from Kubernetes objects. Private to the room.
#pragma once

#include "base/arena.h"
#include "codec/yaml.h"
#include "engine/rules/rules.h"

// A rule set under construction.
struct rules_builder {
    struct gs_arena arena;
    struct rules_group *groups;
    size_t n_groups, cap_groups;
    struct promql_expr **exprs;
    size_t n_exprs, cap_exprs;
    struct rules_problems *problems;
};

// Where a document comes from. marks NULL: an object without text.
struct rules_source {
    const char *file; // of errors and of the groups
    const struct codec_yaml_marks *marks;
    bool ignore_unknown_fields;
};

// The groups of one document: {groups: …}, a PrometheusRule or a list of PrometheusRules.
struct gs_error *rules_build_document(struct rules_builder *b, const struct rules_source *src,
                                      const json_t *doc);
// One rule of a group. Never fails: what is wrong is a problem and switches the rule off.
void rules_build_rule(struct rules_builder *b, const struct rules_source *src,
                      const struct rules_group *group, size_t number, const json_t *obj,
                      struct rules_rule *ret);
struct rules_set *rules_builder_end(struct rules_builder *b); // takes the content
void rules_builder_finish(struct rules_builder *b);

// --- helpers of the two files ---

// "file:line:column" of the first value that has a place.
char *rules_where(const struct rules_source *src, const json_t *value, const json_t *fallback);
// The text of a scalar field, also of a number or boolean of a JSON object. NULL: absent or null.
// False: it is not a scalar.
bool rules_scalar(struct rules_builder *b, const json_t *value, const char **ret);
const char *rules_format(struct rules_builder *b, const char *fmt, ...) GS_PRINTF(2, 3);
// {name: text}, sorted by name. NULL error text: fine.
const char *rules_label_map(struct rules_builder *b, const json_t *value, bool label_names,
                            const struct metrics_label **ret, size_t *ret_n);
void rules_problem(struct rules_problems *p, char *text); // takes text
