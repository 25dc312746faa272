// SPDX-License-Identifier: Apache-2.0
// The series that the ledger reads, as PromQL.
#include "kube/names.h"
#include "ledger/ledger_private.h"

// The mean of the last window of the series that exist now; the last sample if it is older, because
// a target is scraped more rarely.
static char *mean_of(const char *selector, int64_t window_s)
{
    return gs_format("avg_over_time(%s[%llds]) and %s or %s", selector, (long long)window_s,
                     selector, selector);
}

char *ledger_owner_label(const char *owner)
{
    char *name = gs_format("label_%s", owner);
    for (char *c = name; *c; c++)
        if (!((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z')))
            *c = '_';
    return name;
}

struct gs_error *ledger_check_owner(const char *owner)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    if (kube_check_label_key(gs_slice_of(owner), &why))
        return NULL;
    return gs_error_new(GS_EINVAL, "\"%s\" is not the name of a label: %s", owner, why.data);
}

char *ledger_query(enum ledger_series s, const char *owner, int64_t window_s)
{
    GS_AUTO_FREE char *label = ledger_owner_label(owner);
    switch (s) {
    case LEDGER_UTIL:
        return mean_of("DCGM_FI_DEV_GPU_UTIL", window_s);
    case LEDGER_ACTIVE:
        return mean_of("DCGM_FI_PROF_GR_ENGINE_ACTIVE", window_s);
    case LEDGER_PRESENT:
        return gs_strdup("DCGM_FI_DEV_FB_USED");
    case LEDGER_PROCESS:
        return mean_of("DCGM_CUSTOM_PROCESS_SM_UTIL{PodName!=\"\"}", window_s);
    case LEDGER_HOLDER:
        return gs_strdup("DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED{PodName!=\"\"} or "
                         "DCGM_CUSTOM_CONTAINER_CP_ALLOCATED{PodName!=\"\"}");
    case LEDGER_ORIGIN:
        return gs_strdup("gpuscale_exporter_pod_attribution{value=\"utilization\"}");
    case LEDGER_TARGET:
        return gs_strdup("up{pod!=\"\"}");
    case LEDGER_TARGET_POD:
        return gs_strdup(
            "kube_pod_info and on (namespace, pod) (up{pod!=\"\"} and on (job, instance) "
            "DCGM_FI_DEV_FB_USED)");
    case LEDGER_POD_OWNER:
        return gs_strdup("kube_pod_owner");
    case LEDGER_REPLICASET_OWNER:
        return gs_strdup("kube_replicaset_owner");
    case LEDGER_JOB_OWNER:
        return gs_strdup("kube_job_owner");
    case LEDGER_POD_LABEL:
        return gs_format("kube_pod_labels{%s!=\"\"}", label);
    case LEDGER_NAMESPACE_LABEL:
        return gs_format("kube_namespace_labels{%s!=\"\"}", label);
    case LEDGER_NODE_LABEL:
        return gs_strdup("kube_node_labels");
    case LEDGER_NODE_EXISTS:
        return gs_strdup("kube_node_info");
    case LEDGER_NODE_STRANDED:
        return gs_strdup("gpuscale_node_stranded_gpus");
    case LEDGER_ZERO:
        return gs_strdup(
            "{__name__=~\"gpuscale_(deployment|statefulset)_replica_gpus\"} and on (namespace, "
            "owner_kind, owner_name) "
            "label_replace(label_replace(kube_horizontalpodautoscaler_info and on (namespace, "
            "horizontalpodautoscaler) (kube_horizontalpodautoscaler_status_condition{condition="
            "\"ScaledToZero\",status=\"true\"} == 1), \"owner_kind\", \"$1\", "
            "\"scaletargetref_kind\", \"(.*)\"), \"owner_name\", \"$1\", "
            "\"scaletargetref_name\", \"(.*)\")");
    default:
        return gs_strdup("vector(0)");
    }
}

void ledger_put_clean(char out[LEDGER_MAX_TEXT + 1], struct gs_slice text)
{
    size_t n = text.len < LEDGER_MAX_TEXT ? text.len : LEDGER_MAX_TEXT;
    while (n < text.len && n && ((unsigned char)text.data[n] & 0xc0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text.data[i];
        out[i] = text.data[i];
        if (c < 0x20 || c == 0x7f)
            out[i] = '?';
    }
    out[n] = '\0';
}

const char *ledger_clean(struct gs_arena *mem, struct gs_slice text)
{
    char clean[LEDGER_MAX_TEXT + 1];
    ledger_put_clean(clean, text);
    return gs_arena_strdup(mem, clean);
}
