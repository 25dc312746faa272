// SPDX-License-Identifier: Apache-2.0
// Reading large JSON answers in one pass without building values: a cursor over bytes. Bounded in
// depth; everything that is not well-formed sets `bad`, after which all calls return false.
#pragma once

#include "base/arena.h"

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
