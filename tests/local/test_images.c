// SPDX-License-Identifier: Apache-2.0
// Image names to commands, and the environment of a container.
#include "base/clock.h"
#include "base/mem.h"
#include "local/kubelet/images.h"
#include "local/kubelet/podenv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static json_t *json(const char *text)
{
    json_t *j = NULL;
    assert_null(codec_json_parse(gs_slice_of(text), true, &j));
    return j;
}

static void assert_words(const struct kubelet_words *w, const char *joined)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < w->len; i++)
        gs_buf_addf(&text, "%s[%s]", i ? " " : "", w->items[i]);
    assert_string_equal(text.len ? text.data : "", joined);
}

static void assert_split(const char *text, const char *joined)
{
    struct kubelet_words w = {0};
    assert_null(kubelet_split_words(text, &w));
    assert_words(&w, joined);
    kubelet_words_finish(&w);
}

static void test_split(void **state)
{
    (void)state;
    assert_split("", "");
    assert_split("  a  b\tc\n", "[a] [b] [c]");
    assert_split("a 'b c' \"d e\"", "[a] [b c] [d e]");
    assert_split("a'b'\"c\"d", "[abcd]");
    assert_split("'' \"\"", "[] []");
    assert_split("a\\ b 'x\\y' \"x\\y \\\" \\\\\"", "[a b] [x\\y] [x\\y \" \\]");
    struct kubelet_words w = {0};
    struct gs_error *err = kubelet_split_words("a 'b", &w);
    assert_non_null(err);
    assert_string_equal(gs_error_message(err), "a quote is not closed in: a 'b");
    gs_error_free(err);
}

static const struct local_image map[] = {
    {"nginx", "/bin/nginx -g 'daemon off;'"},
    {"nginx*", "/bin/other"},
    {"registry.example/*", "/bin/short"},
    {"registry.example/ai/*", "/bin/long"},
};

static struct kubelet_images *make_map(void)
{
    struct kubelet_images *m = NULL;
    assert_null(kubelet_images_new("/opt/bin/gpuscale", map, GS_ARRAY_LEN(map), &m));
    return m;
}

static void assert_argv(const struct kubelet_images *m, const char *container, const char *joined)
{
    CODEC_AUTO_JSON json_t *c = json(container);
    struct kubelet_words w = {0};
    assert_null(kubelet_images_argv(m, c, &w));
    assert_words(&w, joined);
    kubelet_words_finish(&w);
}

static void test_which_entry(void **state)
{
    (void)state;
    struct kubelet_images *m = make_map();
    assert_words(kubelet_images_find(m, "nginx"), "[/bin/nginx] [-g] [daemon off;]");
    assert_words(kubelet_images_find(m, "nginx:1.2"), "[/bin/other]");
    assert_words(kubelet_images_find(m, "registry.example/x"), "[/bin/short]");
    assert_words(kubelet_images_find(m, "registry.example/ai/x"), "[/bin/long]");
    assert_null(kubelet_images_find(m, "mystery"));
    kubelet_images_free(m);
}

static void test_command_and_args(void **state)
{
    (void)state;
    struct kubelet_images *m = make_map();
    assert_argv(m, "{\"image\":\"nginx\"}", "[/bin/nginx] [-g] [daemon off;]");
    assert_argv(m, "{\"image\":\"nginx\",\"args\":[\"-v\"]}",
                "[/bin/nginx] [-g] [daemon off;] [-v]");
    assert_argv(m, "{\"image\":\"nginx\",\"command\":[\"sh\"]}", "[sh]");
    assert_argv(m, "{\"image\":\"any\",\"command\":[\"sh\"],\"args\":[\"-c\",\"x y\"]}",
                "[sh] [-c] [x y]");
    CODEC_AUTO_JSON json_t *c = json("{\"image\":\"mystery\",\"args\":[\"x\"]}");
    struct kubelet_words w = {0};
    struct gs_error *err = kubelet_images_argv(m, c, &w);
    assert_int_equal(gs_error_code(err), GS_ENOTFOUND);
    assert_string_equal(
        gs_error_message(err),
        "Failed to pull image \"mystery\": no command is mapped to this image here; "
        "start gpuscale up with --image 'mystery=COMMAND'");
    gs_error_free(err);
    kubelet_images_free(m);
}

static void assert_substitute(const char *image, const char *text)
{
    const struct kubelet_substitute *s = kubelet_substitute(kubelet_substitute_index(image));
    assert_string_equal(s ? s->text : "", text);
}

static void test_the_built_in_table(void **state)
{
    (void)state;
    static const char load[] = "gpu-load, which loads its GPU", exporter[] = "gpuscale exporter";
    assert_substitute("nvcr.io/nvidia/k8s/dcgm-exporter:2.3.5-2.6.5-ubuntu20.04", exporter);
    assert_substitute("localhost:5000/dcgm-exporter@sha256:abc", exporter);
    assert_substitute("dcgm-exporter", exporter);
    assert_substitute("my/dcgm-exporter-config:1", "");
    assert_substitute("k8s.gcr.io/cuda-vector-add:v0.1", load);
    assert_substitute("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04", load);
    assert_substitute("nvidia/samples:dcgmproftester-2.0.10-cuda11.0-ubuntu18.04", load);
    assert_substitute("registry.cn-hangzhou.aliyuncs.com/ai-samples/bert-intent-detection:1.0.1",
                      "the example service intent-api");
    assert_substitute("docker.io/library/busybox:1.36", "the tools of this machine");
    assert_substitute("registry.k8s.io/pause:3.9", "sleep");
    assert_substitute("", "");
    assert_substitute("/:@", "");
}

static void assert_role(const char *image, const char *role)
{
    const struct kubelet_substitute *s = kubelet_substitute(kubelet_substitute_index(image));
    GS_AUTO_FREE char *command = gs_format("gpuscale pod-standin %s", role);
    if (!s || !gs_streq(s->command, command))
        fail_msg("%s: \"%s\" instead of \"%s\"", image, s ? s->command : "", command);
    assert_true(kubelet_substitute_is_standin(s));
}

static void test_images_of_charts_have_roles(void **state)
{
    static const char *const cases[][2] = {
        {"ghcr.io/jkroepke/kube-webhook-certgen:1.8.7", "certgen"},
        {"k8s.gcr.io/ingress-nginx/kube-webhook-certgen:v1.1.1@sha256:ab", "certgen"},
        {"quay.io/prometheus-operator/prometheus-operator:v0.93.1", "prometheus-operator"},
        {"docker.io/bitnamilegacy/prometheus-operator:0.70", "prometheus-operator"},
        {"quay.io/prometheus-operator/admission-webhook:v0.93.1", "prometheus-operator"},
        {"quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1", "config-reloader"},
        {"jimmidyson/configmap-reload:v0.5.0", "config-reloader"},
        {"quay.io/prometheus/prometheus:v3.14.0-distroless", "prometheus"},
        {"prom/prometheus", "prometheus"},
        {"docker.io/bitnami/prometheus:2", "prometheus"},
        {"mirror.example:5000/team/prometheus/prometheus:v2", "prometheus"},
        {"quay.io/prometheus/alertmanager:v0.34.0", "alertmanager"},
        {"prom/alertmanager:v0.25.0", "alertmanager"},
        {"quay.io/prometheus/node-exporter:v1.12.1-distroless", "node-exporter"},
        {"registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.20.0", "kube-state-metrics"},
        {"docker.io/grafana/grafana:13.2.0", "grafana"},
        {"grafana/grafana-oss", "grafana"},
        {"quay.io/kiwigrid/k8s-sidecar:2.10.1", "k8s-sidecar"},
        {"registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0", "prometheus-adapter"},
        {"directxman12/k8s-prometheus-adapter-amd64:v0.7.0", "prometheus-adapter"},
        {"registry.cn-beijing.aliyuncs.com/acs/alibaba-cloud-metrics-adapter-amd64:v0.2",
         "prometheus-adapter"},
        {"registry.k8s.io/metrics-server/metrics-server:v0.8.1", "metrics-server"},
        {"k8s.gcr.io/metrics-server-amd64:v0.3.6", "metrics-server"},
        {"registry.k8s.io/autoscaling/addon-resizer:1.8.20", "sleep"},
        {"quay.io/brancz/kube-rbac-proxy:v0.20", "kube-rbac-proxy"},
        {"nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "device-plugin"},
        {"nvidia/k8s-device-plugin:1.11", "device-plugin"},
        {"gke.gcr.io/nvidia-gpu-device-plugin@sha256:cd", "device-plugin"},
        {"nvcr.io/nvidia/gpu-operator:main-latest", "gpu-operator"},
        {"nvcr.io/nvidia/cloud-native/gpu-operator-validator:v26", "sleep"},
        {"nvcr.io/nvidia/driver:570", "sleep"},
        {"registry.k8s.io/nfd/node-feature-discovery:v0.18.3", "nfd"},
        {"registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0", "cluster-autoscaler"},
        {"registry.k8s.io/ingress-nginx/controller:v1.15.1@sha256:ef", "ingress-nginx"},
        {"vllm/vllm-openai:v0.12.0", "vllm"},
        {"mirror.example:5000/lmcache/vllm-openai-nightly:1", "vllm"},
        {"rocm/vllm", "vllm"},
        {"lmsysorg/sglang:v0.5.9-cu126", "sglang"},
        {"public.ecr.aws/eks/aws-load-balancer-controller:v2", "ingress-nginx"},
    };
    static const char *const others[] = {"my/driver:1",       "prometheus:1",
                                         "team/controller:1", "jetstack/cert-manager-webhook",
                                         "alertmanager",      "my/prometheus/exporter"};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        assert_role(cases[i][0], cases[i][1]);
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        assert_substitute(others[i], "");
}

// A chart's own command is replaced only if it runs a program of the image.
static void test_own_commands_of_images_with_a_stand_in(void **state)
{
    static const char asleep[] = "{\"image\":\"quay.io/prometheus/prometheus:v3\","
                                 "\"command\":[\"sleep\",\"3600\"]}";
    struct kubelet_images *m = NULL;
    (void)state;
    assert_null(kubelet_images_new("/opt/bin/gpuscale", NULL, 0, &m));
    assert_argv(m, "{\"image\":\"prom/prometheus\",\"args\":[\"--config.file=/x\"]}",
                "[/opt/bin/gpuscale] [pod-standin] [prometheus] [--config.file=/x]");
    assert_argv(m, asleep, "[sleep] [3600]");
    assert_argv(m,
                "{\"image\":\"x/cluster-autoscaler:1\",\"command\":[\"./cluster-autoscaler\","
                "\"--v=4\"],\"args\":[\"--nodes=1\"]}",
                "[/opt/bin/gpuscale] [pod-standin] [cluster-autoscaler] [./cluster-autoscaler] "
                "[--v=4] [--nodes=1]");
    assert_argv(m, "{\"image\":\"x/nfd/node-feature-discovery:1\",\"command\":[\"nfd-worker\"]}",
                "[/opt/bin/gpuscale] [pod-standin] [nfd] [nfd-worker]");
    CODEC_AUTO_JSON json_t *own = json(asleep),
                           *none = json("{\"image\":\"quay.io/prometheus/prometheus:v3\"}");
    assert_null(kubelet_images_substitute_of(m, own));
    assert_non_null(kubelet_images_substitute_of(m, none));
    kubelet_images_free(m);
}

// A shell or Python counts as the engine if it runs one.
static void test_scripts_with_an_engine_have_a_stand_in(void **state)
{
    static const char *const engines[] = {
        "{\"image\":\"vllm/vllm-openai\",\"command\":[\"/bin/sh\",\"-c\"],"
        "\"args\":[\"vllm serve m\"]}",
        "{\"image\":\"vllm/vllm-openai\",\"command\":[\"vllm\",\"serve\",\"m\"]}",
        "{\"image\":\"vllm/vllm-openai\",\"command\":[\"python3\",\"-m\","
        "\"vllm.entrypoints.openai.api_server\"]}",
        "{\"image\":\"lmsysorg/sglang\",\"command\":[\"python3\"],"
        "\"args\":[\"-m\",\"sglang.launch_server\"]}",
    };
    static const char *const others[] = {
        "{\"image\":\"vllm/vllm-openai\",\"command\":[\"sh\",\"-c\",\"sleep 9\"]}",
        "{\"image\":\"vllm/vllm-openai\",\"command\":[\"cat\",\"vllm\"]}",
        "{\"image\":\"ubuntu\",\"command\":[\"sh\",\"-c\",\"vllm serve m\"]}",
    };
    struct kubelet_images *m = NULL;
    (void)state;
    assert_null(kubelet_images_new("/opt/bin/gpuscale", NULL, 0, &m));
    for (size_t i = 0; i < GS_ARRAY_LEN(engines); i++) {
        CODEC_AUTO_JSON json_t *c = json(engines[i]);
        assert_true(kubelet_substitute_is_standin(kubelet_images_substitute_of(m, c)));
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++) {
        CODEC_AUTO_JSON json_t *c = json(others[i]);
        assert_false(kubelet_substitute_is_standin(kubelet_images_substitute_of(m, c)));
    }
    kubelet_images_free(m);
}

static void test_commands_of_driver_installers_are_dropped(void **state)
{
    struct kubelet_images *m = NULL;
    (void)state;
    assert_null(kubelet_images_new("/opt/bin/gpuscale", NULL, 0, &m));
    CODEC_AUTO_JSON json_t *c = json(
        "{\"image\":\"gcr.io/cos-cloud/cos-gpu-installer:v2\",\"command\":[\"/cos-gpu-installer\","
        "\"install\"],\"args\":[\"-x\"]}");
    struct kubelet_words w = {0};
    assert_null(kubelet_images_argv(m, c, &w));
    assert_int_equal(w.len, 3);
    assert_string_equal(w.items[1], "-c");
    assert_non_null(strstr(w.items[2], "nothing is installed"));
    kubelet_words_finish(&w);
    kubelet_images_free(m);
}

// --image wins over stand-ins, and a container's own command over --image, as ever.
static void test_mapped_images_have_no_stand_in(void **state)
{
    static const struct local_image mine = {"prom/prometheus*", "/bin/mine"};
    struct kubelet_images *m = NULL;
    (void)state;
    assert_null(kubelet_images_new("/opt/bin/gpuscale", &mine, 1, &m));
    assert_argv(m, "{\"image\":\"prom/prometheus:v1\",\"args\":[\"-v\"]}", "[/bin/mine] [-v]");
    assert_argv(m, "{\"image\":\"prom/prometheus:v1\",\"command\":[\"prometheus\"]}",
                "[prometheus]");
    kubelet_images_free(m);
}

static void test_hints_for_images_without_anything(void **state)
{
    (void)state;
    assert_non_null(strstr(kubelet_absent_hint("ghcr.io/kedacore/keda:2.20.2"), "Prometheus"));
    assert_non_null(strstr(kubelet_absent_hint("public.ecr.aws/karpenter/controller:1"), "--pool"));
    assert_string_equal(kubelet_absent_hint("quay.io/jetstack/cert-manager-webhook:v1"), "");
}

static void test_older_exporters_write_hostname_with_a_capital(void **state)
{
    static const struct {
        const char *image, *label;
    } cases[] = {{"nvcr.io/nvidia/k8s/dcgm-exporter:2.3.5-2.6.5-ubuntu20.04", "Hostname"},
                 {"dcgm-exporter:4.5.3-4.8.2-distroless", "Hostname"},
                 {"dcgm-exporter:4.5.4-4.8.3", ""},
                 {"dcgm-exporter:10.0.0", ""},
                 {"dcgm-exporter", ""},
                 {"dcgm-exporter:latest", ""},
                 {"dcgm-exporter:4.5", ""},
                 {"my/dcgm-exporter-config:1.2.3", ""}};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const char *label = kubelet_substitute_hostname_label(cases[i].image);
        assert_string_equal(label ? label : "", cases[i].label);
    }
}

static void test_args_of_images_without_an_entry_point(void **state)
{
    (void)state;
    struct kubelet_images *m = NULL;
    assert_null(kubelet_images_new("/opt/bin/gpuscale", NULL, 0, &m));
    assert_argv(m, "{\"image\":\"busybox\"}", "[sh]");
    assert_argv(m, "{\"image\":\"busybox\",\"args\":[\"ls\",\"-l\"]}", "[ls] [-l]");
    assert_argv(m, "{\"image\":\"a/dcgm-exporter:1\",\"args\":[\"-c\",\"1000\"]}",
                "[/opt/bin/gpuscale] [exporter] [-c] [1000]");
    assert_null(kubelet_images_substitute(m, "torchvision")); // intent-api is not installed there
    kubelet_images_free(m);
}

static void test_bad_map(void **state)
{
    (void)state;
    const struct local_image empty = {"x", "  "}, open_quote = {"x", "a \"b"};
    struct kubelet_images *m = NULL;
    struct gs_error *err = kubelet_images_new("/bin/true", &empty, 1, &m);
    assert_string_equal(gs_error_message(err), "--image x: the command is empty");
    gs_error_free(err);
    err = kubelet_images_new("/bin/true", &open_quote, 1, &m);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    gs_error_free(err);
}

static void test_programs_beside_ours(void **state)
{
    (void)state;
    char dir[] = "/tmp/gpuscale-images-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *bin = gs_format("%s/src/cmd", dir);
    GS_AUTO_FREE char *command =
        gs_format("mkdir -p %s %s/examples/api && touch %s/tool %s/examples/api/api && "
                  "chmod +x %s/tool %s/examples/api/api",
                  bin, dir, bin, dir, bin, dir);
    assert_int_equal(system(command), 0);
    GS_AUTO_FREE char *self = gs_format("%s/gpuscale", bin);
    GS_AUTO_FREE char *tool = gs_format("%s/tool", bin);
    GS_AUTO_FREE char *api = gs_format("%s/examples/api/api", dir);
    GS_AUTO_FREE char *found_tool = kubelet_find_program(self, "tool");
    GS_AUTO_FREE char *found_api = kubelet_find_program(self, "examples/api/api");
    GS_AUTO_FREE char *plain = kubelet_find_program(self, "python3");
    assert_string_equal(found_tool, tool);
    assert_string_equal(found_api, api);
    assert_string_equal(plain, "python3");
    GS_AUTO_FREE char *clean = gs_format("rm -rf %s", dir);
    assert_int_equal(system(clean), 0);
}

static void test_expansion(void **state)
{
    (void)state;
    struct kubelet_env env = {0};
    kubelet_env_set(&env, "A", "1");
    kubelet_env_set(&env, "AB", "2");
    kubelet_env_set(&env, "A", "3");
    static const char *const cases[][2] = {
        {"$(A)", "3"},          {"x$(AB)y", "x2y"}, {"$(NOPE)", "$(NOPE)"}, {"$$(A)", "$(A)"},
        {"$A ${A}", "$A ${A}"}, {"$(A", "$(A"},     {"100$", "100$"},       {"$$", "$"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *got = NULL;
        assert_null(kubelet_env_expand(&env, cases[i][0], &got));
        assert_string_equal(got, cases[i][1]);
    }
    assert_words(&env.words, "[A=3] [AB=2]");
    kubelet_env_finish(&env);
}

static void assert_limit(struct gs_error *err, const char *text)
{
    assert_int_equal(gs_error_code(err), GS_ELIMIT);
    assert_non_null(strstr(gs_error_message(err), text));
    gs_error_free(err);
}

// Caller frees.
static char *repeat(const char *text, size_t n)
{
    struct gs_buf out = {0};
    for (size_t i = 0; i < n; i++)
        gs_buf_add_str(&out, text);
    return gs_buf_take(&out);
}

static void test_expansion_ends_at_the_limit_of_a_word(void **state)
{
    (void)state;
    GS_CLEANUP(kubelet_env_finish) struct kubelet_env env = {0};
    GS_AUTO_FREE char *kib = repeat("x", 1024), *fits = repeat("$(A)", 127),
                      *too_long = repeat("$(A)", 128), *result = NULL;
    kubelet_env_set(&env, "A", kib);
    kubelet_env_set(&env, "NOTHING", "");
    assert_null(kubelet_env_expand(&env, fits, &result));
    assert_int_equal(strlen(result), 127 * 1024);
    char *unchanged = NULL;
    assert_limit(kubelet_env_expand(&env, too_long, &unchanged), "131071 bytes");
    assert_limit(kubelet_env_expand_strictly(&env, too_long, &unchanged), "131071 bytes");
    GS_CLEANUP(kubelet_words_finish) struct kubelet_words words = {0}, expanded = {0};
    kubelet_words_add(&words, "sh");
    kubelet_words_add(&words, too_long);
    assert_limit(kubelet_env_expand_words(&env, &words, &expanded), "word 2 of the command");
    assert_null(unchanged);
}

static void test_all_words_of_a_command_have_a_limit(void **state)
{
    (void)state;
    GS_CLEANUP(kubelet_env_finish) struct kubelet_env env = {0};
    GS_CLEANUP(kubelet_words_finish) struct kubelet_words words = {0}, expanded = {0};
    GS_AUTO_FREE char *kib = repeat("x", 1024), *long_word = repeat("$(A)", 100);
    kubelet_env_set(&env, "A", kib);
    for (int i = 0; i < 21; i++)
        kubelet_words_add(&words, long_word);
    assert_limit(kubelet_env_expand_words(&env, &words, &expanded), "the command has more than");
}

static void test_the_environment_has_a_limit(void **state)
{
    (void)state;
    GS_AUTO_FREE char *kib = repeat("x", 1000), *word = repeat(kib, 131);
    GS_CLEANUP(kubelet_env_finish) struct kubelet_env env = {0};
    for (int i = 0; i < 100; i++) // replaced each time: only one counts
        kubelet_env_set(&env, "SAME", word);
    assert_null(kubelet_env_take_error(&env));
    for (int i = 0; i < 16; i++) {
        GS_AUTO_FREE char *name = gs_format("A%d", i);
        kubelet_env_set(&env, name, word);
    }
    assert_limit(kubelet_env_take_error(&env), "environment variable A15: the environment");
    assert_null(kubelet_env_get(&env, "A15"));
    assert_non_null(kubelet_env_get(&env, "A14"));
    GS_AUTO_FREE char *longer = gs_format("%s%s", word, kib);
    kubelet_env_set(&env, "SAME", longer);
    assert_limit(kubelet_env_take_error(&env), "environment variable SAME has");
    assert_int_equal(strlen(kubelet_env_get(&env, "SAME")), strlen(word));
}

static const char pod_text[] =
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"u-1\",\"labels\":{\"app\":\"x\"},"
    "\"annotations\":{\"gpuscale.dev/gpus\":\"{\\\"c\\\":[\\\"GPU-a::0\\\",\\\"GPU-a::1\\\","
    "\\\"GPU-b\\\"]}\"}},\"spec\":{\"nodeName\":\"n1\"}}";

static struct gs_error *build(const char *container, const char *sources, struct kubelet_env *env)
{
    CODEC_AUTO_JSON json_t *pod = json(pod_text);
    CODEC_AUTO_JSON json_t *c = json(container);
    CODEC_AUTO_JSON json_t *s = json(sources);
    CODEC_AUTO_JSON json_t *node = json("{\"status\":{\"allocatable\":{\"cpu\":\"8\"}}}");
    struct kubelet_env_context ctx = {
        .pod = pod, .container = c, .pod_ip = "127.64.0.9", .node = node, .sources = s};
    return kubelet_env_add_spec(env, &ctx);
}

static void test_downward_api(void **state)
{
    (void)state;
    struct kubelet_env env = {0};
    assert_null(build(
        "{\"resources\":{\"limits\":{\"memory\":\"1536Mi\"},\"requests\":{\"cpu\":\"250m\"}},"
        "\"env\":["
        "{\"name\":\"A\",\"value\":\"one\"},{\"name\":\"B\",\"value\":\"$(A)-$(IP)\"},"
        "{\"name\":\"IP\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"status.podIP\"}}},"
        "{\"name\":\"C\",\"value\":\"$(A)-$(IP)\"},"
        "{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}},"
        "{\"name\":\"NODE\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"spec.nodeName\"}}},"
        "{\"name\":\"L\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.labels['app']\"}}},"
        "{\"name\":\"M\",\"valueFrom\":{\"resourceFieldRef\":{\"resource\":\"limits.memory\","
        "\"divisor\":\"1Gi\"}}},"
        "{\"name\":\"CPU\",\"valueFrom\":{\"resourceFieldRef\":{\"resource\":\"requests.cpu\","
        "\"divisor\":\"1m\"}}},"
        "{\"name\":\"ALL\",\"valueFrom\":{\"resourceFieldRef\":{\"resource\":\"limits.cpu\"}}}]}",
        "{}", &env));
    assert_words(&env.words,
                 "[A=one] [B=one-$(IP)] [IP=127.64.0.9] [C=one-127.64.0.9] [N=p] [NODE=n1] "
                 "[L=x] [M=2] [CPU=250] [ALL=8]");
    kubelet_env_finish(&env);
}

static void test_config_maps_and_secrets(void **state)
{
    (void)state;
    static const char container[] =
        "{\"envFrom\":[{\"prefix\":\"P_\",\"configMapRef\":{\"name\":\"m\"}}],\"env\":["
        "{\"name\":\"S\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"k\"}}},"
        "{\"name\":\"O\",\"valueFrom\":{\"configMapKeyRef\":{\"name\":\"x\",\"key\":\"k\","
        "\"optional\":true}}}]}";
    CODEC_AUTO_JSON json_t *c = json(container);
    CODEC_AUTO_JSON json_t *refs = json_object();
    kubelet_env_references(c, refs);
    assert_int_equal(json_object_size(refs), 3);
    assert_non_null(json_object_get(refs, "secrets/s"));

    struct kubelet_env env = {0};
    assert_null(build(container,
                      "{\"configmaps/m\":{\"data\":{\"a\":\"1\",\"b\":\"2\"}},"
                      "\"secrets/s\":{\"data\":{\"k\":\"aGVsbG8=\"}},\"configmaps/x\":null}",
                      &env));
    assert_words(&env.words, "[P_a=1] [P_b=2] [S=hello]");
    kubelet_env_finish(&env);

    struct gs_error *err = build(container, "{\"configmaps/m\":null}", &env);
    assert_string_equal(gs_error_message(err), "configmap \"m\" not found");
    gs_error_free(err);
    err = build(container, "{\"configmaps/m\":{},\"secrets/s\":{\"data\":{}}}", &env);
    assert_string_equal(gs_error_message(err), "couldn't find key k in Secret ns/s");
    gs_error_free(err);
    kubelet_env_finish(&env);
}

// A container that names one ConfigMap thousands of times was read to its end at each try.
static void test_the_rest_of_an_environment_over_the_limit_is_not_read(void **state)
{
    (void)state;
    struct kubelet_env env = {0};
    GS_AUTO_FREE char *source =
        gs_format("{\"configmaps/m\":{\"data\":{\"a\":\"%0200000d\"}},\"configmaps/n\":null}", 0);
    struct gs_error *err =
        build("{\"envFrom\":[{\"configMapRef\":{\"name\":\"m\"}},{\"configMapRef\":"
              "{\"name\":\"n\"}}]}",
              source, &env);
    assert_limit(err, "environment variable a has");
    kubelet_env_finish(&env);
}

static void test_gpus(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *pod = json(pod_text);
    GS_AUTO_FREE char *c = kubelet_env_gpus(pod, "c");
    GS_AUTO_FREE char *other = kubelet_env_gpus(pod, "d");
    assert_string_equal(c, "GPU-a,GPU-b");
    assert_string_equal(other, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_which_entry),
        cmocka_unit_test(test_command_and_args),
        cmocka_unit_test(test_the_built_in_table),
        cmocka_unit_test(test_images_of_charts_have_roles),
        cmocka_unit_test(test_own_commands_of_images_with_a_stand_in),
        cmocka_unit_test(test_scripts_with_an_engine_have_a_stand_in),
        cmocka_unit_test(test_commands_of_driver_installers_are_dropped),
        cmocka_unit_test(test_mapped_images_have_no_stand_in),
        cmocka_unit_test(test_hints_for_images_without_anything),
        cmocka_unit_test(test_older_exporters_write_hostname_with_a_capital),
        cmocka_unit_test(test_args_of_images_without_an_entry_point),
        cmocka_unit_test(test_bad_map),
        cmocka_unit_test(test_programs_beside_ours),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_expansion_ends_at_the_limit_of_a_word),
        cmocka_unit_test(test_all_words_of_a_command_have_a_limit),
        cmocka_unit_test(test_the_environment_has_a_limit),
        cmocka_unit_test(test_downward_api),
        cmocka_unit_test(test_config_maps_and_secrets),
        cmocka_unit_test(test_the_rest_of_an_environment_over_the_limit_is_not_read),
        cmocka_unit_test(test_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
