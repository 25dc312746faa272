// SPDX-License-Identifier: Apache-2.0
// Configurations of the adapter in all forms. Rules that load are also used: names and queries.
#include "adapter/config/config.h"

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
    const struct metrics_label values[] = {{GS_SLICE("namespace"), GS_SLICE("ml")},
                                           {GS_SLICE("pod"), GS_SLICE("a|b")}};
    const struct gs_slice by[] = {GS_SLICE("pod"), GS_SLICE("c")};
    const struct adapter_config_query_data d = {.series = GS_SLICE("m"),
                                                .matchers = GS_SLICE("pod=~\"a|b\""),
                                                .group_by = GS_SLICE("pod"),
                                                .values = values,
                                                .n_values = 2,
                                                .group_by_list = by,
                                                .n_group_by = 2};
    gs_error_free(adapter_config_query_expand(r->query, &d, &out));
    if (r->resources.label_template)
        gs_error_free(adapter_config_label_expand(r->resources.label_template, GS_SLICE("apps"),
                                                  GS_SLICE("deployment"), &out));
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
