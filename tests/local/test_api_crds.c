// SPDX-License-Identifier: Apache-2.0
// CustomResourceDefinitions: their objects are served like those of Kubernetes 1.36. The texts were
// compared with those of its API server.
#include "api_setup.h"

#define CRDS     "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define CRONTABS "/apis/stable.example.com/v1/namespaces/default/crontabs"

#define PROPERTIES                                                                                 \
    "'cronSpec':{'type':'string','pattern':'^[0-9*/ ]+$'},"                                        \
    "'image':{'type':'string','minLength':2,'maxLength':8},"                                       \
    "'replicas':{'type':'integer','minimum':1,'maximum':10,'default':1},"                          \
    "'mode':{'type':'string','enum':['a','b']},"                                                   \
    "'tags':{'type':'array','minItems':1,'maxItems':2,'items':{'type':'string'}},"                 \
    "'any':{'type':'object','x-kubernetes-preserve-unknown-fields':true},"                         \
    "'port':{'x-kubernetes-int-or-string':true},"                                                  \
    "'nul':{'type':'string','nullable':true},"                                                     \
    "'map':{'type':'object','additionalProperties':{'type':'integer'}},"                           \
    "'num':{'type':'number','minimum':0.5,'exclusiveMinimum':true,'multipleOf':0.5},"              \
    "'set':{'type':'array','x-kubernetes-list-type':'set','items':{'type':'string'}},"             \
    "'list':{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['name']," \
    "'items':{'type':'object','required':['name'],'properties':{'name':{'type':'string'}}}},"      \
    "'one':{'type':'object','properties':{'x':{'type':'string'},'y':{'type':'string'}},"           \
    "'oneOf':[{'required':['x']},{'required':['y']}]},"                                            \
    "'some':{'type':'object','properties':{'x':{'type':'string'},'y':{'type':'string'}},"          \
    "'anyOf':[{'required':['x']},{'required':['y']}]},"                                            \
    "'no':{'type':'object','properties':{'x':{'type':'string'}},'not':{'required':['x']}},"        \
    "'time':{'type':'string','format':'date-time'},"                                               \
    "'embedded':{'type':'object','x-kubernetes-embedded-resource':true,"                           \
    "'x-kubernetes-preserve-unknown-fields':true}"

#define SCHEMA                                                                                     \
    "{'openAPIV3Schema':{'type':'object','properties':{"                                           \
    "'spec':{'type':'object','required':['image'],'properties':{" PROPERTIES "}},"                 \
    "'status':{'type':'object','properties':{'replicas':{'type':'integer'},"                       \
    "'selector':{'type':'string'}}}}}}"

#define NAMES "{'plural':'crontabs','kind':'CronTab','shortNames':['ct'],'categories':['all']}"

#define VERSION_V1                                                                                 \
    "{'name':'v1','served':true,'storage':true,'schema':" SCHEMA ","                               \
    "'subresources':{'status':{},'scale':{'specReplicasPath':'.spec.replicas',"                    \
    "'statusReplicasPath':'.status.replicas','labelSelectorPath':'.status.selector'}},"            \
    "'additionalPrinterColumns':["                                                                 \
    "{'name':'Spec','type':'string','jsonPath':'.spec.cronSpec'},"                                 \
    "{'name':'Replicas','type':'integer','jsonPath':'.spec.replicas','priority':1},"               \
    "{'name':'Ready','type':'string',"                                                             \
    "'jsonPath':'.spec.any.conditions[?(@.type==\\\"Ready\\\")].status'}]}"

#define CRD_OF(name, names, versions)                                                              \
    "{'metadata':{'name':'" name "'},'spec':{'group':'stable.example.com','scope':'Namespaced',"   \
    "'names':" names ",'versions':[" versions "]}}"
#define CRD CRD_OF("crontabs.stable.example.com", NAMES, VERSION_V1)

// The text with double quotes. Caller frees.
static char *quoted(const char *text)
{
    char *json = gs_strdup(text);
    for (char *c = json; *c; c++)
        if (*c == '\'')
            *c = '"';
    return json;
}

static struct reply send_quoted(struct harness *h, const char *method, const char *path,
                                const char *text)
{
    GS_AUTO_FREE char *body = quoted(text);
    return request(h, method, path, body);
}

static void define(struct harness *h, const char *crd)
{
    AUTO_REPLY struct reply r = send_quoted(h, "POST", CRDS, crd);
    assert_status(r, 201);
}

static struct reply create_crontab(struct harness *h, const char *spec)
{
    GS_AUTO_FREE char *text = gs_format("{'metadata':{'name':'a'},'spec':%s}", spec);
    return send_quoted(h, "POST", CRONTABS, text);
}

static void test_definition_is_established_and_listed_in_discovery(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply crd = send_quoted(h, "POST", CRDS, CRD);
    AUTO_REPLY struct reply group = request(h, "GET", "/apis/stable.example.com", NULL);
    AUTO_REPLY struct reply version = request(h, "GET", "/apis/stable.example.com/v1", NULL);

    assert_status(crd, 201);
    assert_member(crd, "crontab", "spec", "names", "singular");
    assert_member(crd, "CronTabList", "status", "acceptedNames", "listKind");
    assert_non_null(strstr(crd.text, "\"the initial names have been accepted\""));
    assert_member(group, "stable.example.com/v1", "preferredVersion", "groupVersion");
    assert_non_null(strstr(version.text, "\"shortNames\":[\"ct\"]"));
    assert_non_null(strstr(version.text, "\"crontabs/status\""));
    assert_non_null(strstr(version.text, "\"crontabs/scale\""));
}

// 2,000 items of 4 bytes would become 20 MB.
static void test_defaults_end_at_the_limit_of_an_object(void **state)
{
    struct harness *h = *state;
    GS_AUTO_BUF struct gs_buf text = {0}, body = {0};
    for (int i = 0; i < 1000; i++)
        gs_buf_add_str(&text, "0123456789");
    GS_AUTO_FREE char *crd = gs_format(
        CRD_OF("bombs.stable.example.com", "{'plural':'bombs','kind':'Bomb'}",
               "{'name':'v1','served':true,'storage':true,'schema':{'openAPIV3Schema':{"
               "'type':'object','properties':{'a':{'type':'array','items':{'type':'object',"
               "'properties':{'text':{'type':'string','default':'%s'}}}}}}}}"),
        text.data);
    AUTO_REPLY struct reply defined = send_quoted(h, "POST", CRDS, crd);
    assert_status(defined, 201);
    gs_buf_add_str(&body, "{'metadata':{'name':'b'},'a':[{}");
    for (int i = 1; i < 2000; i++)
        gs_buf_add_str(&body, ",{}");
    gs_buf_add_str(&body, "]}");
    AUTO_REPLY struct reply refused =
        send_quoted(h, "POST", "/apis/stable.example.com/v1/namespaces/default/bombs", body.data);
    AUTO_REPLY struct reply small =
        send_quoted(h, "POST", "/apis/stable.example.com/v1/namespaces/default/bombs",
                    "{'metadata':{'name':'b'},'a':[{},{}]}");

    assert_status(refused, 413);
    assert_member(refused, "RequestEntityTooLarge", "reason");
    assert_status(small, 201);
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(small.body, "a"), 1), "text", NULL),
        text.data);
}

// A list of n copies of the text. Caller frees.
static char *copies(const char *text, size_t n)
{
    struct gs_buf list = {0};
    gs_buf_add_str(&list, "[");
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&list, "%s%s", i ? "," : "", text);
    gs_buf_add_str(&list, "]");
    return list.data;
}

// Defines bombs whose field a has the schema, and creates one with this value.
static struct reply create_bomb(struct harness *h, const char *schema, const char *value)
{
    GS_AUTO_FREE char *crd =
        gs_format(CRD_OF("bombs.stable.example.com", "{'plural':'bombs','kind':'Bomb'}",
                         "{'name':'v1','served':true,'storage':true,'schema':{'openAPIV3Schema':{"
                         "'type':'object','properties':{'a':%s}}}}"),
                  schema);
    GS_AUTO_FREE char *bomb = gs_format("{'metadata':{'name':'b'},'a':%s}", value);
    AUTO_REPLY struct reply defined = send_quoted(h, "POST", CRDS, crd);
    assert_status(defined, 201);
    return send_quoted(h, "POST", "/apis/stable.example.com/v1/namespaces/default/bombs", bomb);
}

static void expect_too_many_steps(const struct reply r)
{
    assert_status(r, 422);
    assert_non_null(strstr(r.text, "the validation takes more than 2000000 steps"));
}

// 5,000 values were each compared with 10,000 choices.
static void test_many_choices_end_at_the_limit_of_a_validation(void **state)
{
    GS_AUTO_FREE char *others = copies("'other'", 10000), *values = copies("'last'", 5000);
    GS_AUTO_FREE char *schema =
        gs_format("{'type':'array','items':{'type':'string','enum':[%.*s,'last']}}",
                  (int)strlen(others) - 2, others + 1);
    AUTO_REPLY struct reply r = create_bomb(*state, schema, values);
    expect_too_many_steps(r);
}

// 5,000 alternatives each read a text of 500 kB.
static void test_large_values_end_at_the_limit_of_a_validation(void **state)
{
    GS_AUTO_FREE char *alternatives = copies("{'minLength':600000}", 5000);
    GS_AUTO_FREE char *schema = gs_format("{'type':'string','anyOf':%s}", alternatives);
    GS_AUTO_FREE char *value = gs_format("'%0500000d'", 0);
    AUTO_REPLY struct reply r = create_bomb(*state, schema, value);
    expect_too_many_steps(r);
}

// 5,000 alternatives each visit 20,000 members.
static void test_many_members_end_at_the_limit_of_a_validation(void **state)
{
    GS_AUTO_FREE char *alternatives =
        copies("{'required':['z'],'properties':{'none':{'minLength':1}}}", 5000);
    GS_AUTO_FREE char *schema = gs_format(
        "{'type':'object','additionalProperties':{'type':'integer'},'anyOf':%s}", alternatives);
    GS_AUTO_BUF struct gs_buf value = {0};
    for (int i = 0; i < 20000; i++)
        gs_buf_addf(&value, "%s'k%d':1", i ? "," : "{", i);
    gs_buf_add_str(&value, "}");
    AUTO_REPLY struct reply r = create_bomb(*state, schema, value.data);
    expect_too_many_steps(r);
}

// 150,000 empty objects are 450 kB of text and 35 MB of memory.
static void test_an_object_has_a_limit_of_memory(void **state)
{
    GS_AUTO_FREE char *value = copies("{}", 150000);
    AUTO_REPLY struct reply r = create_bomb(*state,
                                            "{'type':'array','items':{'type':'object',"
                                            "'x-kubernetes-preserve-unknown-fields':true}}",
                                            value);
    assert_status(r, 413);
    assert_member(r, "Request entity too large: limit is 33554432 bytes of memory for an object",
                  "message");
}

static void test_objects_get_defaults_and_lose_unknown_fields(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply r = create_crontab(
        h, "{'image':'img','unknown':1,'any':{'kept':1},'nul':null,'list':[{'name':'a','x':1}]}");

    assert_status(r, 201);
    assert_number(r, 1, "spec", "replicas");
    assert_number(r, 1, "metadata", "generation");
    assert_null(codec_json_get(r.body, "spec", "unknown", NULL));
    assert_number(r, 1, "spec", "any", "kept");
    assert_true(json_is_null(codec_json_get(r.body, "spec", "nul", NULL)));
    assert_null(strstr(r.text, "\"x\""));
}

static void test_strict_validation_rejects_unknown_fields(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply r =
        send_quoted(h, "POST", CRONTABS "?fieldValidation=Strict",
                    "{'metadata':{'name':'a'},'spec':{'image':'img','foo':1}}");

    assert_status(r, 400);
    assert_message(r, "strict decoding error: unknown field \"spec.foo\"");
}

static void test_invalid_values_are_rejected_with_the_texts_of_kubernetes(void **state)
{
    static const struct {
        const char *spec, *message;
    } cases[] = {
        {"{}", "spec.image: Required value"},
        {"'text'",
         "spec: Invalid value: \"string\": spec in body must be of type object: \"string\""},
        {"{'image':3}",
         "spec.image: Invalid value: \"integer\": spec.image in body must be of type string: "
         "\"integer\""},
        {"{'image':'i'}",
         "spec.image: Invalid value: \"i\": spec.image in body should be at least 2 chars long"},
        {"{'image':'imagelonger'}", "spec.image: Too long: may not be more than 8 bytes"},
        {"{'image':'img','cronSpec':'x'}",
         "spec.cronSpec: Invalid value: \"x\": spec.cronSpec in body should match '^[0-9*/ ]+$'"},
        {"{'image':'img','replicas':0}",
         "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal "
         "to 1"},
        {"{'image':'img','replicas':11}",
         "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to "
         "10"},
        {"{'image':'img','mode':'c'}",
         "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\""},
        {"{'image':'img','tags':[]}",
         "spec.tags: Invalid value: 0: spec.tags in body should have at least 1 items"},
        {"{'image':'img','tags':['a','b','c']}",
         "spec.tags: Too many: 3: must have at most 2 items"},
        {"{'image':'img','port':true}",
         "spec.port: Invalid value: \"boolean\": spec.port in body must be of type "
         "integer,string: \"boolean\""},
        {"{'image':'img','map':{'k':'v'}}",
         "spec.map.k: Invalid value: \"string\": spec.map.k in body must be of type integer: "
         "\"string\""},
        {"{'image':'img','num':0.5}",
         "spec.num: Invalid value: 0.5: spec.num in body should be greater than 0.5"},
        {"{'image':'img','num':0.75}",
         "spec.num: Invalid value: 0.75: spec.num in body should be a multiple of 0.5"},
        {"{'image':'img','set':['a','a']}", "spec.set[1]: Duplicate value: \"a\""},
        {"{'image':'img','list':[{'name':'a'},{'name':'a'}]}",
         "spec.list[1]: Duplicate value: {\"name\":\"a\"}"},
        {"{'image':'img','list':[{}]}", "spec.list[0].name: Required value"},
        {"{'image':'img','one':{}}",
         "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). "
         "Found none valid, spec.one.x: Required value"},
        {"{'image':'img','one':{'x':'a','y':'b'}}",
         "\"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives"},
        {"{'image':'img','some':{}}",
         "\"spec.some\" must validate at least one schema (anyOf), spec.some.x: Required value"},
        {"{'image':'img','no':{'x':'a'}}", "\"spec.no\" must not validate the schema (not)"},
        {"{'image':'img','time':'no'}",
         "spec.time: Invalid value: \"no\": spec.time in body must be of type date-time: \"no\""},
        {"{'image':'img','embedded':{'a':1}}",
         "[spec.embedded.apiVersion: Required value, spec.embedded.kind: Required value]"},
    };
    struct harness *h = *state;

    define(h, CRD);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        AUTO_REPLY struct reply r = create_crontab(h, cases[i].spec);
        assert_status(r, 422);
        assert_message(r, "CronTab.stable.example.com \"a\" is invalid: ");
        assert_message(r, cases[i].message);
    }
}

static void test_invalid_definitions_are_rejected(void **state)
{
#define BAD(schema)                                                                                \
    CRD_OF("crontabs.stable.example.com", NAMES,                                                   \
           "{'name':'v1','served':true,'storage':true,'schema':{'openAPIV3Schema':" schema "}}")
    static const struct {
        const char *crd, *message;
    } cases[] = {
        {CRD_OF("x.y", NAMES, VERSION_V1), "must be spec.names.plural+\\\".\\\"+spec.group"},
        {CRD_OF("crontabs.stable.example.com", "{'plural':'crontabs','kind':''}", VERSION_V1),
         "spec.names.kind: Required value"},
        {CRD_OF("crontabs.stable.example.com", NAMES, "{'name':'v1','served':true}"),
         "spec.versions[0].schema.openAPIV3Schema: Required value"},
        {CRD_OF("crontabs.stable.example.com", NAMES, "{'name':'v1','served':true}"),
         "must have exactly one version marked as storage version"},
        {BAD("{'type':'object','properties':{'x':{}}}"),
         "spec.validation.openAPIV3Schema.properties[x].type: Required value: must not be empty "
         "for specified object fields"},
        {BAD("{'type':'object','properties':{'x':{'type':'array'}}}"),
         "properties[x].items: Required value: must be specified"},
        {BAD("{'type':'object','properties':{'x':{'type':'foo'}}}"),
         "properties[x].type: Unsupported value: \\\"foo\\\""},
        {BAD("{'type':'object','properties':{'x':{'type':'string','pattern':'('}}}"),
         "must be a valid regular expression, but isn't: "},
        {BAD("{'type':'object','anyOf':[{'type':'object'}]}"),
         "anyOf[0].type: Forbidden: must be empty to be structural"},
    };
    struct harness *h = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        AUTO_REPLY struct reply r = send_quoted(h, "POST", CRDS, cases[i].crd);
        assert_status(r, 422);
        if (!strstr(r.text, cases[i].message))
            fail_msg("%s\nlacks %s", r.text, cases[i].message);
    }
}

static void test_printer_columns_fill_the_table(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply created = create_crontab(
        h, "{'image':'img','cronSpec':'*/5','any':{'conditions':[{'type':'Other','status':'no'},"
           "{'type':'Ready','status':'True'}]}}");
    AUTO_REPLY struct reply table = request_with(
        h, "GET", CRONTABS, NULL, "application/json;as=Table;g=meta.k8s.io;v=v1", NULL);

    assert_status(created, 201);
    assert_status(table, 200);
    assert_non_null(strstr(table.text, "\"cells\":[\"a\",\"*/5\",1,\"True\"]"));
    assert_non_null(strstr(table.text, "\"name\":\"Replicas\""));
}

static void test_status_and_scale_are_subresources(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply created = create_crontab(h, "{'image':'img'}");
    AUTO_REPLY struct reply spec =
        request_with(h, "PATCH", CRONTABS "/a/status", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"image\":\"no\"},\"status\":{\"replicas\":3,"
                     "\"selector\":\"app=a\"}}");
    AUTO_REPLY struct reply scale = request(h, "GET", CRONTABS "/a/scale", NULL);
    AUTO_REPLY struct reply scaled =
        request_with(h, "PATCH", CRONTABS "/a/scale", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"replicas\":5}}");
    AUTO_REPLY struct reply read = request(h, "GET", CRONTABS "/a", NULL);

    assert_status(created, 201);
    assert_null(json_object_get(created.body, "status"));
    assert_status(spec, 200);
    assert_member(spec, "img", "spec", "image");
    assert_number(scale, 1, "spec", "replicas");
    assert_number(scale, 3, "status", "replicas");
    assert_member(scale, "app=a", "status", "selector");
    assert_status(scaled, 200);
    assert_number(read, 5, "spec", "replicas");
    assert_number(read, 2, "metadata", "generation");
}

static void test_scale_beyond_the_schema_is_rejected(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply created = create_crontab(h, "{'image':'img'}");
    AUTO_REPLY struct reply scaled =
        request_with(h, "PATCH", CRONTABS "/a/scale", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"replicas\":11}}");

    assert_status(created, 201);
    assert_status(scaled, 422);
    assert_message(scaled, "should be less than or equal to 10");
}

#define ANY_SCHEMA                                                                                 \
    "{'openAPIV3Schema':{'type':'object','x-kubernetes-preserve-unknown-fields':true}}"

static void test_each_served_version_shows_the_same_objects(void **state)
{
    struct harness *h = *state;
    define(h, CRD_OF("crontabs.stable.example.com", NAMES,
                     "{'name':'v1beta1','served':true,'storage':true,'schema':" ANY_SCHEMA "},"
                     "{'name':'v1','served':true,'storage':false,'schema':" ANY_SCHEMA "},"
                     "{'name':'v2','served':false,'storage':false,'schema':" ANY_SCHEMA "}"));
    AUTO_REPLY struct reply created = create_crontab(h, "{'image':'img'}");
    AUTO_REPLY struct reply old =
        request(h, "GET", "/apis/stable.example.com/v1beta1/namespaces/default/crontabs/a", NULL);
    AUTO_REPLY struct reply unserved =
        request(h, "GET", "/apis/stable.example.com/v2/namespaces/default/crontabs/a", NULL);
    AUTO_REPLY struct reply group = request(h, "GET", "/apis/stable.example.com", NULL);

    assert_status(created, 201);
    assert_member(created, "stable.example.com/v1", "apiVersion");
    assert_member(old, "stable.example.com/v1beta1", "apiVersion");
    assert_member(old, "img", "spec", "image");
    assert_status(unserved, 404);
    assert_member(group, "v1", "preferredVersion", "version");
}

static void test_deleting_a_definition_deletes_its_objects(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply created = create_crontab(h, "{'image':'img'}");
    AUTO_REPLY struct reply deleted =
        request(h, "DELETE", CRDS "/crontabs.stable.example.com", NULL);

    assert_status(created, 201);
    assert_status(deleted, 200);
    for (int status = 200; status != 404;) {
        AUTO_REPLY struct reply r = request(h, "GET", CRDS "/crontabs.stable.example.com", NULL);
        status = r.status;
        uv_run(&h->loop, UV_RUN_NOWAIT);
    }
    AUTO_REPLY struct reply gone = request(h, "GET", CRONTABS "/a", NULL);
    assert_status(gone, 404);
    define(h, CRD);
    AUTO_REPLY struct reply list = request(h, "GET", CRONTABS, NULL);
    assert_int_equal(json_array_size(json_object_get(list.body, "items")), 0);
}

static void test_objects_of_a_changed_definition_end_their_watches(void **state)
{
    struct harness *h = *state;
    struct watched w = {0};
    define(h, CRD);
    watch_start(h, &w, CRONTABS "?watch=true", NULL);
    AUTO_REPLY struct reply r = request_with(h, "PATCH", CRDS "/crontabs.stable.example.com",
                                             "application/merge-patch+json", NULL,
                                             "{\"spec\":{\"names\":{\"shortNames\":[\"cts\"]}}}");

    assert_status(r, 200);
    while (!w.ended)
        uv_run(&h->loop, UV_RUN_ONCE);
    AUTO_REPLY struct reply version = request(h, "GET", "/apis/stable.example.com/v1", NULL);
    assert_non_null(strstr(version.text, "\"shortNames\":[\"cts\"]"));
    gs_buf_finish(&w.text);
}

static void test_names_in_use_are_not_accepted(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply r = send_quoted(
        h, "POST", CRDS,
        CRD_OF("tabs.stable.example.com",
               "{'plural':'tabs','kind':'CronTab','singular':'tab','listKind':'TabList'}",
               VERSION_V1));
    AUTO_REPLY struct reply list =
        request(h, "GET", "/apis/stable.example.com/v1/namespaces/default/tabs", NULL);

    assert_status(r, 201);
    assert_non_null(strstr(r.text, "\"KindConflict\""));
    assert_non_null(strstr(r.text, "\\\"CronTab\\\" is already in use"));
    assert_non_null(strstr(r.text, "\"not all names are accepted\""));
    assert_status(list, 404);
}

static void test_names_that_become_free_are_accepted(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    define(h, CRD_OF("tabs.stable.example.com",
                     "{'plural':'tabs','kind':'CronTab','singular':'tab','listKind':'TabList'}",
                     VERSION_V1));
    AUTO_REPLY struct reply deleted =
        request(h, "DELETE", CRDS "/crontabs.stable.example.com", NULL);

    assert_status(deleted, 200);
    for (int status = 404; status != 200;) {
        AUTO_REPLY struct reply r =
            request(h, "GET", "/apis/stable.example.com/v1/namespaces/default/tabs", NULL);
        status = r.status;
        uv_run(&h->loop, UV_RUN_NOWAIT);
    }
}

static void test_definitions_of_built_in_kinds_change_nothing(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply r =
        send_quoted(h, "POST", CRDS,
                    "{'metadata':{'name':'servicemonitors.monitoring.coreos.com'},'spec':{"
                    "'group':'monitoring.coreos.com','scope':'Namespaced',"
                    "'names':{'plural':'servicemonitors','kind':'ServiceMonitor'},'versions':["
                    "{'name':'v1','served':true,'storage':true,'schema':" ANY_SCHEMA "}]}}");
    AUTO_REPLY struct reply version = request(h, "GET", "/apis/monitoring.coreos.com/v1", NULL);

    assert_status(r, 201);
    assert_non_null(strstr(r.text, "\"Established\",\"status\":\"True\""));
    assert_non_null(strstr(version.text, "\"smon\""));
}

static void test_openapi_describes_custom_resources(void **state)
{
    struct harness *h = *state;
    define(h, CRD);
    AUTO_REPLY struct reply v3 = request(h, "GET", "/openapi/v3/apis/stable.example.com/v1", NULL);
    AUTO_REPLY struct reply v2 = request(h, "GET", "/openapi/v2", NULL);

    assert_status(v3, 200);
    assert_non_null(codec_json_get(v3.body, "components", "schemas",
                                   "com.example.stable.v1.CronTab", "properties", "metadata",
                                   NULL));
    assert_non_null(codec_json_get(v2.body, "definitions", "com.example.stable.v1.CronTab", NULL));
}

static void test_cel_rules_give_a_warning(void **state)
{
    struct harness *h = *state;
    struct reply r = send_quoted(
        h, "POST", CRDS,
        CRD_OF("crontabs.stable.example.com", NAMES,
               "{'name':'v1','served':true,'storage':true,'schema':{'openAPIV3Schema':{"
               "'type':'object','x-kubernetes-validations':[{'rule':'self.a > 1'}]}}}"));
    assert_status(r, 201);
    assert_non_null(strstr(r.text, "self.a > 1"));
    reply_finish(&r);
}

static void test_definitions_have_a_quota(void **state)
{
    struct harness *h = *state;
    int status = 201;
    int made = 0;

    for (; status == 201 && made < 1000; made++) {
        GS_AUTO_FREE char *crd = gs_format(
            "{'metadata':{'name':'a%d.example.com'},'spec':{'group':'example.com',"
            "'scope':'Cluster','names':{'plural':'a%d','kind':'A%d'},'versions':[{'name':'v1',"
            "'served':true,'storage':true,'schema':" ANY_SCHEMA "}]}}",
            made, made, made);
        AUTO_REPLY struct reply r = send_quoted(h, "POST", CRDS, crd);
        status = r.status;
        if (status != 201)
            assert_message(r, "exceeded quota: gpuscale, requested: customresourcedefinitions=1, "
                              "used: customresourcedefinitions=500, limited: "
                              "customresourcedefinitions=500 (delete some)");
    }
    assert_int_equal(status, 403);
    assert_int_equal(made, 498); // three of built-in resources are there already
}

static void test_conversion_webhooks_are_stored_and_not_called(void **state)
{
    struct harness *h = *state;
    define(h, "{'metadata':{'name':'as.example.com'},'spec':{'group':'example.com',"
              "'scope':'Namespaced','names':{'plural':'as','kind':'A'},"
              "'conversion':{'strategy':'Webhook'},'versions':["
              "{'name':'v1','served':true,'storage':true,'schema':" ANY_SCHEMA "},"
              "{'name':'v2','served':true,'storage':false,'schema':" ANY_SCHEMA "}]}}");
    AUTO_REPLY struct reply made =
        send_quoted(h, "POST", "/apis/example.com/v2/namespaces/default/as",
                    "{'metadata':{'name':'a'},'spec':{'x':1}}");
    AUTO_REPLY struct reply old =
        request(h, "GET", "/apis/example.com/v1/namespaces/default/as/a", NULL);

    assert_status(made, 201);
    assert_number(old, 1, "spec", "x");
}

// --- definitions of built-in resources ---

#define STAND_IN                                                                                   \
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"                                     \
    "servicemonitors.monitoring.coreos.com"
#define PUBLISHED                                                                                  \
    "{\"apiVersion\":\"apiextensions.k8s.io/"                                                      \
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":"                                     \
    "{\"name\":\"servicemonitors.monitoring.coreos.com\",\"labels\":{\"published\":\"yes\"}},"     \
    "\"spec\":{\"group\":\"monitoring.coreos.com\",\"names\":{\"kind\":\"ServiceMonitor\","        \
    "\"plural\":"                                                                                  \
    "\"servicemonitors\"},\"scope\":\"Namespaced\",\"versions\":[{\"name\":\"v1\",\"served\":"     \
    "true,"                                                                                        \
    "\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}"

static void test_built_in_resources_of_other_groups_have_definitions(void **state)
{
    AUTO_REPLY struct reply crd = request(*state, "GET", STAND_IN, NULL);
    const json_t *conditions = codec_json_get(crd.body, "status", "conditions", NULL);

    assert_status(crd, 200);
    assert_member(crd, "ServiceMonitor", "status", "acceptedNames", "kind");
    assert_int_equal(json_array_size(conditions), 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(codec_json_str(json_array_get(conditions, i), "status", NULL), "True");
}

static void assert_replaced(struct harness *h, int status, const struct reply *r)
{
    AUTO_REPLY struct reply crd = request(h, "GET", STAND_IN, NULL);
    AUTO_REPLY struct reply object =
        request(h, "POST", "/apis/monitoring.coreos.com/v1/namespaces/default/servicemonitors",
                "{\"metadata\":{\"name\":\"m\"},\"spec\":{\"selector\":{},\"endpoints\":[]}}");

    assert_int_equal(r->status, status);
    assert_member(crd, "yes", "metadata", "labels", "published");
    assert_null(codec_json_get(crd.body, "metadata", "annotations", NULL));
    assert_status(object, 201); // the built-in kind is still served
}

static void test_published_definitions_replace_those_of_built_in_resources(void **state)
{
    AUTO_REPLY struct reply tried =
        request(*state, "POST",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", PUBLISHED);
    AUTO_REPLY struct reply before = request(*state, "GET", STAND_IN, NULL);
    AUTO_REPLY struct reply created = request(
        *state, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", PUBLISHED);
    AUTO_REPLY struct reply again = request(
        *state, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", PUBLISHED);

    assert_status(tried, 201);
    assert_null(codec_json_get(before.body, "metadata", "labels", NULL));
    assert_replaced(*state, 201, &created);
    assert_status(again, 409);
}

static void test_published_definitions_are_applied_without_conflicts(void **state)
{
    AUTO_REPLY struct reply applied = request_with(*state, "PATCH", STAND_IN "?fieldManager=me",
                                                   "application/apply-patch+yaml", NULL, PUBLISHED);
    assert_replaced(*state, 201, &applied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_definition_is_established_and_listed_in_discovery,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_defaults_end_at_the_limit_of_an_object, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_many_choices_end_at_the_limit_of_a_validation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_large_values_end_at_the_limit_of_a_validation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_many_members_end_at_the_limit_of_a_validation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_object_has_a_limit_of_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_objects_get_defaults_and_lose_unknown_fields, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_strict_validation_rejects_unknown_fields, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_invalid_values_are_rejected_with_the_texts_of_kubernetes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_invalid_definitions_are_rejected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_printer_columns_fill_the_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_status_and_scale_are_subresources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scale_beyond_the_schema_is_rejected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_served_version_shows_the_same_objects, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_deleting_a_definition_deletes_its_objects, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_objects_of_a_changed_definition_end_their_watches,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_in_use_are_not_accepted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_that_become_free_are_accepted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_definitions_of_built_in_kinds_change_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_openapi_describes_custom_resources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cel_rules_give_a_warning, setup, teardown),
        cmocka_unit_test_setup_teardown(test_definitions_have_a_quota, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conversion_webhooks_are_stored_and_not_called, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_built_in_resources_of_other_groups_have_definitions,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_published_definitions_replace_those_of_built_in_resources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_published_definitions_are_applied_without_conflicts,
                                        setup, teardown),
    };
    return cmocka_run_group_tests_name("api_crds", tests, NULL, NULL);
}
