// SPDX-License-Identifier: Apache-2.0
// The web interface: static pages that read the HTTP API of Prometheus, and a stream of events that
// reports new data. The files of web/ are compressed into the program when it is built
// (tools/embed-web). All pages are read-only and load nothing from other hosts. docs/web.md
// describes them.
//
// All functions are called on the thread of the loop.
#pragma once

#include "net/http/http.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct web;

struct web_options {
    uv_loop_t *loop;
    // Returns a number that changes when there are new data. It is called once a second while a
    // page is open. NULL: there are no events, and pages poll.
    uint64_t (*version)(void *arg);
    void *arg;
    // The file of the page at "/", the only one. NULL: all pages of the engine. There are no events
    // then.
    const char *only_page;
};

struct web *web_new(const struct web_options *o);
// Ends the streams. Accepts NULL.
void web_free(struct web *w);

// Answers a request for a page, a file of a page or /events. path: the path of the request without
// the route prefix. Returns false and leaves the exchange untouched for other paths.
bool web_handle(struct web *w, struct http_exchange *x, struct gs_slice path);
// For a path that nobody else answers: a page with the status 404 and a way back, if a browser
// requests it. False: not answered.
bool web_handle_unknown(struct http_exchange *x, struct gs_slice path);
