// SPDX-License-Identifier: Apache-2.0
// See fake_dcgm.h.
#include "fake_dcgm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GROUPS = 64, WATCHES = 64 };

struct group {
    bool used;
    bool prof; // of a field group: it has a profiling field
};

static struct fake_dcgm *ctl;
static uint32_t generation; // of the handle
static struct group groups[MAX_GROUPS], field_groups[MAX_GROUPS];

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int alive(void)
{
    return ctl->running && ctl->generation == generation ? DCGM_OK : DCGM_CONNECTION_LOST;
}

int dcgmInit(void);
int dcgmInit(void)
{
    int fd = open(getenv("FAKE_DCGM"), O_RDWR | O_CLOEXEC);
    ctl = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*ctl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return ctl == MAP_FAILED ? DCGM_GENERIC : DCGM_OK;
}

dcgm_connect_v2_fn dcgmConnect_v2;
int dcgmConnect_v2(const char *address, struct dcgm_connect_v2 *p, dcgm_handle *ret)
{
    if (!address || p->version != DCGM_CONNECT_V2)
        return DCGM_VERSION_MISMATCH;
    if (!ctl->running)
        return DCGM_CONNECTION_LOST;
    memset(groups, 0, sizeof(groups));
    memset(field_groups, 0, sizeof(field_groups));
    ctl->live_groups = ctl->live_field_groups = 0; // the objects of a connection end with it
    generation = ctl->generation;
    ctl->connects++;
    *ret = 1;
    return DCGM_OK;
}

dcgm_disconnect_fn dcgmDisconnect;
int dcgmDisconnect(dcgm_handle h)
{
    (void)h;
    return DCGM_OK;
}

dcgm_start_embedded_fn dcgmStartEmbedded;
int dcgmStartEmbedded(int mode, dcgm_handle *ret)
{
    (void)mode;
    generation = ctl->generation;
    ctl->connects++;
    *ret = 1;
    return DCGM_OK;
}

dcgm_stop_embedded_fn dcgmStopEmbedded;
int dcgmStopEmbedded(dcgm_handle h)
{
    (void)h;
    return DCGM_OK;
}

dcgm_engine_version_fn dcgmHostengineVersionInfo;
int dcgmHostengineVersionInfo(dcgm_handle h, struct dcgm_version_info *ret)
{
    (void)h;
    snprintf(ret->raw, sizeof(ret->raw), "version:4.5.3;arch:x86_64;");
    return ctl->verify_code ? ctl->verify_code : alive();
}

dcgm_version_info_fn dcgmVersionInfo;
int dcgmVersionInfo(struct dcgm_version_info *ret)
{
    snprintf(ret->raw, sizeof(ret->raw), "version:4.6.1;arch:x86_64;");
    return DCGM_OK;
}

dcgm_all_devices_fn dcgmGetAllDevices;
int dcgmGetAllDevices(dcgm_handle h, uint32_t ret_ids[DCGM_MAX_GPUS], int *ret_n)
{
    (void)h;
    *ret_n = (int)ctl->n_gpus;
    for (uint32_t i = 0; i < ctl->n_gpus; i++)
        ret_ids[i] = i;
    return alive();
}

dcgm_device_attributes_fn dcgmGetDeviceAttributes;
int dcgmGetDeviceAttributes(dcgm_handle h, uint32_t gpu, struct dcgm_attributes *ret)
{
    (void)h;
    if (ret->version != DCGM_ATTRIBUTES)
        return DCGM_VERSION_MISMATCH;
    snprintf(ret->identifiers.uuid, sizeof(ret->identifiers.uuid), "%s",
             gpu ? FAKE_UUID_1 : FAKE_UUID_0);
    snprintf(ret->identifiers.pci_bus_id, sizeof(ret->identifiers.pci_bus_id), "00000000:%02X:00.0",
             0x10 + gpu);
    return alive();
}

dcgm_mig_hierarchy_fn dcgmGetGpuInstanceHierarchy;
int dcgmGetGpuInstanceHierarchy(dcgm_handle h, struct dcgm_mig_hierarchy *ret)
{
    (void)h;
    ret->count = ctl->n_gpus == 2 ? 2 : 0;
    ret->rows[0] = (struct dcgm_mig_row){.entity = {DCGM_ENTITY_GPU_I, FAKE_INSTANCE},
                                         .parent = {DCGM_ENTITY_GPU, 1},
                                         .info.nvml_instance_id = FAKE_NVML_INSTANCE};
    ret->rows[1] = (struct dcgm_mig_row){.entity = {DCGM_ENTITY_GPU_CI, FAKE_INSTANCE},
                                         .parent = {DCGM_ENTITY_GPU_I, FAKE_INSTANCE}};
    return alive();
}

dcgm_entities_fn dcgmGetEntityGroupEntities;
int dcgmGetEntityGroupEntities(dcgm_handle h, uint32_t group, uint32_t *ret_ids, int *n,
                               uint32_t flags)
{
    (void)h, (void)flags;
    *n = group == DCGM_ENTITY_SWITCH;
    ret_ids[0] = 0;
    return alive();
}

// Only the older version, as before 4.6.
dcgm_link_status_fn dcgmGetNvLinkLinkStatus;
int dcgmGetNvLinkLinkStatus(dcgm_handle h, void *ret)
{
    (void)h;
    struct dcgm_link_status_v4 *s = ret;
    if (s->version != DCGM_LINK_STATUS_V4)
        return DCGM_VERSION_MISMATCH;
    s->n_gpus = 1;
    s->gpus[0].state[1] = DCGM_LINK_UP;
    s->gpus[0].state[2] = DCGM_LINK_DOWN;
    s->n_switches = 1;
    s->switches[0].state[0] = DCGM_LINK_UP;
    return alive();
}

dcgm_cpu_hierarchy_fn dcgmGetCpuHierarchy;
int dcgmGetCpuHierarchy(dcgm_handle h, struct dcgm_cpu_hierarchy_v1 *ret)
{
    (void)h;
    ret->count = 1;
    ret->cpus[0].cores.bitmask[0] = 3;
    return alive();
}

static int create(struct group *list, _Atomic int *live, bool prof, uintptr_t *ret)
{
    for (uintptr_t i = 0; i < MAX_GROUPS; i++) {
        if (list[i].used)
            continue;
        list[i] = (struct group){true, prof};
        ++*live;
        *ret = i;
        return alive();
    }
    return DCGM_LIMIT;
}

static int destroy(struct group *list, _Atomic int *live, uintptr_t id)
{
    if (id >= MAX_GROUPS || !list[id].used)
        return DCGM_NOT_CONFIGURED;
    list[id].used = false;
    --*live;
    return alive();
}

dcgm_group_create_fn dcgmGroupCreate;
int dcgmGroupCreate(dcgm_handle h, uint32_t type, const char *name, dcgm_group *ret)
{
    (void)h, (void)name;
    return type == DCGM_GROUP_EMPTY ? create(groups, &ctl->live_groups, false, ret)
                                    : DCGM_BAD_PARAMETER;
}

dcgm_group_add_entity_fn dcgmGroupAddEntity;
int dcgmGroupAddEntity(dcgm_handle h, dcgm_group g, uint32_t entity_group, uint32_t id)
{
    (void)h, (void)entity_group, (void)id;
    return g < MAX_GROUPS && groups[g].used ? alive() : DCGM_NOT_CONFIGURED;
}

dcgm_group_destroy_fn dcgmGroupDestroy;
int dcgmGroupDestroy(dcgm_handle h, dcgm_group g)
{
    (void)h;
    return destroy(groups, &ctl->live_groups, g);
}

dcgm_field_group_create_fn dcgmFieldGroupCreate;
int dcgmFieldGroupCreate(dcgm_handle h, int n, const uint16_t *ids, const char *name,
                         dcgm_field_group *ret)
{
    (void)h, (void)name;
    bool prof = false;
    for (int i = 0; i < n; i++) {
        prof |= ids[i] > 1000 && ids[i] < 1100;
        if (ids[i] == ctl->unknown_id)
            return DCGM_BAD_PARAMETER;
    }
    return create(field_groups, &ctl->live_field_groups, prof, ret);
}

dcgm_field_group_destroy_fn dcgmFieldGroupDestroy;
int dcgmFieldGroupDestroy(dcgm_handle h, dcgm_field_group f)
{
    (void)h;
    return destroy(field_groups, &ctl->live_field_groups, f);
}

dcgm_watch_fn dcgmWatchFields;
int dcgmWatchFields(dcgm_handle h, dcgm_group g, dcgm_field_group f, long long interval_us,
                    double keep_s, int keep_samples)
{
    (void)h, (void)g, (void)interval_us, (void)keep_s, (void)keep_samples;
    bool prof = f < MAX_GROUPS && field_groups[f].prof;
    ctl->watches++;
    ctl->prof_watches += prof;
    int code = prof ? ctl->prof_watch_code : ctl->watch_code;
    return code ? code : alive();
}

dcgm_unwatch_fn dcgmUnwatchFields;
int dcgmUnwatchFields(dcgm_handle h, dcgm_group g, dcgm_field_group f)
{
    (void)h, (void)g, (void)f;
    ctl->unwatches++;
    return alive();
}

static void fill(struct dcgm_value_v2 *v, const struct dcgm_entity_pair *e, uint16_t field)
{
    bool is_double = field < 1009 && field > 1000;
    *(struct dcgm_value_v2 *)v = (struct dcgm_value_v2){
        .version = DCGM_VALUE_V2, .entity_group = e->group, .entity_id = e->id, .field_id = field};
    if (!ctl->frozen || !ctl->frozen_us)
        ctl->frozen_us = now_us();
    v->ts = (ctl->frozen ? ctl->frozen_us : now_us()) + ctl->clock_us;
    v->field_type = is_double ? DCGM_TYPE_DOUBLE : DCGM_TYPE_INT64;
    if (is_double)
        v->value.dbl = ctl->blank  ? DCGM_BLANK_DOUBLE
                       : ctl->zero ? 0
                                   : 0.5 + e->id / 100.0 + (e->group == DCGM_ENTITY_GPU_I) / 10.0;
    else
        v->value.i64 = ctl->blank ? DCGM_BLANK_INT64 : ctl->zero ? 0 : 1000 + e->id;
    // PCIe is not measured for a MIG device.
    if (e->group == DCGM_ENTITY_GPU_I && field == 1009)
        v->value.i64 = DCGM_BLANK_INT64 + 2;
}

dcgm_read_fn dcgmEntitiesGetLatestValues;
int dcgmEntitiesGetLatestValues(dcgm_handle h, struct dcgm_entity_pair *entities,
                                uint32_t n_entities, uint16_t *fields, uint32_t n_fields,
                                uint32_t flags, struct dcgm_value_v2 *ret)
{
    (void)h, (void)flags;
    ctl->reads++;
    while (ctl->hang)
        sleep(1);
    if (ctl->crash)
        abort();
    if (ctl->exit_code)
        _exit(ctl->exit_code);
    if (ctl->leak_mib)
        memset(malloc((size_t)ctl->leak_mib << 20), 1, (size_t)ctl->leak_mib << 20);
    for (uint32_t i = 0; i < n_entities; i++)
        for (uint32_t k = 0; k < n_fields; k++)
            fill(&ret[i * n_fields + k], &entities[i], fields[k]);
    return ctl->read_code ? ctl->read_code : alive();
}

// The second GPU measures less.
dcgm_metric_groups_fn dcgmProfGetSupportedMetricGroups;
int dcgmProfGetSupportedMetricGroups(dcgm_handle h, struct dcgm_metric_groups *ret)
{
    (void)h;
    ret->count = 1;
    ret->groups[0] = ret->gpu ? (struct dcgm_metric_group){0, 0, 2, {1001, 1009}}
                              : (struct dcgm_metric_group){0, 0, 3, {1001, 1005, 1009}};
    return ctl->groups_code ? ctl->groups_code : alive();
}

dcgm_error_string_fn errorString;
const char *errorString(int code)
{
    return code == DCGM_PROFILING_FAILED ? "the profiling library failed" : "an error";
}
