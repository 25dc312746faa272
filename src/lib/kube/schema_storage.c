// SPDX-License-Identifier: Apache-2.0
// storage group.
#include "kube/schema_private.h"

#define STORAGE "io.k8s.api.storage.v1."

SHARED_TYPE(storage_class, STORAGE "StorageClass", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_STRING("provisioner", REQUIRED),
            F_MAP_OF("parameters", STRING), F_STRING("reclaimPolicy"),
            F_LIST_OF("mountOptions", STRING), F_BOOL("allowVolumeExpansion"),
            F_STRING("volumeBindingMode"), F_LIST("allowedTopologies", topology_selector_term));
TYPE(token_request, STORAGE "TokenRequest", F_STRING("audience", REQUIRED),
     F_INT64("expirationSeconds"));
TYPE(csi_driver_spec, STORAGE "CSIDriverSpec", F_BOOL("attachRequired"), F_BOOL("podInfoOnMount"),
     F_LIST_OF("volumeLifecycleModes", STRING), F_BOOL("storageCapacity"),
     F_STRING("fsGroupPolicy"), F_LIST("tokenRequests", token_request), F_BOOL("requiresRepublish"),
     F_BOOL("seLinuxMount"), F_INT64("nodeAllocatableUpdatePeriodSeconds"),
     F_BOOL("serviceAccountTokenInSecrets"), F_BOOL("preventPodSchedulingIfMissing"));
SHARED_TYPE(csi_driver, STORAGE "CSIDriver", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", csi_driver_spec, REQUIRED));
TYPE(volume_node_resources, STORAGE "VolumeNodeResources", F_INT32("count"));
TYPE(csi_node_driver, STORAGE "CSINodeDriver", F_STRING("name", REQUIRED),
     F_STRING("nodeID", REQUIRED), F_LIST_OF("topologyKeys", STRING, REQUIRED),
     F_OBJECT("allocatable", volume_node_resources));
TYPE(csi_node_spec, STORAGE "CSINodeSpec",
     F_LIST("drivers", csi_node_driver, REQUIRED, BY("name")));
SHARED_TYPE(csi_node, STORAGE "CSINode", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", csi_node_spec, REQUIRED));
SHARED_TYPE(csi_storage_capacity, STORAGE "CSIStorageCapacity", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("nodeTopology", label_selector), F_STRING("storageClassName", REQUIRED),
            F_QUANTITY("capacity"), F_QUANTITY("maximumVolumeSize"));
TYPE(volume_attachment_source, STORAGE "VolumeAttachmentSource", F_STRING("persistentVolumeName"),
     F_OBJECT("inlineVolumeSpec", persistent_volume_spec));
TYPE(volume_attachment_spec, STORAGE "VolumeAttachmentSpec", F_STRING("attacher", REQUIRED),
     F_OBJECT("source", volume_attachment_source, REQUIRED), F_STRING("nodeName", REQUIRED));
TYPE(volume_error, STORAGE "VolumeError", F_TIME("time"), F_STRING("message"),
     F_INT32("errorCode"));
TYPE(volume_attachment_status, STORAGE "VolumeAttachmentStatus", F_BOOL("attached", REQUIRED),
     F_MAP_OF("attachmentMetadata", STRING), F_OBJECT("attachError", volume_error),
     F_OBJECT("detachError", volume_error));
SHARED_TYPE(volume_attachment, STORAGE "VolumeAttachment", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", volume_attachment_spec, REQUIRED),
            F_OBJECT("status", volume_attachment_status));
