// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

// --- sender ---
// Writes prometheus.WriteRequest in protobuf's wire format.
// https://prometheus.io/docs/specs/prw/remote_write_spec/#protocol.

// Appends a TimeSeries. labels are sorted by name.
void remote_encode_series(struct gs_buf *out, const struct metrics_label *labels, size_t n_labels,
                          const int64_t *t, const double *v, size_t n_samples);
// Appends a TimeSeries with one exemplar and no samples. labels are sorted by name.
struct tsdb_exemplar;
void remote_encode_exemplar(struct gs_buf *out, const struct metrics_label *labels, size_t n_labels,
                            const struct tsdb_exemplar *e);
// Compresses in Snappy's block format. Replaces the content of ret.
void remote_compress(struct gs_slice raw, struct gs_buf *ret);

// --- receiver ---
// Reads the messages of remote write 1.0 and 2.0. Texts are borrowed from the message.

#define REMOTE_MAX_LABELS  256 // of a series, as in the store
#define REMOTE_MAX_SYMBOLS ((size_t)1000000)

struct remote_decoder {
    struct gs_slice rest; // of the message
    bool v2;
    struct gs_slice *symbols; // of 2.0
    size_t n_symbols, symbols_cap;
    size_t steps;
    bool (*go_on)(void *arg);
    void *arg;
};

struct remote_decoder_series {
    struct metrics_label labels[REMOTE_MAX_LABELS]; // sorted by name
    size_t n_labels;                                // of the message, may be more
    size_t n_samples, n_histograms, n_exemplars;
    // 2.0: references outside of the symbols. The labels or the metadata are then incomplete.
    struct gs_error *labels_error, *metadata_error;
    bool has_metadata;

    // private: the message after the last sample, and the last exemplar, read
    struct gs_slice samples, exemplars;
};

struct remote_decoder_exemplar {
    int64_t t_ms;
    double value;
    struct gs_slice message; // private
};

// Checks the whole message and collects its symbols. GS_EPROTO: malformed. GS_ELIMIT: more than
// REMOTE_MAX_SYMBOLS. GS_ECONFLICT: go_on returned false. go_on is called regularly; NULL: never.
struct gs_error *remote_decoder_init(struct remote_decoder *d, bool v2, struct gs_slice message,
                                     bool (*go_on)(void *arg), void *arg);
void remote_decoder_finish(struct remote_decoder *d);
// Reads the next series. *ret_more false: there is none. Release ret with
// remote_decoder_series_finish(), also before the next call. GS_ECONFLICT: go_on returned false.
struct gs_error *remote_decoder_next(struct remote_decoder *d, struct remote_decoder_series *ret,
                                     bool *ret_more);
// Reads the next sample of the series. False: there is none.
bool remote_decoder_sample(struct remote_decoder_series *s, int64_t *ret_t, double *ret_v);
// The same for exemplars.
bool remote_decoder_exemplar(const struct remote_decoder *d, struct remote_decoder_series *s,
                             struct remote_decoder_exemplar *ret);
// The labels of an exemplar of the current series. *ret_n may be more than REMOTE_MAX_LABELS; the
// others are not read. GS_EINVAL: 2.0: references outside of the symbols.
struct gs_error *remote_decoder_exemplar_labels(struct remote_decoder *d,
                                                const struct remote_decoder_exemplar *e,
                                                struct metrics_label ret[REMOTE_MAX_LABELS],
                                                size_t *ret_n);
void remote_decoder_series_finish(struct remote_decoder_series *s);
