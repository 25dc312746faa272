// SPDX-License-Identifier: Apache-2.0
// Writes the built-in counters files, to be installed as files to begin with: gpuscale-counters DIR
// writes DIR/default-counters.csv and DIR/1.x-compatibility-metrics.csv.
#include "exporter/counters.h"
#include "base/file.h"
#include "base/mem.h"

static const char *const files[] = {"default-counters.csv", "1.x-compatibility-metrics.csv"};

static void add_rows(struct gs_buf *out, const struct exporter_counters *c)
{
    for (size_t i = 0; i < c->len; i++) {
        const struct exporter_counter *row = &c->rows[i];
        const char *quote = strchr(row->help, ',') ? "\"" : "";
        gs_buf_addf(out, "%s, %s, %s%s%s\n", row->name, row->type, quote, row->help, quote);
    }
}

static struct gs_error *write_file(const char *folder, const char *name)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_FREE char *path = gs_format("%s/%s", folder, name);
    struct exporter_counters built_in, read;
    if (!exporter_counters_builtin(name, &built_in))
        return gs_error_new(GS_EINVAL, "%s is not built in", name);
    gs_buf_addf(
        &text,
        "# The built-in %s of gpuscale exporter.\n"
        "# Columns: field, type in Prometheus, help. gpuscale exporter --list-fields prints "
        "all fields.\n",
        name);
    add_rows(&text, &built_in);
    struct gs_error *err = exporter_counters_parse(gs_buf_slice(&text), &read);
    if (!err) {
        if (read.len != built_in.len || read.n_warnings)
            err = gs_error_new(GS_EINVAL, "%s is not read as it was written", name);
        exporter_counters_finish(&read);
    }
    exporter_counters_finish(&built_in);
    return err ? err : gs_file_write_atomic(path, 0644, gs_buf_slice(&text));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "Usage: gpuscale-counters DIR\n");
        return 2;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        GS_AUTO_ERROR struct gs_error *err = write_file(argv[1], files[i]);
        if (err) {
            fprintf(stderr, "gpuscale-counters: %s\n", gs_error_message(err));
            return 1;
        }
    }
    return 0;
}
