#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The objects and GPU pages of a big simulated cluster, changes of its pods, and figures of the parts that read it; used by
bench/big-cluster. Objects are written into etcd, as after the restore of a backup: 50,000 pods take seconds instead of an hour.
"""
import argparse
import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import re
import ssl
import time

CREATED = "2026-01-01T00:00:00Z"
GPUS = 8  # of a node
PODS = 10  # of a node: one for each GPU, an exporter and an agent
REPLICAS = 20  # of a Deployment with GPUs, and of its HorizontalPodAutoscaler
NAMESPACES = 100
HOT = 50  # every 50th Deployment is above its target
BATCH = 64  # objects in a transaction
FIELDS = """SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION PCIE_REPLAY_COUNTER GPU_UTIL
 MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS FB_FREE FB_USED NVLINK_BANDWIDTH_TOTAL VGPU_LICENSE_STATUS
 UNCORRECTABLE_REMAPPED_ROWS CORRECTABLE_REMAPPED_ROWS ROW_REMAP_FAILURE FB_RESERVED""".split()
PROFILING = "GR_ENGINE_ACTIVE PIPE_TENSOR_ACTIVE DRAM_ACTIVE PCIE_TX_BYTES PCIE_RX_BYTES".split()


class Cluster:
    """Sizes and names: everything follows from the number of nodes."""

    def __init__(self, nodes, one_namespace):
        self.nodes = nodes
        self.deployments = nodes * GPUS // REPLICAS
        self.namespaces = 1 if one_namespace else min(NAMESPACES, self.deployments)

    def namespace(self, deployment):
        return f"team-{deployment % self.namespaces:03d}"

    def deployment_of(self, gpu):
        """Replicas of a Deployment are on different nodes."""
        return gpu % self.deployments

    def pod_name(self, gpu):
        d = self.deployment_of(gpu)
        return f"model-{d:04d}-7c9f8b6d54-{gpu // self.deployments:05d}"


def uid(kind, number):
    return f"{kind:08x}-0000-4000-8000-{number:012x}"


def node_name(n):
    return f"gpu-node-{n:05d}"


def node_ip(n):
    return f"127.{100 + (n >> 16)}.{n >> 8 & 255}.{n & 255}"


def meta(name, kind, number, namespace=None, **more):
    m = {"name": name, "uid": uid(kind, number), "creationTimestamp": CREATED, **more}
    if namespace:
        m["namespace"] = namespace
    return m


def managed(manager, fields, subresource=None):
    """As long as those that real components leave."""
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": CREATED, "fieldsType": "FieldsV1", "fieldsV1": fields}
    if subresource:
        entry["subresource"] = subresource
    return entry


POD_SPEC_FIELDS = {"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}}, "f:ownerReferences": {".": {}, 'k:{"uid":"%s"}' % uid(3, 0): {}}},
                   "f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:args": {}, "f:env": {".": {}, **{'k:{"name":"%s"}' % e: {".": {}, "f:name": {}, "f:value": {}} for e in ("MODEL", "HF_HOME", "NCCL_DEBUG", "PORT")}},
                                                                     "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:ports": {".": {}, 'k:{"containerPort":8000,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
                                                                     "f:readinessProbe": {".": {}, "f:failureThreshold": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}, "f:scheme": {}}, "f:periodSeconds": {}, "f:successThreshold": {}, "f:timeoutSeconds": {}},
                                                                     "f:resources": {".": {}, "f:limits": {".": {}, "f:nvidia.com/gpu": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}},
                              "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}, "f:tolerations": {}}}
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
POD_STATUS_FIELDS = {"f:status": {"f:conditions": {'k:{"type":"%s"}' % c: {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:observedGeneration": {}, "f:status": {}, "f:type": {}} for c in CONDITIONS},
                                  "f:containerStatuses": {}, "f:hostIP": {}, "f:hostIPs": {}, "f:observedGeneration": {}, "f:phase": {}, "f:podIP": {}, "f:podIPs": {".": {}, 'k:{"ip":"10.0.0.1"}': {".": {}, "f:ip": {}}}, "f:startTime": {}}}


def pod(name, number, namespace, node, ip, labels, owner, container):
    volume = {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}
    # Pods of a Deployment do not start at the same time.
    ready, started, created = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1767225600 + number * 7 % 2000000 + seconds)) for seconds in (95, 31, 2))
    container = {"name": "main", "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                 "volumeMounts": [{"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}], **container}
    status = {"phase": "Running", "observedGeneration": 1, "hostIP": ip, "hostIPs": [{"ip": ip}], "podIP": ip, "podIPs": [{"ip": ip}], "startTime": created, "qosClass": "Burstable",
              "conditions": [{"type": c, "status": "True", "observedGeneration": 1, "lastProbeTime": None, "lastTransitionTime": ready if "Ready" == c or c == "ContainersReady" else created} for c in CONDITIONS],
              "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": started}}, "lastState": {}, "ready": True, "started": True, "restartCount": 0, "image": container["image"],
                                     "imageID": container["image"].split(":")[0] + "@sha256:" + f"{number:064x}", "containerID": f"containerd://{number:064x}",
                                     "volumeMounts": [{**container["volumeMounts"][0], "recursiveReadOnly": "Disabled"}]}]}
    tolerations = [{"key": f"node.kubernetes.io/{t}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for t in ("not-ready", "unreachable")]
    tolerations.append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": meta(name, 1, number, namespace, labels=labels, generateName=name[:-5], generation=1, ownerReferences=[{"apiVersion": "apps/v1", "controller": True, "blockOwnerDeletion": True, **owner}],
                             managedFields=[managed("kube-controller-manager", POD_SPEC_FIELDS), managed("kubelet", POD_STATUS_FIELDS, "status")]),
            "spec": {"nodeName": node, "containers": [container], "volumes": [volume], "tolerations": tolerations, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                     "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {}, "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority"},
            "status": status}


def node(n):
    amounts = {"cpu": "192", "memory": "2113409320Ki", "ephemeral-storage": "1843269236Ki", "pods": "110", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "nvidia.com/gpu": str(GPUS)}
    labels = {"kubernetes.io/hostname": node_name(n), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "p5.48xlarge",
              "topology.kubernetes.io/region": "region-1", "topology.kubernetes.io/zone": f"region-1{'abc'[n % 3]}", "eks.amazonaws.com/nodegroup": f"gpu-{n % 20:02d}", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": str(GPUS),
              "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.present": "true", "nvidia.com/mig.capable": "true", **{f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{i}": "true" for i in range(40)}}
    types = (("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False"), ("Ready", "True"))
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": meta(node_name(n), 2, n, labels=labels, annotations={"volumes.kubernetes.io/controller-managed-attach-detach": "true", "node.alpha.kubernetes.io/ttl": "0"},
                             managedFields=[managed("kubelet", {"f:metadata": {"f:labels": {f"f:{k}": {} for k in labels}}}), managed("kubelet", {"f:status": {"f:conditions": {'k:{"type":"%s"}' % t: {"f:lastHeartbeatTime": {}} for t, _ in types}, "f:images": {}}}, "status")]),
            "spec": {"podCIDR": f"10.{n >> 8 & 255}.{n & 255}.0/24", "providerID": f"aws:///region-1a/i-{n:017x}", "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]},
            "status": {"capacity": amounts, "allocatable": amounts, "addresses": [{"type": "InternalIP", "address": node_ip(n)}, {"type": "Hostname", "address": node_name(n)}],
                       "conditions": [{"type": t, "status": s, "reason": "Kubelet", "message": "kubelet reports its state", "lastHeartbeatTime": CREATED, "lastTransitionTime": CREATED} for t, s in types],
                       "nodeInfo": {"machineID": uid(0, n), "systemUUID": uid(0, n), "bootID": uid(9, n), "kernelVersion": "6.8.0", "osImage": "Ubuntu 24.04", "containerRuntimeVersion": "containerd://2.1", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"},
                       "images": [{"names": [f"registry.example.com/image-{i}@sha256:{i:064x}", f"registry.example.com/image-{i}:1"], "sizeBytes": 10 ** 9} for i in range(20)],
                       "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}}


def node_pods(c, n):
    """The pods of a node, with the keys of etcd."""
    for g in range(GPUS):
        gpu = n * GPUS + g
        d, name = c.deployment_of(gpu), c.pod_name(gpu)
        ns = c.namespace(d)
        container = {"image": "registry.example.com/vllm:0.11", "args": ["--model", "/models/llama", "--port", "8000", "--tensor-parallel-size", "1"],
                     "env": [{"name": "MODEL", "value": "llama"}, {"name": "HF_HOME", "value": "/models"}, {"name": "NCCL_DEBUG", "value": "WARN"}, {"name": "PORT", "value": "8000"}],
                     "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}], "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}},
                     "readinessProbe": {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}}
        owner = {"kind": "ReplicaSet", "name": f"model-{d:04d}-7c9f8b6d54", "uid": uid(3, d)}
        yield pod(name, gpu, ns, node_name(n), f"10.{64 + (gpu >> 16)}.{gpu >> 8 & 255}.{gpu & 255}", {"app": f"model-{d:04d}", "pod-template-hash": "7c9f8b6d54"}, owner, container)
    number = 10 ** 9 + n * 2
    for i, name in enumerate(("gpuscale-exporter", "node-agent")):
        container = {"image": f"registry.example.com/{name}:1", "ports": [{"name": "metrics", "containerPort": 9400 + i, "protocol": "TCP"}], "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        owner = {"kind": "DaemonSet", "name": name, "uid": uid(4, i)}
        yield pod(f"{name}-{n:05d}", number + i, "monitoring", node_name(n), node_ip(n), {"app.kubernetes.io/name": name, "controller-revision-hash": "5d8f7b9c6d"}, owner, container)


def workload(c, d):
    """A Deployment with its ReplicaSet and its HorizontalPodAutoscaler, with the keys of etcd."""
    name, ns = f"model-{d:04d}", c.namespace(d)
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "registry.example.com/vllm:0.11", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    count = {"replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS, "observedGeneration": 1}
    yield f"/registry/deployments/{ns}/{name}", {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(name, 5, d, ns, labels=labels, generation=1),
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}, "status": {**count, "updatedReplicas": REPLICAS}}
    hashed = {**labels, "pod-template-hash": "7c9f8b6d54"}
    yield f"/registry/replicasets/{ns}/{name}-7c9f8b6d54", {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta(f"{name}-7c9f8b6d54", 3, d, ns, labels=hashed, generation=1, ownerReferences=[{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid(5, d), "controller": True}]),
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": hashed}, "template": {**template, "metadata": {"labels": hashed}}}, "status": {**count, "fullyLabeledReplicas": REPLICAS}}
    yield f"/registry/horizontalpodautoscalers/{ns}/{name}", {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta(name, 6, d, ns),
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "minReplicas": 1, "maxReplicas": 2 * REPLICAS,
                 "metrics": [{"type": "Pods", "pods": {"metric": {"name": "DCGM_FI_DEV_GPU_UTIL"}, "target": {"type": "AverageValue", "averageValue": "60"}}}]},
        "status": {"currentReplicas": 0, "desiredReplicas": 0}}
    # Every tenth workload is activated; those after it have a Service, too.
    address = f"10.{128 + (d >> 16)}.{d >> 8 & 255}.{d & 255}"
    yield f"/registry/services/specs/{ns}/{name}", {
        "apiVersion": "v1", "kind": "Service", "metadata": meta(name, 7, d, ns, labels=labels, **({"annotations": {"gpuscale.dev/activate": f"Deployment/{name}"}} if d % 10 == 0 else {})),
        "spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "selector": labels, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                 "ports": [{"name": "http", "port": 80, "targetPort": 8000, "protocol": "TCP"}]}, "status": {"loadBalancer": {}}}
    pods = range(d, c.nodes * GPUS, c.deployments)
    yield f"/registry/endpointslices/{ns}/{name}-x7k2p", {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": meta(f"{name}-x7k2p", 8, d, ns, labels={"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}),
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": [{"addresses": [f"10.{64 + (g >> 16)}.{g >> 8 & 255}.{g & 255}"], "nodeName": node_name(g // GPUS), "conditions": {"ready": True, "serving": True, "terminating": False},
                       "targetRef": {"kind": "Pod", "namespace": ns, "name": c.pod_name(g), "uid": uid(1, g)}} for g in pods]}


def objects(c, only_workloads):
    for i in range(c.namespaces):
        name = f"team-{i:03d}"
        yield f"/registry/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name, 10, i, labels={"kubernetes.io/metadata.name": name}), "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    for d in range(c.deployments):
        yield from workload(c, d)
    for n in range(0 if only_workloads else c.nodes):
        yield f"/registry/minions/{node_name(n)}", node(n)
        for p in node_pods(c, n):
            yield f"/registry/pods/{p['metadata']['namespace']}/{p['metadata']['name']}", p


# --- commands ---
def write_objects(c, args):
    etcd = http.client.HTTPConnection("127.0.0.1", args.etcd)
    batch, counts, sizes = [], {}, {}

    def flush():
        if not batch:
            return
        etcd.request("POST", "/v3/kv/txn", json.dumps({"success": batch}))
        response = etcd.getresponse()
        text = response.read()
        if response.status != 200:
            raise SystemExit(f"etcd: HTTP {response.status}: {text[:300]}")
        batch.clear()

    for key, obj in objects(c, args.only == "workloads"):
        text = json.dumps(obj, separators=(",", ":")).encode()
        counts[obj["kind"]] = counts.get(obj["kind"], 0) + 1
        sizes[obj["kind"]] = sizes.get(obj["kind"], 0) + len(text)
        batch.append({"requestPut": {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(text).decode()}})
        if len(batch) == BATCH:
            flush()
    flush()
    print(", ".join(f"{n} {kind} of {sizes[kind] / n / 1000:.1f} kB" for kind, n in counts.items()))


def write_pages(c, args):
    """Two sets of values of each node; the link cur selects one."""
    root = pathlib.Path(args.dir)
    for s in (0, 1):
        rng = random.Random(s)
        for n in range(c.nodes):
            path = root / f"set{s}" / node_ip(n)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page(c, n, rng))
    (root / "cur").symlink_to("set0")


def page(c, n, rng):
    lines = []
    for field in [f"DCGM_FI_DEV_{f}" for f in FIELDS] + [f"DCGM_FI_PROF_{f}" for f in PROFILING]:
        lines.append(f"# HELP {field} text\n# TYPE {field} gauge\n")
        for g in range(GPUS):
            gpu = n * GPUS + g
            d = c.deployment_of(gpu)
            if field.endswith("GPU_UTIL"):
                value = (90 if d % HOT == 0 else 60) + rng.randint(-2, 2)
            elif "PROF" in field:
                value = f"{rng.random():.6f}"
            else:
                value = rng.randint(0, 8000) if field.endswith(("USAGE", "FREE", "USED")) else 1000
            lines.append(f'{field}{{gpu="{g}",UUID="GPU-{gpu:08x}-52ab-4f2e-9c4e-{gpu:012x}",pci_bus_id="00000000:{g:02X}:00.0",device="nvidia{g}",modelName="NVIDIA H100 80GB HBM3",Hostname="{node_name(n)}",'
                         f'DCGM_FI_DRIVER_VERSION="580.95.05",container="main",namespace="{c.namespace(d)}",pod="{c.pod_name(gpu)}"}} {value}\n')
    return "".join(lines)


class Api:
    def __init__(self, args):
        host, port = re.match(r"https://([^:/]+):(\d+)", args.api).groups()
        context = ssl.create_default_context(cafile=f"{args.credentials}/ca.crt")
        context.load_cert_chain(f"{args.credentials}/admin.crt", f"{args.credentials}/admin.key")
        self.connect = lambda: http.client.HTTPSConnection(host, int(port), context=context, timeout=60)
        self.connection = self.connect()

    def request(self, method, path, body=None, content_type="application/json"):
        headers = {"Content-Type": content_type} if body else {}
        try:
            self.connection.request(method, path, json.dumps(body) if body else None, headers)
            response = self.connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = self.connect()
            return 0, b""


def churn(c, args):
    """Heartbeats of nodes and changes of pods, until it is killed: --rate of each a second."""
    api, rng, i = Api(args), random.Random(1), 0
    while True:
        start, now = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for _ in range(args.rate):
            i += 1
            n = i % c.nodes
            api.request("PATCH", f"/api/v1/nodes/{node_name(n)}/status", {"status": {"conditions": [{"type": t, "lastHeartbeatTime": now} for t in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")]}}, "application/strategic-merge-patch+json")
            gpu = rng.randrange(c.nodes * GPUS)
            ns = c.namespace(c.deployment_of(gpu))
            api.request("PATCH", f"/api/v1/namespaces/{ns}/pods/{c.pod_name(gpu)}/status", {"status": {"conditions": [{"type": "ContainersReady", "status": "True", "lastProbeTime": now}]}}, "application/strategic-merge-patch+json")
        time.sleep(max(0.0, 1 - (time.monotonic() - start)))


def snapshot(args):
    """Counters of the API server: requests, bytes of responses, events and bytes of watches."""
    status, text = Api(args).request("GET", "/metrics")
    if status != 200:
        raise SystemExit(f"the API server's /metrics: HTTP {status}")
    out = {}
    wanted = re.compile(r"^(apiserver_request_total|apiserver_response_sizes_sum|apiserver_watch_events_total|apiserver_watch_events_sizes_sum)\{(.*)\} (\S+)$")
    for line in text.decode().splitlines():
        m = wanted.match(line)
        if not m:
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', m.group(2)))
        # The harness reads /metrics and patches; watches are counted when they end.
        if labels.get("verb") in ("PATCH", "WATCH") or not labels.get("resource"):
            continue
        key = (m.group(1), labels.get("verb", ""), labels["resource"] + ("/" + labels["subresource"] if labels.get("subresource") else ""))
        out["|".join(key)] = out.get("|".join(key), 0) + float(m.group(3))
    print(json.dumps(out))


def usage(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(status["VmRSS"]) / 1000, int(status["VmHWM"]) / 1000


def measure(args):
    """The start of a process until now, and its next seconds."""
    cpu, rss, _ = usage(args.pid)
    time.sleep(args.seconds)
    later, rss_later, peak = usage(args.pid)
    print(f"{args.title}: {cpu:.1f} s of CPU and {rss:.0f} MB until then; after that {100 * (later - cpu) / args.seconds:.1f} % of a core, {rss_later:.0f} MB resident, {peak:.0f} MB at most")


def traffic(args):
    """What the API server did between two snapshots; with --seconds, bytes in a second."""
    before, after = (json.loads(pathlib.Path(f).read_text()) for f in (args.before, args.after))
    rows, per = [], args.seconds or 1
    for key in sorted(after):
        name, verb, resource = key.split("|")
        n = (after[key] - before.get(key, 0)) / per
        size = f"{n / 1e6:.2f} MB{'/s' if args.seconds else ''}"
        if n <= 0:
            continue
        if name == "apiserver_request_total":
            rows.append(f"{verb} {resource} {n:.1f}/s" if args.seconds else f"{verb} {resource} {n:.0f}")
        elif name == "apiserver_watch_events_sizes_sum" and n * per > 5e4:
            rows.append(f"watch {resource} {size}")
        elif name == "apiserver_response_sizes_sum" and n * per > 5e4:
            rows.append(f"{verb} {resource} {size}")
    print(f"  API requests{' then' if args.seconds else ''}: " + "; ".join(rows))


def load_requests(args):
    """Requests of the paths in the standard input, some at a time: seconds at p50, p99 and at most."""
    import sys
    paths = [p for p in sys.stdin.read().split("\n") if p]

    def batch(part):
        api, out = Api(args), []
        for p in part:
            t = time.monotonic()
            status, _ = api.request("GET", p)
            out.append((time.monotonic() - t, status))
        return out
    with concurrent.futures.ThreadPoolExecutor(args.connections) as pool:
        times = [t for r in pool.map(batch, [paths[i::args.connections] for i in range(args.connections)]) for t in r]
    good = sorted(t for t, s in times if s == 200)
    if not good:
        raise SystemExit(f"no request of {len(times)} has the status 200")
    others = sorted({s for _, s in times if s != 200})
    print(f"{len(good)} of {len(times)} requests succeeded{' (others: ' + ', '.join(map(str, others)) + ')' if others else ''}: {good[len(good) // 2]:.3f} s at p50, {good[len(good) * 99 // 100]:.3f} s at p99, {good[-1]:.3f} s at most")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("command", choices=["objects", "pages", "churn", "snapshot", "measure", "traffic", "requests"])
    p.add_argument("--nodes", type=int, default=500)
    p.add_argument("--one-namespace", action="store_true", help="all workloads are in one namespace")
    p.add_argument("--only", choices=["workloads"], help="Deployments, autoscalers and Services in their first state")
    p.add_argument("--etcd", type=int, help="port")
    p.add_argument("--api", help="URL")
    p.add_argument("--credentials", help="folder with ca.crt, admin.crt and admin.key")
    p.add_argument("--dir", help="folder of pages")
    p.add_argument("--rate", type=int, default=10)
    p.add_argument("--connections", type=int, default=8)
    p.add_argument("--pid", type=int)
    p.add_argument("--seconds", type=float)
    p.add_argument("--title", default="process")
    p.add_argument("--before")
    p.add_argument("--after")
    args = p.parse_args()
    c = Cluster(args.nodes, args.one_namespace)
    {"objects": lambda: write_objects(c, args), "pages": lambda: write_pages(c, args), "churn": lambda: churn(c, args),
     "snapshot": lambda: snapshot(args), "measure": lambda: measure(args), "traffic": lambda: traffic(args), "requests": lambda: load_requests(args)}[args.command]()


if __name__ == "__main__":
    main()
