// SPDX-License-Identifier: Apache-2.0
#include "adapter/config/regex.h"

#include "base/mem.h"
#include "tsdb/matcher.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MAX_PATTERN = 16 * 1024, MATCH_LIMIT = 1000000, DEPTH_LIMIT = 10000, HEAP_LIMIT_KIB = 8192 };

struct adapter_config_regex {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    uint32_t groups;
};

struct gs_error *adapter_config_regex_new(struct gs_slice pattern,
                                          struct adapter_config_regex **ret)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    if (pattern.len > MAX_PATTERN)
        return gs_error_new(GS_ELIMIT, "a regular expression of more than %d bytes", MAX_PATTERN);
    GS_AUTO_BUF struct gs_buf text = {0};
    tsdb_regex_text(pattern, &text);
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)(text.len ? text.data : ""), text.len,
                      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    if (!re) {
        PCRE2_UCHAR why[160] = "";
        pcre2_get_error_message(code, why, sizeof(why));
        return gs_error_new(GS_EINVAL, "regular expression `" GS_SLICE_FMT "`: %s at byte %zu",
                            GS_SLICE_ARG(pattern), (const char *)why, (size_t)at);
    }
    struct adapter_config_regex *r = gs_alloc(sizeof(*r));
    r->code = re;
    r->match = pcre2_match_data_create_from_pattern(re, NULL);
    r->limits = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(r->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(r->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(r->limits, HEAP_LIMIT_KIB);
    pcre2_pattern_info(re, PCRE2_INFO_CAPTURECOUNT, &r->groups);
    *ret = r;
    return NULL;
}

void adapter_config_regex_free(struct adapter_config_regex *r)
{
    if (!r)
        return;
    pcre2_match_context_free(r->limits);
    pcre2_match_data_free(r->match);
    pcre2_code_free(r->code);
    free(r);
}

unsigned adapter_config_regex_groups(const struct adapter_config_regex *r)
{
    return r->groups;
}

bool adapter_config_regex_matches(const struct adapter_config_regex *r, struct gs_slice text)
{
    return pcre2_match(r->code, (PCRE2_SPTR)(text.data ? text.data : ""), text.len, 0, 0, r->match,
                       r->limits) > 0;
}

static struct gs_slice tsdb_group_at(const struct adapter_config_regex *r, struct gs_slice text,
                                     uint32_t i)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(r->match);
    if (i >= pcre2_get_ovector_count(r->match) || span[2 * i] == PCRE2_UNSET)
        return GS_SLICE("");
    return gs_slice_make(text.data + span[2 * i], span[2 * i + 1] - span[2 * i]);
}

static struct gs_slice group_named(const struct adapter_config_regex *r, struct gs_slice text,
                                   struct gs_slice name)
{
    bool digits = name.len > 0 && name.len < 9;
    uint32_t number = 0;
    for (size_t i = 0; i < name.len && digits; i++) {
        digits = name.data[i] >= '0' && name.data[i] <= '9';
        number = number * 10 + (uint32_t)(name.data[i] - '0');
    }
    if (digits)
        return tsdb_group_at(r, text, number);
    char copy[128];
    if (name.len >= sizeof(copy))
        return GS_SLICE("");
    memcpy(copy, name.data, name.len);
    copy[name.len] = '\0';
    int found = pcre2_substring_number_from_name(r->code, (PCRE2_SPTR)copy);
    return found > 0 ? tsdb_group_at(r, text, (uint32_t)found) : GS_SLICE("");
}

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// form is behind a "$". The name and how many bytes it takes; 0: no reference.
static size_t read_reference(const char *form, struct gs_slice *ret)
{
    bool braces = form[0] == '{';
    size_t n = braces, from = braces;
    while (is_word(form[n]))
        n++;
    if (n == from || (braces && form[n] != '}'))
        return 0;
    *ret = gs_slice_make(form + from, n - from);
    return n + braces;
}

bool adapter_config_regex_expand(const struct adapter_config_regex *r, struct gs_slice text,
                                 const char *form, struct gs_buf *out)
{
    if (!adapter_config_regex_matches(r, text))
        return false;
    for (const char *p = form; *p;) {
        struct gs_slice name;
        if (*p != '$') {
            gs_buf_add_char(out, *p++);
            continue;
        }
        p++;
        if (*p == '$') {
            gs_buf_add_char(out, *p++);
            continue;
        }
        size_t n = read_reference(p, &name);
        if (n)
            gs_buf_add_slice(out, group_named(r, text, name));
        else
            gs_buf_add_char(out, '$'); // malformed: as it stands
        p += n;
    }
    return true;
}

bool adapter_config_regex_group(const struct adapter_config_regex *r, struct gs_slice text,
                                const char *name, struct gs_slice *ret)
{
    if (pcre2_substring_number_from_name(r->code, (PCRE2_SPTR)name) <= 0 ||
        !adapter_config_regex_matches(r, text))
        return false;
    *ret = group_named(r, text, gs_slice_of(name));
    return true;
}
