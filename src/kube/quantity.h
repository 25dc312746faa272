// SPDX-License-Identifier: Apache-2.0
// resource.Quantity: "500m", "2", "1500", "20k", "64Mi", "1e3". Source: Kubernetes API machinery's
// quantity grammar. Values are kept as int64 milli-units (what the autoscaler computes with).
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

#define KUBE_QUANTITY_SIZE 40

// Rounds up to milli; saturates at the int64 range. GS_EINVAL with Kubernetes' text otherwise.
struct gs_error *kube_quantity_parse_milli(struct gs_slice s, int64_t *ret_milli);
// Whole units, rounded up.
struct gs_error *kube_quantity_parse_value(struct gs_slice s, int64_t *ret_value);
// Canonical decimal SI text of a milli value: "500m", "2", "1500", "20k".
char *kube_quantity_format_milli(int64_t milli, char buf[KUBE_QUANTITY_SIZE]);
// Canonical binary SI text of whole bytes: "64Mi", "1500", "1Gi".
char *kube_quantity_format_bytes(int64_t bytes, char buf[KUBE_QUANTITY_SIZE]);
// The canonical form of a quantity in its own format (what the API server stores and prints).
struct gs_error *kube_quantity_canonical(struct gs_slice s, char buf[KUBE_QUANTITY_SIZE]);
// A sample value as the metrics APIs print it: value x 1000 truncated toward zero, decimal SI.
// false for NaN, infinities and values outside int64 milli: such a value must not be served.
bool kube_quantity_from_double(double v, int64_t *ret_milli);
