# SPDX-License-Identifier: Apache-2.0
"""The parts of the hardware test. Each returns {"checks": [...], ...}; a check has a name, a
status (passed, failed or skipped) and a remark."""

import json
import os
import re
import shlex
import time

import fields
import sources

ROUNDS = 5
INTERVAL_MS = 500


def check(name, ok, remark=""):
    return {"name": name, "status": "passed" if ok else "failed", "remark": remark}


def skipped(name, remark):
    return {"name": name, "status": "skipped", "remark": remark}


class Machine:
    """What all parts share."""

    def __init__(self, build, source, folder, gpu, uuid):
        self.gpuscale = os.path.join(build, "src/cmd/gpuscale")
        self.intent_api = os.path.join(build, "examples/intent-api/intent-api")
        self.cuda_load = os.path.join(build, "tests/hardware/cuda-load")
        self.build, self.source, self.folder = build, source, folder
        self.gpu, self.uuid = gpu, uuid  # the GPU under load: index as text, and UUID
        self.up_flags = os.environ.get("HARDWARE_UP_FLAGS", "").split()

    def load(self, name, seconds, mib, percent):
        """Starts a load; returns it when its kernel runs. None: there is no CUDA."""
        program = sources.Program([self.cuda_load, str(seconds), str(mib), str(percent)],
                                  os.path.join(self.folder, name + ".log"),
                                  {"CUDA_VISIBLE_DEVICES": self.uuid})
        sources.wait_until(lambda: "ready " in program.text() or not program.running())
        if "ready " in program.text():
            return program
        program.stop()
        return None


# --- exporter against nvidia-smi ---

def _round(smi, exporter, texts):
    before = smi.read()
    time.sleep(2.2 * INTERVAL_MS / 1000)  # so that the sample is taken between the readings
    page = exporter.fields(texts)
    after = smi.read()
    return before, page, after


def compare(exporter, support):
    """Each field that nvidia-smi has too, on each GPU."""
    smi = sources.NvidiaSmi(fields.FIELDS)
    texts = [name for name, kind, _ in support if kind == "label"]
    rounds = [_round(smi, exporter, texts) for _ in range(ROUNDS)]
    rows, checks = [], []
    for gpu in sorted(rounds[0][0]):
        for field in fields.FIELDS:
            if field.family not in smi.source:
                continue
            values = [tuple(side.get(gpu, {}).get(field.family) for side in r) for r in rounds]
            status, remark = fields.judge(field, values)
            rows.append({
                "gpu": gpu, "field": field.family, "nvidia_smi": smi.source[field.family],
                "status": status, "remark": remark, "tolerance": field.tolerance.name,
                "reason": field.tolerance.reason, "rounds": values,
            })
            if status in ("passed", "failed"):
                checks.append(check(f"{field.family} of GPU {gpu}", status == "passed", remark))
    if not checks:
        checks.append(check("comparison", False, "no field could be compared"))
    return {"checks": checks, "rows": rows,
            "not_in_nvidia_smi": [name for name, _, has in support
                                  if has == "yes" and name not in smi.source],
            "absent_here": {name: has for name, _, has in support if has != "yes"}}


def of_gpu(exporter, gpu, names):
    page = exporter.fields([]).get(gpu, {})
    return {name: page.get(name) for name in names}


# --- under a CUDA load ---

PROFILING = [
    # field, minimum and maximum under full load of fused multiply-adds
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.8, 1.0),
    ("DCGM_FI_PROF_SM_ACTIVE", 0.8, 1.0),
    ("DCGM_FI_PROF_SM_OCCUPANCY", 0.1, 1.0),
    ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", 0.2, 1.0),
    ("DCGM_FI_PROF_DRAM_ACTIVE", 0.0, 1.0),
]


def profiling(idle, busy):
    """GPM: shares of time, near 0 when idle and near 1 when a kernel fills the GPU."""
    checks = []
    for name, least, most in PROFILING:
        if busy.get(name) is None:
            checks.append(skipped(name, "the GPU does not give it (GPM: Hopper and newer)"))
            continue
        checks.append(check(f"{name} under load", least <= busy[name] <= most,
                            f"{busy[name]:g}, want {least:g} to {most:g}"))
    name = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    if idle.get(name) is not None:
        checks.append(check(f"{name} when idle", idle[name] <= 0.1, f"{idle[name]:g}, want 0.1 at most"))
    return {"checks": checks, "idle": idle, "busy": busy}


def under_load(machine, exporter, support, seconds=300):
    """The comparison again while kernels run, and whether they are seen."""
    names = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE",
             "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] + [p[0] for p in PROFILING]
    mib = 2048
    idle = of_gpu(exporter, machine.gpu, names)
    load = machine.load("load", seconds, mib, 100)
    if not load:
        reason = "there is no CUDA driver, or it has no device"
        return {"checks": [skipped("load", reason)]}, {"checks": [skipped("GPM", reason)]}
    with load:
        time.sleep(3)
        started, before = time.monotonic(), of_gpu(exporter, machine.gpu, names)
        result = compare(exporter, support)
        took, after = time.monotonic() - started, of_gpu(exporter, machine.gpu, names)
        alive = load.running()
    result["checks"].append(check("load", alive, "" if alive else load.text()[-500:]))
    if idle["DCGM_FI_DEV_GPU_UTIL"] is not None:
        result["checks"].append(check("utilisation under full load",
                                      after["DCGM_FI_DEV_GPU_UTIL"] >= 90,
                                      f"{after['DCGM_FI_DEV_GPU_UTIL']:g} %, want 90 at least"))
    grown = after["DCGM_FI_DEV_FB_USED"] - idle["DCGM_FI_DEV_FB_USED"]
    result["checks"].append(check("memory of the load", mib <= grown + 2 <= mib + 1026,
                                  f"{grown:g} MiB more, allocated are {mib} and a context"))
    result["checks"].append(_energy(before, after, took))
    return result, profiling(idle, after)


def _energy(before, after, seconds):
    """The energy counter must grow as the power says: both come from different sensors' paths."""
    name, energy = "energy counter against power", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    if before[energy] is None or before["DCGM_FI_DEV_POWER_USAGE"] is None:
        return skipped(name, "the GPU does not give both")
    watts = (after[energy] - before[energy]) / 1000 / seconds
    mean = (before["DCGM_FI_DEV_POWER_USAGE"] + after["DCGM_FI_DEV_POWER_USAGE"]) / 2
    return check(name, abs(watts - mean) <= 10 + 0.2 * mean,
                 f"{watts:.1f} W from the counter, {mean:.1f} W measured; allowed are 10 W and 20 %")


# --- attribution of the load ---

# MiB, percent. The smallest one first, because each measures its kernel on the GPU beside the
# others.
LOADS = [("idle", 256, 0), ("light", 512, 20), ("busy", 1024, 60)]


def _of_processes(exporter, gpu, name):
    return {int(labels["ProcessId"]): value for family, labels, value in exporter.samples()
            if family == name and labels.get("gpu") == gpu and labels.get("ProcessId")}


def _mean_util(machine, exporter, pages=5):
    values = {}
    for _ in range(pages):
        page = _of_processes(exporter, machine.gpu, "DCGM_CUSTOM_PROCESS_SM_UTIL")
        for pid, value in page.items():
            values.setdefault(pid, []).append(value)
        time.sleep(1.2 * INTERVAL_MS / 1000)
    return {pid: sum(v) / len(v) for pid, v in values.items()}


def attribution(machine, exporter, seconds=120):
    loads = {}
    try:
        for name, mib, percent in LOADS:
            loads[name] = machine.load("load-" + name, seconds, mib, percent)
            if not loads[name]:
                return {"checks": [skipped("processes", "there is no CUDA driver or no device")]}
        time.sleep(4)
        memory = _of_processes(exporter, machine.gpu, "DCGM_CUSTOM_PROCESS_MEM_USED")
        util = _mean_util(machine, exporter)
        listed = sources.compute_processes()
    finally:
        for load in loads.values():
            if load:
                load.stop()
    pids = {name: load.process.pid for name, load in loads.items()}
    result = {"pids": pids, "memory": memory, "util": util, "nvidia_smi": listed}
    if not set(pids.values()) & set(memory) and len(memory) >= len(pids):
        reason = "the driver reports process ids of another pid namespace: run it on the host"
        return {**result, "checks": [skipped("processes", reason)]}
    return {**result, "checks": _check_memory(pids, memory, listed) + _check_util(pids, util)}


def _check_memory(pids, memory, listed):
    checks = []
    for name, mib, _ in LOADS:
        have = memory.get(pids[name])
        checks.append(check(f"memory of the {name} process", have is not None and
                            mib <= have + 2 <= mib + 1026,
                            f"{have} MiB, allocated are {mib} and a context"))
        theirs = (listed or {}).get(pids[name])
        if theirs is None:
            checks.append(skipped(f"memory of the {name} process as in nvidia-smi",
                                  "nvidia-smi does not list it"))
        else:
            checks.append(check(f"memory of the {name} process as in nvidia-smi",
                                have is not None and abs(have - theirs) <= 2,
                                f"{have} MiB, nvidia-smi {theirs} MiB; rounded to MiB"))
    return checks


def _check_util(pids, util):
    busy, light, idle = (util.get(pids[name]) for name in ("busy", "light", "idle"))
    if busy is None and light is None:
        return [skipped("utilisation of processes", "the driver gives none (MIG, vGPU, Kepler)")]
    have = f"busy {busy}, light {light}, idle {idle} %, wanted are 60, 20 and 0"
    known = None not in (busy, light, idle)
    return [
        check("each process has a utilisation", known, have),
        check("the busier process has more", known and busy > light > 0, have),
        check("the idle process has 0", idle == 0, have),
        check("together at most 100 %", known and busy + light + idle <= 100, have),
    ]


# --- what it costs ---

def call_costs(exporter):
    """Mean time of each NVML call, as the exporter with all fields counts it."""
    counts, seconds, errors = {}, {}, []
    for name, labels, value in exporter.samples():
        if name == "gpuscale_exporter_nvml_calls_total":
            counts[labels["call"]] = value
        elif name == "gpuscale_exporter_nvml_call_seconds_total":
            seconds[labels["call"]] = value
        elif name == "gpuscale_exporter_nvml_errors_total":
            errors.append({**labels, "count": value})
    calls = [{"call": call, "count": int(n), "mean_us": seconds.get(call, 0) / n * 1e6}
             for call, n in counts.items() if n]
    calls.sort(key=lambda c: -c["mean_us"])
    known = ("NO_PERMISSION",)  # what only root may read
    odd = [e for e in errors if e.get("error") not in known]
    return {"checks": [check("calls are counted", bool(calls)),
                       check("no call fails", not odd, "; ".join(
                           f"{e['call']}: {e.get('error')} {e['count']:g} times" for e in odd))],
            "calls": calls, "errors": errors}


def _ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        after_name = f.read().rsplit(")", 1)[1].split()
    return int(after_name[11]) + int(after_name[12])


def _status(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        found = re.search(rf"^{key}:\s+(\d+)", f.read(), re.M)
    return int(found[1]) if found else 0


def exporter_cost(machine, seconds=20):
    """CPU and memory of the exporter with its default families, one scrape a second."""
    with sources.Exporter(machine.gpuscale, machine.folder, "exporter-default") as exporter:
        pid = exporter.process.pid
        exporter.page()
        start, ticks = time.monotonic(), _ticks(pid)
        while time.monotonic() - start < seconds:
            time.sleep(1)
            exporter.page()
        took = time.monotonic() - start
        cpu = (_ticks(pid) - ticks) / os.sysconf("SC_CLK_TCK") / took * 100
        rss, threads = _status(pid, "VmRSS") / 1024, _status(pid, "Threads")
    remark = f"{cpu:.2f} % of a core, {rss:.1f} MiB resident, {threads} threads"
    return {"checks": [check("CPU of the exporter", cpu <= 10, remark + "; at most 10 %"),
                       check("memory of the exporter", rss <= 256, remark + "; at most 256 MiB")],
            "cpu_percent": cpu, "rss_mib": rss, "threads": threads, "seconds": took}


# --- the loop on this machine ---

def up(machine, seconds=25):
    """The example service under load in gpuscale up: its pod has the GPU and its figures."""
    script = shlex.quote(f"{machine.source}/tests/hardware/http_load.py")
    load = f"python3 {script} {seconds} \"$SERVICE_URL/predict?query=music\""
    data = os.path.join(machine.folder, "up")
    program = sources.Program(
        [machine.gpuscale, "up", "--data-dir", data, "--api-port=0", "--exporter-port=0",
         "--prometheus-port=0", "--filename", f"{machine.source}/examples/demo/intent-api.yaml",
         "--image", f"intent-api:*={shlex.quote(machine.intent_api)}", "--load", load, *machine.up_flags],
        os.path.join(machine.folder, "up.log"))
    with program:
        exporter = sources.wait_until(lambda: _exporter_of(program))
        loaded = exporter and sources.wait_until(lambda: "load started" in program.text(), 120)
        seen = loaded and sources.wait_until(lambda: _of_pod(exporter), seconds)
        hpa = loaded and sources.wait_until(lambda: _hpa(data), seconds)
        text = program.text()
    if not loaded:
        return {"checks": [check("gpuscale up", False, text[-1500:])]}
    return {"checks": [
        check("gpuscale up runs the example service", True),
        check("the pod's GPU is attributed to it", bool(seen), json.dumps(seen)),
        check("the autoscaler reads the GPU's utilisation", bool(hpa), json.dumps(hpa)),
    ], "pod": seen, "hpa": hpa, "simulated": "SIMULATED" in text}


def _exporter_of(program):
    found = re.search(r"exporter: (http://127\.0\.0\.1:\d+/metrics)", program.text())
    return found[1] if found else None


def _of_pod(url):
    import urllib.request
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            samples = sources.parse_page(reply.read().decode())
    except OSError:
        return None
    for name, labels, value in samples:
        if name == "DCGM_FI_DEV_GPU_UTIL" and labels.get("pod", "").startswith("intent-api") and value > 0:
            return {"pod": labels["pod"], "gpu": labels["gpu"], "util": value}
    return None


def _hpa(data):
    # Otherwise its cache would remain in the user's home directory.
    status, text, _ = sources.command(["kubectl", "--cache-dir", os.path.join(data, "kubectl"),
                                       "--kubeconfig", os.path.join(data, "kubeconfig"),
                                       "get", "hpa", "intent-api", "-o", "json"])
    if status:
        return None
    state = json.loads(text).get("status", {})
    metrics = state.get("currentMetrics")
    return {"desiredReplicas": state.get("desiredReplicas"), "currentMetrics": metrics} if metrics else None
