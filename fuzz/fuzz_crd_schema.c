// SPDX-License-Identifier: Apache-2.0
// A schema and an object, both JSON, separated by a NUL: the rules of schemas, and for those that
// follow them pruning, defaults and validation, and the merge of server-side apply. Objects are
// also checked against schemas that are not structural: such a schema may be in an old store.
#include "local/api/apply.h"
#include "local/api/crd.h"

#include "base/hmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const json_t *schema, json_t *obj)
{
    struct gs_hmap *patterns = local_api_schema_patterns_new();
    struct kube_field_errors errors = {0};
    CODEC_AUTO_JSON json_t *unknown = json_array();
    const struct local_api_applied_type type = {.schema = schema, .custom = true};
    CODEC_AUTO_JSON json_t *set = local_api_fields_of(&type, obj);
    CODEC_AUTO_JSON json_t *merged = local_api_fields_merge(&type, obj, obj);

    local_api_schema_prune(schema, obj, unknown);
    (void)local_api_schema_default(schema, obj, 1 << 20);
    local_api_schema_validate(schema, obj, patterns, &errors);
    kube_field_errors_finish(&errors);
    gs_hmap_free(patterns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice object_text = gs_slice_make(data, size);
    struct gs_slice schema_text = gs_slice_cut(&object_text, '\0');
    CODEC_AUTO_JSON json_t *schema = NULL;
    CODEC_AUTO_JSON json_t *obj = NULL;
    struct kube_field_errors errors = {0};

    GS_AUTO_ERROR struct gs_error *bad_schema = codec_json_parse(schema_text, false, &schema);
    GS_AUTO_ERROR struct gs_error *bad_object = codec_json_parse(object_text, false, &obj);
    if (bad_schema || bad_object || !json_is_object(obj))
        return 0;
    local_api_schema_check(schema, "schema", &errors);
    kube_field_errors_finish(&errors);
    local_api_schema_has_rules(schema);
    check(schema, obj);
    json_t *columns = json_object_get(schema, "columns");
    struct local_api_table *table = local_api_custom_table_new(columns);
    local_api_custom_table_free(table);
    local_api_json_path(obj, codec_json_str(schema, "path", NULL));
    return 0;
}
