// SPDX-License-Identifier: Apache-2.0
#include "engine/check.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "engine/chart/chart.h"
#include "engine/config/config.h"
#include "engine/discovery/discovery.h"
#include "engine/monitors/monitors.h"

#include <glob.h>
#include <unistd.h>

#define MAX_FILE ((size_t)16 * 1024 * 1024)

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

static bool check_rule_glob(const struct engine_check_options *o, const char *pattern,
                            size_t *ret_n)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) {
        bool magic = strpbrk(pattern, "*?[") != NULL;
        fprintf(magic ? stdout : stderr, "  %s: no rule file matches \"%s\"\n",
                magic ? "WARNING" : "FAILED", pattern);
        return magic;
    }
    *ret_n += found.gl_pathc;
    bool ok = engine_check_rules(o, (int)found.gl_pathc, found.gl_pathv) == 0;
    globfree(&found);
    return ok;
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

// --- Helm values and manifests ---

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

static bool check_values(const struct engine_check_options *o, const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct chart_values v = {0};
    bool found = false;
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (!err)
        err = chart_values_add(gs_buf_slice(&text), path, &v, &found);
    if (err)
        fprintf(stderr, "  FAILED: %s\n\n", gs_error_message(err));
    for (size_t i = 0; !err && i < v.n_notes; i++)
        printf("  WARNING: %s\n", v.notes[i]);
    bool ok = !err && !(o->strict && v.n_notes);
    if (ok)
        printf("  SUCCESS: %s has valid values of kube-prometheus-stack: %zu scrape configs, %zu "
               "objects\n\n",
               path, json_array_size(json_object_get(v.config, "scrape_configs")),
               json_array_size(v.objects));
    chart_values_finish(&v);
    return ok;
}

static bool check_monitor(const struct engine_check_options *o, const char *path,
                          const struct codec_yaml_doc *doc)
{
    GS_AUTO_FREE char *warning = NULL;
    const char *kind = codec_json_str(doc->value, "kind", NULL);
    GS_AUTO_ERROR struct gs_error *err = monitors_check(doc->value, &warning);
    const char *name = codec_json_str(doc->value, "metadata", "name", NULL);
    if (err)
        fprintf(stderr, "  FAILED: %s:%d: %s %s: %s\n", path, doc->line, kind ? kind : "",
                name ? name : "(no name)", gs_error_message(err));
    if (warning)
        printf("  WARNING: %s:%d: %s %s: %s\n", path, doc->line, kind ? kind : "",
               name ? name : "(no name)", warning);
    return !err && !(o->strict && warning);
}

static bool check_manifests(const struct engine_check_options *o, const char *path,
                            const struct codec_yaml_docs *docs)
{
    bool ok = true;
    for (size_t i = 0; i < docs->len; i++)
        ok = check_monitor(o, path, &docs->items[i]) && ok;
    if (ok)
        printf("  SUCCESS: the ServiceMonitor and PodMonitor objects of %s are valid\n\n", path);
    return ok;
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

static bool check_config_file(const struct engine_check_options *o, const char *path)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *c = NULL;
    struct codec_yaml_docs docs = {0};
    printf("Checking %s\n", path);
    (void)fflush(stdout);
    gs_error_free(codec_yaml_load_file(path, &docs));
    enum file_kind kind = section_kind(&docs);
    bool manifests_ok = kind == FILE_MANIFESTS && check_manifests(o, path, &docs);
    codec_yaml_docs_finish(&docs);
    if (kind != FILE_CONFIG)
        return kind == FILE_VALUES ? check_values(o, path) : manifests_ok;
    GS_AUTO_ERROR struct gs_error *err = engine_config_load(path, &c);
    if (err) {
        fprintf(stderr, "  FAILED: %s\n\n", gs_error_message(err));
        return false;
    }
    for (size_t i = 0; i < c->n_ignored; i++)
        printf("  WARNING: %s\n", c->ignored[i]);
    bool ok = o->syntax_only || check_parts(c);
    for (size_t i = 0; i < c->n_scrapes; i++)
        ok = check_has_discovery(&c->scrapes[i]) && ok;
    ok = ok && !(o->strict && c->n_ignored);
    if (ok)
        printf("  SUCCESS: %s is valid prometheus config file syntax: %zu scrape configs\n\n", path,
               c->n_scrapes);
    size_t n_rule_files = 0;
    for (size_t i = 0; i < c->n_rule_files && !o->syntax_only; i++)
        ok = check_rule_glob(o, c->rule_files[i], &n_rule_files) && ok;
    return ok;
}

int engine_check_config(const struct engine_check_options *o, int n_files, char **files)
{
    bool ok = true;
    for (int i = 0; i < n_files; i++)
        ok = check_config_file(o, files[i]) && ok;
    return ok ? 0 : 1;
}
