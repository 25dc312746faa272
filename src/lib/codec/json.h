// SPDX-License-Identifier: Apache-2.0
// Helpers for jansson: parsing with limits and positions, access by path, and printing. Ownership
// follows jansson: functions named _get_ return borrowed references, others a new one.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define CODEC_JSON_MAX_DEPTH      200
#define CODEC_JSON_MAX_PULL_DEPTH 1000

static inline void codec_json_decrefp(json_t **j)
{
    json_decref(*j);
}
#define CODEC_AUTO_JSON GS_CLEANUP(codec_json_decrefp)

// Errors have line and column. strict: duplicate keys are an error.
struct gs_error *codec_json_parse(struct gs_slice text, bool strict, json_t **ret);
// For texts of an API server, which contain objects that it has accepted: nesting can be deeper by
// what lists, watch events and managedFields add around them, and strings can contain NUL, as in
// Go. codec_json_str returns such a string up to its first NUL.
struct gs_error *codec_json_parse_accepted(struct gs_slice text, json_t **ret);
// Prints on one line, without blanks, with keys in insertion order and "/" not escaped. Numbers are
// in the shortest form that parses to the same value, as in Go's encoder; reals keep a ".0".
void codec_json_dump(const json_t *j, struct gs_buf *out);
// The same, with a call of go_on before each element of an array. The rest is left out after false.
void codec_json_dump_slowly(const json_t *j, struct gs_buf *out, bool (*go_on)(void *arg),
                            void *arg);
void codec_json_dump_pretty(const json_t *j,
                            struct gs_buf *out); // 2-space indent, as kubectl -o json
char *codec_json_text(const json_t *j);          // as codec_json_dump; caller frees

// A string between quotes. UTF-8 is not escaped.
enum codec_json_style {
    CODEC_JSON_PLAIN, // control characters as \u00XX, except \n, \r and \t
    CODEC_JSON_SHORT, // also \b and \f, as Go's encoding/json
    CODEC_JSON_HTML,  // also "<", ">" and "&" as \u00XX, as Go's encoding/json for HTML
};
void codec_json_add_string(struct gs_buf *out, struct gs_slice s, enum codec_json_style style);
// For code where speed matters: into room for CODEC_JSON_STRING_SIZE bytes, in the plain style.
// Returns the end of the text, which has no NUL.
#define CODEC_JSON_STRING_SIZE(len) ((len)*6 + 2)
char *codec_json_put_string(char *at, struct gs_slice s);

// The memory that the value takes, in bytes: an estimate with the sizes of jansson. Empty objects
// take a hundred times as much as their text.
size_t codec_json_memory(const json_t *j);

// Follows a path of object members: codec_json_get(obj, "spec", "template", NULL). Returns NULL if
// one is absent or not an object.
json_t *codec_json_get(const json_t *j, ...) __attribute__((sentinel));
const char *codec_json_str(const json_t *j, ...)
    __attribute__((sentinel)); // NULL when not a string
// The number of a sample in a vector of Prometheus' API: {"value": [TIME, "NUMBER"]}. NAN: it has
// none.
double codec_json_sample(const json_t *sample);
int64_t codec_json_int(const json_t *j, int64_t fallback, ...) __attribute__((sentinel));
bool codec_json_bool(const json_t *j, bool fallback, ...) __attribute__((sentinel));
// Whether an array contains the string. False for NULL and for anything but an array.
bool codec_json_has_string(const json_t *array, const char *text);
// Also for NULL, which equals only NULL.
static inline bool codec_json_same(const json_t *a, const json_t *b)
{
    return a == b || json_equal(a, b);
}
// Sets the member at a path and creates missing objects. Steals value.
void codec_json_set(json_t *j, json_t *value, ...) __attribute__((sentinel));
void codec_json_del(json_t *j, ...) __attribute__((sentinel));

// Bytes that are not UTF-8 become U+FFFD. value NULL: removes the key.
void codec_json_set_str(json_t *obj, const char *key, const char *value);
void codec_json_set_int(json_t *obj, const char *key, int64_t value);
void codec_json_set_bool(json_t *obj, const char *key, bool value);
// printf into a JSON string.
json_t *codec_json_strf(const char *fmt, ...) GS_PRINTF(1, 2);

// --- memory ---

// Replaces members of the value, at any depth, by those of `like` at the same place that are equal.
// Values that share members must not be changed.
void codec_json_share(json_t *value, const json_t *like);

// --- reading without a tree ---
// A cursor that reads large JSON responses without building values. The depth is limited. Malformed
// input sets `bad`, and all further calls return false.

struct codec_json_pull {
    const char *p, *end;
    const char *bad;           // static reason of the error; NULL: no error
    unsigned depth, max_depth; // CODEC_JSON_MAX_DEPTH, or set by the caller before the first call
};

struct codec_json_pull codec_json_pull_of(struct gs_slice text);

// Objects: enter, then next() until false; each member's value must be read or skipped.
//     if (codec_json_pull_object(&j))
//         while (codec_json_pull_member(&j, &arena, &key)) …
bool codec_json_pull_object(struct codec_json_pull *j);
bool codec_json_pull_member(struct codec_json_pull *j, struct gs_arena *a,
                            struct gs_slice *ret_key);
bool codec_json_pull_array(struct codec_json_pull *j);
bool codec_json_pull_item(struct codec_json_pull *j);
// Returns the unescaped string: a view of the text if it has no escapes, otherwise in the arena.
bool codec_json_pull_string(struct codec_json_pull *j, struct gs_arena *a, struct gs_slice *ret);
bool codec_json_pull_number(struct codec_json_pull *j, double *ret);
bool codec_json_pull_skip(struct codec_json_pull *j,
                          struct gs_slice *ret_raw); // ret_raw may be NULL
// true if the value is null, which is consumed
bool codec_json_pull_null(struct codec_json_pull *j);
char codec_json_pull_peek(struct codec_json_pull *j); // first byte of the next value; 0 at the end
// True if only white space follows.
bool codec_json_pull_end(struct codec_json_pull *j);
