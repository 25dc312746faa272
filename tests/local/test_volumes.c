// SPDX-License-Identifier: Apache-2.0
// Volumes of pods, with real processes and the real API server. Tests of mounts are skipped where
// the machine allows no mount namespaces.
#include "local/kubelet_fixture.h"

#include "base/file.h"
#include "local/kubelet/mounts.h"
#include "unit.h"

static void require_mounts(void)
{
    GS_AUTO_ERROR struct gs_error *err = kubelet_mounts_check();
    if (err)
        skip_because("%s", gs_error_message(err));
}

static void create(struct fixture *f, const char *plural, const char *json)
{
    GS_AUTO_FREE char *path = gs_format("/api/v1/namespaces/default/%s", plural);
    GS_AUTO_FREE char *body = requote(json);
    AUTO_REPLY struct reply r = request(&f->h, "POST", path, body);
    assert_status(r, 201);
}

// A pod with the volumes, whose container c has the mounts and runs the script.
static void create_volume_pod(struct fixture *f, const char *name, const char *volumes,
                              const char *mounts, const char *script)
{
    GS_AUTO_FREE char *spec = gs_format(
        "'restartPolicy':'Never','terminationGracePeriodSeconds':1,'volumes':[%s],'containers':[{"
        "'name':'c','image':'any','volumeMounts':[%s],'command':['sh','-c','%s']}]",
        volumes, mounts, script);
    create_pod(f, name, "", spec);
}

static void expect_log(struct fixture *f, const char *name, const char *want)
{
    await_pod(f, name, "succeeded", has_phase, "Succeeded");
    AUTO_REPLY struct reply r = get_log(f, name, "");
    assert_string_equal(r.text, want);
}

static void test_a_config_map_at_paths_that_the_machine_lacks(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create(f, "configmaps",
           "{'metadata':{'name':'counters'},'data':{'a.csv':'1','b.csv':'2'},'binaryData':{'raw':"
           "'/wA='}}");
    create_volume_pod(
        f, "p", "{'name':'v','configMap':{'name':'counters','defaultMode':292}}",
        "{'name':'v','mountPath':'/etc/gpuscale-test-csv'},"
        "{'name':'v','mountPath':'/gpuscale-test/deep/a.csv','subPath':'a.csv'}",
        "cd /etc/gpuscale-test-csv && ls && cat a.csv && stat -L -c %a b.csv && od -An -tx1 raw && "
        "cat /gpuscale-test/deep/a.csv && test -e /etc/passwd && readlink a.csv");
    expect_log(f, "p", "a.csv\nb.csv\nraw\n1444\n ff 00\n1..data/a.csv\n");
    assert_int_equal(access("/etc/gpuscale-test-csv", F_OK), -1);
    assert_int_equal(access("/gpuscale-test", F_OK), -1);
}

static void test_selected_keys_of_a_secret(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create(f, "secrets", "{'metadata':{'name':'s'},'data':{'user':'YWxpY2U=','other':'eA=='}}");
    create_volume_pod(f, "p",
                      "{'name':'v','secret':{'secretName':'s','items':[{'key':'user','path':"
                      "'deep/name','mode':256}]}}",
                      "{'name':'v','mountPath':'/gpuscale-test','readOnly':true}",
                      "cd /gpuscale-test; ls; cat deep/name; stat -L -c %a deep/name; "
                      "(echo x > y) 2> /dev/null || echo read-only");
    expect_log(f, "p", "deep\nalice400\nread-only\n");
}

static void test_a_missing_config_map_delays_the_pod(void **state)
{
    struct fixture *f = *state;
    create_volume_pod(f, "p", "{'name':'v','configMap':{'name':'late'}}", "", "echo started");
    wait_event(f, "FailedMount",
               "MountVolume.SetUp failed for volume \"v\" : configmap \"late\" not found");
    CODEC_AUTO_JSON json_t *pod =
        wait_pod(f, "p", "waiting", has_waiting_reason, "ContainerCreating");
    create(f, "configmaps", "{'metadata':{'name':'late'},'data':{}}");
    expect_log(f, "p", "started\n");
}

static void test_a_missing_key(void **state)
{
    struct fixture *f = *state;
    create(f, "configmaps", "{'metadata':{'name':'m'},'data':{'a':'1'}}");
    create_volume_pod(
        f, "p", "{'name':'v','configMap':{'name':'m','items':[{'key':'b','path':'b'}]}}", "", "");
    wait_event(f, "FailedMount", "configmap references non-existent config key: b");
    create_volume_pod(f, "q",
                      "{'name':'v','configMap':{'name':'m','optional':true,'items':[{'key':'b',"
                      "'path':'b'}]}},{'name':'w','secret':{'secretName':'none','optional':true}}",
                      "", "echo started");
    expect_log(f, "q", "started\n");
}

// 700 names of one value of 100 kB, in two volumes of one pod: 70 MB.
static void test_files_of_a_pod_have_a_limit(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *map = gs_format("{'metadata':{'name':'m'},'data':{'a':'%0100000d'}}", 0);
    create(f, "configmaps", map);
    GS_AUTO_BUF struct gs_buf items = {0};
    for (int i = 0; i < 350; i++)
        gs_buf_addf(&items, "%s{'key':'a','path':'f%d'}", i ? "," : "", i);
    GS_AUTO_FREE char *volumes =
        gs_format("{'name':'v','configMap':{'name':'m','items':[%s]}},"
                  "{'name':'w','projected':{'sources':[{'configMap':{'name':'m','items':[%s]}}]}}",
                  items.data, items.data);
    create_volume_pod(f, "p", volumes, "", "echo started");
    wait_event(f, "FailedMount",
               "MountVolume.SetUp failed for volume \"w\" : the files of the pod's volumes are "
               "larger than the limit, which is 64 MiB, with 4096 bytes for each file");
    create_volume_pod(f, "q", "{'name':'v','configMap':{'name':'m'}}", "", "echo started");
    expect_log(f, "q", "started\n");
    CODEC_AUTO_JSON json_t *pod =
        wait_pod(f, "p", "waiting", has_waiting_reason, "ContainerCreating");
}

static void test_updates_reach_the_folder(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create(f, "configmaps", "{'metadata':{'name':'m'},'data':{'a':'one','gone':''}}");
    create_volume_pod(f, "p", "{'name':'v','configMap':{'name':'m'}}",
                      "{'name':'v','mountPath':'/gpuscale-test'}",
                      "cd /gpuscale-test; echo started; until grep -q two a; do sleep 0.1; done; "
                      "while test -e gone; do sleep 0.1; done; ls");
    await_log(f, "p", "started");
    AUTO_REPLY struct reply r =
        request(&f->h, "PUT", "/api/v1/namespaces/default/configmaps/m",
                "{\"metadata\":{\"name\":\"m\"},\"data\":{\"a\":\"two\",\"b\":\"\"}}");
    assert_status(r, 200);
    expect_log(f, "p", "started\na\nb\n");
}

// As the worker of node-feature-discovery has them.
static void test_mounts_in_a_read_only_config_map(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create(f, "configmaps", "{'metadata':{'name':'m'},'data':{'a':'one'}}");
    create_volume_pod(
        f, "p", "{'name':'v','configMap':{'name':'m'}},{'name':'w','emptyDir':{}}",
        "{'name':'w','mountPath':'/gpuscale-test/features.d/deep'},"
        "{'name':'v','mountPath':'/gpuscale-test/file','subPath':'a'},"
        "{'name':'v','mountPath':'/gpuscale-test','readOnly':true}",
        "cd /gpuscale-test; touch features.d/deep/x; find features.d; cat file; echo; echo started;"
        " until grep -q two a; do sleep 0.1; done; ls features.d/deep");
    await_log(f, "p", "features.d\nfeatures.d/deep\nfeatures.d/deep/x\none\nstarted");
    AUTO_REPLY struct reply r = request(&f->h, "PUT", "/api/v1/namespaces/default/configmaps/m",
                                        "{\"metadata\":{\"name\":\"m\"},\"data\":{\"a\":\"two\"}}");
    assert_status(r, 200);
    expect_log(f, "p", "features.d\nfeatures.d/deep\nfeatures.d/deep/x\none\nstarted\nx\n");
}

static void test_containers_share_an_empty_dir(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_pod(f, "p", "",
               "'restartPolicy':'Never','volumes':[{'name':'v','emptyDir':{}}],'initContainers':[{"
               "'name':'i','image':'any','volumeMounts':[{'name':'v','mountPath':'/gpuscale-a'}],"
               "'command':['sh','-c','echo made > /gpuscale-a/file']}],'containers':[{'name':'c',"
               "'image':'any','env':[{'name':'SUB','value':'logs'}],'workingDir':'/gpuscale-b',"
               "'volumeMounts':[{'name':'v','mountPath':'/gpuscale-b'},{'name':'v','mountPath':"
               "'/gpuscale-c','subPathExpr':'$(SUB)/x'}],'command':['sh','-c','cat file; "
               "echo > /gpuscale-c/y; find logs; stat -c %a .']}]");
    expect_log(f, "p", "made\nlogs\nlogs/x\nlogs/x/y\n777\n");
}

static void test_host_paths(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    GS_AUTO_FREE char *volumes = gs_format(
        "{'name':'here','hostPath':{'path':'%s','type':'Directory'}},{'name':'sockets','hostPath':{"
        "'path':'/var/lib/kubelet/pod-resources'}},{'name':'new','hostPath':{'path':"
        "'/gpuscale-test-new/x','type':'DirectoryOrCreate'}}",
        f->dir);
    create_volume_pod(
        f, "p", volumes,
        "{'name':'here','mountPath':'/host'},{'name':'sockets','mountPath':"
        "'/var/lib/kubelet/pod-resources'},{'name':'new','mountPath':'/new'}",
        "test -d /host/pods; test -S "
        "/var/lib/kubelet/pod-resources/podresources.sock && touch /new/y && echo ok");
    expect_log(f, "p", "ok\n");
    assert_int_equal(access("/gpuscale-test-new", F_OK), -1);
    GS_AUTO_FREE char *file = gs_format("%s/host/gpuscale-test-new/x/y", f->dir);
    assert_int_equal(access(file, F_OK), 0);
}

static void test_folders_of_a_kubelet_exist(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_volume_pod(
        f, "p",
        "{'name':'a','hostPath':{'path':'/var/lib/kubelet/device-plugins','type':'Directory'}},"
        "{'name':'b','hostPath':{'path':'/var/lib/kubelet','type':'Directory'}},"
        "{'name':'c','hostPath':{'path':'/etc/kubernetes/manifests','type':'Directory'}},"
        "{'name':'d','hostPath':{'path':'/var/log/pods/','type':'Directory'}}",
        "{'name':'a','mountPath':'/var/lib/kubelet/device-plugins'},{'name':'b','mountPath':"
        "'/gpuscale-test'}",
        "test -d /var/lib/kubelet/device-plugins && test -d /gpuscale-test/plugins_registry && "
        "echo ok");
    expect_log(f, "p", "ok\n");
}

static void test_a_host_path_of_another_type(void **state)
{
    struct fixture *f = *state;
    create_volume_pod(f, "p", "{'name':'v','hostPath':{'path':'/etc','type':'Socket'}}", "", "");
    wait_event(f, "FailedMount", "hostPath type check failed: /etc is not a socket file");
    create_volume_pod(f, "q", "{'name':'v','nfs':{'server':'s','path':'/'}}", "", "");
    wait_event(f, "FailedMount", "volumes of type nfs are not available on this machine");
}

static void test_downward_and_projected(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create(f, "configmaps", "{'metadata':{'name':'m'},'data':{'a':'1'}}");
    create_pod(
        f, "p", "'x':'y','multi':'two\\nlines'",
        "'restartPolicy':'Never','volumes':[{'name':'v','projected':{'sources':[{'downwardAPI':{"
        "'items':[{'path':'notes','fieldRef':{'fieldPath':'metadata.annotations'}},{'path':'name',"
        "'fieldRef':{'fieldPath':'metadata.name'}},{'path':'cpu','resourceFieldRef':{"
        "'containerName':'c','resource':'limits.cpu','divisor':'1m'}}]}},{'configMap':{'name':'m'}}"
        "]}}],'containers':[{'name':'c','image':'any','resources':{'limits':{'cpu':'2'}},"
        "'volumeMounts':[{'name':'v','mountPath':'/gpuscale-test'}],'command':['sh','-c',"
        "'cd /gpuscale-test; ls; cat notes; echo; cat name cpu']}]");
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
    AUTO_REPLY struct reply r = get_log(f, "p", "");
    assert_non_null(strstr(r.text, "a\ncpu\nname\nnotes\n"));
    assert_non_null(strstr(r.text, "multi=\"two\\nlines\"\nx=\"y\"\n"));
    assert_non_null(strstr(r.text, "p2000"));
}

static void test_a_token_of_the_service_account(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_volume_pod(f, "p",
                      "{'name':'v','projected':{'sources':[{'serviceAccountToken':{'path':'token',"
                      "'expirationSeconds':600,'audience':'gpuscale-test'}}]}}",
                      "{'name':'v','mountPath':'/var/run/secrets/gpuscale-test'}",
                      "cd /var/run/secrets/gpuscale-test; stat -L -c %a token; "
                      "cut -d. -f2 token | tr _- /+ | base64 -d 2> /dev/null; true");
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
    AUTO_REPLY struct reply r = get_log(f, "p", "");
    assert_true(gs_starts(r.text, "600\n"));
    assert_non_null(strstr(r.text, "\"gpuscale-test\""));
    assert_non_null(strstr(r.text, "system:serviceaccount:default:default"));
}

static const char *ended_message(const json_t *pod)
{
    return codec_json_str(container_status(pod, 0), "state", "terminated", "message", NULL);
}

static void test_termination_messages(void **state)
{
    struct fixture *f = *state;
    create_pod(f, "p", "",
               "'restartPolicy':'Never','containers':[{'name':'c','image':'any',"
               "'terminationMessagePolicy':'FallbackToLogsOnError','command':['sh','-c',"
               "'echo one; echo two >&2; sleep 0.2; exit 3']}]");
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "failed", has_phase, "Failed");
    assert_non_null(strstr(ended_message(pod), "two\n"));
    require_mounts();
    create_pod(f, "q", "",
               "'restartPolicy':'Never','containers':[{'name':'c','image':'any',"
               "'terminationMessagePath':'/gpuscale-test/log','command':['sh','-c',"
               "'printf done > /gpuscale-test/log']}]");
    CODEC_AUTO_JSON json_t *q = wait_pod(f, "q", "succeeded", has_phase, "Succeeded");
    assert_string_equal(ended_message(q), "done");
}

static void test_a_sub_path_cannot_leave_its_volume(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_volume_pod(f, "p", "{'name':'v','emptyDir':{}}",
                      "{'name':'v','mountPath':'/gpuscale-a'}", "ln -s / /gpuscale-a/up");
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
    create_pod(f, "q", "",
               "'restartPolicy':'Never','volumes':[{'name':'v','emptyDir':{}}],'initContainers':[{"
               "'name':'i','image':'any','volumeMounts':[{'name':'v','mountPath':'/gpuscale-a'}],"
               "'command':['ln','-s','/','/gpuscale-a/up']}],'containers':[{'name':'c','image':"
               "'any','volumeMounts':[{'name':'v','mountPath':'/gpuscale-b','subPath':'up/etc'}],"
               "'command':['true']}]");
    wait_event(f, "Failed", "failed to prepare subPath for volumeMount \"v\" of container \"c\"");
    await_pod(f, "q", "refused", has_waiting_reason, "CreateContainerConfigError");
}

static bool has_started_error(const json_t *pod, const void *arg)
{
    const char *message =
        codec_json_str(container_status(pod, 0), "state", "terminated", "message", NULL);
    return message && strstr(message, arg);
}

static void test_a_mount_that_fails(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_volume_pod(f, "p", "{'name':'v','emptyDir':{}}",
                      "{'name':'v','mountPath':'/etc/passwd'}", "true");
    await_pod(f, "p", "failed", has_started_error,
              "to rootfs at \"/etc/passwd\": not a directory: are you trying to mount a directory");
}

static void test_probes_see_the_volumes(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_pod(
        f, "p", "",
        "'terminationGracePeriodSeconds':1,'volumes':[{'name':'v','emptyDir':{}}],"
        "'containers':[{'name':'c','image':'any','volumeMounts':[{'name':'v','mountPath':"
        "'/gpuscale-a'}],'command':['sh','-c','touch /gpuscale-a/up; exec sleep 1000','/tmp'],"
        "'readinessProbe':{'exec':{'command':['test','-e','/gpuscale-a/up']},"
        "'periodSeconds':1}}]");
    await_pod(f, "p", "ready", is_ready, NULL);
}

// metrics-server and prometheus-adapter have a volume at /tmp. It hides the data directory here,
// and the other one the program and its library.
static void test_volumes_hide_nothing_that_a_container_needs(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    GS_AUTO_FREE char *dir = gs_strndup(f->exe, (size_t)(strrchr(f->exe, '/') - f->exe));
    GS_AUTO_FREE char *spec = gs_format(
        "'terminationGracePeriodSeconds':1,'volumes':[{'name':'v','emptyDir':{}},{'name':'w',"
        "'emptyDir':{}}],'containers':[{'name':'c','image':'any','volumeMounts':[{'name':'v',"
        "'mountPath':'/tmp'},{'name':'w','mountPath':'%s'}],'command':['sh','-c','IFS=; ls -A $0; "
        "ls "
        "-A $1; grep -q podnet /proc/self/maps && touch x && mktemp && echo started; exec sleep "
        "1000','/tmp','%s'],"
        "'readinessProbe':{'exec':{'command':['sh','-c','grep -q podnet /proc/self/maps && test -e "
        "x']},'periodSeconds':1}}]",
        dir, dir);
    create_pod(f, "p", "", spec);
    await_log(f, "p", "started");
    await_pod(f, "p", "ready", is_ready, NULL);
    AUTO_REPLY struct reply r = get_log(f, "p", "");
    // Both folders are empty, except that the mount point of a program below /tmp is there.
    struct gs_slice below = gs_slice_of(gs_starts(dir, "/tmp/") ? dir + strlen("/tmp/") : "");
    struct gs_slice first = gs_slice_cut(&below, '/');
    GS_AUTO_FREE char *start =
        gs_format(GS_SLICE_FMT "%s/tmp/tmp.", GS_SLICE_ARG(first), first.len ? "\n" : "");
    if (!gs_starts(r.text, start))
        fail_msg("%s", r.text);
}

// The fixture's kubelet was started in a folder below /tmp, which also contains its data directory.
static void test_a_volume_does_not_hide_the_folder_of_a_mapped_command(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_pod(f, "p", "",
               "'restartPolicy':'Never','volumes':[{'name':'v','emptyDir':{}}],'containers':[{"
               "'name':'c','image':'script:1','args':['-c','ls /tmp; test -d pods && echo "
               "started'],'volumeMounts':[{'name':'v','mountPath':'/tmp'}]}]");
    expect_log(f, "p", "started\n");
}

static void create_named_service(struct fixture *f, const char *name, const char *ip)
{
    GS_AUTO_FREE char *json = gs_format(
        "{'metadata':{'name':'%s'},'spec':{'clusterIP':'%s','ports':[{'port':80}]}}", name, ip);
    create(f, "services", json);
}

static void test_services_have_names_in_containers(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_named_service(f, "first", "127.96.7.1");
    create_volume_pod(f, "p", "", "",
                      "for n in first first.default first.default.svc "
                      "first.default.svc.cluster.local; do until getent hosts $n; do sleep 0.1; "
                      "done; done | while read -r ip name rest; do echo $ip $name; done; "
                      "echo started; until getent hosts second > /dev/null; do sleep 0.1; done; "
                      "while getent hosts first > /dev/null; do sleep 0.1; done; echo followed");
    await_log(f, "p", "started");
    create_named_service(f, "second", "127.96.7.2");
    AUTO_REPLY struct reply gone =
        request(&f->h, "DELETE", "/api/v1/namespaces/default/services/first", NULL);
    assert_status(gone, 200);
#define FIRST "127.96.7.1 first.default.svc.cluster.local\n"
    expect_log(f, "p", FIRST FIRST FIRST FIRST "started\nfollowed\n");
}

static void test_a_headless_service_has_the_addresses_of_its_pods(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create(f, "services",
           "{'metadata':{'name':'db'},'spec':{'clusterIP':'None','ports':[{'port':80}]}}");
    create(f, "endpoints",
           "{'metadata':{'name':'db'},'subsets':[{'addresses':[{'ip':'127.64.7.1','targetRef':{"
           "'kind':'Pod','name':'db-0','namespace':'default'}},{'ip':'127.64.7.2'}],'ports':[{"
           "'port':80}]}]}");
    create_pod(f, "db-0", "",
               "'hostname':'db-0','subdomain':'db','containers':[{'name':'c','image':'any',"
               "'command':['sleep','1000']}],'terminationGracePeriodSeconds':1");
    create_volume_pod(f, "p", "", "",
                      "until getent hosts db-0.db.default.svc; do sleep 0.1; done | while read -r "
                      "ip rest; do echo $ip; done; grep -c db.default.svc /etc/hosts");
    expect_log(f, "p", "127.64.7.1\n3\n");
}

static const char claim_volume[] = "{'name':'v','persistentVolumeClaim':{'claimName':'data'}}";
static const char claim_mount[] = "{'name':'v','mountPath':'/gpuscale-test'}";
static const char claim_object[] =
    "{'metadata':{'name':'data'},'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{"
    "'storage':'1Gi'}}}}";

static void test_a_claim_outlives_its_pod(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create(f, "persistentvolumeclaims", claim_object);
    create_volume_pod(f, "p", claim_volume, claim_mount, "echo kept > /gpuscale-test/file");
    await_pod(f, "p", "succeeded", has_phase, "Succeeded");
    delete_pod(f, "p", "");
    wait_pod_gone(f, "p");
    create_volume_pod(f, "q", claim_volume, claim_mount, "cat /gpuscale-test/file");
    expect_log(f, "q", "kept\n");
}

static json_t *wait_claim(struct fixture *f)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f)) {
        AUTO_REPLY struct reply r =
            request(&f->h, "GET", "/api/v1/namespaces/default/persistentvolumeclaims/data", NULL);
        if (gs_streq(codec_json_str(r.body, "status", "phase", NULL), "Bound"))
            return json_incref(r.body);
    }
    fail_msg("the claim is not bound");
    return NULL;
}

static void test_a_claim_is_bound_and_deleted_with_its_volume(void **state)
{
    struct fixture *f = *state;
    create(f, "persistentvolumeclaims", claim_object);
    CODEC_AUTO_JSON json_t *claim = wait_claim(f);
    const char *volume = codec_json_str(claim, "spec", "volumeName", NULL);
    GS_AUTO_FREE char *want = gs_format("pvc-%s", kube_uid(claim));
    assert_string_equal(volume, want);
    assert_string_equal(codec_json_str(claim, "status", "capacity", "storage", NULL), "1Gi");
    GS_AUTO_FREE char *path = gs_format("/api/v1/persistentvolumes/%s", volume);
    AUTO_REPLY struct reply pv = request(&f->h, "GET", path, NULL);
    assert_status(pv, 200);
    assert_string_equal(codec_json_str(pv.body, "spec", "claimRef", "name", NULL), "data");
    AUTO_REPLY struct reply d =
        request(&f->h, "DELETE", "/api/v1/namespaces/default/persistentvolumeclaims/data", NULL);
    assert_status(d, 200);
    for (int64_t end = gs_mono_ns() + WAIT_NS;; tick(f)) {
        AUTO_REPLY struct reply r = request(&f->h, "GET", path, NULL);
        if (r.status == 404)
            break;
        assert_true(gs_mono_ns() < end);
    }
}

static void test_a_pod_waits_for_its_claim(void **state)
{
    struct fixture *f = *state;
    create_volume_pod(f, "p", claim_volume, "", "echo started");
    wait_event(f, "FailedMount",
               "MountVolume.SetUp failed for volume \"v\" : persistentvolumeclaim \"data\" not "
               "found");
    create(f, "persistentvolumeclaims", claim_object);
    expect_log(f, "p", "started\n");
}

#define ACCOUNT_PATH "/var/run/secrets/kubernetes.io/serviceaccount"

static void test_every_pod_can_reach_the_api(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    create_pod(f, "p", "",
               "'restartPolicy':'Never','containers':[{'name':'c','image':'any','command':['sh','-"
               "c','cd " ACCOUNT_PATH
               " && cat ca.crt namespace && cut -c1-2 token && (echo x > y) 2> /dev/null || echo "
               "read-only; echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT']}]");
    expect_log(f, "p", "-- the CA --\ndefaultey\nread-only\n127.0.0.1:6443\n");
    assert_int_equal(access(ACCOUNT_PATH, F_OK), -1);
}

static void test_a_mount_that_cannot_be_made_is_found_before(void **state)
{
    struct fixture *f = *state;
    require_mounts();
    GS_AUTO_FREE char *staging = gs_format("%s/staging", f->dir);
    GS_AUTO_FREE char *mount = kubelet_mount_text(ACCOUNT_PATH, true, f->dir);
    assert_error(kubelet_mounts_try(staging, &mount, 1), GS_EPERM, "mounting a tmpfs on");
    assert_int_equal(mkdir(staging, 0700), 0);
    assert_ok(kubelet_mounts_try(staging, &mount, 1));
    assert_int_equal(access(ACCOUNT_PATH, F_OK), -1);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_config_map_at_paths_that_the_machine_lacks),
        T(test_selected_keys_of_a_secret),
        T(test_a_missing_config_map_delays_the_pod),
        T(test_a_missing_key),
        T(test_files_of_a_pod_have_a_limit),
        T(test_updates_reach_the_folder),
        T(test_mounts_in_a_read_only_config_map),
        T(test_containers_share_an_empty_dir),
        T(test_host_paths),
        T(test_folders_of_a_kubelet_exist),
        T(test_a_host_path_of_another_type),
        T(test_downward_and_projected),
        T(test_a_token_of_the_service_account),
        T(test_every_pod_can_reach_the_api),
        T(test_a_mount_that_cannot_be_made_is_found_before),
        T(test_termination_messages),
        T(test_a_sub_path_cannot_leave_its_volume),
        T(test_a_mount_that_fails),
        T(test_volumes_hide_nothing_that_a_container_needs),
        T(test_a_volume_does_not_hide_the_folder_of_a_mapped_command),
        T(test_services_have_names_in_containers),
        T(test_a_headless_service_has_the_addresses_of_its_pods),
        T(test_probes_see_the_volumes),
        T(test_a_claim_outlives_its_pod),
        T(test_a_claim_is_bound_and_deleted_with_its_volume),
        T(test_a_pod_waits_for_its_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
