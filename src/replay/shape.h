// SPDX-License-Identifier: Apache-2.0
// What a value of a YAML file must look like, as data: one description per field, checked before
// anything is read from it. Private to the module.
#pragma once

#include "codec/yaml.h"

enum replay_shape_kind {
    REPLAY_SHAPE_END, // of a list of alternatives
    REPLAY_SHAPE_NULL,
    REPLAY_SHAPE_BOOL,
    REPLAY_SHAPE_COUNT,    // integer, min to max
    REPLAY_SHAPE_NUMBER,   // min to max
    REPLAY_SHAPE_SECONDS,  // number, min to max
    REPLAY_SHAPE_QUANTITY, // number, or text as of Kubernetes: 250m
    REPLAY_SHAPE_TEXT,
    REPLAY_SHAPE_CHOICE, // text out of `choices`
    REPLAY_SHAPE_OBJECT, // with `fields` only
    REPLAY_SHAPE_MAP,    // any keys, values of shape `item`
    REPLAY_SHAPE_LIST,   // of shape `item`, max entries
    REPLAY_SHAPE_ANY,    // checked elsewhere
};

struct replay_shape_field;
// A value fits one of its alternatives: an array that ends with REPLAY_SHAPE_END. No two of them
// may be of the same JSON type, so that a wrong value has one reason.
struct replay_shape {
    enum replay_shape_kind kind;
    double min, max;
    const char *const *choices; // ends with NULL
    const struct replay_shape_field *fields;
    const struct replay_shape *item;
};
struct replay_shape_field {
    const char *name; // NULL ends the fields
    const struct replay_shape *shape;
};

// Where values are, for errors.
struct replay_shape_source {
    const char *file;
    const struct codec_yaml_marks *marks;
    int line; // used where a value has no place of its own
};

// "file:12:3: steps[0].at: …". path: names the value. GS_EINVAL: it does not fit.
struct gs_error *replay_shape_check(const struct replay_shape_source *src, const json_t *value,
                                    const struct replay_shape *shape, const char *path);
// An error at a value's place, or at the line of the source.
struct gs_error *replay_shape_error(const struct replay_shape_source *src, const json_t *value,
                                    const char *fmt, ...) GS_PRINTF(3, 4) GS_MUST_USE;
