// SPDX-License-Identifier: Apache-2.0
// Rules for names and keys beyond those of kube/names.h, and helpers for errors of validation.
// Texts are those of apimachinery.
#include "local/api/registry.h"

#include "base/mem.h"
#include "kube/names.h"

static const char port_chars_text[] =
    "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
static const char config_key_text[] =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// What fits one segment of a path: names of RBAC objects.
static const char *path_name_problem(const char *name)
{
    if (strcmp(name, ".") == 0)
        return "may not be '.'";
    if (strcmp(name, "..") == 0)
        return "may not be '..'";
    if (strchr(name, '/'))
        return "may not contain '/'";
    return strchr(name, '%') ? "may not contain '%'" : NULL;
}

bool local_api_check_name(enum local_api_name_rule rule, const char *name, struct gs_buf *why)
{
    struct gs_slice s = gs_slice_of(name);
    const char *problem;

    switch (rule) {
    case LOCAL_API_NAME_LABEL:
        return kube_check_dns_label(s, why);
    case LOCAL_API_NAME_LABEL_1035:
        return kube_check_dns1035_label(s, why);
    case LOCAL_API_NAME_PATH:
        problem = path_name_problem(name);
        if (problem)
            gs_buf_add_str(why, problem);
        return !problem;
    case LOCAL_API_NAME_SUBDOMAIN:
        break;
    }
    return kube_check_dns_subdomain(s, why);
}

const char *local_api_port_name_problem(const char *name)
{
    struct gs_slice s = gs_slice_of(name);
    bool letter = false;

    if (s.len == 0)
        return "must be at least 1 character";
    if (s.len > 15)
        return "must be no more than 15 characters";
    for (size_t i = 0; i < s.len; i++) {
        if (!is_lower(s.data[i]) && !is_digit(s.data[i]) && s.data[i] != '-')
            return port_chars_text;
        letter |= is_lower(s.data[i]);
    }
    if (!letter)
        return "must contain at least one letter (a-z)";
    if (strstr(name, "--"))
        return "must not contain consecutive hyphens";
    return s.data[0] == '-' || s.data[s.len - 1] == '-' ? "must not begin or end with a hyphen"
                                                        : NULL;
}

const char *local_api_config_key_problem(const char *key)
{
    if (strlen(key) > 253)
        return "must be no more than 253 characters";
    if (strcmp(key, ".") == 0)
        return "must not be '.'";
    if (gs_starts(key, ".."))
        return "must not start with '..'";
    if (*key == '\0')
        return config_key_text;
    for (const char *c = key; *c; c++)
        if (!is_lower(*c) && !is_digit(*c) && !(*c >= 'A' && *c <= 'Z') && !strchr("-_.", *c))
            return config_key_text;
    return NULL;
}

void local_api_invalid(struct kube_field_errors *errors, const char *field, const char *value,
                       const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf quoted = {0};
    va_list ap;

    va_start(ap, fmt);
    GS_AUTO_FREE char *detail = gs_vformat(fmt, ap);
    va_end(ap);
    kube_quote(gs_slice_of(value), &quoted);
    kube_field_error(errors, "FieldValueInvalid", field, quoted.data, "%s", detail);
}

void local_api_duplicate(struct kube_field_errors *errors, const char *field, const char *value)
{
    GS_AUTO_BUF struct gs_buf quoted = {0};

    kube_quote(gs_slice_of(value), &quoted);
    kube_field_error(errors, "FieldValueDuplicate", field, quoted.data, "%s", "");
}

void local_api_required(struct kube_field_errors *errors, const char *field, const char *detail)
{
    kube_field_error(errors, "FieldValueRequired", field, NULL, "%s", detail);
}

void local_api_unsupported(struct kube_field_errors *errors, const char *field, const char *value,
                           const char *choices)
{
    GS_AUTO_BUF struct gs_buf quoted = {0};

    kube_quote(gs_slice_of(value), &quoted);
    kube_field_error(errors, "FieldValueNotSupported", field, quoted.data, "supported values: %s",
                     choices);
}

void local_api_validate_labels(const json_t *labels, const char *field,
                               struct kube_field_errors *errors)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)labels, key, value) {
        GS_AUTO_BUF struct gs_buf why = {0};
        if (!kube_check_label_key(gs_slice_of(key), &why))
            local_api_invalid(errors, field, key, "%s", why.data);
        gs_buf_clear(&why);
        if (!kube_check_label_value(gs_slice_of(json_string_value(value)), &why))
            local_api_invalid(errors, field, json_string_value(value), "%s", why.data);
    }
}
