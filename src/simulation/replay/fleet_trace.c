// SPDX-License-Identifier: Apache-2.0
// Jobs from a recorded trace: a CSV file with a header line. The columns "at" and "run" (seconds)
// are required, "gpus" is optional, and others are ignored. Fields have no quotes.
#include "replay/fleet_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

#include <math.h>

#define MAX_TRACE   ((size_t)64 << 20)
#define MAX_COLUMNS 64
#define MAX_TIME_S  (366 * 86400.0)

struct trace {
    const char *path;
    size_t line;
    int at, run, gpus; // columns; -1: absent
    struct gs_slice fields[MAX_COLUMNS];
    size_t n_fields;
};

static struct gs_error *wrong(const struct trace *t, const char *why)
{
    return gs_error_new(GS_EINVAL, "%s:%zu: %s", t->path, t->line, why);
}

static struct gs_error *split(struct trace *t, struct gs_slice line)
{
    t->n_fields = 0;
    while (line.data) {
        if (t->n_fields == MAX_COLUMNS)
            return wrong(t, "too many columns");
        t->fields[t->n_fields++] = gs_slice_trim(gs_slice_cut(&line, ','));
    }
    return NULL;
}

static struct gs_error *read_header(struct trace *t, struct gs_slice line)
{
    struct gs_error *err = split(t, line);
    if (err)
        return err;
    t->at = t->run = t->gpus = -1;
    for (size_t i = 0; i < t->n_fields; i++) {
        int *column = gs_slice_eq_str(t->fields[i], "at")     ? &t->at
                      : gs_slice_eq_str(t->fields[i], "run")  ? &t->run
                      : gs_slice_eq_str(t->fields[i], "gpus") ? &t->gpus
                                                              : NULL;
        if (column && *column >= 0)
            return wrong(t, "a column occurs twice");
        if (column)
            *column = (int)i;
    }
    return t->at >= 0 && t->run >= 0 ? NULL
                                     : wrong(t, "want the columns at, run (seconds) and gpus");
}

static bool read_field(const struct trace *t, int column, double max, double *ret)
{
    struct gs_error *err = column < 0 || (size_t)column >= t->n_fields
                               ? gs_error_new(GS_EINVAL, "absent")
                               : gs_parse_double(t->fields[column], ret);
    bool ok = !err && *ret >= 0 && *ret <= max; // not NaN
    gs_error_free(err);
    return ok;
}

static struct gs_error *read_row(struct trace *t, struct gs_slice line, size_t gpus,
                                 struct replay_job *ret)
{
    double at = 0, run = 0, n = (double)gpus;
    struct gs_error *err = split(t, line);
    if (err)
        return err;
    if (!read_field(t, t->at, MAX_TIME_S, &at))
        return wrong(t, "at: want seconds, at most a year");
    if (!read_field(t, t->run, MAX_TIME_S, &run))
        return wrong(t, "run: want seconds, at most a year");
    if (t->gpus >= 0 && (!read_field(t, t->gpus, (double)REPLAY_MAX_GPUS, &n) || n != floor(n)))
        return wrong(t, "gpus: want a whole number up to 1024");
    *ret = (struct replay_job){(int64_t)ceil(at) * 1000, (int64_t)fmax(ceil(run), 1) * 1000,
                               (size_t)n};
    return NULL;
}

static struct gs_error *read_rows(struct trace *t, struct gs_slice rest, size_t gpus,
                                  struct replay_job **jobs, size_t *n)
{
    size_t cap = 0;
    for (t->line = 1; rest.data; t->line++) {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&rest, '\n'));
        struct gs_error *err = NULL;
        if (t->line > 1 && !line.len)
            continue;
        if (*n == REPLAY_MAX_JOBS)
            return wrong(t, "too many jobs");
        gs_grow(jobs, &cap, *n, sizeof(**jobs));
        err = t->line == 1 ? read_header(t, line) : read_row(t, line, gpus, &(*jobs)[*n]);
        if (err)
            return err;
        if (t->line > 1 && *n && (*jobs)[*n].at_ms < (*jobs)[*n - 1].at_ms)
            return wrong(t, "rows must be in the order of \"at\"");
        *n += t->line > 1;
    }
    return NULL;
}

struct gs_error *replay_fleet_read_trace(const char *path, size_t gpus, struct replay_job **ret,
                                         size_t *ret_n)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct trace t = {.path = path};
    struct replay_job *jobs = NULL;
    size_t n = 0;
    struct gs_error *err = gs_file_read(path, MAX_TRACE, &text);
    if (!err)
        err = read_rows(&t, gs_buf_slice(&text), gpus, &jobs, &n);
    if (!err && !n)
        err = gs_error_new(GS_EINVAL, "%s: no jobs", path);
    if (err) {
        free(jobs);
        return err;
    }
    *ret = jobs;
    *ret_n = n;
    return NULL;
}
