// SPDX-License-Identifier: Apache-2.0
// The messages of KEDA's externalscaler.proto. Numbers are written twice: old releases read the
// integer, newer ones the float if it is above 0.
// https://github.com/kedacore/keda/blob/main/pkg/scalers/externalscaler/externalscaler.proto
#include "adapter/keda_scaler/keda_scaler_private.h"
#include "codec/protobuf.h"

#include <math.h>

// The numbers of the fields.
enum {
    REF_NAME = 1,
    REF_NAMESPACE = 2,
    REF_METADATA = 3,
    PAIR_KEY = 1,
    PAIR_VALUE = 2,
    REQUEST_REF = 1,
    REQUEST_METRIC = 2,
};

static struct gs_error *read_pair(struct gs_slice message, struct keda_scaler_pair *ret)
{
    struct keda_scaler_pair pair = {0};
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (err)
            return err;
        if (t.wire == CODEC_PROTO_BYTES && t.number == PAIR_KEY)
            pair.key = t.bytes;
        else if (t.wire == CODEC_PROTO_BYTES && t.number == PAIR_VALUE)
            pair.value = t.bytes;
    }
    *ret = pair;
    return NULL;
}

static struct gs_error *add_pair(struct gs_slice message, struct keda_scaler_request *rq)
{
    struct keda_scaler_pair pair;
    struct gs_error *err = read_pair(message, &pair);
    if (err)
        return err;
    if (rq->n_metadata == KEDA_SCALER_MAX_METADATA)
        return gs_error_new(GS_ELIMIT, "the trigger has more than %d metadata",
                            KEDA_SCALER_MAX_METADATA);
    rq->metadata[rq->n_metadata++] = pair;
    return NULL;
}

static struct gs_error *read_ref(struct gs_slice message, struct keda_scaler_request *rq)
{
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (err)
            return err;
        if (t.wire != CODEC_PROTO_BYTES)
            continue;
        if (t.number == REF_NAME)
            rq->name = t.bytes;
        else if (t.number == REF_NAMESPACE)
            rq->ns = t.bytes;
        else if (t.number == REF_METADATA)
            err = add_pair(t.bytes, rq);
        if (err)
            return err;
    }
    return NULL;
}

struct gs_error *keda_scaler_read_ref(struct gs_slice message, struct keda_scaler_request *ret)
{
    struct keda_scaler_request rq = {0};
    struct gs_error *err = read_ref(message, &rq);
    if (!err)
        *ret = rq;
    return err;
}

struct gs_error *keda_scaler_read_metrics_request(struct gs_slice message,
                                                  struct keda_scaler_request *ret)
{
    struct keda_scaler_request rq = {0};
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (!err && t.wire == CODEC_PROTO_BYTES && t.number == REQUEST_REF)
            err = read_ref(t.bytes, &rq);
        if (err)
            return err;
        if (t.wire == CODEC_PROTO_BYTES && t.number == REQUEST_METRIC)
            rq.metric = t.bytes;
    }
    *ret = rq;
    return NULL;
}

void keda_scaler_write_active(bool active, struct gs_buf *out)
{
    codec_proto_add_varint(out, 1, active);
}

// The integer nearest to the number. 0 is a target of nothing, so a positive target is at least 1.
static uint64_t integer(double v, bool positive)
{
    const double limit = 9007199254740992; // 2^53: beyond it, a double has no fraction
    double whole = round(v);
    whole = whole > limit ? limit : whole < -limit ? -limit : whole;
    return (uint64_t)(int64_t)(positive && whole < 1 ? 1 : whole);
}

static void write_number(struct gs_slice metric, double v, bool positive, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf entry = {0};
    codec_proto_add_bytes(&entry, 1, metric);
    codec_proto_add_varint(&entry, 2, integer(v, positive));
    codec_proto_add_double(&entry, 3, v);
    codec_proto_add_bytes(out, 1, gs_buf_slice(&entry));
}

void keda_scaler_write_spec(struct gs_slice metric, double target, struct gs_buf *out)
{
    write_number(metric, target, true, out);
}

void keda_scaler_write_value(struct gs_slice metric, double value, struct gs_buf *out)
{
    write_number(metric, value, false, out);
}
