// SPDX-License-Identifier: Apache-2.0
#include "engine/check.h"

#include "base/mem.h"
#include "codec/yaml.h"
#include "engine/config/config.h"
#include "engine/discovery/discovery.h"

#include <glob.h>
#include <unistd.h>

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

static bool check_config_file(const struct engine_check_options *o, const char *path)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *c = NULL;
    printf("Checking %s\n", path);
    (void)fflush(stdout);
    GS_AUTO_ERROR struct gs_error *err = engine_config_load(path, &c);
    if (err) {
        fprintf(stderr, "  FAILED: %s\n\n", gs_error_message(err));
        return false;
    }
    for (size_t i = 0; i < c->n_ignored; i++)
        printf("  WARNING: %s\n", c->ignored[i]);
    bool ok = check_parts(c) && !(o->strict && c->n_ignored);
    if (ok)
        printf("  SUCCESS: %s is valid prometheus config file syntax: %zu scrape configs\n\n", path,
               c->n_scrapes);
    size_t n_rule_files = 0;
    for (size_t i = 0; i < c->n_rule_files; i++)
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
