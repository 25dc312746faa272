// SPDX-License-Identifier: Apache-2.0
// The syntax of names and labels, with the error texts of apimachinery's validation package, which
// users know and tests of other programs compare.
#include "kube/names.h"

#include <stdio.h>

#define DNS_LABEL_FMT     "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define DNS_SUBDOMAIN_FMT DNS_LABEL_FMT "(\\." DNS_LABEL_FMT ")*"
#define DNS1035_FMT       "[a-z]([-a-z0-9]*[a-z0-9])?"
#define QUALIFIED_FMT     "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#define QUALIFIED_TEXT                                                                             \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "    \
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "         \
    "validation is '" QUALIFIED_FMT "')"

enum { LABEL_MAX = 63, SUBDOMAIN_MAX = 253 };

static void add_name_problem(struct gs_buf *why, const char *prefix, const char *text)
{
    if (!why)
        return;
    if (why->len)
        gs_buf_add_str(why, "; ");
    gs_buf_add_str(why, prefix);
    gs_buf_add_str(why, text);
}

static bool check_length(struct gs_slice s, size_t max, const char *prefix, struct gs_buf *why)
{
    if (s.len <= max)
        return true;
    char text[64];
    snprintf(text, sizeof(text), "must be no more than %zu bytes", max);
    add_name_problem(why, prefix, text);
    return false;
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z');
}

static bool is_dns_label(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        bool inner = i > 0 && i + 1 < s.len;
        if (!is_lower(s.data[i]) && !is_digit(s.data[i]) && !(inner && s.data[i] == '-'))
            return false;
    }
    return s.len > 0;
}

static bool is_dns_subdomain(struct gs_slice s)
{
    if (s.len == 0 || s.data[s.len - 1] == '.')
        return false;
    while (s.data)
        if (!is_dns_label(gs_slice_cut(&s, '.')))
            return false;
    return true;
}

static bool is_qualified(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        bool inner = i > 0 && i + 1 < s.len;
        char c = s.data[i];
        if (!is_alnum(c) && !(inner && (c == '-' || c == '_' || c == '.')))
            return false;
    }
    return s.len > 0;
}

static bool check_subdomain(struct gs_slice s, const char *prefix, struct gs_buf *why)
{
    bool ok = check_length(s, SUBDOMAIN_MAX, prefix, why);
    if (is_dns_subdomain(s))
        return ok;
    add_name_problem(
        why, prefix,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
        "used "
        "for validation is '" DNS_SUBDOMAIN_FMT "')");
    return false;
}

bool kube_check_dns_subdomain(struct gs_slice s, struct gs_buf *why)
{
    return check_subdomain(s, "", why);
}

bool kube_check_dns_label(struct gs_slice s, struct gs_buf *why)
{
    bool ok = check_length(s, LABEL_MAX, "", why);
    if (is_dns_label(s))
        return ok;
    add_name_problem(
        why, "",
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
        "used for validation is '" DNS_LABEL_FMT "')");
    return false;
}

bool kube_check_dns1035_label(struct gs_slice s, struct gs_buf *why)
{
    bool ok = check_length(s, LABEL_MAX, "", why);
    if (is_dns_label(s) && is_lower(s.data[0]))
        return ok;
    add_name_problem(
        why, "",
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
        "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
        "'abc-123', regex used for validation is '" DNS1035_FMT "')");
    return false;
}

bool kube_check_label_key(struct gs_slice s, struct gs_buf *why)
{
    bool ok = true;
    struct gs_slice name = s;
    const char *slash = s.len ? memchr(s.data, '/', s.len) : NULL;
    if (slash) {
        struct gs_slice prefix = gs_slice_make(s.data, (size_t)(slash - s.data));
        name = gs_slice_make(slash + 1, s.len - prefix.len - 1);
        if (name.len && memchr(name.data, '/', name.len)) {
            add_name_problem(
                why, "",
                "a qualified name " QUALIFIED_TEXT
                " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
            return false;
        }
        if (prefix.len == 0) {
            add_name_problem(why, "prefix part ", "must be non-empty");
            ok = false;
        } else if (!check_subdomain(prefix, "prefix part ", why)) {
            ok = false;
        }
    }
    if (name.len == 0) {
        add_name_problem(why, "name part ", "must be non-empty");
        ok = false;
    } else if (!check_length(name, LABEL_MAX, "name part ", why)) {
        ok = false;
    }
    if (!is_qualified(name)) {
        add_name_problem(why, "name part ", QUALIFIED_TEXT);
        ok = false;
    }
    return ok;
}

bool kube_check_label_value(struct gs_slice s, struct gs_buf *why)
{
    bool ok = check_length(s, LABEL_MAX, "", why);
    if (s.len == 0 || is_qualified(s))
        return ok;
    add_name_problem(
        why, "",
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        "'my_value',  or '12345', regex used for validation is '(" QUALIFIED_FMT ")?')");
    return false;
}

bool kube_check_env_name(struct gs_slice s, struct gs_buf *why)
{
    bool ok = s.len > 0 && !is_digit(s.data[0]);
    for (size_t i = 0; ok && i < s.len; i++) {
        char c = s.data[i];
        ok = is_alnum(c) || c == '-' || c == '.' || c == '_';
    }
    if (!ok)
        add_name_problem(
            why, "",
            "a valid environment variable name must consist of alphabetic characters, digits, '_', "
            "'-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  "
            "or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')");
    return ok;
}

void kube_quote(struct gs_slice s, struct gs_buf *out)
{
    static const char letters[] = "abtnvfr"; // for bytes 7 to 13
    gs_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c == '"' || c == '\\')
            gs_buf_addf(out, "\\%c", c);
        else if (c >= 7 && c <= 13)
            gs_buf_addf(out, "\\%c", letters[c - 7]);
        else if (c < 0x20 || c == 0x7f)
            gs_buf_addf(out, "\\x%02x", c);
        else
            gs_buf_add_char(out, (char)c);
    }
    gs_buf_add_char(out, '"');
}
