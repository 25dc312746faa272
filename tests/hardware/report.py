# SPDX-License-Identifier: Apache-2.0
"""The report as JSON and as Markdown."""

import json


def counts(stages):
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for stage in stages.values():
        for item in stage["checks"]:
            total[item["status"]] += 1
    return total


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in row) + " |")
    return lines + [""]


def show(value):
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _facts(facts):
    return table(["", ""], [(key, value) for key, value in facts.items() if not isinstance(value, list)] +
                 [(f"GPU {g['index']}", f"{g['name']}, {g['uuid']}") for g in facts["GPUs"]])


def _comparison(stage):
    rows = [(r["gpu"], f"`{r['field']}`", f"`{r['nvidia_smi']}`",
             " / ".join(show(v) for v in r["rounds"][-1]), r["tolerance"], r["status"], r["remark"])
            for r in stage.get("rows", []) if r["status"] != "absent"]
    return table(["GPU", "field", "nvidia-smi", "last round: before / exporter / after", "tolerance",
                  "status", "remark"], rows) if rows else []


def _tolerances(stages):
    used = {}
    for stage in stages.values():
        for row in stage.get("rows", []):
            used[row["tolerance"]] = row["reason"]
    return table(["tolerance", "reason"], sorted(used.items()))


def markdown(report):
    stages, total = report["stages"], report["counts"]
    simulated = report["facts"]["simulated"]
    lines = ["# Hardware test" + (" (SIMULATED GPUs: no hardware)" if simulated else ""), ""]
    if simulated:
        lines += ["These GPUs, nvidia-smi and the CUDA driver are simulated. The report shows that the test works, "
                  "and nothing about hardware.", ""]
    lines += [f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped, "
              f"in {report['seconds']:.0f} s.", ""]
    lines += _facts(report["facts"])
    for name, stage in stages.items():
        own = [c for c in stage["checks"] if c["status"] != "passed" or not stage.get("rows")]
        passed = sum(c["status"] == "passed" for c in stage["checks"])
        lines += [f"## {name}", "", f"{passed} of {len(stage['checks'])} checks passed.", ""]
        if own:
            lines += table(["check", "status", "remark"], [(c["name"], c["status"], c["remark"]) for c in own])
        lines += _comparison(stage)
        if stage.get("calls"):
            lines += table(["NVML call", "calls", "mean, µs"],
                           [(f"`{c['call']}`", c["count"], f"{c['mean_us']:.1f}") for c in stage["calls"]])
    lines += ["## Tolerances", ""] + _tolerances(stages)
    idle = stages.get("idle", {})
    if idle.get("not_in_nvidia_smi"):
        lines += ["## Fields that nvidia-smi has not", "",
                  ", ".join(f"`{n}`" for n in idle["not_in_nvidia_smi"]), ""]
    if idle.get("absent_here"):
        lines += ["## Fields that these GPUs have not", ""]
        lines += table(["field", "reason"], [(f"`{n}`", why) for n, why in sorted(idle["absent_here"].items())])
    return "\n".join(lines)


def write(report, folder):
    with open(f"{folder}/report.json", "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1, ensure_ascii=False)
        f.write("\n")
    with open(f"{folder}/report.md", "w", encoding="utf-8") as f:
        f.write(markdown(report))
