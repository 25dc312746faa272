// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the web interface: the embedded files, which are stored compressed, and
// the open streams of events.
#pragma once

#include "base/timer.h"
#include "web/web.h"

// One file. The table is written by tools/embed-web.
struct web_file {
    const char *name; // "main.js"
    const char *type; // Content-Type
    const char *etag; // quoted
    const unsigned char *gzip;
    size_t gzip_len, plain_len; // bytes
};
extern const struct web_file web_files[];
extern const size_t web_n_files;
extern const char web_version[]; // of all files; a part of their addresses in pages

struct web {
    struct web_options o;
    // events.c
    struct web_stream *streams;
    size_t n_streams;
    struct gs_timer *timer; // runs while there are streams
    uint64_t version;       // that the streams have
    unsigned quiet;         // ticks without a new version
};

// Answers with a stream of server-sent events (https://html.spec.whatwg.org/#server-sent-events).
void web_events_open(struct web *w, struct http_exchange *x);
void web_events_finish(struct web *w);
