// SPDX-License-Identifier: Apache-2.0
// A table-driven reader of YAML mappings with one row for each field. The documents come from
// codec_yaml_parse_texts() or codec_yaml_parse_marked(). All values are allocated in the reader's
// arena. The first error is kept in the reader and ends the reading.
#pragma once

#include "base/arena.h"
#include "codec/yaml.h"

#include <stddef.h>

struct codec_reader {
    const char *name;                     // of the file, for errors
    const char *base_dir;                 // of relative paths; NULL: they stay relative
    const struct codec_yaml_marks *marks; // NULL: no positions
    int first_line; // lines before the text, if it is embedded in another file
    struct gs_arena *arena;
    void *user;           // for custom readers; not used here
    struct gs_error *err; // owned by the caller
    // Warnings about supported keys without an effect. The array belongs to the caller, the texts
    // to the arena.
    const char **ignored;
    size_t n_ignored, ignored_cap;
};

enum codec_field_type {
    CODEC_FIELD_TEXT,     // const char *
    CODEC_FIELD_PATH,     // const char *, relative to base_dir
    CODEC_FIELD_URL,      // const char *, checked
    CODEC_FIELD_BOOL,     // bool
    CODEC_FIELD_DURATION, // int64_t milliseconds: "1h30m"
    CODEC_FIELD_COUNT,    // size_t
    CODEC_FIELD_BYTES,    // size_t: "10MB"
    CODEC_FIELD_CUSTOM,   // by read()
    CODEC_FIELD_IGNORED,  // without effect: a line in `ignored`, unless the value is false
    CODEC_FIELD_UNUSED,   // without effect and without a warning
};                        // the last two are checked by read() if it is given

typedef void codec_read_fn(struct codec_reader *r, const json_t *value, void *out);

struct codec_field {
    const char *name;
    enum codec_field_type type;
    size_t offset; // into the structure that codec_read_mapping() fills
    codec_read_fn *read;
};

// --- reading ---

// fields ends with a NULL name. what: "scrape config", for errors. "key:" without a value leaves
// the default. An unknown key is an error.
void codec_read_mapping(struct codec_reader *r, const json_t *obj, const struct codec_field *fields,
                        const char *what, void *out);
// The same for a mapping with the keys of two tables.
void codec_read_mapping2(struct codec_reader *r, const json_t *obj,
                         const struct codec_field *fields, void *out,
                         const struct codec_field *more_fields, void *more_out, const char *what);
// Calls read() for each item of an array of items of this size. ret_items: pointer to the array.
void codec_read_list(struct codec_reader *r, const json_t *list, size_t size, codec_read_fn *read,
                     void *ret_items, size_t *ret_n);
const char *codec_read_text(struct codec_reader *r, const json_t *value); // "" for null
void codec_read_texts(struct codec_reader *r, const json_t *list, const char *const **ret,
                      size_t *ret_n);
int64_t codec_read_duration(struct codec_reader *r, const json_t *value); // milliseconds

// Readers that only check a value of that type. out is not used.
codec_read_fn codec_check_bool, codec_check_count, codec_check_integer, codec_check_number,
    codec_check_duration, codec_check_text;
void codec_check_url(struct codec_reader *r, const json_t *value, const char *url);

// --- for custom readers ---

// The error "file:12:3: text" with the position of the value. Only the first one is kept.
void codec_reader_fail(struct codec_reader *r, const json_t *value, const char *fmt, ...)
    GS_PRINTF(3, 4);
bool codec_reader_is_mapping(struct codec_reader *r, const json_t *obj, const char *what);
// Adds a line to `ignored`.
void codec_reader_note(struct codec_reader *r, const json_t *value, const char *fmt, ...)
    GS_PRINTF(3, 4);
void codec_reader_ignore(struct codec_reader *r, const char *key, const json_t *value,
                         const char *what);
const char *codec_reader_line(struct codec_reader *r, const json_t *value); // "file:12" or "file"
const char *codec_reader_path(struct codec_reader *r, const char *path);
void *codec_reader_alloc(struct codec_reader *r, size_t size); // zeroed
char *codec_reader_format(struct codec_reader *r, const char *fmt, ...) GS_PRINTF(2, 3);

// --- texts of scalars ---

// Prometheus' format of a duration, in milliseconds: "1h30m", "0".
bool codec_parse_duration(const char *text, int64_t *ret_ms);
// A size in bytes, with powers of 1024: "10MB", "1.5GiB", "0".
bool codec_parse_size(const char *text, size_t *ret);
// What is wrong with a URL by the rules of Go's net/url; NULL: nothing.
const char *codec_url_error(const char *url);
