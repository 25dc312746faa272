// SPDX-License-Identifier: Apache-2.0
// Helpers over jansson: bounded parsing with positions, path look-up, comparison, canonical output.
// Ownership follows jansson: functions named _get_ return borrowed references, others a new one.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define CODEC_JSON_MAX_DEPTH 200

static inline void codec_json_decrefp(json_t **j)
{
    json_decref(*j);
}
#define CODEC_AUTO_JSON GS_CLEANUP(codec_json_decrefp)

// What a byte becomes within a string: 0 itself, 'u' \u00XX, else the letter behind the backslash.
// UTF-8 passes.
static inline char codec_json_escape(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return c < 0x20 ? 'u' : 0;
    }
}

// Errors name line and column. Duplicate keys are refused when `strict`.
struct gs_error *codec_json_parse(struct gs_slice text, bool strict, json_t **ret);
// Compact, one line, keys in insertion order, "/" not escaped. Numbers have the fewest digits that
// read back as the same number, in the form of Go's encoder; real ones keep a ".0".
void codec_json_dump(const json_t *j, struct gs_buf *out);
void codec_json_dump_pretty(const json_t *j,
                            struct gs_buf *out); // 2-space indent, as kubectl -o json
char *codec_json_text(const json_t *j);          // as codec_json_dump; caller frees

// Walks object members: codec_json_get(obj, "spec", "template", NULL). Absent or not an object:
// NULL.
json_t *codec_json_get(const json_t *j, ...) __attribute__((sentinel));
const char *codec_json_str(const json_t *j, ...)
    __attribute__((sentinel)); // NULL when not a string
int64_t codec_json_int(const json_t *j, int64_t fallback, ...) __attribute__((sentinel));
bool codec_json_bool(const json_t *j, bool fallback, ...) __attribute__((sentinel));
// Sets a member at a path of objects, making the objects on the way. Steals value.
void codec_json_set(json_t *j, json_t *value, ...) __attribute__((sentinel));
void codec_json_del(json_t *j, ...) __attribute__((sentinel));

// Bytes that are no UTF-8 become U+FFFD. NULL value: removes the key.
void codec_json_set_str(json_t *obj, const char *key, const char *value);
void codec_json_set_int(json_t *obj, const char *key, int64_t value);
void codec_json_set_bool(json_t *obj, const char *key, bool value);
// printf into a JSON string.
json_t *codec_json_strf(const char *fmt, ...) GS_PRINTF(1, 2);

// --- reading without a tree ---
//
// Reading large JSON answers in one pass without building values: a cursor over bytes. Bounded in
// depth; everything that is not well-formed sets `bad`, after which all calls return false.

struct codec_json_pull {
    const char *p, *end;
    const char *bad; // static reason; NULL: fine so far
    unsigned depth;
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
// Unescaped; a view of the text where it has no escapes, else in the arena.
bool codec_json_pull_string(struct codec_json_pull *j, struct gs_arena *a, struct gs_slice *ret);
bool codec_json_pull_number(struct codec_json_pull *j, double *ret);
bool codec_json_pull_skip(struct codec_json_pull *j,
                          struct gs_slice *ret_raw);  // ret_raw may be NULL
bool codec_json_pull_null(struct codec_json_pull *j); // true and consumed when the value is null
char codec_json_pull_peek(struct codec_json_pull *j); // first byte of the next value; 0 at the end
// Nothing but blanks follows.
bool codec_json_pull_end(struct codec_json_pull *j);
