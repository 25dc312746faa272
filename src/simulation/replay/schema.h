// SPDX-License-Identifier: Apache-2.0
// The expected form of the values of a YAML file, as data: one description per field. A value is
// checked before anything is read from it.
#pragma once

#include "codec/yaml.h"
#include "codec/yaml_reader.h"

enum replay_schema_kind {
    REPLAY_SCHEMA_END, // of a list of alternatives
    REPLAY_SCHEMA_NULL,
    REPLAY_SCHEMA_BOOL,
    REPLAY_SCHEMA_COUNT,    // integer, min to max
    REPLAY_SCHEMA_NUMBER,   // min to max
    REPLAY_SCHEMA_SECONDS,  // number, min to max
    REPLAY_SCHEMA_QUANTITY, // number, or text as of Kubernetes: 250m
    REPLAY_SCHEMA_TEXT,
    REPLAY_SCHEMA_CHOICE, // text out of `choices`
    REPLAY_SCHEMA_OBJECT, // with `fields` only
    REPLAY_SCHEMA_MAP,    // any keys, values of schema `item`
    REPLAY_SCHEMA_LIST,   // of schema `item`, max entries
    REPLAY_SCHEMA_ANY,    // checked elsewhere
};

struct replay_schema_field;
// A value must match one of the alternatives: an array that ends with REPLAY_SCHEMA_END.
// Alternatives have different JSON types, so that a wrong value has one reason.
struct replay_schema {
    enum replay_schema_kind kind;
    double min, max;
    const char *const *choices; // ends with NULL
    const struct replay_schema_field *fields;
    const struct replay_schema *item;
};
struct replay_schema_field {
    const char *name; // NULL ends the fields
    const struct replay_schema *schema;
};

// Positions of values, for errors.
struct replay_document {
    const char *file;
    const struct codec_yaml_marks *marks;
    int line; // used for values without a position
};

// "file:12:3: steps[0].at: …". path: names the value. GS_EINVAL: it does not fit.
struct gs_error *replay_schema_check(const struct replay_document *src, const json_t *value,
                                     const struct replay_schema *schema, const char *path);
// An error at a value's place, or at the line of the source.
struct gs_error *replay_schema_error(const struct replay_document *src, const json_t *value,
                                     const char *fmt, ...) GS_PRINTF(3, 4) GS_MUST_USE;
