#!/bin/sh
# The workflows and forms of .github/ are valid YAML with the keys that GitHub requires, and call only targets and programs that
# exist. With actionlint on PATH, it checks the workflows, too.
. "$(dirname "$0")/lib.sh"
cd "$source"

/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
/usr/bin/python3 - <<'END' || fail ".github"
import glob, os, re, sys, yaml
problems = []
targets = set(re.findall(r"^([a-z-]+):", open("Makefile").read(), re.M))
for path in glob.glob(".github/workflows/*.yml"):
    flow = yaml.safe_load(open(path))
    # YAML 1.1 reads the key "on" as true.
    if not (flow.get("name") and flow.get(True) and flow.get("permissions") and flow.get("jobs")):
        problems.append(f"{path}: name, on, permissions or jobs is missing")
    for name, job in flow["jobs"].items():
        if not job.get("runs-on") or not job.get("steps"):
            problems.append(f"{path}: {name}: runs-on or steps is missing")
        for step in job["steps"]:
            if ("uses" in step) == ("run" in step):
                problems.append(f"{path}: {name}: a step has neither uses nor run, or both: {step}")
            command = step.get("run", "")
            problems += [f"{path}: {name}: make {t} is no target" for line in re.findall(r"^make (.*)$", command, re.M)
                         for t in re.sub(r'\w+=("[^"]*"|\S+)', "", line).split() if t not in targets]
            problems += [f"{path}: {name}: {p} is no program" for p in re.findall(r"(?:^|\s|\()((?:tools|\.ci|tests)/[\w./-]+)", command)
                         if not os.access(p, os.X_OK)]
for path in glob.glob(".github/ISSUE_TEMPLATE/*.yml"):
    form = yaml.safe_load(open(path))
    if path.endswith("/config.yml"):
        continue
    if not (form.get("name") and form.get("description") and form.get("body")):
        problems.append(f"{path}: name, description or body is missing")
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    if len(ids) != len(set(ids)):
        problems.append(f"{path}: two parts have the same id")
    for part in form["body"]:
        if part["type"] not in ("markdown", "textarea", "input", "dropdown", "checkboxes"):
            problems.append(f"{path}: unknown type {part['type']}")
        elif "value" not in part["attributes"] if part["type"] == "markdown" else "label" not in part["attributes"]:
            problems.append(f"{path}: {part} has no label or value")
if len(glob.glob(".github/workflows/*.yml")) < 2:
    problems.append(".github/workflows: workflows are missing")
print("\n".join(problems))
sys.exit(bool(problems))
END
! command -v actionlint >/dev/null 2>&1 || actionlint .github/workflows/*.yml || fail "actionlint"
# Notes of a release are the section of its version.
tools/version --notes | grep -q '^### ' || fail "no release notes"
! tools/version --notes | grep -q '^## ' || fail "release notes of several versions"
echo ok
