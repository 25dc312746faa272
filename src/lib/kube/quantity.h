// SPDX-License-Identifier: Apache-2.0
// resource.Quantity: "500m", "2", "1500", "20k", "64Mi", "1e3". Source: Kubernetes API machinery's
// quantity grammar. Values are kept as int64 milli-units, the unit of the autoscaler's
// calculations.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

#define KUBE_QUANTITY_SIZE 40

// Rounds up to milli; saturates at the int64 range. GS_EINVAL with Kubernetes' text otherwise.
struct gs_error *kube_quantity_parse_milli(struct gs_slice s, int64_t *ret_milli);
// Returns whole units, rounded up.
struct gs_error *kube_quantity_parse_value(struct gs_slice s, int64_t *ret_value);
// Formats a milli value as canonical decimal SI text: "500m", "2", "1500", "20k".
char *kube_quantity_format_milli(int64_t milli, char buf[KUBE_QUANTITY_SIZE]);
// Formats whole bytes as canonical binary SI text: "64Mi", "1500", "1Gi".
char *kube_quantity_format_bytes(int64_t bytes, char buf[KUBE_QUANTITY_SIZE]);
// Formats a quantity canonically in its own format, as the API server stores and prints it.
struct gs_error *kube_quantity_canonical(struct gs_slice s, char buf[KUBE_QUANTITY_SIZE]);
// Formats a sample value like the metrics APIs: value x 1000 truncated toward zero, decimal SI.
// False for NaN, infinities and values outside int64 milli, which must not be served.
bool kube_quantity_from_double(double v, int64_t *ret_milli);
