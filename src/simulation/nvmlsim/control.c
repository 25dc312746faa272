// SPDX-License-Identifier: Apache-2.0
// What `gpuscale sim` does to simulated GPUs: list, inspect, lose, report XIDs, and let calls of
// NVML fail or hang.
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "nvmlsim/dcgm_calls.h"
#include "nvmlsim/nvml_calls.h"
#include "nvmlsim/nvml_unsupported.h"
#include "nvmlsim/nvmlsim_private.h"

#include <dirent.h>
#include <errno.h>
#include <strings.h>
#include <sys/stat.h>

#define SHM_DIR  "/dev/shm"
#define XID_LOST 79 // "GPU has fallen off the bus"
#define XID_MAX  999

const char *nvmlsim_name(const struct nvmlsim *s)
{
    return s->name;
}

struct gs_error *nvmlsim_list(char ***ret_names, size_t *ret_n)
{
    DIR *dir = opendir(SHM_DIR);
    if (!dir)
        return gs_error_errno(errno, "reading " SHM_DIR);
    char **names = NULL;
    size_t n = 0, cap = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        struct stat st;
        if (!gs_starts(e->d_name, "gpuscale-") || fstatat(dirfd(dir), e->d_name, &st, 0) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        gs_grow(&names, &cap, n, sizeof(*names));
        names[n++] = gs_format("/%s", e->d_name);
    }
    closedir(dir);
    *ret_names = names;
    *ret_n = n;
    return NULL;
}

static void copy_mig(const struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                     struct nvmlsim_gpu_info *ret)
{
    ret->n_mig = b->n_mig;
    for (unsigned i = 0; i < b->n_mig; i++) {
        memcpy(ret->mig_uuid[i], b->mig[i].uuid, sizeof(ret->mig_uuid[i]));
        memcpy(ret->mig_profile[i], b->mig[i].profile, sizeof(ret->mig_profile[i]));
        ret->mig_memory_total[i] = b->mig[i].memory;
        ret->mig_memory_used[i] = nvmlsim_process_memory_used(g, b, 1 + i);
    }
}

void nvmlsim_gpu_info(struct nvmlsim *s, unsigned gpu, struct nvmlsim_gpu_info *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (gpu >= s->n_gpus)
        return;
    struct nvmlsim_shm_gpu *g = &s->seg->gpus[gpu];
    const struct nvmlsim_shm_board *b = &s->boards[gpu];
    NVMLSIM_SHM_HOLD(held, &g->lock);
    nvmlsim_process_reap(g);
    struct nvmlsim_activity_gauges v;
    nvmlsim_activity_gauges(g, b, s->created, gs_mono_ns(), &v);
    memcpy(ret->uuid, b->uuid, sizeof(ret->uuid));
    memcpy(ret->model, b->model.name, sizeof(ret->model));
    memcpy(ret->product, b->model.product, sizeof(ret->product));
    memcpy(ret->pci_bus_id, b->pci_bus_id, sizeof(ret->pci_bus_id));
    ret->memory_total = b->memory;
    ret->memory_reserved = b->reserved;
    ret->memory_used = nvmlsim_process_memory_all(g);
    ret->time_slices = b->time_slices;
    ret->slices_renamed = b->slices_renamed != 0;
    ret->slices_single = b->slices_single != 0;
    copy_mig(g, b, ret);
    ret->util_percent = v.gpu_util;
    ret->power_mw = v.power_mw;
    ret->temp_c = v.temp_c;
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES; i++)
        ret->n_processes += g->processes[i].state == NVMLSIM_SHM_PROC_LIVE;
    ret->last_xid = g->last_xid;
    ret->lost = g->lost != 0;
}

static bool is_dcgm(const char *call)
{
    return gs_starts(call, "dcgm");
}

static struct gs_error *check_call(const char *call)
{
    static const char *const known[] = {
#define CALL_NAME(name, arguments) #name,
        NVML_CALLS(CALL_NAME)
#undef CALL_NAME
#define UNSUPPORTED_NAME(name) #name,
            NVML_UNSUPPORTED_OF_DEVICE(UNSUPPORTED_NAME)
                NVML_UNSUPPORTED_OF_SYSTEM(UNSUPPORTED_NAME)
#undef UNSUPPORTED_NAME
#define DCGM_NAME(name, arguments) #name,
                    DCGM_CALLS(DCGM_NAME)
#undef DCGM_NAME
    };
    if (gs_streq(call, "*") || gs_streq(call, "dcgm*"))
        return NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
        if (gs_streq(call, known[i]))
            return NULL;
    const char *near = gs_suggest(call, known, GS_ARRAY_LEN(known));
    return gs_error_new(GS_EINVAL, "the simulated %s has no call \"%s\"%s%s%s",
                        is_dcgm(call) ? "DCGM" : "NVML", call,
                        near            ? "; did you mean "
                        : is_dcgm(call) ? " (\"dcgm*\" means all)"
                                        : " (\"*\" means all)",
                        near ? near : "", near ? "?" : "");
}

static struct gs_error *check_gpu(const struct nvmlsim *s, int gpu)
{
    if (gpu >= (int)s->n_gpus)
        return gs_error_new(GS_EINVAL, "%s has no GPU %d: it has %u, numbered from 0", s->name, gpu,
                            s->n_gpus);
    return NULL;
}

static struct gs_error *add_fault(struct nvmlsim *s, const char *call,
                                  const struct nvmlsim_shm_fault *rule)
{
    struct gs_error *err = check_call(call);
    if (!err)
        err = check_gpu(s, rule->gpu);
    if (err)
        return err;
    struct nvmlsim_shm_segment *seg = s->seg;
    NVMLSIM_SHM_HOLD(held, &seg->lock);
    struct nvmlsim_shm_fault *at = NULL;
    for (unsigned i = 0; i < NVMLSIM_SHM_FAULTS; i++) {
        struct nvmlsim_shm_fault *f = &seg->faults[i];
        bool same = f->gpu == rule->gpu && gs_streq(f->call, call);
        if (same || (!at && !f->call[0]))
            at = f;
        if (same)
            break;
    }
    if (!at)
        return gs_error_new(GS_ELIMIT,
                            "%s has %d fault rules, the maximum; clear them with "
                            "\"gpuscale sim clear\"",
                            s->name, NVMLSIM_SHM_FAULTS);
    if (!at->call[0])
        __atomic_add_fetch(&seg->n_faults, 1, __ATOMIC_RELEASE);
    *at = *rule;
    snprintf(at->call, sizeof(at->call), "%s", call);
    return NULL;
}

struct gs_error *nvmlsim_fail_call(struct nvmlsim *s, const char *call, int gpu, int code,
                                   unsigned count)
{
    if (is_dcgm(call) ? code >= 0 || code == NVMLSIM_FAULT_CRASH : code <= 0)
        return gs_error_new(GS_EINVAL, "%d is not an error code of %s", code,
                            is_dcgm(call) ? "DCGM" : "NVML");
    return add_fault(
        s, call,
        &(struct nvmlsim_shm_fault){.gpu = gpu < 0 ? -1 : gpu, .code = code, .left = count});
}

struct gs_error *nvmlsim_crash_call(struct nvmlsim *s, const char *call, unsigned count)
{
    if (!is_dcgm(call))
        return gs_error_new(GS_EINVAL, "only calls of DCGM can crash, not \"%s\"", call);
    return add_fault(
        s, call,
        &(struct nvmlsim_shm_fault){.gpu = -1, .code = NVMLSIM_FAULT_CRASH, .left = count});
}

struct gs_error *nvmlsim_hang_call(struct nvmlsim *s, const char *call, int gpu, unsigned ms,
                                   unsigned count)
{
    if (ms == 0)
        return gs_error_new(GS_EINVAL, "a call cannot hang for 0 ms");
    return add_fault(
        s, call,
        &(struct nvmlsim_shm_fault){.gpu = gpu < 0 ? -1 : gpu, .hang_ms = ms, .left = count});
}

struct gs_error *nvmlsim_set_value(struct nvmlsim *s, unsigned gpu, uint32_t what, uint64_t value)
{
    struct gs_error *err = check_gpu(s, (int)gpu);
    if (err)
        return err;
    struct nvmlsim_shm_gpu *g = &s->seg->gpus[gpu];
    NVMLSIM_SHM_HOLD(held, &g->lock);
    struct nvmlsim_shm_value *at = NULL;
    for (unsigned i = 0; i < NVMLSIM_SHM_VALUES; i++) {
        bool same = g->values[i].used && g->values[i].what == what;
        if (same || (!at && !g->values[i].used))
            at = &g->values[i];
        if (same)
            break;
    }
    if (!at)
        return gs_error_new(GS_ELIMIT, "GPU %u of %s has %d set values, the maximum", gpu, s->name,
                            NVMLSIM_SHM_VALUES);
    bool is_new = !at->used;
    *at = (struct nvmlsim_shm_value){.what = what, .used = 1, .value = value};
    if (is_new)
        __atomic_add_fetch(&g->n_values, 1, __ATOMIC_RELEASE);
    return NULL;
}

static const struct {
    const char *name;
    uint32_t what;
} value_names[] = {
    {"links-down", NVMLSIM_VALUE_LINKS_DOWN},
    {"fabric-state", NVMLSIM_VALUE_FABRIC_STATE},
    {"fabric-status", NVMLSIM_VALUE_FABRIC_STATUS},
    {"fabric-health", NVMLSIM_VALUE_FABRIC_HEALTH},
    {"unrepairable-memory", NVMLSIM_VALUE_UNREPAIRABLE},
    {"fabric-clique", NVMLSIM_VALUE_FABRIC_CLIQUE},
    {"sram-exceeded", NVMLSIM_VALUE_SRAM_EXCEEDED},
    {"banks-without-spare-rows", NVMLSIM_VALUE_BANKS_NONE},
    {"driver-branch", NVMLSIM_VALUE_DRIVER_BRANCH},
};

struct gs_error *nvmlsim_value_parse(const char *text, uint32_t *ret)
{
    const char *names[GS_ARRAY_LEN(value_names)];
    for (size_t i = 0; i < GS_ARRAY_LEN(value_names); i++) {
        names[i] = value_names[i].name;
        if (gs_streq(text, names[i])) {
            *ret = value_names[i].what;
            return NULL;
        }
    }
    uint64_t id = 0;
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_u64(gs_slice_of(text), NVMLSIM_VALUE_LINKS_DOWN - 1, &id);
    *ret = (uint32_t)id;
    if (!err)
        return NULL;
    const char *near = gs_suggest(text, names, GS_ARRAY_LEN(names));
    return gs_error_new(
        GS_EINVAL,
        "\"%s\" is not a value of a GPU: want the number of an NVML field, or a name such as %s",
        text, near ? near : names[0]);
}

static void clear_values(struct nvmlsim_shm_gpu *g)
{
    NVMLSIM_SHM_HOLD(held, &g->lock);
    memset(g->values, 0, sizeof(g->values));
    __atomic_store_n(&g->n_values, 0, __ATOMIC_RELEASE);
}

void nvmlsim_clear_faults(struct nvmlsim *s)
{
    for (unsigned i = 0; i < s->n_gpus; i++)
        clear_values(&s->seg->gpus[i]);
    NVMLSIM_SHM_HOLD(held, &s->seg->lock);
    s->seg->engine.dead_counters = 0;
    s->seg->engine.flags &= ~(uint32_t)NVMLSIM_ENGINE_FOREIGN_OWNER;
    memset(s->seg->faults, 0, sizeof(s->seg->faults));
    __atomic_store_n(&s->seg->n_faults, 0, __ATOMIC_RELEASE);
    __atomic_add_fetch(&s->seg->fault_generation, 1, __ATOMIC_RELEASE);
}

static void add_xid(struct nvmlsim_shm_gpu *g, unsigned xid)
{
    g->events[g->n_events % NVMLSIM_SHM_EVENTS] = (struct nvmlsim_shm_event){
        .type = NVML_EVENT_XID, .data = xid, .gi_id = UINT32_MAX, .ci_id = UINT32_MAX};
    g->n_events++;
    g->last_xid = xid;
}

struct gs_error *nvmlsim_lose_gpu(struct nvmlsim *s, unsigned gpu, bool lost)
{
    struct gs_error *err = check_gpu(s, (int)gpu);
    if (err)
        return err;
    struct nvmlsim_shm_gpu *g = &s->seg->gpus[gpu];
    {
        NVMLSIM_SHM_HOLD(held, &g->lock);
        if (lost && !g->lost)
            add_xid(g, XID_LOST);
        __atomic_store_n(&g->lost, lost, __ATOMIC_RELEASE);
    }
    nvmlsim_shm_event_wake(s->seg);
    return NULL;
}

struct gs_error *nvmlsim_report_xid(struct nvmlsim *s, unsigned gpu, unsigned xid)
{
    struct gs_error *err = check_gpu(s, (int)gpu);
    if (err)
        return err;
    if (xid == 0 || xid > XID_MAX)
        return gs_error_new(GS_EINVAL, "%u is not an XID: want 1 to %d", xid, XID_MAX);
    {
        NVMLSIM_SHM_HOLD(held, &s->seg->gpus[gpu].lock);
        add_xid(&s->seg->gpus[gpu], xid);
    }
    nvmlsim_shm_event_wake(s->seg);
    return NULL;
}

struct gs_error *nvmlsim_dcgm_code_parse(const char *text, int *ret)
{
    int64_t number = 0;
    struct gs_error *err = gs_parse_i64(gs_slice_of(text), DCGM_CODE_LEAST, -1, &number);
    if (err) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL,
                            "\"%s\" is not an error of DCGM: want a number from -1 to %d", text,
                            DCGM_CODE_LEAST);
    }
    *ret = (int)number;
    return NULL;
}

struct gs_error *nvmlsim_nvml_code_parse(const char *text, int *ret)
{
    static const struct {
        int number;
        const char *name;
    } codes[] = {
#define CODE_ROW(number, name, text) {number, #name},
        NVML_CODES(CODE_ROW)
#undef CODE_ROW
    };
    static const char prefix[] = "NVML_ERROR_";
    const char *name =
        strncasecmp(text, prefix, sizeof(prefix) - 1) == 0 ? text + sizeof(prefix) - 1 : text;
    int64_t number = 0;
    struct gs_error *err = gs_parse_i64(gs_slice_of(text), 1, 999, &number);
    bool is_number = !err;
    gs_error_free(err);
    const char *names[GS_ARRAY_LEN(codes)];
    for (size_t i = 0; i < GS_ARRAY_LEN(codes); i++) {
        names[i] = codes[i].name;
        if (is_number ? codes[i].number == number : strcasecmp(name, codes[i].name) == 0) {
            *ret = codes[i].number;
            return NULL;
        }
    }
    const char *near = gs_suggest(name, names, GS_ARRAY_LEN(names));
    return gs_error_new(
        GS_EINVAL,
        "\"%s\" is not an NVML error: want a number from 1 to 30, 999, or a name such as %s", text,
        near ? near : "GPU_IS_LOST");
}
