#!/usr/bin/env python3
"""The cases with two controllers: namespace "theirs" is kube-controller-manager's, "ours" is
gpuscale's. After each step both must have said and done the same. Exit status 1: they differ."""
import argparse
import concurrent.futures
import json
import re
import subprocess
import sys
import threading
import time

import cases
import metrics_api
from kube import Kube, Refused
from world import World

SETTLE = 14  # seconds that a step lasts at least: longer than any window and row of policies takes
TOLD = 25  # warnings about one object, after which a controller is silent for minutes
PATIENCE = 20  # additional seconds for the slower controller
REPEATS = 2
SLACK = 6  # seconds that one may scale after the other: periods begin when they do


def plain(text, ns):
    """Without the name of the namespace, and without the order of two autoscalers of the same pods,
    which is any in kube-controller-manager."""
    text = re.sub(r"\b%s\b" % ns, "NS", text)
    return re.sub(r"multiple HPAs: \[([^]]*)\]", lambda m: "multiple HPAs: [%s]" % " ".join(sorted(m.group(1).split())), text)


def differences(theirs, ours):
    """[(case, what, theirs, ours)]"""
    out = []
    for name in theirs:
        a, b = theirs[name], ours[name]
        for key in sorted(set(a) | set(b)):
            x, y = (plain(json.dumps(side.get(key), sort_keys=True), ns) for side, ns in ((a, "theirs"), (b, "ours")))
            if x != y:
                out.append((name, key, x, y))
    return out


def silenced(events):
    """Autoscalers with more warnings than the event limit permits: the timing selects them."""
    return {name for name, mine in events.items() if sum(n for key, n in mine.items() if key[0] == "Warning") >= TOLD - 5}


def event_differences(theirs, ours, silent, slack):
    out = []
    for name in sorted(set(theirs) | set(ours)):
        a, b = ({}, {})
        for side, seen, ns in ((a, theirs, "theirs"), (b, ours, "ours")):
            for key, n in seen.get(name, {}).items():
                key = tuple(plain(k, ns) for k in key)
                side[key] = side.get(key, 0) + n
        for key in sorted(set(a) | set(b)):
            x, y = a.get(key, 0), b.get(key, 0)
            if key[0] == "Warning" and name in silent:
                continue
            # How often a failing pass came by is a matter of phase; what was scaled is not.
            allowed = 0 if key[0] == 'Normal' or not x or not y else slack + max(x, y) // 5
            if abs(x - y) > allowed:
                out.append((name, "event " + " ".join(key), "%d times" % x, "%d times" % y))
    return out


# --- how kubectl shows them ---
def kubectl(*args):
    return subprocess.run(["kubectl", *args], capture_output=True, text=True, check=True).stdout


def shown_lines(ns):
    """kubectl get hpa: name -> line without the age."""
    lines = kubectl("-n", ns, "get", "hpa").splitlines()
    return {line.split()[0]: re.sub(r"\S+\s*$", "", line) for line in lines}


def shown_pages(ns, silent):
    """kubectl describe hpa: name -> page without times and marks, its events in one order."""
    out = {}
    for page in plain(kubectl("-n", ns, "describe", "hpa"), ns).split("\n\n\n"):
        name = (re.search(r"^Name: +(\S+)", page, re.M) or [None, None])[1]
        lines, events, in_events = [], [], False
        for line in page.splitlines():
            if in_events:  # Type Reason Age From Message
                m = re.match(r"  (\S+) +(\S+) +(.*?) +(horizontal-pod-autoscaler) +(.*)", line)
                if m and (m.group(1) != "Warning" or name not in silent):
                    events.append(" ".join(m.group(1, 2, 4, 5)))
            else:
                lines.append(re.sub(r"^(CreationTimestamp: +).*|^(Annotations: +gpuscale.dev/autoscaler: ).*", r"\1\2", line))
            in_events = in_events or line.startswith("Events:")
        if name:
            out[name] = "\n".join(lines + sorted(events))
    return out


def page_differences(what, theirs, ours):
    out = []
    for name in sorted(set(theirs) | set(ours)):
        a, b = (side.get(name, "").splitlines() for side in (theirs, ours))
        x, y = [line for line in a if line not in b], [line for line in b if line not in a]
        if a != b:
            out.append((name, what, "\n- ".join(x), "\n+ ".join(y)))
    return out


# --- when they scaled ---
class Diary:
    """The replicas of each target over time, from a watch: a controller may undo a change at once."""

    def __init__(self, worlds):
        self.seen = []
        for world in worlds:
            targets, version = world.targets()
            seen = {o["metadata"]["name"]: [(time.time(), o["spec"]["replicas"])] for o in targets}
            self.seen.append(seen)
            threading.Thread(target=self.note, args=(world, version, seen), daemon=True).start()

    @staticmethod
    def note(world, version, seen):
        for kind, o in world.changes(version):
            mine, n = seen.get(o["metadata"]["name"]), o["spec"]["replicas"]
            if kind == "MODIFIED" and mine and mine[-1][1] != n:
                mine.append((time.time(), n))

    def differences(self, slack):
        out = []
        for name in self.seen[0]:
            a, b = (side.get(name, []) for side in self.seen)
            late = [abs(x[0] - y[0]) for x, y in zip(a, b)]
            if [n for _, n in a] != [n for _, n in b] or max(late, default=0) > slack:
                start = min(x[0][0] for x in (a, b) if x)
                out.append((name, "replicas over time", *(" ".join("%d@%.1f" % (n, t - start) for t, n in x) for x in (a, b))))
        return out


class Scene:
    def __init__(self, worlds, script, wanted):
        self.worlds, self.script = worlds, script
        self.cases = [c for c in cases.ALL if not wanted or c["name"] in wanted]
        self.names = [c["name"] for c in self.cases]
        self.pool = concurrent.futures.ThreadPoolExecutor(8)

    def each(self, what):
        """what(world, case) for all, at once."""
        list(self.pool.map(lambda pair: what(*pair), [(w, c) for c in self.cases for w in self.worlds]))

    def values(self, step):
        out = {}
        for c in self.cases:
            out.update(c["steps"][step])
        return out

    def compare(self):
        theirs, ours = (w.look(self.names) for w in self.worlds)
        return differences(theirs, ours) or page_differences("kubectl get", *(shown_lines(w.ns) for w in self.worlds))

    def settle(self, started):
        """The last differences that there were: none when both agreed in the end."""
        time.sleep(max(0, started + SETTLE - time.time()))
        found = self.compare()
        while found and time.time() < started + SETTLE + PATIENCE:
            time.sleep(1)
            found = self.compare()
        return found

    def change(self, step):
        self.script.hold()
        changed = [c for c in self.cases if c.get("events_at", {}).get(step)]
        list(self.pool.map(lambda pair: [pair[0].happen(pair[1], w) for w in pair[1]["events_at"][step]],
                           [(w, c) for c in changed for w in self.worlds]))
        time.sleep(.3)  # until it is in the caches of both
        self.script.release(self.values(step))

    def report(self, what, found):
        for name, about, a, b in found:
            print("%s, %s, %s:\n- %s\n+ %s" % (what, name, about, a, b))
        print("%s: %d differences" % (what, len(found)), flush=True)
        return {name for name, *_ in found}

    def play(self):
        """Names of the cases that differ."""
        print("%d autoscalers in each namespace" % len(self.cases), flush=True)
        self.each(lambda w, c: w.populate(c))
        bad, diary = set(), None
        for step in range(cases.STEPS):
            started = time.time()
            self.change(step)
            if step == 0:
                diary = Diary(self.worlds)  # before a controller can act
                self.each(lambda w, c: w.watch_over(c))
                started = time.time()
            bad |= self.report("step %d" % step, self.settle(started))
        self.settle(time.time())  # a last change may be under way
        bad |= self.report("replicas over time", diary.differences(SLACK))
        events = [w.events() for w in self.worlds]
        silent = silenced(events[0]) | silenced(events[1])
        print("%d autoscalers with more warnings than the event limit permits: %s" % (len(silent), " ".join(sorted(silent))))
        bad |= self.report("events", event_differences(*events, silent, slack=4))
        bad |= self.report("kubectl describe", page_differences("page", *(shown_pages(w.ns, silent) for w in self.worlds)))
        return bad


def wait_for_apis(kube):
    """The API server checks the availability of aggregated APIs every few seconds."""
    until = time.time() + 300
    for group, version in metrics_api.GROUPS.items():
        while True:
            try:
                kube.get("/apis/%s/%s" % (group, version))
                break
            except Refused:
                if time.time() > until:
                    raise
                time.sleep(.3)


def main():
    p = argparse.ArgumentParser()
    for name in ("server", "ca", "cert", "key", "serving-cert", "serving-key"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--port", type=int, required=True)
    p.add_argument("--skip", action="append", default=[], help="a case that is not compared")
    p.add_argument("case", nargs="*")
    a = p.parse_args()
    kube = Kube(a.server, a.ca, a.cert, a.key)
    worlds, script = [World(kube, "theirs", "false"), World(kube, "ours", "true")], metrics_api.Script()
    metrics_api.serve(script, a.port, a.serving_cert, a.serving_key)
    wait_for_apis(kube)
    scene = Scene(worlds, script, [c["name"] for c in cases.ALL if c["name"] not in a.skip and (not a.case or c["name"] in a.case)])
    bad = scene.play()
    # On a busy machine a pass may straddle a step. What is wrong is so again.
    for _ in range(REPEATS):
        if not bad:
            break
        print("again: %s" % " ".join(sorted(bad)), flush=True)
        scene = Scene(worlds, script, bad)
        scene.each(lambda w, c: w.clear(c))
        time.sleep(3)
        bad = scene.play()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
