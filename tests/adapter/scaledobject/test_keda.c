// SPDX-License-Identifier: Apache-2.0
// The converted autoscaler against KEDA's own code (tests/differential/keda): what its Prometheus
// scaler reads, the autoscaler that it creates, its fallback, and the replicas that it sets itself.
#include "adapter/scaledobject/sequences.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

// --- the program ---

struct peer {
    FILE *in, *out;
    pid_t pid;
};

// The path of the program, or the reason why it is missing. Caller frees.
static char *find_program(bool *ret_found)
{
    char line[512] = "";
    GS_AUTO_FREE char *command =
        gs_format("'%s/tests/e2e/keda-build.sh' --no-build differential 2>&1",
                  getenv("GPUSCALE_SOURCE_ROOT"));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    if (fgets(line, sizeof(line), f))
        line[strcspn(line, "\n")] = '\0';
    *ret_found = pclose(f) == 0;
    return gs_strdup(line);
}

static void peer_start(struct peer *p, const char *path)
{
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]);
        close(in[1]);
        close(out[0]);
        close(out[1]);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    p->in = fdopen(in[1], "w");
    p->out = fdopen(out[0], "r");
    char version[64];
    assert_non_null(fgets(version, sizeof(version), p->out));
}

static void peer_stop(struct peer *p)
{
    int status = 0;
    fclose(p->in);
    fclose(p->out);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    assert_int_equal(status, 0);
}

// New reference.
static json_t *peer_call(const struct peer *p, const json_t *request)
{
    GS_AUTO_FREE char *line = NULL;
    size_t size = 0;
    json_t *answer = NULL;
    GS_AUTO_FREE char *text = codec_json_text(request);
    fprintf(p->in, "%s\n", text);
    fflush(p->in);
    if (getline(&line, &size, p->out) <= 0)
        fail_msg("KEDA's program has ended");
    assert_ok(codec_json_parse(gs_slice_of(line), true, &answer));
    if (json_object_get(answer, "problem"))
        fail_msg("%s: %s", text, codec_json_str(answer, "problem", NULL));
    return answer;
}

// Begins with an object; the autoscaler that KEDA creates. New reference.
static json_t *peer_object(const struct peer *p, const json_t *object)
{
    CODEC_AUTO_JSON json_t *request = json_pack("{s:O}", "object", object);
    CODEC_AUTO_JSON json_t *answer = peer_call(p, request);
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:O}", "apiVersion", "autoscaling/v2", "kind",
                     "HorizontalPodAutoscaler", "metadata", "name", "keda-hpa", "namespace", "shop",
                     "spec", json_object_get(answer, "hpa"));
}

static json_t *sample_text(const struct trigger *t)
{
    char text[GS_DOUBLE_SIZE];
    return t->there ? json_string(gs_format_double(t->v, text)) : json_null();
}

// New reference.
static json_t *peer_step(const struct peer *p, const struct run *run, int64_t seconds,
                         int32_t replicas)
{
    CODEC_AUTO_JSON json_t *request = json_pack("{s:I, s:i, s:[]}", "seconds", (json_int_t)seconds,
                                                "replicas", (int)replicas, "samples");
    for (size_t i = 0; i < run->n; i++)
        json_array_append_new(json_object_get(request, "samples"), sample_text(&run->triggers[i]));
    return peer_call(p, request);
}

// --- the sequences ---

static int32_t compare_step(void *arg, const struct run *run, int64_t seconds, int32_t replicas)
{
    CODEC_AUTO_JSON json_t *answer = peer_step(arg, run, seconds, replicas);
    for (size_t i = 0; i < run->n; i++) {
        const struct trigger *t = &run->triggers[i];
        const json_t *read = json_array_get(json_object_get(answer, "triggers"), i);
        assert_int_equal(!json_object_get(read, "milli"), t->failed);
        assert_int_equal(codec_json_int(read, 0, "milli", NULL), t->failed ? 0 : t->milli);
        assert_int_equal(json_is_true(json_object_get(read, "active")), t->active);
    }
    return (int32_t)codec_json_int(answer, -1, "replicas", NULL);
}

// KEDA's API takes texts only; a manifest may have numbers.
static void make_texts(json_t *metadata)
{
    const char *key;
    json_t *value;
    json_object_foreach (metadata, key, value) {
        GS_AUTO_FREE char *text = json_is_string(value) ? NULL : codec_json_text(value);
        if (text)
            json_object_set_new(metadata, key, json_string(text));
    }
}

// Without what depends on time or on the number of failures: other tests have these.
static json_t *timeless(const json_t *object)
{
    size_t i;
    json_t *t;
    json_t *copy = json_deep_copy(object), *spec = json_object_get(copy, "spec");
    json_object_set_new(spec, "cooldownPeriod", json_integer(0));
    json_object_del(spec, "initialCooldownPeriod");
    json_object_del(spec, "fallback");
    json_array_foreach (json_object_get(spec, "triggers"), i, t)
        make_texts(json_object_get(t, "metadata"));
    return copy;
}

static void run_row(struct peer *p, json_t *row, uint64_t seed, size_t *done)
{
    struct run run = {.seed = seed, .keda = compare_step, .arg = p};
    CODEC_AUTO_JSON json_t *object = timeless(json_object_get(row, "object"));
    if (json_object_get(row, "want") || !read_triggers(object, &run))
        return;
    CODEC_AUTO_JSON json_t *theirs = peer_object(p, object);
    start(object, theirs, &run);
    run_sequence(&run);
    stop(&run);
    ++*done;
}

static void test_decisions_are_those_of_kedas_code_for_1000_sequences(void **state)
{
    CODEC_AUTO_JSON json_t *rows = load_rows();
    size_t done = 0;
    for (size_t i = 0; done < SEQUENCES; i = (i + 1) % json_array_size(rows))
        run_row(*state, json_array_get(rows, i), done + 1, &done);
}

// --- fallback, and the time until zero ---

static json_t *object_with(json_int_t min, const char *more)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:{s:{s:s}, s:I, s:i, s:[{s:s, s:{s:s, s:s, s:s, s:s}}]}}",
        "apiVersion", "keda.sh/v1alpha1", "kind", "ScaledObject", "metadata", "name", "a",
        "namespace", "shop", "spec", "scaleTargetRef", "name", "a", "minReplicaCount", min,
        "maxReplicaCount", 9, "triggers", "type", "prometheus", "metadata", "serverAddress",
        "http://p", "query", "q", "threshold", "5", "ignoreNullValues", "false");
    CODEC_AUTO_JSON json_t *fields = json_loads(more, 0, NULL);
    assert_non_null(fields);
    json_object_update(json_object_get(object, "spec"), fields);
    return object;
}

// Both have the replicas of the fallback after its failures and 180 s. KEDA has them earlier.
static void test_the_fallback_is_that_of_keda(void **state)
{
    struct run run = {0};
    CODEC_AUTO_JSON json_t *object =
        object_with(1, "{\"fallback\": {\"failureThreshold\": 3, \"replicas\": 6}}");
    struct hpa_history *histories[2] = {hpa_history_new(), hpa_history_new()};
    assert_true(read_triggers(object, &run));
    CODEC_AUTO_JSON json_t *theirs = peer_object(*state, object);
    start(object, theirs, &run);
    for (int64_t i = 0; i < 16; i++) {
        struct observed values[2];
        struct hpa_decision d[2];
        CODEC_AUTO_JSON json_t *answer = peer_step(*state, &run, i * 15, 2);
        const json_t *read = json_array_get(json_object_get(answer, "triggers"), 0);
        const json_t *milli = json_object_get(read, "milli");
        assert_int_equal(milli != NULL, i >= 3);
        put_value(&values[0], 0, false, 0);
        put_value(&values[1], 0, milli != NULL, json_integer_value(milli));
        decide(&run.ours, &values[0], 2, histories[0], T0_MS + i * SYNC_MS, &d[0]);
        decide(&run.theirs, &values[1], 2, histories[1], T0_MS + i * SYNC_MS, &d[1]);
        assert_int_equal(d[1].proposal, i >= 3 ? 6 : -1);
        if (i >= 13)
            assert_int_equal(d[0].proposal, d[1].proposal);
        hpa_decision_finish(&d[0]);
        hpa_decision_finish(&d[1]);
    }
    hpa_history_free(histories[0]);
    hpa_history_free(histories[1]);
    stop(&run);
}

// docs/scaledobjects.md states these differences: KEDA's executor holds the replicas for the
// cooldown period, keeps them on an error, and begins with one replica, or with idleReplicaCount at
// least the minimum.
static void test_the_executor_of_keda(void **state)
{
    static const struct {
        json_int_t min;
        const char *fields;
        const char *sample; // NULL: none
        int64_t seconds;
        int32_t replicas, want;
    } steps[] = {
        {0, "{\"cooldownPeriod\": 60}", "20", 0, 0, 1}, // wakes with one
        {0, NULL, "0", 30, 4, 4},                       // cools down
        {0, NULL, "0", 59, 4, 4},                       //
        {0, NULL, NULL, 90, 4, 4},                      // an error is not inactivity
        {0, NULL, "0", 90, 4, 0},                       // to zero
        {0, NULL, NULL, 100, 0, 0},                     //
        {2, "{\"idleReplicaCount\": 0, \"cooldownPeriod\": 0}", "0", 10, 3, 0},
        {2, NULL, "20", 20, 0, 2},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(steps); i++) {
        double v = 0;
        struct run run = {.n = 1};
        if (steps[i].fields) {
            CODEC_AUTO_JSON json_t *object = object_with(steps[i].min, steps[i].fields);
            json_decref(peer_object(*state, object));
        }
        if (steps[i].sample)
            assert_ok(gs_parse_double(gs_slice_of(steps[i].sample), &v));
        run.triggers[0] = (struct trigger){.v = v, .there = steps[i].sample};
        CODEC_AUTO_JSON json_t *answer =
            peer_step(*state, &run, steps[i].seconds, steps[i].replicas);
        assert_int_equal(codec_json_int(answer, -1, "replicas", NULL), steps[i].want);
    }
}

// --- main ---

static int start_peer(void **state)
{
    static struct peer peer;
    bool found = false;
    GS_AUTO_FREE char *path = find_program(&found);
    if (!found) {
        printf("skipped: %s\n", path);
        exit(77);
    }
    peer_start(&peer, path);
    *state = &peer;
    return 0;
}

static int stop_peer(void **state)
{
    peer_stop(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_are_those_of_kedas_code_for_1000_sequences),
        cmocka_unit_test(test_the_fallback_is_that_of_keda),
        cmocka_unit_test(test_the_executor_of_keda),
    };
    return cmocka_run_group_tests(tests, start_peer, stop_peer);
}
