// SPDX-License-Identifier: Apache-2.0
// URLs of configurations, by the rules of Go's net/url.
#include "codec/yaml_reader.h"

#include "base/slice.h"

#include <ctype.h>

static bool escapes_are_whole(const char *url)
{
    for (const char *c = strchr(url, '%'); c; c = strchr(c + 1, '%'))
        if (!isxdigit((unsigned char)c[1]) || !isxdigit((unsigned char)c[2]))
            return false;
    return true;
}

// "", ":", ":9090"
static bool is_port(struct gs_slice s)
{
    for (size_t i = 1; i < s.len; i++)
        if (!isdigit((unsigned char)s.data[i]))
            return false;
    return !s.len || s.data[0] == ':';
}

static const char *host_error(struct gs_slice host)
{
    const char *at = host.len ? memrchr(host.data, '@', host.len) : NULL;
    if (at)
        host = gs_slice_make(at + 1, host.len - (size_t)(at + 1 - host.data));
    const char *end = host.len ? memrchr(host.data, ']', host.len) : NULL;
    if (host.len && host.data[0] == '[') {
        if (!end)
            return "missing ']' in host";
        struct gs_slice rest = gs_slice_make(end + 1, host.len - (size_t)(end + 1 - host.data));
        return is_port(rest) ? NULL : "invalid port after host";
    }
    const char *colon = host.len ? memrchr(host.data, ':', host.len) : NULL;
    if (colon && !is_port(gs_slice_make(colon, host.len - (size_t)(colon - host.data))))
        return "invalid port after host";
    for (size_t i = 0; i < host.len; i++)
        if (strchr(" <>\"\\^`{|}[]", host.data[i]))
            return "invalid character in host name";
    return NULL;
}

const char *codec_url_error(const char *url)
{
    if (gs_has_control(url))
        return "invalid control character in URL";
    const char *scheme_end = url;
    while (isalnum((unsigned char)*scheme_end) || (*scheme_end && strchr("+-.", *scheme_end)))
        scheme_end++;
    if (*url == ':')
        return "missing protocol scheme";
    bool has_scheme = *scheme_end == ':' && isalpha((unsigned char)*url);
    const char *rest = has_scheme ? scheme_end + 1 : url;
    size_t first = strcspn(rest, "/?#");
    if (!has_scheme && memchr(rest, ':', first))
        return "first path segment in URL cannot contain colon";
    if (gs_starts(rest, "//")) {
        const char *error = host_error(gs_slice_make(rest + 2, strcspn(rest + 2, "/?#")));
        if (error)
            return error;
    }
    return escapes_are_whole(rest) ? NULL : "invalid URL escape";
}
