// SPDX-License-Identifier: Apache-2.0
// The annotation with the maxReplicas that an autoscaler had before a budget lowered it.
#include "budget/budget.h"

#include "base/num.h"
#include "base/slice.h"
#include "kube/object.h"

#include <string.h>

static bool read_number(struct gs_slice *rest, const char *key, int32_t *ret)
{
    struct gs_slice part = gs_slice_cut(rest, ','), name = gs_slice_cut(&part, '=');
    int64_t n = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(part, 1, INT32_MAX, &n);
    *ret = (int32_t)n;
    return !err && gs_slice_eq_str(name, key);
}

// "by=NAMESPACE", or nothing: older releases did not write it.
static bool read_by(struct gs_slice rest, char ret[BUDGET_RECORD_BY])
{
    struct gs_slice name = gs_slice_cut(&rest, '=');
    *ret = 0;
    if (!name.len)
        return true;
    if (!gs_slice_eq_str(name, "by") || !rest.len || rest.len >= BUDGET_RECORD_BY)
        return false;
    memcpy(ret, rest.data, rest.len);
    ret[rest.len] = 0;
    return true;
}

static bool read_record(const json_t *hpa, struct budget_record *ret)
{
    const char *text = kube_annotation(hpa, BUDGET_RECORD_ANNOTATION);
    struct gs_slice rest = text ? gs_slice_of(text) : (struct gs_slice){0};
    return text && read_number(&rest, "maxReplicas", &ret->had) &&
           read_number(&rest, "set", &ret->set) && read_by(rest, ret->by);
}

bool budget_record_of(const json_t *hpa, struct budget_record *ret)
{
    return read_record(hpa, ret) && codec_json_int(hpa, 0, "spec", "maxReplicas", NULL) == ret->set;
}

bool budget_record_of_others(const json_t *hpa, const char *ns)
{
    struct budget_record r;
    return read_record(hpa, &r) && *r.by && !gs_streq(r.by, ns);
}
