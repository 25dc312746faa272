// SPDX-License-Identifier: Apache-2.0
// The sync period of one object, by its annotation: with the field of KEP-6003
// (spec.behavior.syncPeriodSeconds), which no release of Kubernetes has, or as a duration.
#include "hpa_controller/controller_private.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/slice.h"
#include "kube/object.h"

#define MOST_SECONDS 3600

static struct gs_error *wrong(const char *annotation, const char *text, const char *want)
{
    return gs_error_new(GS_EINVAL, "annotation %s: \"%s\": want %s", annotation, text, want);
}

static struct gs_error *read_duration(const char *text, int64_t *ret_ms)
{
    int64_t ns = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_duration(gs_slice_of(text), &ns);
    if (err || ns < GS_NS_PER_SEC || ns > MOST_SECONDS * GS_NS_PER_SEC)
        return wrong(HPA_SYNC_PERIOD_ANNOTATION, text, "a duration from 1s to 1h");
    *ret_ms = ns / GS_NS_PER_MS;
    return NULL;
}

static struct gs_error *read_seconds(const char *text, int64_t *ret_ms)
{
    int64_t seconds = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(gs_slice_of(text), 1, MOST_SECONDS, &seconds);
    if (err)
        return wrong(HPA_SYNC_SECONDS_ANNOTATION, text, "a whole number from 1 to 3600");
    *ret_ms = seconds * 1000;
    return NULL;
}

struct gs_error *hpa_sync_period(const json_t *object, int64_t *ret_ms)
{
    const char *seconds = kube_annotation(object, HPA_SYNC_SECONDS_ANNOTATION);
    const char *duration = kube_annotation(object, HPA_SYNC_PERIOD_ANNOTATION);
    if (seconds && duration)
        return gs_error_new(GS_EINVAL, "annotations " HPA_SYNC_SECONDS_ANNOTATION
                                       " and " HPA_SYNC_PERIOD_ANNOTATION ": want one of them");
    if (seconds)
        return read_seconds(seconds, ret_ms);
    return duration ? read_duration(duration, ret_ms) : NULL;
}
