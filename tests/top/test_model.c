// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "top_samples.h"

#include <math.h>

#define NOW INT64_C(1700000000000)

static int setup(void **state)
{
    struct top_model *m = gs_alloc(sizeof(*m));
    top_model_init(m, 2000);
    *state = m;
    return 0;
}

static int teardown(void **state)
{
    top_model_finish(*state);
    free(*state);
    return 0;
}

static void test_samples_become_gpus_pods_and_processes(void **state)
{
    struct top_model *m = *state;
    feed(m, three_gpus, NOW);
    assert_int_equal(m->n_gpus, 3);
    assert_int_equal(m->n_pods, 1);
    assert_int_equal(m->n_processes, 1);
    assert_true(m->simulated);
    const struct top_gpu *g = m->gpus[0];
    assert_string_equal(g->model, "A100-SXM4-80GB");
    assert_string_equal(g->node, "node-1");
    assert_string_equal(g->pods, "ml/train-0");
    assert_int_equal(g->util, 83);
    assert_int_equal(top_gpu_total(g), 81920);
    assert_true(isnan(g->sm_clock)); // missing, not 0
    assert_true(m->gpus[2]->lost);
    const struct top_pod *p = m->pods[0];
    assert_string_equal(p->name, "train-0");
    assert_int_equal(p->util, 83);
    assert_int_equal(p->used_mib, 40960);
    assert_int_equal(p->n_gpus, 1);
    assert_false(p->estimated);
    assert_string_equal(m->processes[0]->name, "python3");
    assert_int_equal(m->processes[0]->util, 81);
}

static void test_names_of_dcgm_exporter_4_9(void **state)
{
    struct top_model *m = *state;
    feed(m,
         "DCGM_FI_DEV_GPU_UTIL_RATIO{" GPU0 ",namespace=\"ml\",pod=\"train-0\"} 0.83\n"
         "DCGM_FI_DEV_FB_USED_BYTES{" GPU0 ",namespace=\"ml\",pod=\"train-0\"} 42949672960\n"
         "DCGM_FI_DEV_SM_CLOCK_HERTZ{" GPU0 "} 1410000000\n"
         "DCGM_FI_DEV_GPU_TEMP_CELSIUS{" GPU0 "} 64\n"
         "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO{" GPU1 ",GPU_I_ID=\"1\"} 0.5\n",
         NOW);
    assert_int_equal(m->n_gpus, 2);
    const struct top_gpu *g = m->gpus[0];
    assert_float_equal(g->util, 83, 1e-9);
    assert_float_equal(g->used_mib, 40960, 1e-9);
    assert_float_equal(g->sm_clock, 1410, 1e-9);
    assert_float_equal(g->temp, 64, 1e-9);
    assert_float_equal(m->pods[0]->util, 83, 1e-9);
    assert_float_equal(m->gpus[1]->util, 50, 1e-9);
}

static void test_pods_have_the_signals_of_their_engine(void **state)
{
    struct top_model *m = *state;
    feed(m,
         "DCGM_FI_DEV_GPU_UTIL{" GPU0 ",pod=\"train-0\",namespace=\"ml\"} 90\n"
         "gpuscale_inference_waiting{namespace=\"ml\",pod=\"train-0\",model=\"a\"} 5\n"
         "gpuscale_inference_waiting{namespace=\"ml\",pod=\"train-0\",model=\"b\"} 2\n"
         "gpuscale_inference_kv_used_ratio{namespace=\"ml\",pod=\"train-0\",model=\"a\"} 0.25\n"
         "gpuscale_inference_kv_used_ratio{namespace=\"ml\",pod=\"train-0\",model=\"b\"} 0.5\n"
         "gpuscale_inference_waiting{namespace=\"ml\",pod=\"without-a-gpu\"} 9\n",
         NOW);
    assert_int_equal(m->n_pods, 1);
    assert_int_equal(m->pods[0]->waiting, 7);
    assert_int_equal(m->pods[0]->kv_percent, 50);
    assert_true(isnan(m->pods[0]->running));
    feed(m, "DCGM_FI_DEV_GPU_UTIL{" GPU0 ",pod=\"train-0\",namespace=\"ml\"} 90\n", NOW + 2000);
    assert_true(isnan(m->pods[0]->waiting)); // absent, not 0
}

static void test_pods_of_a_shared_gpu_are_measured_by_their_processes(void **state)
{
    struct top_model *m = *state;
    feed(m,
         "DCGM_FI_DEV_GPU_UTIL{" GPU0 "} 90\n"
         "DCGM_CUSTOM_PROCESS_SM_UTIL{gpu=\"0\",UUID=\"GPU-a\",ProcessId=\"1\",NamespaceName=\"a\","
         "PodName=\"x\"} 30\n"
         "DCGM_CUSTOM_PROCESS_SM_UTIL{gpu=\"0\",UUID=\"GPU-a\",ProcessId=\"2\",NamespaceName=\"a\","
         "PodName=\"x\"} 20\n"
         "DCGM_CUSTOM_PROCESS_MEM_USED{gpu=\"0\",UUID=\"GPU-a\",ProcessId=\"1\",NamespaceName="
         "\"a\",PodName=\"x\"} 100\n"
         "DCGM_CUSTOM_PROCESS_SM_UTIL{gpu=\"0\",UUID=\"GPU-a\",ProcessId=\"3\",NamespaceName=\"a\","
         "PodName=\"y\"} 40\n"
         "gpuscale_exporter_pod_attribution{gpu=\"0\",UUID=\"GPU-a\",namespace=\"a\",pod=\"y\","
         "value=\"utilization\",attribution=\"estimate\"} 1\n",
         NOW);
    assert_int_equal(m->n_pods, 2);
    assert_string_equal(m->gpus[0]->pods, "a/x a/y");
    assert_int_equal(m->pods[0]->util, 50);
    assert_int_equal(m->pods[0]->used_mib, 100);
    assert_false(m->pods[0]->estimated);
    assert_true(m->pods[1]->estimated);
}

static void test_the_value_of_a_device_with_several_pods_is_an_estimate(void **state)
{
    struct top_model *m = *state;
    feed(m,
         "DCGM_FI_DEV_GPU_UTIL{" GPU0 ",namespace=\"a\",pod=\"x\"} 90\n"
         "DCGM_FI_DEV_GPU_UTIL{" GPU0 ",namespace=\"a\",pod=\"y\"} 90\n"
         "DCGM_FI_DEV_GPU_UTIL{" GPU1 ",namespace=\"a\",pod=\"z\"} 90\n",
         NOW);
    assert_int_equal(m->n_pods, 3);
    assert_true(m->pods[0]->estimated && m->pods[1]->estimated);
    assert_false(m->pods[2]->estimated);
}

static void test_labels_renamed_by_a_scrape_name_the_pod(void **state)
{
    struct top_model *m = *state;
    feed(m,
         "DCGM_FI_DEV_GPU_UTIL{" GPU0
         ",exported_namespace=\"a\",exported_pod=\"x\",namespace=\"gpu\",pod=\"dcgm-1\"} 9\n"
         "DCGM_FI_DEV_GPU_UTIL{" GPU1 ",exported_namespace=\"\",namespace=\"gpu\",pod=\"x\"} 9\n",
         NOW);
    assert_string_equal(m->gpus[0]->pods, "a/x");
}

// After a scrape without honor_labels, an idle GPU has the labels of the target only.
static void test_the_pod_and_host_name_of_an_exporter_are_no_owner_and_no_node(void **state)
{
    struct top_model *m = *state;
    struct top_samples s = {0};
    const struct top_label job = {GS_SLICE("job"), GS_SLICE("dcgm")},
                           instance = {GS_SLICE("instance"), GS_SLICE("10.0.0.1:9400")},
                           ns = {GS_SLICE("namespace"), GS_SLICE("gpu")},
                           pod = {GS_SLICE("pod"), GS_SLICE("dcgm-1")},
                           host = {GS_SLICE("Hostname"), GS_SLICE("dcgm-1")},
                           uuid = {GS_SLICE("UUID"), GS_SLICE("GPU-a")},
                           node = {GS_SLICE("node"), GS_SLICE("n1")};
    const struct top_label device[] = {job, instance, ns, pod, host, uuid};
    const struct top_label up[] = {job, instance, ns, pod}, info[] = {ns, pod, node};
    const struct top_sample samples[] = {{GS_SLICE("DCGM_FI_DEV_GPU_UTIL"), device, 6, 0, NOW},
                                         {GS_SLICE("up"), up, 4, 1, 0},
                                         {GS_SLICE("kube_pod_info"), info, 3, 1, 0}};
    for (size_t i = 0; i < GS_ARRAY_LEN(samples); i++)
        assert_null(top_samples_add(&s, &samples[i]));
    top_model_update(m, &s, NOW);
    top_samples_finish(&s);
    assert_int_equal(m->n_gpus, 1);
    assert_string_equal(m->gpus[0]->pods, "");
    assert_string_equal(m->gpus[0]->node, "n1");
    assert_int_equal(m->n_pods, 0);
}

static void test_pods_that_wait_for_a_gpu_are_shown(void **state)
{
    struct top_model *m = *state;
    struct top_samples s = {0};
    const struct {
        const char *name, *label, *value;
        double number;
    } rows[] = {
        {"kube_pod_info", "node", "", 1},
        {"kube_pod_container_resource_requests", "resource", "nvidia_com_gpu", 2},
        {"kube_pod_container_resource_requests", "resource", "nvidia_com_gpu", 1},
        {"kube_pod_status_phase", "phase", "Pending", 1},
        {"kube_pod_status_phase", "phase", "Running", 0},
        {"kube_pod_created", "uid", "1", (double)NOW / 1000 - 90},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct top_label labels[] = {{GS_SLICE("namespace"), GS_SLICE("ml")},
                                     {GS_SLICE("pod"), GS_SLICE("wait-0")},
                                     {gs_slice_of(rows[i].label), gs_slice_of(rows[i].value)}};
        struct top_sample x = {gs_slice_of(rows[i].name), labels, 3, rows[i].number, 0};
        assert_null(top_samples_add(&s, &x));
    }
    top_model_update(m, &s, NOW);
    assert_int_equal(m->n_pods, 1);
    assert_string_equal(m->pods[0]->phase, "Pending");
    assert_int_equal(m->pods[0]->requested, 3);
    assert_true(isnan(m->pods[0]->util));
    // Pods that have ended are not shown.
    s.items[3].labels = (struct top_label[]){{GS_SLICE("namespace"), GS_SLICE("ml")},
                                             {GS_SLICE("pod"), GS_SLICE("wait-0")},
                                             {GS_SLICE("phase"), GS_SLICE("Succeeded")}};
    top_model_update(m, &s, NOW + 1000);
    assert_int_equal(m->n_pods, 0);
    top_samples_finish(&s);
}

static void test_a_gpu_that_disappears_is_gone_and_later_forgotten(void **state)
{
    struct top_model *m = *state;
    feed(m, three_gpus, NOW);
    feed(m, "DCGM_FI_DEV_GPU_UTIL{" GPU1 "} 7\n", NOW + 60000);
    assert_int_equal(m->n_gpus, 3);
    assert_int_equal(m->n_pods, 0);
    assert_int_equal(m->n_processes, 0);
    assert_true(m->gpus[0]->gone);
    assert_int_equal(m->gpus[0]->util, 83); // the last value, shown as gone
    assert_int_equal(m->gpus[1]->util, 7);
    assert_true(isnan(m->gpus[1]->used_mib)); // not in this refresh
    feed(m, "DCGM_FI_DEV_GPU_UTIL{" GPU1 "} 7\n", NOW + 3600000);
    assert_int_equal(m->n_gpus, 1);
    assert_false(m->gpus[0]->gone);
}

// Prometheus ends the series of a target whose scrape was late.
static void test_a_missed_scrape_is_no_lost_gpu(void **state)
{
    struct top_model *m = *state;
    const struct top_samples none = {0};
    GS_AUTO_BUF struct gs_buf before = {0}, after = {0};
    feed(m,
         "DCGM_FI_DEV_GPU_UTIL{" GPU0 ",namespace=\"a\",pod=\"x\"} 80\n"
         "DCGM_FI_DEV_GPU_UTIL{" GPU1 "} 7\n",
         NOW);
    top_frame_summary(m, NOW, &before);
    top_model_update(m, &none, NOW + 15000);
    top_frame_summary(m, NOW + 15000, &after);
    assert_string_equal(after.data, before.data);
    assert_int_equal(m->n_pods, 1);
    assert_true(m->simulated);
    assert_int_equal(m->gpus[0]->at_ms, NOW); // the age of its values is right
    assert_true(isnan(top_history_at(&m->gpus[0]->utils, (NOW + 15000) / 2000)));
    top_model_update(m, &none, NOW + 60000);
    gs_buf_clear(&after);
    top_frame_summary(m, NOW + 60000, &after);
    assert_string_equal(after.data, "2 GPUs, 2 gone");
    assert_true(m->simulated);
    feed(m, "DCGM_FI_DEV_GPU_UTIL{" GPU1 "} 9\n", NOW + 62000);
    assert_false(m->gpus[1]->gone);
}

static void test_old_samples_are_stale_and_not_in_the_history(void **state)
{
    struct top_model *m = *state;
    struct top_samples s = {0};
    assert_null(top_source_read_exposition(GS_SLICE("DCGM_FI_DEV_GPU_UTIL{" GPU0 "} 50\n"), &s));
    s.items[0].t_ms = NOW - 60000;
    top_model_update(m, &s, NOW);
    assert_true(top_model_is_stale(m, m->gpus[0]->at_ms, NOW));
    assert_true(isnan(top_history_at(&m->gpus[0]->utils, NOW / 2000)));
    s.items[0].t_ms = NOW - 1000;
    top_model_update(m, &s, NOW);
    assert_false(top_model_is_stale(m, m->gpus[0]->at_ms, NOW));
    assert_int_equal(top_history_at(&m->gpus[0]->utils, NOW / 2000), 50);
    top_samples_finish(&s);
}

static void test_a_longer_interval_leaves_no_gaps(void **state)
{
    struct top_model *m = *state;
    feed(m, three_gpus, NOW);
    top_model_set_refresh(m, 40000);
    feed(m, three_gpus, NOW + 40000);
    const struct top_history *h = &m->gpus[0]->utils;
    for (int64_t i = 0; i <= 20; i++)
        assert_int_equal(top_history_at(h, NOW / 2000 + i), 83);
    assert_true(isnan(top_history_at(h, NOW / 2000 - 1)));
    // The time of a refresh that failed is a gap.
    feed(m, three_gpus, NOW + 120000);
    assert_true(isnan(top_history_at(h, NOW / 2000 + 40)));
    assert_int_equal(top_history_at(h, NOW / 2000 + 41), 83);
    assert_false(top_model_is_stale(m, NOW, NOW + 100000));
    assert_true(top_model_is_stale(m, NOW, NOW + 121000));
}

static void test_mig_devices_are_rows(void **state)
{
    struct top_model *m = *state;
    feed(m,
         "DCGM_FI_DEV_FB_USED{" GPU0 ",GPU_I_ID=\"2\",GPU_I_PROFILE=\"3g.40gb\"} 10\n"
         "DCGM_FI_PROF_GR_ENGINE_ACTIVE{" GPU0 ",GPU_I_ID=\"2\",GPU_I_PROFILE=\"3g.40gb\"} 0.5\n"
         "DCGM_FI_PROF_GR_ENGINE_ACTIVE{" GPU0 "} 0.25\n",
         NOW);
    assert_int_equal(m->n_gpus, 1);
    assert_int_equal(m->gpus[0]->util, 50);
    assert_string_equal(m->gpus[0]->model, "3g.40gb");
    GS_AUTO_BUF struct gs_buf label = {0};
    top_gpu_label(m->gpus[0], &label);
    assert_string_equal(label.data, "0/2");
}

static void test_names_of_others_are_cleaned(void **state)
{
    struct top_model *m = *state;
    feed(m,
         "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"u\",hostname=\"a\033[2Jb\",namespace=\"n\","
         "pod=\"x\xe2\x80\xaey\"} 5\n",
         NOW);
    assert_string_equal(m->gpus[0]->node, "a\xef\xbf\xbd[2Jb");
    assert_string_equal(m->gpus[0]->pods, "n/x\xef\xbf\xbdy");
}

static void test_past_samples_fill_the_history(void **state)
{
    struct top_model *m = *state;
    struct top_samples past = {0};
    feed(m, three_gpus, NOW);
    struct top_label gpu[] = {{GS_SLICE("gpu"), GS_SLICE("0")},
                              {GS_SLICE("UUID"), GS_SLICE("GPU-a")}};
    struct top_label pod[] = {{GS_SLICE("namespace"), GS_SLICE("ml")},
                              {GS_SLICE("pod"), GS_SLICE("train-0")}};
    struct top_label unknown[] = {{GS_SLICE("gpu"), GS_SLICE("9")},
                                  {GS_SLICE("UUID"), GS_SLICE("GPU-z")}};
    struct top_sample a = {GS_SLICE("x"), gpu, 2, 40, NOW - 4000};
    struct top_sample b = {GS_SLICE("x"), pod, 2, 30, NOW - 4000};
    struct top_sample c = {GS_SLICE("x"), gpu, 2, 41, NOW};
    struct top_sample d = {GS_SLICE("x"), unknown, 2, 41, NOW};
    assert_null(top_samples_add(&past, &a));
    assert_null(top_samples_add(&past, &b));
    assert_null(top_samples_add(&past, &c));
    assert_null(top_samples_add(&past, &d));
    top_model_add_past(m, &past);
    assert_int_equal(top_history_at(&m->gpus[0]->utils, NOW / 2000 - 2), 40);
    assert_int_equal(top_history_at(&m->gpus[0]->utils, NOW / 2000), 83); // the newer one stays
    assert_int_equal(top_history_at(&m->pods[0]->utils, NOW / 2000 - 2), 30);
    assert_int_equal(m->n_gpus, 3);
    top_samples_finish(&past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_become_gpus_pods_and_processes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_names_of_dcgm_exporter_4_9, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pods_have_the_signals_of_their_engine, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_pods_of_a_shared_gpu_are_measured_by_their_processes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_value_of_a_device_with_several_pods_is_an_estimate,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_labels_renamed_by_a_scrape_name_the_pod, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_the_pod_and_host_name_of_an_exporter_are_no_owner_and_no_node, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pods_that_wait_for_a_gpu_are_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_missed_scrape_is_no_lost_gpu, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_gpu_that_disappears_is_gone_and_later_forgotten,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_samples_are_stale_and_not_in_the_history, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_longer_interval_leaves_no_gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mig_devices_are_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_of_others_are_cleaned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_past_samples_fill_the_history, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
