// SPDX-License-Identifier: Apache-2.0
// Log lines on stderr, one per event, as text or JSON. If stderr is the journal of systemd, text
// lines have its priority (<4>) instead of the time, which it stores itself. Thread-safe: each line
// is one write(). Repeated identical messages of one component within a second are combined into a
// count.
#pragma once

#include "base/attr.h"
#include "base/error.h"

enum gs_log_level { GS_LOG_DEBUG, GS_LOG_INFO, GS_LOG_WARN, GS_LOG_ERROR };
enum gs_log_format { GS_LOG_TEXT, GS_LOG_JSON };

// Process-wide settings. Call before threads start. base/log_level.h changes the level later.
void gs_log_configure(enum gs_log_level min_level, enum gs_log_format format);
struct gs_error *gs_log_configure_text(const char *level, const char *format); // flag values
enum gs_log_level gs_log_level(void);
// Redirects lines to a sink, such as the live status display. NULL: stderr.
void gs_log_set_sink(void (*sink)(void *arg, const char *line, size_t len), void *arg);
// A second reader of all lines, such as the log of a pod that shows a part of this program. It is
// called under the lock of the log, possibly by another thread, and must not log. NULL: none.
void gs_log_set_observer(void (*observer)(void *arg, const char *component, const char *line,
                                          size_t len),
                         void *arg);

// component: a short constant such as "kubelet".
void gs_log(enum gs_log_level level, const char *component, const char *fmt, ...) GS_PRINTF(3, 4);

#define gs_debug(component, ...) gs_log(GS_LOG_DEBUG, component, __VA_ARGS__)
#define gs_info(component, ...)  gs_log(GS_LOG_INFO, component, __VA_ARGS__)
#define gs_warn(component, ...)  gs_log(GS_LOG_WARN, component, __VA_ARGS__)
#define gs_err(component, ...)   gs_log(GS_LOG_ERROR, component, __VA_ARGS__)
