// SPDX-License-Identifier: Apache-2.0
// Reads YAML 1.1/1.2 streams as JSON values, as kubectl reads manifests. JSON files are valid YAML.
// Supports several documents, anchors (with a size limit) and positions of values. Duplicate keys
// are an error.
#pragma once

#include "codec/json.h"

struct codec_yaml_doc {
    json_t *value;
    int line; // 1-based line where the document starts
};

struct codec_yaml_docs {
    struct codec_yaml_doc *items;
    size_t len, cap;
};

// name: of the input, for errors such as "file.yaml:12:3: message". Empty documents are skipped.
struct gs_error *codec_yaml_parse(struct gs_slice text, const char *name,
                                  struct codec_yaml_docs *ret);
struct gs_error *codec_yaml_load_file(const char *path, struct codec_yaml_docs *ret);
void codec_yaml_docs_finish(struct codec_yaml_docs *docs);

// Positions of values in the text, for later errors about them.
struct codec_yaml_marks;
struct codec_yaml_mark {
    int line, column; // 1-based; 0: unknown (true, false and null, which all documents share)
};
struct codec_yaml_mark codec_yaml_mark_of(const struct codec_yaml_marks *m, const json_t *value);
void codec_yaml_marks_free(struct codec_yaml_marks *m);
GS_DEFINE_CLEANUP(struct codec_yaml_marks *, codec_yaml_marks_free)
// As codec_yaml_parse, with the positions of the values. Marks are valid while the documents exist.
// The position of a mapping is that of its first key, the position of an alias that of the anchored
// value.
struct gs_error *codec_yaml_parse_marked(struct gs_slice text, const char *name,
                                         struct codec_yaml_docs *ret,
                                         struct codec_yaml_marks **ret_marks);
// As codec_yaml_parse_marked, but every scalar is a string with its text as written (plain null, ~
// and an empty scalar: null), for readers that define the type of each field.
struct gs_error *codec_yaml_parse_texts(struct gs_slice text, const char *name,
                                        struct codec_yaml_docs *ret,
                                        struct codec_yaml_marks **ret_marks);

// Prints in block style, as kubectl -o yaml. codec_yaml_parse() of the result returns an equal
// value.
void codec_yaml_dump(const json_t *j, struct gs_buf *out);

// --- scalars ---
// Resolves the type of a plain YAML scalar by the rules of Kubernetes' tools: YAML 1.1 as in
// go-yaml v2 (yes/no/on/off are booleans, 0o17 and 017 are octal, dates are strings).

json_t *
codec_yaml_plain_scalar(struct gs_slice s); // new reference; NULL for bytes that are not UTF-8
