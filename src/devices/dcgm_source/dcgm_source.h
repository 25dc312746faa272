// SPDX-License-Identifier: Apache-2.0
// DCGM as a second source of GPU metrics: what NVML does not provide, read from a host engine or
// from libdcgm in a child process. A source has one thread, which starts with the first want;
// nothing that DCGM does can delay a caller.
#pragma once

#include "base/error.h"
#include "dcgm/abi.h"
#include "gpu/gpu.h"

#include <stdbool.h>
#include <stdint.h>

// --- values ---

enum {
    DCGM_SOURCE_MAX_ENTITIES = 2048,
    DCGM_SOURCE_MAX_VALUES = 32768,
    DCGM_SOURCE_MAX_TEXT = 16384, // bytes of all texts of one read
    DCGM_SOURCE_MAX_FIELDS = 256, // of a plan
};
#define DCGM_SOURCE_NO_PARENT UINT32_MAX

// A GPU, a MIG device, a switch, a link, a CPU or a core. Parents precede their children in
// dcgm_latest.entities.
struct dcgm_entity {
    uint32_t group, id;  // enum dcgm_entity_group and DCGM's ID, which is not NVML's index
    uint32_t parent;     // index in dcgm_latest.entities, or DCGM_SOURCE_NO_PARENT
    uint32_t instance;   // GPU_I: NVML's GPU instance ID
    uint32_t link_state; // LINK: enum dcgm_link_state. The port is DCGM_LINK_PORT(id)
    char uuid[96];       // GPU: "GPU-…"; GPU_I: that of its GPU
    char pci_bus_id[32]; // GPU: "00000000:10:00.0"; "" if unknown
};

// A value as DCGM returned it, not checked: dcgm_source_value() converts it.
struct dcgm_value {
    uint32_t entity; // index in dcgm_latest.entities
    uint16_t field;  // DCGM's field ID
    char type;       // DCGM_TYPE_…
    int32_t status;  // enum dcgm_code
    int64_t ts_us;   // when the engine sampled it: microseconds since 1970, by the engine's clock
    union {
        int64_t i;
        double d;
        uint32_t text; // offset of a terminated string in dcgm_latest.texts
    };
};

// The result of one read of everything that the plan names. Immutable once it is published.
// Entities of a plan without fields of their level are absent, as are fields that an entity does
// not have.
struct dcgm_latest {
    int64_t mono_ns; // gs_mono_ns when it was received
    int64_t unix_us; // this machine's wall clock at that moment
    // How far the engine's clock is behind this machine's, including the delay of the fastest read.
    int64_t offset_us;
    int64_t interval_ns;
    struct dcgm_entity *entities;
    size_t n_entities;
    struct dcgm_value *values; // by entity, then by field in the order of the plan
    size_t n_values;
    char *texts;
    size_t n_text; // bytes; the last one is 0
};
struct dcgm_latest *dcgm_latest_new(size_t n_entities, size_t n_values, size_t n_text);
struct dcgm_latest *dcgm_latest_copy(const struct dcgm_latest *l);
void dcgm_latest_free(struct dcgm_latest *l);
GS_DEFINE_CLEANUP(struct dcgm_latest *, dcgm_latest_free)

// The value with its validity: blank values, codes, and values that are older than
// max(2.5 intervals, 3 s) at `now_ns` (gs_mono_ns) are invalid with a reason. Profiling values are
// checked for plausibility. Text values: only the validity is set; see dcgm_source_text().
struct gpu_value dcgm_source_value(const struct dcgm_latest *l, const struct dcgm_value *v,
                                   int64_t now_ns);
// The validity that a code of DCGM stands for. DCGM_OK: GPU_VALID.
enum gpu_validity dcgm_source_validity(int code);
// NULL: not a text, or blank.
const char *dcgm_source_text(const struct dcgm_latest *l, const struct dcgm_value *v);
// The GPU of an entity GPU, GPU_I or LINK, by UUID, else by PCI address. NULL: NVML does not list
// it.
const struct gpu_device *dcgm_source_device(const struct gpu_snapshot *g,
                                            const struct dcgm_latest *l,
                                            const struct dcgm_entity *e);

// --- source ---

enum dcgm_source_mode {
    DCGM_SOURCE_OFF,
    DCGM_SOURCE_AUTO,     // an engine on this machine, if there is one
    DCGM_SOURCE_EMBEDDED, // libdcgm in the reader starts an engine of its own
    DCGM_SOURCE_REMOTE,   // the engine at an address
};

struct dcgm_source_endpoint {
    enum dcgm_source_mode mode;
    bool is_unix;
    char address[256]; // REMOTE: "HOST:PORT" or "[IPV6]:PORT", or the path of a socket
};
// Parses "auto", "off", "embedded", "HOST[:PORT]", "[IPV6][:PORT]" or "unix:PATH". The port is 5555
// by default.
struct gs_error *dcgm_source_parse(const char *text, struct dcgm_source_endpoint *ret);

struct dcgm_source_config { // strings are copied
    struct dcgm_source_endpoint endpoint;
    const char *library;   // path of libdcgm for the reader; NULL: libdcgm.so.4, then .so.3
    uint64_t memory_limit; // bytes of the reader; 0: 1 GiB if embedded, otherwise 256 MiB
    const char *program;   // for tests: the program with the reader; NULL: this one
    int64_t retry_ns;      // for tests: the first pause after a failure; 0: 1 s
    int64_t hung_after_ns; // for tests: the reader is killed without progress; 0: max(3 intervals,
                           // 10 s)
};

// What to read. Plain data: the reader receives it as it is.
struct dcgm_source_plan {
    uint16_t fields[DCGM_SOURCE_MAX_FIELDS]; // DCGM's field IDs, each once
    uint32_t n_fields;
    // The GPUs whose profiling fields are read from DCGM: those without GPM. Others have none.
    char prof_gpus[GPU_MAX_DEVICES][96]; // UUIDs
    uint32_t n_prof_gpus;
    int64_t interval_ns;
};

enum dcgm_source_state {
    DCGM_SOURCE_UNUSED,     // nothing is wanted, or the mode is off
    DCGM_SOURCE_ABSENT,     // auto: there is no engine
    DCGM_SOURCE_CONNECTING, // the first attempt is running
    DCGM_SOURCE_UP,
    DCGM_SOURCE_DOWN, // see problem; attempts continue
};

enum dcgm_source_restart {
    DCGM_SOURCE_CONNECTION, // the engine closed the connection, or did not answer in time
    DCGM_SOURCE_CRASH,      // the reader ended
    DCGM_SOURCE_HANG,       // the reader made no progress and was killed
    DCGM_SOURCE_MEMORY,     // the reader exceeded its limit and was killed
    DCGM_SOURCE_RESTARTS
};
const char *dcgm_source_restart_name(enum dcgm_source_restart r); // "connection", …

// What a client reports about its connection.
struct dcgm_source_report {
    enum dcgm_source_state state; // CONNECTING, UP or DOWN
    int code;                     // enum dcgm_code of the problem; 0: none
    char problem[256];            // "" if none
    int prof_code;                // why the profiling fields are not watched; 0: they are
    char prof_problem[256];
    char version[32];         // of the engine: "4.5.3"; "" if unknown
    char library_version[32]; // of libdcgm in the reader; "" without one
    bool simulated;           // the engine or library is the simulated one
};

struct dcgm_source_status {
    struct dcgm_source_report report;
    const char *mode;  // "embedded", "library" or "wire"; "" while nothing is read. Static
    char address[264]; // a path begins with "unix:"
    uint64_t restarts[DCGM_SOURCE_RESTARTS];
    uint64_t reads, read_ns; // successful reads, and their duration
    uint64_t dead_counters;  // how often counters were found dead beside a busy GPU
    int64_t age_us;          // of the newest value, by the engine's clock; -1: none
};

struct dcgm_source;
// Starts nothing. cfg->endpoint.mode must not be DCGM_SOURCE_OFF.
struct dcgm_source *dcgm_source_open(const struct dcgm_source_config *cfg);
// Sets what to read; the first plan with fields starts the thread. An equal plan changes nothing,
// and a plan without fields closes the connection. Any thread may call this and the functions
// below.
void dcgm_source_want(struct dcgm_source *s, const struct dcgm_source_plan *plan);
// A copy of the last read for the caller. NULL: nothing fresh was read. Copies at most a megabyte
// and never waits for DCGM.
struct dcgm_latest *dcgm_source_latest(struct dcgm_source *s);
void dcgm_source_status(struct dcgm_source *s, struct dcgm_source_status *ret);
// Watches the profiling fields again, because their counters are dead.
void dcgm_source_renew_profiling(struct dcgm_source *s);
// Ends the thread and the reader. NULL is allowed.
void dcgm_source_close(struct dcgm_source *s);

// --- merge ---

// State of the dead-counter rule, by GPU. One thread at a time.
struct dcgm_merge;
struct dcgm_merge *dcgm_source_merge_new(struct dcgm_source *s);
void dcgm_source_merge_free(struct dcgm_merge *m);
// Sets the plan for this machine: the DCGM-only fields `ids`, and the wanted profiling fields of
// the GPUs that have no GPM (`wanted`: GPU_F_COUNT elements). Then fills the profiling fields of
// these GPUs and of their MIG devices from the last read, which it returns (NULL: none).
struct dcgm_latest *dcgm_source_merge(struct dcgm_merge *m, struct gpu_snapshot *g,
                                      const bool *wanted, const uint16_t *ids, size_t n_ids,
                                      int64_t interval_ns);

// --- reader ---

// The child process, `gpuscale exporter --dcgm-reader`: loads libdcgm and writes what it reads into
// the shared block that the parent passes as descriptor 3. Returns the exit code.
int dcgm_source_reader_main(void);
