// SPDX-License-Identifier: Apache-2.0
// What a value of a YAML file must look like, as data: one description per field, checked before
// anything is read from it. Private to the module.
#pragma once

#include "codec/yaml.h"

enum shape_kind {
    SHAPE_END, // of a list of alternatives
    SHAPE_NULL,
    SHAPE_BOOL,
    SHAPE_COUNT,    // integer, min to max
    SHAPE_NUMBER,   // min to max
    SHAPE_SECONDS,  // number, min to max
    SHAPE_QUANTITY, // number, or text as of Kubernetes: 250m
    SHAPE_TEXT,
    SHAPE_CHOICE, // text out of `choices`
    SHAPE_OBJECT, // with `fields` only
    SHAPE_MAP,    // any keys, values of shape `item`
    SHAPE_LIST,   // of shape `item`, max entries
    SHAPE_ANY,    // checked elsewhere
};

struct shape_field;
// A value fits one of its alternatives: an array that ends with SHAPE_END. No two of them may be of
// the same JSON type, so that a wrong value has one reason.
struct shape {
    enum shape_kind kind;
    double min, max;
    const char *const *choices; // ends with NULL
    const struct shape_field *fields;
    const struct shape *item;
};
struct shape_field {
    const char *name; // NULL ends the fields
    const struct shape *shape;
};

// Where values are, for errors.
struct shape_source {
    const char *file;
    const struct gs_yaml_marks *marks;
    int line; // used where a value has no place of its own
};

// "file:12:3: steps[0].at: …". path: names the value. GS_EINVAL: it does not fit.
struct gs_error *shape_check(const struct shape_source *src, const json_t *value,
                             const struct shape *shape, const char *path);
// An error at a value's place, or at the line of the source.
struct gs_error *shape_error(const struct shape_source *src, const json_t *value, const char *fmt,
                             ...) GS_PRINTF(3, 4) GS_MUST_USE;
