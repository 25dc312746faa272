// SPDX-License-Identifier: Apache-2.0
// PriorityClasses: defaults, validation, table and the two classes of the system.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/admission.h"
#include "local/api/table.h"

#define MAX_USER_PRIORITY 1000000000

static const struct system_class {
    const char *name;
    int64_t value;
    const char *description;
} system_classes[] = {
    {"system-cluster-critical", 2000000000,
     "Used for system critical pods that must run in the cluster, but can be moved to another node "
     "if necessary."},
    {"system-node-critical", 2000001000,
     "Used for system critical pods that must not be moved from their current node."},
};

void local_api_default_priority_class(json_t *obj, const json_t *old)
{
    local_api_default_str(obj, "preemptionPolicy", "PreemptLowerPriority");
}

static bool is_system_class(const json_t *obj)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(system_classes); i++)
        if (gs_streq(kube_name(obj), system_classes[i].name) &&
            codec_json_int(obj, 0, "value", NULL) == system_classes[i].value)
            return true;
    return false;
}

void local_api_validate_priority_class(const json_t *obj, const json_t *old,
                                       struct kube_field_errors *errors)
{
    const char *policy = codec_json_str(obj, "preemptionPolicy", NULL);
    const char *name = kube_name(obj);

    if (!is_system_class(obj) && name && gs_starts(name, "system-"))
        kube_field_error(errors, "FieldValueForbidden", "metadata.name", NULL,
                         "priority class names with 'system-' prefix are reserved for system use "
                         "only. error: %s is not a known system priority class",
                         name);
    else if (!is_system_class(obj) && codec_json_int(obj, 0, "value", NULL) > MAX_USER_PRIORITY)
        kube_field_error(errors, "FieldValueForbidden", "value", NULL,
                         "maximum allowed value of a user defined priority is %d",
                         MAX_USER_PRIORITY);
    if (old && codec_json_int(obj, 0, "value", NULL) != codec_json_int(old, 0, "value", NULL))
        kube_field_error(errors, "FieldValueForbidden", "value", NULL,
                         "may not be changed in an update.");
    if (policy && strcmp(policy, "PreemptLowerPriority") != 0 && strcmp(policy, "Never") != 0)
        local_api_unsupported(errors, "preemptionPolicy", policy,
                              "\"Never\", \"PreemptLowerPriority\"");
}

void local_api_make_priority_classes(struct local_api *api)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(system_classes); i++) {
        const struct system_class *c = &system_classes[i];
        if (local_api_stored(api, "scheduling.k8s.io", "priorityclasses", "", c->name))
            continue;
        json_t *obj = local_api_base_object("PriorityClass", "scheduling.k8s.io/v1", NULL, c->name);
        codec_json_set(obj, json_integer(1), "metadata", "generation", NULL);
        codec_json_set_int(obj, "value", c->value);
        codec_json_set_str(obj, "description", c->description);
        local_api_default_priority_class(obj, NULL);
        local_api_put_base_object(api, "scheduling.k8s.io", "priorityclasses", obj);
    }
}

static const struct local_api_column columns[] = {
    LOCAL_API_COLUMN_NAME,
    {"Value", "integer", 0, "The integer value of this priority class."},
    {"Global-Default", "boolean", 0,
     "Whether this class is the default of pods without any priority class."},
    LOCAL_API_COLUMN_AGE,
    {"PreemptionPolicy", "string", 0, "The policy for preempting pods with lower priority."},
    {0},
};

static void add_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, obj);
    local_api_cell_int(cells, codec_json_int(obj, 0, "value", NULL));
    json_array_append_new(cells, json_boolean(codec_json_bool(obj, false, "globalDefault", NULL)));
    local_api_cell_age(cells, obj, now_ms);
    local_api_cell_or(cells, codec_json_str(obj, "preemptionPolicy", NULL), "PreemptLowerPriority");
}

const struct local_api_table local_api_table_priority_classes = {columns, add_cells};
