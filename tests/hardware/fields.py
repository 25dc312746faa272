# SPDX-License-Identifier: Apache-2.0
"""Which field of the exporter is which one of nvidia-smi, and how far they may differ.

A field is compared between two readings of nvidia-smi, one before and one after the exporter's
sample: its value must lie between them, give or take the tolerance. Facts and counters must agree
in each round; gauges in four of five, since both programs read them at their own moment."""

import collections

Tolerance = collections.namedtuple("Tolerance", "name absolute relative every_round reason")

FACT = Tolerance("equal", 0, 0, True, "does not change while the test runs")
COUNTER = Tolerance("counter", 0, 0, True, "only grows, so it lies between the two readings")
TIME = Tolerance("1 µs", 1000, 0, True, "nvidia-smi rounds to microseconds")
MIB = Tolerance("2 MiB", 2, 0, True, "both round to MiB")
MEMORY = Tolerance("16 MiB", 16, 0, False, "both round to MiB; nvidia-smi itself may use some")
SETTING = Tolerance("0.01", 0.01, 0, True, "nvidia-smi prints two digits")
CLOCK = Tolerance("30 MHz", 30, 0, False, "clocks move in steps of 15 MHz between two readings")
TEMPERATURE = Tolerance("2 °C", 2, 0, False, "whole degrees, read at different moments")
POWER = Tolerance("5 W + 10 %", 5, 0.10, False, "means of about a second, at different moments")
INSTANT = Tolerance("15 W + 25 %", 15, 0.25, False, "momentary values, at different moments")
PERCENT = Tolerance("20 points", 20, 0, False,
                    "the exporter has the mean of its interval, nvidia-smi the driver's last sample")
STATE = Tolerance("either reading", 0, 0, False, "may change between the readings")
FAN = Tolerance("3 points", 3, 0, False, "the fan is regulated meanwhile")

WORDS = {
    "enabled": 1, "disabled": 0, "yes": 1, "no": 0, "active": 1, "not active": 0,
    "default": 0, "exclusive_thread": 1, "prohibited": 2, "exclusive_process": 3,
}
FABRIC_STATES = {"not supported": None, "not started": 1, "in progress": 2, "completed": 3}


def number(text):
    """A figure of nvidia-smi; None: it has none ("N/A", "[Not Supported]", …)."""
    text = text.strip()
    word = text.lower()
    if word in WORDS:
        return float(WORDS[word])
    if not text or text[0] == "[" or word.startswith(("n/a", "unknown", "not ", "insufficient")):
        return None
    if word.startswith("0x"):
        return float(int(word, 16))
    if word[0] == "p" and word[1:].isdigit():  # a performance state
        return float(word[1:])
    first = text.split()[0]  # what follows is the unit
    try:
        return float(first)
    except ValueError:
        return None


def fabric(text):
    return FABRIC_STATES.get(text.strip().lower())


def text(value):
    value = value.strip()
    absent = not value or value[0] == "[" or value.lower() in ("n/a", "unknown error")
    return None if absent else value.lower()


class Field:
    """names: query of nvidia-smi --query-gpu, older name last; "xml:path" of nvidia-smi -q -x."""

    def __init__(self, family, names, tolerance, scale=1, convert=number):
        self.family = family
        self.names = names.split()
        self.tolerance = tolerance
        self.scale = scale
        self.convert = convert

    @property
    def is_text(self):
        return self.convert is text

    def of_smi(self, raw):
        value = self.convert(raw)
        return value if value is None or self.is_text else value * self.scale


def _ecc(unit, name):
    rows = []
    for short, kind in (("SBE", "corrected"), ("DBE", "uncorrected")):
        for span, when in (("VOL", "volatile"), ("AGG", "aggregate")):
            rows.append(Field(f"DCGM_FI_DEV_ECC_{short}_{span}_{unit}",
                              f"ecc.errors.{kind}.{when}.{name}", COUNTER))
    return rows


def _banks():
    return [Field(f"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_{w.upper()}",
                  f"remapped_rows.histogram.{w}", FACT)
            for w in ("max", "high", "partial", "low", "none")]


FIELDS = [
    Field("DCGM_FI_DRIVER_VERSION", "driver_version", FACT, convert=text),
    Field("DCGM_FI_DEV_NAME", "name", FACT, convert=text),
    Field("DCGM_FI_DEV_NVML_INDEX", "index", FACT),
    Field("DCGM_FI_DEV_SERIAL", "serial", FACT, convert=text),
    Field("DCGM_FI_DEV_UUID", "uuid", FACT, convert=text),
    Field("DCGM_FI_DEV_MINOR_NUMBER", "xml:minor_number", FACT),
    Field("DCGM_FI_DEV_PCI_BUSID", "pci.bus_id", FACT, convert=text),
    Field("DCGM_FI_DEV_VBIOS_VERSION", "vbios_version", FACT, convert=text),
    Field("DCGM_FI_DEV_INFOROM_IMAGE_VER", "inforom.img", FACT, convert=text),
    Field("DCGM_FI_DEV_OEM_INFOROM_VER", "inforom.oem", FACT, convert=text),
    Field("DCGM_FI_DEV_ECC_INFOROM_VER", "inforom.ecc", FACT, convert=text),
    Field("DCGM_FI_DEV_POWER_INFOROM_VER", "inforom.pwr", FACT, convert=text),
    Field("DCGM_FI_DEV_COMPUTE_MODE", "compute_mode", FACT),
    Field("DCGM_FI_DEV_PERSISTENCE_MODE", "persistence_mode", FACT),
    Field("DCGM_FI_DEV_MIG_MODE", "mig.mode.current", FACT),
    Field("DCGM_FI_DEV_BAR1_TOTAL", "xml:bar1_memory_usage/total", MIB),
    Field("DCGM_FI_DEV_BAR1_USED", "xml:bar1_memory_usage/used", MEMORY),
    Field("DCGM_FI_DEV_BAR1_FREE", "xml:bar1_memory_usage/free", MEMORY),
    Field("DCGM_FI_DEV_SM_CLOCK", "clocks.current.sm clocks.sm", CLOCK),
    Field("DCGM_FI_DEV_MEM_CLOCK", "clocks.current.memory clocks.mem", CLOCK),
    Field("DCGM_FI_DEV_VIDEO_CLOCK", "clocks.current.video clocks.video", CLOCK),
    Field("DCGM_FI_DEV_APP_SM_CLOCK", "clocks.applications.graphics", FACT),
    Field("DCGM_FI_DEV_APP_MEM_CLOCK", "clocks.applications.memory", FACT),
    Field("DCGM_FI_DEV_MAX_SM_CLOCK", "clocks.max.sm", FACT),
    Field("DCGM_FI_DEV_MAX_MEM_CLOCK", "clocks.max.memory clocks.max.mem", FACT),
    Field("DCGM_FI_DEV_MAX_VIDEO_CLOCK", "xml:max_clocks/video_clock", FACT),
    Field("DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
          "clocks_event_reasons.active clocks_throttle_reasons.active", STATE),
    Field("DCGM_FI_DEV_GPU_TEMP", "temperature.gpu", TEMPERATURE),
    Field("DCGM_FI_DEV_GPU_TEMP_LIMIT", "temperature.gpu.tlimit", TEMPERATURE),
    Field("DCGM_FI_DEV_MEMORY_TEMP", "temperature.memory", TEMPERATURE),
    Field("DCGM_FI_DEV_SHUTDOWN_TEMP", "xml:temperature/gpu_temp_max_threshold", FACT),
    Field("DCGM_FI_DEV_SLOWDOWN_TEMP", "xml:temperature/gpu_temp_slow_threshold", FACT),
    Field("DCGM_FI_DEV_GPU_MAX_OP_TEMP", "xml:temperature/gpu_temp_max_gpu_threshold", FACT),
    Field("DCGM_FI_DEV_MEM_MAX_OP_TEMP", "xml:temperature/gpu_temp_max_mem_threshold", FACT),
    Field("DCGM_FI_DEV_POWER_USAGE", "power.draw", POWER),
    Field("DCGM_FI_DEV_POWER_USAGE_INSTANT", "power.draw.instant", INSTANT),
    Field("DCGM_FI_DEV_POWER_MGMT_LIMIT", "power.limit", SETTING),
    Field("DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", "power.min_limit", SETTING),
    Field("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", "power.max_limit", SETTING),
    Field("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "power.default_limit", SETTING),
    Field("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "enforced.power.limit", SETTING),
    Field("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", "fabric.state", FACT, convert=fabric),
    Field("DCGM_FI_DEV_FABRIC_CLIQUE_ID", "xml:fabric/cliqueId", FACT),
    Field("DCGM_FI_DEV_PSTATE", "pstate", STATE),
    Field("DCGM_FI_DEV_FAN_SPEED", "fan.speed", FAN),
    Field("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "xml:pci/replay_counter", COUNTER),
    Field("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "pcie.link.gen.max", FACT),
    Field("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "pcie.link.width.max", FACT),
    Field("DCGM_FI_DEV_PCIE_LINK_GEN", "pcie.link.gen.gpucurrent pcie.link.gen.current", STATE),
    Field("DCGM_FI_DEV_PCIE_LINK_WIDTH", "pcie.link.width.current", STATE),
    Field("DCGM_FI_DEV_GPU_UTIL", "utilization.gpu", PERCENT),
    Field("DCGM_FI_DEV_MEM_COPY_UTIL", "utilization.memory", PERCENT),
    Field("DCGM_FI_DEV_ENC_UTIL", "utilization.encoder", PERCENT),
    Field("DCGM_FI_DEV_DEC_UTIL", "utilization.decoder", PERCENT),
    Field("DCGM_FI_DEV_FB_TOTAL", "memory.total", MIB),
    Field("DCGM_FI_DEV_FB_FREE", "memory.free", MEMORY),
    Field("DCGM_FI_DEV_FB_USED", "memory.used", MEMORY),
    Field("DCGM_FI_DEV_FB_RESERVED", "memory.reserved", MEMORY),
    Field("DCGM_FI_DEV_ECC_CURRENT", "ecc.mode.current", FACT),
    Field("DCGM_FI_DEV_ECC_PENDING", "ecc.mode.pending", FACT),
    *_ecc("TOTAL", "total"), *_ecc("DEV", "device_memory"), *_ecc("REG", "register_file"),
    *_ecc("L1", "l1_cache"), *_ecc("L2", "l2_cache"), *_ecc("TEX", "texture_memory"),
    Field("DCGM_FI_DEV_RETIRED_SBE", "retired_pages.single_bit_ecc.count", COUNTER),
    Field("DCGM_FI_DEV_RETIRED_DBE", "retired_pages.double_bit.count", COUNTER),
    Field("DCGM_FI_DEV_RETIRED_PENDING", "retired_pages.pending", FACT),
    Field("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "remapped_rows.correctable", COUNTER),
    Field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped_rows.uncorrectable", COUNTER),
    Field("DCGM_FI_DEV_ROW_REMAP_PENDING", "remapped_rows.pending", FACT),
    Field("DCGM_FI_DEV_ROW_REMAP_FAILURE", "remapped_rows.failure", FACT),
    *_banks(),
    Field("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",
          "clocks_event_reasons_counters.sw_power_cap", TIME, scale=1000),
    Field("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",
          "clocks_event_reasons_counters.sync_boost", TIME, scale=1000),
    Field("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
          "clocks_event_reasons_counters.sw_thermal_slowdown", TIME, scale=1000),
    Field("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
          "clocks_event_reasons_counters.hw_thermal_slowdown", TIME, scale=1000),
    Field("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
          "clocks_event_reasons_counters.hw_power_brake_slowdown", TIME, scale=1000),
]


def excess(tolerance, before, value, after):
    """How far the value is outside of the two readings and the tolerance; 0: inside."""
    low, high = min(before, after), max(before, after)
    if tolerance is STATE:
        return 0 if value in (before, after) else min(abs(value - before), abs(value - after))
    room = tolerance.absolute + tolerance.relative * max(abs(low), abs(high))
    return max(low - room - value, value - high - room, 0)


def judge(field, rounds):
    """rounds: (before, value, after) each; None: not there. Returns status and a remark."""
    smi_has = [r for r in rounds if r[0] is not None and r[2] is not None]
    ours = [r for r in rounds if r[1] is not None]
    if not smi_has and not ours:
        return "absent", "neither has it"
    if not smi_has:
        return "only here", "nvidia-smi gives no value"
    if not ours:
        return "failed", f"the exporter has no value, nvidia-smi {smi_has[0][0]}"
    both = [r for r in smi_has if r[1] is not None]
    if field.is_text:
        wrong = [r for r in both if r[1] not in (r[0], r[2])]
        if wrong:
            return "failed", f"{wrong[0][1]!r} instead of {wrong[0][0]!r}"
        return "passed", ""
    outside = [(excess(field.tolerance, *r), r) for r in both]
    bad = [o for o in outside if o[0] > 0]
    allowed = 0 if field.tolerance.every_round else len(both) // 5
    if len(bad) > allowed:
        worst = max(bad, key=lambda o: o[0])[1]
        return "failed", (f"{len(bad)} of {len(both)} rounds differ: {worst[1]:g}, nvidia-smi "
                          f"{worst[0]:g} and {worst[2]:g}")
    if bad:
        return "passed", f"{len(bad)} of {len(both)} rounds differ"
    return "passed", ""
