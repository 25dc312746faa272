# SPDX-License-Identifier: Apache-2.0
"""Memory limits per cgroup of NVML 615. Inside such a partition NVML may report the memory of the
partition as that of the GPU. No limit is set here: the memory of each interface is compared."""

import ctypes
import os

from stages import check, skipped

LIMITS = "nvmlDeviceSetMemoryLimits_v1"
TOTAL, USED, FREE = "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
MIB = 1 << 20
ROUNDING_MIB = 2


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [
        (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]


def _library():
    try:
        return ctypes.CDLL(os.environ.get("GPUSCALE_NVML_LIBRARY") or "libnvidia-ml.so.1")
    except OSError:
        return None


def _totals(nvml, uuid):
    """MiB of the GPU by each interface that answers."""
    device, totals = ctypes.c_void_p(), {}
    if nvml.nvmlInit_v2():
        return totals
    first, second = _Memory(), _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
    if not nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)):
        for name, memory in (("nvmlDeviceGetMemoryInfo", first), ("nvmlDeviceGetMemoryInfo_v2", second)):
            if not getattr(nvml, name)(device, ctypes.byref(memory)):
                totals[name] = memory.total / MIB
    nvml.nvmlShutdown()
    return totals


def of_partition(machine, exporter):
    """Whether all interfaces have one total, and whether the exporter has it, too."""
    nvml = _library()
    if nvml is None:
        return {"checks": [skipped("memory limits", "NVML cannot be loaded")]}
    totals = _totals(nvml, machine.uuid)
    page = exporter.fields([]).get(machine.gpu, {})
    seen = {**totals, **{name: page.get(name) for name in (TOTAL, USED, FREE)}}
    checks = [_check_exporter(page, totals)]
    if hasattr(nvml, LIMITS):
        checks.append(_check_one_total(totals))
    else:
        checks.append(skipped("memory limits", f"the driver has no {LIMITS} (NVML 615)"))
    return {"checks": checks, "mib": seen}


def _check_exporter(page, totals):
    total = totals.get("nvmlDeviceGetMemoryInfo")
    have = page.get(TOTAL)
    agree = None not in (total, have) and abs(total - have) <= ROUNDING_MIB
    return check("memory of the GPU as in NVML", agree, f"exporter {have} MiB, NVML {total} MiB")


def _check_one_total(totals):
    agree = len(totals) == 2 and max(totals.values()) - min(totals.values()) <= ROUNDING_MIB
    return check("memory limits", agree, f"{totals}; if they differ, this program runs in a partition: "
                 "run the exporter outside")
