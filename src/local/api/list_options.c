// SPDX-License-Identifier: Apache-2.0
// The parameters of lists and watches: which combinations are allowed, and what a watch starts
// with. Source: the validation of ListOptions in apimachinery.
#include "base/mem.h"
#include "base/num.h"
#include "local/api/api_private.h"

#include <inttypes.h>

#define NOT_OLDER "NotOlderThan"

bool local_api_query_bool(const struct http_exchange *x, const char *name)
{
    const char *v = http_query(x, name);
    return v && strcmp(v, "0") != 0 && strcasecmp(v, "false") != 0;
}

static const char *given(const struct local_api_request *r, const char *name)
{
    const char *v = http_query(r->x, name);
    return v && *v ? v : NULL;
}

// --- combinations ---

static void forbid(struct kube_field_errors *errors, const char *field, const char *why)
{
    kube_field_error(errors, "FieldValueForbidden", field, NULL, "%s", why);
}

static void check_watch_match(const struct local_api_request *r, struct kube_field_errors *errors)
{
    const char *match = given(r, "resourceVersionMatch");
    bool initial = http_query(r->x, "sendInitialEvents") != NULL;

    if (initial && !gs_streq(match, NOT_OLDER))
        forbid(errors, "resourceVersionMatch",
               "sendInitialEvents requires setting resourceVersionMatch to " NOT_OLDER);
    if (!match)
        return;
    if (!initial)
        forbid(errors, "resourceVersionMatch",
               "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    if (strcmp(match, NOT_OLDER) != 0)
        local_api_unsupported(errors, "resourceVersionMatch", match, "\"" NOT_OLDER "\"");
    if (given(r, "continue"))
        forbid(errors, "resourceVersionMatch",
               "resourceVersionMatch is forbidden when continue is provided");
}

static void check_list_match(const struct local_api_request *r, struct kube_field_errors *errors)
{
    const char *match = given(r, "resourceVersionMatch"), *rv = given(r, "resourceVersion");

    if (match && !rv)
        forbid(errors, "resourceVersionMatch",
               "resourceVersionMatch is forbidden unless resourceVersion is provided");
    if (match && given(r, "continue"))
        forbid(errors, "resourceVersionMatch",
               "resourceVersionMatch is forbidden when continue is provided");
    if (match && strcmp(match, "Exact") != 0 && strcmp(match, NOT_OLDER) != 0)
        local_api_unsupported(errors, "resourceVersionMatch", match,
                              "\"\", \"Exact\", \"" NOT_OLDER "\"");
    if (gs_streq(match, "Exact") && gs_streq(rv, "0"))
        forbid(errors, "resourceVersionMatch",
               "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    if (http_query(r->x, "sendInitialEvents"))
        forbid(errors, "sendInitialEvents", "sendInitialEvents is forbidden for list");
}

static json_t *check_match(const struct local_api_request *r,
                           void (*check)(const struct local_api_request *r,
                                         struct kube_field_errors *errors))
{
    struct kube_field_errors errors = {0};

    check(r, &errors);
    json_t *status =
        errors.len ? kube_status_invalid("ListOptions.meta.k8s.io", "", &errors) : NULL;
    kube_field_errors_finish(&errors);
    return status;
}

// --- versions ---

static json_t *read_number(const struct local_api_request *r, const char *name, int64_t max,
                           uint64_t *ret)
{
    const char *text = given(r, name);
    struct gs_error *err = text ? gs_parse_u64(gs_slice_of(text), (uint64_t)max, ret) : NULL;

    if (!err)
        return NULL;
    GS_AUTO_FREE char *why = gs_format("%s must be a number: %s", name, gs_error_message(err));
    gs_error_free(err);
    return kube_status_failure(400, "BadRequest", why, NULL);
}

// Clients find the cause in the details, and try again.
static json_t *check_not_too_large(const struct local_api_request *r, uint64_t rv)
{
    uint64_t now = local_api_store_rv(r->api->store);

    if (rv <= now)
        return NULL;
    GS_AUTO_FREE char *why =
        gs_format("Timeout: Too large resource version: %" PRIu64 ", current: %" PRIu64, rv, now);
    return kube_status_failure(504, "Timeout", why,
                               json_pack("{s:[{s:s, s:s}], s:i}", "causes", "reason",
                                         "ResourceVersionTooLarge", "message",
                                         "Too large resource version", "retryAfterSeconds", 1));
}

json_t *local_api_check_list_options(const struct local_api_request *r)
{
    uint64_t rv = 0;
    json_t *status = check_match(r, check_list_match);

    if (!status)
        status = read_number(r, "resourceVersion", INT64_MAX, &rv);
    if (!status)
        status = check_not_too_large(r, rv);
    if (!status && rv && rv < local_api_store_rv(r->api->store) &&
        gs_streq(http_query(r->x, "resourceVersionMatch"), "Exact"))
        status = kube_status_gone("The resourceVersion for the provided list is too old.");
    return status;
}

json_t *local_api_read_watch_options(const struct local_api_request *r,
                                     struct local_api_watch_options *ret)
{
    struct local_api_watch_options o = {.bookmarks =
                                            local_api_query_bool(r->x, "allowWatchBookmarks")};
    uint64_t seconds = 0;
    json_t *status = check_match(r, check_watch_match);

    if (!status)
        status = read_number(r, "resourceVersion", INT64_MAX, &o.rv);
    if (!status)
        status = read_number(r, "timeoutSeconds", INT32_MAX, &seconds);
    if (status)
        return status;
    o.timeout_s = (int64_t)seconds;
    // Without the parameter, a watch from no version begins with the existing objects, too.
    o.initial = http_query(r->x, "sendInitialEvents")
                    ? local_api_query_bool(r->x, "sendInitialEvents")
                    : o.rv == 0;
    if (o.initial)
        status = check_not_too_large(r, o.rv);
    else if (o.rv == 0)
        o.rv = local_api_store_rv(r->api->store);
    if (!status)
        *ret = o;
    return status;
}
