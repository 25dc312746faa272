// SPDX-License-Identifier: Apache-2.0
// `check config` and promtool's `check config`: the configuration and all files that it names.
#include "engine/check_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "engine/chart/chart.h"
#include "engine/config/config.h"
#include "engine/discovery/discovery.h"
#include "recognize/recognize.h"

#include <glob.h>
#include <unistd.h>

#define MAX_FILE            ((size_t)16 * 1024 * 1024)
#define DEFAULT_LOOKBACK_MS INT64_C(300000) // of queries

static bool check_readable(const char *path, const char *what)
{
    if (!path || access(path, R_OK) == 0)
        return true;
    fprintf(stderr, "  FAILED: %s \"%s\" cannot be read\n", what, path);
    return false;
}

static bool check_http(const struct endpoint_settings *h)
{
    bool ok = check_readable(h->user.file, "username_file");
    ok = check_readable(h->password.file, "password_file") && ok;
    ok = check_readable(h->credentials.file, "credentials file") && ok;
    ok = check_readable(h->ca.file, "ca_file") && ok;
    ok = check_readable(h->cert.file, "cert_file") && ok;
    if (h->oauth2)
        ok = check_readable(h->oauth2->client_secret.file, "client_secret_file") && ok;
    return check_readable(h->key.file, "key_file") && ok;
}

static bool check_target_file(const char *path)
{
    struct codec_yaml_docs docs = {0};
    GS_AUTO_ERROR struct gs_error *err = discovery_files_load(path, &docs);
    if (err)
        fprintf(stderr, "  FAILED: %s\n", gs_error_message(err));
    codec_yaml_docs_finish(&docs);
    return !err;
}

static bool check_file_sd(const struct engine_config_file_sd *f)
{
    bool ok = true;
    for (size_t i = 0; i < f->n_files; i++) {
        glob_t found;
        if (glob(f->files[i], 0, NULL, &found) != 0) {
            printf("  WARNING: no file matches \"%s\" (yet)\n", f->files[i]);
            continue;
        }
        for (size_t k = 0; k < found.gl_pathc; k++)
            ok = check_target_file(found.gl_pathv[k]) && ok;
        globfree(&found);
    }
    return ok;
}

// The files of a configuration's rule_files.
struct rule_files {
    char **items;
    size_t n, cap;
};

static void rule_files_finish(struct rule_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->items[i]);
    free(f->items);
}

static bool find_rule_files(const struct engine_check_options *o, const char *pattern,
                            struct rule_files *files)
{
    glob_t found;
    bool magic = strpbrk(pattern, "*?[") != NULL;
    if (glob(pattern, 0, NULL, &found) != 0) {
        if (!magic && o->promtool_texts)
            fprintf(stderr, "  FAILED: \"%s\" does not point to an existing file\n", pattern);
        else if (!magic)
            fprintf(stderr, "  FAILED: no rule file matches \"%s\"\n", pattern);
        else if (!o->promtool_texts)
            printf("  WARNING: no rule file matches \"%s\"\n", pattern);
        return magic;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        gs_grow(&files->items, &files->cap, files->n, sizeof(*files->items));
        files->items[files->n++] = gs_strdup(found.gl_pathv[i]);
    }
    globfree(&found);
    return true;
}

static bool check_discovery(const struct engine_config_sd_configs *sd)
{
    bool ok = true;
    for (size_t i = 0; i < sd->n_files; i++)
        ok = check_file_sd(&sd->files[i]) && ok;
    for (size_t i = 0; i < sd->n_http; i++)
        ok = check_http(&sd->http[i].http) && ok;
    return ok;
}

// A job with no other discovery than those that the engine does not have never finds a target.
static bool check_has_discovery(const struct engine_config_scrape_config *s)
{
    const struct engine_config_sd_configs *sd = &s->sd;
    if (!sd->n_unsupported || sd->n_statics || sd->n_files || sd->n_http || sd->n_dns ||
        sd->n_kubernetes)
        return true;
    fprintf(stderr,
            "  FAILED: the job \"%s\" never finds a target: its service discovery is not "
            "supported. Use file_sd_configs, http_sd_configs, dns_sd_configs or "
            "kubernetes_sd_configs.\n",
            s->job_name);
    return false;
}

static bool check_parts(const struct engine_config *c)
{
    bool ok = true;
    for (size_t i = 0; i < c->n_scrapes; i++) {
        ok = check_http(&c->scrapes[i].http) && ok;
        ok = check_discovery(&c->scrapes[i].sd) && ok;
    }
    for (size_t i = 0; i < c->n_alertmanagers; i++) {
        ok = check_http(&c->alertmanagers[i].http) && ok;
        ok = check_discovery(&c->alertmanagers[i].sd) && ok;
    }
    for (size_t i = 0; i < c->n_remote_writes; i++)
        ok = check_http(&c->remote_writes[i].http) && ok;
    return ok;
}

// --- the kind of a file ---

enum file_kind { FILE_CONFIG, FILE_VALUES, FILE_MANIFESTS };

// A file that cannot be read as YAML is reported as a configuration.
static enum file_kind section_kind(const struct codec_yaml_docs *docs)
{
    for (size_t i = 0; i < docs->len; i++) {
        if (chart_is_values(docs->items[i].value))
            return FILE_VALUES;
        if (json_object_get(docs->items[i].value, "apiVersion") &&
            json_object_get(docs->items[i].value, "kind"))
            return FILE_MANIFESTS;
    }
    return FILE_CONFIG;
}

bool engine_check_is_values(const char *path)
{
    struct codec_yaml_docs docs = {0};
    GS_AUTO_ERROR struct gs_error *err = codec_yaml_load_file(path, &docs);
    bool is = !err && section_kind(&docs) == FILE_VALUES;
    codec_yaml_docs_finish(&docs);
    return is;
}

// --- a file ---

// As in promtool, the first job that is scraped too rarely is reported.
static bool check_intervals(const struct engine_check_options *o, const struct engine_config *c)
{
    int64_t lookback = o->lookback_ms ? o->lookback_ms : DEFAULT_LOOKBACK_MS;
    for (size_t i = 0; i < c->n_scrapes; i++) {
        if (c->scrapes[i].interval_ms < lookback)
            continue;
        char interval[GS_RFC3339_SIZE];
        fprintf(stderr,
                "  FAILED: too long scrape interval found, data point will be marked as stale - "
                "job: %s, interval: %s\n",
                c->scrapes[i].job_name,
                gs_format_units(c->scrapes[i].interval_ms * GS_NS_PER_MS, interval));
        return false;
    }
    return true;
}

static enum file_kind kind_of(struct gs_slice text, const char *path)
{
    struct codec_yaml_docs docs = {0};
    gs_error_free(codec_yaml_parse(text, path, &docs));
    enum file_kind kind = section_kind(&docs);
    codec_yaml_docs_finish(&docs);
    return kind;
}

// Prints the program of a file that is no configuration. promtool accepts an empty file.
static bool is_foreign(const struct engine_check_options *o, const char *path, struct gs_slice text)
{
    if (o->promtool_texts)
        return false;
    GS_AUTO_FREE char *foreign =
        recognize_foreign(text, RECOGNIZE_CONFIG,
                          "a Prometheus configuration, Helm values of kube-prometheus-stack or "
                          "prometheus-adapter, or "
                          "ServiceMonitor and PodMonitor objects");
    if (foreign)
        fprintf(stderr, "  FAILED: %s: %s\n\n", path, foreign);
    return foreign != NULL;
}

static void print_valid(const struct engine_check_options *o, const char *path,
                        const struct engine_config *c, size_t n_rule_files)
{
    if (o->promtool_texts) {
        if (n_rule_files)
            printf("  SUCCESS: %zu rule files found\n", n_rule_files);
        printf(" SUCCESS: %s is valid prometheus config file syntax\n", path);
        return;
    }
    const struct engine_check_counts counts = {.scrapes = c->n_scrapes,
                                               .alertmanagers = c->n_alertmanagers,
                                               .remote_writes = c->n_remote_writes,
                                               .rule_files = n_rule_files};
    GS_AUTO_FREE char *text = engine_check_counts_text(&counts);
    printf("  SUCCESS: %s is valid prometheus config file syntax: %s\n", path,
           text ? text : "0 scrape configs");
}

static void check_prometheus_config(const struct engine_check_options *o,
                                    const struct engine_lint *lint, const char *path,
                                    struct engine_check_outcome *outcome)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *c = NULL;
    GS_AUTO_ERROR struct gs_error *err = engine_config_load(path, &c);
    if (err) {
        fprintf(stderr, "  FAILED: %s\n\n", gs_error_message(err));
        outcome->wrong = true;
        return;
    }
    for (size_t i = 0; i < c->n_ignored; i++)
        printf("  WARNING: %s\n", c->ignored[i]);
    bool ok = o->syntax_only || check_parts(c);
    GS_CLEANUP(rule_files_finish) struct rule_files rule_files = {0};
    for (size_t i = 0; i < c->n_scrapes; i++)
        ok = check_has_discovery(&c->scrapes[i]) && ok;
    for (size_t i = 0; i < c->n_rule_files && !o->syntax_only; i++)
        ok = find_rule_files(o, c->rule_files[i], &rule_files) && ok;
    if (ok && (o->promtool_texts || !(o->strict && c->n_ignored)))
        print_valid(o, path, c, rule_files.n);
    printf("\n");
    (void)fflush(stdout);
    outcome->wrong = outcome->wrong || !ok;
    outcome->doubted = outcome->doubted || (o->strict && c->n_ignored);
    if (!o->syntax_only && lint->too_long_scrape_interval && !check_intervals(o, c))
        outcome->doubted = true;
    for (size_t i = 0; i < rule_files.n; i++)
        engine_check_rule_file(o, lint, rule_files.items[i], true, outcome);
}

static void check_config_file(const struct engine_check_options *o, const struct engine_lint *lint,
                              const char *path, struct engine_check_outcome *outcome)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    bool ok = true;
    printf("Checking %s\n", path);
    (void)fflush(stdout);
    // A file that cannot be read is reported as a configuration.
    gs_error_free(gs_file_read(path, MAX_FILE, &text));
    switch (kind_of(gs_buf_slice(&text), path)) {
    case FILE_VALUES:
        ok = engine_check_values(o, path, gs_buf_slice(&text));
        break;
    case FILE_MANIFESTS:
        ok = engine_check_manifests(o, path, gs_buf_slice(&text));
        break;
    case FILE_CONFIG:
        ok = access(path, R_OK) != 0 || !is_foreign(o, path, gs_buf_slice(&text));
        if (ok)
            check_prometheus_config(o, lint, path, outcome);
        break;
    }
    outcome->wrong = outcome->wrong || !ok;
}

int engine_check_config(const struct engine_check_options *o, int n_files, char **files)
{
    struct engine_lint lint = engine_lint_of(o, true);
    struct engine_check_outcome outcome = {0};
    for (int i = 0; i < n_files; i++)
        check_config_file(o, &lint, files[i], &outcome);
    return engine_check_exit(o, &outcome);
}
