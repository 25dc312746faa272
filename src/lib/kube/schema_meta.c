// SPDX-License-Identifier: Apache-2.0
// Types that all groups share.
#include "kube/schema_private.h"

#define META "io.k8s.apimachinery.pkg.apis.meta.v1."
#define CORE "io.k8s.api.core.v1."

TYPE(owner_reference, META "OwnerReference", F_STRING("apiVersion", REQUIRED),
     F_STRING("kind", REQUIRED), F_STRING("name", REQUIRED), F_STRING("uid", REQUIRED),
     F_BOOL("controller"), F_BOOL("blockOwnerDeletion"));
TYPE(managed_fields_entry, META "ManagedFieldsEntry", F_STRING("manager"), F_STRING("operation"),
     F_STRING("apiVersion"), F_TIME("time"), F_STRING("fieldsType"), F_ANY("fieldsV1"),
     F_STRING("subresource"));
SHARED_TYPE(object_meta, META "ObjectMeta", F_STRING("name"), F_STRING("generateName"),
            F_STRING("namespace"), F_STRING("selfLink"), F_STRING("uid"),
            F_STRING("resourceVersion"), F_INT64("generation"), F_TIME("creationTimestamp"),
            F_TIME("deletionTimestamp"), F_INT64("deletionGracePeriodSeconds"),
            F_MAP_OF("labels", STRING), F_MAP_OF("annotations", STRING),
            F_LIST("ownerReferences", owner_reference, BY("uid")),
            F_LIST_OF("finalizers", STRING, SET), F_LIST("managedFields", managed_fields_entry));
TYPE(label_selector_requirement, META "LabelSelectorRequirement", F_STRING("key", REQUIRED),
     F_STRING("operator", REQUIRED), F_LIST_OF("values", STRING));
SHARED_TYPE(label_selector, META "LabelSelector", F_MAP_OF("matchLabels", STRING),
            F_LIST("matchExpressions", label_selector_requirement));
SHARED_TYPE(condition, META "Condition", F_STRING("type", REQUIRED), F_STRING("status", REQUIRED),
            F_INT64("observedGeneration"), F_TIME("lastTransitionTime", REQUIRED),
            F_STRING("reason", REQUIRED), F_STRING("message", REQUIRED));
SHARED_TYPE(local_object_reference, CORE "LocalObjectReference", F_STRING("name"));
SHARED_TYPE(typed_local_object_reference, CORE "TypedLocalObjectReference", F_STRING("apiGroup"),
            F_STRING("kind", REQUIRED), F_STRING("name", REQUIRED));
SHARED_TYPE(typed_object_reference, CORE "TypedObjectReference", F_STRING("apiGroup"),
            F_STRING("kind", REQUIRED), F_STRING("name", REQUIRED), F_STRING("namespace"));
SHARED_TYPE(object_reference, CORE "ObjectReference", F_STRING("kind"), F_STRING("namespace"),
            F_STRING("name"), F_STRING("uid"), F_STRING("apiVersion"), F_STRING("resourceVersion"),
            F_STRING("fieldPath"));
