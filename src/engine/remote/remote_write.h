// SPDX-License-Identifier: Apache-2.0
// Sends samples with remote write 1.0 and 2.0:
// https://prometheus.io/docs/specs/prw/remote_write_spec/ and
// https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/.
// Reads the samples since the last send from the store, so nothing is buffered while the receiver
// is unavailable. Requests are retried with exponential backoff and honour Retry-After. A 4xx
// response other than 429 drops the batch, which is counted, apart from what the receiver reports
// as written.
#pragma once

#include "engine/config/config.h"
#include "metrics/reader.h"
#include "tsdb/tsdb.h"

#include <uv.h>

struct remote_write;
struct remote_write *remote_write_new(uv_loop_t *loop, struct tsdb *db,
                                      const struct engine_config_remote_write_config *cfg,
                                      const struct metrics_label *external_labels, size_t n);
// Sets ret to the metadata of the series of a metric, for 2.0. The texts are borrowed until find
// returns to the loop. Returns false if there is none.
typedef bool (*remote_write_metadata_fn)(void *arg, struct gs_slice metric,
                                         struct metrics_metadata *ret);
void remote_write_set_metadata(struct remote_write *w, remote_write_metadata_fn find, void *arg);
// The receiver and its name are from cfg.
bool remote_write_is(const struct remote_write *w,
                     const struct engine_config_remote_write_config *cfg);
// Continues with a new configuration and the samples that are not sent yet. The previous
// configuration is no longer used.
void remote_write_reconfigure(struct remote_write *w,
                              const struct engine_config_remote_write_config *cfg,
                              const struct metrics_label *external_labels, size_t n);
// Sends all current samples without waiting for full batches. Calls done when the receiver has
// accepted or permanently rejected them. Call it once.
void remote_write_flush(struct remote_write *w, void (*done)(void *arg), void *arg);
// The store has dropped all samples after t_ms: new samples from then on are sent.
void remote_write_cut(struct remote_write *w, int64_t t_ms);
void remote_write_free(struct remote_write *w);
void remote_write_metrics(const struct remote_write *w, struct gs_buf *out);
