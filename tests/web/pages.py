#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens all pages of an engine in Chromium: with data, hostile texts, errors, without data, on narrow and wide screens, by
keyboard, and while the engine restarts.

Usage: pages.py DIR PORT COMMAND…   COMMAND starts the engine; it serves http://127.0.0.1:PORT/sub/ for the user
"reader" with the password "secret".
"""
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import PATIENCE, Browser  # noqa: E402  (this folder)
from selenium.webdriver.common.keys import Keys  # noqa: E402

EVIL = "<img src=x onerror=window.hacked=1>"
EVIL_GPU = "gpu?uuid=" + urllib.parse.quote(EVIL)
EVIL_NODE = "node?name=" + urllib.parse.quote(EVIL)
PAGES = ("", EVIL_GPU, EVIL_NODE, "gpu?uuid=none", "node?name=none", "gpu", "workloads", "gpus", "nodes", "inference", "query", "alerts", "rules", "targets", "service-discovery", "alertmanager-discovery", "config", "flags", "status", "tsdb-status", "report", "dashboards", "dashboard", "dashboard?session=" + urllib.parse.quote(EVIL))

directory, port, command = sys.argv[1], sys.argv[2], sys.argv[3:]
base = f"http://127.0.0.1:{port}/sub/"
engine = None


class Target(http.server.BaseHTTPRequestHandler):
    """A target whose texts try to be HTML. It has an autoscaler, a pod that waits, and a node without GPUs."""
    desired = 2
    engines = False  # of inference
    shop = False  # whether the pods of shop/web are engines
    xid = 0  # None: the GPU is gone

    def do_GET(self):
        hpa = f'namespace="{EVIL}",horizontalpodautoscaler="{EVIL}"'
        pod = f'namespace="n",pod="{EVIL}"'
        # A sample of 40 seconds ago is old for one of the two jobs only.
        late = f'DCGM_FI_DEV_GPU_UTIL{{gpu="7",UUID="GPU-late{self.path.replace("/", "-")}",modelName="NVIDIA T4",hostname="late"}} 5 {int(1000 * (time.time() - 40))}\n'
        body = late.encode() if self.path == "/slow" else (late + f"# HELP evil_metric {EVIL}\n# TYPE evil_metric gauge\n"
                f'evil_metric{{text="{EVIL}",script="<script>window.hacked=1</script>"}} 1\n'
                f'kube_horizontalpodautoscaler_info{{{hpa},scaletargetref_kind="Deployment",scaletargetref_name="{EVIL}"}} 1\n'
                f'kube_horizontalpodautoscaler_spec_min_replicas{{{hpa}}} 1\nkube_horizontalpodautoscaler_spec_max_replicas{{{hpa}}} 9\n'
                f'kube_horizontalpodautoscaler_status_current_replicas{{{hpa}}} 2\nkube_horizontalpodautoscaler_status_desired_replicas{{{hpa}}} {Target.desired}\n'
                f'kube_horizontalpodautoscaler_spec_target_metric{{{hpa},metric_name="{EVIL}",metric_target_type="average"}} 20\n'
                f'kube_horizontalpodautoscaler_status_target_metric{{{hpa},metric_name="{EVIL}",metric_target_type="average"}} 71\n'
                f'kube_horizontalpodautoscaler_status_condition{{{hpa},condition="ScalingActive",status="true"}} 1\n'
                'kube_horizontalpodautoscaler_status_current_replicas{namespace="shop",horizontalpodautoscaler="web"} 3\n'
                f'kube_horizontalpodautoscaler_status_target_metric{{namespace="shop",horizontalpodautoscaler="web",metric_name="{METRIC}",metric_target_type="average"}} 19\n'
                f'kube_pod_status_phase{{{pod},phase="Pending"}} 1\nkube_pod_created{{{pod}}} 1\nkube_pod_status_unschedulable{{{pod}}} 1\n'
                f'kube_node_info{{node="{EVIL}"}} 1\nkube_node_labels{{node="{EVIL}",label_gpuscale_dev_pool="{EVIL}"}} 1\n'
                f'gpuscale_pool_coming_nodes{{pool="{EVIL}"}} 1\n'
                f'kube_node_status_condition{{node="{EVIL}",condition="Ready",status="true"}} 1\nkube_node_status_allocatable{{node="{EVIL}",resource="nvidia_com_gpu"}} 2\n'
                f'kube_node_spec_taint{{node="{EVIL}",key="{EVIL}",value="{EVIL}",effect="NoSchedule"}} 1\nkube_pod_info{{{pod},node="{EVIL}",created_by_kind="Job",created_by_name="{EVIL}"}} 1\n'
                f'kube_pod_container_resource_requests{{{pod},node="{EVIL}",resource="nvidia_com_gpu"}} 1\n' + Target.gpu() + Target.inference() + Target.web_engines()
                # The longest values of a GPU.
                + "".join(f'DCGM_FI_DEV_{name}{{gpu="0",UUID="GPU-9",modelName="NVIDIA A100-SXM4-80GB",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"}} {value}\n'
                          for name, value in (("GPU_UTIL", 100), ("FB_USED", 183193), ("FB_FREE", 1000), ("GPU_TEMP", 100), ("POWER_USAGE", 1000)))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass  # the engine has stopped

    def log_message(self, *args):
        pass

    @staticmethod
    def gpu():
        """A shared GPU of that node with the processes of two pods."""
        if Target.xid is None:
            return ""
        labels = f'gpu="0",UUID="{EVIL}",hostname="{EVIL}",modelName="{EVIL}"'
        return ("".join(f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n" for name, value in (("GPU_UTIL", 70), ("FB_USED", 2048), ("FB_FREE", 2048), ("CLOCKS_EVENT_REASONS", 4))) +
                f'DCGM_FI_DEV_XID_ERRORS{{{labels},err_code="{Target.xid}",err_msg="{EVIL}"}} {Target.xid}\nDCGM_CUSTOM_ALLOCATE_MODE{{{labels}}} 2\n' +
                "".join(f'DCGM_CUSTOM_PROCESS_SM_UTIL{{{labels},AllocateMode="share",NamespaceName="n",PodName="{name}",ContainerName="{EVIL}",ProcessId="1",ProcessName="{EVIL}"}} 35\n'
                        f'gpuscale_exporter_pod_attribution{{{labels},exported_namespace="n",exported_pod="{name}",value="utilization",attribution="estimate"}} 1\n' for name in (EVIL, "other")))


    @staticmethod
    def web_engines():
        """Five requests per second of an engine of shop/web."""
        labels = 'namespace="shop",pod="web-5d4f8c9b7-aaaaa",model="org/Llama-8B",engine="vllm",role=""'
        requests = int(5 * (time.time() % 1e6))
        return "" if not Target.shop else "".join(f"gpuscale_inference_{name}{{{labels}}} {value}\n" for name, value in (
            ("ttft_seconds_count", requests), ("prompt_tokens_total", 500 * requests), ("generation_tokens_total", 100 * requests), ("running", 4), ("waiting", 0))) + \
            'kube_horizontalpodautoscaler_info{namespace="shop",horizontalpodautoscaler="web",scaletargetref_kind="Deployment",scaletargetref_name="web"} 1\n'

    @staticmethod
    def inference():
        """A workload of two pods, and an engine that measures little on the GPU of the node."""
        if not Target.engines:
            return ""
        def lines(pod, model, **values):
            labels = f'namespace="n",pod="{pod}",model="{model}",engine="vllm",role=""'
            return "".join(f"gpuscale_inference_{name}{{{labels}}} {value}\n" for name, value in values.items())
        return (lines("chat-5d4f8c9b7-aaaaa", EVIL, waiting=3, running=8, kv_used_ratio=0.25, kv_capacity_tokens=400000, ttft_p90_seconds=0.5, itl_p90_seconds=0.0213,
                      generation_tokens_total=int(100 * time.time() % 1e9), preemptions_total=0, sleeping=1) +
                lines("chat-5d4f8c9b7-bbbbb", EVIL, waiting=4, running=8, kv_used_ratio=0.5, kv_capacity_tokens=400000, ttft_p90_seconds=1.25, sleeping=0) + lines(EVIL, "", running=1) +
                'kube_horizontalpodautoscaler_info{namespace="n",horizontalpodautoscaler="chat",scaletargetref_kind="Deployment",scaletargetref_name="chat"} 1\n'
                + "".join(f'kube_pod_info{{namespace="n",pod="chat-5d4f8c9b7-{x}",created_by_kind="ReplicaSet",created_by_name="chat-5d4f8c9b7"}} 1\n' for x in ("aaaaa", "bbbbb")))


METRIC = "DCGM_CUSTOM_PROCESS_SM_UTIL"


class Cluster(http.server.BaseHTTPRequestHandler):
    """A Kubernetes API with the autoscaler shop/web, whose pods and events try to be HTML."""

    PODS = [{"metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]},
             "status": {"phase": "Running", "startTime": "2024-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:10Z"}]}}
            for name in ("web-0", EVIL, "web-2")]

    def answer(self):
        path = self.path.split("?")[0]
        if path == "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web":
            return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "shop"},
                    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 10,
                             "metrics": [{"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": {"type": "AverageValue", "averageValue": "20"}}}]},
                    "status": {"currentReplicas": 3, "desiredReplicas": 3, "conditions": [{"type": "ScalingActive", "status": "False", "reason": EVIL, "message": EVIL}]}}
        if path == "/apis/apps/v1/namespaces/shop/deployments/web/scale":
            return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "shop"},
                    "spec": {"replicas": 3}, "status": {"replicas": 3, "selector": "app=web"}}
        if path == "/api/v1/namespaces/shop/pods":
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.PODS}
        if path == "/api/v1/namespaces/shop/events":
            return {"kind": "EventList", "apiVersion": "v1", "items": [{"lastTimestamp": "2024-01-01T00:00:00Z", "type": "Normal", "reason": "SuccessfulRescale", "message": EVIL}]}
        if path == "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.custom.metrics.k8s.io":
            return {"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "metadata": {"name": EVIL}, "spec": {"service": {"namespace": EVIL, "name": EVIL}},
                    "status": {"conditions": [{"type": "Available", "status": "False", "reason": EVIL, "message": EVIL}]}}
        if path == "/apis/custom.metrics.k8s.io":
            version = {"groupVersion": "custom.metrics.k8s.io/v1beta2", "version": "v1beta2"}
            return {"kind": "APIGroup", "apiVersion": "v1", "name": "custom.metrics.k8s.io", "versions": [version], "preferredVersion": version}
        if path.startswith("/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/"):
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            return {"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {}, "items": [
                {"describedObject": {"kind": "Pod", "namespace": "shop", "name": name}, "metric": {"name": METRIC}, "timestamp": now, "value": "50"} for name in ("web-0", EVIL)]}
        return None

    def do_GET(self):
        found = self.answer()
        body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def start_engine():
    global engine
    engine = subprocess.Popen(command, stdout=open(os.path.join(directory, "engine.log"), "ab"), stderr=subprocess.STDOUT)
    for _ in range(PATIENCE * 10):
        try:
            urllib.request.urlopen(base + "-/ready", timeout=5)
            return
        except urllib.error.HTTPError as error:
            if error.code == 401:
                return
        except OSError:
            pass
        assert engine.poll() is None, "the engine has ended"
        time.sleep(0.1)
    raise AssertionError("the engine does not start")


def stop_engine():
    engine.terminate()
    engine.wait()


def say(text):
    print("ok:", text, flush=True)


def check_pages(b):
    for width, height, dark in ((400, 800, False), (1280, 860, True), (2560, 1300, False)):
        b.size(width, height, dark)
        for page in PAGES:
            b.open(page)
            b.check(f"{page} at {width} pixels")
    say("all pages are drawn at 400, 1280 and 2560 pixels, light and dark")
    for page, wanted in (("targets", [EVIL, "dead"]), ("alerts", ["TargetDown", f"Target {EVIL}"]), ("rules", [EVIL]),
                         ("service-discovery", [EVIL, "__address__", "dropped"]), ("config", [EVIL]), ("flags", ["--web.external-url"]),
                         ("tsdb-status", ["DCGM_FI_DEV_GPU_UTIL"]), ("status", ["gpuscale-"]),
                         ("report", ["Idle now", "No "])):
        b.open(page)
        for text in wanted:
            b.wait(f"{page} shows {text}", f"document.querySelector('main').textContent.includes({text!r})")
        b.check(page)
    say("hostile texts are shown as texts")


# No value of a GPU is wider than its column. Names of pods may be: their end is shown.
COMPLETE = """document.querySelector('.gpus').closest('main').textContent.includes('1000 W') && [...document.querySelectorAll('.gpus td:not(:last-child)')].every((cell) => {
    const text = document.createRange(), style = getComputedStyle(cell);
    text.selectNodeContents(cell);
    return text.getBoundingClientRect().width <= cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) + 0.5;
})"""


def check_overview(b):
    b.size(1280, 860)
    b.open("")
    b.wait("GPUs", "document.querySelectorAll('.gpus tbody tr').length === 8 && document.querySelector('.simulated')")
    for text in ("SIMULATED GPUs", "A100-SXM4-80GB", "Unschedulable: no node has room", "1 node of pool"):
        b.wait(text, f"document.querySelector('main').textContent.includes({text!r})")
    b.wait("the timeline", "document.querySelectorAll('.timeline canvas').length >= 4")
    Target.desired = 5
    b.wait("the change of the replicas", "document.querySelector('.replicas').textContent.includes('→ 5') && document.querySelector('.changes li')")
    assert "2 → 5 replicas" in b.text()
    b.wait("hostile names as texts", f"document.querySelector('.changes').textContent.includes({EVIL!r}) && document.querySelector('.waiting').textContent.includes({EVIL!r})")
    b.wait("the decision of an autoscaler", "[...document.querySelectorAll('tr.note')].some((row) => row.textContent.startsWith('It scales up from 3 to 5 replicas because DCGM_CUSTOM_PROCESS_SM_UTIL is 50, its target 20. Values up to'))")
    assert len(b.js("return [...document.querySelectorAll('tr.note')]")) == 1, "a name that is not one of Kubernetes has no explanation"
    row = "[...document.querySelectorAll('.gpus tr')].find((row) => row.querySelector('a')?.title === 'GPU-late-%s')"
    b.wait("a sample that is old for its job", f"{row % 'metrics'}.classList.contains('stale')")
    b.wait("a sample that is not old for its job", f"{row % 'slow'}.classList.contains('ok')")
    b.check("the overview")
    for width in (701, 1261, 1280):
        b.size(width, 860)
        b.wait(f"complete values at {width} pixels", COMPLETE)
    say("the overview shows autoscalers, waiting pods, GPUs and changes")


SLIDE = """const s = document.querySelector('.slider input'); s.focus(); s.value = arguments[0]; s.dispatchEvent(new Event('input'));"""


def check_workload(b):
    for width, height, dark in ((400, 800, True), (2560, 1300, True), (1280, 860, False)):
        b.size(width, height, dark)
        b.open("workload?namespace=shop&name=web")
        b.wait("the explanation", "document.querySelector('.explanation') && document.querySelector('.slider input')")
        b.check(f"the workload page at {width} pixels")
    for text in ("It scales up from 3 to 5 replicas because DCGM_CUSTOM_PROCESS_SM_UTIL is 50, its target 20", "2 / 3", "as 0 when scaling up", "Highest", "10 %",
                 "ScalingActive", "gpuscale explain hpa web -n shop", "Result: 5 replicas: pods metric DCGM_CUSTOM_PROCESS_SM_UTIL above target"):
        assert text.lower() in b.text().lower(), f"no {text!r} in {b.text()}"
    for where in (".pods", ".explanation", ".workload-bottom"):
        assert EVIL in b.js(f"return document.querySelector('{where}').textContent"), f"the hostile name is a text in {where}"
    b.js(SLIDE, 100)
    b.wait("the other decision", "document.querySelector('.what-if-head')?.textContent.startsWith('2 replicas')")
    b.driver.switch_to.active_element.send_keys(Keys.HOME)
    b.wait("the decision with the smallest target", "document.querySelector('.what-if-head')?.textContent.startsWith('6 replicas')")
    field = b.driver.find_element("css selector", ".slider input[type=number]")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("0")
    b.wait("the reason of a refusal", "document.querySelector('.what-if-result .error-text')")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("40")
    b.wait("the history", """(() => {
        if (!document.querySelector('.history [aria-pressed=true]')) document.querySelector('.history-ranges button').click();
        return document.querySelector('.history-summary')?.textContent.startsWith('With target 40 you would have used') && document.querySelector('.history canvas');
    })()""")
    for width, dark in ((400, False), (2560, True), (1280, False)):
        b.size(width, 900, dark)
        b.check(f"the history at {width} pixels", allow=("400",))
    b.wait("live data with the slider in place", "document.querySelector('.connection.live')")
    b.driver.find_element("xpath", "//button[.='Reset']").click()
    b.wait("the real settings", "document.querySelector('.what-if-result').textContent.includes('Move a slider')")
    b.check("what if", allow=("400",))
    # From the series alone: the cluster has no such autoscaler.
    b.open("workload?" + urllib.parse.urlencode({"namespace": EVIL, "name": EVIL}))
    b.wait("what the series say", "document.querySelector('.tiles') && document.querySelector('.sentence')?.textContent.startsWith('No explanation: namespace')")
    assert EVIL in b.text()
    b.check("a workload without an explanation", allow=("400",))
    b.open("workload?namespace=shop&name=nothing")
    b.wait("an error", "document.querySelector('.notice.error')?.textContent.includes('not found')")
    b.check("an autoscaler that does not exist", allow=("404",))
    b.open("workload")
    b.wait("the list", "document.querySelector('main td a')")
    b.js("document.querySelector('main td a').click()")
    b.wait("the page of the list's entry", "document.querySelector('.sentence')")
    b.check("the list of autoscalers", allow=("400",))
    say("the workload page explains a decision and answers what-if questions")


# What an explanation has for an autoscaler with a latency target.
SLO = {"annotation": "ttft=1s,p=90", "applied": True, "ageMs": 200, "proposal": 4, "pressure": 1.3, "hold": None, "decider": "demand", "forecast": {"growth": 1.5, "text": "+50 % in 2 min"},
       "bounds": [{"name": "demand", "proposal": 4, "text": EVIL}, {"name": "throughput", "proposal": 3, "text": "2,400 tokens/s"}, {"name": "latency", "abstains": "fewer than 20 requests"}],
       "credit": {"starting": 2, "text": "would be 6, credit for 2 that start"}, "guard": {"holds": False, "text": "at 2 replicas each would be at 96 %"},
       "capacity": {"kind": "pods", "max": 3, "placeholders": 2, "forecast": 6, "present": 4, "applied": True, "text": "6 replicas may be needed", "error": EVIL}}
STARTUP = {"path": "node free, image present", "p50Seconds": 40, "p90Seconds": 52, "samples": 5, "n": 5, "failed": 1, "phases": {"pending": {"n": 5, "p50Seconds": 1, "p90Seconds": 2}, "pull": {"n": 5, "p50Seconds": 0, "p90Seconds": 0}, "container": {"n": 5, "p50Seconds": 3, "p90Seconds": 4}, "load": {"n": 5, "p50Seconds": 40, "p90Seconds": 52}}}
FIXTURE = """const real = window.fetch;
window.fetch = async (url, ...rest) => {
  const answer = await real(url, ...rest);
  if (!String(url.url || url).includes("gpuscale/explain")) return answer;
  const body = await answer.json();
  if (body.data) Object.assign(body.data, {slo: %s, startup: %s});
  return new Response(JSON.stringify(body), {status: answer.status, headers: answer.headers});
};"""


def check_target_history(b):
    """Another latency target on the recorded requests of the engines."""
    slider = "[...document.querySelectorAll('.slider')].find((s) => s.textContent.startsWith('First token'))"
    b.wait("the slider of the target", f"{slider}?.querySelector('input').value === '1'")
    b.js(f"const s = {slider}.querySelector('input'); s.value = 2; s.dispatchEvent(new Event('input'));")
    b.wait("what it needs", "document.querySelector('.what-if-result').textContent.includes('on recorded history')")
    b.wait("the history of the engines", """(() => {
        if (!document.querySelector('.history [aria-pressed=true]')) document.querySelector('.history-ranges button').click();
        return document.querySelector('.history-summary')?.textContent.startsWith('SIMULATED With ttft 2s you would have');
    })()""")
    for text in ("of the requests within", "Within the target", "a model of org/Llama-8B", "These settings"):
        assert text.lower() in b.text().lower(), f"no {text!r} in {b.text()}"
    if "SHOTS" in os.environ:
        b.js("document.querySelector('.what-if').scrollIntoView()")
        b.shot(os.path.join(os.environ["SHOTS"], "target-history.png"))
    b.check("the history of a latency target")
    b.driver.find_element("xpath", "//button[.='Reset']").click()
    Target.shop = False


def check_latency_target(b):
    """The bounds, the credit and the phases of starts of an autoscaler with a latency target."""
    script = b.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIXTURE % (json.dumps(SLO), json.dumps(STARTUP))})
    for width, height, dark in ((400, 1400, False), (1280, 1300, False), (2560, 1300, True)):
        b.size(width, height, dark)
        b.open("workload?namespace=shop&name=web")
        b.wait("the latency target", "document.querySelectorAll('.bounds tbody tr').length === 3 && document.querySelector('.phases')")
        assert "2 placeholders" in b.text() and "6 replicas may be needed. Not written: " + EVIL in b.text(), f"no placeholders in {b.text()}"
        b.check(f"a latency target at {width} pixels")
        if "SHOTS" in os.environ:
            b.shot(os.path.join(os.environ["SHOTS"], f"latency-target-{width}.png"))
    check_target_history(b)
    rows = b.js("return [...document.querySelectorAll('.bounds tbody tr')].map((r) => r.textContent)")
    assert rows[0] == f"demand4 decides{EVIL}" and rows[1] == "throughput32,400 tokens/s" and rows[2] == "latencyabstainsfewer than 20 requests", rows
    for text in ("pressure 1.3 of 1", "would be 6, credit for 2 that start", "1.5 times +50 % in 2 min", "the others do not hold", "at 2 replicas each would be at 96 %", "node free, image present", "52s", "1 failed", "model is loaded 40s"):
        assert text in b.text(), f"no {text!r} in {b.text()}"
    assert "image is pulled" not in b.text(), "a phase without time"
    # The metric wants 5, more than the target: it is the reason.
    assert "because DCGM_CUSTOM_PROCESS_SM_UTIL is 50" in b.text()
    b.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    higher = b.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIXTURE % (json.dumps({**SLO, "proposal": 7}), "undefined")})
    b.open("workload?namespace=shop&name=web")
    b.wait("the reason", "document.querySelector('.sentence')?.textContent.includes('because its latency target needs 7 replicas')")
    b.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", higher)
    shadow = b.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIXTURE % (json.dumps({**SLO, "proposal": 7, "applied": False, "hold": "the values are 40 s old", "pressure": None}), "undefined")})
    b.open("workload?namespace=shop&name=web")
    b.wait("shadow", "document.querySelector('.latency-target')?.textContent.includes('shadow: not applied')")
    for text in ("because DCGM_CUSTOM_PROCESS_SM_UTIL is 50", "the values are 40 s old", "no latency was measured"):
        assert text in b.text(), f"no {text!r} in {b.text()}"
    b.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", shadow)
    say("the workload page shows a latency target with its bounds, and the phases of starts")


def check_objects(b):
    """The pages of a GPU and of a node."""
    b.size(1280, 860)
    b.open("")
    b.wait("links", "document.querySelectorAll('.gpus a').length >= 5 && document.querySelector('.more-link').href.includes('/sub/workload?namespace=%3Cimg') && document.querySelector('.node-link')")
    b.js("[...document.querySelectorAll('.gpus a')].find((a) => a.title.startsWith('GPU-') && a.title.length > 20).click()")
    drawn = "document.querySelectorAll('.timeline canvas').length >= 8 && !document.body.innerText.includes('Loading …')"
    b.wait("the page of a GPU", f"location.pathname.endsWith('/gpu') && {drawn}")
    for text in ("SIMULATED GPUs", "A100-SXM4-80GB", "kWh", "No series names a pod", "Not measured. Add DCGM_FI_DEV_CLOCKS_EVENT_REASONS"):
        b.wait(text, f"document.querySelector('main').textContent.includes({text!r})")
    b.check("the page of a GPU")
    b.open(EVIL_GPU)
    b.wait("both pods", "document.querySelectorAll('.band .exclusive, .band .estimate').length >= 2 && document.querySelector('.band-span.hot')")
    for text in ("Used by (shared GPU)", "35 %", "estimate", "power limit"):
        b.wait(text, f"document.querySelector('main').textContent.includes({text!r})")
    Target.xid = 79
    b.wait("the XID", f"document.querySelector('.changes').textContent.includes('XID 79') && document.querySelector('.changes').textContent.includes({EVIL!r})")
    b.check("the page of a shared GPU")
    Target.xid = None
    b.wait("a GPU without data", "document.querySelector('main').textContent.includes('no data for') && document.querySelector('main').textContent.includes('Not known')")
    b.open(EVIL_NODE)
    b.wait("the node without its GPU", "document.querySelector('.gpus tr.missing')")
    Target.xid = 79
    b.wait("the node", f"document.querySelectorAll('.timeline canvas').length >= 4 && !document.querySelector('.gpus tr.missing') && document.querySelector('.band .exclusive')")
    for text in ("ready", "1 / 2", "not known: no series of the Cluster Autoscaler", "State of the node"):
        b.wait(text, f"document.querySelector('main').textContent.includes({text!r})")
    b.check("the page of a node")
    for page, text in (("gpu?uuid=none", "No samples of the GPU none"), ("gpu", "The address names no GPU"), ("node?name=none", "No series of the node none")):
        b.open(page)
        b.wait(text, f"document.querySelector('main').textContent.includes({text!r})")
    say("GPUs and nodes have pages with their users and history")


def check_lists(b):
    """The lists of autoscalers, GPUs and nodes, and the ways between the pages."""
    b.size(1280, 860)
    for page, wanted in (("workloads", (EVIL, "shop", METRIC)), ("gpus", ("A100-SXM4-80GB", "in use (", EVIL)), ("nodes", (EVIL, "ready", "Utilization"))):
        b.open(page)
        for text in wanted:
            b.wait(f"{page} shows {text}", f"document.querySelector('main').textContent.includes({text!r})")
        b.js("const s = document.querySelector('.filters input'); s.value = 'matches nothing'; s.dispatchEvent(new Event('input'))")
        b.wait("nothing matches", "!document.querySelector('main tbody tr')")
        b.check(f"the list {page}")
    b.js("document.querySelector('.menu summary').click()")
    b.wait("the pages of Prometheus", "document.querySelector('.menu[open] a[href=targets]')")
    b.check("the open menu")
    b.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    b.js("document.querySelector('.menu summary').focus()")
    b.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    b.wait("the closed menu", "!document.querySelector('.menu[open]')")
    b.open("targets")
    assert b.js("return document.querySelector('.menu summary').getAttribute('aria-current')") == "true", "the menu of the page is marked"
    b.open("node?name=none")
    assert b.js("return document.querySelector('.pages [aria-current]').textContent") == "Nodes", "the page above is marked"
    b.driver.get(b.base + "no/such/page")
    b.driver.find_element("link text", "Overview").click()
    b.wait("the way back", "document.body.dataset.ready && location.pathname === '/sub/'")
    b.forget()
    say("lists, the menu and a page that does not exist lead to the other pages")


def check_inference(b):
    b.open("inference")
    b.wait("how to get values", "document.querySelector('main').textContent.includes('gpuscale.dev/inference') && document.querySelector('main a[href=targets]')")
    Target.engines = True
    row = "[...document.querySelectorAll('.inference tbody tr')].find((row) => row.textContent.startsWith(%r))"
    b.wait("one row per workload", f"document.querySelectorAll('.inference tbody tr').length === 2 && {row % 'chat'}?.textContent.includes('1 of 2 asleep')")
    for width, dark in ((400, True), (2560, False), (1280, False)):
        b.size(width, 900, dark)
        b.check(f"the page of engines at {width} pixels")
    cells = "[...(%s).cells].map((cell) => cell.textContent)"
    b.wait("sums, maxima and rates", f"""(() => {{
        const [, engine, model, pods, waiting, running, kv, ttft, itl, tokens, preempted, rejected] = {cells % (row % 'chat')};
        return engine === 'vllm' && model === {EVIL!r} && pods === '2' && waiting === '7' && running === '16' && kv === '50 %' && ttft === '1.25 s' && itl.startsWith('21.3 ms') && itl.includes('1 of 2 pods') &&
            parseFloat(tokens) > 0 && preempted.startsWith('0') && rejected === 'absent';
    }})()""")
    b.wait("what an engine does not measure is absent", f"{cells % (row % EVIL)}.filter((text) => text === 'absent').length >= 6 && {cells % (row % EVIL)}[5] === '1'")
    assert b.js(f"return ({row % 'chat'}).querySelector('.missing').title.startsWith('Absent: ')")
    b.wait("the history", "document.querySelectorAll('.timeline canvas').length >= 8")
    b.wait("the way to the autoscaler", f"({row % 'chat'}).querySelector('a')?.href.endsWith('workload?namespace=n&name=chat')")
    b.js(f"({row % 'chat'}).querySelector('a').click()")
    b.wait("the panel of the workload", "location.pathname.endsWith('/workload') && document.querySelectorAll('.inference tbody tr').length === 1")
    b.check("a workload with an engine", allow=("404",))
    Target.engines = False
    say("the page of engines has a row per workload, and says what is absent")


def check_adapter(b):
    """The page of a real adapter, whose metrics and registrations have hostile names."""
    with open(os.path.join(directory, "rules.yaml"), "w") as f:
        json.dump({"rules": [{"seriesQuery": "evil_metric", "resources": {"overrides": {"job": {"resource": "namespace"}}}, "name": {"as": EVIL},
                              "metricsQuery": "max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)"},
                             {"seriesQuery": '{__name__="' + EVIL + '"}', "resources": {"template": "<<.Resource>>"}, "metricsQuery": "up"}]}, f)
    kubeconfig = os.path.join(directory, "kubeconfig")
    adapter = subprocess.Popen([command[0], "adapter", "--config", f.name, f"--prometheus-url={base.replace('//', '//reader:secret@')}", "--secure-port=29443", "--bind-address=127.0.0.1",
                                f"--cert-dir={directory}/cert", f"--lister-kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
                                "--authentication-skip-lookup", "--authorization-always-allow-paths=/,/assets/*,/api/v1/gpuscale/adapter"],
                               stdout=open(os.path.join(directory, "adapter.log"), "wb"), stderr=subprocess.STDOUT)
    try:
        for _ in range(PATIENCE * 10):
            try:
                socket.create_connection(("127.0.0.1", 29443), 5).close()
                break
            except OSError:
                assert adapter.poll() is None, open(os.path.join(directory, "adapter.log")).read()
                time.sleep(0.1)
        b.driver.get("about:blank")
        b.forget()
        engine_base, b.base = b.base, "https://127.0.0.1:29443/"
        for width, height, dark in ((400, 800, True), (2560, 1300, False), (1280, 860, False)):
            b.size(width, height, dark)
            b.open("")
            b.wait("the metric with its age", f"[...document.querySelectorAll('td.wide b')].some((name) => name.textContent === {EVIL!r}) && !document.querySelector('main').textContent.includes('not known')")
            for text in ("Metrics adapter", f"APIService v1beta1.custom.metrics.k8s.io: {EVIL}", "not registered", f"{EVIL}/{EVIL}", "http://127.0.0.1:29090/sub"):
                b.wait(text, f"document.querySelector('main').textContent.includes({text!r})")
            assert "It does not exist" not in b.text(), "another version of the API is registered"
            assert "secret" not in b.text(), "the address of the source has no password"
            b.check(f"the page of the adapter at {width} pixels")
        b.base = engine_base
        b.driver.get("about:blank")
        b.forget()
    finally:
        adapter.terminate()
        adapter.wait()
    b.open("adapter")
    b.wait("an engine without an adapter", "document.querySelector('.empty')?.textContent.includes('gpuscale adapter')")
    b.check("the adapter's page of an engine", allow=("404",))
    say("the adapter has a page with its metrics, rules and errors")


def check_query(b):
    b.size(1280, 860)
    b.open("graph?g0.expr=evil_metric&g0.tab=1")
    b.wait("a value", "document.querySelector('.values .value')")
    assert EVIL in b.text()
    b.check("a table of hostile labels")
    b.open("graph?g0.expr=evil_metric%7Btext%21%3D%22%22%7D&g0.tab=0&g0.range_input=5m")
    b.wait("a chart", "document.querySelector('.plot canvas') && document.querySelector('.legend-item')")
    assert EVIL in b.text()
    b.check("a graph of hostile labels")
    b.open("query?g0.expr=sum(&g0.tab=table")
    b.wait("an error", "document.querySelector('.notice.error')")
    assert "bad_data" in b.text()
    b.check("a wrong query", allow=("400",))
    b.open("query?g0.expr=nothing_has_this_name&g0.tab=graph")
    b.wait("an empty result", "document.body.innerText.includes('Empty query result')")
    b.check("a query without a result")
    b.open("query?g0.expr=up&g0.tab=graph&g0.range_input=10m&g0.end_input=2020-01-01%2000:00:00&g1.expr=time()&g1.tab=table")
    b.wait("the second panel", "document.querySelectorAll('.panel').length === 2 && document.body.innerText.includes('scalar')")
    b.open("query?g0.expr=vector(1)&g0.tab=graph&g0.range_input=100y")
    labels = b.js("return document.querySelectorAll('.dygraph-axis-label-x').length")
    assert 1 < labels < 30, f"{labels} times on the axis of a hundred years"
    say("links with queries show tables, graphs, errors and empty results")


def check_keyboard(b):
    b.open("query")
    field = b.driver.switch_to.active_element
    assert field.get_attribute("class") == "expression", "the expression has the focus"
    field.send_keys("evil_me")
    b.wait("a completion", "[...document.querySelectorAll('.completion li')].some((li) => li.textContent.includes('evil_metric'))")
    field.send_keys(Keys.ARROW_DOWN)
    b.wait("the help text", "document.querySelector('.completion li[aria-selected=true] .help')")
    b.check("a completion with a hostile help text")
    field.send_keys(Keys.TAB, "{te")
    b.wait("labels", "[...document.querySelectorAll('.completion .text')].some((s) => s.textContent === 'text')")
    field.send_keys(Keys.TAB)
    b.wait("values", "[...document.querySelectorAll('.completion .text')].some((s) => s.textContent.startsWith('<img'))")
    field.send_keys(Keys.TAB, '"}', Keys.ENTER)
    b.wait("the result", "document.querySelector('.values .value')")
    assert b.js("return new URLSearchParams(location.search).get('g0.expr')") == 'evil_metric{text="' + EVIL + '"}'
    field.clear()
    field.send_keys(Keys.ARROW_UP)
    b.wait("earlier queries", "document.querySelector('.completion .kind').textContent === 'earlier query'")
    field.send_keys(Keys.ESCAPE)
    b.wait("the closed list", "document.querySelector('.completion').hidden")
    b.check("the query page by keyboard")
    b.open("alerts")
    b.driver.find_element("tag name", "body").send_keys(Keys.TAB)
    assert b.js("return document.activeElement.className") == "skip"
    b.js("document.querySelector('summary').focus()")
    before = b.js("return document.querySelector('details').open")
    b.driver.switch_to.active_element.send_keys(Keys.ENTER)
    b.wait("the other state", f"document.querySelector('details').open === {str(not before).lower()}")
    say("queries are completed and run by keyboard")


def check_live(b):
    b.open("targets")
    b.wait("live data", "document.querySelector('.connection.live')")
    b.js("window.drawn = 0; new MutationObserver(() => window.drawn++).observe(document.querySelector('.view'), {childList: true})")
    before = b.js("return document.querySelectorAll('*').length")
    b.wait("new data", "window.drawn >= 3")
    after = b.js("return document.querySelectorAll('*').length")
    assert abs(after - before) < 10, f"the page grows from {before} to {after} elements"
    stop_engine()
    b.wait("the report", "document.querySelector('.notice.error') && document.querySelector('.connection.waiting')")
    assert "dead" in b.text(), "the last data stay"
    start_engine()
    b.wait("data after the restart", "!document.querySelector('.notice.error') && document.querySelector('.connection.live')")
    b.check("a page during a restart", allow=("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "503"))
    say("an open page follows new data and a restart")


def check_many(b):
    """More visible pages than a browser's connections to a host."""
    first = b.driver.current_window_handle
    for _ in range(7):
        b.driver.switch_to.new_window("window")
        b.open("flags")
        b.wait("live data", "document.querySelector('.connection.live')")
        b.check("one of many pages")
    for window in b.driver.window_handles:
        if window != first:
            b.driver.switch_to.window(window)
            b.driver.close()
    b.driver.switch_to.window(first)
    say("eight pages of one browser are live")


def check_without_storage(b):
    script = b.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {
        "source": "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('blocked', 'SecurityError'); }})"})
    b.open("query?g0.expr=vector(1)&g0.tab=graph")
    b.js("document.querySelector('.primary').click()")
    b.wait("a chart", "document.querySelector('.plot canvas') && !document.querySelector('.busy')")
    b.check("a page without storage")
    b.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})
    say("the pages work in a browser that stores nothing")


def check_without_javascript(b):
    b.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    b.driver.get(base + "alerts")
    assert b.driver.find_element("css selector", "noscript a[href='api/v1/alerts']").is_displayed()
    b.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    say("without JavaScript, the page links to the data")


def main():
    target = http.server.ThreadingHTTPServer(("127.0.0.1", 29500), Target)
    threading.Thread(target=target.serve_forever, daemon=True).start()
    cluster = http.server.ThreadingHTTPServer(("127.0.0.1", 29501), Cluster)
    threading.Thread(target=cluster.serve_forever, daemon=True).start()
    Target.shop = True
    start_engine()
    b = Browser(base, os.path.join(directory, "profile"))
    try:
        # The browser keeps the password of this address.
        b.driver.get(base.replace("//", "//reader:secret@") + "version")
        for path in ("", "../"):
            b.open(path)
            assert b.js("return location.pathname").startswith("/sub/"), "the start page is below the prefix"
        b.forget()
        b.open("query?g0.expr=evil_metric&g0.tab=1")
        b.wait("the first samples", "document.querySelector('.values') || (document.querySelector('.primary').click(), false)")
        check_pages(b)
        check_overview(b)
        check_workload(b)
        check_latency_target(b)
        check_objects(b)
        check_lists(b)
        check_inference(b)
        check_adapter(b)
        check_query(b)
        check_keyboard(b)
        check_live(b)
        check_many(b)
        check_without_storage(b)
        check_without_javascript(b)
    except BaseException:
        b.shot(os.path.join(directory, "failure.png"))
        raise
    finally:
        b.close()
        stop_engine()
        target.shutdown()
        cluster.shutdown()


main()
