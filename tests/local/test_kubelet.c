// SPDX-License-Identifier: Apache-2.0
// Pods on the kubelet, with real processes and the real API server.
#include "local/kubelet/mounts.h"
#include "local/kubelet_fixture.h"

#include "base/file.h"
#include "base/num.h"
#include "unit.h"

#include <arpa/inet.h>
#include <sched.h>
#include <sys/wait.h>

static const char *running_pid_script(const struct fixture *f)
{
    static char script[256];
    snprintf(script, sizeof(script),
             "echo $$$$ > %s/pid.tmp; mv %s/pid.tmp %s/pid; exec sleep 1000", f->dir, f->dir,
             f->dir);
    return script;
}

static pid_t wait_pid_file(struct fixture *f, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", f->dir, name);
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        GS_AUTO_BUF struct gs_buf text = {0};
        int64_t pid;
        GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 64, &text);
        if (err || !text.len)
            continue;
        GS_AUTO_ERROR struct gs_error *bad =
            gs_parse_i64(gs_slice_trim(gs_buf_slice(&text)), 1, INT32_MAX, &pid);
        if (bad)
            continue;
        unlink(path);
        return (pid_t)pid;
    }
    fail_msg("no %s", path);
    return 0;
}

static void wait_file(struct fixture *f, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", f->dir, name);
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f))
        if (access(path, F_OK) == 0)
            return;
    fail_msg("no %s", path);
}

static void create_shell_pod(struct fixture *f, const char *name, const char *policy,
                             const char *script)
{
    GS_AUTO_FREE char *spec = gs_format(
        "'restartPolicy':'%s','terminationGracePeriodSeconds':5,'containers':[{'name':'c',"
        "'image':'any','command':['sh','-c','%s']}]",
        policy, script);
    create_pod(f, name, "", spec);
}

static void assert_condition(const json_t *pod, const char *type, const char *status)
{
    const json_t *c = kube_condition(pod, type);
    assert_non_null(c);
    assert_string_equal(codec_json_str(c, "status", NULL), status);
    assert_non_null(codec_json_str(c, "lastTransitionTime", NULL));
}

static void test_life_of_a_pod(void **state)
{
    struct fixture *f = *state;
    create_shell_pod(
        f, "p", "Always",
        "echo ip=$GPUSCALE_POD_IP host=$HOSTNAME ns=$GPUSCALE_POD_NAMESPACE "
        "c=$GPUSCALE_CONTAINER_NAME x=$EXTRA cuda=[$CUDA_VISIBLE_DEVICES]; exec sleep 1000");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "ready", is_ready, NULL);
    const char *ip = codec_json_str(pod, "status", "podIP", NULL);
    struct in_addr addr;
    assert_int_equal(inet_pton(AF_INET, ip, &addr), 1);
    assert_in_range(ntohl(addr.s_addr), 0x7f400001, 0x7f5ffefe);
    assert_string_equal(codec_json_str(pod, "status", "phase", NULL), "Running");
    assert_string_equal(codec_json_str(pod, "status", "hostIP", NULL), "127.0.0.1");
    assert_string_equal(codec_json_str(pod, "status", "qosClass", NULL), "BestEffort");
    assert_non_null(codec_json_str(pod, "status", "startTime", NULL));
    assert_condition(pod, "PodScheduled", "True");
    assert_condition(pod, "Initialized", "True");
    assert_condition(pod, "ContainersReady", "True");
    const json_t *c = container_status(pod, 0);
    assert_true(codec_json_bool(c, false, "ready", NULL));
    assert_true(codec_json_bool(c, false, "started", NULL));
    assert_int_equal(codec_json_int(c, -1, "restartCount", NULL), 0);
    assert_non_null(codec_json_str(c, "state", "running", "startedAt", NULL));
    assert_true(gs_starts(codec_json_str(c, "containerID", NULL), "gpuscale://"));

    GS_AUTO_FREE char *log = wait_log(f, "p", "cuda=[]\n");
    GS_AUTO_FREE char *want = gs_format("ip=%s host=p ns=default c=c x=from-up cuda=[]\n", ip);
    assert_string_equal(log, want);
    wait_event(f, "Pulled", "Container image \"any\" already present on machine");
    wait_event(f, "Created", "Created container: c");
    wait_event(f, "Started", "Started container c");

    delete_pod(f, "p", "");
    wait_pod_gone(f, "p");
    wait_event(f, "Killing", "Stopping container c");
    GS_AUTO_FREE char *files = gs_format("%s/containers/%s", f->dir, kube_uid(pod));
    for (int64_t end = gs_mono_ns() + WAIT_NS; access(files, F_OK) == 0; tick(f))
        assert_true(gs_mono_ns() < end);
}

// Whether this user may have a UTS namespace: in the user namespace of the mounts, or without one.
static bool may_set_hostname(void)
{
    int status = 1;
    GS_AUTO_ERROR struct gs_error *no_mounts = kubelet_mounts_check();
    if (!no_mounts)
        return true;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUTS) < 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

static void test_host_name_of_a_pod(void **state)
{
    struct fixture *f = *state;
    char machine[256] = "";
    gethostname(machine, sizeof(machine) - 1);
    create_shell_pod(f, "named", "Always", "echo host=$(uname -n); exec sleep 1000");
    GS_AUTO_FREE char *log = wait_log(f, "named", "\n");
    GS_AUTO_FREE char *want = gs_format("host=%s\n", may_set_hostname() ? "named" : machine);
    assert_string_equal(log, want);
}

static void test_gpus_of_a_container(void **state)
{
    struct fixture *f = *state;
    create_pod(
        f, "p", "'gpuscale.dev/gpus':'{\\\"c\\\":[\\\"GPU-aaa::1\\\",\\\"GPU-bbb\\\"]}'",
        "'containers':[{'name':'c','image':'any','env':[{'name':'CUDA_VISIBLE_DEVICES','value':"
        "'7'}],'resources':{'limits':{'nvidia.com/gpu':2}},'command':['sh','-c',"
        "'echo gpus=$CUDA_VISIBLE_DEVICES,$NVIDIA_VISIBLE_DEVICES; exec sleep 1000']}]");
    GS_AUTO_FREE char *log = wait_log(f, "p", "\n");
    assert_string_equal(log, "gpus=GPU-aaa,GPU-bbb,GPU-aaa,GPU-bbb\n");
}

static void test_gpus_that_are_gone_fail_the_pod(void **state)
{
    struct fixture *f = *state;
    create_pod(f, "p", "'gpuscale.dev/gpus':'{\\\"c\\\":[\\\"GPU-gone\\\"]}'",
               "'containers':[{'name':'c','image':'sleeper'}]");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "failed", has_phase, "Failed");
    assert_string_equal(codec_json_str(pod, "status", "reason", NULL), "UnexpectedAdmissionError");
    wait_event(f, "UnexpectedAdmissionError", "no longer has the GPUs");
}

static void test_an_image_without_a_command(void **state)
{
    struct fixture *f = *state;
    create_pod(f, "p", "", "'containers':[{'name':'c','image':'nowhere:1'}]");
    wait_event(f, "Failed",
               "Failed to pull image \"nowhere:1\": no command is mapped to this image here; start "
               "gpuscale up with --image 'nowhere:1=COMMAND'");
    wait_event(f, "Failed", "Error: ErrImagePull");
    wait_event(f, "NoSubstitute",
               "nothing runs in place of nowhere on this machine: start gpuscale up with --image "
               "'nowhere:*=COMMAND'");
    CODEC_AUTO_JSON json_t *pod =
        wait_pod(f, "p", "backing off", has_waiting_reason, "ImagePullBackOff");
    assert_string_equal(codec_json_str(pod, "status", "phase", NULL), "Pending");
    wait_event(f, "BackOff", "Back-off pulling image \"nowhere:1\"");
    AUTO_REPLY struct reply log = get_log(f, "p", "");
    assert_status(log, 400);
    assert_message(log,
                   "container \"c\" in pod \"p\" is waiting to start: trying and failing to pull");

    AUTO_REPLY struct reply patched =
        request_with(&f->h, "PATCH", "/api/v1/namespaces/default/pods/p",
                     "application/strategic-merge-patch+json", NULL,
                     "{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"sleeper\"}]}}");
    assert_status(patched, 200);
    await_pod(f, "p", "ready", is_ready, NULL);
    await_log(f, "p", "mapped\n");
}

static void test_args_are_added_to_a_mapped_command(void **state)
{
    struct fixture *f = *state;
    create_pod(
        f, "p", "",
        "'restartPolicy':'Never','containers':[{'name':'c','image':'echo/x:1','args':['$(A)',"
        "'two'],'env':[{'name':'A','value':'one'}]}]");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "succeeded", has_phase, "Succeeded");
    AUTO_REPLY struct reply log = get_log(f, "p", "");
    assert_string_equal(log.text, "prefix one two\n");
    assert_condition(pod, "Ready", "False");
    assert_string_equal(codec_json_str(kube_condition(pod, "Ready"), "reason", NULL),
                        "PodCompleted");
    assert_string_equal(
        codec_json_str(container_status(pod, 0), "state", "terminated", "reason", NULL),
        "Completed");
}

// As with --image 'my-api=sh app.sh': relative to where it was typed, args as well.
static void test_mapped_commands_run_where_up_was_started(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *script = gs_format("%s/app.sh", f->dir);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    fputs("echo \"$PWD $*\"; cat \"$0\"\n", file);
    fclose(file);
    create_pod(f, "p", "",
               "'restartPolicy':'Never','containers':[{'name':'c','image':'script:1','args':"
               "['app.sh']}]");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "succeeded", has_phase, "Succeeded");
    (void)pod;
    AUTO_REPLY struct reply log = get_log(f, "p", "");
    GS_AUTO_FREE char *want = gs_format("%s \necho \"$PWD", f->dir);
    assert_non_null(strstr(log.text, want));
}

static void assert_runs_in(struct fixture *f, const char *name, const char *container,
                           const char *want)
{
    GS_AUTO_FREE char *spec =
        gs_format("'restartPolicy':'Never','containers':[{'name':'c','image':'any','command':"
                  "['sh','-c','echo in:$PWD']%s}]",
                  container);
    create_pod(f, name, "", spec);
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, name, "succeeded", has_phase, "Succeeded");
    (void)pod;
    AUTO_REPLY struct reply log = get_log(f, name, "");
    assert_non_null(strstr(log.text, "in:"));
    assert_non_null(strstr(log.text, want));
}

static void test_the_working_directory_of_a_pod(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *sub = gs_format("%s/sub", f->dir);
    GS_AUTO_FREE char *of_sub = gs_format("in:%s\n", sub);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_runs_in(f, "own", "", "/pods/");
    assert_runs_in(f, "absolute", ",'workingDir':'/usr'", "in:/usr\n");
    assert_runs_in(f, "relative", ",'workingDir':'sub'", of_sub);
    GS_AUTO_ERROR struct gs_error *no_mounts = kubelet_mounts_check();
    assert_runs_in(f, "absent", ",'workingDir':'/no/such/dir'",
                   no_mounts ? "/pods/" : "in:/no/such/dir\n");
    if (no_mounts)
        wait_event(
            f, "WorkingDirNotFound",
            "Container c: workingDir /no/such/dir is not a directory of this machine that can "
            "be entered; it is ignored");
}

static void test_restart_policies(void **state)
{
    struct fixture *f = *state;
    create_shell_pod(f, "never", "Never", "exit 3");
    create_shell_pod(f, "on-failure", "OnFailure", "exit 0");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "never", "failed", has_phase, "Failed");
    const json_t *end = codec_json_get(container_status(pod, 0), "state", "terminated", NULL);
    assert_int_equal(codec_json_int(end, -1, "exitCode", NULL), 3);
    assert_string_equal(codec_json_str(end, "reason", NULL), "Error");
    assert_non_null(codec_json_str(end, "startedAt", NULL));
    CODEC_AUTO_JSON json_t *ok = wait_pod(f, "on-failure", "succeeded", has_phase, "Succeeded");
    assert_int_equal(codec_json_int(container_status(ok, 0), -1, "restartCount", NULL), 0);
    delete_pod(f, "never", "");
    wait_pod_gone(f, "never");
}

static void test_crash_loop(void **state)
{
    struct fixture *f = *state;
    create_shell_pod(f, "p", "Always", "echo attempt; exit 4");
    CODEC_AUTO_JSON json_t *pod =
        wait_pod(f, "p", "in a crash loop", has_waiting_reason, "CrashLoopBackOff");
    const json_t *c = container_status(pod, 0);
    assert_int_equal(codec_json_int(c, 0, "restartCount", NULL), 1);
    assert_int_equal(codec_json_int(c, 0, "lastState", "terminated", "exitCode", NULL), 4);
    GS_AUTO_FREE char *want =
        gs_format("back-off 10s restarting failed container=c pod=p_default(%s)", kube_uid(pod));
    assert_string_equal(codec_json_str(c, "state", "waiting", "message", NULL), want);
    assert_string_equal(codec_json_str(pod, "status", "phase", NULL), "Running");
    wait_event(f, "BackOff", "Back-off restarting failed container c in pod p_default(");
    AUTO_REPLY struct reply previous = get_log(f, "p", "?previous=true");
    assert_string_equal(previous.text, "attempt\n");
}

static void test_a_command_that_does_not_exist(void **state)
{
    struct fixture *f = *state;
    create_pod(f, "p", "",
               "'restartPolicy':'Never','containers':[{'name':'c','image':'any','command':['no-"
               "such-thing']}]");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "failed", has_phase, "Failed");
    const json_t *end = codec_json_get(container_status(pod, 0), "state", "terminated", NULL);
    assert_int_equal(codec_json_int(end, 0, "exitCode", NULL), 128);
    assert_string_equal(codec_json_str(end, "reason", NULL), "StartError");
    assert_string_equal(codec_json_str(end, "message", NULL),
                        "exec: \"no-such-thing\": executable file not found in $PATH");
    wait_event(f, "Failed", "Error: failed to start container \"c\": exec: \"no-such-thing\"");
}

static void test_a_file_in_the_path_that_is_no_program(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *file = gs_format("%s/no-program", f->dir);
    assert_ok(gs_file_write_atomic(file, 0644, GS_SLICE("text\n")));
    GS_AUTO_FREE char *text =
        gs_format("'restartPolicy':'Never','containers':[{'name':'c','image':'any','env':[{'name':"
                  "'PATH','value':'%s:/usr/bin:/bin'}],'command':['no-program']}]",
                  f->dir);
    create_pod(f, "p", "", text);
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "failed", has_phase, "Failed");
    const json_t *end = codec_json_get(container_status(pod, 0), "state", "terminated", NULL);
    assert_string_equal(codec_json_str(end, "message", NULL),
                        "exec: \"no-program\": executable file not found in $PATH");
}

static void test_the_program_is_in_a_path_with_a_space(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *folder = gs_format("%s/a b:c", f->dir);
    GS_AUTO_FREE char *exe = gs_format("%s/gpuscale", folder);
    GS_AUTO_FREE char *library = gs_format("%s/libgpuscale-podnet.so", folder);
    GS_AUTO_FREE char *built = gs_format("%.*s/../local/libgpuscale-podnet.so",
                                         (int)(strrchr(f->exe, '/') - f->exe), f->exe);
    GS_AUTO_BUF struct gs_buf content = {0};
    assert_ok(gs_mkdir_p(folder, 0700));
    assert_int_equal(symlink(f->exe, exe), 0);
    assert_ok(gs_file_read(built, (size_t)1 << 24, &content));
    assert_ok(gs_file_write_atomic(library, 0700, gs_buf_slice(&content)));
    fixture_stop(f, 200);
    fixture_end_kubelet(f);
    free(f->exe);
    f->exe = GS_TAKE(exe);
    fixture_start_kubelet(f);
    create_pod(f, "p", "",
               "'restartPolicy':'Never','containers':[{'name':'c','image':'any','command':['grep',"
               "'-m1','-o','libgpuscale-podnet','/proc/self/maps']}]");
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
    AUTO_REPLY struct reply log = get_log(f, "p", "");
    assert_string_equal(log.text, "libgpuscale-podnet\n");
}

static void test_a_killed_container_comes_back(void **state)
{
    struct fixture *f = *state;
    static const int once = 1;
    create_shell_pod(f, "p", "Always", running_pid_script(f));
    pid_t first = wait_pid_file(f, "pid");
    kill(first, SIGKILL);
    pid_t second = wait_pid_file(f, "pid");
    assert_int_not_equal(first, second);
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "restarted", has_restarts, &once);
    assert_int_equal(
        codec_json_int(container_status(pod, 0), 0, "lastState", "terminated", "exitCode", NULL),
        137);
    fixture_stop(f, 1000);
    wait_process_gone(f, second);
}

static pid_t parent_of(pid_t pid)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%d/stat", (int)pid);
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_null(gs_file_read(path, 4096, &text));
    return (pid_t)strtol(strrchr(text.data, ')') + 3, NULL, 10);
}

static void test_a_killed_supervisor_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *script =
        gs_format("(setsid sh -c \\\"echo \\\\$\\\\$ > %s/orphan.tmp; mv %s/orphan.tmp %s/orphan; "
                  "exec sleep 1000\\\" &); %s",
                  f->dir, f->dir, f->dir, running_pid_script(f));
    create_shell_pod(f, "p", "Always", script);
    pid_t first = wait_pid_file(f, "pid");
    pid_t orphan = wait_pid_file(f, "orphan");
    kill(parent_of(first), SIGKILL);
    wait_process_gone(f, first);
    wait_process_gone(f, orphan);
    assert_int_not_equal(wait_pid_file(f, "pid"), first);
}

static void test_init_containers_run_in_order(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *spec = gs_format(
        "'initContainers':[{'name':'one','image':'any','command':['sh','-c','while ! test -e "
        "%s/go; do sleep 0.02; done; touch %s/one']},"
        "{'name':'two','image':'any','command':['sh','-c','test -e %s/one && touch %s/two']}],"
        "'containers':[{'name':'c','image':'any','command':['sh','-c','test -e %s/two && echo "
        "both; exec sleep 1000']}]",
        f->dir, f->dir, f->dir, f->dir, f->dir);
    create_pod(f, "p", "", spec);
    CODEC_AUTO_JSON json_t *pod =
        wait_pod(f, "p", "initializing", has_waiting_reason, "PodInitializing");
    assert_string_equal(codec_json_str(pod, "status", "phase", NULL), "Pending");
    assert_condition(pod, "Initialized", "False");
    assert_string_equal(codec_json_str(kube_condition(pod, "Initialized"), "message", NULL),
                        "containers with incomplete status: [one two]");
    AUTO_REPLY struct reply waits = get_log(f, "p", "");
    assert_message(waits, "container \"c\" in pod \"p\" is waiting to start: PodInitializing");
    GS_AUTO_FREE char *go = gs_format("%s/go", f->dir);
    fclose(fopen(go, "w"));
    CODEC_AUTO_JSON json_t *ready = wait_pod(f, "p", "ready", is_ready, NULL);
    await_log(f, "p", "both\n");
    const json_t *init = codec_json_get(ready, "status", "initContainerStatuses", NULL);
    assert_string_equal(
        codec_json_str(json_array_get(init, 1), "state", "terminated", "reason", NULL),
        "Completed");
}

// More containers than are started in one turn of the loop.
static void test_a_pod_with_many_containers(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf spec = {0};
    gs_buf_add_str(&spec, "'restartPolicy':'Never','containers':[");
    for (int i = 0; i < 40; i++)
        gs_buf_addf(&spec, "%s{'name':'c%d','image':'any','command':['true']}", i ? "," : "", i);
    gs_buf_add_str(&spec, "]");
    create_pod(f, "p", "", spec.data);
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
}

static void test_a_failed_init_container_fails_the_pod(void **state)
{
    struct fixture *f = *state;
    create_pod(
        f, "p", "",
        "'restartPolicy':'Never','initContainers':[{'name':'i','image':'any','command':['false']}],"
        "'containers':[{'name':'c','image':'sleeper'}]");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "failed", has_phase, "Failed");
    assert_string_equal(
        codec_json_str(container_status(pod, 0), "state", "waiting", "reason", NULL),
        "PodInitializing");
}

static void test_a_sidecar_serves_until_the_end(void **state)
{
    struct fixture *f = *state;
    create_pod(
        f, "p", "",
        "'restartPolicy':'Never','terminationGracePeriodSeconds':1,'initContainers':[{'name':"
        "'side','image':'sleeper','restartPolicy':'Always'}],'containers':[{'name':'c','image':"
        "'any','command':['sh','-c','sleep 0.1']}]");
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
    const json_t *side = NULL;
    for (int64_t end = gs_mono_ns() + WAIT_NS; !side && gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply r = get_pod(f, "p");
        side = codec_json_get(
            json_array_get(codec_json_get(r.body, "status", "initContainerStatuses", NULL), 0),
            "state", "terminated", NULL);
    }
    assert_non_null(side);
}

static void test_graceful_termination(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *spec = gs_format(
        "'terminationGracePeriodSeconds':30,'containers':[{'name':'c','image':'any','lifecycle':"
        "{'preStop':{'exec':{'command':['sh','-c','touch %s/hook']}}},'command':['sh','-c',"
        "'trap \\\"test -e %s/hook && touch %s/bye; exit 0\\\" TERM; echo up; while :; do sleep "
        "0.02; "
        "done']}]",
        f->dir, f->dir, f->dir);
    create_pod(f, "p", "", spec);
    await_log(f, "p", "up\n");
    delete_pod(f, "p", "");
    wait_file(f, "bye");
    wait_pod_gone(f, "p");
}

// As nanoseconds the largest grace periods that the API takes do not fit.
static void test_a_huge_grace_period_ends_with_sigterm(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *spec = gs_format(
        "'terminationGracePeriodSeconds':9223372036854775807,'containers':[{'name':'c','image':"
        "'any','command':['sh','-c','trap \\\"touch %s/bye; exit 0\\\" TERM; echo up; while :; do "
        "sleep 0.02; done']}]",
        f->dir);
    create_pod(f, "p", "", spec);
    GS_AUTO_FREE char *log = wait_log(f, "p", "up\n");
    delete_pod(f, "p", "");
    wait_file(f, "bye");
    wait_pod_gone(f, "p");
}

static void test_termination_ends_with_a_kill(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *script =
        gs_format("trap \\\"\\\" TERM; echo $$$$ > %s/pid; while :; do sleep 0.02; done", f->dir);
    create_shell_pod(f, "p", "Always", script);
    pid_t pid = wait_pid_file(f, "pid");
    delete_pod(f, "p", "?gracePeriodSeconds=1");
    wait_pod_gone(f, "p");
    assert_true(process_is_gone(pid));
}

static void test_forced_deletion(void **state)
{
    struct fixture *f = *state;
    create_shell_pod(f, "p", "Always", running_pid_script(f));
    pid_t pid = wait_pid_file(f, "pid");
    delete_pod(f, "p", "?gracePeriodSeconds=0");
    AUTO_REPLY struct reply gone = get_pod(f, "p");
    assert_status(gone, 404);
    wait_process_gone(f, pid);
}

static void test_environment_from_a_config_map(void **state)
{
    struct fixture *f = *state;
    create_pod(f, "p", "",
               "'containers':[{'name':'c','image':'any','env':[{'name':'V','valueFrom':"
               "{'configMapKeyRef':{'name':'m','key':'k'}}}],'command':['sh','-c',"
               "'echo v=$V; exec sleep 1000']}]");
    CODEC_AUTO_JSON json_t *pod =
        wait_pod(f, "p", "refused", has_waiting_reason, "CreateContainerConfigError");
    assert_string_equal(
        codec_json_str(container_status(pod, 0), "state", "waiting", "message", NULL),
        "configmap \"m\" not found");
    wait_event(f, "Failed", "Error: configmap \"m\" not found");
    GS_AUTO_FREE char *body = requote(
        "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'m'},'data':{'k':'hello'}}");
    AUTO_REPLY struct reply r =
        request(&f->h, "POST", "/api/v1/namespaces/default/configmaps", body);
    assert_status(r, 201);
    await_log(f, "p", "v=hello\n");
}

static void test_a_replaced_kubelet_starts_containers_again(void **state)
{
    struct fixture *f = *state;
    static const int once = 1;
    create_shell_pod(f, "p", "Always", running_pid_script(f));
    create_shell_pod(f, "done", "Never", "exit 0");
    pid_t first = wait_pid_file(f, "pid");
    CODEC_AUTO_JSON json_t *before = wait_pod(f, "p", "ready", is_ready, NULL);
    await_pod(f, "done", "succeeded", has_phase, "Succeeded");
    fixture_end_kubelet(f);
    wait_process_gone(f, first);
    fixture_start_kubelet(f);
    pid_t second = wait_pid_file(f, "pid");
    assert_int_not_equal(first, second);
    CODEC_AUTO_JSON json_t *after = wait_pod(f, "p", "restarted", has_restarts, &once);
    assert_string_equal(codec_json_str(after, "status", "podIP", NULL),
                        codec_json_str(before, "status", "podIP", NULL));
    assert_string_equal(codec_json_str(after, "status", "startTime", NULL),
                        codec_json_str(before, "status", "startTime", NULL));
    AUTO_REPLY struct reply still = get_pod(f, "done");
    assert_string_equal(codec_json_str(still.body, "status", "phase", NULL), "Succeeded");
    assert_int_equal(codec_json_int(container_status(still.body, 0), -1, "restartCount", NULL), 0);
}

static const json_t *ephemeral_status(const json_t *pod, const char *name)
{
    size_t i;
    json_t *status;
    json_array_foreach (codec_json_get(pod, "status", "ephemeralContainerStatuses", NULL), i,
                        status)
        if (gs_streq(codec_json_str(status, "name", NULL), name))
            return status;
    return NULL;
}

static bool late_waits(const json_t *pod, const void *arg)
{
    const json_t *waiting = codec_json_get(ephemeral_status(pod, "late"), "state", "waiting", NULL);
    return gs_streq(codec_json_str(waiting, "message", NULL), arg);
}

static bool long_runs(const json_t *pod, const void *arg)
{
    (void)arg;
    return codec_json_get(ephemeral_status(pod, "long"), "state", "running", NULL) != NULL;
}

static bool both_ended(const json_t *pod, const void *arg)
{
    (void)arg;
    return codec_json_get(ephemeral_status(pod, "short"), "state", "terminated", NULL) &&
           codec_json_get(ephemeral_status(pod, "long"), "state", "terminated", NULL);
}

static void debug_pod(struct fixture *f, const char *container)
{
    GS_AUTO_FREE char *text = gs_format("{'spec':{'ephemeralContainers':[{%s}]}}", container);
    GS_AUTO_FREE char *body = requote(text);
    AUTO_REPLY struct reply r =
        request_with(&f->h, "PATCH", "/api/v1/namespaces/default/pods/p/ephemeralcontainers",
                     "application/strategic-merge-patch+json", NULL, body);
    assert_status(r, 200);
}

static void test_ephemeral_containers_run_once(void **state)
{
    struct fixture *f = *state;
    create_pod(f, "p", "",
               "'terminationGracePeriodSeconds':5,'initContainers':[{'name':'i','image':'any',"
               "'command':['sleep','1000']}],'containers':[{'name':'c','image':'any','command':"
               "['sleep','1000']}]");
    debug_pod(f, "'name':'late','image':'any','command':['true'],'targetContainerName':'c'");
    await_pod(f, "p", "waiting for its target", late_waits, "unable to find target container c");
    // A pod that initializes can be debugged, too.
    GS_AUTO_FREE char *script =
        gs_format("'name':'long','image':'any','command':['sh','-c','%s']", running_pid_script(f));
    debug_pod(f, script);
    pid_t pid = wait_pid_file(f, "pid");
    // A replaced kubelet knows from the status what it has started.
    await_pod(f, "p", "debugged", long_runs, NULL);
    debug_pod(f, "'name':'short','image':'any','command':['sh','-c','exit 3']");
    fixture_end_kubelet(f);
    wait_process_gone(f, pid);
    fixture_start_kubelet(f);
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "debugged", both_ended, NULL);
    const json_t *once = ephemeral_status(pod, "short");
    assert_int_equal(codec_json_int(once, 0, "restartCount", NULL), 0);
    assert_string_equal(codec_json_str(pod, "status", "phase", NULL), "Pending");
    delete_pod(f, "p", "");
    wait_pod_gone(f, "p");
}

static void test_one_kubelet_a_data_directory(void **state)
{
    struct fixture *f = *state;
    const struct local_kubelet_config cfg = {.self_exe = f->exe};
    struct kubelet *second = NULL;
    struct gs_error *err = kubelet_new(f->cluster, NULL, &cfg, &second);
    assert_non_null(err);
    assert_int_equal(gs_error_code(err), GS_EEXIST);
    assert_non_null(strstr(gs_error_message(err), "is in use by another gpuscale"));
    gs_error_free(err);
}

static void test_two_pods_listen_on_one_port(void **state)
{
    struct fixture *f = *state;
    if (system("python3 -c pass >/dev/null 2>&1") != 0)
        skip_because("python3 is not installed");
    GS_AUTO_FREE char *spec =
        requote("'terminationGracePeriodSeconds':1,'containers':[{'name':'c','image':'any','ports':"
                "[{'name':"
                "'web','containerPort':80}],'readinessProbe':{'httpGet':{'path':'/','port':'web'},"
                "'periodSeconds':1},'command':['python3','-m','http.server','80']}]");
    create_pod(f, "a", "", spec);
    create_pod(f, "b", "", spec);
    CODEC_AUTO_JSON json_t *a = wait_pod(f, "a", "ready", is_ready, NULL);
    CODEC_AUTO_JSON json_t *b = wait_pod(f, "b", "ready", is_ready, NULL);
    assert_string_not_equal(codec_json_str(a, "status", "podIP", NULL),
                            codec_json_str(b, "status", "podIP", NULL));
}

static void test_stop_ends_all(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *script =
        gs_format("trap \\\"\\\" TERM; echo $$$$ > %s/pid; while :; do sleep 0.02; done", f->dir);
    create_shell_pod(f, "stubborn", "Always", script);
    pid_t pid = wait_pid_file(f, "pid");
    fixture_stop(f, 100);
    assert_true(process_is_gone(pid));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        T(test_life_of_a_pod),
        T(test_host_name_of_a_pod),
        T(test_gpus_of_a_container),
        T(test_an_image_without_a_command),
        T(test_gpus_that_are_gone_fail_the_pod),
        T(test_args_are_added_to_a_mapped_command),
        T(test_mapped_commands_run_where_up_was_started),
        T(test_the_working_directory_of_a_pod),
        T(test_restart_policies),
        T(test_crash_loop),
        T(test_a_command_that_does_not_exist),
        T(test_a_file_in_the_path_that_is_no_program),
        T(test_the_program_is_in_a_path_with_a_space),
        T(test_a_killed_container_comes_back),
        T(test_a_killed_supervisor_leaves_nothing),
        T(test_init_containers_run_in_order),
        T(test_a_pod_with_many_containers),
        T(test_a_failed_init_container_fails_the_pod),
        T(test_a_sidecar_serves_until_the_end),
        T(test_graceful_termination),
        T(test_a_huge_grace_period_ends_with_sigterm),
        T(test_termination_ends_with_a_kill),
        T(test_forced_deletion),
        T(test_environment_from_a_config_map),
        T(test_a_replaced_kubelet_starts_containers_again),
        T(test_ephemeral_containers_run_once),
        T(test_one_kubelet_a_data_directory),
        T(test_two_pods_listen_on_one_port),
        T(test_stop_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
