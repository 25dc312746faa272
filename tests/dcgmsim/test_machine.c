// SPDX-License-Identifier: Apache-2.0
// MIG instances, NVSwitches, NVLinks and CPUs of the simulated DCGM, and the values of GPUs beside
// those of NVML.
#include "dcgmtest.h"

#include "base/file.h"

// A set from a specification file.
static struct nvmlsim *make_machine(const char *yaml)
{
    char path[] = "/tmp/gpuscale-test-XXXXXX", name[64], file[80];
    struct nvmlsim_spec spec = {0};
    struct nvmlsim *s = NULL;
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof(file), "%s/spec.yaml", path);
    ok(gs_file_write_atomic(file, 0600, gs_slice_of(yaml)));
    ok(simulation_load_spec(file, &spec));
    unlink(file);
    rmdir(path);
    snprintf(name, sizeof(name), "/gpuscale-test-machine-%d", (int)getpid());
    ok(nvmlsim_create(name, &spec, &s));
    setenv(NVMLSIM_ENV, name, 1);
    return s;
}

static void test_mig_instances_have_their_own_numbers(void **state)
{
    struct nvmlsim *s =
        make_machine("gpus:\n- {model: A10}\n"
                     "- {model: A100-SXM4-80GB, mig: [3g.40gb, 1g.10gb, 1g.10gb]}\n");
    dcgm_handle h = embed();
    struct dcgm_mig_hierarchy *m = gs_alloc(sizeof(*m));
    m->version = DCGM_MIG_HIERARCHY;
    assert_int_equal(dc.dcgmGetGpuInstanceHierarchy(h, m), 0);
    assert_int_equal(m->count, 6); // each instance with its compute instance
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 1, &info);
    for (unsigned i = 0; i < 3; i++) {
        const struct dcgm_mig_row *instance = &m->rows[2 * i], *compute = &m->rows[2 * i + 1];
        assert_int_equal(instance->entity.group, DCGM_ENTITY_GPU_I);
        assert_int_equal(instance->entity.id, 7 + i); // GPU 1 times 7
        assert_int_equal(instance->parent.group, DCGM_ENTITY_GPU);
        assert_int_equal(instance->parent.id, 1);
        assert_string_equal(instance->info.gpu_uuid, info.uuid);
        assert_int_equal(compute->entity.group, DCGM_ENTITY_GPU_CI);
        assert_int_equal(compute->parent.id, 7 + i);
        struct dcgm_value_v2 v = read_flagged(h, instance->entity, 50, DCGM_READ_LIVE);
        assert_string_equal(v.value.str, info.mig_profile[i]);
        v = read_flagged(h, instance->entity, 250, DCGM_READ_LIVE);
        assert_int_equal(v.value.i64, info.mig_memory_total[i] >> 20);
    }
    free(m);
    end_embedded(h);
    drop_sim(s);
}

static void test_mig_instances_have_activity_but_no_pcie(void **state)
{
    struct nvmlsim *s = make_machine("gpus:\n- {model: A100-SXM4-80GB, mig: [3g.40gb, 1g.10gb]}\n");
    dcgm_handle h = embed();
    static const uint16_t fields[] = {1001, 1009};
    struct dcgm_entity_pair e = entity(DCGM_ENTITY_GPU_I, 1);
    struct watch w;
    assert_int_equal(try_watch(h, &e, 1, fields, 2, &w), 0);
    assert_true(await_value(h, e, 1001).value.dbl == 0);
    assert_int_equal(read_latest(h, e, 1009).value.i64, DCGM_BLANK_INT64 + 2);
    end_embedded(h);
    drop_sim(s);
}

static const char fabric[] = "gpus:\n- {model: H100-80GB-HBM3, count: 2}\n"
                             "switches: 4\ncpus: {count: 2, cores: 72}\n";

static void test_switches_and_links(void **state)
{
    struct nvmlsim *s = make_machine(fabric);
    dcgm_handle h = embed();
    uint32_t ids[1024];
    int n = 1024;
    assert_int_equal(dc.dcgmGetEntityGroupEntities(h, DCGM_ENTITY_SWITCH, ids, &n, 0), 0);
    assert_int_equal(n, 4);
    struct dcgm_link_status_v5 *l = gs_alloc(sizeof(*l));
    l->version = DCGM_LINK_STATUS_V5;
    ok(nvmlsim_set_value(s, 1, NVMLSIM_VALUE_LINKS_DOWN, 2));
    assert_int_equal(dc.dcgmGetNvLinkLinkStatus(h, l), 0);
    assert_int_equal(l->n_gpus, 2);
    assert_int_equal(l->n_switches, 4);
    assert_int_equal(l->gpus[0].state[17], DCGM_LINK_UP);
    assert_int_equal(l->gpus[0].state[18], DCGM_LINK_UNSUPPORTED);
    assert_int_equal(l->gpus[1].state[1], DCGM_LINK_DOWN);
    unsigned up = 0;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned p = 0; p < 256; p++)
            up += l->switches[i].state[p] == DCGM_LINK_UP;
    assert_int_equal(up, 2 * 18); // all links of the GPUs
    free(l);
    struct dcgm_entity_pair port = entity(DCGM_ENTITY_LINK, DCGM_LINK_ID(DCGM_ENTITY_SWITCH, 0, 3));
    assert_int_equal(read_flagged(h, port, 782, DCGM_READ_LIVE).value.i64, 0);
    assert_int_equal(read_flagged(h, entity(DCGM_ENTITY_SWITCH, 3), 858, DCGM_READ_LIVE).value.i64,
                     41);
    end_embedded(h);
    drop_sim(s);
}

static void test_links_carry_the_traffic_of_busy_gpus(void **state)
{
    struct nvmlsim *s = make_machine(fabric);
    dcgm_handle h = embed();
    struct nvmlsim_ctx *ctx = NULL;
    struct dcgm_entity_pair first =
        entity(DCGM_ENTITY_LINK, DCGM_LINK_ID(DCGM_ENTITY_SWITCH, 0, 0));
    assert_int_equal(read_flagged(h, first, 780, DCGM_READ_LIVE).value.i64, 0);
    ok(nvmlsim_ctx_open(0, &ctx));
    ok(nvmlsim_kernel_run(ctx, 100000, 1));
    nvmlsim_ctx_close(ctx);
    int64_t link = read_flagged(h, first, 780, DCGM_READ_LIVE).value.i64;
    assert_true(link > 0);
    struct dcgm_entity_pair sw = entity(DCGM_ENTITY_SWITCH, 0);
    assert_true(read_flagged(h, sw, 861, DCGM_READ_LIVE).value.i64 > link);
    end_embedded(h);
    drop_sim(s);
}

static void test_cpus_and_their_cores(void **state)
{
    struct nvmlsim *s = make_machine(fabric);
    dcgm_handle h = embed();
    struct dcgm_cpu_hierarchy_v1 c = {.version = DCGM_CPU_HIERARCHY_V1};
    assert_int_equal(dc.dcgmGetCpuHierarchy(h, &c), 0);
    assert_int_equal(c.count, 2);
    unsigned cores = 0;
    for (unsigned i = 0; i < 16; i++)
        cores += (unsigned)__builtin_popcountll(c.cpus[1].cores.bitmask[i]);
    assert_int_equal(cores, 72);
    assert_true(c.cpus[1].cores.bitmask[1] & 1 << (72 - 64)); // the first is number 72
    assert_true(read_flagged(h, entity(DCGM_ENTITY_CPU, 1), 1110, DCGM_READ_LIVE).value.dbl > 0);
    struct dcgm_entity_pair core = entity(DCGM_ENTITY_CPU_CORE, 143);
    assert_true(read_flagged(h, core, 1100, DCGM_READ_LIVE).value.dbl <= 1);
    end_embedded(h);
    drop_sim(s);
}

// A healthy machine has no incidents, a lost GPU is one.
static void test_health_of_the_gpus(void **state)
{
    struct nvmlsim *s = make_sim("2xA10");
    dcgm_handle h = embed();
    dcgm_group g = 0;
    struct dcgm_health_v5 *r = gs_alloc(sizeof(*r));
    struct dcgm_engine_memory use = {.version = DCGM_ENGINE_MEMORY};
    uint32_t mask = 0;
    assert_int_equal(dc.dcgmGroupCreate(h, DCGM_GROUP_ALL_GPUS, "g", &g), 0);
    assert_int_equal(dc.dcgmHealthSet(h, g, 0xffffffff), 0);
    assert_int_equal(dc.dcgmHealthGet(h, g, &mask), 0);
    assert_int_equal(mask, 0xffffffff);
    r->version = DCGM_HEALTH_V5;
    assert_int_equal(dc.dcgmHealthCheck(h, g, r), 0);
    assert_int_equal(r->count, 0);
    ok(nvmlsim_lose_gpu(s, 1, true));
    assert_int_equal(dc.dcgmHealthCheck(h, g, r), 0);
    assert_int_equal(r->count, 1);
    assert_int_equal(r->overall, 20);
    assert_int_equal(r->incidents[0].entity.id, 1);
    assert_int_equal(dc.dcgmIntrospectGetHostengineMemoryUsage(h, &use, 1), 0);
    assert_true(use.bytes > 0);
    free(r);
    end_embedded(h);
    drop_sim(s);
}

static void test_peers_are_those_of_nvml(void **state)
{
    struct nvmlsim *s =
        make_machine("gpus:\n- {model: A10}\n- {model: H100-80GB-HBM3, count: 2}\n");
    dcgm_handle h = embed();
    struct dcgm_p2p_status *p = gs_alloc(sizeof(*p));
    p->version = DCGM_P2P_STATUS;
    assert_int_equal(dc.dcgmGetNvLinkP2PStatus(h, p), 0);
    assert_int_equal(p->n_gpus, 3);
    assert_int_equal(p->gpus[1].status[2], 0); // as NVML: 0 is good
    assert_int_equal(p->gpus[0].status[1], 5);
    free(p);
    end_embedded(h);
    drop_sim(s);
}

static void test_a_machine_without_them_says_so(void **state)
{
    struct nvmlsim *s = make_sim("T4");
    dcgm_handle h = embed();
    struct dcgm_cpu_hierarchy_v1 c = {.version = DCGM_CPU_HIERARCHY_V1};
    uint32_t ids[4];
    int n = 4;
    assert_int_equal(dc.dcgmGetCpuHierarchy(h, &c), DCGM_NOT_SUPPORTED);
    assert_int_equal(dc.dcgmGetEntityGroupEntities(h, DCGM_ENTITY_SWITCH, ids, &n, 0), 0);
    assert_int_equal(n, 0);
    end_embedded(h);
    drop_sim(s);
}

static void test_values_of_gpus_are_those_of_nvml(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    struct nvml nv;
    nvmlDevice_t d = NULL;
    nvmlMemory_v2_t memory = {.version = (uint32_t)sizeof(memory) | 2U << 24};
    unsigned limit = 0;
    load_nvml(&nv);
    assert_int_equal(nv.nvmlInit_v2(), 0);
    assert_int_equal(nv.nvmlDeviceGetHandleByIndex_v2(0, &d), 0);
    assert_int_equal(nv.nvmlDeviceGetMemoryInfo_v2(d, &memory), 0);
    assert_int_equal(nv.nvmlDeviceGetEnforcedPowerLimit(d, &limit), 0);
    dcgm_handle h = embed();
    assert_int_equal(read_flagged(h, gpu(0), 250, DCGM_READ_LIVE).value.i64, memory.total >> 20);
    assert_int_equal(read_flagged(h, gpu(0), 253, DCGM_READ_LIVE).value.i64, memory.reserved >> 20);
    assert_true(read_flagged(h, gpu(0), 164, DCGM_READ_LIVE).value.dbl == limit / 1000.0);
    struct dcgm_value_v2 v = read_flagged(h, gpu(0), 140, DCGM_READ_LIVE); // no memory sensor
    assert_int_equal(v.status, 0);
    assert_int_equal(v.value.i64, DCGM_BLANK_INT64 + 2);
    v = read_flagged(h, gpu(0), 1603, DCGM_READ_LIVE); // the clock in Hz
    assert_int_equal(v.value.i64, read_flagged(h, gpu(0), 100, DCGM_READ_LIVE).value.i64 * 1000000);
    end_embedded(h);
    assert_int_equal(nv.nvmlShutdown(), 0);
    dlclose(nv.handle);
    drop_sim(s);
}

static void test_specifications_with_mistakes_are_refused(void **state)
{
    static const struct {
        const char *yaml, *error;
    } cases[] = {
        {"gpus:\n- {model: T4}\nswitches: 13\n", "switches: want a number from 1 to 12"},
        {"gpus:\n- {model: T4}\ncpus: 2\n", "cpus: want {count: NUMBER, cores: NUMBER}"},
        {"gpus:\n- {model: T4}\ncpus: {count: 8, cores: 129}\n",
         "cores: want a number from 1 to 128"},
        {"gpus:\n- {model: T4}\ncpus: {sockets: 2}\n", "unknown field \"sockets\""},
    };
    char path[] = "/tmp/gpuscale-test-XXXXXX", file[80];
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof(file), "%s/spec.yaml", path);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nvmlsim_spec spec = {0};
        ok(gs_file_write_atomic(file, 0600, gs_slice_of(cases[i].yaml)));
        fails(simulation_load_spec(file, &spec), GS_EINVAL, cases[i].error);
    }
    unlink(file);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mig_instances_have_their_own_numbers),
        cmocka_unit_test(test_mig_instances_have_activity_but_no_pcie),
        cmocka_unit_test(test_switches_and_links),
        cmocka_unit_test(test_links_carry_the_traffic_of_busy_gpus),
        cmocka_unit_test(test_cpus_and_their_cores),
        cmocka_unit_test(test_health_of_the_gpus),
        cmocka_unit_test(test_peers_are_those_of_nvml),
        cmocka_unit_test(test_a_machine_without_them_says_so),
        cmocka_unit_test(test_values_of_gpus_are_those_of_nvml),
        cmocka_unit_test(test_specifications_with_mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, load_dcgm, unload_dcgm);
}
