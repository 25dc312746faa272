// SPDX-License-Identifier: Apache-2.0
// Configurations of the adapter in all forms. Rules that load are also used: names and queries.
#include "adapter_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct adapter_config_rule *r)
{
    static const struct gs_slice labels[] = {{"pod", 3}, {"kube_apps_deployment", 20}, {"", 0}};
    const struct adapter_config_filter *filter;
    struct gs_slice group, resource;
    GS_AUTO_BUF struct gs_buf out = {0};
    (void)adapter_config_rule_name(r, GS_SLICE("container_cpu_usage_seconds_total"), &out, &filter);
    for (size_t i = 0; i < GS_ARRAY_LEN(labels); i++)
        (void)adapter_config_label_resource(&r->resources, labels[i], &group, &resource);
    expand_rule_query(r->query, &out);
    if (r->resources.label_template)
        expand_rule_label(r->resources.label_template, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct adapter_config *c = NULL;
    struct gs_error *err = adapter_config_parse(gs_slice_make(data, size), "rules.yaml", &c);
    gs_error_free(err);
    for (size_t i = 0; c && i < c->n_rules; i++)
        use(&c->rules[i]);
    adapter_config_free(c);
    return 0;
}
