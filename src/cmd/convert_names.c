// SPDX-License-Identifier: Apache-2.0
// `gpuscale convert dashboards` and `gpuscale convert rules`: names of GPU metrics in files.
#include "aliases/documents.h"
#include "base/file.h"
#include "base/mem.h"
#include "cmd/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILE = 16 * 1024 * 1024 };

struct convert_names_opts {
    const char *to;
    bool write;
};

static struct gs_error *read_release(const char *text, enum aliases_release *ret)
{
    if (!gs_streq(text, "4.9") && !gs_streq(text, "4.8"))
        return gs_error_new(GS_EINVAL, "--to=%s: want 4.9 or 4.8", text);
    *ret = gs_streq(text, "4.9") ? ALIASES_4_9 : ALIASES_4_8;
    return NULL;
}

// A link stays one, and the file keeps its permissions.
static struct gs_error *replace_file(const char *path, struct gs_slice text)
{
    struct stat st;
    GS_AUTO_FREE char *target = realpath(path, NULL);
    if (!target || stat(target, &st) != 0)
        return gs_error_new(GS_EIO, "%s: %s", path, strerror(errno));
    return gs_file_write_atomic(target, st.st_mode & 0777, text);
}

static struct gs_error *convert_file(const struct convert_names_opts *o, const char *path,
                                     enum aliases_release to, struct aliases_report *report)
{
    bool from_input = gs_streq(path, "-");
    GS_AUTO_BUF struct gs_buf old = {0}, new = {0};
    struct gs_error *err = gs_file_read(from_input ? "/dev/stdin" : path, MAX_FILE, &old);
    if (!err)
        err = aliases_convert_document(gs_buf_slice(&old), path, to, report, &new);
    if (err)
        return err;
    if (o->write && !from_input)
        return gs_slice_eq(gs_buf_slice(&old), gs_buf_slice(&new))
                   ? NULL
                   : replace_file(path, gs_buf_slice(&new));
    if (fwrite(new.data, 1, new.len, stdout) != new.len || fflush(stdout) != 0)
        return gs_error_new(GS_EIO, "standard output: %s", strerror(errno));
    return NULL;
}

static void print_lines(const struct gs_buf *lines, const char *prefix)
{
    struct gs_slice rest = gs_buf_slice(lines);
    while (rest.len) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        fprintf(stderr, "%s" GS_SLICE_FMT "\n", prefix, GS_SLICE_ARG(line));
    }
}

static struct gs_error *run_convert_names(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct convert_names_opts *o = opts;
    ALIASES_AUTO_REPORT struct aliases_report report = {{0}};
    enum aliases_release to = ALIASES_4_9;
    struct gs_error *err = read_release(o->to, &to);
    if (!err && argc > 1 && !o->write)
        err = gs_error_new(GS_EINVAL, "several files need --write, which replaces them");
    for (int i = 0; i < argc && !err; i++)
        err = convert_file(o, argv[i], to, &report);
    if (err)
        return err;
    print_lines(&report.changes, "  ");
    print_lines(&report.problems, "");
    fprintf(stderr, "%zu texts converted to the names of dcgm-exporter %s, %zu not converted\n",
            report.n_changed, o->to, report.n_problems);
    *ret_exit = report.n_problems ? 1 : 0;
    return NULL;
}

static const struct gs_opt opts[] = {
    {"to", GS_OPT_STRING, offsetof(struct convert_names_opts, to), "RELEASE", "4.9",
     .help = "Release of dcgm-exporter whose names the file gets: 4.9 or 4.8."},
    {"write", GS_OPT_BOOL, offsetof(struct convert_names_opts, write), .alias = "w",
     .help = "Replace the files. Otherwise the new file is written to standard output."},
    {0},
};

#define DESCRIPTION                                                                                \
    "Replaces the names of GPU metrics by those of another release of dcgm-exporter, and "         \
    "multiplies by the factor between their units, so that values, thresholds and units of axes "  \
    "stay as they are. Comments and format of the file stay. The changes are printed to standard " \
    "error, and what has to be changed by hand, with its line. Then the exit code is 1."

const struct gs_command cmd_convert_dashboards = {
    .name = "dashboards",
    .within = "convert",
    .args = "FILE…",
    .summary =
        "Convert dashboards of Grafana between the metric names of dcgm-exporter 4.8 and 4.9.",
    .description = DESCRIPTION " A file is a dashboard as JSON, or a ConfigMap with dashboards.",
    .examples = "gpuscale convert dashboards nvidia.json > new.json\n"
                "gpuscale convert dashboards --write dashboards/*.json",
    .opts = opts,
    .opts_size = sizeof(struct convert_names_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run_convert_names,
};

const struct gs_command cmd_convert_rules = {
    .name = "rules",
    .within = "convert",
    .args = "FILE…",
    .summary = "Convert rules between the metric names of dcgm-exporter 4.8 and 4.9.",
    .description = DESCRIPTION " A file is a rule file of Prometheus, a PrometheusRule object, or "
                               "Helm values with rules.",
    .examples = "gpuscale convert rules alerts.yaml > new.yaml\n"
                "gpuscale convert rules --to=4.8 --write alerts.yaml",
    .opts = opts,
    .opts_size = sizeof(struct convert_names_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run_convert_names,
};
