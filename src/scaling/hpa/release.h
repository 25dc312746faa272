// SPDX-License-Identifier: Apache-2.0
// Changes of kube-controller-manager's decisions and texts, each with the minor version of
// Kubernetes 1.x that introduced it. Sources: the code of 1.20 to 1.36, and the controllers of some
// releases (tests/hpa/oracle). 1.37 and later: the development branch of mid-2026.
#pragma once

#include <stdbool.h>

enum hpa_change {
    HPA_SINCE_PARTIAL_DOWN = 21,   // a failed metric prevents scaling down only
    HPA_SINCE_BOTH_WINDOWS = 21,   // the windows of both directions, not of the proposal's only
    HPA_SINCE_NO_TURN = 21,        // average values: assumed values may not reverse the change
    HPA_SINCE_V2 = 23,             // works on v2; on v1 before, where the CPU's utilization is last
    HPA_SINCE_VALUE_LAYER = 25,    // "failed to get cpu resource metric value" around an error
    HPA_SINCE_USAGE = 26,          // "failed to get cpu usage" of average values
    HPA_SINCE_FILL_TO_TARGET = 26, // missing pods use max(100 %, target) of their request
    HPA_SINCE_LONG_REQUEST_ERROR = 26,
    HPA_SINCE_BOTH_EVENTS = 26,       // rate limits count changes of both directions
    HPA_SINCE_AMBIGUOUS = 26,         // pods of two autoscalers are an error
    HPA_SINCE_TARGETED_PODS = 27,     // text of the error when no sample remains
    HPA_SINCE_CONTAINER_NAMED = 27,   // "cpu container resource utilization"
    HPA_SINCE_EXACT_RATIO = 28,       // of average values: missing pods change nothing at 1
    HPA_SINCE_RESTARTABLE_INIT = 29,  // sidecars' requests count
    HPA_SINCE_FRESH_METRICS = 29,     // metrics of a failed evaluation are shown, not older ones
    HPA_SINCE_INCLUSIVE = 33,         // tolerance tested as a range
    HPA_SINCE_CONTAINER_MISSING = 33, // a container without a sample makes the pod missing
    HPA_SINCE_POD_LEVEL = 34,         // pod-level requests
    HPA_SINCE_OVERFLOW = 34,          // a negative sum of External series is the largest number
    HPA_SINCE_BINARY_MEMORY = 34,     // memory as Mi in the status
    HPA_SINCE_VALUE_OVERFLOW = 35,    // a sum of External series stops at the largest number
    HPA_SINCE_OWN_TOLERANCE = 35,     // behavior.scaleUp.tolerance (gate on)
    HPA_SINCE_SCALED_TO_ZERO = 36,    // zero is a pause unless the condition ScaledToZero is true
    HPA_SINCE_ZERO_GATE = 37,         // gate HPAScaleToZero on
    HPA_SINCE_GENERATION = 37,        // status.observedGeneration
    HPA_SINCE_OBJECT_TEXT = 37,       // place of the object in an Object metric's error
    HPA_SINCE_SUCCEEDED = 38,         // finished pods are ignored
    HPA_SINCE_ZERO_AVERAGE = 38,      // average of an Object metric over no replicas is 0
};

static inline bool hpa_since(int release, enum hpa_change change)
{
    return release == 0 || release >= (int)change;
}
