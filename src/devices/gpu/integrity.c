// SPDX-License-Identifier: Apache-2.0
// State of the board and its fabric: InfoROM checksum, unrepairable memory, registration with the
// fabric manager of an NVSwitch system, and links that are down.
#include "gpu/gpu_private.h"

#include <stdio.h>
#include <string.h>

// The driver reads the whole InfoROM for this call.
#define INFOROM_AGAIN_NS (60 * GS_NS_PER_SEC)
// One call per link; the largest boards have 18.
#define LINKS_AGAIN_NS (5 * GS_NS_PER_SEC)
enum { MAX_LINKS = 36 };

static void read_inforom(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    int64_t now = gs_mono_ns();
    if (!k->inforom_ns || now - k->inforom_ns > INFOROM_AGAIN_NS) {
        nvml_ret ret = NVML(r, validate_inforom, k->handle);
        k->inforom_ns = now;
        k->inforom = ret == NVML_CORRUPTED_INFOROM ? gpu_backend_integer(NVML_OK, 0)
                                                   : gpu_backend_integer(ret, 1);
    }
    d->fields[GPU_F_INFOROM_VALID] = k->inforom;
}

// DCGM's numbers. Its 0, a GPU without a fabric, is an invalid value here.
static struct gpu_value fabric_status(const struct nvml_fabric_info *f)
{
    enum { NOT_STARTED = 1, IN_PROGRESS, SUCCESS, FAILURE, UNRECOGNIZED };
    switch (f->state) {
    case NVML_FABRIC_NOT_STARTED:
        return gpu_backend_integer(NVML_OK, NOT_STARTED);
    case NVML_FABRIC_IN_PROGRESS:
        return gpu_backend_integer(NVML_OK, IN_PROGRESS);
    case NVML_FABRIC_COMPLETED:
        return gpu_backend_integer(NVML_OK, f->status == NVML_OK ? SUCCESS : FAILURE);
    default:
        return gpu_backend_integer(NVML_OK, UNRECOGNIZED);
    }
}

static void read_fabric_ids(struct gpu_known_device *k, struct gpu_device *d,
                            const struct nvml_fabric_info *f, nvml_ret ret)
{
    // A GPU has a cluster and a clique only after a completed registration.
    if (ret == NVML_OK && (f->state != NVML_FABRIC_COMPLETED || f->status != NVML_OK))
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_FABRIC_CLIQUE_ID] = gpu_backend_integer(ret, f->clique);
    static const uint8_t no_cluster[sizeof(f->cluster)]; // its NVLinks do not leave this machine
    if (ret == NVML_OK && memcmp(f->cluster, no_cluster, sizeof(no_cluster)) == 0)
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_FABRIC_CLUSTER_UUID] = gpu_backend_integer(ret, 0); // a text field
    k->cluster[0] = '\0';
    if (ret != NVML_OK)
        return;
    char *at = k->cluster;
    for (size_t i = 0; i < sizeof(f->cluster); i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        at += sprintf(at, "%s%02x", dash ? "-" : "", f->cluster[i]);
    }
}

static void read_fabric(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_fabric_info f = {.version = NVML_VERSION_WORD(struct nvml_fabric_info, 3)};
    nvml_ret ret = NVML(r, fabric_info, k->handle, &f);
    if (ret == NVML_ARGUMENT_VERSION_MISMATCH || ret == NVML_INVALID_ARGUMENT) { // an older driver
        f = (struct nvml_fabric_info){
            .version = (uint32_t)offsetof(struct nvml_fabric_info, health_summary) | 2U << 24};
        ret = NVML(r, fabric_info, k->handle, &f);
    }
    if (ret == NVML_ARGUMENT_VERSION_MISMATCH || (ret == NVML_OK && f.state == 0))
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_FABRIC_STATUS] = ret == NVML_OK ? fabric_status(&f) : gpu_backend_invalid(ret);
    d->fields[GPU_F_FABRIC_HEALTH_MASK] = gpu_backend_integer(ret, f.health_mask);
    read_fabric_ids(k, d, &f, ret);
    if (ret == NVML_OK && f.health_summary == 0)
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_FABRIC_HEALTH_SUMMARY] = gpu_backend_integer(ret, f.health_summary);
}

static void read_repair(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    // Before the call, both words have an unused value. The word that the driver changes is the
    // flag.
    static const uint32_t untouched = 0xA5A5A5A5;
    union nvml_unrepairable u = {.versioned = {NVML_UNREPAIRABLE_VERSION, untouched}};
    nvml_ret ret = NVML(r, unrepairable, k->handle, &u);
    uint32_t flag = 0;
    if (ret == NVML_ARGUMENT_VERSION_MISMATCH)
        ret = NVML_NOT_SUPPORTED;
    else if (ret == NVML_OK && u.versioned.flag != untouched)
        flag = u.versioned.flag;
    else if (ret == NVML_OK && u.flag_alone != NVML_UNREPAIRABLE_VERSION)
        flag = u.flag_alone;
    else if (ret == NVML_OK) // success, but nothing was written
        ret = NVML_UNKNOWN;
    d->fields[GPU_F_MEMORY_UNREPAIRABLE] = gpu_backend_integer(ret, flag != 0);
}

static void read_banks(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_row_histogram h = {0};
    nvml_ret ret = NVML(r, row_histogram, k->handle, &h);
    d->fields[GPU_F_BANKS_MAX] = gpu_backend_integer(ret, h.max);
    d->fields[GPU_F_BANKS_HIGH] = gpu_backend_integer(ret, h.high);
    d->fields[GPU_F_BANKS_PARTIAL] = gpu_backend_integer(ret, h.partial);
    d->fields[GPU_F_BANKS_LOW] = gpu_backend_integer(ret, h.low);
    d->fields[GPU_F_BANKS_NONE] = gpu_backend_integer(ret, h.none);
}

static void read_sram(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_sram_status s = {.version = NVML_VERSION_WORD(struct nvml_sram_status, 1)};
    nvml_ret ret = NVML(r, sram_status, k->handle, &s);
    if (ret == NVML_ARGUMENT_VERSION_MISMATCH)
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_SRAM_EXCEEDED] = gpu_backend_integer(ret, s.threshold_exceeded != 0);
}

static unsigned count_links(struct gpu_reader *r, struct gpu_known_device *k, nvml_ret *ret)
{
    struct nvml_field_value v = {.field_id = NVML_FI_NVLINK_COUNT};
    *ret = NVML(r, field_values, k->handle, 1, &v);
    if (*ret == NVML_OK)
        *ret = v.ret == NVML_INVALID_ARGUMENT ? NVML_NOT_SUPPORTED : v.ret;
    unsigned n = *ret == NVML_OK ? v.value.u32 : 0;
    return n < MAX_LINKS ? n : MAX_LINKS;
}

// A link without a state does not exist, as in DCGM.
static struct gpu_value links_down(struct gpu_reader *r, struct gpu_known_device *k)
{
    nvml_ret ret = NVML_OK;
    unsigned n = count_links(r, k, &ret), reported = 0, down = 0;
    for (unsigned i = 0; i < n && !r->device_lost; i++) {
        int active = 0;
        if (NVML(r, link_state, k->handle, i, &active) != NVML_OK)
            continue;
        reported++;
        down += !active;
    }
    return gpu_backend_integer(ret == NVML_OK && !reported ? NVML_NOT_SUPPORTED : ret, down);
}

static void read_links(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    int64_t now = gs_mono_ns();
    if (!k->links_ns || now - k->links_ns > LINKS_AGAIN_NS) {
        k->links_down = links_down(r, k);
        k->links_ns = now;
    }
    d->fields[GPU_F_NVLINKS_DOWN] = k->links_down;
}

void gpu_backend_read_integrity(struct gpu_reader *r, struct gpu_known_device *k,
                                struct gpu_device *d)
{
    if (r->due_group[GPU_G_INFOROM])
        read_inforom(r, k, d);
    if (r->due_group[GPU_G_FABRIC] && !r->device_lost)
        read_fabric(r, k, d);
    if (r->due_group[GPU_G_REPAIR] && !r->device_lost)
        read_repair(r, k, d);
    if (r->due_group[GPU_G_REMAP_BANKS] && !r->device_lost)
        read_banks(r, k, d);
    if (r->due_group[GPU_G_SRAM] && !r->device_lost)
        read_sram(r, k, d);
    if (r->due_group[GPU_G_LINK_STATE] && !r->device_lost)
        read_links(r, k, d);
    memcpy(d->texts[GPU_T_CLUSTER], k->cluster, sizeof(k->cluster));
}
