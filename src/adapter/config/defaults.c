// SPDX-License-Identifier: Apache-2.0
// The rules that the chart's `rules.default: true` adds: cAdvisor's container series for pods, and
// all other series with a namespace label for the resources that their labels name. Counters become
// rates over five minutes and lose the suffixes _total and _seconds_total.
#include "adapter/config/config.h"

#define CONTAINERS "'{__name__=~\"^container_.*\",container!=\"POD\",namespace!=\"\",pod!=\"\"}'"
#define OTHERS     "'{namespace!=\"\",__name__!~\"^container_.*\"}'"
#define BY_POD                                                                                     \
    "  resources:\n"                                                                               \
    "    overrides:\n"                                                                             \
    "      namespace: {resource: namespace}\n"                                                     \
    "      pod: {resource: pod}\n"
#define BY_LABEL "  resources: {template: <<.Resource>>}\n"

const char *adapter_config_defaults(void)
{
    return "rules:\n"
           "- seriesQuery: " CONTAINERS "\n"
           "  name: {matches: '^container_(.*)_seconds_total$', as: ''}\n" BY_POD
           "  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>,container!=\"POD\"}[5m])) by "
           "(<<.GroupBy>>)\n"
           "- seriesQuery: " CONTAINERS "\n"
           "  seriesFilters:\n"
           "  - isNot: '^container_.*_seconds_total$'\n"
           "  name: {matches: '^container_(.*)_total$', as: ''}\n" BY_POD
           "  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>,container!=\"POD\"}[5m])) by "
           "(<<.GroupBy>>)\n"
           "- seriesQuery: " CONTAINERS "\n"
           "  seriesFilters:\n"
           "  - isNot: '^container_.*_total$'\n"
           "  name: {matches: '^container_(.*)$', as: ''}\n" BY_POD
           "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>,container!=\"POD\"}) by "
           "(<<.GroupBy>>)\n"
           "- seriesQuery: " OTHERS "\n"
           "  seriesFilters:\n"
           "  - isNot: '.*_total$'\n"
           "  name: {matches: '', as: ''}\n" BY_LABEL
           "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n"
           "- seriesQuery: " OTHERS "\n"
           "  seriesFilters:\n"
           "  - isNot: '.*_seconds_total'\n"
           "  name: {matches: '^(.*)_total$', as: ''}\n" BY_LABEL
           "  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (<<.GroupBy>>)\n"
           "- seriesQuery: " OTHERS "\n"
           "  name: {matches: '^(.*)_seconds_total$', as: ''}\n" BY_LABEL
           "  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (<<.GroupBy>>)\n";
}
