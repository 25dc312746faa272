#!/usr/bin/env python3
"""Objects and queries that cost more than they seem to, for tests/integration/hostile_objects.sh.

  hostile_objects.py KIND [NUMBER]

Prints an object as JSON for `kubectl create -f -`. Each is within the limits of the API."""
import json
import sys


def pod(name, **metadata):
    container = {"name": "c", "image": "any", "command": ["sleep", "infinity"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def labels(number):
    """A Pod whose series has more labels than the store takes."""
    return pod("labels", labels={f"k{i}": "v" for i in range(number or 256)})


def same_labels(number):
    """Keys that are one label after their conversion, with and without the suffix of a conflict."""
    return pod("same-labels", labels={"a.b": "1", "a-b": "2", "a.b-conflict1": "3"})


def resources(number):
    """A Pod with many resources: each is a series."""
    item = pod("resources")
    item["spec"]["containers"][0]["resources"] = {"limits": {f"example.com/r{i}": "1" for i in range(number or 5000)}}
    return item


def monitoring(kind, name, spec):
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def nested(number):
    """A PrometheusRule that is nested as deeply as the API allows: deeper inside a list or an event."""
    value = {}
    for _ in range((number or 198) - 3):
        value = {"a": value}
    return monitoring("PrometheusRule", "nested", {"x": value, "groups": [{"name": "g", "rules": [{"record": "beside_nested", "expr": "1"}]}]})


def rules(number):
    """A PrometheusRule with wrong parts."""
    good = {"record": "beside_wrong_rules", "expr": "1"}
    return monitoring("PrometheusRule", "rules", {"groups": [
        {"name": "a", "unknown": 1, "rules": [{"record": "wrong", "expr": "sum("}, good]},
        {"name": "b", "interval": "soon", "rules": [{"record": "wrong", "expr": "1"}]},
        {"name": "a", "rules": [{"record": "wrong", "expr": "1"}]},
    ]})


def monitor(number):
    """A ServiceMonitor with an endpoint that cannot be scraped, and one that could."""
    return monitoring("ServiceMonitor", "monitor", {"selector": {}, "endpoints": [
        {"port": "a", "interval": "soon"}, {"port": "b", "relabelings": [{"action": "no-action"}]}, {"port": "c"}]})


def values(number):
    """A ConfigMap with a large value."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values"}, "data": {"large": "v" * 900000, "small": "v"}}


def volumes(number):
    """A Pod whose volume names the large value many times."""
    item = pod("volumes")
    files = [{"key": "large", "path": f"f{i}"} for i in range(number or 5000)]
    item["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "values", "items": files}}]
    return item


def environment(number):
    """A Pod that takes its environment from one ConfigMap many times."""
    item = pod("environment")
    item["spec"]["containers"][0]["envFrom"] = [{"prefix": f"P{i}_", "configMapRef": {"name": "values"}} for i in range(number or 5000)]
    return item


def ports(number):
    """A Service that takes more node ports than exist, with others."""
    listed = [{"name": f"p{i}", "port": i + 1} for i in range(number or 1000)]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "ports-"}, "spec": {"type": "NodePort", "ports": listed}}


def patterns(number):
    """An alert whose text has regular expressions that are slow without a match."""
    text = '{{ reReplaceAll "a*a*[bc]" "" "' + "a" * 1000 + '" }}'
    return monitoring("PrometheusRule", "patterns", {"groups": [{"name": "patterns", "interval": "1s", "rules": [
        {"alert": "Patterns", "expr": "vector(1)", "annotations": {"text": text * (number or 60)}}]}]})


KINDS = {f.__name__: f for f in (labels, same_labels, resources, nested, rules, monitor, values, volumes, environment, ports, patterns)}

if len(sys.argv) < 2 or sys.argv[1] not in KINDS:
    sys.exit(__doc__ + "\n\nKinds: " + ", ".join(KINDS))
print(json.dumps(KINDS[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
