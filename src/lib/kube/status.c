// SPDX-License-Identifier: Apache-2.0
// Status objects for failures, with the messages and details of apimachinery's errors and field
// packages. Causes are limited in number and bytes, since an object can have thousands of errors.
#include "kube/status.h"

#include "base/mem.h"
#include "kube/names.h"

json_t *kube_status_failure(int code, const char *reason, const char *message, json_t *details)
{
    json_t *s = json_object();
    json_object_set_new(s, "kind", json_string("Status"));
    json_object_set_new(s, "apiVersion", json_string("v1"));
    json_object_set_new(s, "metadata", json_object());
    json_object_set_new(s, "status", json_string("Failure"));
    codec_json_set_str(s, "message", message);
    codec_json_set_str(s, "reason", reason);
    if (details)
        json_object_set_new(s, "details", details);
    json_object_set_new(s, "code", json_integer(code));
    return s;
}

// {name, group, kind} of "deployments.apps" or "Deployment.apps".
static json_t *details_of(const char *dotted, const char *name)
{
    const char *dot = strchr(dotted, '.');
    json_t *details = json_object();
    if (name && *name)
        codec_json_set_str(details, "name", name);
    if (dot && dot[1])
        codec_json_set_str(details, "group", dot + 1);
    json_object_set_new(details, "kind",
                        json_stringn(dotted, dot ? (size_t)(dot - dotted) : strlen(dotted)));
    return details;
}

static json_t *status_details(int code, const char *reason, const char *before,
                              const char *resource, const char *name, const char *after)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_addf(&text, "%s%s ", before, resource);
    kube_quote(gs_slice_of(name), &text);
    gs_buf_add_str(&text, after);
    return kube_status_failure(code, reason, text.data, details_of(resource, name));
}

json_t *kube_status_not_found(const char *resource, const char *name)
{
    return status_details(404, "NotFound", "", resource, name, " not found");
}

json_t *kube_status_already_exists(const char *resource, const char *name)
{
    return status_details(409, "AlreadyExists", "", resource, name, " already exists");
}

json_t *kube_status_conflict(const char *resource, const char *name, const char *why)
{
    GS_AUTO_FREE char *after =
        gs_format(": %s", why ? why
                              : "the object has been modified; please apply your changes to the "
                                "latest version and try again");
    return status_details(409, "Conflict", "Operation cannot be fulfilled on ", resource, name,
                          after);
}

json_t *kube_status_gone(const char *message)
{
    return kube_status_failure(410, "Expired", message, NULL);
}

static const struct {
    const char *type, *text;
    bool with_value;
} error_types[] = {
    {"FieldValueInvalid", "Invalid value", true},
    {"FieldValueTypeInvalid", "Invalid value", true},
    {"FieldValueNotSupported", "Unsupported value", true},
    {"FieldValueNotFound", "Not found", true},
    {"FieldValueDuplicate", "Duplicate value", true},
    {"FieldValueTooMany", "Too many", true},
    {"FieldValueTooFew", "Too few", true},
    {"FieldValueRequired", "Required value", false},
    {"FieldValueForbidden", "Forbidden", false},
    {"FieldValueTooLong", "Too long", false},
    {"FieldValueTooShort", "Too short", false},
    {"InternalError", "Internal error", false},
};

static bool has_cause(const json_t *causes, const char *field, const char *message)
{
    size_t i;
    json_t *cause;
    json_array_foreach (causes, i, cause)
        if (gs_streq(json_string_value(json_object_get(cause, "field")), field) &&
            gs_streq(json_string_value(json_object_get(cause, "message")), message))
            return true;
    return false;
}

bool kube_field_errors_full(const struct kube_field_errors *e)
{
    return e->len >= KUBE_MAX_FIELD_ERRORS || e->bytes >= KUBE_MAX_FIELD_ERRORS_BYTES;
}

void kube_field_error(struct kube_field_errors *e, const char *type, const char *field,
                      const char *value, const char *fmt, ...)
{
    const char *text = "Invalid value";
    bool with_value = true;
    bool full = kube_field_errors_full(e);
    e->len++;
    if (full)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(error_types); i++) {
        if (gs_streq(type, error_types[i].type)) {
            text = error_types[i].text;
            with_value = error_types[i].with_value;
        }
    }
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *detail = gs_vformat(fmt, ap);
    va_end(ap);
    bool shown = with_value && value;
    GS_AUTO_FREE char *message = gs_format("%s%s%s%s%s", text, shown ? ": " : "",
                                           shown ? value : "", *detail ? ": " : "", detail);

    if (!has_cause(e->causes, field, message)) {
        gs_buf_addf(&e->text, "%s%s: %s", e->distinct ? ", " : "", field, message);
        e->distinct++;
    }
    e->bytes += strlen(field) + strlen(message);
    if (!e->causes)
        e->causes = json_array();
    json_t *cause = json_object();
    codec_json_set_str(cause, "reason", type);
    codec_json_set_str(cause, "message", message);
    codec_json_set_str(cause, "field", field);
    json_array_append_new(e->causes, cause);
}

void kube_field_errors_finish(struct kube_field_errors *e)
{
    json_decref(e->causes);
    gs_buf_finish(&e->text);
    *e = (struct kube_field_errors){0};
}

json_t *kube_status_invalid(const char *kind_dot_group, const char *name,
                            const struct kube_field_errors *e)
{
    GS_AUTO_BUF struct gs_buf after = {0};
    gs_buf_add_str(&after, " is invalid");
    if (e->distinct)
        gs_buf_addf(&after, e->distinct > 1 ? ": [%s]" : ": %s", e->text.data);
    json_t *status = status_details(422, "Invalid", "", kind_dot_group, name, after.data);
    if (e->causes)
        json_object_set(json_object_get(status, "details"), "causes", e->causes);
    return status;
}
