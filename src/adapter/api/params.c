// SPDX-License-Identifier: Apache-2.0
// Checks methods and query parameters, as the generic API server does before it calls a handler.
#include "adapter/api/api_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "kube/names.h"
#include "kube/status.h"

enum { LONGEST_TIMEOUT_MS = 60000 };

// --- methods ---

static void refuse_method(struct adapter_api_call *c)
{
    kube_reply_status(c->x,
                      kube_status_failure(405, "MethodNotAllowed",
                                          "the server does not allow this method on the requested "
                                          "resource",
                                          json_object()));
}

static bool wants_watch(const struct http_exchange *x)
{
    const char *watch = http_query(x, "watch");
    return watch && !gs_streq(watch, "false") && !gs_streq(watch, "0");
}

static void refuse_watch(struct adapter_api_call *c)
{
    const struct adapter_api_path *p = &c->path;
    const char *kind = p->kind == ADAPTER_API_USAGE ? p->object_resource : "*";
    GS_AUTO_FREE char *text =
        gs_format("watch is not supported on resources of kind \"%s.%s\"", kind, p->group);
    kube_reply_status(
        c->x, kube_status_failure(405, "MethodNotAllowed", text,
                                  json_pack("{s:s, s:s}", "group", p->group, "kind", kind)));
}

// --- parameters of lists ---

static bool is_list(const struct adapter_api_path *p)
{
    return p->kind == ADAPTER_API_METRIC || (p->kind == ADAPTER_API_USAGE && !p->object_name);
}

static void refuse_parameter(struct adapter_api_call *c, struct gs_error *err)
{
    kube_reply_failure(c->x, 400, "BadRequest", "%s", gs_error_message(err));
    gs_error_free(err);
}

static struct gs_error *check_number(const struct http_exchange *x, const char *name)
{
    const char *text = http_query(x, name);
    int64_t n;
    struct gs_error *err =
        text && *text ? gs_parse_i64(gs_slice_of(text), INT64_MIN, INT64_MAX, &n) : NULL;
    if (!err)
        return NULL;
    gs_error_free(err);
    return gs_error_new(GS_EINVAL, "strconv.ParseInt: parsing \"%s\": invalid syntax", text);
}

// For metrics.k8s.io, whose objects support these two fields.
static struct gs_error *check_fields(const struct kube_selector *s)
{
    for (size_t i = 0; i < s->len; i++)
        if (!gs_streq(s->items[i].key, "metadata.name") &&
            !gs_streq(s->items[i].key, "metadata.namespace"))
            return gs_error_new(GS_EINVAL,
                                "\"%s\" is not a known field selector: only \"metadata.name\", "
                                "\"metadata.namespace\"",
                                s->items[i].key);
    return NULL;
}

static struct gs_error *check_selectors(const struct adapter_api_call *c)
{
    struct kube_selector fields = {0}, labels = {0};
    bool usage = c->path.kind == ADAPTER_API_USAGE;
    struct gs_error *err = kube_field_selector_parse(http_query(c->x, "fieldSelector"), &fields);
    if (!err && usage)
        err = kube_selector_parse(http_query(c->x, "labelSelector"), &labels);
    if (!err && usage)
        err = check_fields(&fields);
    kube_selector_finish(&fields);
    kube_selector_finish(&labels);
    return err;
}

// Validates as Kubernetes validates ListOptions. Lists of custom metrics are not validated.
static bool refuse_options(struct adapter_api_call *c)
{
    static const char field[] = "resourceVersionMatch";
    const char *match = http_query(c->x, field), *version = http_query(c->x, "resourceVersion");
    const char *initial = http_query(c->x, "sendInitialEvents");
    struct kube_field_errors e = {0};
    if (match && *match && (!version || !*version))
        kube_field_error(&e, "FieldValueForbidden", field, NULL,
                         "resourceVersionMatch is forbidden unless resourceVersion is provided");
    if (match && *match && !gs_streq(match, "Exact") && !gs_streq(match, "NotOlderThan")) {
        GS_AUTO_BUF struct gs_buf value = {0};
        kube_quote(gs_slice_of(match), &value);
        kube_field_error(&e, "FieldValueNotSupported", field, value.data,
                         "supported values: \"Exact\", \"NotOlderThan\", \"\"");
    }
    if (initial && *initial)
        kube_field_error(&e, "FieldValueForbidden", "sendInitialEvents", NULL,
                         "sendInitialEvents is forbidden for list");
    bool wrong = e.len > 0;
    if (wrong)
        kube_reply_status(c->x, kube_status_invalid("ListOptions.meta.k8s.io", "", &e));
    kube_field_errors_finish(&e);
    return wrong;
}

static bool refuse_list(struct adapter_api_call *c)
{
    struct gs_error *err = check_number(c->x, "limit");
    if (!err)
        err = check_number(c->x, "timeoutSeconds");
    if (!err)
        err = check_selectors(c);
    if (err) {
        refuse_parameter(c, err);
        return true;
    }
    return !gs_streq(c->path.group, ADAPTER_API_CUSTOM) && refuse_options(c);
}

// --- the timeout of a request ---

void adapter_api_end_timeout(struct adapter_api_call *c)
{
    gs_timer_free(GS_TAKE(c->timeout));
}

static void refuse_late(struct adapter_api_call *c)
{
    kube_reply_status(c->x, kube_status_failure(504, "Timeout",
                                                "Timeout: request did not complete within the "
                                                "allotted timeout",
                                                json_object()));
}

static void on_timeout(void *arg)
{
    struct adapter_api_call *c = arg;
    refuse_late(c);
    adapter_api_call_end(c);
}

// True: the request was answered.
static bool start_timeout(struct adapter_api_call *c)
{
    const char *text = http_query(c->x, "timeout");
    int64_t ns = 0;
    struct gs_error *err = text && *text ? gs_parse_duration(gs_slice_of(text), &ns) : NULL;
    if (err) {
        gs_error_free(err);
        kube_reply_failure(c->x, 400, "BadRequest",
                           "invalid timeout specified in the request URL - time: invalid duration "
                           "\"%s\"",
                           text);
        return true;
    }
    if (ns <= 0 || !c->a->o.loop)
        return false;
    if (ns < GS_NS_PER_MS) {
        refuse_late(c);
        return true;
    }
    int64_t ms = ns / GS_NS_PER_MS;
    c->timeout = gs_timer_new(c->a->o.loop, c);
    gs_timer_start(c->timeout, on_timeout,
                   (uint64_t)(ms < LONGEST_TIMEOUT_MS ? ms : LONGEST_TIMEOUT_MS));
    return false;
}

// --- checks ---

static bool is_health(const char *path)
{
    static const char *const all[] = {"/healthz", "/livez", "/readyz"};
    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++)
        if (gs_starts(path, all[i]))
            return true;
    return false;
}

bool adapter_api_refuse_request(struct adapter_api_call *c)
{
    if (start_timeout(c))
        return true;
    if (!gs_streq(http_method(c->x), "GET") && !is_health(http_path(c->x))) {
        refuse_method(c);
        return true;
    }
    return false;
}

bool adapter_api_refuse_list(struct adapter_api_call *c)
{
    const struct adapter_api_path *p = &c->path;
    if (!is_list(p))
        return false;
    if (wants_watch(c->x) && !gs_streq(p->group, ADAPTER_API_CUSTOM)) {
        refuse_watch(c);
        return true;
    }
    return refuse_list(c);
}
