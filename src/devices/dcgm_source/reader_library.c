// SPDX-License-Identifier: Apache-2.0
// Loads libdcgm into the reader process, and explains its codes.
#include "dcgm_source/reader_private.h"

#include "base/slice.h"
#include "dcgm/code.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define SIMULATED_SYMBOL "gpuscaleDcgmIsSimulated"

static void resolve(void *library, struct dcgm_library *ret)
{
#define SYM(member, name) ret->member = (__typeof__(ret->member))(uintptr_t)dlsym(library, name)
    SYM(init, "dcgmInit");
    SYM(start_embedded, "dcgmStartEmbedded");
    SYM(start_embedded_v2, "dcgmStartEmbedded_v2");
    SYM(stop_embedded, "dcgmStopEmbedded");
    SYM(connect, "dcgmConnect_v2");
    SYM(disconnect, "dcgmDisconnect");
    SYM(version, "dcgmVersionInfo");
    SYM(engine_version, "dcgmHostengineVersionInfo");
    SYM(all_devices, "dcgmGetAllDevices");
    SYM(attributes, "dcgmGetDeviceAttributes");
    SYM(entities, "dcgmGetEntityGroupEntities");
    SYM(mig_hierarchy, "dcgmGetGpuInstanceHierarchy");
    SYM(link_status, "dcgmGetNvLinkLinkStatus");
    SYM(cpu_hierarchy, "dcgmGetCpuHierarchy");
    SYM(group_create, "dcgmGroupCreate");
    SYM(group_add, "dcgmGroupAddEntity");
    SYM(group_destroy, "dcgmGroupDestroy");
    SYM(field_group_create, "dcgmFieldGroupCreate");
    SYM(field_group_destroy, "dcgmFieldGroupDestroy");
    SYM(watch, "dcgmWatchFields");
    SYM(unwatch, "dcgmUnwatchFields");
    SYM(read, "dcgmEntitiesGetLatestValues");
    SYM(metric_groups, "dcgmProfGetSupportedMetricGroups");
    SYM(field_by_id, "DcgmFieldGetById");
#undef SYM
    ret->simulated = dlsym(library, SIMULATED_SYMBOL) != NULL;
}

static bool is_complete(const struct dcgm_library *l)
{
    return l->init && l->connect && l->disconnect && l->all_devices && l->attributes &&
           l->group_create && l->group_add && l->group_destroy && l->field_group_create &&
           l->field_group_destroy && l->watch && l->unwatch && l->read;
}

static struct gs_error *load_one(const char *path, struct dcgm_library *ret)
{
    // Global, because the library's modules are loaded later and use its symbols.
    void *library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
    if (!library)
        return gs_error_new(GS_ENOTFOUND, "%s", dlerror());
    struct dcgm_library l = {0};
    resolve(library, &l);
    if (!is_complete(&l))
        return gs_error_new(GS_EINVAL, "%s is not a libdcgm that this program can use", path);
    int code = l.init();
    if (code != DCGM_OK)
        return gs_error_new(GS_EUNAVAIL, "%s: dcgmInit: %s", path, dcgm_code_text(code));
    *ret = l;
    return NULL;
}

struct gs_error *dcgm_reader_load(const char *path, struct dcgm_library *ret)
{
    static const char *const names[] = {"libdcgm.so.4", "libdcgm.so.3"};
    struct gs_error *err = NULL;
    if (path)
        return load_one(path, ret);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        gs_error_free(err);
        err = load_one(names[i], ret);
        if (!err || gs_error_code(err) != GS_ENOTFOUND)
            return err;
    }
    gs_error_free(err);
    return gs_error_new(GS_ENOTFOUND,
                        "libdcgm.so.4 is not installed (package "
                        "datacenter-gpu-manager-4-core); --dcgm-library names another");
}

void dcgm_reader_describe(const struct dcgm_reader *r, const char *call, int code, char *ret,
                          size_t size)
{
    const struct dcgm_source_report *v = &r->report;
    if (code == DCGM_VERSION_MISMATCH)
        snprintf(ret, size, "%s: libdcgm %s and the host engine %s are of different versions (%d)",
                 call, v->library_version, v->version, code);
    else
        snprintf(ret, size, "%s: %s", call, dcgm_code_text(code));
}

void dcgm_reader_parse_version(const char *raw, char ret[static 32])
{
    const char *at = strstr(raw, "version:");
    ret[0] = 0;
    if (at)
        snprintf(ret, 32, "%.*s", (int)strcspn(at + 8, ";"), at + 8);
}
