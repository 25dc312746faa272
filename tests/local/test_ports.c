// SPDX-License-Identifier: Apache-2.0
#include "local/ports.h"

#include "base/mem.h"
#include "unit.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *parse(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);
    assert_non_null(v);
    return v;
}

static void assert_record(const char *pod_text, const char *want)
{
    CODEC_AUTO_JSON json_t *pod = parse(pod_text);
    GS_AUTO_FREE char *got = local_ports_of_pod(pod);
    if (want)
        assert_string_equal(got, want);
    else
        assert_null(got);
}

static void test_ports_stay_where_they_may_be_bound(void **state)
{
    (void)state;
    local_ports_set_first(0);
    assert_int_equal(local_host_port(80), 80);
    local_ports_set_first(80);
    assert_int_equal(local_host_port(80), 80);
    assert_int_equal(local_host_port(22), 8022);
    local_ports_set_first(1024);
    assert_int_equal(local_host_port(80), 8080);
    assert_int_equal(local_host_port(1024), 1024);
    assert_int_equal(local_host_port(0), 0);
}

static void test_a_pods_record(void **state)
{
    (void)state;
    local_ports_set_first(1024);
    assert_record("{\"spec\":{\"containers\":[{\"ports\":[{\"containerPort\":80},"
                  "{\"containerPort\":9400}]},{\"ports\":[{\"containerPort\":443}]}]}}",
                  "80=8080,443=8443");
    assert_record("{\"spec\":{\"containers\":[{\"ports\":[{\"containerPort\":8080}]}]}}", NULL);
    assert_record("{\"spec\":{\"containers\":[{}]}}", NULL);
    // One number with two protocols is one port of the record.
    assert_record("{\"spec\":{\"containers\":[{\"ports\":[{\"containerPort\":53},"
                  "{\"containerPort\":53,\"protocol\":\"UDP\"}]}]}}",
                  "53=8053");
    local_ports_set_first(0);
    assert_record("{\"spec\":{\"containers\":[{\"ports\":[{\"containerPort\":80}]}]}}", NULL);
}

static void test_a_moved_port_avoids_the_pods_other_ports(void **state)
{
    (void)state;
    local_ports_set_first(1024);
    assert_record("{\"spec\":{\"containers\":[{\"ports\":[{\"containerPort\":80}]},"
                  "{\"ports\":[{\"containerPort\":8080}]}],\"initContainers\":[{\"ports\":"
                  "[{\"containerPort\":81}]}]}}",
                  "80=16080,81=8081");
}

static void test_a_moved_port_avoids_the_services_other_ports(void **state)
{
    (void)state;
    local_ports_set_first(1024);
    CODEC_AUTO_JSON json_t *svc =
        parse("{\"spec\":{\"ports\":[{\"port\":80},{\"port\":8080},{\"port\":443}]}}");
    assert_int_equal(local_service_port(svc, 80), 16080);
    assert_int_equal(local_service_port(svc, 443), 8443);
    assert_int_equal(local_service_port(svc, 8080), 8080);
    assert_int_equal(local_service_port_after(svc, 8443), 16443);
    assert_int_equal(local_service_port_after(svc, 60000), 0);
}

static void test_the_record_is_what_counts(void **state)
{
    (void)state;
    local_ports_set_first(1024);
    assert_int_equal(local_port_by("80=16080", 80), 16080);
    assert_int_equal(local_port_by("80=16080", 443), 8443); // a port that nobody declared
    assert_int_equal(local_port_by(NULL, 8080), 8080);
    assert_int_equal(local_ports_lowest("443=8443,80=8080,8=8008"), 8);
    GS_AUTO_FREE char *remedy = local_ports_remedy(443);
    assert_non_null(strstr(remedy, "ip_unprivileged_port_start=80)"));
}

// An ordinary user whose program has the capability from its file: not inheritable, not ambient.
static void become_user_with_capability(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {0};
    caps[0].permitted = caps[0].effective = 1u << CAP_NET_BIND_SERVICE;
    if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setuid(65534) < 0 ||
        syscall(SYS_capset, &header, caps) < 0)
        _exit(77);
}

static void test_the_capability_is_passed_on(void **state)
{
    (void)state;
    if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_NET_BIND_SERVICE) != 1)
        skip_because("only root can give up all but one capability");
    pid_t pid = fork();
    if (pid == 0) {
        become_user_with_capability();
        local_ports_pass_on();
        // CapEff of a program without file capabilities.
        execl("/bin/sh", "sh", "-c", "grep -q '^CapEff:.*400$' /proc/self/status", (char *)NULL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 77)
        skip_because("the process cannot keep CAP_NET_BIND_SERVICE");
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ports_stay_where_they_may_be_bound),
        cmocka_unit_test(test_a_pods_record),
        cmocka_unit_test(test_a_moved_port_avoids_the_pods_other_ports),
        cmocka_unit_test(test_a_moved_port_avoids_the_services_other_ports),
        cmocka_unit_test(test_the_record_is_what_counts),
        cmocka_unit_test(test_the_capability_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
