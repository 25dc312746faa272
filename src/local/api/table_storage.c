// SPDX-License-Identifier: Apache-2.0
// PersistentVolumes and their claims.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/table.h"

static void cell_access_modes(json_t *cells, const json_t *modes)
{
    static const char *const names[][2] = {{"ReadWriteOnce", "RWO"},
                                           {"ReadOnlyMany", "ROX"},
                                           {"ReadWriteMany", "RWX"},
                                           {"ReadWriteOncePod", "RWOP"}};
    struct gs_buf text = {0};
    size_t i;
    json_t *mode;
    json_array_foreach (modes, i, mode)
        for (size_t n = 0; n < GS_ARRAY_LEN(names); n++)
            if (gs_streq(json_string_value(mode), names[n][0]))
                gs_buf_addf(&text, "%s%s", text.len ? "," : "", names[n][1]);
    local_api_cell_buf(cells, &text, "");
}

static void cell_class(json_t *cells, const json_t *spec)
{
    local_api_cell_str(cells, codec_json_str(spec, "storageClassName", NULL));
    local_api_cell_or(cells, codec_json_str(spec, "volumeAttributesClassName", NULL), "<unset>");
}

static void claim_cells(const json_t *claim, json_t *cells, int64_t now_ms)
{
    const json_t *spec = json_object_get(claim, "spec"), *status = json_object_get(claim, "status");
    const char *phase = codec_json_str(status, "phase", NULL);
    local_api_cell_name(cells, claim);
    local_api_cell_str(cells, kube_is_deleting(claim) ? "Terminating" : phase);
    local_api_cell_str(cells, codec_json_str(spec, "volumeName", NULL));
    local_api_cell_str(cells, codec_json_str(status, "capacity", "storage", NULL));
    cell_access_modes(cells, json_object_get(status, "accessModes"));
    cell_class(cells, spec);
    local_api_cell_age(cells, claim, now_ms);
    local_api_cell_or(cells, codec_json_str(spec, "volumeMode", NULL), "<unset>");
}

const struct local_api_table local_api_table_claims = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Status", "string", 0, "Phase of the claim"},
        {"Volume", "string", 0, "The PersistentVolume that the claim is bound to"},
        {"Capacity", "string", 0, "Actual resources of the volume"},
        {"Access Modes", "string", 0, "Actual access modes of the volume"},
        {"StorageClass", "string", 0, "Name of the StorageClass"},
        {"VolumeAttributesClass", "string", 0, "Name of the VolumeAttributesClass"},
        LOCAL_API_COLUMN_AGE,
        {"VolumeMode", "string", 1, "Type of the volume"},
        {0}},
    claim_cells,
    NULL,
};

static void cell_claim(json_t *cells, const json_t *claim)
{
    GS_AUTO_FREE char *text = NULL;
    if (claim)
        text = gs_format("%s/%s", codec_json_str(claim, "namespace", NULL),
                         codec_json_str(claim, "name", NULL));
    local_api_cell_str(cells, text);
}

static void volume_cells(const json_t *volume, json_t *cells, int64_t now_ms)
{
    const json_t *spec = json_object_get(volume, "spec");
    const char *phase = kube_phase(volume);
    local_api_cell_name(cells, volume);
    local_api_cell_str(cells, codec_json_str(spec, "capacity", "storage", NULL));
    cell_access_modes(cells, json_object_get(spec, "accessModes"));
    local_api_cell_str(cells, codec_json_str(spec, "persistentVolumeReclaimPolicy", NULL));
    local_api_cell_str(cells, kube_is_deleting(volume) ? "Terminating" : phase);
    cell_claim(cells, json_object_get(spec, "claimRef"));
    cell_class(cells, spec);
    local_api_cell_str(cells, codec_json_str(volume, "status", "reason", NULL));
    local_api_cell_age(cells, volume, now_ms);
    local_api_cell_or(cells, codec_json_str(spec, "volumeMode", NULL), "<unset>");
}

const struct local_api_table local_api_table_volumes = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Capacity", "string", 0, "Resources of the volume"},
        {"Access Modes", "string", 0, "Access modes of the volume"},
        {"Reclaim Policy", "string", 0, "What happens to the volume when its claim is deleted"},
        {"Status", "string", 0, "Phase of the volume"},
        {"Claim", "string", 0, "The claim that is bound to the volume"},
        {"StorageClass", "string", 0, "Name of the StorageClass"},
        {"VolumeAttributesClass", "string", 0, "Name of the VolumeAttributesClass"},
        {"Reason", "string", 0, "Cause of the phase"},
        LOCAL_API_COLUMN_AGE,
        {"VolumeMode", "string", 1, "Type of the volume"},
        {0}},
    volume_cells,
    NULL,
};
