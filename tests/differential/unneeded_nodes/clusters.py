#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random clusters for a comparison of scale-down with the Cluster Autoscaler.

Usage: clusters.py make COUNT FIRST-SEED DIR    writes DIR/clusters.json (Kubernetes objects) and DIR/cases.json
       clusters.py expect DIR                   joins DIR/cases.json and DIR/results.json (planner_test.go) to DIR/cases.yaml
"""
import datetime
import json
import random
import sys

NOW = datetime.datetime(2026, 3, 1, 12)
POOLS = {"t4-4": (16000, 64 * 1024, 4), "t4-2": (8000, 32 * 1024, 2), "cpu": (4000, 16 * 1024, 0)}  # milli, MiB, GPUs
PREFIX = "cluster-autoscaler.kubernetes.io/"


def make_node(r, name, pool):
    cpu, memory, gpus = POOLS[pool]
    disabled = {"annotations": {PREFIX + "scale-down-disabled": "true"}} if r.random() < 0.06 else {}
    amounts = {"cpu": str(cpu // 1000), "memory": f"{memory}Mi", "pods": "110"}
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, **disabled}, "spec": {"providerID": name},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}}
    case = {"name": name, "pool": pool}
    if disabled:
        case["object"] = {"metadata": disabled}
    return node, case


def make_pod(r, name, free):
    node = r.choice(list(free))
    gpus, cpu, memory = r.choice([0, 0, 1, 1, 2, 4]), r.choice([100, 250, 500, 1000, 2000, 4000]), r.choice([64, 256, 1024, 4096, 8192])
    left = free[node]
    if cpu > left[0] or memory > left[1] or gpus > left[2]:
        return None
    free[node] = (left[0] - cpu, left[1] - memory, left[2] - gpus)
    owner = r.choice(["ReplicaSet"] * 6 + ["DaemonSet", "StatefulSet", "Job", "none"])
    namespace, age = r.choice(["default"] * 9 + ["kube-system"]), r.choice([5, 50, 70, 600])
    annotations, volumes = {}, []
    chance = r.random()
    if chance < 0.14:
        annotations = {PREFIX + "safe-to-evict": "false" if chance < 0.06 else "true"}
    chance = r.random()
    if chance < 0.1:
        volumes = [{"name": "v", "emptyDir": {}} if chance < 0.06 else {"name": "v", "hostPath": {"path": "/x"}}]
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    created = (NOW - datetime.timedelta(minutes=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": created, "annotations": annotations}
    if owner != "none":
        metadata["ownerReferences"] = [{"apiVersion": "batch/v1" if owner == "Job" else "apps/v1", "kind": owner, "name": "owner", "uid": "o", "controller": True}]
    pod = {"metadata": metadata, "status": {"phase": "Running"},
           "spec": {"nodeName": node, "priority": 0, "volumes": volumes, "containers": [{"name": "c", "resources": {"requests": requests}}]}}
    case = {"name": name, "namespace": namespace, "node": node, "owner": owner, "cpu": requests["cpu"], "memory": requests["memory"], "gpus": gpus,
            "age": f"{age}m", "annotations": annotations, "object": {"spec": {"volumes": volumes}}}
    return pod, case


def make_cluster(seed):
    r = random.Random(seed)
    pools = r.choice([["t4-4"], ["t4-4", "t4-2"], ["t4-4", "t4-2", "cpu"]])
    nodes = [make_node(r, f"n{i}", r.choice(pools)) for i in range(r.randint(2, 9))]
    free = {case["name"]: POOLS[case["pool"]] for _, case in nodes}
    pods = [p for p in (make_pod(r, f"p{i}", free) for i in range(r.randint(0, 3 * len(nodes)))) if p]
    owners = [{"metadata": {"name": "owner", "namespace": n}, "spec": {"replicas": 100}} for n in ("default", "kube-system")]
    return ({"nodes": [n for n, _ in nodes], "pods": [p for p, _ in pods], "replicaSets": owners},
            {"nodes": [c for _, c in nodes], "pods": [c for _, c in pods]})


def make(count, first, folder):
    clusters = [make_cluster(first + i) for i in range(count)]
    for name, part in (("clusters", 0), ("cases", 1)):
        with open(f"{folder}/{name}.json", "w", encoding="utf-8") as f:
            json.dump([c[part] for c in clusters], f)


def expect(folder):
    machines = {name: {"cpu": cpu // 1000, "memory": f"{memory}Mi", **({"gpus": gpus} if gpus else {})} for name, (cpu, memory, gpus) in POOLS.items()}
    pools = [{"name": name, "max": 100, "machine": machine} for name, machine in machines.items()]
    with open(f"{folder}/cases.json", encoding="utf-8") as f, open(f"{folder}/results.json", encoding="utf-8") as g:
        cases, results = json.load(f), json.load(g)
    with open(f"{folder}/cases.yaml", "w", encoding="utf-8") as f:
        for i, (case, result) in enumerate(zip(cases, results, strict=True)):
            wanted = {"unneeded": {n: "0s" for n in result["unneeded"]}}
            f.write("---\n" + json.dumps({"name": f"cluster {i}", "pools": pools, **case, "expect": wanted}) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "make":
        make(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    elif len(sys.argv) == 3 and sys.argv[1] == "expect":
        expect(sys.argv[2])
    else:
        sys.exit(__doc__)
