// SPDX-License-Identifier: Apache-2.0
// Server-side printing: the cells that kubectl shows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "local/api/table.h"

static int64_t now_ms;

static json_t *parse(const char *text)
{
    json_t *j = NULL;
    GS_AUTO_FREE char *json = gs_strdup(text);

    for (char *c = json; *c; c++)
        if (*c == '\'')
            *c = '"';
    struct gs_error *err = codec_json_parse(gs_slice_of(json), true, &j);
    if (err)
        fail_msg("%s", gs_error_message(err));
    return j;
}

// The cells of an object, joined by "|", numbers as text. Caller frees.
static char *cells_of(const struct local_api_table *t, const char *object)
{
    CODEC_AUTO_JSON json_t *obj = parse(object);
    CODEC_AUTO_JSON json_t *cells = json_array();
    struct gs_buf out = {0};
    size_t i, n = 0;
    json_t *cell;

    t->add_cells(obj, cells, now_ms);
    for (const struct local_api_column *c = t->columns; c->name; c++)
        n++;
    assert_int_equal(json_array_size(cells), n);
    json_array_foreach (cells, i, cell) {
        gs_buf_add_str(&out, i ? "|" : "");
        if (json_is_string(cell))
            gs_buf_add_str(&out, json_string_value(cell));
        else
            codec_json_dump(cell, &out);
    }
    return gs_buf_take(&out);
}

static void assert_cells(const struct local_api_table *t, const char *object, const char *want)
{
    GS_AUTO_FREE char *got = cells_of(t, object);
    assert_string_equal(got, want);
}

#define META "'metadata':{'name':'p','creationTimestamp':'2026-01-01T00:00:00Z'}"
#define GONE                                                                                       \
    "'metadata':{'name':'p','creationTimestamp':'2026-01-01T00:00:00Z',"                           \
    "'deletionTimestamp':'2026-01-01T00:00:30Z'}"
#define SPEC "'spec':{'containers':[{'name':'c'}]}"
#define STATE(phase, state)                                                                        \
    "{" META "," SPEC ",'status':{'phase':'" phase "',"                                            \
    "'containerStatuses':[{'name':'c'," state "}]}}"
#define TAIL "|<none>|<none>|<none>|<none>"

static void test_pods_have_one_word(void **state)
{
    static const struct {
        const char *object, *want;
    } cases[] = {
        {"{" META "," SPEC ",'status':{'phase':'Pending'}}", "p|0/1|Pending|0|10s" TAIL},
        {STATE("Running", "'ready':true,'state':{'running':{}}"), "p|1/1|Running|0|10s" TAIL},
        {STATE("Running", "'ready':false,'state':{'running':{}}"), "p|0/1|Running|0|10s" TAIL},
        {STATE("Pending", "'state':{'waiting':{'reason':'ContainerCreating'}}"),
         "p|0/1|ContainerCreating|0|10s" TAIL},
        {STATE("Running", "'restartCount':3,'state':{'waiting':{'reason':'CrashLoopBackOff'}},"
                          "'lastState':{'terminated':{'finishedAt':'2026-01-01T00:00:05Z'}}"),
         "p|0/1|CrashLoopBackOff|3 (5s ago)|10s" TAIL},
        {STATE("Succeeded", "'state':{'terminated':{'reason':'Completed','exitCode':0}}"),
         "p|0/1|Completed|0|10s" TAIL},
        {STATE("Failed", "'state':{'terminated':{'reason':'Error','exitCode':2}}"),
         "p|0/1|Error|0|10s" TAIL},
        {STATE("Failed", "'state':{'terminated':{'exitCode':2}}"), "p|0/1|ExitCode:2|0|10s" TAIL},
        {STATE("Failed", "'state':{'terminated':{'exitCode':137,'signal':9}}"),
         "p|0/1|Signal:9|0|10s" TAIL},
        {"{" GONE "," SPEC ",'status':{'phase':'Running'}}", "p|0/1|Terminating|0|10s" TAIL},
        {"{" META ",'spec':{'initContainers':[{'name':'i'},{'name':'j'}],'containers':[{}]},"
         "'status':{'phase':'Pending','initContainerStatuses':[{'name':'i','state':{'terminated':"
         "{'exitCode':0}}},{'name':'j','state':{'running':{}}}]}}",
         "p|0/1|Init:1/2|0|10s" TAIL},
        {"{" META ",'spec':{'initContainers':[{'name':'i'}],'containers':[{}]},'status':{'phase':"
         "'Pending','initContainerStatuses':[{'name':'i','state':{'waiting':{'reason':"
         "'CrashLoopBackOff'}}}]}}",
         "p|0/1|Init:CrashLoopBackOff|0|10s" TAIL},
        {"{" META ",'spec':{'nodeName':'n','containers':[{}]},'status':{'phase':'Failed','reason':"
         "'Evicted','podIP':'127.64.0.1'}}",
         "p|0/1|Evicted|0|10s|127.64.0.1|n|<none>|<none>"},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        assert_cells(&local_api_table_pods, cases[i].object, cases[i].want);
}

static void test_services_show_where_they_listen(void **state)
{
    assert_cells(&local_api_table_services,
                 "{" META
                 ",'spec':{'type':'ClusterIP','clusterIP':'127.96.0.1','ports':[{'port':80,"
                 "'protocol':'TCP'}],'selector':{'b':'2','a':'1'}}}",
                 "p|ClusterIP|127.96.0.1|<none>|80/TCP|10s|a=1,b=2");
    assert_cells(&local_api_table_services,
                 "{" META
                 ",'spec':{'type':'LoadBalancer','clusterIP':'127.96.0.1','ports':[{'port':"
                 "80,'nodePort':30000,'protocol':'TCP'}]}}",
                 "p|LoadBalancer|127.96.0.1|<pending>|80:30000/TCP|10s|<none>");
    assert_cells(&local_api_table_services,
                 "{'metadata':{'name':'p','creationTimestamp':'2026-01-01T00:00:00Z','annotations':"
                 "{'gpuscale.dev/address':'127.97.0.1:80'}},'spec':{'type':'LoadBalancer','ports':"
                 "[{'port':80}]},'status':{'loadBalancer':{'ingress':[{'ip':'127.97.0.1'}]}}}",
                 "p|LoadBalancer|<none>|127.97.0.1|80/TCP|10s|<none>");
    assert_cells(&local_api_table_services,
                 "{'metadata':{'name':'p','creationTimestamp':'2026-01-01T00:00:00Z','annotations':"
                 "{'gpuscale.dev/address':'127.97.0.1:8080,127.97.0.1:9000',"
                 "'gpuscale.dev/ports':'80=8080'}},'spec':{'type':'LoadBalancer','ports':"
                 "[{'port':80,'nodePort':30000},{'port':9000}]},'status':{'loadBalancer':{'ingress'"
                 ":[{'ip':'127.97.0.1'}]}}}",
                 "p|LoadBalancer|<none>|127.97.0.1|8080:30000/TCP,9000/TCP|10s|<none>");
    assert_cells(&local_api_table_services,
                 "{" META ",'spec':{'type':'ExternalName','externalName':'a.b'}}",
                 "p|ExternalName|<none>|a.b|<none>|10s|<none>");
}

static void test_endpoints_are_counted(void **state)
{
    assert_cells(&local_api_table_endpoints, "{" META "}", "p|<none>|10s");
    assert_cells(&local_api_table_endpoints,
                 "{" META ",'subsets':[{'addresses':[{'ip':'1'},{'ip':'2'}],'ports':[{'port':80},"
                 "{'port':81}]}]}",
                 "p|1:80,1:81,2:80 + 1 more...|10s");
}

#define HPA(metrics, current)                                                                      \
    "{" META ",'spec':{'scaleTargetRef':{'kind':'Deployment','name':'d'},'minReplicas':1,"         \
    "'maxReplicas':9,'metrics':[" metrics                                                          \
    "]},'status':{'currentReplicas':2,'currentMetrics':[" current "]}}"
#define PODS_METRIC                                                                                \
    "{'type':'Pods','pods':{'metric':{'name':'m'},'target':{'type':"                               \
    "'AverageValue','averageValue':'20'}}}"
#define CPU_METRIC                                                                                 \
    "{'type':'Resource','resource':{'name':'cpu','target':{'type':"                                \
    "'Utilization','averageUtilization':80}}}"

static void test_autoscalers_show_targets(void **state)
{
    assert_cells(&local_api_table_hpas, HPA("", ""), "p|Deployment/d|<none>|1|9|2|10s");
    assert_cells(&local_api_table_hpas, HPA(PODS_METRIC, ""),
                 "p|Deployment/d|<unknown>/20|1|9|2|10s");
    assert_cells(&local_api_table_hpas,
                 HPA(PODS_METRIC, "{'type':'Pods','pods':{'current':{'averageValue':'12'}}}"),
                 "p|Deployment/d|12/20|1|9|2|10s");
    assert_cells(&local_api_table_hpas,
                 HPA(CPU_METRIC, "{'type':'Resource','resource':{'current':{'averageUtilization':"
                                 "40,'averageValue':'1'}}}"),
                 "p|Deployment/d|cpu: 40%/80%|1|9|2|10s");
    assert_cells(&local_api_table_hpas, HPA(CPU_METRIC "," PODS_METRIC "," PODS_METRIC, ""),
                 "p|Deployment/d|cpu: <unknown>/80%, <unknown>/20 + 1 more...|1|9|2|10s");
    assert_cells(&local_api_table_hpas,
                 HPA("{'type':'Object','object':{'target':{'type':'AverageValue','averageValue':"
                     "'7'}}}",
                     "{'type':'Object','object':{'current':{'averageValue':'4500m'}}}"),
                 "p|Deployment/d|4500m/7 (avg)|1|9|2|10s");
    assert_cells(&local_api_table_hpas,
                 HPA("{'type':'External','external':{'target':{'type':'Value','value':'7'}}}",
                     "{'type':'External','external':{'current':{'value':'3'}}}"),
                 "p|Deployment/d|3/7|1|9|2|10s");
}

static void test_events_tell_when_and_what(void **state)
{
    assert_cells(&local_api_table_events,
                 "{" META ",'type':'Normal','reason':'R','message':' text\\n','count':3,"
                 "'firstTimestamp':'2026-01-01T00:00:00Z','lastTimestamp':'2026-01-01T00:00:08Z',"
                 "'involvedObject':{'kind':'Pod','name':'x','fieldPath':'f'},'source':{'component':"
                 "'kubelet','host':'h'}}",
                 "2s|Normal|R|pod/x|f|kubelet, h|text|10s|3|p");
}

static void test_durations_read_like_kubectls(void **state)
{
    static const struct {
        int64_t seconds;
        const char *want;
    } cases[] = {
        {0, "0s"},           {119, "119s"},          {120, "2m"},
        {185, "3m5s"},       {600, "10m"},           {52 * 60, "52m"},
        {179 * 60, "179m"},  {180 * 60, "3h"},       {200 * 60, "3h20m"},
        {8 * 3600, "8h"},    {47 * 3600, "47h"},     {48 * 3600, "2d"},
        {76 * 3600, "3d4h"}, {9 * 86400, "9d"},      {729 * 86400, "729d"},
        {730 * 86400, "2y"}, {800 * 86400, "2y70d"}, {3000 * 86400, "8y"},
        {-10, "<invalid>"},
    };
    char buf[LOCAL_API_AGE_SIZE];

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        assert_string_equal(local_api_format_duration(cases[i].seconds * 1000, buf), cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_have_one_word),
        cmocka_unit_test(test_services_show_where_they_listen),
        cmocka_unit_test(test_endpoints_are_counted),
        cmocka_unit_test(test_autoscalers_show_targets),
        cmocka_unit_test(test_events_tell_when_and_what),
        cmocka_unit_test(test_durations_read_like_kubectls),
    };

    assert_null(gs_parse_rfc3339(GS_SLICE("2026-01-01T00:00:10Z"), &now_ms));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
