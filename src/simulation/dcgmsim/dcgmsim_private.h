// SPDX-License-Identifier: Apache-2.0
// Inside the simulated libdcgm: the engine with its groups, watches and samples, and the values of
// entities. One lock protects everything: calls and the sampling thread hold it. Functions without
// a note need it.
#pragma once

#include "base/attr.h"
#include "dcgm/abi.h"
#include "dcgm/fields.h"
#include "nvmlsim/dcgm_calls.h"
#include "nvmlsim/nvml_calls.h"
#include "nvmlsim/nvmlsim_private.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DCGM_API __attribute__((visibility("default")))

#define DCGM_DECLARE(name, arguments) DCGM_API int name arguments;
DCGM_CALLS(DCGM_DECLARE)
#undef DCGM_DECLARE
// The simulated NVML, which is a part of this library.
#define NVML_DECLARE(name, arguments) nvmlReturn_t name arguments;
NVML_CALLS(NVML_DECLARE)
#undef NVML_DECLARE

DCGM_API struct dcgm_field_meta *DcgmFieldGetById(uint16_t id);
DCGM_API int DcgmFieldsInit(void);
DCGM_API int DcgmFieldsTerm(void);
DCGM_API const char *errorString(int code);
DCGM_API int gpuscaleDcgmIsSimulated(void);

// The release that the library claims to be, such as "4.5.3". It limits the fields and the versions
// of structures.
#define DCGMSIM_VERSION_ENV "GPUSCALE_SIM_DCGM_VERSION"
#define DCGMSIM_VERSION     "4.6.1"
// Not empty: the embedded engine of this process is the host engine, which shares the profiling
// counters with its clients. For comparisons of programs that embed an engine.
#define DCGMSIM_HOST_ENGINE_ENV "GPUSCALE_SIM_DCGM_HOSTENGINE"

enum {
    DCGMSIM_CLIENTS = 64, // connections of a process, and its embedded engine
    DCGMSIM_GROUPS = 64,
    DCGMSIM_FIELD_GROUPS = 64,
    DCGMSIM_WATCHES = 1024,
    DCGMSIM_GROUP_ENTITIES = 1024,
    DCGMSIM_SAMPLES = 4096, // of a field of an entity
};

// --- values ---

struct dcgmsim_value {
    int64_t ts; // microseconds since 1970
    int status; // enum dcgm_code
    char type;  // 'i', 'd' or 's'
    union {
        int64_t i;
        double d;
        const char *text; // lives until the library is unloaded
    };
};

void dcgmsim_give_int(struct dcgmsim_value *v, int64_t i);
void dcgmsim_give_double(struct dcgmsim_value *v, double d);
void dcgmsim_give_text(struct dcgmsim_value *v, const char *text); // copied
// A value of the field's type that means "no value": 0 none yet, 1 not found, 2 not supported, 3 no
// permission.
void dcgmsim_give_blank(struct dcgmsim_value *v, char type, int which, int status);
void dcgmsim_give_nvml_error(struct dcgmsim_value *v, char type, int nvml_code);
const char *dcgmsim_keep_text(const char *text);

// --- fields ---

unsigned dcgmsim_release(void);                      // 40601; no lock
const struct dcgm_field *dcgmsim_field(unsigned id); // NULL: unknown in this release
static inline bool dcgmsim_is_profiling(unsigned id)
{
    return (id >= 1001 && id <= 1096) || id == 1532 || id == 1533;
}

// --- entities ---

#define DCGMSIM_PAIR(group, id) ((struct dcgm_entity_pair){(uint32_t)(group), (uint32_t)(id)})

// The GPU of an entity GPU, GPU_I, GPU_CI or LINK. False: no such entity.
bool dcgmsim_gpu_of(const struct dcgm_entity_pair *e, unsigned *ret_gpu);
// The MIG device (index in the board) of an entity GPU_I or GPU_CI.
bool dcgmsim_mig_of(const struct dcgm_entity_pair *e, unsigned *ret_gpu, unsigned *ret_mig);
bool dcgmsim_entity_exists(const struct dcgm_entity_pair *e);
// The entities of a kind. ret has room for DCGMSIM_GROUP_ENTITIES.
unsigned dcgmsim_entities(unsigned group, struct dcgm_entity_pair *ret);
unsigned dcgmsim_switch_ports(void); // of each switch

// The present value. prev: what the profiling counters counted at the sample before; changed. NULL:
// a value without a watch.
void dcgmsim_read(const struct dcgm_entity_pair *e, const struct dcgm_field *f,
                  struct nvmlsim_activity_counters *prev, struct dcgmsim_value *ret);
void dcgmsim_read_gpu(unsigned gpu, int mig, const struct dcgm_field *f, struct dcgmsim_value *ret);
void dcgmsim_read_profiling(const struct dcgm_entity_pair *e, const struct dcgm_field *f,
                            struct nvmlsim_activity_counters *prev, struct dcgmsim_value *ret);
void dcgmsim_read_machine(const struct dcgm_entity_pair *e, const struct dcgm_field *f,
                          struct dcgmsim_value *ret);

// --- profiling ---

// Whether a watch of profiling fields of this GPU is possible; takes the counters for this engine.
int dcgmsim_profiling_start(unsigned gpu, bool embedded);
void dcgmsim_profiling_stop(void); // gives the counters back, if this process has them

// --- the engine ---

struct dcgmsim_client {
    bool used, embedded;
    uint32_t generation; // of the host engine that it connected to
};

struct dcgmsim_group {
    bool used;
    unsigned client;
    char name[256];
    unsigned n;
    struct dcgm_entity_pair *entities; // room for DCGMSIM_GROUP_ENTITIES
};

struct dcgmsim_field_group {
    bool used;
    unsigned client;
    char name[256];
    unsigned n;
    uint16_t ids[DCGM_MAX_GROUP_FIELDS];
};

struct dcgmsim_watch {
    unsigned client;
    uintptr_t group, fields; // as the client names them
    int64_t interval_us, keep_us;
    unsigned keep_n;
    unsigned n_entities, n_fields;
    struct dcgm_entity_pair *entities;
    uint16_t ids[DCGM_MAX_GROUP_FIELDS];
};

// A watched field of an entity.
struct dcgmsim_series {
    uint64_t key;
    struct dcgm_entity_pair entity;
    const struct dcgm_field *field;
    int64_t interval_us, keep_us, due_us; // due: monotonic
    unsigned keep_n;
    struct nvmlsim_activity_counters prev;
    struct dcgmsim_value *samples; // oldest first
    size_t n, cap;
};

struct dcgmsim_engine {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool has_thread, stopping;
    unsigned n_init;
    struct nvmlsim *sim; // NULL: no engine
    uint32_t health_systems;
    struct dcgmsim_client clients[DCGMSIM_CLIENTS];
    struct dcgmsim_group groups[DCGMSIM_GROUPS];
    struct dcgmsim_field_group field_groups[DCGMSIM_FIELD_GROUPS];
    struct dcgmsim_watch *watches[DCGMSIM_WATCHES];
    unsigned n_watches;
    struct dcgmsim_series *series; // by key
    size_t n_series;
};
extern struct dcgmsim_engine dcgmsim_engine;

// Entry and exit of each call: holds the lock, unless rc is an error; applies faults.
struct dcgmsim_call {
    int rc; // not 0: return it
    bool entered;
    unsigned client;
};
struct dcgmsim_call dcgmsim_enter(const char *fn, dcgm_handle h, bool valid);
void dcgmsim_leave(struct dcgmsim_call *c);
#define DCGM_CALL GS_CLEANUP(dcgmsim_leave) struct dcgmsim_call

// Groups of a client; NULL: no such group. Predefined groups are copied into `scratch`.
const struct dcgmsim_group *dcgmsim_find_group(unsigned client, dcgm_group g,
                                               struct dcgmsim_group *scratch);
const struct dcgmsim_field_group *dcgmsim_find_fields(unsigned client, dcgm_field_group f);
void dcgmsim_drop_objects(unsigned client); // groups, field groups and watches

// Watches and samples.
int dcgmsim_watch_add(unsigned client, uintptr_t group, uintptr_t fields, int64_t interval_us,
                      double keep_s, int keep_n);
int dcgmsim_watch_remove(unsigned client, uintptr_t group, uintptr_t fields);
void dcgmsim_watch_drop_client(unsigned client);
const struct dcgmsim_series *dcgmsim_find_series(const struct dcgm_entity_pair *e, unsigned field);
void dcgmsim_sample_due(void);
int dcgmsim_start_sampling(void);
void dcgmsim_stop_sampling(void); // without the lock
