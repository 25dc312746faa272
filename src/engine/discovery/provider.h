// SPDX-License-Identifier: Apache-2.0
// A discovery of a configuration, of whatever kind.
#pragma once

#include "engine/discovery/discovery.h"
#include "engine/discovery/stats.h"

enum discovery_kind {
    DISCOVERY_KIND_FILE,
    DISCOVERY_KIND_KUBERNETES,
    DISCOVERY_KIND_HTTP,
    DISCOVERY_KIND_DNS
};

struct discovery_source {
    enum discovery_kind kind;
    const void *cfg; // struct engine_config_file_sd, engine_config_kubernetes_sd …
};

// All but the static ones.
size_t discovery_source_count(const struct engine_config_sd_configs *c);
struct discovery_source discovery_source_at(const struct engine_config_sd_configs *c, size_t i);
// Equal for equal discoveries.
char *discovery_source_id(struct discovery_source s) GS_MUST_USE;

struct discovery_context {
    uv_loop_t *loop;
    struct discovery_kubernetes_hub *hub;
    struct discovery_stats *stats; // NULL: nobody counts
    const struct dns_config *dns;  // name servers; NULL: as the system says
};

struct discovery_provider;
// The source's cfg is borrowed until the next reconfigure or free.
struct gs_error *discovery_provider_new(const struct discovery_context *ctx,
                                        struct discovery_source s, discovery_update_fn fn,
                                        void *arg, struct discovery_provider **ret);
// A source of the same id: how it is reached may differ. Its groups stay.
void discovery_provider_reconfigure(struct discovery_provider *p, struct discovery_source s);
void discovery_provider_free(struct discovery_provider *p);
