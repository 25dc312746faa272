// SPDX-License-Identifier: Apache-2.0
// A store's directory with arbitrary files: it opens, responds to queries and stores samples, which
// exist after another start.
//
// The input is a sequence of files. Each has a byte of flags (bit 0: blocks, else log; bit 1: raw
// bytes, else records with correct checksums; bit 2: zeros after them, so that blocks are not near
// the end of their file) and a length.
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "tsdb/tsdb.h"
#include "tsdb/wal.h"

#include <dirent.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_FILES 4

struct input {
    const uint8_t *at, *end;
};

static size_t take(struct input *in, size_t n, const uint8_t **ret)
{
    size_t left = (size_t)(in->end - in->at);
    n = n < left ? n : left;
    *ret = in->at;
    in->at += n;
    return n;
}

static unsigned number(struct input *in, size_t bytes)
{
    const uint8_t *p;
    unsigned v = 0;
    for (size_t i = 0, n = take(in, bytes, &p); i < n; i++)
        v = v << 8 | p[i];
    return v;
}

// type, length (2 bytes), payload
static void add_records(struct input *in, struct gs_buf *out)
{
    while (in->at < in->end) {
        enum tsdb_wal_type type = (enum tsdb_wal_type)(number(in, 1) % 6);
        const uint8_t *payload;
        size_t n = take(in, number(in, 2), &payload), start = tsdb_wal_record_begin(out, type);
        gs_buf_add(out, payload, n);
        tsdb_wal_record_end(out, start);
    }
}

static void write_file(const char *dir, struct input *in, int i)
{
    unsigned kind = number(in, 1);
    struct input body = {0};
    size_t n = take(in, number(in, 2), &body.at);
    body.end = body.at + n;
    bool blocks = kind & 1;
    GS_AUTO_BUF struct gs_buf content = {0};
    GS_AUTO_FREE char *path = gs_format("%s/wal/%s-%08d", dir, blocks ? "blocks" : "wal", i + 1);
    if (kind & 2) {
        gs_buf_add(&content, body.at, n);
    } else {
        gs_buf_add_str(&content, blocks ? TSDB_WAL_BLOCKS_MAGIC : TSDB_WAL_SEGMENT_MAGIC);
        if (!blocks)
            gs_buf_add(&content, "\1\0\0\0\0\0\0\0", 8); // one run
        add_records(&body, &content);
    }
    static const char zeros[2000];
    if (kind & 4)
        gs_buf_add(&content, zeros, sizeof(zeros));
    FILE *f = fopen(path, "w");
    if (!f || fwrite(content.data ? content.data : "", 1, content.len, f) != content.len)
        abort();
    (void)fclose(f);
}

static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            (void)unlink(path);
    }
    if (d)
        closedir(d);
    (void)rmdir(dir);
}

// Reads everything.
static void look(const struct tsdb *db)
{
    struct tsdb_refs refs = {0};
    struct tsdb_samples samples = {0};
    if (tsdb_find(db, NULL, 0, INT64_MIN, INT64_MAX, 0, &refs))
        abort();
    for (size_t i = 0; i < refs.len; i++) {
        (void)tsdb_series_labels(db, refs.items[i]);
        tsdb_read(db, refs.items[i], INT64_MIN, INT64_MAX, &samples);
        for (size_t k = 1; k < samples.n; k++)
            if (samples.t[k] <= samples.t[k - 1])
                abort();
    }
    tsdb_samples_finish(&samples);
    tsdb_refs_finish(&refs);
}

static bool has_own(const struct tsdb *db, int64_t t_ms, double value)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), GS_SLICE("fuzz"), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    struct tsdb_samples samples = {0};
    bool found = false;
    gs_error_free(tsdb_find(db, &m, 1, t_ms, t_ms, 0, &refs));
    for (size_t i = 0; i < refs.len; i++) {
        tsdb_read(db, refs.items[i], t_ms, t_ms, &samples);
        found = found || (samples.n == 1 && samples.v[0] == value);
    }
    tsdb_samples_finish(&samples);
    tsdb_refs_finish(&refs);
    return found;
}

// Appends a sample, and finds the samples of earlier starts.
static void start_store(const struct tsdb_config *cfg, int start, bool *stored)
{
    static const struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("fuzz")}};
    const int64_t t = INT64_C(1) << 49;
    struct tsdb *db = NULL;
    if (tsdb_open(cfg, &db))
        abort();
    look(db);
    for (int i = 0; i < start; i++)
        if (stored[i] && !has_own(db, t + i, i + 0.5))
            abort();
    struct gs_error *err = tsdb_append(db, l, 1, t + start, start + 0.5);
    stored[start] = !err;
    gs_error_free(err);
    tsdb_sync(db);
    look(db);
    tsdb_free(db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char memory[] = "/dev/shm/fuzz-wal-XXXXXX", disk[] = "/tmp/fuzz-wal-XXXXXX";
    char *dir = mkdtemp(memory);
    if (!dir)
        dir = mkdtemp(disk);
    if (!dir)
        abort();
    struct input in = {data, data + size};
    const struct tsdb_config cfg = {.storage_path = dir, .retention_ms = INT64_C(1) << 51};
    gs_log_configure(GS_LOG_ERROR, GS_LOG_TEXT);
    GS_AUTO_FREE char *wal = gs_format("%s/wal", dir);
    gs_error_free(gs_mkdir_p(wal, 0700));
    for (int i = 0; i < MAX_FILES && in.at < in.end; i++)
        write_file(dir, &in, i);
    bool stored[2] = {false};
    for (int start = 0; start < 2; start++)
        start_store(&cfg, start, stored);
    remove_folder(wal);
    (void)rmdir(dir);
    return 0;
}
