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

static struct device_map *map_of(const struct pod_row *rows, size_t n, const char *extra)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_list(rows, n, &bytes);
    struct device_map *m = NULL;
    struct gs_error *err = device_map_parse(gs_buf_slice(&bytes), &extra, extra ? 1 : 0, NULL, &m);
    assert_null(err);
    return m;
}

static void assert_pod(const struct device_map *m, const struct gpu_device *d,
                       const struct gpu_instance *i, const char *pod)
{
    const struct device_holder *h = device_holders_exclusive(device_map_find(m, d, i));
    if (!pod) {
        assert_null(h);
        return;
    }
    assert_non_null(h);
    assert_string_equal(h->pod, pod);
}

static void ids_of_all_plugins(void **state)
{
    const struct pod_row rows[] = {
        {"ns", "whole", "c", "nvidia.com/gpu", "GPU-1 GPU-2"},
        {"ns", "mig", "c", "nvidia.com/mig-1g.10gb", "MIG-a"},
        {"ns", "old-mig", "c", "nvidia.com/gpu", "MIG-GPU-3/9/0"},
        {"ns", "gke", "c", "nvidia.com/gpu", "nvidia5"},
        {"ns", "gke-mig", "c", "nvidia.com/gpu", "nvidia6/gi2"},
        {"ns", "other", "c", "example.com/fpga", "GPU-9"},
    };
    GS_CLEANUP(device_map_freep) struct device_map *m = map_of(rows, 6, NULL);
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
    assert_int_equal(device_map_len(m), 6);
}

static void extra_resources(void **state)
{
    const struct pod_row rows[] = {{"ns", "p", "c", "example.com/gpu", "GPU-1"}};
    GS_CLEANUP(device_map_freep) struct device_map *m = map_of(rows, 1, "example.com/gpu");
    struct gpu_device d = gpu("GPU-1", 0);
    assert_pod(m, &d, NULL, "p");
}

static void shared_gpus_have_no_exclusive_holder(void **state)
{
    const struct pod_row rows[] = {
        {"ns", "a", "c", "nvidia.com/gpu", "GPU-1::0 GPU-1::2"},
        {"ns", "b", "c", "nvidia.com/gpu.shared", "GPU-1::1"},
        {"ns", "lone", "c", "nvidia.com/gpu", "nvidia2/vgpu3"},
        {"ns", "x", "c", "nvidia.com/gpu", "GPU-3"},
        {"ns", "y", "c", "nvidia.com/gpu", "GPU-3"},
    };
    GS_CLEANUP(device_map_freep) struct device_map *m = map_of(rows, 5, NULL);
    struct gpu_device one = gpu("GPU-1", 0), two = gpu("GPU-2", 2), three = gpu("GPU-3", 3);
    const struct device_holders *h = device_map_find(m, &one, NULL);
    assert_int_equal(h->len, 2);
    assert_true(h->items[0].shared);
    assert_int_equal(h->items[0].replicas, 2);
    assert_int_equal(h->items[1].replicas, 1);
    assert_null(device_holders_exclusive(h));
    // Also when one pod alone is there at the moment: the labels must not come and go.
    assert_non_null(device_map_find(m, &two, NULL));
    assert_pod(m, &two, NULL, NULL);
    assert_pod(m, &three, NULL, NULL);
    assert_null(device_holders_exclusive(NULL));
}

static void replica_counts(void **state)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    pack_allocatable("nvidia.com/gpu", "GPU-1::0 GPU-1::1 GPU-1::2 GPU-1::3 GPU-2", &bytes);
    struct device_replicas *r = NULL;
    assert_null(device_replicas_parse(gs_buf_slice(&bytes), NULL, 0, &r));
    struct gpu_device one = gpu("GPU-1", 0), two = gpu("GPU-2", 1), three = gpu("GPU-3", 2);
    assert_int_equal(device_replicas_find(r, &one, NULL), 4);
    assert_int_equal(device_replicas_find(r, &two, NULL), 1);
    assert_int_equal(device_replicas_find(r, &three, NULL), 0);
    assert_int_equal(device_replicas_find(NULL, &one, NULL), 0);
    device_replicas_free(r);
}

static void hostile_bytes(void **state)
{
    struct device_map *m = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        device_map_parse(GS_SLICE("\x0a\xff\xff\x01zzz"), NULL, 0, NULL, &m);
    assert_non_null(err);
    assert_null(m);
    // Each empty pod takes two bytes here and fifty times that unpacked.
    enum { PODS = 2 * 1024 * 1024 };
    GS_AUTO_BUF struct gs_buf many = {0};
    for (int i = 0; i < PODS; i++)
        gs_buf_add(&many, "\x0a\x00", 2);
    GS_AUTO_ERROR struct gs_error *limit = device_map_parse(gs_buf_slice(&many), NULL, 0, NULL, &m);
    assert_non_null(limit);
    // The empty message is a valid one: a node without pods.
    assert_null(device_map_parse(GS_SLICE(""), NULL, 0, NULL, &m));
    assert_int_equal(device_map_len(m), 0);
    device_map_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_of_all_plugins),
        cmocka_unit_test(extra_resources),
        cmocka_unit_test(shared_gpus_have_no_exclusive_holder),
        cmocka_unit_test(replica_counts),
        cmocka_unit_test(hostile_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
