// SPDX-License-Identifier: Apache-2.0
// YAML 1.1/1.2 streams to JSON values, the way kubectl reads manifests (a JSON file is YAML too):
// multi-document, anchors resolved under a size limit, duplicate keys refused, positions kept.
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

// name: what errors call the input ("file.yaml"); errors read "file.yaml:12:3: message".
// Empty documents are skipped.
struct gs_error *codec_yaml_parse(struct gs_slice text, const char *name,
                                  struct codec_yaml_docs *ret);
struct gs_error *codec_yaml_load_file(const char *path, struct codec_yaml_docs *ret);
void codec_yaml_docs_finish(struct codec_yaml_docs *docs);

// Where values stand in the text, for errors about what they mean.
struct codec_yaml_marks;
struct codec_yaml_mark {
    int line, column; // 1-based; 0: not known (true, false and null, which all documents share)
};
struct codec_yaml_mark codec_yaml_mark_of(const struct codec_yaml_marks *m, const json_t *value);
void codec_yaml_marks_free(struct codec_yaml_marks *m);
GS_DEFINE_CLEANUP(struct codec_yaml_marks *, codec_yaml_marks_free)
// As codec_yaml_parse, with the places of the values. Marks are valid while the documents live;
// those of mappings are the place of their first key, those of an alias the place of the anchored
// value.
struct gs_error *codec_yaml_parse_marked(struct gs_slice text, const char *name,
                                         struct codec_yaml_docs *ret,
                                         struct codec_yaml_marks **ret_marks);
// As codec_yaml_parse_marked, but every scalar is a string with the text as written (plain null, ~
// and nothing: null), for readers that know the type of each field.
struct gs_error *codec_yaml_parse_texts(struct gs_slice text, const char *name,
                                        struct codec_yaml_docs *ret,
                                        struct codec_yaml_marks **ret_marks);

// In block style as by kubectl -o yaml, so that codec_yaml_parse() gives an equal value.
void codec_yaml_dump(const json_t *j, struct gs_buf *out);

// --- scalars ---
//
// The type of a plain YAML scalar, by the rules that Kubernetes' tools use (YAML 1.1 as go-yaml v2
// reads it: yes/no/on/off are booleans, 0o17 and 017 octal, dates stay strings).

json_t *
codec_yaml_plain_scalar(struct gs_slice s); // new reference; NULL for bytes that are not UTF-8
