// SPDX-License-Identifier: Apache-2.0
// Where the samples of `gpuscale up` are: a folder of the data directory of limited size, or memory
// only.
#include "up/up_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/encoding.h"

#define MEMORY_RETENTION_MS 900000 // enough for the rules and dashboards of a session
#define LEAST_BYTES         ((size_t)16 << 20)
// Parts of the space. The log grows to twice its part while a snapshot is written. A new file of
// chunks is at most as large as the rest.
#define FILES_PART(bytes) ((bytes) / 2)
#define LOG_PART(bytes)   ((bytes) / 8)
#define MAX_LOG           ((size_t)64 << 20)

static struct gs_error *read_size(const struct up_options *o, size_t *ret)
{
    if (!o->retention_size)
        return NULL;
    if (!codec_parse_size(o->retention_size, ret) || *ret < LEAST_BYTES)
        return gs_error_new(GS_EINVAL,
                            "--retention-size %s: want a size of at least 16MB, such as 512MB",
                            o->retention_size);
    return NULL;
}

struct gs_error *up_store_check(const struct up_options *o)
{
    size_t bytes;
    if (o->retention > 0 && o->retention < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--retention: want 0 (in memory only) or at least 1s");
    return read_size(o, &bytes);
}

struct gs_error *up_store_config(const struct up_options *o, const char *dir,
                                 struct tsdb_config *ret)
{
    size_t bytes = 0;
    struct gs_error *err = read_size(o, &bytes);
    if (err)
        return err;
    *ret = (struct tsdb_config){.retention_ms = MEMORY_RETENTION_MS};
    if (o->retention == 0)
        return NULL;
    err = gs_mkdir_p(dir, 0700);
    if (err)
        return gs_error_wrap(err, "the folder of samples (--retention 0 keeps them in memory)");
    *ret = (struct tsdb_config){.retention_ms = o->retention / GS_NS_PER_MS,
                                .max_bytes = bytes,
                                .max_file_bytes = FILES_PART(bytes),
                                .snapshot_bytes =
                                    LOG_PART(bytes) < MAX_LOG ? LOG_PART(bytes) : MAX_LOG,
                                .storage_path = dir};
    return NULL;
}
