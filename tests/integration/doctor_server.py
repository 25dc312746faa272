"""A Kubernetes API for doctor.sh with few permissions: nodes and pods (in two pages) can be read, Deployments are cut off, events are
no JSON, autoscalers are no list, DaemonSets do not exist, and everything else is forbidden. Usage: doctor_server.py PORT"""
import http.server
import json
import sys
import urllib.parse

NODE = {
    "metadata": {"name": "gpu-a", "labels": {"nvidia.com/gpu.present": "true"}},
    "status": {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def pod(name, image):
    return {"metadata": {"name": name, "namespace": "monitoring"}, "spec": {"nodeName": "gpu-a", "containers": [{"name": "c", "image": image}]}}


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = urllib.parse.parse_qs(url.query)
        if url.path == "/api/v1/nodes":
            self.answer(200, {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [NODE]})
        elif url.path == "/api/v1/pods" and "continue" not in query:
            self.answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "a&b"}, "items": [pod("web", "web:1")]})
        elif url.path == "/api/v1/pods" and query["continue"] == ["a&b"]:
            self.answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod("dcgm-exporter-a", "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3")]})
        elif url.path == "/apis/apps/v1/deployments":
            self.answer(200, b'{"kind": "DeploymentList", "items": [{')
        elif url.path == "/api/v1/events":
            self.answer(200, b"\x00\xff")
        elif url.path == "/apis/autoscaling/v2/horizontalpodautoscalers":
            self.answer(200, {"kind": "List", "items": {"a": 1}})
        elif url.path == "/apis/apps/v1/daemonsets":
            self.answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "the server could not find the requested resource"})
        else:
            self.answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "User \"reader\" cannot list resource"})

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
