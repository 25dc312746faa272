// SPDX-License-Identifier: Apache-2.0
// A discovery of a configuration, of whatever kind.
#pragma once

#include "engine/discovery/discovery.h"
#include "engine/discovery/stats.h"

enum sd_kind { SD_KIND_FILE, SD_KIND_KUBERNETES, SD_KIND_HTTP, SD_KIND_DNS };

struct sd_source {
    enum sd_kind kind;
    const void *cfg; // struct engine_file_sd, engine_kubernetes_sd …
};

// All but the static ones.
size_t sd_source_count(const struct engine_sd_configs *c);
struct sd_source sd_source_at(const struct engine_sd_configs *c, size_t i);
// Equal for equal discoveries.
char *sd_source_id(struct sd_source s) GS_MUST_USE;

struct sd_context {
    uv_loop_t *loop;
    struct sd_kubernetes_hub *hub;
    struct sd_stats *stats;       // NULL: nobody counts
    const struct dns_config *dns; // name servers; NULL: as the system says
};

struct sd_provider;
// The source's cfg is borrowed until the next reconfigure or free.
struct gs_error *sd_provider_new(const struct sd_context *ctx, struct sd_source s, sd_update_fn fn,
                                 void *arg, struct sd_provider **ret);
// A source of the same id: how it is reached may differ. Its groups stay.
void sd_provider_reconfigure(struct sd_provider *p, struct sd_source s);
void sd_provider_free(struct sd_provider *p);
