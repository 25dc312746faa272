#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the web interface in Chromium with an engine that has the series of many GPUs and autoscalers.

    bench/web.py build/src/cmd/gpuscale [--gpus 1000] [--workloads 200] [--pages 10] [--updates 1000] [--up]

It prints the time until the overview is drawn, and the memory of the page; the CPU and memory of the engine with clients of
/events and with open pages; the growth of each page over many updates. --up: CPU and memory of gpuscale up instead.
"""
import argparse
import http.server
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "web"))
from browser import Browser  # noqa: E402  (tests/web)

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("gpuscale")
options.add_argument("--gpus", type=int, default=1000)
options.add_argument("--workloads", type=int, default=200)
options.add_argument("--pages", type=int, default=10, help="open pages for CPU and memory of the engine")
options.add_argument("--seconds", type=int, default=60, help="time of each measurement of the engine")
options.add_argument("--updates", type=int, default=1000, help="updates of each page for its growth")
options.add_argument("--grow", default=",gpu,node,targets", help="pages whose growth is measured")
options.add_argument("--up", action="store_true", help="measure gpuscale up with an example workload")
options.add_argument("--port", type=int, default=29390)
args = options.parse_args()

PER_NODE = 8


class Cluster(http.server.BaseHTTPRequestHandler):
    """The series of an exporter per node, of kube-state-metrics and of the pools, on one page each."""

    def do_GET(self):
        body = (kube() if self.path.startswith("/kube") else gpus()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def gpus():
    tick, lines = int(time.time()), []
    for i in range(args.gpus):
        node, w = i // PER_NODE, i % max(args.workloads, 1)
        labels = (f'gpu="{i % PER_NODE}",UUID="GPU-{i:08x}-0000-0000-0000-000000000000",pci_bus_id="00000000:{i % 256:02X}:00.0",device="nvidia{i % PER_NODE}",modelName="NVIDIA A100-SXM4-80GB",'
                  f'hostname="node-{node:04}",DCGM_FI_DRIVER_VERSION="570.124.06-simulated",container="app",namespace="team-{w % 20}",pod="service-{w}-66f7d99c55-{i:05x}"')
        for name, value in (("GPU_UTIL", (i * 7 + tick) % 101), ("FB_USED", 20000 + (i * 31 + tick) % 1000), ("FB_FREE", 60000), ("GPU_TEMP", 40 + (i + tick) % 30),
                            ("POWER_USAGE", 100 + (i * 3 + tick) % 200), ("SM_CLOCK", 1410), ("MEM_CLOCK", 1593), ("XID_ERRORS", 0), ("MEM_COPY_UTIL", i % 50)):
            lines.append(f"DCGM_FI_DEV_{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"


def kube():
    tick, lines = int(time.time()), []
    for n in range((args.gpus + PER_NODE - 1) // PER_NODE):
        node = f'node="node-{n:04}"'
        lines += [f"kube_node_info{{{node}}} 1", f'kube_node_labels{{{node},label_cloud_google_com_gke_nodepool="pool-{n % 5}"}} 1', f"kube_node_spec_unschedulable{{{node}}} 0"]
        lines += [f'kube_node_status_condition{{{node},condition="Ready",status="{s}"}} {int(s == "true")}' for s in ("true", "false", "unknown")]
        lines += [f'kube_node_status_allocatable{{{node},resource="{r}",unit="x"}} {v}' for r, v in (("cpu", 96), ("memory", 1e12), ("nvidia_com_gpu", PER_NODE), ("pods", 110))]
    for p in range(5):
        lines += [f'gpuscale_pool_ready_nodes{{pool="pool-{p}"}} 25', f'gpuscale_pool_coming_nodes{{pool="pool-{p}"}} {p % 2}']
    for w in range(args.workloads):
        hpa = f'namespace="team-{w % 20}",horizontalpodautoscaler="service-{w}"'
        lines += [f'kube_horizontalpodautoscaler_info{{{hpa},scaletargetref_kind="Deployment",scaletargetref_name="service-{w}"}} 1',
                  f"kube_horizontalpodautoscaler_spec_min_replicas{{{hpa}}} 1", f"kube_horizontalpodautoscaler_spec_max_replicas{{{hpa}}} 10",
                  f"kube_horizontalpodautoscaler_status_current_replicas{{{hpa}}} {4 + (tick // 30 + w) % 3}", f"kube_horizontalpodautoscaler_status_desired_replicas{{{hpa}}} {4 + (tick // 30 + w) % 3}",
                  f'kube_horizontalpodautoscaler_spec_target_metric{{{hpa},metric_name="gpu_utilization",metric_target_type="average"}} 60',
                  f'kube_horizontalpodautoscaler_status_target_metric{{{hpa},metric_name="gpu_utilization",metric_target_type="average"}} {(w + tick) % 100}']
        lines += [f'kube_horizontalpodautoscaler_status_condition{{{hpa},condition="{c}",status="{s}"}} {int(s == "true")}' for c in ("AbleToScale", "ScalingActive", "ScalingLimited") for s in ("true", "false", "unknown")]
    for i in range(args.gpus + 20):
        w = i % max(args.workloads, 1)
        pod = f'namespace="team-{w % 20}",pod="service-{w}-66f7d99c55-{i:05x}"'
        phase = "Running" if i < args.gpus else "Pending"
        lines += [f'kube_pod_info{{{pod},node="node-{i // PER_NODE:04}",created_by_kind="ReplicaSet",created_by_name="service-{w}-66f7d99c55"}} 1', f"kube_pod_created{{{pod}}} {tick - 5000}",
                  f'kube_pod_container_resource_requests{{{pod},container="app",node="node-{i // PER_NODE:04}",resource="nvidia_com_gpu",unit="integer"}} 1']
        lines += [f'kube_pod_status_phase{{{pod},phase="{p}"}} {int(p == phase)}' for p in ("Pending", "Running", "Succeeded", "Failed", "Unknown")]
    return "\n".join(lines) + "\n"


# Notes the time of the first view: tiles, autoscalers and nodes are in the page.
FIRST_VIEW = """new MutationObserver((all, o) => { if (document.querySelector('.overview .metric-row') && document.querySelector('.overview .dots')) {
    o.disconnect(); const laid = document.body.offsetHeight; window.firstView = performance.now(); } }).observe(document, {childList: true, subtree: true});"""

# Updates as fast as the server answers: events come at once, and the shortest time between two updates is over. Pages are drawn
# again although their data are equal (view.js).
FAST = """const now = Date.now; let jumps = 0;
Date.now = () => now() + (/live\\.js/.test(new Error().stack.split("\\n")[2]) ? 10000 * ++jumps : 0);
const text = JSON.stringify; JSON.stringify = (value, ...rest) => text(value, ...rest) + (/view\\.js/.test(new Error().stack.split("\\n")[2]) ? window.updates : "");
window.updates = 0; const drawn = new MutationObserver(() => window.updates++);
new MutationObserver((_, o) => { const view = document.querySelector('.view'); if (view) { o.disconnect(); drawn.observe(view, {childList: true}); } }).observe(document, {childList: true, subtree: true});
window.SharedWorker = undefined; window.EventSource = class { constructor() { this.timer = setInterval(() => this.onmessage && this.onmessage({data: '1'}), 20); } close() { clearInterval(this.timer); } };"""


def heap(b):
    b.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    b.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    used = b.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]
    counters = b.driver.execute_cdp_cmd("Memory.getDOMCounters", {})
    return used / 1e6, counters["nodes"], counters["jsEventListeners"]


def first_view(b):
    script = b.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIRST_VIEW})
    times, work = [], []
    b.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    metrics = lambda: {m["name"]: m["value"] for m in b.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
    for i in range(8):
        b.driver.get("about:blank")
        before = metrics()
        b.driver.get(b.base)
        b.wait("the first view", "window.firstView")
        after = metrics()
        times.append(b.js("return window.firstView"))
        work.append([1000 * (after[name] - before[name]) for name in ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")])
        time.sleep(1.5)
    moved = b.js("return performance.getEntries().reduce((sum, e) => sum + (e.transferSize || 0), 0)")
    print(f"first view: {', '.join(f'{t:.0f}' for t in sorted(times))} ms (median {sorted(times)[len(times) // 2]:.0f})")
    median = [sorted(w[i] for w in work)[len(work) // 2] for i in range(4)]
    print("           processor time of the page's thread: {:.0f} ms; scripts {:.0f}, layout {:.0f}, style {:.0f}".format(*median))
    print(f"           {moved / 1e6:.2f} MB received; heap {heap(b)[0]:.1f} MB, {heap(b)[1]} nodes")
    slow = b.js("return performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/')).map((e) => [decodeURIComponent(e.name.split('/api/v1/')[1]).slice(0, 90), e.startTime, e.duration, e.decodedBodySize]).slice(0, 24)")
    start, end = b.js("const n = performance.getEntriesByType('navigation')[0], all = performance.getEntriesByType('resource').filter((e) => e.name.includes('/assets/') && !e.name.includes('dygraph.min.js')); return [n.responseEnd, Math.max(...all.map((e) => e.responseEnd))]")
    print(f"           last load: the page has arrived after {start:.0f} ms, its files after {end:.0f} ms, answers of the API:")
    for name, start, took, size in slow:
        print(f"           {start:6.0f} +{took:5.0f} ms {size / 1000:7.0f} kB  {name}")
    b.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})


def until(b, updates):
    last, at = -1, time.time()
    while True:
        n = b.js("return window.updates")
        if n >= updates:
            return n
        if n != last:
            last, at = n, time.time()
        assert time.time() - at < 120, f"no update after {n}"
        time.sleep(0.5)


def growth(b):
    addresses = {"gpu": "gpu?uuid=GPU-00000001-0000-0000-0000-000000000000", "node": "node?name=node-0001", "workload": "workload?namespace=team-0&name=service-0"}
    script = b.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FAST})
    b.driver.execute_cdp_cmd("Network.disable", {})  # the log of requests would grow
    for page in args.grow.split(","):
        b.open(addresses.get(page, page))
        b.js("document.querySelector('.timeline-tools button')?.click()")  # five minutes
        for n in (args.updates // 10, args.updates // 2, args.updates):
            done, used = until(b, n), heap(b)
            print(f"growth of /{page:8} after {done:6} updates: heap {used[0]:6.2f} MB, {used[1]} nodes, {used[2]} listeners", flush=True)
    b.driver.get("about:blank")
    b.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})


def usage(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/smaps_rollup") as f:
        pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), pss / 1000


def follow(address, events):
    """A client that only reads events."""
    try:
        with urllib.request.urlopen(address, timeout=60) as stream:
            for line in stream:
                events.append(line.startswith(b"data:"))
    except OSError:
        pass  # the server has stopped


def cost(b, name, pid, pages):
    def measure(what):
        time.sleep(10)
        cpu, _ = usage(pid)
        time.sleep(args.seconds)
        after, memory = usage(pid)
        print(f"{name} {what:26} {100 * (after - cpu) / args.seconds:5.1f} % of a core, {memory:6.1f} MB", flush=True)
    b.driver.get("about:blank")
    measure("without pages")
    for i in range(args.pages):
        b.driver.switch_to.new_window("window")
        b.open(pages[i % len(pages)])
    measure(f"with {args.pages} pages")
    for window in b.driver.window_handles[1:]:
        b.driver.switch_to.window(window)
        b.driver.close()
    b.driver.switch_to.window(b.driver.window_handles[0])
    measure("without pages again")
    events = []
    for _ in range(args.pages):
        threading.Thread(target=follow, args=(b.base + "events", events), daemon=True).start()
    measure(f"with {args.pages} clients of /events")
    print(f"{name} {sum(events)} events were received")


ENGINE_PAGES = ("", "", "gpu?uuid=GPU-00000001-0000-0000-0000-000000000000", "node?name=node-0001", "targets")
UP_PAGES = ("", "", "workload?namespace=default&name=app", "node?name=vm", "adapter")
APP = """apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: 4
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - {name: app, image: app, command: [sleep, infinity], resources: {limits: {nvidia.com/gpu: 1}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: app}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app}
  minReplicas: 4
  maxReplicas: 8
  metrics:
  - type: Pods
    pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}, target: {type: AverageValue, averageValue: "50"}}
"""


def ready(base, query, process):
    for _ in range(600):
        time.sleep(0.2)
        assert process.poll() is None, "the program has ended"
        try:
            if b'"value"' in urllib.request.urlopen(base + "api/v1/query?query=" + query, timeout=5).read():
                return
        except OSError:
            pass
    raise AssertionError(f"no data: {query}")


def measure_up(directory):
    with open(os.path.join(directory, "app.yaml"), "w") as f:
        f.write(APP)
    base = f"http://127.0.0.1:{args.port}/"
    up = subprocess.Popen([args.gpuscale, "up", "--gpus", "8xA100-SXM4-80GB", "--filename", f.name, "--prometheus-port", str(args.port), "--api-port", "0", "--data-dir", os.path.join(directory, "data"),
                           "--log-level=warn"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        ready(base, "kube_horizontalpodautoscaler_status_target_metric", up)
        b = Browser(base, os.path.join(directory, "profile"))
        try:
            b.size(1280, 1000)
            cost(b, "up", up.pid, UP_PAGES)
        finally:
            b.close()
    finally:
        up.terminate()
        up.wait()


with tempfile.TemporaryDirectory() as directory:
    if args.up:
        measure_up(directory)
        sys.exit()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cluster)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = os.path.join(directory, "prometheus.yml")
    with open(config, "w") as f:
        f.write(f"""global: {{scrape_interval: 5s}}
scrape_configs:
- {{job_name: gpu, static_configs: [{{targets: ["127.0.0.1:{server.server_port}"]}}]}}
- {{job_name: kube-state-metrics, honor_labels: true, metrics_path: /kube, static_configs: [{{targets: ["127.0.0.1:{server.server_port}"]}}]}}
""")
    base = f"http://127.0.0.1:{args.port}/"
    engine = subprocess.Popen([args.gpuscale, "engine", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{args.port}", "--log-level=warn"])
    try:
        ready(base, "count(kube_node_info)", engine)
        time.sleep(20)
        b = Browser(base, os.path.join(directory, "profile"))
        try:
            b.size(1280, 1000)
            print(f"{args.gpus} GPUs, {args.workloads} workloads, load average {os.getloadavg()[0]:.1f}")
            if args.pages:
                first_view(b)
                cost(b, "engine", engine.pid, ENGINE_PAGES)
            if args.updates:
                growth(b)
        finally:
            b.close()
    finally:
        engine.terminate()
        engine.wait()
        server.shutdown()
