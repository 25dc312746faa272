// SPDX-License-Identifier: Apache-2.0
// GPUs of pods whose device ids only count units: what the schedulers of gpushare, HAMi and Volcano
// write into annotations, read from pods as they do it.
#include "unit.h"

#include "base/mem.h"
#include "codec/json.h"
#include "exporter/device_map.h"

// A pod with the containers "main" and "side" and these annotations, a JSON object.
static json_t *pod(const char *annotations, bool init)
{
    GS_AUTO_FREE char *text = gs_format(
        "{\"metadata\":{\"annotations\":%s},\"spec\":{%s\"containers\":[{\"name\":\"main\"},"
        "{\"name\":\"side\"}]}}",
        annotations, init ? "\"initContainers\":[{\"name\":\"fetch\"}]," : "");
    json_t *j = NULL;
    assert_ok(codec_json_parse(gs_slice_of(text), true, &j));
    return j;
}

struct row {
    enum exporter_sharing sharing;
    const char *annotations, *container;
    bool init, found;
    size_t n;
    struct exporter_annotation_grant first;
};

static void check(const struct row *r)
{
    CODEC_AUTO_JSON json_t *p = pod(r->annotations, r->init);
    struct exporter_annotation_grant grants[EXPORTER_GRANT_MAX];
    bool found = !r->found;
    size_t n = exporter_annotation_grants(r->sharing, p, r->container, grants, &found);
    if (n != r->n || found != r->found)
        fail_msg("%s of %s: %zu grants, found %d", r->container, r->annotations, n, found);
    if (!n)
        return;
    assert_string_equal(grants[0].uuid, r->first.uuid);
    assert_int_equal(grants[0].number, r->first.number);
    assert_int_equal(grants[0].memory_mib, r->first.memory_mib);
    assert_int_equal(grants[0].units, r->first.units);
    assert_int_equal(grants[0].device_units, r->first.device_units);
    assert_int_equal(grants[0].cores, r->first.cores);
    assert_int_equal(grants[0].whole, r->first.whole);
}

static void test_gpushare(void **state)
{
    static const struct row rows[] = {
        // The open-source one: for the whole pod.
        {EXPORTER_SHARING_ALIYUN,
         "{\"ALIYUN_COM_GPU_MEM_IDX\":\"1\",\"ALIYUN_COM_GPU_MEM_DEV\":\"15\","
         "\"ALIYUN_COM_GPU_MEM_POD\":\"3\",\"ALIYUN_COM_GPU_MEM_ASSIGNED\":\"true\"}",
         "main",
         false,
         true,
         1,
         {.number = 1, .device_units = 15}},
        // Assumed by the scheduler, not given out yet.
        {EXPORTER_SHARING_ALIYUN,
         "{\"ALIYUN_COM_GPU_MEM_IDX\":\"1\",\"ALIYUN_COM_GPU_MEM_ASSIGNED\":\"false\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_ALIYUN,
         "{\"ALIYUN_COM_GPU_MEM_IDX\":\"-1\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
        // ACK: by container and GPU.
        {EXPORTER_SHARING_ALIYUN,
         "{\"scheduler.framework.gpushare.allocation\":\"{\\\"0\\\":{\\\"2\\\":4}}\","
         "\"gpushare.alibabacloud.com/core-percentage\":\"{\\\"0\\\":{\\\"2\\\":30}}\"}",
         "main",
         true,
         true,
         1,
         {.number = 2, .units = 4, .cores = 30}},
        {EXPORTER_SHARING_ALIYUN,
         "{\"scheduler.framework.gpushare.allocation\":\"{\\\"0\\\":{\\\"2\\\":4}}\"}",
         "side",
         false,
         true,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_ALIYUN,
         "{\"scheduler.framework.gpushare.allocation\":"
         "\"{\\\"1\\\":{\\\"0\\\":1,\\\"3\\\":2}}\"}",
         "side",
         false,
         true,
         2,
         {.number = 0, .units = 1}},
        {EXPORTER_SHARING_ALIYUN,
         "{\"scheduler.framework.gpushare.allocation\":\"{\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_ALIYUN, "{}", "main", false, false, 0, {.uuid = ""}},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

static void test_hami(void **state)
{
    static const struct row rows[] = {
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-a,NVIDIA,3000,30:;;\"}",
         "main",
         false,
         true,
         1,
         {.uuid = "GPU-a", .memory_mib = 3000, .cores = 30}},
        // The entry of a container without a GPU is empty, and keeps the place.
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\";GPU-a,NVIDIA,3000,30:;\"}",
         "side",
         false,
         true,
         1,
         {.uuid = "GPU-a", .memory_mib = 3000, .cores = 30}},
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\";GPU-a,NVIDIA,3000,30:;\"}",
         "main",
         false,
         true,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-a,NVIDIA,1,0:GPU-b,NVIDIA,2,100:;;\"}",
         "main",
         false,
         true,
         2,
         {.uuid = "GPU-a", .memory_mib = 1}},
        // With an init container: without an entry for it (older), and with one.
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-a,NVIDIA,1,5:;;\"}",
         "main",
         true,
         true,
         1,
         {.uuid = "GPU-a", .memory_mib = 1, .cores = 5}},
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-i,NVIDIA,9,0:;GPU-a,NVIDIA,1,5:;;\"}",
         "main",
         true,
         true,
         1,
         {.uuid = "GPU-a", .memory_mib = 1, .cores = 5}},
        // Nobody else is on a GPU of which all compute is given.
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-a,NVIDIA,80000,100:;;\"}",
         "main",
         false,
         true,
         1,
         {.uuid = "GPU-a", .memory_mib = 80000, .cores = 100, .whole = true}},
        {EXPORTER_SHARING_HAMI,
         "{\"4pd.io/vgpu-ids-new\":\"GPU-a,NVIDIA,3000,0:;;\"}",
         "main",
         false,
         true,
         1,
         {.uuid = "GPU-a", .memory_mib = 3000}},
        // Another vendor's device; a part of a GPU that HAMi divides itself; too few entries.
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"MLU-a,MLU,3000,0:;;\"}",
         "main",
         false,
         true,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-a[0-1],NVIDIA,3000,0:;;\"}",
         "main",
         false,
         true,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_HAMI,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-a,NVIDIA,1,0:;\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_VGPU,
         "{\"volcano.sh/vgpu-ids-new\":\"GPU-a,NVIDIA,1126,10:;;\"}",
         "main",
         false,
         true,
         1,
         {.uuid = "GPU-a", .memory_mib = 1126, .cores = 10}},
        {EXPORTER_SHARING_VGPU,
         "{\"hami.io/vgpu-devices-allocated\":\"GPU-a,NVIDIA,1,0:;;\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

static void test_volcano(void **state)
{
    static const struct row rows[] = {
        {EXPORTER_SHARING_VOLCANO,
         "{\"volcano.sh/gpu-index\":\"3\"}",
         "main",
         false,
         true,
         1,
         {.number = 3}},
        {EXPORTER_SHARING_VOLCANO,
         "{\"volcano.sh/gpu-index\":\"0,2\"}",
         "main",
         false,
         true,
         2,
         {.uuid = ""}},
        {EXPORTER_SHARING_VOLCANO,
         "{\"volcano.sh/gpu-index\":\"0,x\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_VOLCANO,
         "{\"volcano.sh/gpu-index\":\"\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
        {EXPORTER_SHARING_VOLCANO,
         "{\"volcano.sh/gpu-index\":\"0\",\"volcano.sh/gpu-assigned\":\"false\"}",
         "main",
         false,
         false,
         0,
         {.uuid = ""}},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpushare),
        cmocka_unit_test(test_hami),
        cmocka_unit_test(test_volcano),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
