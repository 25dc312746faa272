// SPDX-License-Identifier: Apache-2.0
// Overrides of a configuration that name a resource that the cluster does not have: they have no
// effect, so they are reported.
#pragma once

#include "adapter/config/config.h"
#include "adapter/provider/mapper.h"

typedef void (*provider_overrides_fn)(void *arg, const struct adapter_config_override *o);

// NULL: the resource is known. Else what is wrong and what to write instead. Caller frees.
char *provider_override_wrong(const struct adapter_config_override *o,
                              const struct provider_mapper *m);
// Of all rules and resource rules; returns how many are wrong. cb may be NULL.
size_t provider_overrides_check(const struct adapter_config *c, const struct provider_mapper *m,
                                provider_overrides_fn cb, void *arg);
