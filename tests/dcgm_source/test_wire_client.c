// SPDX-License-Identifier: Apache-2.0
// The client of the socket protocol against the simulated host engine, and against peers that are
// silent, wrong or of another machine.
#include "patience.h"
#include "unit.h"

#include "dcgm_source/source_private.h"
#include "nvmlsim/simtest.h"

#include "dcgm/wire.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { INTERVAL_MS = 20 };

struct fixture {
    char dir[64], path[96];
    struct nvmlsim *sim;
    pid_t engine; // 0: none
    struct dcgm_source *source;
    struct dcgm_source_plan plan;
};

// --- fixture ---

static void run_engine(void *arg)
{
    const struct fixture *f = arg;
    char program[4096], listen[128];
    snprintf(program, sizeof(program), "%s/src/cmd/gpuscale", getenv("GPUSCALE_BUILD_ROOT"));
    snprintf(listen, sizeof(listen), "--listen=unix:%s", f->path);
    execl(program, program, "sim", "hostengine", "serve", listen, (char *)NULL);
    _exit(1);
}

static void start_engine(struct fixture *f)
{
    f->engine = start_child(run_engine, f);
}

static void stop_engine(struct fixture *f, int signal_number)
{
    kill(f->engine, signal_number);
    int status = 0;
    assert_int_equal(waitpid(f->engine, &status, 0), f->engine);
    f->engine = 0;
}

static struct nvmlsim *make_machine(const char *gpus)
{
    static int n;
    char name[64];
    struct nvmlsim_spec spec = {0};
    ok(nvmlsim_spec_parse(gpus, &spec));
    spec.switches = 2;
    spec.cpus = 1;
    spec.cores = 4;
    snprintf(name, sizeof(name), "/gpuscale-test-%d-wire%d", (int)getpid(), n++);
    struct nvmlsim *s = NULL;
    ok(nvmlsim_create(name, &spec, &s));
    setenv(NVMLSIM_ENV, name, 1);
    return s;
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    snprintf(f->dir, sizeof(f->dir), "/tmp/gpuscale-wire-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/engine", f->dir);
    f->sim = make_machine("Tesla-T4,A100-SXM4-80GB");
    f->plan.interval_ns = INTERVAL_MS * GS_NS_PER_MS;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    dcgm_source_close(f->source);
    if (f->engine)
        stop_engine(f, SIGTERM);
    unlink(f->path);
    rmdir(f->dir);
    drop_sim(f->sim);
    free(f);
    return 0;
}

static void want_fields(struct fixture *f, const uint16_t *fields, size_t n)
{
    memcpy(f->plan.fields, fields, n * sizeof(*fields));
    f->plan.n_fields = (uint32_t)n;
    for (unsigned i = 0; i < nvmlsim_gpu_count(f->sim); i++) {
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(f->sim, i, &info);
        snprintf(f->plan.prof_gpus[f->plan.n_prof_gpus++], 96, "%s", info.uuid);
    }
}

static void open_source(struct fixture *f)
{
    struct dcgm_source_config cfg = {.retry_ns = GS_NS_PER_MS, .program = "/bin/false"};
    char endpoint[128];
    snprintf(endpoint, sizeof(endpoint), "unix:%s", f->path);
    ok(dcgm_source_parse(endpoint, &cfg.endpoint));
    f->source = dcgm_source_open(&cfg);
    dcgm_source_want(f->source, &f->plan);
}

// --- waiting ---

static bool has_valid(struct dcgm_source *s, uint32_t group, uint32_t id, uint16_t field)
{
    bool found = false;
    struct dcgm_latest *l = dcgm_source_latest(s);
    for (size_t i = 0; l && i < l->n_values && !found; i++) {
        const struct dcgm_value *v = &l->values[i];
        const struct dcgm_entity *e = &l->entities[v->entity];
        found = e->group == group && e->id == id && v->field == field &&
                dcgm_source_value(l, v, gs_mono_ns()).validity == GPU_VALID;
    }
    dcgm_latest_free(l);
    return found;
}

static void await_valid(const struct fixture *f, uint32_t group, uint32_t id, uint16_t field,
                        bool wanted)
{
    int64_t until = gs_mono_ns() + WAIT_NS;
    while (has_valid(f->source, group, id, field) != wanted) {
        if (gs_mono_ns() > until)
            fail_msg("field %u of entity %u/%x is %svalid", field, group, id, wanted ? "not " : "");
        sleep_ms(2);
    }
}

static struct dcgm_source_status await_problem(const struct fixture *f, const char *text)
{
    struct dcgm_source_status st;
    int64_t until = gs_mono_ns() + WAIT_NS;
    do {
        sleep_ms(2);
        dcgm_source_status(f->source, &st);
        if (gs_mono_ns() > until)
            fail_msg("\"%s\" instead of \"%s\"", st.report.problem, text);
    } while (st.report.state != DCGM_SOURCE_DOWN || !strstr(st.report.problem, text));
    return st;
}

static void await_prof_code(const struct fixture *f, int code)
{
    struct dcgm_source_status st;
    int64_t until = gs_mono_ns() + WAIT_NS;
    do {
        sleep_ms(2);
        dcgm_source_status(f->source, &st);
        if (gs_mono_ns() > until)
            fail_msg("code %d instead of %d", st.report.prof_code, code);
    } while (st.report.state != DCGM_SOURCE_UP || st.report.prof_code != code);
}

// --- the engine ---

static const uint16_t ALL[] = {1001, 1005, 702, 780, 1110, 1100};

static void test_values_of_all_entities(void **state)
{
    struct fixture *f = *state;
    struct dcgm_source_status st;
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    start_engine(f);
    open_source(f);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
    await_valid(f, DCGM_ENTITY_GPU, 1, 1005, true);
    await_valid(f, DCGM_ENTITY_SWITCH, 1, 702, true);
    await_valid(f, DCGM_ENTITY_LINK, DCGM_LINK_ID(DCGM_ENTITY_SWITCH, 0, 0), 780, true);
    await_valid(f, DCGM_ENTITY_CPU, 0, 1110, true);
    await_valid(f, DCGM_ENTITY_CPU_CORE, 3, 1100, true);
    dcgm_source_status(f->source, &st);
    assert_int_equal(st.report.state, DCGM_SOURCE_UP);
    assert_string_equal(st.report.version, "4.6.1");
    assert_true(st.report.simulated);
    assert_string_equal(st.mode, "wire");
}

static void test_values_are_in_the_order_of_entities_and_of_the_plan(void **state)
{
    struct fixture *f = *state;
    static const uint16_t fields[] = {1005, 1001, 1100, 1110};
    want_fields(f, fields, GS_ARRAY_LEN(fields));
    start_engine(f);
    open_source(f);
    await_valid(f, DCGM_ENTITY_CPU_CORE, 0, 1100, true);
    struct dcgm_latest *l = dcgm_source_latest(f->source);
    assert_non_null(l);
    for (size_t i = 1; i < l->n_values; i++)
        assert_true(l->values[i - 1].entity <= l->values[i].entity);
    assert_int_equal(l->values[0].field, 1005);
    assert_int_equal(l->values[1].field, 1001);
    for (size_t i = 0; i < l->n_entities; i++)
        if (l->entities[i].group == DCGM_ENTITY_CPU_CORE)
            assert_int_equal(l->entities[l->entities[i].parent].group, DCGM_ENTITY_CPU);
    dcgm_latest_free(l);
}

static void test_an_engine_that_ends_and_comes_back(void **state)
{
    struct fixture *f = *state;
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    open_source(f);
    await_problem(f, "connecting to the DCGM host engine");
    start_engine(f);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
    stop_engine(f, SIGKILL);
    await_problem(f, "DCGM host engine");
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, false);
    start_engine(f);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
    struct dcgm_source_status st;
    dcgm_source_status(f->source, &st);
    assert_true(st.restarts[DCGM_SOURCE_CONNECTION] >= 1);
}

static void test_groups_and_watches_are_made_again_after_a_restart(void **state)
{
    struct fixture *f = *state;
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    start_engine(f);
    open_source(f);
    for (int i = 0; i < 5; i++) {
        await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
        nvmlsim_engine_control(f->sim, NVMLSIM_ENGINE_STOP);
        await_problem(f, "DCGM host engine");
        nvmlsim_engine_control(f->sim, NVMLSIM_ENGINE_START);
    }
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
}

static void test_an_engine_that_hangs(void **state)
{
    struct fixture *f = *state;
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    start_engine(f);
    open_source(f);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
    kill(f->engine, SIGSTOP);
    struct dcgm_source_status st = await_problem(f, "does not answer");
    assert_int_equal(st.report.code, DCGM_TIMEOUT);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, false);
    kill(f->engine, SIGCONT);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
}

static void test_profiling_that_is_paused(void **state)
{
    struct fixture *f = *state;
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    start_engine(f);
    open_source(f);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
    nvmlsim_engine_control(f->sim, NVMLSIM_ENGINE_PAUSE);
    await_prof_code(f, DCGM_PAUSED);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, false);
    await_valid(f, DCGM_ENTITY_CPU, 0, 1110, true);
    nvmlsim_engine_control(f->sim, NVMLSIM_ENGINE_RESUME);
    await_prof_code(f, DCGM_OK);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
}

static void test_counters_of_another_owner(void **state)
{
    struct fixture *f = *state;
    struct dcgm_source_status st;
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    nvmlsim_own_counters(f->sim, true);
    start_engine(f);
    open_source(f);
    await_prof_code(f, DCGM_PROFILING_FAILED);
    await_valid(f, DCGM_ENTITY_CPU, 0, 1110, true);
    assert_false(has_valid(f->source, DCGM_ENTITY_GPU, 0, 1001));
    dcgm_source_status(f->source, &st);
    assert_non_null(strstr(st.report.prof_problem, "another process owns"));
}

static void test_fields_that_an_old_engine_does_not_know_are_left_out(void **state)
{
    struct fixture *f = *state;
    static const uint16_t fields[] = {1110, 1603, 1001, 1613, 702, 1532};
    want_fields(f, fields, GS_ARRAY_LEN(fields));
    setenv("GPUSCALE_SIM_DCGM_VERSION", "4.5.3", 1);
    start_engine(f);
    unsetenv("GPUSCALE_SIM_DCGM_VERSION");
    open_source(f);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
    await_valid(f, DCGM_ENTITY_SWITCH, 0, 702, true);
    assert_false(has_valid(f->source, DCGM_ENTITY_GPU, 0, 1603));
}

static void test_another_plan_on_the_same_engine(void **state)
{
    struct fixture *f = *state;
    static const uint16_t fields[] = {1110};
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    start_engine(f);
    open_source(f);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, true);
    memcpy(f->plan.fields, fields, sizeof(fields));
    f->plan.n_fields = 1;
    dcgm_source_want(f->source, &f->plan);
    await_valid(f, DCGM_ENTITY_GPU, 0, 1001, false);
    await_valid(f, DCGM_ENTITY_CPU, 0, 1110, true);
}

static void test_an_engine_of_another_machine(void **state)
{
    struct fixture *f = *state;
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    f->plan.n_prof_gpus = 1;
    strcpy(f->plan.prof_gpus[0], "GPU-00000000-1111-2222-3333-444444444444");
    start_engine(f);
    open_source(f);
    await_problem(f, "another machine: it has GPU-");
}

// --- peers that are no engine ---

struct peer {
    const char *path;
    struct gs_slice answer; // to each connection; empty: none
    bool closes;
};

static void run_peer(void *arg)
{
    const struct peer *p = arg;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", p->path);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s, 8) < 0)
        _exit(1);
    for (;;) {
        int fd = accept(s, NULL, NULL);
        if (p->answer.len && send(fd, p->answer.data, p->answer.len, MSG_NOSIGNAL) < 0)
            _exit(1);
        if (p->closes)
            close(fd);
    }
}

static void expect_problem(struct fixture *f, struct gs_slice answer, bool closes, const char *text)
{
    struct peer p = {f->path, answer, closes};
    want_fields(f, ALL, GS_ARRAY_LEN(ALL));
    f->engine = start_child(run_peer, &p);
    open_source(f);
    await_problem(f, text);
    stop_engine(f, SIGKILL);
}

static void test_a_peer_that_is_silent(void **state)
{
    expect_problem(*state, (struct gs_slice){0}, false, "log in: the DCGM host engine does not");
}

static void test_a_peer_that_closes_each_connection(void **state)
{
    expect_problem(*state, (struct gs_slice){0}, true, "log in: ");
}

static void test_a_peer_of_another_protocol(void **state)
{
    expect_problem(*state, GS_SLICE("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), false,
                   "does not speak the protocol of DCGM");
}

static void test_a_peer_that_sends_notices_forever(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (int i = 0; i < 1000; i++)
        dcgm_wire_add_frame(&out, DCGM_WIRE_POLICY, 0, 0, GS_SLICE("notice"));
    expect_problem(*state, gs_buf_slice(&out), false, "log in: the DCGM host engine does not");
}

static void test_a_reply_with_another_message(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    union dcgm_wire_message m = {0};
    dcgm_wire_add(&out, DCGM_WIRE_WATCH, 1, DCGM_OK, &m, (struct gs_slice){0});
    expect_problem(*state, gs_buf_slice(&out), false, "log in: malformed message");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(test_values_of_all_entities),
        CASE(test_values_are_in_the_order_of_entities_and_of_the_plan),
        CASE(test_an_engine_that_ends_and_comes_back),
        CASE(test_groups_and_watches_are_made_again_after_a_restart),
        CASE(test_an_engine_that_hangs),
        CASE(test_profiling_that_is_paused),
        CASE(test_counters_of_another_owner),
        CASE(test_fields_that_an_old_engine_does_not_know_are_left_out),
        CASE(test_another_plan_on_the_same_engine),
        CASE(test_an_engine_of_another_machine),
        CASE(test_a_peer_that_is_silent),
        CASE(test_a_peer_that_closes_each_connection),
        CASE(test_a_peer_of_another_protocol),
        CASE(test_a_peer_that_sends_notices_forever),
        CASE(test_a_reply_with_another_message),
#undef CASE
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
