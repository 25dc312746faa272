"""metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io by script: one answer for every
namespace. Values are texts of quantities; None: no sample; ("error", CODE, MESSAGE): a Status.
As a program: metrics_api.py PORT CERT KEY FILE answers by the values in the JSON file."""
import http.server
import json
import re
import ssl
import sys
import threading
import time
import urllib.parse


class Script:
    """What is measured now. A change is seen by whole passes only: requests wait while it is made."""

    def __init__(self):
        self.lock = threading.Condition()
        self.closed = False
        self.values = {}  # metric (or "app/resource[/container]") -> list of values, one, or an error
        self.requests = 0

    def hold(self):
        with self.lock:
            self.closed = True

    def release(self, values):
        with self.lock:
            self.values = values
            self.closed = False
            self.lock.notify_all()

    def get(self, key):
        with self.lock:
            self.lock.wait_for(lambda: not self.closed)
            self.requests += 1
            return self.values.get(key)

    def all(self):
        with self.lock:
            self.lock.wait_for(lambda: not self.closed)
            self.requests += 1
            return dict(self.values)


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Failed(Exception):
    def __init__(self, code, message, reason=None):
        super().__init__(message)
        self.body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                     "message": message, "code": code,
                     "reason": reason or {404: "NotFound", 403: "Forbidden", 503: "ServiceUnavailable"}.get(code, "InternalError")}


def check(value):
    if isinstance(value, tuple) and value[0] == "error":
        raise Failed(value[1], value[2])
    return value


GROUPS = {"metrics.k8s.io": "v1beta1", "custom.metrics.k8s.io": "v1beta2", "external.metrics.k8s.io": "v1beta1"}


def discovery(group):
    version = group + "/" + GROUPS[group]
    resources = [{"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}] \
        if group == "metrics.k8s.io" else []
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def pods_of(app, count):
    return ["%s-%d" % (app, i) for i in range(count)]


def app_of(query):
    selector = query.get("labelSelector", [""])[0]
    m = re.search(r"(?:^|,)app=([^,]*)", selector)
    return m.group(1) if m else ""


def pod_metrics(script, ns, query):
    app = app_of(query)
    usage = {}  # pod -> container -> resource -> value
    stamp = None
    for key, values in script.all().items():
        part = key.split("/")
        if part[0] != app:
            continue
        check(values)
        container = part[2] if len(part) > 2 else "main"
        for pod, v in zip(pods_of(app, len(values)), values):
            if v is not None:
                usage.setdefault(pod, {}).setdefault(container, {})[part[1]] = v
    stamp = now()
    items = [{"metadata": {"name": pod, "namespace": ns, "labels": {"app": app}, "creationTimestamp": stamp},
              "timestamp": stamp, "window": "15s",
              "containers": [{"name": c, "usage": u} for c, u in containers.items()]}
             for pod, containers in sorted(usage.items())]
    return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def metric_value(ns, kind, name, metric, value):
    return {"describedObject": {"kind": kind, "namespace": ns, "name": name, "apiVersion": "/v1"},
            "metric": {"name": metric}, "timestamp": now(), "value": value}


def custom(script, ns, rest, query):
    if rest[0] == "metrics":
        resource, name, metric = "namespaces", ns, rest[1]
    else:
        resource, name, metric = rest[0], rest[1], rest[2]
    selector = query.get("metricLabelSelector", [""])[0]
    value = check(script.get(metric + ("{%s}" % selector if selector else "")))
    if resource == "pods" and name == "*":
        names = pods_of(app_of(query), len(value or []))
        items = [metric_value(ns, "Pod", n, metric, v) for n, v in zip(names, value or []) if v is not None]
    elif value is None:
        raise Failed(404, "the server could not find the metric %s for %s %s" % (metric, resource, name))
    else:
        items = [metric_value(ns, "Object", name, metric, v) for v in (value if isinstance(value, list) else [value])]
    return {"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {}, "items": items}


def external(script, metric, query):
    selector = query.get("labelSelector", [""])[0]
    values = check(script.get(metric + ("{%s}" % selector if selector else "")))
    items = [{"metricName": metric, "metricLabels": {"n": str(i)}, "timestamp": now(), "value": v}
             for i, v in enumerate(values or []) if v is not None]
    return {"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def answer(script, path, query):
    part = [urllib.parse.unquote(p) for p in path.strip("/").split("/")]
    if part[0] != "apis" or len(part) < 3 or GROUPS.get(part[1]) != part[2]:
        raise Failed(404, "no such path")
    if len(part) == 3:
        return discovery(part[1])
    if part[3] != "namespaces" or len(part) < 6:
        raise Failed(404, "no such path")
    if part[1] == "metrics.k8s.io":
        return pod_metrics(script, part[4], query)
    if part[1] == "custom.metrics.k8s.io":
        return custom(script, part[4], part[5:], query)
    return external(script, part[5], query)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = None

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        code = 200
        try:
            body = answer(self.script, url.path, urllib.parse.parse_qs(url.query))
        except Failed as e:
            body, code = e.body, e.body["code"]
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def serve(script, port, cert, key):
    handler = type("Scripted", (Handler,), {"script": script})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


class ScriptFile:
    def __init__(self, path):
        self.path = path

    def all(self):
        with open(self.path) as f:
            return json.load(f)

    def get(self, key):
        return self.all().get(key)


if __name__ == "__main__":
    serve(ScriptFile(sys.argv[4]), int(sys.argv[1]), sys.argv[2], sys.argv[3])
    threading.Event().wait()
