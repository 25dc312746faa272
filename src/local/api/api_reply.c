// SPDX-License-Identifier: Apache-2.0
// Representations of objects: the Accept header is negotiated as in kube-apiserver (object, Table,
// PartialObjectMetadata), and the stored version is converted to the requested one.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/table.h"

// --- Accept ---

// One parameter of a media range: "as=Table" in "application/json;as=Table;g=meta.k8s.io;v=v1".
static struct gs_slice media_param(struct gs_slice params, const char *name)
{
    while (params.data) {
        struct gs_slice value = gs_slice_trim(gs_slice_cut(&params, ';'));
        struct gs_slice key = gs_slice_cut(&value, '=');
        if (gs_slice_eq_str(key, name))
            return value;
    }
    return (struct gs_slice){0};
}

static bool is_json_range(struct gs_slice type)
{
    return gs_slice_eq_str(type, "application/json") || gs_slice_eq_str(type, "*/*") ||
           gs_slice_eq_str(type, "application/*");
}

// True when the range can be served; then the request's form is set.
static bool take_range(struct local_api_request *r, struct gs_slice range)
{
    struct gs_slice params = range;
    struct gs_slice type = gs_slice_trim(gs_slice_cut(&params, ';'));

    if (!is_json_range(type))
        return false;
    struct gs_slice as = media_param(params, "as");
    if (as.len == 0) {
        r->form = LOCAL_API_FORM_OBJECT;
        return true;
    }
    struct gs_slice version = media_param(params, "v");
    if (!gs_slice_eq_str(media_param(params, "g"), "meta.k8s.io") ||
        !(gs_slice_eq_str(version, "v1") || gs_slice_eq_str(version, "v1beta1")))
        return false;
    if (gs_slice_eq_str(as, "Table"))
        r->form = LOCAL_API_FORM_TABLE;
    else if (gs_slice_starts(as, "PartialObjectMetadata"))
        r->form = LOCAL_API_FORM_PARTIAL;
    else
        return false;
    memcpy(r->form_version, version.data, version.len);
    r->form_version[version.len] = '\0';
    return true;
}

json_t *local_api_negotiate(struct local_api_request *r)
{
    const char *accept = http_header(r->x, "Accept");
    struct gs_slice rest = gs_slice_of(accept);
    bool only_other_types = true;

    if (!accept || !*accept)
        return NULL;
    while (rest.data) {
        struct gs_slice range = gs_slice_trim(gs_slice_cut(&rest, ','));
        if (take_range(r, range))
            return NULL;
        if (gs_slice_starts(range, "application/json"))
            only_other_types = false;
    }
    // Logs are plain text whatever the Accept header says.
    if (gs_streq(r->sub, "log"))
        return NULL;
    return kube_status_failure(406, "NotAcceptable",
                               only_other_types
                                   ? "only the following media types are accepted: application/json"
                                   : "only Table and PartialObjectMetadata of meta.k8s.io v1 and "
                                     "v1beta1 are accepted",
                               NULL);
}

// --- forms ---

json_t *local_api_to_served(const struct local_api_request *r, const json_t *stored)
{
    json_t *served = NULL;

    bool stored_first = !r->res->view_of && !r->res->custom;

    if (!r->res->from_stored || (stored_first && strcmp(r->version, r->res->versions[0]) == 0))
        return json_incref((json_t *)stored);
    GS_AUTO_ERROR struct gs_error *err = r->res->from_stored(stored, r->version, &served);
    // What was valid when it was stored always converts; the stored form is better than nothing.
    return err ? json_incref((json_t *)stored) : served;
}

static const struct local_api_table *table_of(const struct local_api_request *r)
{
    return r->res->table ? r->res->table : &local_api_table_plain;
}

json_t *local_api_render_served(const struct local_api_request *r, const json_t *stored,
                                json_t *served, bool header)
{
    if (r->form == LOCAL_API_FORM_OBJECT)
        return served;
    json_t *shown;
    if (r->form == LOCAL_API_FORM_TABLE) {
        shown = local_api_table_new(table_of(r), r->form_version, header);
        local_api_table_add(shown, table_of(r), r->form_version, stored, served, r->include_object);
        codec_json_set(shown, json_string(kube_resource_version(stored)), "metadata",
                       "resourceVersion", NULL);
    } else {
        shown = local_api_partial_metadata(served, r->form_version);
    }
    json_decref(served);
    return shown;
}

json_t *local_api_render(const struct local_api_request *r, const json_t *stored, bool header)
{
    return local_api_render_served(r, stored, local_api_to_served(r, stored), header);
}

// --- replies ---

void local_api_reply_object(const struct local_api_request *r, int code, const json_t *stored)
{
    CODEC_AUTO_JSON json_t *shown = local_api_render(r, stored, true);
    kube_reply_json(r->x, code, shown);
}

json_t *local_api_not_found(const struct local_api_request *r)
{
    GS_AUTO_BUF struct gs_buf resource = {0};

    local_api_resource_name(r->res, &resource);
    return kube_status_not_found(resource.data, r->name);
}

json_t *local_api_method_not_allowed(void)
{
    return kube_status_failure(405, "MethodNotAllowed",
                               "the server does not allow this method on the requested resource",
                               NULL);
}

json_t *local_api_error_status(struct gs_error *err)
{
    GS_AUTO_ERROR struct gs_error *owned = err;
    bool callers_fault = gs_error_code(err) == GS_EINVAL;
    GS_AUTO_FREE char *text = gs_format(
        "%s%s", callers_fault ? "" : "Internal error occurred: ", gs_error_message(owned));

    return kube_status_failure(callers_fault ? 400 : 500,
                               callers_fault ? "BadRequest" : "InternalError", text, NULL);
}

enum { MAX_WARNING = 256, MAX_WARNINGS = 4096 }; // bytes

// As the API server: a text that names what a client sent may be as long as that.
static void shorten(char *text)
{
    size_t len = MAX_WARNING;
    if (strlen(text) <= MAX_WARNING)
        return;
    while (((unsigned char)text[len] & 0xc0) == 0x80) // not within a character
        len--;
    text[len] = '\0';
}

void local_api_warning(const struct local_api_request *r, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf value = {0};
    va_list ap;

    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    shorten(text);
    gs_buf_add_str(&value, "299 - \"");
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            gs_buf_add_char(&value, '\\');
        gs_buf_add_char(&value, (char)((unsigned char)*c < 0x20 ? ' ' : *c));
    }
    gs_buf_add_char(&value, '"');
    if (http_reply_headers_len(r->x) + value.len <= MAX_WARNINGS)
        http_add_header(r->x, "Warning", value.data);
}
