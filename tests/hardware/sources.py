# SPDX-License-Identifier: Apache-2.0
"""The two sides of the comparison: nvidia-smi, and an exporter of our own with all fields."""

import csv
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree

LINE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
PATIENCE = 60  # seconds for what must happen


def command(args, timeout=PATIENCE):
    """Exit status, output and errors; a program that is missing or hangs has status 127 or 124."""
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=timeout, check=False)
        return done.returncode, done.stdout, done.stderr
    except FileNotFoundError:
        return 127, "", f"{args[0]}: not found"
    except subprocess.TimeoutExpired:
        return 124, "", f"{args[0]} does not answer within {timeout} s"


def wait_until(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.2)
    return None


class NvidiaSmi:
    def __init__(self, fields):
        self.fields = fields
        _, text, _ = command(["nvidia-smi", "--help-query-gpu"])
        known = set(re.findall(r'"([a-z0-9_.A-Z]+)"', text))
        self.columns = ["index"]
        self.source = {}  # family -> column or XML path
        for field in fields:
            for name in field.names:
                if name.startswith("xml:"):
                    self.source[field.family] = name
                    break
                if name in known:
                    self.source[field.family] = name
                    if name not in self.columns:
                        self.columns.append(name)
                    break

    def _csv(self):
        status, text, errors = command(["nvidia-smi", "--query-gpu=" + ",".join(self.columns),
                                        "--format=csv,noheader,nounits"])
        if status:
            raise RuntimeError(f"nvidia-smi --query-gpu: {errors.strip() or text.strip()}")
        rows = {}
        for cells in csv.reader(text.splitlines(), skipinitialspace=True):
            if cells:
                rows[cells[0].strip()] = dict(zip(self.columns, cells))
        return rows

    def _xml(self):
        status, text, _ = command(["nvidia-smi", "-q", "-x"])
        if status:
            return []
        return xml.etree.ElementTree.fromstring(text).findall("gpu")

    def read(self):
        """{index: {family: value or None}}"""
        rows, gpus = self._csv(), self._xml()
        result = {}
        for at, (index, cells) in enumerate(rows.items()):
            values = {}
            for field in self.fields:
                source = self.source.get(field.family)
                raw = None
                if source and source.startswith("xml:"):
                    node = gpus[at].find(source[4:]) if at < len(gpus) else None
                    raw = node.text if node is not None else None
                elif source:
                    raw = cells.get(source)
                values[field.family] = field.of_smi(raw) if raw is not None else None
            result[index] = values
        return result


def compute_processes():
    """{pid: MiB or None} as nvidia-smi lists them; None: it lists none at all."""
    status, text, _ = command(["nvidia-smi", "--query-compute-apps=pid,used_memory",
                               "--format=csv,noheader,nounits"])
    if status:
        return None
    result = {}
    for cells in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(cells) == 2 and cells[0].strip().isdigit():
            memory = cells[1].strip()
            result[int(cells[0])] = float(memory) if memory.isdigit() else None
    return result


def parse_page(page):
    """[(name, labels, value)]"""
    samples = []
    for line in page.splitlines():
        match = LINE.match(line)
        if match and not line.startswith("#"):
            labels = {k: re.sub(r'\\(.)', r'\1', v) for k, v in LABEL.findall(match[2] or "")}
            samples.append((match[1], labels, float(match[3])))
    return samples


def list_fields(gpuscale):
    """[(field, type, support)] of gpuscale exporter --list-fields."""
    status, text, errors = command([gpuscale, "exporter", "--list-fields"])
    if status:
        raise RuntimeError(f"gpuscale exporter --list-fields: {errors.strip()}")
    lines = text.splitlines()
    at_support = lines[0].index("SUPPORTED")
    rows = [(line.split(), line[at_support:].strip()) for line in lines[1:]]
    return [(words[1], words[2], support) for words, support in rows
            if words[0].isdigit() and words[2] in ("gauge", "counter", "label")
            and not words[1].startswith("DCGM_EXP_")]


class Program:
    """A process in its own session, with its output in a file."""

    def __init__(self, args, log, env=None):
        self.log = log
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(args, stdout=out, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, start_new_session=True,
                                            env={**os.environ, **(env or {})})

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def running(self):
        return self.process.poll() is None

    def stop(self):
        if self.running():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Exporter(Program):
    """gpuscale exporter of whole GPUs; counters None: its default families."""

    def __init__(self, gpuscale, folder, name, counters=None, interval_ms=1000, flags=()):
        args = [gpuscale, "exporter", "--address=127.0.0.1:0", "--devices=g",
                f"--collect-interval={interval_ms}", *flags]
        if counters:
            path = os.path.join(folder, name + ".csv")
            with open(path, "w", encoding="utf-8") as f:
                for field, kind in counters:
                    f.write(f"{field}, {kind}, {field}\n")
            args.append(f"--collectors={path}")
        super().__init__(args, os.path.join(folder, name + ".log"))
        self.url = wait_until(self._address)
        if not self.url or not wait_until(self.page):
            self.stop()
            raise RuntimeError(f"the exporter does not answer:\n{self.text()[-2000:]}")

    def _address(self):
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", self.text())
        if not found:
            self.check_alive()
        return found[0] if found else None

    def check_alive(self):
        if not self.running():
            raise RuntimeError(f"the exporter ends with {self.process.returncode}:\n{self.text()[-2000:]}")

    def page(self):
        try:
            with urllib.request.urlopen(self.url, timeout=30) as reply:
                return reply.read().decode()
        except (urllib.error.URLError, OSError):
            self.check_alive()
            return None

    def samples(self):
        page = self.page()
        if page is None:
            raise RuntimeError(f"the exporter has no page:\n{self.text()[-2000:]}")
        return parse_page(page)

    def fields(self, text_fields):
        """{index: {family: value}}; what is a label is a text in lower case."""
        result = {}
        for name, labels, value in self.samples():
            if "gpu" not in labels or "GPU_I_ID" in labels or not name.startswith("DCGM_FI"):
                continue
            of = result.setdefault(labels["gpu"], {})
            of[name] = value
            for field in text_fields:
                if field in labels:
                    of[field] = labels[field].lower()
        return result
