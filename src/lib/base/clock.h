// SPDX-License-Identifier: Apache-2.0
// Times: monotonic nanoseconds for durations, Unix milliseconds for output and storage.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

#define GS_NS_PER_MS  INT64_C(1000000)
#define GS_NS_PER_SEC INT64_C(1000000000)

int64_t gs_mono_ns(void);       // CLOCK_MONOTONIC
int64_t gs_boot_ns(void);       // CLOCK_BOOTTIME: also counts while the machine is suspended
int64_t gs_thread_cpu_ns(void); // CLOCK_THREAD_CPUTIME_ID: of the calling thread
int64_t gs_unix_ms(void);       // CLOCK_REALTIME
int64_t gs_unix_us(void);

// RFC 3339 in UTC: "2026-01-02T03:04:05Z" (seconds; what Kubernetes' metav1.Time prints).
#define GS_RFC3339_SIZE 40
char *gs_format_rfc3339(int64_t unix_ms, char buf[GS_RFC3339_SIZE]);
// With six decimals (metav1.MicroTime).
char *gs_format_rfc3339_micro(int64_t unix_us, char buf[GS_RFC3339_SIZE]);
struct gs_error *gs_parse_rfc3339(struct gs_slice s, int64_t *ret_unix_ms);

// Go and Prometheus durations: "1m30s", "250ms", "5m0s", "1d", "2h45m", "0". Result in nanoseconds.
struct gs_error *gs_parse_duration(struct gs_slice s, int64_t *ret_ns);
// Go's form: "1m30s", "250ms", "0s".
char *gs_format_duration(int64_t ns, char buf[GS_RFC3339_SIZE]);
// Prometheus' form: "1d", "1h30m", "250ms", "0s". Whole milliseconds.
char *gs_format_units(int64_t ns, char buf[GS_RFC3339_SIZE]);
