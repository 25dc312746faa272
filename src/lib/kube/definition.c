// SPDX-License-Identifier: Apache-2.0
// What followers of custom resources need of a definition: a version to read, without the schemas.
#include "kube/definition.h"

#include "codec/json.h"
#include "kube/object.h"

void kube_definition_trim(json_t *crd)
{
    size_t i;
    json_t *version;
    json_array_foreach (codec_json_get(crd, "spec", "versions", NULL), i, version) {
        json_object_del(version, "schema");
        json_object_del(version, "additionalPrinterColumns");
    }
    json_object_del(json_object_get(crd, "metadata"), "managedFields");
    json_object_del(json_object_get(crd, "metadata"), "annotations");
}

const json_t *kube_definition_version(const json_t *crd)
{
    size_t i;
    json_t *version;
    const json_t *found = NULL;
    if (!kube_condition_true(crd, "Established"))
        return NULL;
    json_array_foreach (codec_json_get(crd, "spec", "versions", NULL), i, version)
        if (codec_json_bool(version, false, "served", NULL) &&
            (!found || codec_json_bool(version, false, "storage", NULL)))
            found = version;
    return found;
}
