// SPDX-License-Identifier: Apache-2.0
// The file of --collectors. If a path of dcgm-exporter's image does not exist, the built-in file
// of that name is used, so its manifests work unchanged.
#include "exporter/daemon/daemon_private.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#define DEFAULT_COUNTERS "/etc/dcgm-exporter/default-counters.csv"
enum { MAX_CSV = 1024 * 1024 };

static void log_warnings(const char *source, const struct exporter_counters *c)
{
    for (size_t i = 0; i < c->n_warnings; i++)
        gs_warn("exporter", "%s: %s", source, c->warnings[i]);
}

struct gs_error *daemon_parse_counters(const char *source, struct gs_slice text,
                                       enum exporter_names names, struct exporter_counters *ret)
{
    struct gs_error *err = exporter_counters_parse(text, ret);
    if (err)
        return gs_error_wrap(err, "%s", source);
    log_warnings(source, ret);
    exporter_counters_rename(ret, names);
    return NULL;
}

const char *daemon_counters_path(const char *path)
{
    return path ? path : DEFAULT_COUNTERS;
}

// The default metrics of 4.9 are one more.
static bool use_builtin(const char *file, enum exporter_names names, struct exporter_counters *ret)
{
    bool new_default = names == EXPORTER_NAMES_4_9 || names == EXPORTER_NAMES_BOTH;
    const char *slash = strrchr(file, '/');
    if (new_default && gs_streq(slash ? slash + 1 : file, "default-counters.csv"))
        file = "default-counters-4.9.csv";
    return exporter_counters_builtin(file, ret);
}

struct gs_error *daemon_load_counters(const char *path, enum exporter_names names,
                                      struct exporter_counters *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *file = daemon_counters_path(path);
    struct gs_error *err = gs_file_read(file, MAX_CSV, &text);
    if (!err)
        return daemon_parse_counters(file, gs_buf_slice(&text), names, ret);
    if (gs_error_code(err) == GS_ENOTFOUND && use_builtin(file, names, ret)) {
        if (path)
            gs_info("exporter", "%s does not exist; the built-in file of this name is used", path);
        gs_error_free(err);
        exporter_counters_rename(ret, names);
        return NULL;
    }
    return gs_error_wrap(err, "--collectors");
}
