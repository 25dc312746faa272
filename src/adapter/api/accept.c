// SPDX-License-Identifier: Apache-2.0
// Which form of an answer a client takes. There is JSON, and tables of metrics.k8s.io; clients that
// ask for protobuf first (the autoscaler, kubectl top) also take JSON.
#include "adapter/api/api_private.h"

#include <strings.h>

// "application/json", "application/*", "*/*", with any parameters.
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

bool api_accepts_json(const struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");
    struct gs_slice rest = gs_slice_of(accept ? accept : "");
    while (rest.data)
        if (is_json(gs_slice_cut(&rest, ',')))
            return true;
    return false;
}

static bool has_parameter(struct gs_slice type, const char *want)
{
    while (type.data)
        if (gs_slice_eq_str(gs_slice_trim(gs_slice_cut(&type, ';')), want))
            return true;
    return false;
}

// The first form that is known counts, as clients write what they like best first.
const char *api_wants_table(const struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");
    struct gs_slice rest = gs_slice_of(accept ? accept : "");
    while (rest.data) {
        struct gs_slice type = gs_slice_cut(&rest, ',');
        bool table = has_parameter(type, "as=Table") && has_parameter(type, "g=meta.k8s.io");
        if (!is_json(type))
            continue;
        if (table && has_parameter(type, "v=v1"))
            return "meta.k8s.io/v1";
        if (table && has_parameter(type, "v=v1beta1"))
            return "meta.k8s.io/v1beta1";
        if (!memchr(type.data, '=', type.len))
            return NULL;
    }
    return NULL;
}
