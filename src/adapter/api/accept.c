// SPDX-License-Identifier: Apache-2.0
// Content negotiation. The adapter writes JSON, and tables for metrics.k8s.io. Clients that prefer
// protobuf (the autoscaler, kubectl top) accept JSON as well.
#include "adapter/api/api_private.h"

#include <string.h>
#include <strings.h>

// Matches "application/json", "application/*" and "*/*" with any parameters.
static bool is_json(struct gs_slice type)
{
    struct gs_slice bare = gs_slice_cut(&type, ';');
    bare = gs_slice_trim(bare);
    static const char *const good[] = {"application/json", "application/*", "*/*"};
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++)
        if (gs_slice_is_word(bare, good[i]))
            return true;
    return bare.len == 0;
}

static struct gs_slice parameter(struct gs_slice type, const char *name)
{
    size_t n = strlen(name);
    while (type.data) {
        struct gs_slice p = gs_slice_trim(gs_slice_cut(&type, ';'));
        if (p.len > n && p.data[n] == '=' && memcmp(p.data, name, n) == 0)
            return gs_slice_make(p.data + n + 1, p.len - n - 1);
    }
    return GS_SLICE("");
}

// Only objects of metrics.k8s.io have representations other than plain JSON. A request for
// aggregated discovery gets plain discovery, which the aggregator accepts.
static enum adapter_api_form form_of_type(struct gs_slice type, const struct adapter_api_path *p,
                                          const char **ret_version)
{
    struct gs_slice as = parameter(type, "as"), v = parameter(type, "v");
    if (!is_json(type))
        return ADAPTER_API_NOT_ACCEPTABLE;
    if (!as.len || gs_slice_eq_str(as, "APIGroupDiscoveryList"))
        return ADAPTER_API_PLAIN;
    if (p->kind != ADAPTER_API_USAGE || !gs_slice_eq_str(parameter(type, "g"), "meta.k8s.io"))
        return ADAPTER_API_NOT_ACCEPTABLE;
    if (gs_slice_eq_str(v, "v1"))
        *ret_version = "meta.k8s.io/v1";
    else if (gs_slice_eq_str(v, "v1beta1"))
        *ret_version = "meta.k8s.io/v1beta1";
    else
        return ADAPTER_API_NOT_ACCEPTABLE;
    return gs_slice_eq_str(as, "Table")                       ? ADAPTER_API_TABLE
           : gs_slice_eq_str(as, "PartialObjectMetadata")     ? ADAPTER_API_PARTIAL
           : gs_slice_eq_str(as, "PartialObjectMetadataList") ? ADAPTER_API_PARTIAL_LIST
                                                              : ADAPTER_API_NOT_ACCEPTABLE;
}

enum adapter_api_form adapter_api_form_of(const struct http_exchange *x,
                                          const struct adapter_api_path *p,
                                          const char **ret_version)
{
    const char *accept = http_header(x, "Accept");
    struct gs_slice rest = gs_slice_of(accept ? accept : "");
    enum adapter_api_form form = ADAPTER_API_NOT_ACCEPTABLE;
    while (rest.data && form == ADAPTER_API_NOT_ACCEPTABLE)
        form = form_of_type(gs_slice_cut(&rest, ','), p, ret_version);
    return form;
}

bool adapter_api_accepts(const struct http_exchange *x, const struct adapter_api_path *p)
{
    const char *version;
    return adapter_api_form_of(x, p, &version) != ADAPTER_API_NOT_ACCEPTABLE;
}
