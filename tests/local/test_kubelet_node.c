// SPDX-License-Identifier: Apache-2.0
// What the kubelet tells of its node: the Node object, its Lease, PodResources, and container logs.
#include "local/kubelet_fixture.h"

#include "kube/object.h"
#include "kube/podresources.pb-c.h"
#include "net/grpc/grpc.h"

struct response {
    struct grpc_reply reply;
    struct gs_buf body;
    bool done;
};

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct response *a = arg;
    a->reply = *reply;
    gs_buf_add_slice(&a->body, reply->body);
    a->done = true;
}

static void call(struct fixture *f, const char *path, struct gs_slice request, struct response *ret)
{
    struct grpc_client *client = NULL;
    GS_AUTO_FREE char *target = gs_format("unix:%s", f->socket);
    *ret = (struct response){0};
    assert_null(grpc_client_new(&f->h.loop, target, &client));
    grpc_client_call(client, path, request, 10000, on_reply, ret);
    while (!ret->done)
        uv_run(&f->h.loop, UV_RUN_ONCE);
    ret->reply.message = NULL;
    grpc_client_free(client);
}

static void create_gpu_pod(struct fixture *f, const char *name, const char *device)
{
    GS_AUTO_FREE char *annotations =
        gs_format("'gpuscale.dev/gpus':'{\\\"c\\\":[\\\"%s\\\"]}'", device);
    create_pod(
        f, name, annotations,
        "'restartPolicy':'Never','terminationGracePeriodSeconds':1,'containers':[{'name':'c',"
        "'image':'sleeper','resources':{'limits':{'nvidia.com/gpu':1}}},{'name':'side','image':"
        "'sleeper'}]");
}

static void test_pod_resources(void **state)
{
    struct fixture *f = *state;
    struct response a;
    create_gpu_pod(f, "p", "GPU-aaa::1");
    create_pod(
        f, "ended", "",
        "'restartPolicy':'Never','containers':[{'name':'c','image':'any','command':['true']}]");
    await_pod(f, "p", "ready", is_ready, NULL);
    await_pod(f, "ended", "succeeded", has_phase, "Succeeded");
    call(f, "/v1.PodResourcesLister/List", (struct gs_slice){0}, &a);
    assert_int_equal(a.reply.status, GRPC_OK);
    Podresources__ListPodResourcesResponse *list =
        podresources__list_pod_resources_response__unpack(NULL, a.body.len,
                                                          (const uint8_t *)a.body.data);
    assert_non_null(list);
    assert_int_equal(list->n_pod_resources, 1);
    const Podresources__PodResources *p = list->pod_resources[0];
    assert_string_equal(p->name, "p");
    assert_string_equal(p->namespace_, "default");
    assert_int_equal(p->n_containers, 2);
    assert_string_equal(p->containers[0]->name, "c");
    assert_int_equal(p->containers[0]->n_devices, 1);
    assert_string_equal(p->containers[0]->devices[0]->resource_name, "nvidia.com/gpu");
    assert_int_equal(p->containers[0]->devices[0]->n_device_ids, 1);
    assert_string_equal(p->containers[0]->devices[0]->device_ids[0], "GPU-aaa::1");
    assert_int_equal(p->containers[1]->n_devices, 0);
    podresources__list_pod_resources_response__free_unpacked(list, NULL);
    gs_buf_finish(&a.body);
}

static void test_pod_resources_of_one(void **state)
{
    struct fixture *f = *state;
    struct response a;
    create_gpu_pod(f, "p", "GPU-bbb");
    await_pod(f, "p", "ready", is_ready, NULL);
    Podresources__GetPodResourcesRequest in = PODRESOURCES__GET_POD_RESOURCES_REQUEST__INIT;
    in.pod_name = (char *)"p";
    in.pod_namespace = (char *)"default";
    uint8_t packed[128];
    size_t len = podresources__get_pod_resources_request__pack(&in, packed);
    call(f, "/v1.PodResourcesLister/Get", gs_slice_make(packed, len), &a);
    assert_int_equal(a.reply.status, GRPC_OK);
    Podresources__GetPodResourcesResponse *out = podresources__get_pod_resources_response__unpack(
        NULL, a.body.len, (const uint8_t *)a.body.data);
    assert_string_equal(out->pod_resources->containers[0]->devices[0]->device_ids[0], "GPU-bbb");
    podresources__get_pod_resources_response__free_unpacked(out, NULL);
    gs_buf_finish(&a.body);

    in.pod_name = (char *)"nobody";
    len = podresources__get_pod_resources_request__pack(&in, packed);
    call(f, "/v1.PodResourcesLister/Get", gs_slice_make(packed, len), &a);
    assert_int_equal(a.reply.status, GRPC_UNKNOWN);
    gs_buf_finish(&a.body);
}

static void test_allocatable_resources(void **state)
{
    struct fixture *f = *state;
    struct response a;
    call(f, "/v1.PodResourcesLister/GetAllocatableResources", (struct gs_slice){0}, &a);
    Podresources__AllocatableResourcesResponse *out =
        podresources__allocatable_resources_response__unpack(NULL, a.body.len,
                                                             (const uint8_t *)a.body.data);
    assert_int_equal(out->n_devices, 1);
    assert_int_equal(out->devices[0]->n_device_ids, 3);
    assert_string_equal(out->devices[0]->device_ids[2], "GPU-bbb");
    assert_true(out->n_cpu_ids > 0);
    podresources__allocatable_resources_response__free_unpacked(out, NULL);
    gs_buf_finish(&a.body);
}

static void test_the_node(void **state)
{
    struct fixture *f = *state;
    CODEC_AUTO_JSON json_t *node = NULL;
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end && !node; tick(f)) {
        AUTO_REPLY struct reply r = request(&f->h, "GET", "/api/v1/nodes/" NODE, NULL);
        if (r.status == 200 && kube_condition_true(r.body, "Ready"))
            node = json_incref(r.body);
    }
    assert_non_null(node);
    assert_string_equal(kube_label(node, "kubernetes.io/hostname"), NODE);
    assert_string_equal(kube_label(node, "gpu"), "t4");
    const json_t *taints = codec_json_get(node, "spec", "taints", NULL);
    assert_int_equal(json_array_size(taints), 1);
    assert_string_equal(codec_json_str(json_array_get(taints, 0), "key", NULL), "soft");
    assert_string_equal(codec_json_str(node, "status", "allocatable", "nvidia.com/gpu", NULL), "3");
    assert_string_equal(codec_json_str(node, "status", "capacity", "pods", NULL), "110");
    assert_non_null(codec_json_str(node, "status", "capacity", "memory", NULL));
    assert_non_null(codec_json_str(node, "status", "nodeInfo", "osImage", NULL));
    // As /version says it.
    const char *version = codec_json_str(node, "status", "nodeInfo", "kubeletVersion", NULL);
    assert_true(gs_starts(version, "v" KUBE_VERSION "."));
    assert_string_equal(
        codec_json_str(json_array_get(codec_json_get(node, "status", "addresses", NULL), 0),
                       "address", NULL),
        "127.0.0.1");
    assert_non_null(codec_json_str(kube_condition(node, "Ready"), "lastHeartbeatTime", NULL));
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply lease =
            request(&f->h, "GET",
                    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" NODE, NULL);
        if (lease.status != 200)
            continue;
        assert_member(lease, NODE, "spec", "holderIdentity");
        return;
    }
    fail_msg("no lease");
}

// --- logs ---

// The value of a series of the container; 0: it has none.
static double usage_of(struct fixture *f, const char *series)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    kubelet_write_metrics(f->kubelet, &text);
    const char *at = strstr(text.data, series);
    return at ? strtod(at + strlen(series), NULL) : 0;
}

// The load comes from a grandchild that ends again and again: its time is that of the container.
static void test_cpu_and_memory_of_a_container(void **state)
{
    static const char cpu[] = "container_cpu_usage_seconds_total{container=\"c\",namespace="
                              "\"default\",pod=\"busy\"} ";
    static const char memory[] = "container_memory_working_set_bytes{container=\"c\",namespace="
                                 "\"default\",pod=\"busy\"} ";
    struct fixture *f = *state;
    create_pod(f, "busy", "",
               "'restartPolicy':'Never','terminationGracePeriodSeconds':1,'containers':[{'name':"
               "'c','image':'any','command':['sh','-c','while :; do (i=0; while [ $i -lt 20000 ]; "
               "do i=$((i+1)); done); done']}]");
    await_pod(f, "busy", "to run", is_ready, NULL);
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    double before = 0, now = 0;
    while (now < 0.3 && gs_mono_ns() < deadline) {
        tick(f);
        now = usage_of(f, cpu);
        assert_true(now >= before);
        before = now;
    }
    assert_true(now >= 0.3);
    assert_true(usage_of(f, memory) > 100000);
    assert_true(usage_of(f, "\nnode_cpu_usage_seconds_total ") > 0);
    assert_true(usage_of(f, "\nnode_memory_working_set_bytes ") > 0);
    fixture_stop(f, 1000);
    assert_true(usage_of(f, cpu) == 0);
}

// Rules of charts select containers by image!="".
static void test_cadvisor_names_the_image_of_a_container(void **state)
{
    struct fixture *f = *state;
    create_pod(f, "p", "",
               "'terminationGracePeriodSeconds':1,'containers':[{'name':'c','image':'a/b:1',"
               "'command':['sleep','1000']}]");
    await_pod(f, "p", "to run", is_ready, NULL);
    AUTO_REPLY struct reply r =
        request(&f->h, "GET", "/api/v1/nodes/" NODE "/proxy/metrics/cadvisor", NULL);
    AUTO_REPLY struct reply probes =
        request(&f->h, "GET", "/api/v1/nodes/" NODE "/proxy/metrics/probes", NULL);
    assert_status(r, 200);
    assert_status(probes, 200);
    assert_non_null(strstr(r.text, "\ncontainer_memory_working_set_bytes{container=\"c\",namespace="
                                   "\"default\",pod=\"p\",id=\"/kubepods/pod"));
    assert_non_null(strstr(r.text, ",image=\"a/b:1\",name=\"gpuscale://"));
    assert_null(strstr(r.text, "\nnode_"));
}

static void create_talker(struct fixture *f, const char *script)
{
    GS_AUTO_FREE char *spec = gs_format("'restartPolicy':'Never','terminationGracePeriodSeconds':1,"
                                        "'containers':[{'name':'c','image':"
                                        "'any','command':['sh','-c','%s']}]",
                                        script);
    create_pod(f, "p", "", spec);
}

static void assert_log(struct fixture *f, const char *query, const char *want)
{
    AUTO_REPLY struct reply r = get_log(f, "p", query);
    assert_status(r, 200);
    assert_string_equal(r.text, want);
}

static void test_log_parameters(void **state)
{
    struct fixture *f = *state;
    create_talker(f, "echo one; echo two >&2; sleep 0.1; echo three");
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
    AUTO_REPLY struct reply all = get_log(f, "p", "?container=c");
    assert_int_equal(strlen(all.text), strlen("one\ntwo\nthree\n"));
    assert_log(f, "?tailLines=1", "three\n");
    assert_log(f, "?tailLines=0", "");
    assert_log(f, "?tailLines=100&limitBytes=2", (char[]){all.text[0], all.text[1], '\0'});
    assert_log(f, "?sinceTime=2100-01-01T00:00:00Z", "");
    assert_log(f, "?sinceSeconds=3600&tailLines=1", "three\n");
    // More seconds than since 1970, up to the largest number: everything.
    assert_log(f, "?sinceSeconds=9223372036854775&tailLines=1", "three\n");
    assert_log(f, "?sinceSeconds=9223372036854775807&tailLines=9223372036854775807", all.text);
    assert_log(f, "?limitBytes=9223372036854775807", all.text);
    assert_log(f, "?follow=true&tailLines=1", "three\n");
    AUTO_REPLY struct reply stamped = get_log(f, "p", "?timestamps=true&tailLines=1");
    assert_int_equal(stamped.text[10], 'T');
    assert_string_equal(stamped.text + 30, " three\n");

    AUTO_REPLY struct reply bad = get_log(f, "p", "?tailLines=x");
    assert_status(bad, 400);
    static const char *const refused[] = {"?sinceSeconds=9223372036854775808", "?sinceSeconds=0",
                                          "?tailLines=-1", "?limitBytes=99999999999999999999"};
    for (size_t i = 0; i < GS_ARRAY_LEN(refused); i++) {
        AUTO_REPLY struct reply r = get_log(f, "p", refused[i]);
        assert_status(r, 400);
    }
    AUTO_REPLY struct reply none = get_log(f, "p", "?container=nope");
    assert_status(none, 400);
    assert_message(none, "container nope is not valid for pod p");
    AUTO_REPLY struct reply previous = get_log(f, "p", "?previous=true");
    assert_status(previous, 400);
    assert_message(previous, "previous terminated container \"c\" in pod \"p\" not found");
}

static void test_log_of_several_containers(void **state)
{
    struct fixture *f = *state;
    create_gpu_pod(f, "p", "GPU-bbb");
    await_pod(f, "p", "ready", is_ready, NULL);
    AUTO_REPLY struct reply r = get_log(f, "p", "");
    assert_status(r, 400);
    assert_message(r, "a container name must be specified for pod p, choose one of: [c side]");
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply side = get_log(f, "p", "?container=side");
        if (gs_streq(side.text, "mapped\n"))
            return;
    }
    fail_msg("the container side has not written its line");
}

struct followed {
    struct gs_buf text;
    bool ended;
};

static void on_text(void *arg, struct gs_slice bytes)
{
    gs_buf_add_slice(&((struct followed *)arg)->text, bytes);
}

static void on_end(void *arg, const struct http_response *response, struct gs_error *err)
{
    (void)response;
    ((struct followed *)arg)->ended = true;
    gs_error_free(err);
}

static struct http_op *follow(struct fixture *f, struct followed *ret)
{
    static const struct http_callbacks callbacks = {.on_data = on_text, .on_done = on_end};
    *ret = (struct followed){0};
    const struct http_request c = {.path = "/api/v1/namespaces/default/pods/p/log?follow=true",
                                   .timeout_ms = HTTP_NO_TIMEOUT};
    return http_send(f->h.client, &c, &callbacks, ret);
}

static void wait_followed(struct fixture *f, const struct followed *l, const char *want)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f))
        if (l->text.len && strcmp(l->text.data, want) == 0)
            return;
    fail_msg("followed \"%s\", wanted \"%s\"", l->text.len ? l->text.data : "", want);
}

static void test_following_a_log(void **state)
{
    struct fixture *f = *state;
    struct followed l;
    GS_AUTO_FREE char *script = gs_format(
        "echo begin; while ! test -e %s/go; do sleep 0.02; done; echo middle; echo end", f->dir);
    create_talker(f, script);
    await_log(f, "p", "begin\n");
    follow(f, &l);
    wait_followed(f, &l, "begin\n");
    GS_AUTO_FREE char *go = gs_format("%s/go", f->dir);
    fclose(fopen(go, "w"));
    wait_followed(f, &l, "begin\nmiddle\nend\n");
    for (int64_t end = gs_mono_ns() + WAIT_NS; !l.ended; tick(f))
        assert_true(gs_mono_ns() < end);
    gs_buf_finish(&l.text);
}

static void test_a_follower_that_leaves(void **state)
{
    struct fixture *f = *state;
    struct followed l;
    create_talker(f, "echo begin; exec sleep 1000");
    await_log(f, "p", "begin\n");
    struct http_op *op = follow(f, &l);
    wait_followed(f, &l, "begin\n");
    http_op_cancel(op);
    assert_log(f, "", "begin\n");
    // And one that is there when the kubelet ends.
    gs_buf_finish(&l.text);
    follow(f, &l);
    wait_followed(f, &l, "begin\n");
    fixture_stop(f, 1000);
    fixture_end_kubelet(f);
    for (int64_t end = gs_mono_ns() + WAIT_NS; !l.ended; tick(f))
        assert_true(gs_mono_ns() < end);
    gs_buf_finish(&l.text);
    fixture_start_kubelet(f);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        T(test_pod_resources),
        T(test_pod_resources_of_one),
        T(test_allocatable_resources),
        T(test_the_node),
        T(test_log_parameters),
        T(test_log_of_several_containers),
        T(test_following_a_log),
        T(test_a_follower_that_leaves),
        T(test_cpu_and_memory_of_a_container),
        T(test_cadvisor_names_the_image_of_a_container),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
