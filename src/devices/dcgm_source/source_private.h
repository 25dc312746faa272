// SPDX-License-Identifier: Apache-2.0
// Between the thread of a source and its clients (the reader's parent, the wire client). A client
// runs on this thread, reads by the plan, and returns when it fails or has to end.
#pragma once

#include "dcgm_source/dcgm_source.h"

struct dcgm_source_target {
    bool embedded; // only the reader can
    bool is_unix;
    char address[256]; // "HOST:PORT", "[IPV6]:PORT", or a path
};

// --- for clients ---

// A descriptor that is readable once the client has to return: the source closes or the plan has
// changed. Clients poll it together with their own.
int dcgm_source_wake_fd(const struct dcgm_source *s);
bool dcgm_source_must_return(const struct dcgm_source *s);
// Waits until the time (gs_mono_ns). False: the client has to return.
bool dcgm_source_sleep_until(struct dcgm_source *s, int64_t mono_ns);
// The plan at the start of the client; it does not change while the client runs.
const struct dcgm_source_plan *dcgm_source_current_plan(const struct dcgm_source *s);
// Increases with each dcgm_source_renew_profiling().
unsigned dcgm_source_renewals(struct dcgm_source *s);
void dcgm_source_set_report(struct dcgm_source *s, const struct dcgm_source_report *r);
// Takes a complete read; sets its times and offset. read_ns: duration of the read.
void dcgm_source_publish(struct dcgm_source *s, struct dcgm_latest *l, int64_t read_ns);
void dcgm_source_count_restart(struct dcgm_source *s, enum dcgm_source_restart reason);

// --- clients ---

// Return NULL if the client had to return, else why the connection ended; the source reports it and
// tries again with backoff. GS_EINVAL with DCGM_VERSION_MISMATCH in *ret_code: the engine speaks
// another version of the protocol.
struct gs_error *dcgm_source_run_reader(struct dcgm_source *s, const struct dcgm_source_target *t,
                                        int *ret_code);
struct gs_error *dcgm_source_run_wire(struct dcgm_source *s, const struct dcgm_source_target *t,
                                      int *ret_code);
