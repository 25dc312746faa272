// SPDX-License-Identifier: Apache-2.0
// Checks a regular expression and reports errors with the texts of Go's regexp/syntax. Features
// that Go does not have (look-around, back references, possessive repetition) are errors. PCRE2
// compiles accepted expressions.
#include "base/regex.h"

#include "base/mem.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define MAX_REPEAT 1000

struct scan {
    struct gs_slice text;
    size_t at;
    size_t depth;      // of groups
    bool repeatable;   // a repetition has an operand
    bool before_group; // value of repeatable before an opening parenthesis
    bool after_repeat; // the operand is a repetition that began at `repeat`
    size_t repeat;
    // How often counted repetitions repeat an element, multiplied: of the last element, and the
    // maximum of those before it in the same group.
    uint32_t copies, copies_before;
    struct open_group {
        uint32_t copies_before;
    } * groups;
    size_t cap_groups;
    struct gs_error *err;
};

static int regex_peek(const struct scan *s, size_t ahead)
{
    return s->at + ahead < s->text.len ? (unsigned char)s->text.data[s->at + ahead] : -1;
}

static void report_wrong_regex(struct scan *s, const char *what, size_t from, size_t until)
{
    s->err = gs_error_new(GS_EINVAL, "error parsing regexp: %s: `" GS_SLICE_FMT "`", what,
                          GS_SLICE_ARG(gs_slice_make(s->text.data + from, until - from)));
}

// From the backslash on.
static void escape(struct scan *s)
{
    int c = regex_peek(s, 1);
    if (c < 0) {
        report_wrong_regex(s, "trailing backslash at end of expression", s->text.len, s->text.len);
        return;
    }
    static const char known[] = "afnrtvxdDsSwWpPAbBzQ01234567";
    bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool back = c >= '1' && c <= '7' && !(regex_peek(s, 2) >= '0' && regex_peek(s, 2) <= '7');
    if ((letter && !strchr(known, c)) || back) {
        report_wrong_regex(s, "invalid escape sequence", s->at, s->at + 2);
        return;
    }
    s->at += 2;
    if (regex_peek(s, 0) == '{' && strchr("xpP", c)) { // \x{41}, \p{Greek}
        size_t end = s->at;
        while (end < s->text.len && s->text.data[end] != '}')
            end++;
        s->at = end < s->text.len ? end + 1 : s->at;
    }
    if (c != 'Q')
        return;
    while (regex_peek(s, 0) >= 0 && !(regex_peek(s, 0) == '\\' && regex_peek(s, 1) == 'E'))
        s->at++; // literally
    s->at += regex_peek(s, 0) >= 0 ? 2 : 0;
}

// Returns false if a class cannot contain the escape.
static bool check_class_escape(struct scan *s)
{
    static const char known[] = "afnrtvxdDsSwWpP01234567";
    int c = regex_peek(s, 1);
    bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool back = c >= '1' && c <= '7' && !(regex_peek(s, 2) >= '0' && regex_peek(s, 2) <= '7');
    s->at++;
    if (!(letter && !strchr(known, c)) && !back)
        return true;
    report_wrong_regex(s, "invalid escape sequence", s->at - 1, s->at + 1);
    return false;
}

// [:alpha:], up to the first ":]": its length. 0: another text.
static size_t named_class_len(struct scan *s)
{
    bool known;
    size_t len =
        gs_regex_class_len(gs_slice_make(s->text.data + s->at, s->text.len - s->at), &known);
    if (!len || known)
        return len;
    report_wrong_regex(s, "invalid character class range", s->at, s->at + len);
    return 0;
}

// A class, up to its closing bracket. A bracket directly after the opening one is literal.
static void class(struct scan *s)
{
    size_t start = s->at++;
    if (regex_peek(s, 0) == '^')
        s->at++;
    for (bool first = true;; first = false, s->at++) {
        int c = regex_peek(s, 0);
        if (c < 0) {
            report_wrong_regex(s, "missing closing ]", start, s->text.len);
            return;
        }
        if (c == ']' && !first)
            break;
        if (c == '\\' && !check_class_escape(s))
            return;
        size_t named = c == '[' ? named_class_len(s) : 0;
        if (s->err)
            return;
        s->at += named ? named - 1 : 0;
    }
    s->at++;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// Begins an element that is not repeated yet.
static void begin_element(struct scan *s)
{
    s->copies_before = larger(s->copies_before, s->copies);
    s->copies = 1;
}

static void enter_group(struct scan *s)
{
    begin_element(s);
    gs_grow(&s->groups, &s->cap_groups, s->depth, sizeof(*s->groups));
    s->groups[s->depth++].copies_before = s->copies_before;
    s->copies_before = 1;
}

static void leave_group(struct scan *s)
{
    s->copies = larger(s->copies, s->copies_before);
    s->copies_before = s->groups[--s->depth].copies_before;
}

// From the "?" of (?P<name> or (?<name> on. start: the position of the parenthesis.
static void open_named_group(struct scan *s, size_t start)
{
    bool valid;
    enter_group(s);
    while (regex_peek(s, 0) != '<')
        s->at++;
    size_t name = ++s->at;
    for (valid = true; regex_peek(s, 0) >= 0 && regex_peek(s, 0) != '>'; s->at++)
        valid = valid && (isalnum(regex_peek(s, 0)) || regex_peek(s, 0) == '_');
    bool closed = regex_peek(s, 0) == '>';
    s->at += closed;
    if (!closed || !valid || s->at == name + 1)
        report_wrong_regex(s, "invalid named capture", start, closed ? s->at : s->text.len);
}

static void open_group(struct scan *s)
{
    size_t start = s->at++;
    if (regex_peek(s, 0) != '?') {
        enter_group(s);
        return;
    }
    s->at++;
    bool named = regex_peek(s, 0) == '<' || (regex_peek(s, 0) == 'P' && regex_peek(s, 1) == '<');
    if (named) {
        open_named_group(s, start);
        return;
    }
    int c;
    while ((c = regex_peek(s, 0)) > 0 && strchr("imsU-", c))
        s->at++;
    if (c != ':' && c != ')')
        report_wrong_regex(s, "invalid or unsupported Perl syntax", start, s->at + (c >= 0));
    if (c == ':')
        enter_group(s);
    else
        s->repeatable = s->before_group; // flags for what follows
    s->at++;
}

// {n}, {n,}, {n,m}: its length; 0: it is text.
static size_t count_of(const struct scan *s, bool *ret_too_large, uint32_t *ret_copies)
{
    int64_t min = 0, max = 0;
    size_t at = 1, digits = 0;
    for (; regex_peek(s, at) >= '0' && regex_peek(s, at) <= '9'; at++, digits++)
        min = min > MAX_REPEAT ? min : min * 10 + (regex_peek(s, at) - '0');
    if (!digits)
        return 0;
    max = min;
    if (regex_peek(s, at) == ',') {
        size_t more = 0;
        for (at++, max = 0; regex_peek(s, at) >= '0' && regex_peek(s, at) <= '9'; at++, more++)
            max = max > MAX_REPEAT ? max : max * 10 + (regex_peek(s, at) - '0');
        max = more ? max : min;
    }
    *ret_copies = (uint32_t)max; // of {2,}: 2
    *ret_too_large = min > MAX_REPEAT || max > MAX_REPEAT || max < min;
    return regex_peek(s, at) == '}' ? at + 1 : 0;
}

// copies: of {…}; other repetitions: 1.
static void repetition(struct scan *s, size_t len, uint32_t copies)
{
    size_t start = s->at, end = s->at + len + (regex_peek(s, len) == '?');
    if (s->after_repeat)
        report_wrong_regex(s, "invalid nested repetition operator", s->repeat, end);
    else if (!s->repeatable)
        report_wrong_regex(s, "missing argument to repetition operator", start, end);
    else if (copies > 1 && copies * s->copies > MAX_REPEAT)
        report_wrong_regex(s, "invalid repeat count", start, end);
    s->copies = copies ? copies * s->copies : 1;
    s->repeat = start;
    s->at = end;
}

static void check_step(struct scan *s)
{
    int c = regex_peek(s, 0);
    bool too_large = false, repeats = c == '*' || c == '+' || c == '?';
    uint32_t copies = 1;
    size_t len = repeats ? 1 : c == '{' ? count_of(s, &too_large, &copies) : 0;
    if (len) {
        if (too_large)
            report_wrong_regex(s, "invalid repeat count", s->at, s->at + len);
        else
            repetition(s, len, copies);
        s->after_repeat = true;
        return;
    }
    s->after_repeat = false;
    s->before_group = s->repeatable;
    s->repeatable = c != '(' && c != '|';
    if (c != '(' && c != ')')
        begin_element(s);
    if (c == '\\') {
        escape(s);
    } else if (c == '[') {
        class(s);
    } else if (c == '(') {
        open_group(s);
    } else if (c == ')' && !s->depth) {
        report_wrong_regex(s, "unexpected )", 0, s->text.len);
    } else {
        if (c == ')')
            leave_group(s);
        s->at++;
    }
}

struct gs_error *gs_regex_check(struct gs_slice pattern)
{
    struct scan s = {.text = pattern, .copies = 1, .copies_before = 1};
    while (s.at < s.text.len && !s.err)
        check_step(&s);
    if (s.depth && !s.err)
        report_wrong_regex(&s, "missing closing )", 0, s.text.len);
    free(s.groups);
    return s.err;
}
