// SPDX-License-Identifier: Apache-2.0
// core/v1: volume sources, PersistentVolumes and their claims.
#include "kube/schema_private.h"

#define CORE "io.k8s.api.core.v1."

TYPE(host_path_volume_source, CORE "HostPathVolumeSource", F_STRING("path", REQUIRED),
     F_STRING("type"));
TYPE(empty_dir_volume_source, CORE "EmptyDirVolumeSource", F_STRING("medium"),
     F_QUANTITY("sizeLimit"), F_INT32("mode"));
TYPE(gce_persistent_disk_volume_source, CORE "GCEPersistentDiskVolumeSource",
     F_STRING("pdName", REQUIRED), F_STRING("fsType"), F_INT32("partition"), F_BOOL("readOnly"));
TYPE(aws_elastic_block_store_volume_source, CORE "AWSElasticBlockStoreVolumeSource",
     F_STRING("volumeID", REQUIRED), F_STRING("fsType"), F_INT32("partition"), F_BOOL("readOnly"));
TYPE(git_repo_volume_source, CORE "GitRepoVolumeSource", F_STRING("repository", REQUIRED),
     F_STRING("revision"), F_STRING("directory"));
TYPE(key_to_path, CORE "KeyToPath", F_STRING("key", REQUIRED), F_STRING("path", REQUIRED),
     F_INT32("mode"), F_INT64("user"));
TYPE(secret_volume_source, CORE "SecretVolumeSource", F_STRING("secretName"),
     F_LIST("items", key_to_path), F_INT32("defaultMode"), F_BOOL("optional"),
     F_INT64("defaultUser"));
TYPE(nfs_volume_source, CORE "NFSVolumeSource", F_STRING("server", REQUIRED),
     F_STRING("path", REQUIRED), F_BOOL("readOnly"));
TYPE(iscsi_volume_source, CORE "ISCSIVolumeSource", F_STRING("targetPortal", REQUIRED),
     F_STRING("iqn", REQUIRED), F_INT32("lun", REQUIRED), F_STRING("iscsiInterface"),
     F_STRING("fsType"), F_BOOL("readOnly"), F_LIST_OF("portals", STRING),
     F_BOOL("chapAuthDiscovery"), F_BOOL("chapAuthSession"),
     F_OBJECT("secretRef", local_object_reference), F_STRING("initiatorName"));
TYPE(glusterfs_volume_source, CORE "GlusterfsVolumeSource", F_STRING("endpoints", REQUIRED),
     F_STRING("path", REQUIRED), F_BOOL("readOnly"));
TYPE(persistent_volume_claim_volume_source, CORE "PersistentVolumeClaimVolumeSource",
     F_STRING("claimName", REQUIRED), F_BOOL("readOnly"));
TYPE(rbd_volume_source, CORE "RBDVolumeSource", F_LIST_OF("monitors", STRING, REQUIRED),
     F_STRING("image", REQUIRED), F_STRING("fsType"), F_STRING("pool"), F_STRING("user"),
     F_STRING("keyring"), F_OBJECT("secretRef", local_object_reference), F_BOOL("readOnly"));
TYPE(flex_volume_source, CORE "FlexVolumeSource", F_STRING("driver", REQUIRED), F_STRING("fsType"),
     F_OBJECT("secretRef", local_object_reference), F_BOOL("readOnly"),
     F_MAP_OF("options", STRING));
TYPE(cinder_volume_source, CORE "CinderVolumeSource", F_STRING("volumeID", REQUIRED),
     F_STRING("fsType"), F_BOOL("readOnly"), F_OBJECT("secretRef", local_object_reference));
TYPE(ceph_fs_volume_source, CORE "CephFSVolumeSource", F_LIST_OF("monitors", STRING, REQUIRED),
     F_STRING("path"), F_STRING("user"), F_STRING("secretFile"),
     F_OBJECT("secretRef", local_object_reference), F_BOOL("readOnly"));
TYPE(flocker_volume_source, CORE "FlockerVolumeSource", F_STRING("datasetName"),
     F_STRING("datasetUUID"));
SHARED_TYPE(object_field_selector, CORE "ObjectFieldSelector", F_STRING("apiVersion"),
            F_STRING("fieldPath", REQUIRED));
SHARED_TYPE(resource_field_selector, CORE "ResourceFieldSelector", F_STRING("containerName"),
            F_STRING("resource", REQUIRED), F_QUANTITY("divisor"));
TYPE(downward_api_volume_file, CORE "DownwardAPIVolumeFile", F_STRING("path", REQUIRED),
     F_OBJECT("fieldRef", object_field_selector),
     F_OBJECT("resourceFieldRef", resource_field_selector), F_INT32("mode"), F_INT64("user"));
TYPE(downward_api_volume_source, CORE "DownwardAPIVolumeSource",
     F_LIST("items", downward_api_volume_file), F_INT32("defaultMode"), F_INT64("defaultUser"));
TYPE(fc_volume_source, CORE "FCVolumeSource", F_LIST_OF("targetWWNs", STRING), F_INT32("lun"),
     F_STRING("fsType"), F_BOOL("readOnly"), F_LIST_OF("wwids", STRING));
TYPE(azure_file_volume_source, CORE "AzureFileVolumeSource", F_STRING("secretName", REQUIRED),
     F_STRING("shareName", REQUIRED), F_BOOL("readOnly"));
TYPE(config_map_volume_source, CORE "ConfigMapVolumeSource", F_STRING("name"),
     F_LIST("items", key_to_path), F_INT32("defaultMode"), F_BOOL("optional"),
     F_INT64("defaultUser"));
TYPE(vsphere_virtual_disk_volume_source, CORE "VsphereVirtualDiskVolumeSource",
     F_STRING("volumePath", REQUIRED), F_STRING("fsType"), F_STRING("storagePolicyName"),
     F_STRING("storagePolicyID"));
TYPE(quobyte_volume_source, CORE "QuobyteVolumeSource", F_STRING("registry", REQUIRED),
     F_STRING("volume", REQUIRED), F_BOOL("readOnly"), F_STRING("user"), F_STRING("group"),
     F_STRING("tenant"));
TYPE(azure_disk_volume_source, CORE "AzureDiskVolumeSource", F_STRING("diskName", REQUIRED),
     F_STRING("diskURI", REQUIRED), F_STRING("cachingMode"), F_STRING("fsType"), F_BOOL("readOnly"),
     F_STRING("kind"));
TYPE(photon_persistent_disk_volume_source, CORE "PhotonPersistentDiskVolumeSource",
     F_STRING("pdID", REQUIRED), F_STRING("fsType"));
TYPE(secret_projection, CORE "SecretProjection", F_STRING("name"), F_LIST("items", key_to_path),
     F_BOOL("optional"));
TYPE(downward_api_projection, CORE "DownwardAPIProjection",
     F_LIST("items", downward_api_volume_file));
TYPE(config_map_projection, CORE "ConfigMapProjection", F_STRING("name"),
     F_LIST("items", key_to_path), F_BOOL("optional"));
TYPE(service_account_token_projection, CORE "ServiceAccountTokenProjection", F_STRING("audience"),
     F_INT64("expirationSeconds"), F_STRING("path", REQUIRED), F_INT64("user"));
TYPE(cluster_trust_bundle_projection, CORE "ClusterTrustBundleProjection", F_STRING("name"),
     F_STRING("signerName"), F_OBJECT("labelSelector", label_selector), F_BOOL("optional"),
     F_STRING("path", REQUIRED), F_INT64("user"));
TYPE(pod_certificate_projection, CORE "PodCertificateProjection", F_STRING("signerName"),
     F_STRING("keyType"), F_INT32("maxExpirationSeconds"), F_STRING("credentialBundlePath"),
     F_STRING("keyPath"), F_STRING("certificateChainPath"), F_MAP_OF("userAnnotations", STRING),
     F_INT64("user"));
TYPE(volume_projection, CORE "VolumeProjection", F_OBJECT("secret", secret_projection),
     F_OBJECT("downwardAPI", downward_api_projection), F_OBJECT("configMap", config_map_projection),
     F_OBJECT("serviceAccountToken", service_account_token_projection),
     F_OBJECT("clusterTrustBundle", cluster_trust_bundle_projection),
     F_OBJECT("podCertificate", pod_certificate_projection));
TYPE(projected_volume_source, CORE "ProjectedVolumeSource", F_LIST("sources", volume_projection),
     F_INT32("defaultMode"), F_INT64("defaultUser"));
TYPE(portworx_volume_source, CORE "PortworxVolumeSource", F_STRING("volumeID", REQUIRED),
     F_STRING("fsType"), F_BOOL("readOnly"));
TYPE(scale_io_volume_source, CORE "ScaleIOVolumeSource", F_STRING("gateway", REQUIRED),
     F_STRING("system", REQUIRED), F_OBJECT("secretRef", local_object_reference, REQUIRED),
     F_BOOL("sslEnabled"), F_STRING("protectionDomain"), F_STRING("storagePool"),
     F_STRING("storageMode"), F_STRING("volumeName"), F_STRING("fsType"), F_BOOL("readOnly"));
TYPE(storage_os_volume_source, CORE "StorageOSVolumeSource", F_STRING("volumeName"),
     F_STRING("volumeNamespace"), F_STRING("fsType"), F_BOOL("readOnly"),
     F_OBJECT("secretRef", local_object_reference));
TYPE(csi_volume_source, CORE "CSIVolumeSource", F_STRING("driver", REQUIRED), F_BOOL("readOnly"),
     F_STRING("fsType"), F_MAP_OF("volumeAttributes", STRING),
     F_OBJECT("nodePublishSecretRef", local_object_reference));
TYPE(volume_resource_requirements, CORE "VolumeResourceRequirements", F_MAP_OF("limits", QUANTITY),
     F_MAP_OF("requests", QUANTITY));
TYPE(persistent_volume_claim_spec, CORE "PersistentVolumeClaimSpec",
     F_LIST_OF("accessModes", STRING), F_OBJECT("selector", label_selector),
     F_OBJECT("resources", volume_resource_requirements), F_STRING("volumeName"),
     F_STRING("storageClassName"), F_STRING("volumeMode"),
     F_OBJECT("dataSource", typed_local_object_reference),
     F_OBJECT("dataSourceRef", typed_object_reference), F_STRING("volumeAttributesClassName"));
TYPE(persistent_volume_claim_template, CORE "PersistentVolumeClaimTemplate",
     F_OBJECT("metadata", object_meta), F_OBJECT("spec", persistent_volume_claim_spec, REQUIRED));
TYPE(ephemeral_volume_source, CORE "EphemeralVolumeSource",
     F_OBJECT("volumeClaimTemplate", persistent_volume_claim_template));
TYPE(image_volume_source, CORE "ImageVolumeSource", F_STRING("reference"), F_STRING("pullPolicy"));
SHARED_TYPE(
    volume, CORE "Volume", F_STRING("name", REQUIRED),
    F_OBJECT("hostPath", host_path_volume_source), F_OBJECT("emptyDir", empty_dir_volume_source),
    F_OBJECT("gcePersistentDisk", gce_persistent_disk_volume_source),
    F_OBJECT("awsElasticBlockStore", aws_elastic_block_store_volume_source),
    F_OBJECT("gitRepo", git_repo_volume_source), F_OBJECT("secret", secret_volume_source),
    F_OBJECT("nfs", nfs_volume_source), F_OBJECT("iscsi", iscsi_volume_source),
    F_OBJECT("glusterfs", glusterfs_volume_source),
    F_OBJECT("persistentVolumeClaim", persistent_volume_claim_volume_source),
    F_OBJECT("rbd", rbd_volume_source), F_OBJECT("flexVolume", flex_volume_source),
    F_OBJECT("cinder", cinder_volume_source), F_OBJECT("cephfs", ceph_fs_volume_source),
    F_OBJECT("flocker", flocker_volume_source), F_OBJECT("downwardAPI", downward_api_volume_source),
    F_OBJECT("fc", fc_volume_source), F_OBJECT("azureFile", azure_file_volume_source),
    F_OBJECT("configMap", config_map_volume_source),
    F_OBJECT("vsphereVolume", vsphere_virtual_disk_volume_source),
    F_OBJECT("quobyte", quobyte_volume_source), F_OBJECT("azureDisk", azure_disk_volume_source),
    F_OBJECT("photonPersistentDisk", photon_persistent_disk_volume_source),
    F_OBJECT("projected", projected_volume_source),
    F_OBJECT("portworxVolume", portworx_volume_source), F_OBJECT("scaleIO", scale_io_volume_source),
    F_OBJECT("storageos", storage_os_volume_source), F_OBJECT("csi", csi_volume_source),
    F_OBJECT("ephemeral", ephemeral_volume_source), F_OBJECT("image", image_volume_source));
SHARED_TYPE(volume_health_condition, CORE "VolumeHealthCondition", F_STRING("status", REQUIRED),
            F_STRING("reason", REQUIRED), F_STRING("message"));
TYPE(persistent_volume_claim_condition, CORE "PersistentVolumeClaimCondition",
     F_STRING("type", REQUIRED), F_STRING("status", REQUIRED), F_TIME("lastProbeTime"),
     F_TIME("lastTransitionTime"), F_STRING("reason"), F_STRING("message"));
TYPE(modify_volume_status, CORE "ModifyVolumeStatus", F_STRING("targetVolumeAttributesClassName"),
     F_STRING("status", REQUIRED));
TYPE(volume_health_status, CORE "VolumeHealthStatus",
     F_LIST("healthConditions", volume_health_condition, BY("status")),
     F_TIME("lastTransitionTime"));
TYPE(persistent_volume_claim_status, CORE "PersistentVolumeClaimStatus", F_STRING("phase"),
     F_LIST_OF("accessModes", STRING), F_MAP_OF("capacity", QUANTITY),
     F_LIST("conditions", persistent_volume_claim_condition, BY("type")),
     F_MAP_OF("allocatedResources", QUANTITY), F_MAP_OF("allocatedResourceStatuses", STRING),
     F_STRING("currentVolumeAttributesClassName"),
     F_OBJECT("modifyVolumeStatus", modify_volume_status),
     F_OBJECT("healthStatus", volume_health_status));
SHARED_TYPE(persistent_volume_claim, CORE "PersistentVolumeClaim", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", persistent_volume_claim_spec),
            F_OBJECT("status", persistent_volume_claim_status));
TYPE(glusterfs_persistent_volume_source, CORE "GlusterfsPersistentVolumeSource",
     F_STRING("endpoints", REQUIRED), F_STRING("path", REQUIRED), F_BOOL("readOnly"),
     F_STRING("endpointsNamespace"));
TYPE(secret_reference, CORE "SecretReference", F_STRING("name"), F_STRING("namespace"));
TYPE(rbd_persistent_volume_source, CORE "RBDPersistentVolumeSource",
     F_LIST_OF("monitors", STRING, REQUIRED), F_STRING("image", REQUIRED), F_STRING("fsType"),
     F_STRING("pool"), F_STRING("user"), F_STRING("keyring"),
     F_OBJECT("secretRef", secret_reference), F_BOOL("readOnly"));
TYPE(iscsi_persistent_volume_source, CORE "ISCSIPersistentVolumeSource",
     F_STRING("targetPortal", REQUIRED), F_STRING("iqn", REQUIRED), F_INT32("lun", REQUIRED),
     F_STRING("iscsiInterface"), F_STRING("fsType"), F_BOOL("readOnly"),
     F_LIST_OF("portals", STRING), F_BOOL("chapAuthDiscovery"), F_BOOL("chapAuthSession"),
     F_OBJECT("secretRef", secret_reference), F_STRING("initiatorName"));
TYPE(cinder_persistent_volume_source, CORE "CinderPersistentVolumeSource",
     F_STRING("volumeID", REQUIRED), F_STRING("fsType"), F_BOOL("readOnly"),
     F_OBJECT("secretRef", secret_reference));
TYPE(ceph_fs_persistent_volume_source, CORE "CephFSPersistentVolumeSource",
     F_LIST_OF("monitors", STRING, REQUIRED), F_STRING("path"), F_STRING("user"),
     F_STRING("secretFile"), F_OBJECT("secretRef", secret_reference), F_BOOL("readOnly"));
TYPE(flex_persistent_volume_source, CORE "FlexPersistentVolumeSource", F_STRING("driver", REQUIRED),
     F_STRING("fsType"), F_OBJECT("secretRef", secret_reference), F_BOOL("readOnly"),
     F_MAP_OF("options", STRING));
TYPE(azure_file_persistent_volume_source, CORE "AzureFilePersistentVolumeSource",
     F_STRING("secretName", REQUIRED), F_STRING("shareName", REQUIRED), F_BOOL("readOnly"),
     F_STRING("secretNamespace"));
TYPE(scale_io_persistent_volume_source, CORE "ScaleIOPersistentVolumeSource",
     F_STRING("gateway", REQUIRED), F_STRING("system", REQUIRED),
     F_OBJECT("secretRef", secret_reference, REQUIRED), F_BOOL("sslEnabled"),
     F_STRING("protectionDomain"), F_STRING("storagePool"), F_STRING("storageMode"),
     F_STRING("volumeName"), F_STRING("fsType"), F_BOOL("readOnly"));
TYPE(local_volume_source, CORE "LocalVolumeSource", F_STRING("path", REQUIRED), F_STRING("fsType"));
TYPE(storage_os_persistent_volume_source, CORE "StorageOSPersistentVolumeSource",
     F_STRING("volumeName"), F_STRING("volumeNamespace"), F_STRING("fsType"), F_BOOL("readOnly"),
     F_OBJECT("secretRef", object_reference));
TYPE(csi_persistent_volume_source, CORE "CSIPersistentVolumeSource", F_STRING("driver", REQUIRED),
     F_STRING("volumeHandle", REQUIRED), F_BOOL("readOnly"), F_STRING("fsType"),
     F_MAP_OF("volumeAttributes", STRING), F_OBJECT("controllerPublishSecretRef", secret_reference),
     F_OBJECT("nodeStageSecretRef", secret_reference),
     F_OBJECT("nodePublishSecretRef", secret_reference),
     F_OBJECT("controllerExpandSecretRef", secret_reference),
     F_OBJECT("nodeExpandSecretRef", secret_reference));
TYPE(volume_node_affinity, CORE "VolumeNodeAffinity", F_OBJECT("required", node_selector));
SHARED_TYPE(persistent_volume_spec, CORE "PersistentVolumeSpec", F_MAP_OF("capacity", QUANTITY),
            F_OBJECT("gcePersistentDisk", gce_persistent_disk_volume_source),
            F_OBJECT("awsElasticBlockStore", aws_elastic_block_store_volume_source),
            F_OBJECT("hostPath", host_path_volume_source),
            F_OBJECT("glusterfs", glusterfs_persistent_volume_source),
            F_OBJECT("nfs", nfs_volume_source), F_OBJECT("rbd", rbd_persistent_volume_source),
            F_OBJECT("iscsi", iscsi_persistent_volume_source),
            F_OBJECT("cinder", cinder_persistent_volume_source),
            F_OBJECT("cephfs", ceph_fs_persistent_volume_source), F_OBJECT("fc", fc_volume_source),
            F_OBJECT("flocker", flocker_volume_source),
            F_OBJECT("flexVolume", flex_persistent_volume_source),
            F_OBJECT("azureFile", azure_file_persistent_volume_source),
            F_OBJECT("vsphereVolume", vsphere_virtual_disk_volume_source),
            F_OBJECT("quobyte", quobyte_volume_source),
            F_OBJECT("azureDisk", azure_disk_volume_source),
            F_OBJECT("photonPersistentDisk", photon_persistent_disk_volume_source),
            F_OBJECT("portworxVolume", portworx_volume_source),
            F_OBJECT("scaleIO", scale_io_persistent_volume_source),
            F_OBJECT("local", local_volume_source),
            F_OBJECT("storageos", storage_os_persistent_volume_source),
            F_OBJECT("csi", csi_persistent_volume_source), F_LIST_OF("accessModes", STRING),
            F_OBJECT("claimRef", object_reference), F_STRING("persistentVolumeReclaimPolicy"),
            F_STRING("storageClassName"), F_LIST_OF("mountOptions", STRING), F_STRING("volumeMode"),
            F_OBJECT("nodeAffinity", volume_node_affinity), F_STRING("volumeAttributesClassName"));
TYPE(persistent_volume_status, CORE "PersistentVolumeStatus", F_STRING("phase"),
     F_STRING("message"), F_STRING("reason"), F_TIME("lastPhaseTransitionTime"));
SHARED_TYPE(persistent_volume, CORE "PersistentVolume", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", persistent_volume_spec),
            F_OBJECT("status", persistent_volume_status));
