#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the screenshots of docs/web.md from a running gpuscale up. Usage: tests/web/images.py URL DIR

    examples/demo/run build --pool 'spot=0..3x2,model=Tesla-T4,startup=25s' --gpus 2xA100-SXM4-80GB
    tests/web/images.py http://127.0.0.1:9090/ docs/images
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402  (this folder)

QUERY = "query?g0.expr=avg%20by%20(pod)%20(DCGM_FI_DEV_GPU_UTIL%7Bpod!%3D%22%22%7D)&g0.tab=graph&g0.range_input=10m"
WORKLOAD = "workload?namespace=default&name=intent-api"
SLIDE = """const s = document.querySelector('.slider input');
if (s) { s.value = 35; s.dispatchEvent(new Event('input')); document.querySelector('.history-ranges button').click(); }"""
IMAGES = (("web-overview", "", (1280, 1100), False), ("web-overview-dark", "", (1280, 1100), True), ("web-query", QUERY, (1280, 760), False),
          ("web-workload", WORKLOAD, (1280, 1460), False), ("web-gpu", ".gpus .owner", (1280, 1000), False), ("web-node", ".node-link", (1280, 1180), False),
          ("web-dashboard", "dashboard?name=default/gpu-fleet&file=gpu-fleet.json&from=now-5m", (1280, 1080), False), ("web-adapter", "adapter", (1280, 900), False), ("web-inference", "inference", (1280, 860), False), ("web-phone", "", (400, 800), True))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/helm/gpuscale/files/dashboards/gpu-fleet.json"), encoding="utf-8") as f:
    body = json.dumps({"namespace": "default", "name": "gpu-fleet", "dashboard": f.read(), "replace": True}).encode()
urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "api/v1/gpuscale/dashboards", body, {"Content-Type": "application/json"})).close()

with tempfile.TemporaryDirectory() as profile:
    b = Browser(sys.argv[1], profile)
    try:
        for name, page, size, dark in IMAGES:
            b.size(*size, dark=dark)
            if page.startswith("."):  # the page behind a link of the overview
                b.open("")
                page = b.js("const found = document.querySelector(arguments[0]); return found.href || found.closest('tr').querySelector('a').href", page)[len(sys.argv[1]):]
            b.open(page)
            if name == "web-inference" and not b.js("return document.querySelector('.inference')"):
                continue  # no pod has an engine
            b.wait("charts", "/(query|adapter|dashboard)$/.test(location.pathname) || document.querySelectorAll('.timeline canvas').length >= 8")
            b.wait("live data", "/(query|dashboard)$/.test(location.pathname) || document.querySelector('.connection.live')")
            b.js("document.querySelector('.timeline-tools button')?.click()")  # five minutes
            b.js(SLIDE)
            b.wait("the history", "!document.querySelector('.slider') || document.querySelector('.history canvas')")
            time.sleep(2)  # also for the colors, which fade in
            path = os.path.join(sys.argv[2], name + ".png")
            b.shot(path)
            if shutil.which("pngquant"):  # a third of the size
                subprocess.run(["pngquant", "--force", "--strip", "--output", path, "128", path], check=True)
    finally:
        b.close()
