# SPDX-License-Identifier: Apache-2.0
"""DCGM as the second source: a host engine of this machine (127.0.0.1:5555) through its socket
protocol, compared with dcgmi and with libdcgm where they are installed."""

import os
import re
import shutil
import socket

import sources
from stages import check, skipped

ENGINE = "127.0.0.1:5555"
# The last one is only in DCGM on each GPU, so that the engine is read on Hopper and newer, too.
FIELDS = [("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge"), ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge"),
          ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge"), ("DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX", "counter")]
ACTIVE = FIELDS[0][0]
TOLERANCE = 0.15  # two clients read different intervals


def _engine_runs():
    try:
        host, port = ENGINE.split(":")
        socket.create_connection((host, int(port)), 2).close()
        return True
    except OSError:
        return False


def _library():
    _, text, _ = sources.command(["ldconfig", "-p"])
    found = re.search(r"libdcgm\.so\.\d+ .*=> (\S+)", text or "")
    return os.environ.get("HARDWARE_DCGM_LIBRARY") or (found[1] if found else None)


def _exporter(machine, name, flags):
    return sources.Exporter(machine.gpuscale, machine.folder, name, FIELDS, 1000, flags)


def _own(exporter, family):
    """The values of a family of the exporter about itself, with their labels."""
    return [(labels, value) for name, labels, value in exporter.samples() if name == family]


def _is_up(exporter):
    return any(labels.get("source") == "dcgm" and value == 1
               for labels, value in _own(exporter, "gpuscale_exporter_source_up"))


def _active(exporter):
    return {gpu: values[ACTIVE] for gpu, values in exporter.fields([]).items() if ACTIVE in values}


def _dmon():
    """{GPU: activity} as dcgmi prints it."""
    _, text, _ = sources.command(["dcgmi", "dmon", "--host", "127.0.0.1", "-e", "1001", "-c", "3"])
    return {m[1]: float(m[2]) for m in re.finditer(r"^GPU (\d+)\s+([\d.]+)\s*$", text or "", re.M)}


def _compare_dmon(exporter):
    if not shutil.which("dcgmi"):
        return skipped("dcgmi dmon", "dcgmi is not installed")
    theirs, ours = _dmon(), _active(exporter)
    both = [(gpu, theirs[gpu], ours[gpu]) for gpu in theirs if gpu in ours]
    return check("dcgmi dmon", both and all(abs(a - b) <= TOLERANCE for _, a, b in both), str(both))


def _through_library(machine, gpus):
    library = _library()
    if not library:
        return skipped("through libdcgm", "libdcgm is not installed")
    with _exporter(machine, "dcgm-library", [f"--dcgm={ENGINE}", f"--dcgm-library={library}"]) as exporter:
        same = sources.wait_until(lambda: set(_active(exporter)) == gpus, 30)
        return check("through libdcgm", bool(same), f"{library}: GPUs {sorted(_active(exporter))}")


def _pause(exporter, gpus):
    if os.environ.get("HARDWARE_DCGM_PAUSE") != "1":
        return skipped("pause", "HARDWARE_DCGM_PAUSE=1 pauses the profiling of all clients for some seconds")
    try:
        sources.command(["dcgmi", "profile", "--pause"])
        gone = sources.wait_until(lambda: not _active(exporter), 30)
    finally:
        sources.command(["dcgmi", "profile", "--resume"])
    back = sources.wait_until(lambda: set(_active(exporter)) == gpus, 30)
    return check("pause", bool(gone and back), f"absent: {bool(gone)}, back: {bool(back)}")


def host_engine(machine):
    if not _engine_runs():
        return {"checks": [skipped("host engine", f"none at {ENGINE}: start nvidia-dcgm")]}
    with _exporter(machine, "dcgm", [f"--dcgm={ENGINE}"]) as exporter:
        up = sources.wait_until(lambda: _is_up(exporter), 30)
        info = [labels for labels, _ in _own(exporter, "gpuscale_exporter_dcgm_info")]
        checks = [check("the host engine is read", bool(up), str(info) if up else exporter.text()[-1500:])]
        if not up:
            return {"checks": checks}
        sources.wait_until(lambda: machine.gpu in _active(exporter), 30)
        gpus = set(_active(exporter))
        checks.append(check("profiling metrics", machine.gpu in gpus,
                            f"GPUs {sorted(gpus)}" if gpus else exporter.text()[-1500:]))
        load = machine.load("dcgm-load", 60, 256, 100)
        if load:
            with load:
                busy = sources.wait_until(lambda: _active(exporter).get(machine.gpu, 0) >= 0.8, 30)
                checks.append(check("activity under load", bool(busy), str(_active(exporter))))
                checks.append(_compare_dmon(exporter))
        else:
            checks.append(skipped("activity under load", "no CUDA driver library"))
        checks += [_through_library(machine, gpus), _pause(exporter, gpus)]
        return {"checks": checks, "engine": info}
