// SPDX-License-Identifier: Apache-2.0
// remote_write 1.0 out: https://prometheus.io/docs/specs/prw/remote_write_spec/. Reads what the
// store got since the last send (no second copy of samples while the receiver is away), snappy,
// retries with back-off, Retry-After honoured; 4xx other than 429 drops the batch and counts it.
#pragma once

#include "engine/config/config.h"
#include "tsdb/tsdb.h"

#include <uv.h>

struct remote_write;
struct remote_write *remote_write_new(uv_loop_t *loop, struct tsdb *db,
                                      const struct engine_config_remote_write_config *cfg,
                                      const struct metrics_label *external_labels, size_t n);
// It goes to the receiver, under the name, that cfg says.
bool remote_write_is(const struct remote_write *w,
                     const struct engine_config_remote_write_config *cfg);
// Goes on under a new configuration with what the receiver does not have yet. The configuration
// before is not used any more.
void remote_write_reconfigure(struct remote_write *w,
                              const struct engine_config_remote_write_config *cfg,
                              const struct metrics_label *external_labels, size_t n);
// Sends what there is now without waiting for more; done when the receiver has it or refused it for
// good. Once.
void remote_write_flush(struct remote_write *w, void (*done)(void *arg), void *arg);
// The store has dropped all samples after t_ms: what comes now is to be sent.
void remote_write_cut(struct remote_write *w, int64_t t_ms);
void remote_write_free(struct remote_write *w);
void remote_write_metrics(const struct remote_write *w, struct gs_buf *out);
