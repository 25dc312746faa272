// SPDX-License-Identifier: Apache-2.0
#include "nvmlsim/nvmlsim_private.h"
#include "nvmlsim/simulation/simulation.h"
#include "simtest.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void test_lists_of_gpus(void **state)
{
    struct nvmlsim_spec spec;
    ok(nvmlsim_spec_parse("8xA100-SXM4-80GB", &spec));
    assert_int_equal(spec.n_gpus, 8);
    assert_string_equal(spec.gpus[7].model, "A100-SXM4-80GB");
    ok(nvmlsim_spec_parse("2xTesla-K80, 1xTesla-T4,l4", &spec));
    assert_int_equal(spec.n_gpus, 4);
    assert_string_equal(spec.gpus[1].model, "Tesla-K80");
    assert_string_equal(spec.gpus[2].model, "Tesla-T4");
    assert_string_equal(spec.gpus[3].model, "L4");
    ok(nvmlsim_spec_parse("T4,NVIDIA-H200", &spec));
    assert_string_equal(spec.gpus[0].model, "Tesla-T4");
    assert_string_equal(spec.gpus[1].model, "H200");
    ok(nvmlsim_spec_parse("H100-SXM5-80GB,nvidia-h100-nvl,a100-80gb,v100,gb200,rtx-pro-6000",
                          &spec));
    assert_string_equal(spec.gpus[0].model, "H100-80GB-HBM3");
    assert_string_equal(spec.gpus[1].model, "H100-NVL");
    assert_string_equal(spec.gpus[2].model, "A100-SXM4-80GB");
    assert_string_equal(spec.gpus[3].model, "Tesla-V100-SXM2-16GB");
    assert_string_equal(spec.gpus[4].model, "GB200");
    assert_string_equal(spec.gpus[5].model, "RTX-PRO-6000");
}

static void test_wrong_lists_say_what_to_write(void **state)
{
    struct nvmlsim_spec spec;
    fails(nvmlsim_spec_parse("", &spec), GS_EINVAL, "8xA100-SXM4-80GB");
    fails(nvmlsim_spec_parse("2x", &spec), GS_EINVAL, "not a list of GPUs");
    fails(nvmlsim_spec_parse("L4,,L4", &spec), GS_EINVAL, "not a list of GPUs");
    fails(nvmlsim_spec_parse("0xL4", &spec), GS_EINVAL, "1 to 16");
    fails(nvmlsim_spec_parse("17xL4", &spec), GS_EINVAL, "1 to 16");
    fails(nvmlsim_spec_parse("99999999999999999999xL4", &spec), GS_EINVAL, "1 to 16");
    fails(nvmlsim_spec_parse("9xL4,8xL4", &spec), GS_EINVAL, "at most 16");
    fails(nvmlsim_spec_parse("A100-SXM4-80GG", &spec), GS_EINVAL, "did you mean A100-SXM4-80GB");
    fails(nvmlsim_spec_parse("Voodoo2", &spec), GS_EINVAL, "Tesla-V100-SXM2-16GB");
}

static void test_every_model_can_be_made(void **state)
{
    for (const char *const *name = nvmlsim_model_names(); *name; name++) {
        struct nvmlsim *s = make_sim(*name);
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(s, 0, &info);
        assert_string_equal(info.model, *name);
        assert_true(info.memory_total > info.memory_reserved);
        assert_true(info.memory_reserved > 0);
        assert_int_equal(info.memory_used, 0);
        drop_sim(s);
    }
}

static void test_a_model_of_ones_own(void **state)
{
    struct nvmlsim_spec spec = {.n_gpus = 1};
    strcpy(spec.gpus[0].model, "Homemade");
    struct nvmlsim *s = NULL;
    fails(nvmlsim_create("/gpuscale-test-own", &spec, &s), GS_EINVAL, "needs a memory size");
    spec.gpus[0].memory_mib = 4096;
    ok(nvmlsim_create("/gpuscale-test-own", &spec, &s));
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 0, &info);
    assert_int_equal(info.memory_total, 4096ULL << 20);
    assert_string_equal(info.product, "Homemade");
    ok(nvmlsim_unlink("/gpuscale-test-own"));
    nvmlsim_detach(s);
}

static void test_uuids_are_stable_and_differ(void **state)
{
    struct nvmlsim_spec spec;
    ok(nvmlsim_spec_parse("2xA30", &spec));
    spec.gpus[1].n_mig = 2;
    strcpy(spec.gpus[1].mig[0].profile, "2g.12gb");
    strcpy(spec.gpus[1].mig[1].profile, "1g.6gb");
    struct nvmlsim_gpu_info a[2], b[2];
    for (int round = 0; round < 2; round++) {
        struct nvmlsim *s = NULL;
        ok(nvmlsim_create("/gpuscale-test-uuid", &spec, &s));
        for (unsigned i = 0; i < 2; i++)
            nvmlsim_gpu_info(s, i, round ? &b[i] : &a[i]);
        nvmlsim_detach(s); // the second round replaces the segment that nobody uses
    }
    ok(nvmlsim_unlink("/gpuscale-test-uuid"));
    for (unsigned i = 0; i < 2; i++) {
        assert_string_equal(a[i].uuid, b[i].uuid);
        assert_int_equal(strlen(a[i].uuid), 40);
        assert_memory_equal(a[i].uuid, "GPU-", 4);
    }
    assert_string_not_equal(a[0].uuid, a[1].uuid);
    assert_string_equal(a[1].mig_uuid[0], b[1].mig_uuid[0]);
    assert_string_not_equal(a[1].mig_uuid[0], a[1].mig_uuid[1]);
    assert_memory_equal(a[1].mig_uuid[0], "MIG-", 4);
    assert_string_not_equal(a[0].pci_bus_id, a[1].pci_bus_id);
}

static struct gs_error *place(const char *model, const char *list)
{
    const char *names[NVMLSIM_MAX_MIG + 1];
    struct nvmlsim_mig_placed placed[NVMLSIM_MAX_MIG];
    unsigned n = 0;
    char *copy = gs_strdup(list);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        names[n++] = word;
    struct gs_error *err = nvmlsim_mig_place(nvmlsim_model_find(model), names, n, placed);
    uint32_t taken = 0;
    for (unsigned i = 0; !err && i < n; i++) {
        uint32_t mask = ((1U << placed[i].profile->mem_slices) - 1) << placed[i].start;
        assert_int_equal(taken & mask, 0);
        taken |= mask;
        for (unsigned j = 0; j < i; j++)
            assert_int_not_equal(placed[i].gi_id, placed[j].gi_id);
    }
    free(copy);
    return err;
}

static void test_mig_placement(void **state)
{
    ok(place("A100-SXM4-80GB", "7g.80gb"));
    ok(place("A100-SXM4-80GB", "1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb"));
    ok(place("A100-SXM4-80GB", "1g.10gb 2g.20gb 3g.40gb")); // only fits in another order
    ok(place("H100-80GB-HBM3", "4g.40gb 2g.20gb 1g.10gb+me"));
    ok(place("H200", "3g.71gb 3g.71gb"));
    ok(place("A30", "2g.12gb 1g.6gb 1g.6gb"));
    ok(place("B200", "1g.45gb 1g.45gb 1g.45gb 1g.45gb"));
    ok(place("H100-NVL", "1g.12gb 2g.24gb 3g.47gb"));
    ok(place("GB200", "1g.23gb 1g.23gb 2g.47gb 3g.93gb"));
    ok(place("RTX-PRO-6000", "1g.24gb 1g.24gb 2g.48gb"));
    fails(place("A100-SXM4-80GB", "4g.40gb 4g.40gb"), GS_EINVAL, "do not fit");
    fails(place("A100-SXM4-80GB", "3g.40gb 3g.40gb 1g.10gb"), GS_EINVAL, "do not fit");
    fails(place("A100-SXM4-80GB", "7g.80gb 1g.10gb"), GS_EINVAL, "do not fit");
    fails(place("A100-SXM4-80GB", "1g.10gb+me 1g.10gb+me"), GS_EINVAL, "do not fit");
    fails(place("A100-SXM4-80GB", "1g.5gb"), GS_EINVAL, "it has 1g.10gb, 1g.10gb+me");
    fails(place("Tesla-T4", "1g.10gb"), GS_EINVAL, "does not support MIG");
}

static void test_compute_instances(void **state)
{
    static const struct {
        const char *names[4];
        struct {
            uint32_t gi, ci, start, slices; // gi: which GPU instance, counted from 0
        } want[4];
    } rows[] = {
        {{"1c.3g.40gb", "2c.3g.40gb", "1g.10gb"}, {{0, 0, 0, 1}, {0, 1, 1, 2}, {1, 0, 0, 1}}},
        {{"2c.3g.40gb", "2c.3g.40gb"}, {{0, 0, 0, 2}, {1, 0, 0, 2}}}, // the first has one left
        {{"3g.40gb", "1c.3g.40gb"}, {{0, 0, 0, 3}, {1, 0, 0, 1}}},
        {{"1c.2g.20gb", "1g.10gb", "1c.2g.20gb"}, {{0, 0, 0, 1}, {1, 0, 0, 1}, {2, 0, 0, 1}}},
    };
    const struct nvmlsim_model *model = nvmlsim_model_find("H100-80GB-HBM3");
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct nvmlsim_mig_placed p[NVMLSIM_MAX_MIG];
        unsigned n = 0;
        while (n < 4 && rows[i].names[n])
            n++;
        ok(nvmlsim_mig_place(model, rows[i].names, n, p));
        for (unsigned k = 0; k < n; k++) {
            assert_int_equal(p[k].ci_id, rows[i].want[k].ci);
            assert_int_equal(p[k].ci_start, rows[i].want[k].start);
            assert_int_equal(p[k].ci_slices, rows[i].want[k].slices);
            for (unsigned j = 0; j < k; j++)
                assert_int_equal(p[k].gi_id == p[j].gi_id,
                                 rows[i].want[k].gi == rows[i].want[j].gi);
        }
    }
    fails(place("H100-80GB-HBM3", "4c.3g.40gb"), GS_EINVAL, "has 3 compute slices");
    fails(place("H100-80GB-HBM3", "1c.9g.10gb"), GS_EINVAL, "no MIG profile");
}

static void test_names(void **state)
{
    struct nvmlsim *s = NULL;
    fails(nvmlsim_attach("gpus", &s), GS_EINVAL, "/gpuscale-");
    fails(nvmlsim_attach("/gpuscale-a/b", &s), GS_EINVAL, "cannot name");
    fails(nvmlsim_attach("/gpuscale-test-none", &s), GS_ENOTFOUND, "gpuscale sim create");
    fails(nvmlsim_unlink("/gpuscale-test-none"), GS_ENOTFOUND, "gpuscale sim list");
}

static void test_a_segment_in_use_is_kept(void **state)
{
    struct nvmlsim *s = make_sim("L4");
    struct nvmlsim_spec spec;
    ok(nvmlsim_spec_parse("2xL4", &spec));
    struct nvmlsim *other = NULL;
    fails(nvmlsim_create(nvmlsim_name(s), &spec, &other), GS_EEXIST, "in use");
    ok(nvmlsim_attach(nvmlsim_name(s), &other));
    assert_int_equal(nvmlsim_gpu_count(other), 1);
    nvmlsim_detach(other);
    drop_sim(s);
}

// Changes one byte range of a segment's file and expects the attach to be refused.
static void refused(const char *name, off_t at, const void *bytes, size_t n)
{
    int fd = shm_open(name, O_RDWR, 0);
    assert_true(fd >= 0);
    char *before = gs_alloc(n);
    assert_int_equal(pread(fd, before, n, at), (ssize_t)n);
    assert_int_equal(pwrite(fd, bytes, n, at), (ssize_t)n);
    struct nvmlsim *s = NULL;
    fails(nvmlsim_attach(name, &s), GS_EPROTO, "not a usable set of simulated GPUs");
    assert_int_equal(pwrite(fd, before, n, at), (ssize_t)n);
    free(before);
    close(fd);
}

static void test_a_corrupt_segment_is_refused(void **state)
{
    struct nvmlsim *s = make_sim("2xL4");
    uint64_t wrong = 7;
    uint32_t many = 1000;
    char name[64];
    strcpy(name, nvmlsim_name(s));
    refused(name, 0, &wrong, sizeof(wrong)); // magic
    refused(name, 8, &many, sizeof(many));   // version
    refused(name, 12, &many, sizeof(many));  // number of GPUs
    refused(name, 16, &wrong, sizeof(wrong));
    struct nvmlsim *again = NULL;
    ok(nvmlsim_attach(name, &again)); // mended
    nvmlsim_detach(again);
    drop_sim(s);

    int fd = shm_open("/gpuscale-test-short", O_RDWR | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, 100), 0);
    fails(nvmlsim_attach("/gpuscale-test-short", &again), GS_EPROTO, "wrong size");
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    fails(nvmlsim_attach("/gpuscale-test-short", &again), GS_EPROTO, "wrong magic");
    close(fd);
    ok(nvmlsim_unlink("/gpuscale-test-short"));
}

static void test_what_others_can_write_is_refused(void **state)
{
    struct nvmlsim *s = make_sim("1xL4"), *again = NULL;
    GS_AUTO_FREE char *path = gs_format("/dev/shm%s", nvmlsim_name(s));
    assert_int_equal(chmod(path, 0666), 0);
    fails(nvmlsim_attach(nvmlsim_name(s), &again), GS_EPERM, "can be written by other users");
    assert_int_equal(chmod(path, 0600), 0);
    if (getuid() == 0) { // root as well, unless it says whose it wants
        assert_int_equal(chown(path, 65534, 65534), 0);
        fails(nvmlsim_attach(nvmlsim_name(s), &again), GS_EPERM, "GPUSCALE_SIM_UID=65534");
        setenv(NVMLSIM_UID_ENV, "65533", 1);
        fails(nvmlsim_attach(nvmlsim_name(s), &again), GS_EPERM,
              "belong to another user, with uid 65534");
        setenv(NVMLSIM_UID_ENV, "65534", 1);
        ok(nvmlsim_attach(nvmlsim_name(s), &again));
        nvmlsim_detach(again);
        unsetenv(NVMLSIM_UID_ENV);
    }
    drop_sim(s);
}

static void test_programs_share_a_set_only_by_its_name(void **state)
{
    struct simulation first = {0}, second = {0}, joined = {0};
    setenv("GPUSCALE_NVMLSIM_LIBRARY", "/library", 1);
    ok(simulation_start("1xL4", NULL, &first));
    ok(simulation_start("1xL4", "", &second));
    assert_string_not_equal(first.name, second.name);
    ok(simulation_start("2xL4", first.name, &joined));
    assert_null(joined.name);
    assert_int_equal(nvmlsim_gpu_count(joined.sim), 1);
    simulation_finish(&joined);
    GS_AUTO_FREE char *name = gs_strdup(first.name);
    simulation_finish(&first);
    simulation_finish(&second);
    fails(nvmlsim_attach(name, &joined.sim), GS_ENOTFOUND, name);
    unsetenv("GPUSCALE_NVMLSIM_LIBRARY");
    unsetenv(NVMLSIM_ENV);
}

static void test_sets_that_killed_programs_leave_are_removed(void **state)
{
    struct nvmlsim_spec spec;
    struct nvmlsim *left = NULL, *used = NULL;
    GS_AUTO_FREE char *prefix = gs_format("/gpuscale-test-left-%d-", (int)getpid());
    GS_AUTO_FREE char *left_name = gs_format("%s1", prefix);
    GS_AUTO_FREE char *used_name = gs_format("%s2", prefix);
    ok(nvmlsim_spec_parse("1xL4", &spec));
    ok(nvmlsim_create(left_name, &spec, &left));
    ok(nvmlsim_create(used_name, &spec, &used));
    nvmlsim_detach(left);
    nvmlsim_remove_unused(prefix);
    fails(nvmlsim_attach(left_name, &left), GS_ENOTFOUND, left_name);
    ok(nvmlsim_attach(used_name, &left));
    nvmlsim_detach(left);
    nvmlsim_detach(used);
    ok(nvmlsim_unlink(used_name));
}

static void test_error_code_names(void **state)
{
    int code = 0;
    ok(nvmlsim_nvml_code_parse("15", &code));
    assert_int_equal(code, 15);
    ok(nvmlsim_nvml_code_parse("gpu_is_lost", &code));
    assert_int_equal(code, 15);
    ok(nvmlsim_nvml_code_parse("NVML_ERROR_UNKNOWN", &code));
    assert_int_equal(code, 999);
    fails(nvmlsim_nvml_code_parse("31", &code), GS_EINVAL, "not an NVML error");
    fails(nvmlsim_nvml_code_parse("GPU_IS_LOSD", &code), GS_EINVAL, "GPU_IS_LOST");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_gpus),
        cmocka_unit_test(test_wrong_lists_say_what_to_write),
        cmocka_unit_test(test_every_model_can_be_made),
        cmocka_unit_test(test_a_model_of_ones_own),
        cmocka_unit_test(test_uuids_are_stable_and_differ),
        cmocka_unit_test(test_mig_placement),
        cmocka_unit_test(test_compute_instances),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_segment_in_use_is_kept),
        cmocka_unit_test(test_a_corrupt_segment_is_refused),
        cmocka_unit_test(test_what_others_can_write_is_refused),
        cmocka_unit_test(test_programs_share_a_set_only_by_its_name),
        cmocka_unit_test(test_sets_that_killed_programs_leave_are_removed),
        cmocka_unit_test(test_error_code_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
