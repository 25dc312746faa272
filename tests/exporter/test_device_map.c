// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exporter/device_map.h"
#include "podresources_fixture.h"

#include <stdio.h>
#include <string.h>

static struct gpu_device gpu(const char *uuid, int minor)
{
    struct gpu_device d = {.has_minor = minor >= 0, .minor = (uint32_t)minor};
    snprintf(d.uuid, sizeof(d.uuid), "%s", uuid);
    return d;
}

static struct gpu_instance instance(const char *uuid, uint32_t gi)
{
    struct gpu_instance i = {.gpu_instance_id = gi};
    snprintf(i.uuid, sizeof(i.uuid), "%s", uuid);
    return i;
}

static struct exporter_device_map *map_of(const struct pod_row *rows, size_t n, const char *extra)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_list(rows, n, &bytes);
    struct exporter_device_map *m = NULL;
    struct gs_error *err =
        exporter_device_map_parse(gs_buf_slice(&bytes), &extra, extra ? 1 : 0, NULL, &m);
    assert_null(err);
    return m;
}

static void assert_pod(const struct exporter_device_map *m, const struct gpu_device *d,
                       const struct gpu_instance *i, const char *pod)
{
    const struct exporter_device_holder *h =
        exporter_device_holders_exclusive(exporter_device_map_find(m, d, i));
    if (!pod) {
        assert_null(h);
        return;
    }
    assert_non_null(h);
    assert_string_equal(h->pod, pod);
}

static void test_ids_of_all_plugins(void **state)
{
    const struct pod_row rows[] = {
        {"ns", "whole", "c", "nvidia.com/gpu", "GPU-1 GPU-2"},
        {"ns", "mig", "c", "nvidia.com/mig-1g.10gb", "MIG-a"},
        {"ns", "old-mig", "c", "nvidia.com/gpu", "MIG-GPU-3/9/0"},
        {"ns", "gke", "c", "nvidia.com/gpu", "nvidia5"},
        {"ns", "gke-mig", "c", "nvidia.com/gpu", "nvidia6/gi2"},
        {"ns", "other", "c", "example.com/fpga", "GPU-9"},
    };
    GS_CLEANUP(exporter_device_map_freep) struct exporter_device_map *m = map_of(rows, 6, NULL);
    struct gpu_device one = gpu("GPU-1", 0), two = gpu("GPU-2", 1), three = gpu("GPU-3", 2);
    struct gpu_device five = gpu("GPU-5", 5), six = gpu("GPU-6", 6), nine = gpu("GPU-9", -1);
    struct gpu_instance a = instance("MIG-a", 7), old = instance("MIG-x", 9),
                        g = instance("MIG-y", 2);
    assert_pod(m, &one, NULL, "whole");
    assert_pod(m, &two, NULL, "whole");
    assert_pod(m, &one, &a, "mig");
    assert_pod(m, &three, &old, "old-mig");
    assert_pod(m, &three, NULL, NULL);
    assert_pod(m, &five, NULL, "gke");
    assert_pod(m, &six, &g, "gke-mig");
    assert_pod(m, &six, NULL, NULL);
    assert_pod(m, &nine, NULL, NULL);
    assert_int_equal(exporter_device_map_len(m), 6);
}

static void test_extra_resources(void **state)
{
    const struct pod_row rows[] = {{"ns", "p", "c", "example.com/gpu", "GPU-1"}};
    GS_CLEANUP(exporter_device_map_freep)
    struct exporter_device_map *m = map_of(rows, 1, "example.com/gpu");
    struct gpu_device d = gpu("GPU-1", 0);
    assert_pod(m, &d, NULL, "p");
}

#define UUID_A "GPU-0a000000-1111-2222-3333-444444444444"
#define UUID_B "GPU-0b000000-1111-2222-3333-444444444444"
#define UUID_C "GPU-0c000000-1111-2222-3333-444444444444"
#define MIG_D  "MIG-0d000000-1111-2222-3333-444444444444"

// The id can only be a GPU's, whatever its resource is called.
static void test_renamed_resources(void **state)
{
    const struct pod_row rows[] = {
        {"ns", "watcher", "c", "example.com/monitored", UUID_B},
        {"ns", "a100", "c", "nvidia.com/a100", UUID_A},
        {"ns", "known", "c", "nvidia.com/gpu", UUID_B},
        {"ns", "one", "c", "nvidia.com/h100.shared", UUID_C "::0"},
        {"ns", "two", "c", "nvidia.com/h100.shared", UUID_C "::1"},
        {"ns", "mig", "c", "nvidia.com/small", MIG_D},
        {"ns", "node", "c", "nvidia.com/t4", "nvidia7"},
        {"ns", "camera", "c", "example.com/camera", "nvidia8"},
        {"ns", "memory", "c", "nvidia.com/gpumem", UUID_A},
    };
    GS_CLEANUP(exporter_device_map_freep)
    struct exporter_device_map *m = map_of(rows, GS_ARRAY_LEN(rows), NULL);
    struct gpu_device a = gpu(UUID_A, 0), b = gpu(UUID_B, 1), c = gpu(UUID_C, 2);
    struct gpu_device seven = gpu("GPU-7", 7), eight = gpu("GPU-8", 8);
    struct gpu_instance d = instance(MIG_D, 3);
    assert_pod(m, &a, NULL, "a100");
    assert_pod(m, &b, NULL, "known"); // a known resource gives it
    assert_pod(m, &c, NULL, NULL);    // time slices
    assert_int_equal(exporter_device_map_find(m, &c, NULL)->len, 2);
    assert_pod(m, &a, &d, "mig");
    assert_pod(m, &seven, NULL, "node");
    assert_pod(m, &eight, NULL, NULL);
    assert_string_equal(exporter_device_map_gaps(m)->resource, "");
    assert_string_equal(exporter_device_map_gaps(m)->nvidia, "");

    const struct pod_row others[] = {
        {"ns", "p", "c", "nvidia.com/hostdev", "0000:3b:00.0"},
        {"ns", "p", "c", "example.com/gpu", "card-0"},
        {"ns", "p", "c", "nvidia.com/gpucores", "0"},
    };
    GS_CLEANUP(exporter_device_map_freep) struct exporter_device_map *n = map_of(others, 3, NULL);
    assert_int_equal(exporter_device_map_len(n), 0);
    assert_string_equal(exporter_device_map_gaps(n)->resource, "example.com/gpu");
    assert_string_equal(exporter_device_map_gaps(n)->nvidia, "nvidia.com/hostdev");
}

static void test_replicas_of_renamed_resources(void **state)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    struct exporter_device_replicas *r = NULL;
    struct gpu_device c = gpu(UUID_C, 2);
    pack_allocatable("nvidia.com/h100.shared", UUID_C "::0 " UUID_C "::1 " UUID_C "::2", &bytes);
    assert_null(exporter_device_replicas_parse(gs_buf_slice(&bytes), NULL, 0, &r));
    assert_int_equal(exporter_device_replicas_find(r, &c, NULL), 3);
    exporter_device_replicas_free(r);
}

static void test_shared_gpus_have_no_exclusive_holder(void **state)
{
    const struct pod_row rows[] = {
        {"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0 GPU-1::2"},
        {"ns", "b", "c", "nvidia.com/gpu.shared", "GPU-1::1"},
        {"ns", "lone", "c", "nvidia.com/gpu", "nvidia2/vgpu3"},
        {"ns", "x", "c", "nvidia.com/gpu", "GPU-3"},
        {"ns", "y", "c", "nvidia.com/gpu", "GPU-3"},
    };
    GS_CLEANUP(exporter_device_map_freep) struct exporter_device_map *m = map_of(rows, 5, NULL);
    struct gpu_device one = gpu("GPU-1", 0), two = gpu("GPU-2", 2), three = gpu("GPU-3", 3);
    const struct exporter_device_holders *h = exporter_device_map_find(m, &one, NULL);
    assert_int_equal(h->len, 2);
    assert_true(h->items[0].shared);
    assert_int_equal(h->items[0].replicas, 2);
    assert_int_equal(h->items[1].replicas, 1);
    assert_null(exporter_device_holders_exclusive(h));
    // Also when one pod alone is there at the moment: the labels must not come and go.
    assert_non_null(exporter_device_map_find(m, &two, NULL));
    assert_pod(m, &two, NULL, NULL);
    assert_pod(m, &three, NULL, NULL);
    assert_null(exporter_device_holders_exclusive(NULL));
}

static void test_replica_counts(void **state)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_allocatable("nvidia.com/gpu", "GPU-1::0 GPU-1::1 GPU-1::2 GPU-1::3 GPU-2", &bytes);
    struct exporter_device_replicas *r = NULL;
    assert_null(exporter_device_replicas_parse(gs_buf_slice(&bytes), NULL, 0, &r));
    struct gpu_device one = gpu("GPU-1", 0), two = gpu("GPU-2", 1), three = gpu("GPU-3", 2);
    assert_int_equal(exporter_device_replicas_find(r, &one, NULL), 4);
    assert_int_equal(exporter_device_replicas_find(r, &two, NULL), 1);
    assert_int_equal(exporter_device_replicas_find(r, &three, NULL), 0);
    assert_int_equal(exporter_device_replicas_find(NULL, &one, NULL), 0);
    exporter_device_replicas_free(r);
}

// --- with the help of the API server ---

struct api {
    json_t *pod; // the only one
    const char *pool, *device;
    struct exporter_device_slice slice;
};

static const json_t *api_pod(void *arg, const char *ns, const char *name)
{
    (void)ns, (void)name;
    return ((struct api *)arg)->pod;
}

static bool api_slice(void *arg, const char *pool, const char *device,
                      struct exporter_device_slice *ret)
{
    const struct api *api = arg;
    if (!api->device || strcmp(api->pool, pool) != 0 || strcmp(api->device, device) != 0)
        return false;
    *ret = api->slice;
    return true;
}

static struct exporter_device_map *map_with(const struct pod_row *rows, size_t n, struct api *api)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_list(rows, n, &bytes);
    struct exporter_device_map *m = NULL;
    const struct exporter_device_sources sources = {api_pod, api_slice, api};
    assert_null(exporter_device_map_parse(gs_buf_slice(&bytes), NULL, 0, &sources, &m));
    return m;
}

#define U1 "GPU-11111111-2222-3333-4444-555555555555"
#define U2 "GPU-22222222-2222-3333-4444-555555555555"

static json_t *pod_with(const char *name, const char *value)
{
    return json_pack("{s:{s:{s:s}},s:{s:[{s:s}]}}", "metadata", "annotations", name, value, "spec",
                     "containers", "name", "c");
}

// What the kubelet hands out counts units; the annotation says which GPU, and it is another one.
static void test_annotations_choose_the_gpu(void **state)
{
    static const struct {
        const char *resource, *ids, *annotation, *value;
        unsigned replicas, cores;
        uint64_t memory_mib;
        bool exclusive;
    } cases[] = {
        {"aliyun.com/gpu-mem", U2 "-_-0 " U2 "-_-1", "ALIYUN_COM_GPU_MEM_IDX", "1", 2, 0, 0, false},
        {"aliyun.com/gpu-mem", U2 "-_-0", "scheduler.framework.gpushare.allocation",
         "{\"0\":{\"1\":6}}", 6, 0, 0, false},
        {"nvidia.com/gpu", U2 "-3", "hami.io/vgpu-devices-allocated", U1 ",NVIDIA,3000,30:;", 1, 30,
         3000, false},
        {"nvidia.com/gpu", U2 "-3", "hami.io/vgpu-devices-allocated", U1 ",NVIDIA,16384,100:;", 1,
         0, 16384, true},
        {"nvidia.com/gpu", "MIG-x", "4pd.io/vgpu-ids-new", U1 ",NVIDIA,3000,0:;", 1, 0, 3000,
         false},
        {"volcano.sh/vgpu-number", U2 "-0", "volcano.sh/vgpu-ids-new", U1 ",NVIDIA,1126,0:;", 1, 0,
         1126, false},
        {"volcano.sh/gpu-memory", "1-0 1-1 1-2", "volcano.sh/gpu-index", "0", 3, 0, 0, false},
        {"volcano.sh/gpu-number", "1-0", "volcano.sh/gpu-index", "0", 1, 0, 0, true},
    };
    struct gpu_device one = gpu(U1, 1), two = gpu(U2, 0);
    two.index = 1;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const struct pod_row row = {"ns", "p", "c", cases[i].resource, cases[i].ids};
        struct api api = {.pod = pod_with(cases[i].annotation, cases[i].value)};
        GS_CLEANUP(exporter_device_map_freep)
        struct exporter_device_map *m = map_with(&row, 1, &api);
        const struct exporter_device_holders *h = exporter_device_map_find(m, &one, NULL);
        if (!h || h->len != 1)
            fail_msg("%s: no holder", cases[i].resource);
        assert_int_equal(h->items[0].replicas, cases[i].replicas);
        assert_int_equal(h->items[0].cores, cases[i].cores);
        assert_int_equal(h->items[0].memory_mib, cases[i].memory_mib);
        assert_int_equal(exporter_device_holders_exclusive(h) != NULL, cases[i].exclusive);
        assert_null(exporter_device_map_find(m, &two, NULL));
        assert_int_equal(exporter_device_map_gaps(m)->pods, 0);
        json_decref(api.pod);
    }
}

// Better nobody than the one whom the ids seem to name.
static void test_without_the_annotation_nobody_has_it(void **state)
{
    const struct pod_row rows[] = {{"ns", "p", "c", "nvidia.com/gpu", U1 "-3"},
                                   {"ns", "q", "c", "aliyun.com/gpu-mem", U1 "-_-3"},
                                   {"ns", "r", "c", "volcano.sh/gpu-memory", "0-3"}};
    struct api api = {0};
    GS_CLEANUP(exporter_device_map_freep) struct exporter_device_map *m = map_with(rows, 3, &api);
    struct gpu_device one = gpu(U1, 0);
    assert_null(exporter_device_map_find(m, &one, NULL));
    const struct exporter_device_gaps *gaps = exporter_device_map_gaps(m);
    assert_int_equal(gaps->pods, 3);
    assert_string_equal(gaps->pod, "ns/p");
    assert_int_equal(gaps->pod_sharing, EXPORTER_SHARING_HAMI);
    assert_true(gaps->wants_pods);
    assert_false(gaps->wants_slices);
    assert_string_equal(gaps->resource, "");
    assert_false(exporter_device_map_is_complete(m, "ns", "q"));
    assert_true(exporter_device_map_is_complete(m, "ns", "z"));
}

static void test_ended_pods_hold_nothing(void **state)
{
    const struct pod_row row = {"ns", "p", "c", "nvidia.com/gpu", U1};
    static const char *const phases[] = {"Running", "Succeeded", "Failed"};
    struct gpu_device one = gpu(U1, 0);
    for (size_t i = 0; i < 3; i++) {
        struct api api = {.pod = json_pack("{s:{s:s}}", "status", "phase", phases[i])};
        GS_CLEANUP(exporter_device_map_freep)
        struct exporter_device_map *m = map_with(&row, 1, &api);
        assert_pod(m, &one, NULL, i == 0 ? "p" : NULL);
        json_decref(api.pod);
    }
}

// Two plug-ins on a node: one names the GPU by its UUID, the other by its number.
static void test_names_of_one_gpu_come_together(void **state)
{
    const struct pod_row rows[] = {{"ns", "a", "c", "nvidia.com/gpu", U1},
                                   {"ns", "b", "c", "example.com/gpu", "nvidia0"},
                                   {"ns", "a", "c", "example.com/gpu", "nvidia0"}};
    GS_CLEANUP(exporter_device_map_freep)
    struct exporter_device_map *m = map_of(rows, 3, "example.com/gpu");
    struct gpu_device one = gpu(U1, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(exporter_device_map_find(m, &one, NULL)->len, 2);
    assert_pod(m, &one, NULL, NULL);
}

static void test_claims_name_devices(void **state)
{
    struct gpu_instance instances[] = {instance("MIG-a", 7), instance("MIG-b", 9)};
    strcpy(instances[0].profile, "1g.10gb");
    strcpy(instances[1].profile, "2g.20gb");
    struct gpu_device one = gpu(U1, 3);
    static const struct {
        const char *device, *cdi;
        struct exporter_device_slice slice; // of "known"
        int instance;                       // -1: the GPU; -2: nothing
    } cases[] = {
        {"known", NULL, {U1, "", ""}, -1},
        {"known", NULL, {"MIG-b", U1, "2g.20gb"}, 1},
        {"known", NULL, {"", U1, "1g.10gb"}, 0}, // a MIG device made for the claim
        {"gpu-3", NULL, {0}, -1},                // without slices: by the driver's names
        {"gpu-3-mig-1g.10gb-19-4", NULL, {0}, 0},
        {"gpu-3-mig-2g20gb-14-0", NULL, {0}, 1},
        {"gpu-3-mig-19-4-1", NULL, {0}, -2}, // an older form, which does not name the profile
        {"gpu-9", NULL, {0}, -2},
        {"whatever", "k8s.gpu.nvidia.com/device=" U1, {0}, -1},
        {"whatever", "nvidia.com/gpu=MIG-a", {0}, 0},
        {"whatever", "nvidia.com/gpu=0", {0}, -2},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const struct pod_row row = {.ns = "ns",
                                    .pod = "p",
                                    .container = "c",
                                    .claim = "cl",
                                    .pool = "n1",
                                    .device = cases[i].device,
                                    .cdi = cases[i].cdi};
        struct api api = {.pool = "n1", .slice = cases[i].slice};
        api.device = cases[i].slice.uuid ? "known" : NULL;
        GS_CLEANUP(exporter_device_map_freep)
        struct exporter_device_map *m = map_with(&row, 1, &api);
        one.instances = instances;
        one.n_instances = 2;
        for (int k = -1; k < 2; k++)
            assert_pod(m, &one, k < 0 ? NULL : &instances[k], k == cases[i].instance ? "p" : NULL);
        assert_true(exporter_device_map_gaps(m)->wants_slices);
    }
}

// The profile alone does not tell two of the same kind apart.
static void test_claims_never_guess(void **state)
{
    struct gpu_instance instances[] = {instance("MIG-a", 7), instance("MIG-b", 9)};
    strcpy(instances[0].profile, "1g.10gb");
    strcpy(instances[1].profile, "1g.10gb");
    struct gpu_device one = gpu(U1, 3);
    one.instances = instances;
    one.n_instances = 2;
    const struct pod_row row = {.ns = "ns",
                                .pod = "p",
                                .container = "c",
                                .claim = "cl",
                                .pool = "n1",
                                .device = "gpu-3-mig-1g.10gb-19-4"};
    struct api api = {0};
    GS_CLEANUP(exporter_device_map_freep) struct exporter_device_map *m = map_with(&row, 1, &api);
    assert_pod(m, &one, &instances[0], NULL);
    assert_pod(m, &one, &instances[1], NULL);
}

static void test_a_claim_of_several(void **state)
{
    struct pod_row rows[] = {
        {.ns = "ns", .pod = "p", .container = "c", .claim = "cl", .pool = "n", .device = "gpu-0"},
        {.ns = "ns", .pod = "p", .container = "d", .claim = "cl", .pool = "n", .device = "gpu-0"}};
    struct api api = {0};
    struct gpu_device one = gpu(U1, 0);
    // Containers of one pod: it is the pod's.
    struct exporter_device_map *m = map_with(rows, 2, &api);
    const struct exporter_device_holder *h =
        exporter_device_holders_exclusive(exporter_device_map_find(m, &one, NULL));
    assert_non_null(h);
    assert_string_equal(h->pod, "p");
    assert_string_equal(h->container, "");
    assert_string_equal(h->claim->name, "cl");
    assert_string_equal(h->claim->device, "gpu-0");
    exporter_device_map_free(m);
    rows[1].pod = "q";
    m = map_with(rows, 2, &api);
    assert_int_equal(exporter_device_map_find(m, &one, NULL)->len, 2);
    assert_pod(m, &one, NULL, NULL);
    exporter_device_map_free(m);
}

static void test_hostile_bytes(void **state)
{
    struct exporter_device_map *m = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        exporter_device_map_parse(GS_SLICE("\x0a\xff\xff\x01zzz"), NULL, 0, NULL, &m);
    assert_non_null(err);
    assert_null(m);
    // Each empty pod takes two bytes here and fifty times that unpacked.
    enum { PODS = 2 * 1024 * 1024 };
    GS_AUTO_BUF struct gs_buf many = {0};
    for (int i = 0; i < PODS; i++)
        gs_buf_add(&many, "\x0a\x00", 2);
    GS_AUTO_ERROR struct gs_error *limit =
        exporter_device_map_parse(gs_buf_slice(&many), NULL, 0, NULL, &m);
    assert_non_null(limit);
    // The empty message is a valid one: a node without pods.
    assert_null(exporter_device_map_parse(GS_SLICE(""), NULL, 0, NULL, &m));
    assert_int_equal(exporter_device_map_len(m), 0);
    exporter_device_map_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_of_all_plugins),
        cmocka_unit_test(test_extra_resources),
        cmocka_unit_test(test_renamed_resources),
        cmocka_unit_test(test_replicas_of_renamed_resources),
        cmocka_unit_test(test_shared_gpus_have_no_exclusive_holder),
        cmocka_unit_test(test_replica_counts),
        cmocka_unit_test(test_annotations_choose_the_gpu),
        cmocka_unit_test(test_without_the_annotation_nobody_has_it),
        cmocka_unit_test(test_ended_pods_hold_nothing),
        cmocka_unit_test(test_names_of_one_gpu_come_together),
        cmocka_unit_test(test_claims_name_devices),
        cmocka_unit_test(test_claims_never_guess),
        cmocka_unit_test(test_a_claim_of_several),
        cmocka_unit_test(test_hostile_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
