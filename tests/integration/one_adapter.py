# one_adapter.py UP ADAPTER CLIENT_PEM SECONDS: every answer of the metrics APIs of both, compared.
import http.client
import json
import re
import ssl
import sys
import time

up, adapter, pem, patience = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
context = ssl._create_unverified_context()
context.load_cert_chain(pem)
connections = {}
CUSTOM = "/apis/custom.metrics.k8s.io"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
RESOURCE = "/apis/metrics.k8s.io/v1beta1"
PODS = "namespaces/ml/pods/%2A", "namespaces/ml/pods/a", "namespaces/ml/pods/d", "namespaces/ml/pods/none"


def get(server, path):
    """Status and body without the times, which are those of two scrapes."""
    if server not in connections:
        connections[server] = http.client.HTTPSConnection(server.removeprefix("https://"), context=context, timeout=60)
    connections[server].request("GET", path)
    answer = connections[server].getresponse()
    status, text = answer.status, answer.read()
    try:
        body = json.loads(text)
    except ValueError:
        return status, text.decode()
    # The exporter of up labels its series with the node's name in another way.
    if "message" in body:
        body["message"] = re.sub(r'\{(NodeName|[Hh]ostname)="', '{node="', body["message"])
    for item in [body] + (body.get("items") or []):
        for member in "timestamp", "window":
            item.pop(member, None)
        item.get("metadata", {}).pop("creationTimestamp", None)
    return status, body


def names(server, path):
    status, body = get(server, path)
    return sorted(r["name"] for r in body["resources"]) if status == 200 else []


def paths_of(name):
    """The paths of the objects that a name of the discovery, "pods/METRIC", is served for."""
    resource, metric = name.split("/", 1)
    if resource == "namespaces":
        objects = ["namespaces/ml/metrics", "namespaces/none/metrics"]
    elif resource == "nodes":
        objects = [f"nodes/n{i}" for i in (1, 2, 3)]
    elif resource == "pods":
        objects = list(PODS) + ["namespaces/ml/pods/%2A?labelSelector=app%3Dweb"]
    else:
        objects = [f"namespaces/ml/{resource}/%2A", f"namespaces/ml/{resource}/web", f"namespaces/ml/{resource}/front"]
    for o in objects:
        path, _, query = o.partition("?")
        yield f"{path}/{metric}" + ("?" + query if query else "")
        if not resource.startswith(("namespaces", "nodes", "pods")):
            for suffix in "_MAX", "_MIN":
                yield f"{path}/{metric}{suffix}"


def compare(path, answered):
    """None: equal. answered counts good answers by kind of object."""
    ours, theirs = get(up, path), get(adapter, path)
    if ours == theirs and ours[0] == 200:
        kind = "/".join(path.split("?")[0].split("/")[2:3] + [k for k in ("pods", "nodes", "services", "replicasets.apps") if f"/{k}" in path])
        answered[kind] = answered.get(kind, 0) + 1
    return None if ours == theirs else f"{path}\n  up:      {ours}\n  adapter: {theirs}"


# Both have scraped the page if its last lines are present.
end = time.monotonic() + patience
wanted = "pods/queue_length", "pods/DCGM_CUSTOM_PROCESS_SM_UTIL", "namespaces/own_util"
while not all(set(wanted) <= set(names(s, CUSTOM + "/v1beta1")) for s in (up, adapter)):
    if time.monotonic() > end:
        sys.exit(f"not listed: {wanted}")
    time.sleep(0.2)

listed = names(adapter, CUSTOM + "/v1beta1")
missing = set(listed) - set(names(up, CUSTOM + "/v1beta1"))
differences = [f"not listed by up: {n}" for n in sorted(missing)]
paths = [f"{CUSTOM}/{v}/{p}" for n in listed for p in paths_of(n) for v in ("v1beta1", "v1beta2")]
paths += [EXTERNAL, f"{EXTERNAL}/namespaces/ml/queue_total", f"{EXTERNAL}/namespaces/none/queue_total"]
paths += [f"{EXTERNAL}/namespaces/ml/queue_total?labelSelector=queue%3Dq3", f"{EXTERNAL}/namespaces/ml/none"]
paths += [RESOURCE, f"{RESOURCE}/namespaces/ml/pods", f"{RESOURCE}/namespaces/ml/pods/a", f"{RESOURCE}/nodes/n1"]
paths += [CUSTOM, CUSTOM + "/v1beta1/nonsense", CUSTOM + "/v1beta1/namespaces/ml/pods/%2A/none"]
answered = {}
for path in paths:
    # Values change between two scrapes only at the start.
    while (difference := compare(path, answered)) and time.monotonic() < end:
        time.sleep(0.2)
    if difference:
        differences.append(difference)
print("\n".join(differences[:20]))
print(f"{len(paths)} requests, {len(differences)} differences; good answers: {answered}")
kinds = "custom.metrics.k8s.io/pods", "custom.metrics.k8s.io/nodes", "custom.metrics.k8s.io/services"
kinds += "custom.metrics.k8s.io/replicasets.apps", "external.metrics.k8s.io", "metrics.k8s.io/pods", "metrics.k8s.io/nodes"
for kind in kinds:
    if kind not in answered:
        differences.append(f"no good answer: {kind}")
        print(differences[-1])
sys.exit(1 if differences else 0)
