// SPDX-License-Identifier: Apache-2.0
// Mappings of YAML files read by tables: one row a field. For the configuration, and for the files
// of rooms above that are read the same way.
#pragma once

#include "codec/yaml.h"
#include "engine/config/config.h"

#include <stddef.h>

struct engine_config_reader {
    const char *name; // of the file, for errors
    const char *base_dir;
    bool opens_files; // scrape_config_files are read: of a configuration that is a file itself
    const struct codec_yaml_marks *marks; // NULL: no positions
    int first_line; // lines in front of the text, of one that stands inside another file
    struct gs_arena *arena;
    struct gs_error *err; // the first one; everything stops at it
    // Keys that are known but not acted on.
    const char **ignored;
    size_t n_ignored, ignored_cap;
    // Compiled expressions, freed with the configuration.
    struct tsdb_regex **regexes;
    size_t n_regexes, regexes_cap;
};

enum engine_config_field_type {
    ENGINE_CONFIG_FIELD_TEXT,    // const char *
    ENGINE_CONFIG_FIELD_PATH,    // const char *, made absolute by the configuration's folder
    ENGINE_CONFIG_FIELD_URL,     // const char *, checked
    ENGINE_CONFIG_FIELD_BOOL,    // bool
    ENGINE_CONFIG_FIELD_MS,      // int64_t milliseconds, of a duration
    ENGINE_CONFIG_FIELD_COUNT,   // size_t
    ENGINE_CONFIG_FIELD_BYTES,   // size_t, "10MB"
    ENGINE_CONFIG_FIELD_READ,    // by read()
    ENGINE_CONFIG_FIELD_IGNORED, // known, not acted on: one line in `ignored`, unless it says false
    ENGINE_CONFIG_FIELD_UNUSED,  // without a meaning here, in silence
};                               // the last two: checked by read() where there is one

struct engine_config_field {
    const char *name;
    enum engine_config_field_type type;
    size_t offset; // into what read_fields fills
    void (*read)(struct engine_config_reader *r, const json_t *value, void *out);
};

// "file:12:3: text" at the value's place.
void engine_config_fail(struct engine_config_reader *r, const json_t *value, const char *fmt, ...)
    GS_PRINTF(3, 4);
// Fields end with a NULL name. what: "scrape config".
void engine_config_read(struct engine_config_reader *r, const json_t *obj,
                        const struct engine_config_field *fields, const char *what, void *out);
// A list: read() for each item into an array of items of this size.
void engine_config_read_list(struct engine_config_reader *r, const json_t *list, size_t size,
                             void (*read)(struct engine_config_reader *r, const json_t *item,
                                          void *out),
                             void *ret_items, size_t *ret_n);
const char *engine_config_text(struct engine_config_reader *r, const json_t *value); // "" for null
void engine_config_texts(struct engine_config_reader *r, const json_t *list,
                         const char *const **ret, size_t *ret_n);
// A mapping of texts as labels, sorted by name.
void engine_config_labels(struct engine_config_reader *r, const json_t *map,
                          const struct metrics_label **ret, size_t *ret_n);
void engine_config_check_url(struct engine_config_reader *r, const json_t *value, const char *url);
int64_t engine_config_ms(struct engine_config_reader *r, const json_t *value);
const char *engine_config_path(struct engine_config_reader *r, const char *path);
void *engine_config_alloc(struct engine_config_reader *r, size_t size);
char *engine_config_format(struct engine_config_reader *r, const char *fmt, ...) GS_PRINTF(2, 3);

// Checks of settings that are not acted on: Prometheus refuses other values, too. out is not used.
void engine_config_is_bool(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_is_count(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_is_whole(struct engine_config_reader *r, const json_t *value,
                            void *out); // may be below 0
void engine_config_is_number(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_is_ms(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_is_text(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_is_texts(struct engine_config_reader *r, const json_t *value, void *out);

// --- parts ---

extern const struct engine_config_field
    engine_config_http_fields[]; // of struct engine_config_http at offset 0
void engine_config_http_defaults(struct engine_config_http *h);
// http's fields beside a table of one's own.
void engine_config_read_with_http(struct engine_config_reader *r, const json_t *obj,
                                  const struct engine_config_field *fields, const char *what,
                                  void *out, struct engine_config_http *http);
void engine_config_check_http(struct engine_config_reader *r, const json_t *obj,
                              struct engine_config_http *h);
void engine_config_read_relabels(struct engine_config_reader *r, const json_t *list,
                                 void *relabels);
// Lists of discoveries, into a struct engine_config_sd_configs.
void config_read_statics(struct engine_config_reader *r, const json_t *list, void *sd);
void engine_config_check_statics(struct engine_config_reader *r, const json_t *obj,
                                 const struct engine_config_sd_configs *sd,
                                 const struct engine_config_relabels *relabel);
void config_read_file_sds(struct engine_config_reader *r, const json_t *list, void *sd);
void config_read_kubernetes_sds(struct engine_config_reader *r, const json_t *list, void *sd);
void config_read_http_sds(struct engine_config_reader *r, const json_t *list, void *sd);
void config_read_dns_sds(struct engine_config_reader *r, const json_t *list, void *sd);
void engine_config_read_scrape(struct engine_config_reader *r, const json_t *item, void *scrape);
void engine_config_read_protocols(struct engine_config_reader *r, const json_t *value,
                                  void *scrape);
// scrape_protocols and the schemes of names: checked, the rest from global, the header made.
void engine_config_check_global_names(struct engine_config_reader *r, const json_t *at,
                                      struct engine_config_scrape_config *global);
void engine_config_check_names(struct engine_config_reader *r, const json_t *at,
                               struct engine_config_scrape_config *s,
                               const struct engine_config_scrape_config *global);
void engine_config_read_alertmanager(struct engine_config_reader *r, const json_t *item,
                                     void *alertmanager);
// Sections that are not acted on: what is wrong with them is told nevertheless.
void engine_config_check_remote_read(struct engine_config_reader *r, const json_t *list, void *out);
void engine_config_check_storage(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_check_tracing(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_check_otlp(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_check_runtime(struct engine_config_reader *r, const json_t *value, void *out);
void engine_config_read_oauth2(struct engine_config_reader *r, const json_t *value, void *oauth2);
void engine_config_check_proxy(struct engine_config_reader *r, const json_t *obj,
                               const struct engine_config_http *h);
void engine_config_check_key(struct engine_config_reader *r, const json_t *obj,
                             const struct engine_config_http *h);
void engine_config_check_metadata(struct engine_config_reader *r, const json_t *value, void *out);
bool engine_config_header_is_reserved(const char *name); // not to be set by hand
// The names in a mapping of headers. authorization: the error when that is one of them.
void engine_config_check_headers(struct engine_config_reader *r, const json_t *value,
                                 const char *authorization);
#define ENGINE_CONFIG_AUTHORIZATION_ELSEWHERE                                                      \
    "authorization header must be changed via the basic_auth, authorization, oauth2, sigv4, "      \
    "azuread or google_iam parameter"
void engine_config_read_proxy_headers(struct engine_config_reader *r, const json_t *value,
                                      void *http);
void engine_config_read_tls(struct engine_config_reader *r, const json_t *value, void *http);
// One line of `ignored`.
void engine_config_note(struct engine_config_reader *r, const json_t *value, const char *fmt, ...)
    GS_PRINTF(3, 4);
void engine_config_ignore(struct engine_config_reader *r, const char *key, const json_t *value,
                          const char *what);
void engine_config_read_remote_write(struct engine_config_reader *r, const json_t *item,
                                     void *remote_write);

// Discovery: at is the place of a struct engine_config_sd_configs. Other kinds are known, not
// there.
#define ENGINE_CONFIG_DISCOVERY(at)                                                                \
    {"static_configs", ENGINE_CONFIG_FIELD_READ, at, config_read_statics},                         \
        {"file_sd_configs", ENGINE_CONFIG_FIELD_READ, at, config_read_file_sds},                   \
        {"kubernetes_sd_configs", ENGINE_CONFIG_FIELD_READ, at, config_read_kubernetes_sds},       \
        {"http_sd_configs", ENGINE_CONFIG_FIELD_READ, at, config_read_http_sds},                   \
        {"dns_sd_configs", ENGINE_CONFIG_FIELD_READ, at, config_read_dns_sds},                     \
        {"azure_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                         \
        {"consul_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                        \
        {"digitalocean_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                  \
        {"docker_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                        \
        {"dockerswarm_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                   \
        {"ec2_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                           \
        {"eureka_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                        \
        {"gce_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                           \
        {"hetzner_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                       \
        {"ionos_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                         \
        {"kuma_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                          \
        {"lightsail_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                     \
        {"linode_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                        \
        {"marathon_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                      \
        {"nerve_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                         \
        {"nomad_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                         \
        {"openstack_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                     \
        {"ovhcloud_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                      \
        {"puppetdb_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                      \
        {"scaleway_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                      \
        {"serverset_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                     \
        {"stackit_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                       \
        {"triton_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                        \
        {"uyuni_sd_configs", ENGINE_CONFIG_FIELD_IGNORED},                                         \
    {                                                                                              \
        "vultr_sd_configs", ENGINE_CONFIG_FIELD_IGNORED                                            \
    }
