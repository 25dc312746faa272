// SPDX-License-Identifier: Apache-2.0
// Internals of this module: readers of the sections of a configuration.
#pragma once

#include "codec/yaml_reader.h"
#include "engine/config/config.h"
#include "net/endpoint/read.h"

#include <stddef.h>

// The memory of a configuration; `user` of its reader.
struct engine_config_owned {
    struct gs_arena arena;
    struct tsdb_regex **regexes;
    size_t n_regexes, regexes_cap;
    const char **ignored;
};

// --- parts ---

void engine_config_read_relabels(struct codec_reader *r, const json_t *list, void *relabels);
// Reports target labels and replacements that are not valid where metric_name_validation_scheme is
// legacy. l was read from obj[key].
void engine_config_check_legacy_relabels(struct codec_reader *r, const json_t *obj, const char *key,
                                         const struct engine_config_relabels *l);
// Reports unknown schemes. Returns true for legacy.
bool engine_config_check_validation(struct codec_reader *r, const json_t *at, const char *scheme);
// Read lists of discovery configurations into a struct engine_config_sd_configs.
void config_read_statics(struct codec_reader *r, const json_t *list, void *sd);
void engine_config_check_statics(struct codec_reader *r, const json_t *obj,
                                 const struct engine_config_sd_configs *sd,
                                 const struct engine_config_relabels *relabel);
// Counts the discoveries of kinds that the engine does not have.
void engine_config_count_unsupported(const json_t *obj, struct engine_config_sd_configs *sd);
void config_read_file_sds(struct codec_reader *r, const json_t *list, void *sd);
void config_read_kubernetes_sds(struct codec_reader *r, const json_t *list, void *sd);
void config_read_http_sds(struct codec_reader *r, const json_t *list, void *sd);
void config_read_dns_sds(struct codec_reader *r, const json_t *list, void *sd);
// Notes rules that read labels which cannot exist. s was read from item.
void engine_config_check_meta_labels(struct codec_reader *r, const json_t *item,
                                     const struct engine_config_scrape_config *s);
void engine_config_read_scrape(struct codec_reader *r, const json_t *item, void *scrape);
void engine_config_read_protocols(struct codec_reader *r, const json_t *value, void *scrape);
// Check scrape_protocols and the name schemes, take defaults from global and build the Accept
// header.
void engine_config_check_global_names(struct codec_reader *r, const json_t *at,
                                      struct engine_config_scrape_config *global);
void engine_config_check_names(struct codec_reader *r, const json_t *at,
                               struct engine_config_scrape_config *s,
                               const struct engine_config_scrape_config *global);
// The scrape config that was read from `at`, as YAML with the defaults. The text belongs to r.
const char *engine_config_show_scrape(struct codec_reader *r, const json_t *at,
                                      const struct engine_config_scrape_config *s,
                                      const struct engine_config_scrape_config *global);
extern const char *const engine_config_relabel_actions[]; // by enum engine_config_relabel_action
void engine_config_read_alertmanager(struct codec_reader *r, const json_t *item,
                                     void *alertmanager);
// Sections without effect. Errors in them are still reported.
void engine_config_check_remote_read(struct codec_reader *r, const json_t *list, void *out);
void engine_config_read_storage(struct codec_reader *r, const json_t *value, void *out);
void engine_config_check_tracing(struct codec_reader *r, const json_t *value, void *out);
// Reads the section otlp into a struct engine_config.
void engine_config_read_otlp(struct codec_reader *r, const json_t *value, void *config);
void engine_config_default_otlp(struct engine_config_otlp *o);
void engine_config_read_runtime(struct codec_reader *r, const json_t *value, void *log_level);
void engine_config_check_metadata(struct codec_reader *r, const json_t *value, void *out);
void engine_config_read_remote_write(struct codec_reader *r, const json_t *item,
                                     void *remote_write);

// Fields of discovery. at: the offset of a struct engine_config_sd_configs. Unsupported kinds are
// ignored with a warning.
#define ENGINE_CONFIG_DISCOVERY(at)                                                                \
    {"static_configs", CODEC_FIELD_CUSTOM, at, config_read_statics},                               \
        {"file_sd_configs", CODEC_FIELD_CUSTOM, at, config_read_file_sds},                         \
        {"kubernetes_sd_configs", CODEC_FIELD_CUSTOM, at, config_read_kubernetes_sds},             \
        {"http_sd_configs", CODEC_FIELD_CUSTOM, at, config_read_http_sds},                         \
        {"dns_sd_configs", CODEC_FIELD_CUSTOM, at, config_read_dns_sds},                           \
        {"aws_sd_configs", CODEC_FIELD_IGNORED}, {"azure_sd_configs", CODEC_FIELD_IGNORED},        \
        {"consul_sd_configs", CODEC_FIELD_IGNORED},                                                \
        {"digitalocean_sd_configs", CODEC_FIELD_IGNORED},                                          \
        {"docker_sd_configs", CODEC_FIELD_IGNORED},                                                \
        {"dockerswarm_sd_configs", CODEC_FIELD_IGNORED}, {"ec2_sd_configs", CODEC_FIELD_IGNORED},  \
        {"ecs_sd_configs", CODEC_FIELD_IGNORED}, {"elasticache_sd_configs", CODEC_FIELD_IGNORED},  \
        {"eureka_sd_configs", CODEC_FIELD_IGNORED}, {"gce_sd_configs", CODEC_FIELD_IGNORED},       \
        {"hetzner_sd_configs", CODEC_FIELD_IGNORED}, {"ionos_sd_configs", CODEC_FIELD_IGNORED},    \
        {"kuma_sd_configs", CODEC_FIELD_IGNORED}, {"lightsail_sd_configs", CODEC_FIELD_IGNORED},   \
        {"linode_sd_configs", CODEC_FIELD_IGNORED}, {"marathon_sd_configs", CODEC_FIELD_IGNORED},  \
        {"msk_sd_configs", CODEC_FIELD_IGNORED}, {"nerve_sd_configs", CODEC_FIELD_IGNORED},        \
        {"nomad_sd_configs", CODEC_FIELD_IGNORED}, {"oci_sd_configs", CODEC_FIELD_IGNORED},        \
        {"openstack_sd_configs", CODEC_FIELD_IGNORED},                                             \
        {"outscale_sd_configs", CODEC_FIELD_IGNORED},                                              \
        {"ovhcloud_sd_configs", CODEC_FIELD_IGNORED},                                              \
        {"puppetdb_sd_configs", CODEC_FIELD_IGNORED}, {"rds_sd_configs", CODEC_FIELD_IGNORED},     \
        {"scaleway_sd_configs", CODEC_FIELD_IGNORED},                                              \
        {"serverset_sd_configs", CODEC_FIELD_IGNORED},                                             \
        {"stackit_sd_configs", CODEC_FIELD_IGNORED}, {"triton_sd_configs", CODEC_FIELD_IGNORED},   \
        {"uyuni_sd_configs", CODEC_FIELD_IGNORED},                                                 \
    {                                                                                              \
        "vultr_sd_configs", CODEC_FIELD_IGNORED                                                    \
    }

// The configuration as YAML in block style with redacted secrets. It is printed from the parsed
// document rather than from the text, so that no notation of YAML reveals a secret.
void engine_config_print_redacted(const json_t *document, struct gs_buf *out);
