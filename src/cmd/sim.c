// SPDX-License-Identifier: Apache-2.0
// gpuscale sim: create, inspect, load and break simulated GPUs.
#include "nvmlsim/sim.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/shell.h"
#include "base/slice.h"
#include "cmd/commands.h"
#include "dcgmsim/hostengine.h"
#include "kube/quantity.h"
#include "nvmlsim/simulation/simulation.h"

struct sim_opts {
    const char *name, *output, *code, *memory, *listen;
    int64_t gpu, count, duration_ns;
    double util, sm_share;
};

#define AT(member) .offset = offsetof(struct sim_opts, member)

static const struct gs_opt sim_flags[] = {
    {"name", GS_OPT_STRING, AT(name), "NAME", .env = NVMLSIM_ENV,
     .help = "Name of the set of simulated GPUs. Default: \"/gpuscale-sim-UID\" of the user."},
    {"output", GS_OPT_STRING, AT(output), "FORMAT", "table", .alias = "o",
     .help = "Output of status and list: table, json or yaml."},
    {"gpu", GS_OPT_INT, AT(gpu), "N", "-1", .min = -1, .max = NVMLSIM_MAX_GPUS - 1,
     .help = "The GPU of load (default: the first of CUDA_VISIBLE_DEVICES, which pods have, "
             "otherwise 0), or of fail and hang (default: all)."},
    {"util", GS_OPT_DOUBLE, AT(util), "PERCENT", "100", .group = "Load",
     .help = "GPU utilization: the percentage of each 0.1 s in which a kernel runs."},
    {"for", GS_OPT_DURATION, AT(duration_ns), "DURATION", .group = "Load",
     .help = "How long load runs, such as 50ms (default: until it is interrupted), or how long a "
             "call hangs."},
    {"memory", GS_OPT_STRING, AT(memory), "SIZE", .group = "Load",
     .help = "Device memory that load allocates, such as 2GiB or 500Mi."},
    {"sm-share", GS_OPT_DOUBLE, AT(sm_share), "PART", "1", .group = "Load",
     .help = "Share of the SMs that the kernels use, above 0 and at most 1."},
    {"code", GS_OPT_STRING, AT(code), "N|NAME", .group = "Faults",
     .help = "Return code of the call: 15, GPU_IS_LOST, NVML_ERROR_UNKNOWN …, or -37 for a call of "
             "DCGM."},
    {"count", GS_OPT_INT, AT(count), "N", "0", .min = 0, .max = UINT32_MAX, .group = "Faults",
     .help = "Number of calls that fail or hang. 0: all until clear."},
    {"listen", GS_OPT_STRING, AT(listen), "HOST:PORT|unix:PATH", "127.0.0.1:5555",
     .group = "Host engine", .help = "Address of hostengine serve. Port 0: a free one."},
    {0},
};

static struct gs_error *print_sim(const struct sim_opts *o, struct nvmlsim *s)
{
    if (gs_streq(o->output, "table")) {
        simulation_print_status(s, stdout);
        return NULL;
    }
    CODEC_AUTO_JSON json_t *all = simulation_status_json(s);
    cmd_print_json(o->output, all, stdout);
    return NULL;
}

// --- actions: `s` is attached for actions that need it ---

static void print_export(const char *name, const char *value)
{
    GS_AUTO_FREE char *word = gs_shell_word(value);
    printf("    export %s=%s\n", name, word);
}

static void print_exports(const char *set)
{
    GS_AUTO_FREE char *library = NULL;
    gs_error_free(simulation_find_library(&library));
    GS_AUTO_FREE char *folder = simulation_library_folder(library);
    printf("\nPrograms see them with\n");
    if (folder)
        print_export("LD_LIBRARY_PATH", folder);
    print_export(NVMLSIM_ENV, set);
}

static struct gs_error *do_create(const struct sim_opts *o, struct nvmlsim *none, char **argv)
{
    struct nvmlsim_spec spec;
    struct nvmlsim *s = NULL;
    struct gs_error *err = simulation_load_spec(argv[0], &spec);
    if (!err)
        err = nvmlsim_create(o->name, &spec, &s);
    if (err)
        return err;
    print_sim(o, s);
    if (gs_streq(o->output, "table"))
        print_exports(o->name);
    nvmlsim_detach(s);
    return NULL;
}

static json_t *list_entry(const char *name, const char **ret_problem, unsigned *ret_gpus)
{
    struct nvmlsim *s = NULL;
    GS_AUTO_ERROR struct gs_error *err = nvmlsim_attach(name, &s);
    *ret_gpus = err ? 0 : nvmlsim_gpu_count(s);
    *ret_problem = err ? "not usable" : "ok";
    nvmlsim_detach(s);
    return json_pack("{s:s, s:i, s:s}", "name", name, "gpus", (int)*ret_gpus, "state",
                     *ret_problem);
}

static struct gs_error *do_list(const struct sim_opts *o, struct nvmlsim *none, char **argv)
{
    char **names = NULL;
    size_t n = 0;
    struct gs_error *err = nvmlsim_list(&names, &n);
    if (err)
        return err;
    bool table = gs_streq(o->output, "table");
    CODEC_AUTO_JSON json_t *all = json_array();
    if (table)
        printf("%-40s %5s  %s\n", "SIMULATED GPUs", "GPUS", "STATE");
    for (size_t i = 0; i < n; i++) {
        const char *state = NULL;
        unsigned gpus = 0;
        json_array_append_new(all, list_entry(names[i], &state, &gpus));
        if (table)
            printf("%-40s %5u  %s\n", names[i], gpus, state);
        free(names[i]);
    }
    free(names);
    if (!table)
        cmd_print_json(o->output, all, stdout);
    return NULL;
}

static struct gs_error *do_status(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    return print_sim(o, s);
}

static struct gs_error *parse_gpu(const char *text, unsigned *ret)
{
    uint64_t gpu = 0;
    struct gs_error *err = gs_parse_u64(gs_slice_of(text), NVMLSIM_MAX_GPUS - 1, &gpu);
    if (err)
        return gs_error_wrap(err, "the number of a GPU");
    *ret = (unsigned)gpu;
    return NULL;
}

// "2GiB", "2Gi", "500MB".
static struct gs_error *parse_size(const char *text, uint64_t *ret)
{
    size_t n = strlen(text);
    if (n > 1 && text[n - 1] == 'B')
        n--;
    int64_t bytes = 0;
    struct gs_error *err = kube_quantity_parse_value(gs_slice_make(text, n), &bytes);
    if (!err && bytes < 0)
        err = gs_error_new(GS_EINVAL, "\"%s\" is negative", text);
    if (err)
        return gs_error_wrap(err, "--memory");
    *ret = (uint64_t)bytes;
    return NULL;
}

static struct gs_error *do_load(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    struct simulation_load load = {
        .gpu = (int)o->gpu,
        .util = o->util,
        .sm_share = o->sm_share,
        .duration_ns = o->duration_ns,
    };
    int64_t ran = 0;
    unsigned gpu = 0;
    struct gs_error *err = o->memory ? parse_size(o->memory, &load.memory) : NULL;
    if (!err)
        err = simulation_run_load(s, &load, &ran, &gpu);
    if (!err && ran < GS_NS_PER_SEC)
        printf("ran %lld ms of kernels on simulated GPU %u\n", (long long)(ran / GS_NS_PER_MS),
               gpu);
    else if (!err)
        printf("ran %.1f s of kernels on simulated GPU %u\n", (double)ran / (double)GS_NS_PER_SEC,
               gpu);
    return err;
}

static struct gs_error *do_fail(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    int code = 0;
    if (!o->code)
        return gs_error_new(GS_EINVAL, "sim fail needs --code, such as --code=GPU_IS_LOST");
    struct gs_error *err = gs_starts(argv[0], "dcgm") ? nvmlsim_dcgm_code_parse(o->code, &code)
                                                      : nvmlsim_nvml_code_parse(o->code, &code);
    return err ? err : nvmlsim_fail_call(s, argv[0], (int)o->gpu, code, (unsigned)o->count);
}

static struct gs_error *do_hang(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    int64_t ms = o->duration_ns / GS_NS_PER_MS;
    if (ms < 1 || ms > UINT32_MAX)
        return gs_error_new(GS_EINVAL, "sim hang needs --for, a duration of 1 ms or more");
    return nvmlsim_hang_call(s, argv[0], (int)o->gpu, (unsigned)ms, (unsigned)o->count);
}

static struct gs_error *do_crash(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    return nvmlsim_crash_call(s, argv[0], (unsigned)o->count);
}

// The simulated libdcgm finds the set by the environment.
static struct gs_error *serve_hostengine(const struct sim_opts *o, struct nvmlsim *s)
{
    GS_AUTO_FREE char *library = NULL;
    struct gs_error *err = simulation_find_library(&library);
    GS_AUTO_FREE char *folder = err ? NULL : simulation_library_folder(library);
    if (err)
        return err;
    if (!folder)
        return gs_error_new(GS_ENOTFOUND, "there is no simulated libdcgm beside %s", library);
    GS_AUTO_FREE char *path = gs_format("%s/libdcgm.so.4", folder);
    setenv(NVMLSIM_ENV, o->name, 1);
    return dcgmsim_hostengine_run(
        &(struct dcgmsim_hostengine_config){.sim = s, .library = path, .listen = o->listen});
}

static struct gs_error *do_hostengine(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    enum nvmlsim_engine_action action;
    if (gs_streq(argv[0], "serve"))
        return serve_hostengine(o, s);
    struct gs_error *err = nvmlsim_engine_action_parse(argv[0], &action);
    if (!err)
        nvmlsim_engine_control(s, action);
    return err;
}

static struct gs_error *parse_switch(const char *text, bool *ret)
{
    if (!gs_streq(text, "on") && !gs_streq(text, "off"))
        return gs_error_new(GS_EINVAL, "\"%s\": want on or off", text);
    *ret = gs_streq(text, "on");
    return NULL;
}

static struct gs_error *do_prof_owner(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    bool on = false;
    struct gs_error *err = parse_switch(argv[0], &on);
    if (!err)
        nvmlsim_own_counters(s, on);
    return err;
}

static struct gs_error *do_dead_counters(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    unsigned gpu = 0;
    bool on = false;
    struct gs_error *err = parse_gpu(argv[0], &gpu);
    if (!err)
        err = parse_switch(argv[1], &on);
    return err ? err : nvmlsim_kill_counters(s, gpu, on);
}

static struct gs_error *set_lost(struct nvmlsim *s, const char *gpu_text, bool lost)
{
    unsigned gpu = 0;
    struct gs_error *err = parse_gpu(gpu_text, &gpu);
    return err ? err : nvmlsim_lose_gpu(s, gpu, lost);
}

static struct gs_error *do_lose(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    return set_lost(s, argv[0], true);
}

static struct gs_error *do_restore(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    return set_lost(s, argv[0], false);
}

static struct gs_error *do_xid(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    unsigned gpu = 0;
    uint64_t xid = 0;
    struct gs_error *err = parse_gpu(argv[0], &gpu);
    if (!err)
        err = gs_parse_u64(gs_slice_of(argv[1]), UINT32_MAX, &xid);
    return err ? err : nvmlsim_report_xid(s, gpu, (unsigned)xid);
}

static struct gs_error *do_value(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    unsigned gpu = 0;
    uint32_t what = 0;
    uint64_t value = 0;
    struct gs_error *err = parse_gpu(argv[0], &gpu);
    if (!err)
        err = nvmlsim_value_parse(argv[1], &what);
    if (!err)
        err = gs_parse_u64(gs_slice_of(argv[2]), UINT64_MAX, &value);
    return err ? err : nvmlsim_set_value(s, gpu, what, value);
}

static struct gs_error *do_clear(const struct sim_opts *o, struct nvmlsim *s, char **argv)
{
    nvmlsim_clear_faults(s);
    return NULL;
}

static struct gs_error *do_delete(const struct sim_opts *o, struct nvmlsim *none, char **argv)
{
    return nvmlsim_unlink(o->name);
}

static const struct action {
    const char *name, *usage;
    int n_args;
    bool attach;
    struct gs_error *(*run)(const struct sim_opts *o, struct nvmlsim *s, char **argv);
} actions[] = {
    {"create", "create SPEC", 1, false, do_create},
    {"list", "list", 0, false, do_list},
    {"status", "status", 0, true, do_status},
    {"load", "load [--gpu=N] [--util=PERCENT] [--memory=SIZE] [--for=DURATION]", 0, true, do_load},
    {"fail", "fail CALL", 1, true, do_fail},
    {"hang", "hang CALL", 1, true, do_hang},
    {"crash", "crash CALL", 1, true, do_crash},
    {"hostengine", "hostengine serve|start|stop|restart|pause|resume", 1, true, do_hostengine},
    {"prof-owner", "prof-owner on|off", 1, true, do_prof_owner},
    {"dead-counters", "dead-counters N on|off", 2, true, do_dead_counters},
    {"lose", "lose N", 1, true, do_lose},
    {"restore", "restore N", 1, true, do_restore},
    {"xid", "xid N CODE", 2, true, do_xid},
    {"value", "value N NAME NUMBER", 3, true, do_value},
    {"clear", "clear", 0, true, do_clear},
    {"delete", "delete", 0, false, do_delete},
};

static struct gs_error *find_action(const char *word, const struct action **ret)
{
    const char *names[GS_ARRAY_LEN(actions)];
    for (size_t i = 0; i < GS_ARRAY_LEN(actions); i++) {
        names[i] = actions[i].name;
        if (gs_streq(word, names[i])) {
            *ret = &actions[i];
            return NULL;
        }
    }
    if (gs_streq(word, "inference"))
        return gs_error_new(GS_EINVAL, "flags follow \"inference\": gpuscale sim inference [FLAGS] "
                                       "MODEL");
    const char *near = gs_suggest(word, names, GS_ARRAY_LEN(names));
    return gs_error_new(GS_EINVAL, "unknown action \"sim %s\"%s%s%s", word,
                        near ? "; did you mean \"sim " : "; see gpuscale sim --help",
                        near ? near : "", near ? "\"?" : "");
}

static struct gs_error *wrong_arguments(const struct action *a, int n, char **args)
{
    if (n > a->n_args)
        return gs_error_new(GS_EINVAL, "sim %s: unexpected argument \"%s\"; usage: gpuscale sim %s",
                            a->name, args[a->n_args], a->usage);
    return gs_error_new(GS_EINVAL, "sim %s: %d argument%s too few; usage: gpuscale sim %s", a->name,
                        a->n_args - n, a->n_args - n == 1 ? "" : "s", a->usage);
}

static struct gs_error *run_sim(const void *opts, int argc, char **argv, int *ret_exit)
{
    struct sim_opts o = *(const struct sim_opts *)opts;
    GS_AUTO_FREE char *own_name = simulation_own_name();
    if (!o.name || !*o.name)
        o.name = own_name;
    const struct action *action = NULL;
    struct gs_error *err = cmd_check_output(o.output, "table");
    if (!err)
        err = find_action(argv[0], &action);
    if (err)
        return err;
    if (argc - 1 != action->n_args)
        return wrong_arguments(action, argc - 1, argv + 1);
    struct nvmlsim *s = NULL;
    if (action->attach)
        err = nvmlsim_attach(o.name, &s);
    if (!err)
        err = action->run(&o, s, argv + 1);
    nvmlsim_detach(s);
    *ret_exit = 0;
    return err;
}

static void print_models(FILE *out)
{
    const char *const *names = nvmlsim_model_names();
    int column = 0;
    fprintf(out, "\nModels (any other name needs \"memory\" in a YAML file):\n");
    for (size_t i = 0; names[i]; i++) {
        bool wrap = column + (int)strlen(names[i]) + 2 > 94;
        column = wrap ? 0 : column;
        column += fprintf(out, "%s%s", wrap ? ",\n  " : i ? ", " : "  ", names[i]);
    }
    fputc('\n', out);
}

const struct gs_command cmd_sim = {
    .name = "sim",
    .args = "create|list|status|load|fail|hang|crash|lose|restore|xid|value|hostengine|prof-owner|"
            "dead-counters|clear|delete|inference [ARGUMENT]…",
    .summary = "Manage simulated GPUs: create, inspect, apply load, inject faults.",
    .description =
        "Simulated GPUs are in shared memory. A simulated libnvidia-ml (" NVMLSIM_LIBRARY
        ") reports them to programs with the environment variable " NVMLSIM_ENV
        ". The reported values follow from the kernels that programs submit; they are not "
        "scripted.\n\n"
        "Actions:\n"
        "create SPEC: creates GPUs. SPEC is 8xA100-SXM4-80GB, or 2xTesla-K80,1xTesla-T4, or "
        "the path of a YAML file.\n"
        "list: prints all sets of this machine.\n"
        "status: prints the GPUs of a set.\n"
        "load: runs kernels like a workload.\n"
        "fail CALL: the NVML call (or \"*\") returns --code, --count times.\n"
        "hang CALL: the NVML call (or \"*\") takes --for longer.\n"
        "crash CALL: the process that makes the call of DCGM aborts. fail and hang accept calls of "
        "DCGM, too (\"dcgm*\" means all).\n"
        "lose N: GPU N falls off the bus and reports XID 79.\n"
        "restore N: GPU N returns.\n"
        "xid N CODE: GPU N reports an XID.\n"
        "value N NAME NUMBER: sets a value that GPU N reports. NAME is the number of a field "
        "of nvmlDeviceGetFieldValues, or links-down (a bit per NVLink), fabric-state, "
        "fabric-status, fabric-health, fabric-clique, unrepairable-memory, sram-exceeded, "
        "banks-without-spare-rows, or driver-branch (of GPU 0, for all GPUs: 590 makes the "
        "driver version 590.124.06).\n"
        "hostengine start|stop|restart|pause|resume: the host engine of DCGM to which programs "
        "connect. It does not run in a new set. stop and restart end connections; pause makes "
        "profiling values blank.\n"
        "hostengine serve: starts it, and serves DCGM's socket protocol at --listen until it is "
        "interrupted, for programs without the simulated libdcgm.\n"
        "prof-owner on|off: another program has the profiling counters of GPUs before Hopper, so "
        "that DCGM's watches of them fail.\n"
        "dead-counters N on|off: the profiling counters of GPU N count nothing.\n"
        "clear: removes failing, hanging and crashing calls, set values, and faults of "
        "counters.\n"
        "delete: removes a set. Programs that have it open keep it until they end.\n"
        "inference MODEL: simulates an inference engine with flags of its own; see gpuscale sim "
        "inference --help.\n\n"
        "A YAML file has a list \"gpus\" of {model, count, memory: 24Gi, timeSlicing: "
        "{replicas: 4}, mig: [1g.10gb, 3g.40gb]}. \"switches\" is the number of NVSwitches, and "
        "\"cpus\" is {count: 2, cores: 72}: DCGM reports them.",
    .examples = "  gpuscale sim create 2xTesla-T4\n"
                "  gpuscale sim load --gpu=1 --util=30 --memory=2GiB --for=10s\n"
                "  gpuscale sim load --for=50ms\n"
                "  gpuscale sim fail nvmlDeviceGetPowerUsage --gpu=0 --code=GPU_IS_LOST --count=3\n"
                "  gpuscale sim hang '*' --for=5s\n"
                "  gpuscale sim status -o json",
    .opts = sim_flags,
    .opts_size = sizeof(struct sim_opts),
    .min_args = 1,
    .max_args = 4,
    .run = run_sim,
    .print_more = print_models,
};
