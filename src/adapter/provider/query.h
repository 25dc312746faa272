// SPDX-License-Identifier: Apache-2.0
// The PromQL of one request, from a rule's template.
#pragma once

#include "adapter/config/config.h"
#include "adapter/provider/mapper.h"
#include "kube/selector.h"

// The label that names objects of a resource. False: the rule has none for it.
bool provider_query_label_for(const struct adapter_config_resources *r,
                              const struct provider_mapper *m,
                              const struct provider_mapped *resource, struct gs_buf *out);

struct provider_query_request {
    const struct provider_mapper *mapper;
    const struct adapter_config_resources *resources;
    const struct template_program *template_;
    struct gs_slice series;
    const char *ns;                         // NULL: no namespace
    const struct provider_mapped *resource; // NULL: external
    const char *const *names;               // of objects
    size_t n_names;
    const char *extra_group_by;           // container label; NULL: none
    const struct kube_selector *selector; // of series; NULL: all
    struct gs_buf *matchers;              // told here, too; NULL: not wanted
};
// label: of the objects; may be NULL for external ones. GS_EINVAL: why it cannot be asked.
struct gs_error *provider_query_build(const struct provider_query_request *q,
                                      struct gs_buf *ret_query, struct gs_buf *ret_label);
