// SPDX-License-Identifier: Apache-2.0
// Constant properties of a device: names, addresses, firmware versions.
#include "gpu/gpu_private.h"

#include "base/slice.h"

#include <stdio.h>
#include <string.h>

static const char *brand_name(int brand)
{
    static const char *const names[] = {
        "Unknown",   "Quadro",      "Tesla",     "NVS",        "Grid",      "GeForce",
        "Titan",     "NvidiaVApps", "NvidiaVPC", "NvidiaVCS",  "NvidiaVWS", "NvidiaCloudGaming",
        "QuadroRTX", "NvidiaRTX",   "Nvidia",    "GeForceRTX", "TitanRTX",
    };
    return brand >= 0 && (size_t)brand < GS_ARRAY_LEN(names) ? names[brand] : "Unknown";
}

void gpu_backend_clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            *text = '?';
}

// Notes that a call is to be repeated at the next sample. What is known stays until then.
static bool must_repeat(struct gpu_known_device *k, nvml_ret ret)
{
    bool repeat = gpu_backend_may_pass(ret);
    k->named = k->named && !repeat;
    return repeat;
}

static void set_text(struct gpu_known_device *k, enum gpu_text t, nvml_ret ret, char *text)
{
    if (must_repeat(k, ret) && k->text_validity[t] == GPU_VALID)
        return;
    k->text_validity[t] = gpu_backend_validity(ret);
    k->texts[t][0] = '\0';
    if (ret != NVML_OK)
        return;
    gpu_backend_clean_text(text, GPU_TEXT_SIZE);
    memcpy(k->texts[t], text, GPU_TEXT_SIZE);
    if (!text[0])
        k->text_validity[t] = GPU_NOT_SUPPORTED;
}

static void read_texts(struct gpu_reader *r, struct gpu_known_device *k)
{
    char text[GPU_TEXT_SIZE] = "";
    int brand = 0;
    nvml_ret ret = NVML(r, brand, k->handle, &brand);
    snprintf(text, sizeof(text), "%s", brand_name(brand));
    set_text(k, GPU_T_BRAND, ret, text);
    set_text(k, GPU_T_SERIAL, NVML(r, serial, k->handle, text, sizeof(text)), text);
    static const struct {
        enum gpu_text text;
        int object;
    } objects[] = {
        {GPU_T_OEM_INFOROM, NVML_INFOROM_OEM},
        {GPU_T_ECC_INFOROM, NVML_INFOROM_ECC},
        {GPU_T_POWER_INFOROM, NVML_INFOROM_POWER},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(objects); i++) {
        ret = NVML(r, inforom, k->handle, objects[i].object, text, sizeof(text));
        set_text(k, objects[i].text, ret, text);
    }
    ret = NVML(r, inforom_image, k->handle, text, sizeof(text));
    set_text(k, GPU_T_INFOROM_IMAGE, ret, text);
    set_text(k, GPU_T_VBIOS, NVML(r, vbios, k->handle, text, sizeof(text)), text);
}

static bool wants_texts(const struct gpu_reader *r)
{
    static const enum gpu_field texts[] = {
        GPU_F_BRAND,         GPU_F_SERIAL,        GPU_F_OEM_INFOROM, GPU_F_ECC_INFOROM,
        GPU_F_POWER_INFOROM, GPU_F_INFOROM_IMAGE, GPU_F_VBIOS,
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        if (r->backend->wanted[texts[i]])
            return true;
    return false;
}

static void read_name(struct gpu_reader *r, struct gpu_known_device *k)
{
    char name[NVML_TEXT_NAME] = "";
    nvml_ret ret = NVML(r, name, k->handle, name, sizeof(name));
    if (ret == NVML_OK)
        snprintf(k->name, sizeof(k->name), "%.*s", (int)sizeof(name) - 1, name);
    must_repeat(k, ret);
    gpu_backend_clean_text(k->name, sizeof(k->name));
}

static void read_minor(struct gpu_reader *r, struct gpu_known_device *k)
{
    unsigned minor = 0;
    nvml_ret ret = NVML(r, minor, k->handle, &minor);
    if (must_repeat(k, ret))
        return;
    k->has_minor = ret == NVML_OK;
    k->minor = minor;
}

static void read_bus_id(struct gpu_reader *r, struct gpu_known_device *k)
{
    struct nvml_pci_info pci = {0};
    nvml_ret ret = NVML(r, pci_info, k->handle, &pci);
    if (ret == NVML_OK)
        // A fallback symbol only fills the legacy text, whose domain has four digits.
        snprintf(k->pci_bus_id, sizeof(k->pci_bus_id), "%s%.*s", pci.bus_id[0] ? "" : "0000",
                 pci.bus_id[0] ? 31 : 15, pci.bus_id[0] ? pci.bus_id : pci.bus_id_legacy);
    must_repeat(k, ret);
    gpu_backend_clean_text(k->pci_bus_id, sizeof(k->pci_bus_id));
}

void gpu_backend_read_identity(struct gpu_reader *r, struct gpu_known_device *k)
{
    k->named = true;
    read_name(r, k);
    read_minor(r, k);
    read_bus_id(r, k);
    if (wants_texts(r))
        read_texts(r, k);
    // A device without a name is queried again, too.
    k->named = k->named && k->name[0] && k->pci_bus_id[0];
}
