// SPDX-License-Identifier: Apache-2.0
// The query for the series of pods. Their names are DNS names, so that they need no quoting.
#include "metrics/pod_series.h"

#include <string.h>

enum { MAX_PODS = 20 }; // the pods of a workload have the same series

static bool is_dns_name(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(s);
}

bool metrics_pod_series_query(const char *ns, const char *const *pods, size_t n, struct gs_buf *out)
{
    struct gs_buf list = {0};
    for (size_t i = 0, added = 0; i < n && added < MAX_PODS; i++) {
        if (!is_dns_name(pods[i]))
            continue;
        gs_buf_addf(&list, "%s%s", added++ ? "|" : "", pods[i]);
    }
    bool ok = list.len && is_dns_name(ns);
    // Dots are written as they are: a name that differs only there is no other pod of a workload.
    if (ok)
        gs_buf_addf(out,
                    "up{namespace=\"%s\",pod=~\"%s\"} or count by (__name__) "
                    "({__name__!=\"up\",namespace=\"%s\",pod=~\"%s\"})",
                    ns, list.data, ns, list.data);
    gs_buf_finish(&list);
    return ok;
}
