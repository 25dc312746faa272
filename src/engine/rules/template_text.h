// SPDX-License-Identifier: Apache-2.0
// Texts made from texts and numbers by the functions of templates. Private to the template files.
#pragma once

#include "base/buf.h"
#include "base/error.h"

void template_escape_html(struct gs_slice s, struct gs_buf *out);
void template_escape_js(struct gs_slice s, struct gs_buf *out);
void template_escape_query(struct gs_slice s, struct gs_buf *out);
void template_title(struct gs_slice s, struct gs_buf *out);
void template_upper(struct gs_slice s, struct gs_buf *out);
void template_lower(struct gs_slice s, struct gs_buf *out);
void template_strip_port(struct gs_slice s, struct gs_buf *out);
void template_strip_domain(struct gs_slice s, struct gs_buf *out);
void template_graph_link(struct gs_slice s, struct gs_buf *out);
void template_table_link(struct gs_slice s, struct gs_buf *out);
void template_humanize(double v, struct gs_buf *out);
void template_humanize_1024(double v, struct gs_buf *out);
void template_humanize_duration(double seconds, struct gs_buf *out);
bool template_parse_duration(const char *text, int64_t *ret_ms);
// Regular expressions, not anchored, under PCRE2's match limits.
struct gs_error *template_match(struct gs_slice pattern, struct gs_slice text, bool *ret);
struct gs_error *template_replace_all(struct gs_slice pattern, struct gs_slice replacement,
                                      struct gs_slice text, struct gs_buf *out);
