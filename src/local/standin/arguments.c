// SPDX-License-Identifier: Apache-2.0
// The command line of a container, as programs in Go read theirs: flags with one dash or two, and
// the value behind "=" or as the next word.
#include "local/standin/standin_private.h"

#include "base/slice.h"
#include "kube/object.h"

const char *standin_flag_end(const char *arg, const char *name)
{
    size_t len = strlen(name);
    if (!arg || *arg != '-')
        return NULL;
    arg += arg[1] == '-' ? 2 : 1;
    return strncmp(arg, name, len) == 0 && (arg[len] == '=' || !arg[len]) ? arg + len : NULL;
}

static const char *arg_at(const struct standin_session *s, size_t i)
{
    return json_string_value(json_array_get(s->args, i));
}

// "=VALUE" or "" of the last flag of this name; *ret_next: the word behind it. NULL: not given.
static const char *find_flag(const struct standin_session *s, const char *name,
                             const char **ret_next)
{
    const char *found = NULL;
    for (size_t i = 0; i < json_array_size(s->args); i++) {
        const char *at = standin_flag_end(arg_at(s, i), name);
        if (!at)
            continue;
        found = at;
        *ret_next = arg_at(s, i + 1);
    }
    return found;
}

const char *standin_flag(const struct standin_session *s, const char *name)
{
    const char *next = NULL, *found = find_flag(s, name, &next);
    if (!found)
        return NULL;
    return *found == '=' ? found + 1 : next;
}

const char *standin_flag_nth(const struct standin_session *s, const char *name, size_t n)
{
    for (size_t i = 0; i < json_array_size(s->args); i++) {
        const char *at = standin_flag_end(arg_at(s, i), name);
        if (at && n-- == 0)
            return *at == '=' ? at + 1 : arg_at(s, i + 1);
    }
    return NULL;
}

bool standin_flag_bool(const struct standin_session *s, const char *name, bool fallback)
{
    const char *next = NULL, *found = find_flag(s, name, &next);
    if (!found)
        return fallback;
    return *found != '=' || gs_streq(found, "=true") || gs_streq(found, "=1");
}

const char *standin_word(const struct standin_session *s)
{
    const char *first = arg_at(s, 0);
    if (!first || *first == '-')
        return "";
    const char *slash = strrchr(first, '/');
    return slash ? slash + 1 : first;
}

const char *standin_file(const struct standin_session *s, const char *flag)
{
    return codec_json_str(s->hello, "files", flag, NULL);
}

const char *standin_env(const struct standin_session *s, const char *name)
{
    const char *value = codec_json_str(s->hello, "env", name, NULL);
    return value ? value : "";
}

const char *standin_namespace(const struct standin_session *s)
{
    const char *ns = kube_namespace(s->pod);
    return ns ? ns : "default";
}

bool standin_is_absent(const struct standin_session *s, const char *path)
{
    return codec_json_has_string(json_object_get(s->hello, "absent"), path);
}
