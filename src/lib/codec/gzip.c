// SPDX-License-Identifier: Apache-2.0
// Gzip of RFC 1952 in memory. Unpacking is limited, because a kilobyte may become a megabyte.
// Every 256 KiB a callback decides whether to go on, so that a fiber can pause in between.
#include "codec/encoding.h"

#include <limits.h>
#include <zlib.h>

enum {
    GZIP_WINDOW = 15 + 16,   // zlib: 15 window bits, +16 selects the gzip wrapper
    CHECK_EVERY = 256 * 1024 // unpacked bytes
};

struct gs_error *codec_gzip(struct gs_slice in, bool (*go_on)(void *arg), void *arg,
                            struct gs_buf *ret)
{
    z_stream z = {0};
    size_t done = 0;
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return gs_error_new(GS_EIO, "gzip: cannot start");
    GS_AUTO_BUF struct gs_buf out = {0};
    unsigned char chunk[16384];
    int state = Z_OK;
    bool stopped = false;
    while (state == Z_OK && !stopped) {
        if (!z.avail_in) {
            size_t n = in.len - done < CHECK_EVERY ? in.len - done : CHECK_EVERY;
            stopped = done && go_on && !go_on(arg);
            z.next_in = (Bytef *)in.data + done;
            z.avail_in = (uInt)n;
            done += n;
        }
        z.next_out = chunk;
        z.avail_out = sizeof(chunk);
        state = deflate(&z, done < in.len ? Z_NO_FLUSH : Z_FINISH);
        gs_buf_add(&out, chunk, sizeof(chunk) - z.avail_out);
    }
    deflateEnd(&z);
    if (stopped)
        return gs_error_new(GS_ECONFLICT, "gzip: stopped");
    if (state != Z_STREAM_END)
        return gs_error_new(GS_EIO, "gzip: compression failed");
    *ret = out;
    out = (struct gs_buf){0};
    return NULL;
}

struct gs_error *codec_gunzip(struct gs_slice in, size_t max, bool (*go_on)(void *arg), void *arg,
                              struct gs_buf *ret)
{
    if (in.len > UINT_MAX)
        return gs_error_new(GS_ELIMIT, "gzip: more than 4 GiB at once");
    z_stream z = {.next_in = (Bytef *)in.data, .avail_in = (uInt)in.len};
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return gs_error_new(GS_EIO, "gzip: cannot start");
    GS_AUTO_BUF struct gs_buf out = {.limit = max};
    unsigned char chunk[16384];
    int state = Z_OK;
    size_t checked_at = 0;
    bool stopped = false;
    while (state == Z_OK && !out.overflow && !stopped) {
        if (go_on && out.len - checked_at >= CHECK_EVERY) {
            checked_at = out.len;
            stopped = !go_on(arg);
        }
        z.next_out = chunk;
        z.avail_out = sizeof(chunk);
        state = inflate(&z, Z_NO_FLUSH);
        gs_buf_add(&out, chunk, sizeof(chunk) - z.avail_out);
        if (state == Z_STREAM_END && z.avail_in > 0) // a further member follows
            state = inflateReset(&z);
    }
    inflateEnd(&z);
    if (stopped)
        return gs_error_new(GS_ECONFLICT, "gzip: stopped");
    if (out.overflow)
        return gs_error_new(GS_ELIMIT, "gzip: more than %zu bytes when unpacked", max);
    if (state != Z_STREAM_END)
        return gs_error_new(GS_EINVAL, "gzip: corrupt or truncated data");
    gs_buf_add(&out, "", 0);
    out.limit = 0;
    *ret = out;
    out = (struct gs_buf){0};
    return NULL;
}
