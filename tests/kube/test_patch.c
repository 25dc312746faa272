// SPDX-License-Identifier: Apache-2.0
#include "kube/patch.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Texts are written with ' for ": easier to read.
static json_t *json(const char *text)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    for (; *text; text++)
        gs_buf_add_char(&b, *text == '\'' ? '"' : *text);
    json_t *j = json_loads(b.data, JSON_DECODE_ANY, NULL);
    if (!j)
        fail_msg("not JSON: %s", b.data);
    return j;
}

static void check(const char *what, struct gs_error *err, json_t *got, const char *want,
                  const char *error)
{
    if (error) {
        if (!err)
            fail_msg("%s was taken, not: %s", what, error);
        assert_string_equal(gs_error_message(err), error);
        assert_null(got);
        gs_error_free(err);
        return;
    }
    if (err)
        fail_msg("%s: %s", what, gs_error_message(err));
    CODEC_AUTO_JSON json_t *w = json(want);
    char *text = json_dumps(got, JSON_ENCODE_ANY);
    if (!json_equal(got, w))
        fail_msg("%s: got %s", what, text);
    free(text);
    json_decref(got);
}

struct patch_case {
    const char *target, *patch, *want, *error;
};

static void test_merge_patches(void **state)
{
    static const struct patch_case cases[] = {
        // RFC 7386, appendix A
        {"{'a':'b'}", "{'a':'c'}", "{'a':'c'}"},
        {"{'a':'b'}", "{'b':'c'}", "{'a':'b','b':'c'}"},
        {"{'a':'b'}", "{'a':null}", "{}"},
        {"{'a':'b','b':'c'}", "{'a':null}", "{'b':'c'}"},
        {"{'a':['b']}", "{'a':'c'}", "{'a':'c'}"},
        {"{'a':'c'}", "{'a':['b']}", "{'a':['b']}"},
        {"{'a':{'b':'c'}}", "{'a':{'b':'d','c':null}}", "{'a':{'b':'d'}}"},
        {"{'a':[{'b':'c'}]}", "{'a':[1]}", "{'a':[1]}"},
        {"['a','b']", "['c','d']", "['c','d']"},
        {"{'a':'b'}", "['c']", "['c']"},
        {"{'a':'foo'}", "null", "null"},
        {"{'a':'foo'}", "'bar'", "'bar'"},
        {"{'e':null}", "{'a':1}", "{'e':null,'a':1}"},
        {"[1,2]", "{'a':'b','c':null}", "{'a':'b'}"},
        {"{}", "{'a':{'bb':{'ccc':null}}}", "{'a':{'bb':{}}}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        CODEC_AUTO_JSON json_t *target = json(cases[i].target);
        CODEC_AUTO_JSON json_t *patch = json(cases[i].patch);
        CODEC_AUTO_JSON json_t *before = json_deep_copy(target);
        json_t *got = NULL;
        struct gs_error *err = kube_patch_merge(target, patch, &got);
        check(cases[i].patch, err, got, cases[i].want, cases[i].error);
        assert_true(json_equal(target, before));
    }
}

static void test_json_patches(void **state)
{
    static const struct patch_case cases[] = {
        {"{'a':1}", "[]", "{'a':1}"},
        {"{'a':1}", "[{'op':'add','path':'/b','value':2}]", "{'a':1,'b':2}"},
        {"{'a':1}", "[{'op':'add','path':'/a','value':2}]", "{'a':2}"},
        {"{'a':[1,2]}", "[{'op':'add','path':'/a/1','value':9}]", "{'a':[1,9,2]}"},
        {"{'a':[1,2]}", "[{'op':'add','path':'/a/2','value':9}]", "{'a':[1,2,9]}"},
        {"{'a':[1,2]}", "[{'op':'add','path':'/a/-','value':9}]", "{'a':[1,2,9]}"},
        {"{'a':1}", "[{'op':'add','path':'','value':[]}]", "[]"},
        {"{}", "[{'op':'add','path':'/a~1b~0','value':1}]", "{'a/b~':1}"},
        {"{'a/b':{'m~n':1}}", "[{'op':'remove','path':'/a~1b/m~0n'}]", "{'a/b':{}}"},
        {"{'a':[1,2,3]}", "[{'op':'remove','path':'/a/1'}]", "{'a':[1,3]}"},
        {"{'a':[1,2,3]}", "[{'op':'replace','path':'/a/0','value':'x'}]", "{'a':['x',2,3]}"},
        {"{'a':1}", "[{'op':'replace','path':'/a','value':null}]", "{'a':null}"},
        {"{'a':1}", "[{'op':'replace','path':'','value':{'b':2}}]", "{'b':2}"},
        {"{'a':{'b':1},'c':{}}", "[{'op':'move','from':'/a/b','path':'/c/d'}]",
         "{'a':{},'c':{'d':1}}"},
        {"{'a':[1,2,3]}", "[{'op':'move','from':'/a/0','path':'/a/2'}]", "{'a':[2,3,1]}"},
        {"{'a':{'b':1}}",
         "[{'op':'copy','from':'/a','path':'/c'},"
         "{'op':'add','path':'/c/b','value':2}]",
         "{'a':{'b':1},'c':{'b':2}}"},
        {"{'a':[1,{'b':2}]}", "[{'op':'test','path':'/a','value':[1,{'b':2}]}]",
         "{'a':[1,{'b':2}]}"},
        {"{'a':1}", "[{'op':'replace','path':'/b','value':2}]", "{'a':1,'b':2}"},
        {"{'':1}", "[{'op':'test','path':'/','value':1}]", "{'':1}"},
        {"{}", "[{'op':'test','path':'/x','value':null}]", "{}"},

        {"{'a':1}", "[{'op':'test','path':'/a','value':2}]", NULL,
         "testing value /a failed: test failed"},
        {"{'a':1}", "[{'op':'remove','path':'/b'}]", NULL,
         "error in remove for path: '/b': Unable to remove nonexistent key: b: missing value"},
        {"{'a':1}", "[{'op':'remove','path':'/b/c'}]", NULL,
         "remove operation does not apply: doc is missing path: \"/b/c\": missing value"},
        {"{'a':1}", "[{'op':'remove','path':''}]", NULL,
         "remove operation does not apply: doc is missing path: \"\": missing value"},
        {"{'a':1}", "[{'op':'replace','path':'/b/c','value':1}]", NULL,
         "replace operation does not apply: doc is missing path: /b/c: missing value"},
        {"{'a':[1]}", "[{'op':'replace','path':'/a/1','value':1}]", NULL,
         "replace operation does not apply: doc is missing key: /a/1: missing value"},
        {"{'a':1}", "[{'op':'test','path':'/a/b','value':null}]", NULL,
         "test operation does not apply: is missing path: /a/b: missing value"},
        {"{'a':[1]}", "[{'op':'test','path':'/a/1','value':null}]", NULL,
         "error in test for path: '/a/1': Unable to access invalid index: 1: invalid index "
         "referenced"},
        {"{'a':1}", "[{'op':'add','path':'/b/c','value':1}]", NULL,
         "add operation does not apply: doc is missing path: \"/b/c\": missing value"},
        {"{'a':[1]}", "[{'op':'add','path':'/a/3','value':1}]", NULL,
         "error in add for path: '/a/3': Unable to access invalid index: 3: invalid index "
         "referenced"},
        {"{'a':[1]}", "[{'op':'add','path':'/a/01','value':1}]", NULL,
         "error in add for path: '/a/01': Unable to access invalid index: 01: invalid index "
         "referenced"},
        {"{'a':[]}", "[{'op':'remove','path':'/a/0'}]", NULL,
         "error in remove for path: '/a/0': Unable to access invalid index: 0: invalid index "
         "referenced"},
        {"{'a':[1]}", "[{'op':'remove','path':'/a/-'}]", NULL,
         "error in remove for path: '/a/-': Unable to access invalid index: -: invalid index "
         "referenced"},
        {"{'a':1}", "[{'op':'move','from':'/b','path':'/c'}]", NULL,
         "error in move for path: '/b': Unable to remove nonexistent key: b: missing value"},
        {"{'a':1}", "[{'op':'copy','from':'/b','path':'/c'}]", NULL,
         "copy operation does not apply: doc is missing from path: /b: missing value"},
        {"{'a':1}", "[{'op':'move','from':'/a','path':'/b/c'}]", NULL,
         "move operation does not apply: doc is missing destination path: /b/c: missing value"},
        {"{'a':{'b':1}}", "[{'op':'move','from':'/a','path':'/a/b'}]", NULL,
         "move operation cannot move \"/a\" into itself, to \"/a/b\""},
        {"{'a':1}", "[{'op':'foo','path':'/a'}]", NULL, "Unexpected kind: foo"},
        {"{'a':1}", "[{'op':'add','path':'/a'}]", NULL, "add operation at \"/a\" has no \"value\""},
        {"{'a':1}", "[{'op':'add','path':'a','value':1}]", NULL,
         "JSON pointer \"a\" does not start with \"/\""},
        {"{'a':1}", "[{'op':'add','path':'/~2','value':1}]", NULL,
         "JSON pointer \"/~2\": \"~\" must be followed by 0 or 1"},
        {"{'a':1}", "[{'op':'add','value':1}]", NULL, "operation has no text in \"path\""},
        {"{'a':1}", "[1]", NULL, "operation has no text in \"op\""},
        {"{'a':1}", "{'op':'add'}", NULL, "a JSON patch must be an array of operations"},
        // Nothing is applied when a later operation fails.
        {"{'a':1}", "[{'op':'remove','path':'/a'},{'op':'test','path':'/a','value':1}]", NULL,
         "testing value /a failed: test failed"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        CODEC_AUTO_JSON json_t *target = json(cases[i].target);
        CODEC_AUTO_JSON json_t *patch = json(cases[i].patch);
        CODEC_AUTO_JSON json_t *before = json_deep_copy(target);
        json_t *got = NULL;
        struct gs_error *err = kube_patch_json(target, patch, &got);
        check(cases[i].patch, err, got, cases[i].want, cases[i].error);
        assert_true(json_equal(target, before));
    }
}

static void test_json_patch_limits(void **state)
{
    CODEC_AUTO_JSON json_t *target = json("{'a':{'b':'0123456789012345678901234567890123456789'}}");
    CODEC_AUTO_JSON json_t *doubling = json_array();
    for (int i = 0; i < 40; i++) {
        json_array_append_new(doubling, json("{'op':'copy','from':'/a','path':'/c'}"));
        GS_AUTO_FREE char *path = gs_format("/a/c%d", i);
        json_array_append_new(doubling,
                              json_pack("{ssssss}", "op", "copy", "from", "/c", "path", path));
    }
    json_t *got = NULL;
    GS_AUTO_ERROR struct gs_error *err = kube_patch_json(target, doubling, &got);
    assert_non_null(err);
    assert_int_equal(gs_error_code(err), GS_ELIMIT);

    CODEC_AUTO_JSON json_t *deep = json_array();
    GS_AUTO_BUF struct gs_buf path = {0};
    for (int i = 0; i < CODEC_JSON_MAX_DEPTH + 5; i++) {
        gs_buf_add_str(&path, "/x");
        json_array_append_new(
            deep, json_pack("{ssssso}", "op", "add", "path", path.data, "value", json_object()));
    }
    GS_AUTO_ERROR struct gs_error *too_deep = kube_patch_json(target, deep, &got);
    assert_non_null(too_deep);
    assert_int_equal(gs_error_code(too_deep), GS_ELIMIT);

    CODEC_AUTO_JSON json_t *many = json_array();
    for (int i = 0; i < 10001; i++)
        json_array_append_new(many, json_null());
    GS_AUTO_ERROR struct gs_error *too_many = kube_patch_json(target, many, &got);
    assert_non_null(too_many);
    assert_string_equal(gs_error_message(too_many),
                        "The allowed maximum operations in a JSON patch is 10000, got 10001");
    assert_null(got);
}

// Each insertion moves the whole list.
static void test_json_patches_move_a_limited_number_of_items(void **state)
{
    CODEC_AUTO_JSON json_t *target = json_pack("{s:o}", "l", json_array());
    for (int i = 0; i < 200000; i++)
        json_array_append_new(json_object_get(target, "l"), json_null());
    CODEC_AUTO_JSON json_t *patch = json_array();
    for (int i = 0; i < 1000; i++)
        json_array_append_new(patch, json("{'op':'add','path':'/l/0','value':1}"));
    json_t *got = NULL;
    GS_AUTO_ERROR struct gs_error *err = kube_patch_json(target, patch, &got);
    assert_non_null(err);
    assert_string_equal(gs_error_message(err),
                        "operations move more than 100000000 items of lists");
    assert_null(got);
}

// Targets and patches are Pods' specs, wrapped.
static void test_strategic_patches(void **state)
{
    static const struct patch_case cases[] = {
        // scalars, maps, nulls
        {"{'nodeName':'a'}", "{'nodeName':'b'}", "{'nodeName':'b'}"},
        {"{'nodeSelector':{'a':'1','b':'2'}}", "{'nodeSelector':{'a':null,'c':'3'}}",
         "{'nodeSelector':{'b':'2','c':'3'}}"},
        {"{'nodeName':'a'}", "{'nodeName':null}", "{}"},
        {"{}", "{'securityContext':{'runAsUser':1,'fsGroup':null}}",
         "{'securityContext':{'runAsUser':1}}"},
        // lists by key
        {"{'containers':[{'name':'a','image':'1'},{'name':'b','image':'2'}]}",
         "{'containers':[{'name':'b','image':'3'}]}",
         "{'containers':[{'name':'a','image':'1'},{'name':'b','image':'3'}]}"},
        // items that only the server has go behind new ones
        {"{'containers':[{'name':'a','image':'1'}]}", "{'containers':[{'name':'c','image':'3'}]}",
         "{'containers':[{'name':'c','image':'3'},{'name':'a','image':'1'}]}"},
        {"{'containers':[{'name':'a','env':[{'name':'X','value':'1'},{'name':'Y','value':'2'}]}]}",
         "{'containers':[{'name':'a','env':[{'name':'Y','value':'3'}]}]}",
         "{'containers':[{'name':'a','env':[{'name':'X','value':'1'},{'name':'Y','value':'3'}]}]}"},
        {"{'containers':[{'name':'a','ports':[{'containerPort':80}]}]}",
         "{'containers':[{'name':'a','ports':[{'containerPort':80,'name':'http'}]}]}",
         "{'containers':[{'name':'a','ports':[{'containerPort':80,'name':'http'}]}]}"},
        {"{'containers':[{'name':'a','volumeMounts':[{'mountPath':'/x','name':'v'}]}]}",
         "{'containers':[{'name':'a','volumeMounts':[{'mountPath':'/x','readOnly':true}]}]}",
         "{'containers':[{'name':'a','volumeMounts':[{'mountPath':'/x','name':'v','readOnly':true}"
         "]}]}"},
        // two entries with one key survive a patch of another
        {"{'containers':[{'name':'a','ports':[{'containerPort':53,'protocol':'TCP'},"
         "{'containerPort':53,'protocol':'UDP'}]}]}",
         "{'containers':[{'name':'a','ports':[{'containerPort':80}]}]}",
         "{'containers':[{'name':'a','ports':[{'containerPort':80},"
         "{'containerPort':53,'protocol':'TCP'},{'containerPort':53,'protocol':'UDP'}]}]}"},
        {"{}",
         "{'containers':[{'name':'a','ports':[{'containerPort':53,'protocol':'TCP'},"
         "{'containerPort':53,'protocol':'UDP'}]}]}",
         "{'containers':[{'name':'a','ports':[{'containerPort':53,'protocol':'TCP'},"
         "{'containerPort':53,'protocol':'UDP'}]}]}"},
        // atomic lists
        {"{'tolerations':[{'key':'a'}]}", "{'tolerations':[{'key':'b'}]}",
         "{'tolerations':[{'key':'b'}]}"},
        {"{'containers':[{'name':'a','args':['1','2']}]}",
         "{'containers':[{'name':'a','args':['3']}]}",
         "{'containers':[{'name':'a','args':['3']}]}"},
        // $patch in lists
        {"{'containers':[{'name':'a'},{'name':'b'}]}",
         "{'containers':[{'name':'a','$patch':'delete'}]}", "{'containers':[{'name':'b'}]}"},
        {"{'containers':[{'name':'a'},{'name':'b'}]}",
         "{'containers':[{'$patch':'replace'},{'name':'c'}]}", "{'containers':[{'name':'c'}]}"},
        {"{'containers':[{'name':'a','image':'1'}]}",
         "{'containers':[{'name':'a','command':['x'],'$patch':'merge'}]}",
         "{'containers':[{'name':'a','image':'1','command':['x']}]}"},
        {"{}", "{'containers':[{'name':'a','$patch':'delete'},{'name':'b'}]}",
         "{'containers':[{'name':'b'}]}"},
        // $patch in maps
        {"{'securityContext':{'runAsUser':1,'fsGroup':2}}",
         "{'securityContext':{'$patch':'replace','runAsUser':3}}",
         "{'securityContext':{'runAsUser':3}}"},
        {"{'securityContext':{'runAsUser':1}}", "{'securityContext':{'$patch':'delete'}}",
         "{'securityContext':{}}"},
        {"{}", "{'securityContext':{'$patch':'delete'}}", "{}"},
        // $retainKeys
        {"{'volumes':[{'name':'v','emptyDir':{}}]}",
         "{'volumes':[{'name':'v','$retainKeys':['name','hostPath'],'hostPath':{'path':'/x'}}]}",
         "{'volumes':[{'name':'v','hostPath':{'path':'/x'}}]}"},
        {"{'securityContext':{'runAsUser':1,'fsGroup':2}}",
         "{'securityContext':{'$retainKeys':['fsGroup'],'runAsUser':null}}",
         "{'securityContext':{'fsGroup':2}}"},
        // $setElementOrder
        {"{'containers':[{'name':'a'},{'name':'b'},{'name':'c'}]}",
         "{'$setElementOrder/containers':[{'name':'c'},{'name':'a'},{'name':'b'}]}",
         "{'containers':[{'name':'c'},{'name':'a'},{'name':'b'}]}"},
        {"{'containers':[{'name':'a'},{'name':'b'}]}",
         "{'$setElementOrder/containers':[{'name':'b'},{'name':'d'},{'name':'a'}],"
         "'containers':[{'name':'d','image':'x'}]}",
         "{'containers':[{'name':'b'},{'name':'d','image':'x'},{'name':'a'}]}"},
        // a sidecar that only the server knows keeps its place before b
        {"{'containers':[{'name':'a'},{'name':'side'},{'name':'b'}]}",
         "{'$setElementOrder/containers':[{'name':'a'},{'name':'b'}]}",
         "{'containers':[{'name':'a'},{'name':'side'},{'name':'b'}]}"},
        {"{'containers':[{'name':'a'}]}",
         "{'$setElementOrder/containers':[{'name':'b'}],'containers':[{'name':'b'},"
         "{'name':'a','$patch':'delete'}]}",
         "{'containers':[{'name':'b'}]}"},
        // new items stand where deleted ones stood: behind the sidecar
        {"{'containers':[{'name':'side'},{'name':'a'},{'name':'c'}]}",
         "{'$setElementOrder/containers':[{'name':'b'},{'name':'c'}],'containers':[{'name':'b'},"
         "{'name':'a','$patch':'delete'}]}",
         "{'containers':[{'name':'side'},{'name':'b'},{'name':'c'}]}"},
        {"{'containers':[{'name':'a'}]}", "{'$setElementOrder/containers':[],'containers':null}",
         "{}"},
        {"{}", "{'$setElementOrder/containers':[{'name':'a'}]}", "{}"},
        // what the type does not know is merged as plain JSON
        {"{'strange':{'a':[1],'b':2}}", "{'strange':{'a':[3]}}", "{'strange':{'a':[3],'b':2}}"},

        {"{'containers':[{'name':'a'}]}", "{'containers':[{'image':'x','tty':true}]}", NULL,
         "map: map[image:x tty:true] does not contain declared merge key: name"},
        {"{'containers':[{'name':'a'}]}", "{'containers':['x']}", NULL,
         "expected a map[string]interface {}, but received a string"},
        {"{'containers':[{'name':'a'}]}", "{'containers':[{'name':'a','$patch':'what'}]}", NULL,
         "unknown patch type: what in map: map[$patch:what name:a]"},
        {"{'volumes':[{'name':'v','emptyDir':{}}]}",
         "{'volumes':[{'name':'v','$retainKeys':['name'],'hostPath':{'path':'/x'}}]}", NULL,
         "invalid patch format of retainKeys"},
        {"{'containers':[{'name':'a'}]}",
         "{'$setElementOrder/containers':[{'name':'a'}],'containers':[{'name':'b'}]}", NULL,
         "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n"
         "[map[name:a]]"},
        {"{}", "{'$setElementOrder/containers':{}}", NULL,
         "invalid patch format of setElementOrder list"},
        {"{}", "{'$deleteFromPrimitiveList/x':1}", NULL, "invalid patch format of primitive list"},
    };
    const struct kube_type *pod = kube_schema_find("v1", "Pod");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        CODEC_AUTO_JSON json_t *target = json_pack("{so}", "spec", json(cases[i].target));
        CODEC_AUTO_JSON json_t *patch = json_pack("{so}", "spec", json(cases[i].patch));
        CODEC_AUTO_JSON json_t *before = json_deep_copy(target);
        CODEC_AUTO_JSON json_t *patch_before = json_deep_copy(patch);
        json_t *got = NULL;
        struct gs_error *err = kube_patch_strategic(pod, target, patch, &got);
        json_t *spec = json_incref(json_object_get(got, "spec"));
        json_decref(got);
        check(cases[i].patch, err, spec, cases[i].want, cases[i].error);
        assert_true(json_equal(target, before));
        assert_true(json_equal(patch, patch_before));
    }
}

static void test_primitive_lists(void **state)
{
    static const struct patch_case cases[] = {
        {"{'finalizers':['a','b']}", "{'finalizers':['b','c']}", "{'finalizers':['a','b','c']}"},
        {"{'finalizers':['a','b','c']}", "{'$deleteFromPrimitiveList/finalizers':['b']}",
         "{'finalizers':['a','c']}"},
        {"{'finalizers':['a','b']}",
         "{'$setElementOrder/finalizers':['c','a'],'$deleteFromPrimitiveList/finalizers':['b'],"
         "'finalizers':['c']}",
         "{'finalizers':['c','a']}"},
        {"{}", "{'$deleteFromPrimitiveList/finalizers':['b']}", "{}"},
        {"{'ownerReferences':[{'uid':'1','name':'a'}]}",
         "{'ownerReferences':[{'uid':'1','$patch':'delete'},{'uid':'2','name':'b'}]}",
         "{'ownerReferences':[{'uid':'2','name':'b'}]}"},
    };
    const struct kube_type *pod = kube_schema_find("v1", "Pod");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        CODEC_AUTO_JSON json_t *target = json_pack("{so}", "metadata", json(cases[i].target));
        CODEC_AUTO_JSON json_t *patch = json_pack("{so}", "metadata", json(cases[i].patch));
        json_t *got = NULL;
        struct gs_error *err = kube_patch_strategic(pod, target, patch, &got);
        json_t *meta = json_incref(json_object_get(got, "metadata"));
        json_decref(got);
        check(cases[i].patch, err, meta, cases[i].want, cases[i].error);
    }
}

static json_t *step(json_t *live, const char *patch_text)
{
    CODEC_AUTO_JSON json_t *patch = json(patch_text);
    json_t *next = NULL;
    struct gs_error *err =
        kube_patch_strategic(kube_schema_find("apps/v1", "Deployment"), live, patch, &next);
    if (err)
        fail_msg("%s: %s", patch_text, gs_error_message(err));
    json_decref(live);
    return next;
}

// What `kubectl apply` sends for three edits of one Deployment.
static void test_three_applies(void **state)
{
    json_t *live =
        json("{'metadata':{'name':'d','annotations':{'last':'0'}},'spec':{'replicas':2,'strategy':{"
             "'type':'RollingUpdate','rollingUpdate':{'maxSurge':'25%'}},'template':{'spec':{"
             "'restartPolicy':'Always','containers':[{'name':'web','image':'i:1','imagePullPolicy':"
             "'IfNotPresent','env':[{'name':'A','value':'1'},{'name':'B','value':'2'},{'name':'C',"
             "'value':'3'}]},{'name':'log','image':'l:1'}]}}}}");
    // the image; an environment variable goes by $patch: delete
    live =
        step(live, "{'metadata':{'annotations':{'last':'1'}},'spec':{'template':{'spec':{"
                   "'$setElementOrder/containers':[{'name':'web'},{'name':'log'}],'containers':[{"
                   "'$setElementOrder/env':[{'name':'A'},{'name':'C'}],'env':[{'$patch':'delete',"
                   "'name':'B'}],'image':'i:2','name':'web'}]}}}}");
    // the strategy's kind, a value of a variable, another variable by null value
    live = step(live, "{'metadata':{'annotations':{'last':'2'}},'spec':{'strategy':{'$retainKeys':"
                      "['type'],'type':'Recreate','rollingUpdate':null},'template':{'spec':{"
                      "'containers':[{'name':'web','env':[{'name':'A','value':null}]}]}}}}");
    // the containers change places, one gets a port
    live = step(live, "{'metadata':{'annotations':{'last':'3'}},'spec':{'template':{'spec':{"
                      "'$setElementOrder/containers':[{'name':'log'},{'name':'web'}],'containers':"
                      "[{'name':'web','ports':[{'containerPort':80}]}]}}}}");
    check("three applies", NULL, live,
          "{'metadata':{'name':'d','annotations':{'last':'3'}},'spec':{'replicas':2,'strategy':{"
          "'type':'Recreate'},'template':{'spec':{'restartPolicy':'Always','containers':["
          "{'name':'log','image':'l:1'},{'name':'web','image':'i:2','imagePullPolicy':"
          "'IfNotPresent','env':[{'name':'A'},{'name':'C','value':'3'}],'ports':[{"
          "'containerPort':80}]}]}}}}",
          NULL);
}

static void test_without_a_type(void **state)
{
    CODEC_AUTO_JSON json_t *target = json("{'spec':{'list':[{'name':'a'}],'x':1}}");
    CODEC_AUTO_JSON json_t *patch = json("{'spec':{'list':[{'name':'b','y':null}],'x':null}}");
    json_t *got = NULL;
    struct gs_error *err = kube_patch_strategic(NULL, target, patch, &got);
    check("no type", err, got, "{'spec':{'list':[{'name':'b'}]}}", NULL);
    CODEC_AUTO_JSON json_t *list = json("[]");
    got = NULL;
    err = kube_patch_strategic(NULL, target, list, &got);
    check("a list", err, got, NULL,
          "expected a map[string]interface {}, but received a []interface {}");
}

static void test_long_lists_are_refused(void **state)
{
    CODEC_AUTO_JSON json_t *target = json("{'metadata':{'finalizers':[]}}");
    json_t *list = json_object_get(json_object_get(target, "metadata"), "finalizers");
    for (int i = 0; i < 5000; i++)
        json_array_append_new(list, json_integer(i));
    json_t *got = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        kube_patch_strategic(kube_schema_find("v1", "Pod"), target, target, &got);
    assert_non_null(err);
    assert_int_equal(gs_error_code(err), GS_ELIMIT);
    assert_null(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge_patches),
        cmocka_unit_test(test_json_patches),
        cmocka_unit_test(test_json_patch_limits),
        cmocka_unit_test(test_json_patches_move_a_limited_number_of_items),
        cmocka_unit_test(test_strategic_patches),
        cmocka_unit_test(test_primitive_lists),
        cmocka_unit_test(test_three_applies),
        cmocka_unit_test(test_without_a_type),
        cmocka_unit_test(test_long_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
