#!/usr/bin/env python3
"""A target with exemplars and metadata, and a receiver of remote write that reports what it has received.

Usage: remote_write.py PORT
GET /metrics is the target. POST /write/NAME receives with version 1.0 or 2.0. GET /received/NAME returns, as JSON,
the versions and content types of the requests, and for each series its metadata and exemplars, and whether samples and
a staleness marker came. A request of 2.0 must be valid by the specification, otherwise the answer is 400.
"""
import http.server, json, struct, sys, time

EXPOSITION = """# HELP requests Requests.\\nWith "quotes".
# TYPE requests counter
requests_total{path="/"} 17 # {trace_id="abc",span_id="1"} 0.5 %(now)s
requests_total{path="/x"} 3
# HELP latency_seconds Latency.
# TYPE latency_seconds histogram
# UNIT latency_seconds seconds
latency_seconds_bucket{le="0.1"} 2 # {trace_id="def"} 0.05 %(now)s
latency_seconds_bucket{le="+Inf"} 5
latency_seconds_sum 1.5
latency_seconds_count 5
# HELP size_bytes Größe.
# TYPE size_bytes summary
# UNIT size_bytes bytes
size_bytes{quantile="0.5"} 7
size_bytes_sum 70
size_bytes_count 10
# TYPE queue gauge
queue 4
# HELP build A build.
# TYPE build info
build_info{version="1"} 1
untyped 1
# EOF
"""
TYPES = ["unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"]
STALE = 0x7FF0000000000002
received = {}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if wire == 1 else varint(data, at)
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def unsnappy(data):
    size, at = varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag, at = data[at], at + 1
        kind, n = tag & 3, tag >> 2
        if kind == 0:
            if n >= 60:
                more = n - 59
                n, at = int.from_bytes(data[at:at + more], "little"), at + more
            out += data[at:at + n + 1]
            at += n + 1
            continue
        if kind == 1:
            n, offset, at = (n & 7) + 4, tag >> 5 << 8 | data[at], at + 1
        else:
            more = 2 * (kind - 1)
            n, offset, at = n + 1, int.from_bytes(data[at:at + more], "little"), at + more
        for _ in range(n):
            out.append(out[-offset])
    assert len(out) == size
    return bytes(out)


def number(data):
    return struct.unpack("<d", data)[0]


def references(data):
    out, at = [], 0
    while at < len(data):
        ref, at = varint(data, at)
        out.append(ref)
    return out


class Message:
    """Reads a message; v2 says in which version."""

    def __init__(self, data, v2):
        self.v2 = v2
        self.symbols = [v.decode() for k, v in fields(data) if v2 and k == 4]
        assert not v2 or self.symbols[0] == "", "the first symbol is not empty"
        assert len(set(self.symbols)) == len(self.symbols), "a symbol is repeated"
        self.series = [v for k, v in fields(data) if k == (5 if v2 else 1)]

    def labels(self, parts):
        out = {}
        if self.v2:
            refs = [r for k, v in parts if k == 1 for r in references(v)]
            assert len(refs) % 2 == 0
            pairs = [(self.symbols[a], self.symbols[b]) for a, b in zip(refs[::2], refs[1::2])]
        else:
            pairs = [tuple(v.decode() for _, v in sorted(fields(p))) for k, p in parts if k == 1]
        for name, value in pairs:
            assert name not in out
            out[name] = value
        return out

    def exemplar(self, data):
        parts = list(fields(data))
        return [self.labels(parts), number(dict(parts)[2])]

    def store(self, into):
        counts = [0, 0]
        for data in self.series:
            parts = list(fields(data))
            labels = self.labels(parts)
            assert list(labels) == sorted(labels), "labels are not sorted"
            s = into.setdefault(json.dumps(labels, sort_keys=True), {"samples": False, "stale": False, "exemplars": [], "metadata": None})
            samples = [dict(fields(v)) for k, v in parts if k == 2]
            exemplars = [self.exemplar(v) for k, v in parts if k == (4 if self.v2 else 3)]
            counts = [counts[0] + len(samples), counts[1] + len(exemplars)]
            s["samples"] |= bool(samples)
            s["stale"] |= any(int.from_bytes(p.get(1, b""), "little") == STALE for p in samples)
            for e in exemplars:
                if e not in s["exemplars"]:
                    s["exemplars"].append(e)
            for k, v in parts:
                m = dict(fields(v)) if self.v2 and k == 5 else {}
                if any(m.values()):
                    s["metadata"] = [TYPES[m.get(1, 0)], self.symbols[m.get(3, 0)], self.symbols[m.get(4, 0)]]
        return counts


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", kind="text/plain", headers=()):
        self.send_response(status)
        for k, v in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/metrics":
            text = EXPOSITION % {"now": f"{time.time() // 10 * 10:.0f}"}
            self.answer(200, text.encode(), "application/openmetrics-text; version=1.0.0; charset=utf-8")
        else:
            name = self.path.rsplit("/", 1)[1]
            self.answer(200, json.dumps(received.get(name, {}), sort_keys=True).encode(), "application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        to = received.setdefault(self.path.rsplit("/", 1)[1], {"requests": [], "series": {}})
        kind = [self.headers[h] for h in ("Content-Type", "Content-Encoding", "X-Prometheus-Remote-Write-Version")]
        try:
            counts = Message(unsnappy(body), "v2.Request" in kind[0]).store(to["series"])
        except Exception as e:
            to["requests"].append(repr(e))
            return self.answer(400, repr(e).encode())
        if kind not in to["requests"]:
            to["requests"].append(kind)
        self.answer(204, headers=[(f"X-Prometheus-Remote-Write-{k}-Written", str(n))
                                  for k, n in (("Samples", counts[0]), ("Histograms", 0), ("Exemplars", counts[1]))])


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
