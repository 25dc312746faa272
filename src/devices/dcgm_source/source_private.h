// SPDX-License-Identifier: Apache-2.0
// Between the thread of a source and its clients (the reader's parent, the wire client). A client
// runs on this thread, reads by the plan, and returns when it fails or has to end.
#pragma once

#include "dcgm_source/dcgm_source.h"

// The IDs of the profiling fields, with gaps.
#define DCGM_SOURCE_PROF_FIRST 1001
#define DCGM_SOURCE_PROF_LAST  1099
// Those of this ID and above have no slot in a GPU's sample: NVML never has them.
#define DCGM_SOURCE_PROF_DCGM_ONLY 1080
static inline bool dcgm_source_is_prof(unsigned id)
{
    return (id >= DCGM_SOURCE_PROF_FIRST && id <= DCGM_SOURCE_PROF_LAST) || id == 1532 ||
           id == 1533;
}

// --- plan ---

// The entities that have fields in a plan, and their parents.
struct dcgm_source_needs {
    bool gpus, switches, links, cpus, cores;
    bool profiling; // of GPUs and MIG devices
};
struct dcgm_source_needs dcgm_source_plan_needs(const struct dcgm_source_plan *plan);
bool dcgm_source_plan_has_gpu(const struct dcgm_source_plan *plan, const char *uuid);
// Whether entities of this group (enum dcgm_entity_group) have a field that is no profiling field.
// As in dcgm-exporter, a switch may have fields of links, and a CPU those of cores.
bool dcgm_source_field_fits(uint16_t field, uint32_t group);
// The profiling fields of the plan that are read for a GPU and its MIG devices; a GPU with GPM has
// most of them from NVML. groups: what the GPU can measure; NULL: not known, so that all are tried.
// Returns their number.
uint32_t dcgm_source_prof_fields(const struct dcgm_source_plan *plan, const struct dcgm_entity *gpu,
                                 const struct dcgm_metric_groups *groups,
                                 uint16_t ret[DCGM_SOURCE_MAX_FIELDS]);

// --- target ---

struct dcgm_source_target {
    bool embedded; // only the reader can
    bool is_unix;
    char address[256]; // "HOST:PORT", "[IPV6]:PORT", or a path
};

// How old a value of this read may be.
int64_t dcgm_source_fresh_ns(const struct dcgm_latest *l);

// --- for clients ---

// A descriptor that is readable once the client has to return: the source closes or the plan has
// changed. Clients poll it together with their own.
int dcgm_source_wake_fd(const struct dcgm_source *s);
bool dcgm_source_must_return(struct dcgm_source *s);
// Waits until the time (gs_mono_ns). False: the client has to return.
bool dcgm_source_sleep_until(struct dcgm_source *s, int64_t mono_ns);
// The plan at the start of the client; it does not change while the client runs.
const struct dcgm_source_plan *dcgm_source_current_plan(const struct dcgm_source *s);
const struct dcgm_source_config *dcgm_source_config_of(const struct dcgm_source *s);
// Increases with each dcgm_source_renew_profiling().
unsigned dcgm_source_renewals(struct dcgm_source *s);
// Logs a change of the state, or of the reason why there are no profiling values.
void dcgm_source_set_report(struct dcgm_source *s, const struct dcgm_source_report *r);
// Takes a complete read; sets its times and offset. read_ns: duration of the read.
void dcgm_source_publish(struct dcgm_source *s, struct dcgm_latest *l, int64_t read_ns);
void dcgm_source_count_restart(struct dcgm_source *s, enum dcgm_source_restart reason);

// --- for the merge ---

// A GPU of an engine that has none of this machine's GPUs: the status is then DCGM_SOURCE_DOWN.
// NULL: the engine is that of this machine.
void dcgm_source_set_foreign(struct dcgm_source *s, const char *uuid);

// --- clients ---

// Return NULL if the client had to return, else why the connection ended; the source reports it and
// tries again with backoff. *ret_code: the code of DCGM, or 0; DCGM_VERSION_MISMATCH: the engine
// speaks another version of the protocol.
struct gs_error *dcgm_source_run_reader(struct dcgm_source *s, const struct dcgm_source_target *t,
                                        int *ret_code);
struct gs_error *dcgm_source_run_wire(struct dcgm_source *s, const struct dcgm_source_target *t,
                                      int *ret_code);

// --- endpoint ---

// Whether something accepts connections there.
bool dcgm_source_probe_unix(const char *path, int timeout_ms);
bool dcgm_source_probe_local(unsigned port, int timeout_ms); // 127.0.0.1
