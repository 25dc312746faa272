// SPDX-License-Identifier: Apache-2.0
// static_configs, file_sd_configs, http_sd_configs, dns_sd_configs, kubernetes_sd_configs,
// relabel_configs.
#include "engine/config/config_private.h"

#include "base/mem.h"
#include "codec/encoding.h"
#include "kube/selector.h"
#include <strings.h>

static void check_items(struct codec_reader *r, const json_t *list, const char *key)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item)
        if (json_is_null(item))
            codec_reader_fail(r, item, "empty or null section in %s", key);
}

#define LIST(function, key, member, item)                                                          \
    void function(struct codec_reader *r, const json_t *list, void *out)                           \
    {                                                                                              \
        struct engine_config_sd_configs *c = out;                                                  \
        check_items(r, list, key);                                                                 \
        codec_read_list(r, list, sizeof(*c->member), item, &c->member, &c->n_##member);            \
    }

// --- static and file ---

static void read_targets(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_static_group *g = out;
    codec_read_texts(r, value, &g->targets, &g->n_targets);
}

static void read_static_labels(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_static_group *g = out;
    engine_config_labels(r, value, &g->labels, &g->n_labels);
}

static void read_static(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"targets", CODEC_FIELD_CUSTOM, 0, read_targets},
        {"labels", CODEC_FIELD_CUSTOM, 0, read_static_labels},
        {0},
    };
    codec_read_mapping(r, item, fields, "static_configs", out);
}

LIST(config_read_statics, "static_configs", statics, read_static)

// A URL as an address is an error, unless relabeling rewrites it, as for blackbox probes.
void engine_config_check_statics(struct codec_reader *r, const json_t *obj,
                                 const struct engine_config_sd_configs *sd,
                                 const struct engine_config_relabels *relabel)
{
    const json_t *list = json_object_get(obj, "static_configs");
    for (size_t i = 0; i < sd->n_statics && !relabel->n; i++) {
        const json_t *targets = codec_json_get(json_array_get(list, i), "targets", NULL);
        for (size_t k = 0; k < sd->statics[i].n_targets; k++)
            if (strchr(sd->statics[i].targets[k], '/'))
                codec_reader_fail(r, json_array_get(targets, k), "\"%s\" is not a valid hostname",
                                  sd->statics[i].targets[k]);
    }
}

void engine_config_count_unsupported(const json_t *obj, struct engine_config_sd_configs *sd)
{
    static const char *const supported[] = {"static", "file", "http", "dns", "kubernetes"};
    static const char suffix[] = "_sd_configs";
    const char *key;
    json_t *list;
    json_object_foreach ((json_t *)(uintptr_t)obj, key, list) {
        bool known = !gs_ends(key, suffix) || !json_array_size(list);
        for (size_t i = 0; !known && i < GS_ARRAY_LEN(supported); i++)
            known = strlen(key) == strlen(supported[i]) + sizeof(suffix) - 1 &&
                    gs_starts(key, supported[i]);
        sd->n_unsupported += !known;
    }
}

static void read_files(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_file_sd *f = out;
    codec_read_texts(r, value, &f->files, &f->n_files);
    const char **files = (const char **)f->files;
    for (size_t i = 0; i < f->n_files && !r->err; i++) {
        // As in Prometheus, only the file name can contain a wildcard.
        const char *star = strchr(files[i], '*');
        if ((!gs_ends(files[i], ".json") && !gs_ends(files[i], ".yml") &&
             !gs_ends(files[i], ".yaml")) ||
            (star && (strchr(star, '/') || strchr(star + 1, '*'))))
            codec_reader_fail(r, json_array_get(value, i),
                              "path name \"%s\" is not valid for file discovery", files[i]);
        files[i] = codec_reader_path(r, files[i]);
    }
}

static void read_file_sd(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"files", CODEC_FIELD_CUSTOM, 0, read_files},
        {"refresh_interval", CODEC_FIELD_DURATION,
         offsetof(struct engine_config_file_sd, refresh_ms), NULL},
        {0},
    };
    struct engine_config_file_sd *f = out;
    f->refresh_ms = 300000;
    codec_read_mapping(r, item, fields, "file_sd_configs", f);
    if (!f->n_files)
        codec_reader_fail(r, item,
                          "file service discovery config must contain at least one path name");
}

LIST(config_read_file_sds, "file_sd_configs", files, read_file_sd)

// --- http ---

static void check_http_url(struct codec_reader *r, const json_t *item, const char *url)
{
    const char *rest = url ? strstr(url, "://") : NULL;
    bool http = url && (strncasecmp(url, "http:", 5) == 0 || strncasecmp(url, "https:", 6) == 0);
    if (!url || !*url)
        codec_reader_fail(r, item, "URL is missing");
    else if (!http)
        codec_reader_fail(r, item, "URL scheme must be 'http' or 'https'");
    else if (!rest || strchr("/?#", rest[3]))
        codec_reader_fail(r, item, "host is missing in URL");
}

static void read_http_sd(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"url", CODEC_FIELD_URL, offsetof(struct engine_config_http_sd, url), NULL},
        {"refresh_interval", CODEC_FIELD_DURATION,
         offsetof(struct engine_config_http_sd, refresh_ms), NULL},
        {0},
    };
    struct engine_config_http_sd *h = out;
    h->refresh_ms = 60000;
    endpoint_read_with(r, item, fields, "http_sd_configs", h, &h->http);
    check_http_url(r, item, h->url);
}

LIST(config_read_http_sds, "http_sd_configs", http, read_http_sd)

// --- dns ---

static void read_dns_names(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_dns_sd *d = out;
    codec_read_texts(r, value, &d->names, &d->n_names);
}

static void read_dns_type(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct {
        const char *name;
        int number; // RFC 1035, 2782, 3596
    } types[] = {{"A", 1}, {"NS", 2}, {"MX", 15}, {"AAAA", 28}, {"SRV", 33}};
    struct engine_config_dns_sd *d = out;
    const char *text = codec_read_text(r, value);
    d->type = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(types); i++)
        if (strcasecmp(text, types[i].name) == 0)
            d->type = types[i].number;
    if (!d->type)
        codec_reader_fail(r, value, "invalid DNS-SD records type %s", text);
}

static void read_dns_sd(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"names", CODEC_FIELD_CUSTOM, 0, read_dns_names},
        {"type", CODEC_FIELD_CUSTOM, 0, read_dns_type},
        {"port", CODEC_FIELD_COUNT, offsetof(struct engine_config_dns_sd, port), NULL},
        {"refresh_interval", CODEC_FIELD_DURATION,
         offsetof(struct engine_config_dns_sd, refresh_ms), NULL},
        {0},
    };
    enum { SRV = 33 };
    struct engine_config_dns_sd *d = out;
    d->type = SRV;
    d->refresh_ms = 30000;
    codec_read_mapping(r, item, fields, "dns_sd_configs", d);
    if (!d->n_names)
        codec_reader_fail(r, item, "DNS-SD config must contain at least one SRV record name");
    if (d->type != SRV && !d->port)
        codec_reader_fail(r, item,
                          "a port is required in DNS-SD configs for all record types except SRV");
}

LIST(config_read_dns_sds, "dns_sd_configs", dns, read_dns_sd)

// --- kubernetes ---

static const char *const role_names[] = {[ENGINE_CONFIG_SD_NODE] = "node",
                                         [ENGINE_CONFIG_SD_POD] = "pod",
                                         [ENGINE_CONFIG_SD_SERVICE] = "service",
                                         [ENGINE_CONFIG_SD_ENDPOINTS] = "endpoints",
                                         [ENGINE_CONFIG_SD_ENDPOINTSLICE] = "endpointslice",
                                         [ENGINE_CONFIG_SD_INGRESS] = "ingress"};

static void read_role(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(role_names); i++) {
        if (gs_streq(text, role_names[i])) {
            *(enum engine_config_sd_role *)out = (enum engine_config_sd_role)i;
            return;
        }
    }
    codec_reader_fail(r, value, "unknown Kubernetes SD role \"%s\"", text);
}

static void read_dns_name_list(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_kubernetes_sd *k = out;
    codec_read_texts(r, value, &k->namespaces, &k->n_namespaces);
}

static void read_namespaces(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"names", CODEC_FIELD_CUSTOM, 0, read_dns_name_list},
        {"own_namespace", CODEC_FIELD_BOOL,
         offsetof(struct engine_config_kubernetes_sd, own_namespace), NULL},
        {0},
    };
    codec_read_mapping(r, value, fields, "namespaces", out);
}

struct selector {
    enum engine_config_sd_role role;
    const char *label, *field;
};

static void read_selector(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"role", CODEC_FIELD_CUSTOM, offsetof(struct selector, role), read_role},
        {"label", CODEC_FIELD_TEXT, offsetof(struct selector, label), NULL},
        {"field", CODEC_FIELD_TEXT, offsetof(struct selector, field), NULL},
        {0},
    };
    codec_read_mapping(r, item, fields, "selectors", out);
}

static void read_attach(struct codec_reader *r, const json_t *value, void *out)
{
#define ATTACH(name, member)                                                                       \
    {                                                                                              \
        name, CODEC_FIELD_BOOL, offsetof(struct engine_config_kubernetes_sd, attach.member), NULL  \
    }
    static const struct codec_field fields[] = {
        ATTACH("node", node), ATTACH("namespace", namespace_), ATTACH("deployment", deployment),
        ATTACH("job", job),   ATTACH("cronjob", cronjob),      {0},
    };
#undef ATTACH
    codec_read_mapping(r, value, fields, "attach_metadata", out);
}

// True if a role accepts selectors for objects of the role `of`: its own objects, objects that
// endpoints refer to, and nodes of pods.
static bool takes_selector(enum engine_config_sd_role role, enum engine_config_sd_role of)
{
    bool endpoints = role == ENGINE_CONFIG_SD_ENDPOINTS || role == ENGINE_CONFIG_SD_ENDPOINTSLICE;
    return role == of || (role == ENGINE_CONFIG_SD_POD && of == ENGINE_CONFIG_SD_NODE) ||
           (endpoints && (of == ENGINE_CONFIG_SD_POD || of == ENGINE_CONFIG_SD_SERVICE));
}

static void check_sd_selector(struct codec_reader *r, const json_t *at, const struct selector *s)
{
    struct kube_selector parsed = {0};
    struct gs_error *err = kube_selector_parse(s->label, &parsed);
    kube_selector_finish(&parsed);
    if (!err) {
        err = kube_field_selector_parse(s->field, &parsed);
        kube_selector_finish(&parsed);
    }
    if (err)
        codec_reader_fail(r, at, "selector: %s", gs_error_message(err));
    gs_error_free(err);
}

static void take_selectors(struct codec_reader *r, const json_t *list,
                           struct engine_config_kubernetes_sd *k)
{
    struct selector *s;
    size_t n;
    unsigned seen = 0;
    codec_read_list(r, list, sizeof(*s), read_selector, &s, &n);
    for (size_t i = 0; i < n && !r->err; i++) {
        const json_t *at = json_array_get(list, i);
        if (seen & 1U << s[i].role)
            codec_reader_fail(r, at, "duplicated selector role: %s", role_names[s[i].role]);
        else if (!takes_selector(k->role, s[i].role))
            codec_reader_fail(r, at, "%s role supports only %s%s%s selectors", role_names[k->role],
                              takes_selector(k->role, ENGINE_CONFIG_SD_POD) &&
                                      k->role != ENGINE_CONFIG_SD_POD
                                  ? "pod, service, "
                                  : "",
                              role_names[k->role], k->role == ENGINE_CONFIG_SD_POD ? ", node" : "");
        else
            check_sd_selector(r, at, &s[i]);
        seen |= 1U << s[i].role;
        k->selectors[s[i].role] = (struct engine_config_selector){s[i].label, s[i].field};
    }
}

// True if HTTP client settings are present that kubernetes_sd_configs do not support.
static bool has_http_settings(const json_t *item)
{
    for (const struct codec_field *f = endpoint_fields; f->name; f++)
        if (json_object_get(item, f->name))
            return true;
    return false;
}

static void check_kubernetes(struct codec_reader *r, const json_t *item,
                             const struct engine_config_kubernetes_sd *k)
{
    bool api = k->api_server && *k->api_server, file = k->kubeconfig_file && *k->kubeconfig_file;
    if (!json_object_get(item, "role"))
        codec_reader_fail(
            r, item,
            "role missing (one of: pod, service, endpoints, endpointslice, node, ingress)");
    if (api && file)
        codec_reader_fail(r, item, "cannot use 'kubeconfig_file' and 'api_server' simultaneously");
    if (file && has_http_settings(item))
        codec_reader_fail(r, item,
                          "cannot use a custom HTTP client configuration together with "
                          "'kubeconfig_file'");
    if (!api && has_http_settings(item))
        codec_reader_fail(
            r, item,
            "to use custom HTTP client configuration please provide the 'api_server' URL "
            "explicitly");
    if ((api || file) && k->own_namespace)
        codec_reader_fail(r, item, "cannot use '%s' and 'namespaces.own_namespace' simultaneously",
                          api ? "api_server" : "kubeconfig_file");
}

// The client of the Kubernetes API supports certificates and tokens only.
static void note_unused(struct codec_reader *r, const json_t *item)
{
    static const char *const keys[] = {"basic_auth",
                                       "oauth2",
                                       "http_headers",
                                       "proxy_url",
                                       "no_proxy",
                                       "proxy_connect_header",
                                       "proxy_from_environment"};
    static const char *const tls_keys[] = {"server_name", "min_version", "max_version"};
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (json_object_get(item, keys[i]))
            codec_reader_ignore(r, keys[i], json_object_get(item, keys[i]),
                                "kubernetes_sd_configs");
    for (size_t i = 0; i < GS_ARRAY_LEN(tls_keys); i++) {
        const json_t *value = codec_json_get(item, "tls_config", tls_keys[i], NULL);
        if (value)
            codec_reader_ignore(r, tls_keys[i], value, "kubernetes_sd_configs");
    }
}

static void read_kubernetes_sd(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"role", CODEC_FIELD_CUSTOM, offsetof(struct engine_config_kubernetes_sd, role), read_role},
        {"api_server", CODEC_FIELD_URL, offsetof(struct engine_config_kubernetes_sd, api_server),
         NULL},
        {"kubeconfig_file", CODEC_FIELD_PATH,
         offsetof(struct engine_config_kubernetes_sd, kubeconfig_file), NULL},
        {"namespaces", CODEC_FIELD_CUSTOM, 0, read_namespaces},
        {"attach_metadata", CODEC_FIELD_CUSTOM, 0, read_attach},
        // Read after this table, because they depend on the role.
        {"selectors", CODEC_FIELD_UNUSED, 0, NULL},
        {0},
    };
    struct engine_config_kubernetes_sd *k = out;
    endpoint_read_with(r, item, fields, "kubernetes_sd_configs", k, &k->http);
    check_kubernetes(r, item, k);
    note_unused(r, item);
    take_selectors(r, json_object_get(item, "selectors"), k);
}

LIST(config_read_kubernetes_sds, "kubernetes_sd_configs", kubernetes, read_kubernetes_sd)

// --- relabelling ---

#define WORD_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static bool is_valid_name(const char *s)
{
    struct gs_slice name = gs_slice_of(s);
    return name.len && codec_utf8_valid_prefix(name) == name.len;
}

static void read_sources(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_relabel *l = out;
    codec_read_texts(r, value, &l->source_labels, &l->n_source_labels);
    for (size_t i = 0; i < l->n_source_labels && !r->err; i++)
        if (!is_valid_name(l->source_labels[i]))
            codec_reader_fail(r, json_array_get(value, i), "\"%s\" is not a valid label name",
                              l->source_labels[i]);
}

const char *const engine_config_relabel_actions[] = {
    [ENGINE_CONFIG_RELABEL_REPLACE] = "replace",
    [ENGINE_CONFIG_RELABEL_KEEP] = "keep",
    [ENGINE_CONFIG_RELABEL_DROP] = "drop",
    [ENGINE_CONFIG_RELABEL_KEEPEQUAL] = "keepequal",
    [ENGINE_CONFIG_RELABEL_DROPEQUAL] = "dropequal",
    [ENGINE_CONFIG_RELABEL_HASHMOD] = "hashmod",
    [ENGINE_CONFIG_RELABEL_LABELMAP] = "labelmap",
    [ENGINE_CONFIG_RELABEL_LABELDROP] = "labeldrop",
    [ENGINE_CONFIG_RELABEL_LABELKEEP] = "labelkeep",
    [ENGINE_CONFIG_RELABEL_LOWERCASE] = "lowercase",
    [ENGINE_CONFIG_RELABEL_UPPERCASE] = "uppercase",
};

static void read_action(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(engine_config_relabel_actions); i++) {
        if (strcasecmp(text, engine_config_relabel_actions[i]) == 0) {
            *(enum engine_config_relabel_action *)out = (enum engine_config_relabel_action)i;
            return;
        }
    }
    codec_reader_fail(r, value, "unknown relabel action \"%s\"", text);
}

static void compile_relabel_regex(struct codec_reader *r, const json_t *at, const char *pattern,
                                  struct tsdb_regex **ret)
{
    struct gs_error *err = tsdb_regex_new(gs_slice_of(pattern), ret);
    if (err) {
        codec_reader_fail(r, at, "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    struct engine_config_owned *own = r->user;
    gs_grow(&own->regexes, &own->regexes_cap, own->n_regexes, sizeof(*own->regexes));
    own->regexes[own->n_regexes++] = *ret;
}

// Reports settings that the action ignores. They are errors in Prometheus.
static void check_relabel_keys(struct codec_reader *r, const json_t *item,
                               const struct engine_config_relabel *l, const char *action)
{
    bool changes_case = l->action == ENGINE_CONFIG_RELABEL_LOWERCASE ||
                        l->action == ENGINE_CONFIG_RELABEL_UPPERCASE;
    bool compares = l->action == ENGINE_CONFIG_RELABEL_KEEPEQUAL ||
                    l->action == ENGINE_CONFIG_RELABEL_DROPEQUAL;
    bool names = l->action == ENGINE_CONFIG_RELABEL_LABELDROP ||
                 l->action == ENGINE_CONFIG_RELABEL_LABELKEEP;
    bool more = l->modulus || !gs_streq(l->separator, ";") || !gs_streq(l->replacement, "$1");
    if (changes_case && !gs_streq(l->replacement, "$1"))
        codec_reader_fail(r, item, "'replacement' can not be set for %s action", action);
    if (compares && (more || json_object_get(item, "regex")))
        codec_reader_fail(
            r, item,
            "%s action requires only 'source_labels' and `target_label`, and no other "
            "fields",
            action);
    if (names && (more || l->n_source_labels || *l->target_label))
        codec_reader_fail(r, item, "%s action requires only 'regex', and no other fields", action);
}

static void check_relabel(struct codec_reader *r, const json_t *item,
                          const struct engine_config_relabel *l)
{
    const char *action = engine_config_relabel_actions[l->action];
    bool needs_target = l->action == ENGINE_CONFIG_RELABEL_HASHMOD ||
                        l->action == ENGINE_CONFIG_RELABEL_LOWERCASE ||
                        l->action == ENGINE_CONFIG_RELABEL_UPPERCASE ||
                        l->action == ENGINE_CONFIG_RELABEL_KEEPEQUAL ||
                        l->action == ENGINE_CONFIG_RELABEL_DROPEQUAL ||
                        l->action == ENGINE_CONFIG_RELABEL_REPLACE;
    if (l->action == ENGINE_CONFIG_RELABEL_HASHMOD && !l->modulus)
        codec_reader_fail(r, item, "relabel configuration for hashmod requires non-zero modulus");
    if (needs_target && !*l->target_label)
        codec_reader_fail(
            r, item, "relabel configuration for %s action requires 'target_label' value", action);
    if (needs_target && !is_valid_name(l->target_label))
        codec_reader_fail(r, item, "\"%s\" is invalid 'target_label' for %s action",
                          l->target_label, action);
    if (l->action == ENGINE_CONFIG_RELABEL_LABELMAP && !is_valid_name(l->replacement))
        codec_reader_fail(r, item, "\"%s\" is invalid 'replacement' for %s action", l->replacement,
                          action);
    check_relabel_keys(r, item, l, action);
}

static void read_relabel(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"source_labels", CODEC_FIELD_CUSTOM, 0, read_sources},
        {"separator", CODEC_FIELD_TEXT, offsetof(struct engine_config_relabel, separator), NULL},
        {"target_label", CODEC_FIELD_TEXT, offsetof(struct engine_config_relabel, target_label),
         NULL},
        {"replacement", CODEC_FIELD_TEXT, offsetof(struct engine_config_relabel, replacement),
         NULL},
        {"modulus", CODEC_FIELD_COUNT, offsetof(struct engine_config_relabel, modulus), NULL},
        {"action", CODEC_FIELD_CUSTOM, offsetof(struct engine_config_relabel, action), read_action},
        {"regex", CODEC_FIELD_UNUSED, 0, NULL},
        {0},
    };
    struct engine_config_relabel *l = out;
    l->separator = ";";
    l->target_label = "";
    l->replacement = "$1";
    codec_read_mapping(r, item, fields, "relabel_configs", l);
    if (r->err)
        return;
    if (!json_is_object(item)) {
        codec_reader_fail(r, item, "a relabel config must be a mapping");
        return;
    }
    const json_t *regex = json_object_get(item, "regex");
    l->pattern = regex ? codec_read_text(r, regex) : "(.*)";
    compile_relabel_regex(r, regex ? regex : item, l->pattern, &l->regex);
    check_relabel(r, item, l);
}

void engine_config_read_relabels(struct codec_reader *r, const json_t *list, void *out)
{
    struct engine_config_relabels *l = out;
    codec_read_list(r, list, sizeof(struct engine_config_relabel), read_relabel, &l->items, &l->n);
}

// refs: references to groups of the regular expression can stand for letters.
static bool is_legacy_label(const char *text, bool refs)
{
    const char *at = text;
    while (*at) {
        if (refs && at[0] == '$') {
            bool braces = at[1] == '{';
            size_t n = strspn(at + 1 + braces, WORD_CHARACTERS);
            if (!n || (braces && at[2 + n] != '}'))
                return false;
            at += 1 + n + (braces ? 2 : 0);
        } else if (!strchr(WORD_CHARACTERS, *at) || (at == text && *at >= '0' && *at <= '9')) {
            return false;
        } else {
            at++;
        }
    }
    return at > text;
}

static void check_legacy_relabel(struct codec_reader *r, const json_t *item,
                                 const struct engine_config_relabel *l)
{
    const char *action = engine_config_relabel_actions[l->action];
    bool replaces = l->action == ENGINE_CONFIG_RELABEL_REPLACE;
    if (*l->target_label && l->action != ENGINE_CONFIG_RELABEL_LABELMAP &&
        l->action != ENGINE_CONFIG_RELABEL_KEEP && l->action != ENGINE_CONFIG_RELABEL_DROP &&
        !is_legacy_label(l->target_label, replaces))
        codec_reader_fail(r, item, "\"%s\" is invalid 'target_label' for %s action",
                          l->target_label, action);
    if (l->action == ENGINE_CONFIG_RELABEL_LABELMAP && !is_legacy_label(l->replacement, true))
        codec_reader_fail(r, item, "\"%s\" is invalid 'replacement' for %s action", l->replacement,
                          action);
}

void engine_config_check_legacy_relabels(struct codec_reader *r, const json_t *obj, const char *key,
                                         const struct engine_config_relabels *l)
{
    const json_t *list = json_object_get(obj, key);
    for (size_t i = 0; i < l->n && !r->err; i++)
        check_legacy_relabel(r, json_array_get(list, i), &l->items[i]);
}
