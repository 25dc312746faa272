// SPDX-License-Identifier: Apache-2.0
// What a request's path names, by the rules of apiserver's RequestInfo, and which of the three
// metrics APIs serves it. Segments are decoded once, after the split at "/".
#include "adapter/api/path.h"

#include "adapter/metric_changes/metric_changes.h"
#include "base/mem.h"
#include "net/http/http.h"

void adapter_api_path_finish(struct adapter_api_path *p)
{
    for (size_t i = 0; i < p->n_segments; i++)
        free(p->segments[i]);
    p->n_segments = 0;
}

static struct gs_error *split(const char *raw, struct adapter_api_path *p)
{
    struct gs_slice rest = gs_slice_of(raw);
    while (rest.data) {
        struct gs_slice part = gs_slice_cut(&rest, '/');
        if (!part.len)
            continue;
        if (p->n_segments == ADAPTER_API_MAX_SEGMENTS)
            return gs_error_new(GS_EINVAL, "the path has more than %d segments",
                                ADAPTER_API_MAX_SEGMENTS);
        struct gs_error *err = http_decode_segment(part, &p->segments[p->n_segments]);
        if (err)
            return err;
        p->n_segments++;
    }
    return NULL;
}

// Parses RESOURCE[/NAME[/SUBRESOURCE]], below namespaces/NS if the path is longer.
static void read_info(struct adapter_api_path *p, char *const *v, size_t n)
{
    if (n >= 2 && gs_streq(v[0], "namespaces")) {
        p->ns = v[1];
        if (n > 2) {
            v += 2;
            n -= 2;
        }
    }
    p->resource = n > 0 ? v[0] : NULL;
    p->name = n > 1 ? v[1] : NULL;
    p->subresource = n > 2 ? v[2] : NULL;
}

static enum adapter_api_kind read_custom(struct adapter_api_path *p, char *const *v, size_t n)
{
    bool in_namespace = gs_streq(v[0], "namespaces");
    if (n == 1 && gs_streq(v[0], METRIC_CHANGES_RESOURCE))
        return ADAPTER_API_CHANGES;
    if (in_namespace && n == 3 && gs_streq(v[2], METRIC_CHANGES_RESOURCE)) {
        p->object_ns = v[1];
        return ADAPTER_API_CHANGES;
    }
    if (in_namespace && n == 5) {
        p->object_ns = v[1];
        p->object_resource = v[2];
        p->object_name = v[3];
    } else if (in_namespace ? n == 4 && gs_streq(v[2], "metrics") : n == 3) {
        p->object_resource = v[0];
        p->object_name = v[1];
    } else {
        return in_namespace && n == 3 ? ADAPTER_API_BAD_PATH : ADAPTER_API_NO_ROUTE;
    }
    p->metric = v[n - 1];
    return ADAPTER_API_METRIC;
}

static enum adapter_api_kind read_external(struct adapter_api_path *p, char *const *v, size_t n)
{
    if (n != 3 || !gs_streq(v[0], "namespaces"))
        return ADAPTER_API_NO_ROUTE;
    p->object_ns = v[1];
    p->metric = v[2];
    return ADAPTER_API_METRIC;
}

static enum adapter_api_kind read_usage(struct adapter_api_path *p, char *const *v, size_t n)
{
    bool in_namespace = n >= 3 && gs_streq(v[0], "namespaces");
    if (in_namespace) {
        p->object_ns = v[1];
        v += 2;
        n -= 2;
    }
    bool pods = gs_streq(v[0], "pods"), nodes = gs_streq(v[0], "nodes") && !in_namespace;
    if ((!pods && !nodes) || n > 2 || (pods && n == 2 && !in_namespace))
        return ADAPTER_API_NO_ROUTE;
    p->object_resource = v[0];
    p->object_name = n == 2 ? v[1] : NULL;
    return ADAPTER_API_USAGE;
}

static enum adapter_api_kind read_below_version(struct adapter_api_path *p, char *const *v,
                                                size_t n)
{
    bool v1beta1 = gs_streq(p->version, "v1beta1");
    if (gs_streq(p->group, ADAPTER_API_CUSTOM) && (v1beta1 || gs_streq(p->version, "v1beta2")))
        return n ? read_custom(p, v, n) : ADAPTER_API_LIST;
    if (gs_streq(p->group, ADAPTER_API_EXTERNAL) && v1beta1)
        return n ? read_external(p, v, n) : ADAPTER_API_LIST;
    if (gs_streq(p->group, ADAPTER_API_RESOURCE) && v1beta1)
        return n ? read_usage(p, v, n) : ADAPTER_API_LIST;
    return ADAPTER_API_OTHER;
}

struct gs_error *adapter_api_path_read(const char *raw, struct adapter_api_path *ret)
{
    *ret = (struct adapter_api_path){0};
    struct gs_error *err = split(raw, ret);
    if (err || ret->n_segments < 2 || !gs_streq(ret->segments[0], "apis"))
        return err;
    ret->group = ret->segments[1];
    ret->kind = ADAPTER_API_GROUP;
    if (ret->n_segments == 2)
        return NULL;
    ret->version = ret->segments[2];
    char *const *v = ret->segments + 3;
    size_t n = ret->n_segments - 3;
    read_info(ret, v, n);
    ret->kind = read_below_version(ret, v, n);
    return NULL;
}
