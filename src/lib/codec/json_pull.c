// SPDX-License-Identifier: Apache-2.0
// Reads JSON without building a tree: for bodies of megabytes that are read once. The caller
// follows the structure and pulls each value. The first error is kept in `bad`, and everything
// after it returns false, so that only the end must be checked.
#include "codec/json.h"

#include "base/num.h"

struct codec_json_pull codec_json_pull_of(struct gs_slice text)
{
    return (struct codec_json_pull){
        .p = text.data, .end = text.data + text.len, .max_depth = CODEC_JSON_MAX_DEPTH};
}

static bool fail_pull(struct codec_json_pull *j, const char *why)
{
    if (!j->bad)
        j->bad = why;
    return false;
}

char codec_json_pull_peek(struct codec_json_pull *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r'))
        j->p++;
    return (char)(j->p < j->end && !j->bad ? *j->p : '\0');
}

bool codec_json_pull_end(struct codec_json_pull *j)
{
    codec_json_pull_peek(j);
    return !j->bad && (j->p == j->end || fail_pull(j, "unexpected text after the value"));
}

static bool enter_container(struct codec_json_pull *j, char c, const char *why)
{
    if (codec_json_pull_peek(j) != c)
        return fail_pull(j, why);
    if (++j->depth > j->max_depth || j->depth > CODEC_JSON_MAX_PULL_DEPTH)
        return fail_pull(j, "nested too deeply");
    j->p++;
    return true;
}

bool codec_json_pull_object(struct codec_json_pull *j)
{
    return enter_container(j, '{', "expected an object");
}

bool codec_json_pull_array(struct codec_json_pull *j)
{
    return enter_container(j, '[', "expected an array");
}

// Moves to the next member or item, after the comma. Returns false at the closing bracket.
static bool pull_step(struct codec_json_pull *j, char first, char close)
{
    char c = codec_json_pull_peek(j);
    const char *before = j->p;
    while (before[-1] == ' ' || before[-1] == '\n' || before[-1] == '\t' || before[-1] == '\r')
        before--;
    bool at_first = before[-1] == first;
    if (c == close) {
        j->p++;
        j->depth--;
        return false;
    }
    if (at_first)
        return c || fail_pull(j, "the text is truncated");
    if (c != ',')
        return fail_pull(j, "expected a comma or a closing bracket");
    j->p++;
    c = codec_json_pull_peek(j);
    return (c && c != close) || fail_pull(j, "expected a value after the comma");
}

bool codec_json_pull_item(struct codec_json_pull *j)
{
    return !j->bad && pull_step(j, '[', ']');
}

bool codec_json_pull_member(struct codec_json_pull *j, struct gs_arena *a, struct gs_slice *ret_key)
{
    if (j->bad || !pull_step(j, '{', '}') || !codec_json_pull_string(j, a, ret_key))
        return false;
    if (codec_json_pull_peek(j) != ':')
        return fail_pull(j, "expected a colon");
    j->p++;
    return true;
}

static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static char *put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

// p is after "\u". Lone surrogates become U+FFFD, as in Go.
static bool read_unicode(const char **p, const char *end, char **out)
{
    int hi = end - *p >= 4 ? hex4(*p) : -1;
    if (hi < 0)
        return false;
    *p += 4;
    unsigned c = (unsigned)hi;
    if (c >= 0xd800 && c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        int lo = hex4(*p + 2);
        if (lo >= 0xdc00 && lo < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + ((unsigned)lo - 0xdc00);
            *p += 6;
        }
    }
    if (c >= 0xd800 && c < 0xe000)
        c = 0xfffd;
    *out = put_utf8(*out, c);
    return true;
}

static bool unescape_string(struct codec_json_pull *j, struct gs_slice raw, struct gs_arena *a,
                            struct gs_slice *ret)
{
    char *text = gs_arena_alloc(a, raw.len + 1), *out = text;
    if (!text)
        return fail_pull(j, "too large");
    const char *p = raw.data, *end = raw.data + raw.len;
    while (p < end) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *known = p + 1 < end && p[1] ? strchr(from, p[1]) : NULL;
        bool unicode = p + 1 < end && p[1] == 'u';
        p += 2;
        if (known)
            *out++ = to[known - from];
        else if (!unicode || !read_unicode(&p, end, &out))
            return fail_pull(j, "invalid escape in a string");
    }
    *ret = gs_slice_make(text, (size_t)(out - text));
    return true;
}

static bool raw_string(struct codec_json_pull *j, struct gs_slice *ret, bool *ret_escaped)
{
    if (codec_json_pull_peek(j) != '"')
        return fail_pull(j, "expected a string");
    const char *from = ++j->p;
    *ret_escaped = false;
    for (;; j->p++) {
        if (j->p >= j->end)
            return fail_pull(j, "unterminated string");
        if (*j->p == '"')
            break;
        if ((unsigned char)*j->p < 0x20)
            return fail_pull(j, "a control character in a string");
        if (*j->p == '\\') {
            *ret_escaped = true;
            if (++j->p >= j->end)
                return fail_pull(j, "unterminated string");
        }
    }
    *ret = gs_slice_make(from, (size_t)(j->p - from));
    j->p++;
    return true;
}

bool codec_json_pull_string(struct codec_json_pull *j, struct gs_arena *a, struct gs_slice *ret)
{
    struct gs_slice raw;
    bool escaped = false;
    if (!raw_string(j, &raw, &escaped))
        return false;
    if (escaped)
        return unescape_string(j, raw, a, ret);
    *ret = raw;
    return true;
}

bool codec_json_pull_number(struct codec_json_pull *j, double *ret)
{
    char c = codec_json_pull_peek(j);
    const char *from = j->p;
    while (j->p < j->end && *j->p && strchr("+-.0123456789eE", *j->p))
        j->p++;
    struct gs_error *err = (c >= '0' && c <= '9') || c == '-'
                               ? gs_parse_double(gs_slice_make(from, (size_t)(j->p - from)), ret)
                               : gs_error_new(GS_EINVAL, "not a number");
    gs_error_free(err);
    return !err || fail_pull(j, "expected a number");
}

bool codec_json_pull_null(struct codec_json_pull *j)
{
    if (codec_json_pull_peek(j) != 'n' || j->end - j->p < 4 || memcmp(j->p, "null", 4) != 0)
        return false;
    j->p += 4;
    return true;
}

static bool skip_word(struct codec_json_pull *j)
{
    static const char *const words[] = {"null", "true", "false"};
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(j->end - j->p) >= n && memcmp(j->p, words[i], n) == 0) {
            j->p += n;
            return true;
        }
    }
    double number;
    return codec_json_pull_number(j, &number);
}

// Not recursive: the stack of open brackets is a bit set.
bool codec_json_pull_skip(struct codec_json_pull *j, struct gs_slice *ret_raw)
{
    bool in_object[CODEC_JSON_MAX_PULL_DEPTH + 1];
    unsigned level = 0;
    struct gs_slice key;
    bool escaped, more = true;
    codec_json_pull_peek(j);
    const char *from = j->p;
    while (more) {
        char c = codec_json_pull_peek(j);
        bool opens = c == '{' || c == '[';
        if (opens && !(c == '{' ? codec_json_pull_object(j) : codec_json_pull_array(j)))
            return false;
        if (opens)
            in_object[level++] = c == '{';
        else if (c == '"' ? !raw_string(j, &key, &escaped) : !skip_word(j))
            return false;
        // The next value inside the innermost bracket that has one.
        more = false;
        while (level && !more) {
            bool object = in_object[level - 1];
            more = object ? pull_step(j, '{', '}') : pull_step(j, '[', ']');
            if (j->bad)
                return false;
            if (!more)
                level--;
            else if (object &&
                     (!raw_string(j, &key, &escaped) ||
                      (codec_json_pull_peek(j) != ':' && !fail_pull(j, "expected a colon"))))
                return false;
            else if (object)
                j->p++;
        }
    }
    if (ret_raw)
        *ret_raw = gs_slice_make(from, (size_t)(j->p - from));
    return !j->bad;
}
