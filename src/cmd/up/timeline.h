// SPDX-License-Identifier: Apache-2.0
// What happened, for the table at the end: a row whenever the load starts or ends and whenever a
// replica count changes.
#pragma once

#include "base/buf.h"

#include <stdint.h>

struct up_timeline;

struct up_timeline *up_timeline_new(int64_t start_ms);
void up_timeline_free(struct up_timeline *t);
// gpu_percent NAN: not known. why is one line.
void up_timeline_add(struct up_timeline *t, int64_t now_ms, bool load, double gpu_percent,
                     const char *replicas, const char *why);
// columns: of the window, where long reasons break below themselves; 0: they do not.
void up_timeline_print(const struct up_timeline *t, size_t columns, struct gs_buf *out);
