// SPDX-License-Identifier: Apache-2.0
// Requests and limits of a container.
#include "base/mem.h"
#include "kube/names.h"
#include "kube/quantity.h"
#include "local/api/registry.h"

#define MILLI 1000

static bool is_standard(const char *name)
{
    return strcmp(name, "cpu") == 0 || strcmp(name, "memory") == 0 ||
           strcmp(name, "ephemeral-storage") == 0 || gs_starts(name, "hugepages-");
}

// Devices and the like: whole numbers, never overcommitted.
static bool is_extended(const char *name)
{
    return strchr(name, '/') && !strstr(name, "kubernetes.io/");
}

// Absent or not a quantity: false.
static bool milli_of(const json_t *map, const char *name, int64_t *ret)
{
    const char *text = codec_json_str(map, name, NULL);

    if (!text)
        return false;
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(text), ret);
    return !err;
}

static void check_resource_name(const char *name, const char *field,
                                struct kube_field_errors *errors)
{
    GS_AUTO_BUF struct gs_buf why = {0};

    if (!kube_check_label_key(gs_slice_of(name), &why))
        local_api_invalid(errors, field, name, "%s", why.data);
    else if (!strchr(name, '/') && !is_standard(name))
        local_api_invalid(errors, field, name,
                          "must be a standard resource type or fully qualified");
}

static void check_amounts(const json_t *map, const char *path, struct kube_field_errors *errors)
{
    const char *name;
    json_t *value;
    int64_t milli;

    json_object_foreach ((json_t *)map, name, value) {
        GS_AUTO_FREE char *field = gs_format("%s.%s", path, name);
        check_resource_name(name, field, errors);
        if (!milli_of(map, name, &milli))
            continue;
        if (milli < 0)
            local_api_invalid(errors, field, json_string_value(value), LOCAL_API_NOT_NEGATIVE);
        else if (is_extended(name) && milli % MILLI != 0)
            local_api_invalid(errors, field, json_string_value(value), "must be an integer");
    }
}

static void check_against_limit(const json_t *requests, const json_t *limits, const char *name,
                                const char *path, struct kube_field_errors *errors)
{
    GS_AUTO_FREE char *field = gs_format("%s.requests", path);
    const char *shown = codec_json_str(requests, name, NULL);
    int64_t request, limit;

    if (!milli_of(requests, name, &request))
        return;
    if (!milli_of(limits, name, &limit)) {
        GS_AUTO_FREE char *limit_field = gs_format("%s.limits", path);
        if (is_extended(name))
            local_api_required(errors, limit_field,
                               "Limit must be set for non overcommitable resources");
    } else if (is_extended(name) && request != limit) {
        local_api_invalid(errors, field, shown, "must be equal to %s limit of %s", name,
                          codec_json_str(limits, name, NULL));
    } else if (request > limit) {
        local_api_invalid(errors, field, shown, "must be less than or equal to %s limit of %s",
                          name, codec_json_str(limits, name, NULL));
    }
}

void local_api_validate_resources(const json_t *resources, const char *path,
                                  struct kube_field_errors *errors)
{
    const json_t *limits = json_object_get(resources, "limits");
    const json_t *requests = json_object_get(resources, "requests");
    GS_AUTO_FREE char *limits_path = gs_format("%s.limits", path);
    GS_AUTO_FREE char *requests_path = gs_format("%s.requests", path);
    const char *name;
    json_t *value;

    check_amounts(limits, limits_path, errors);
    check_amounts(requests, requests_path, errors);
    json_object_foreach ((json_t *)requests, name, value)
        check_against_limit(requests, limits, name, path, errors);
}
