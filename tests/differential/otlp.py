#!/usr/bin/env python3
"""Pushes the same OTLP requests to a Prometheus and to an engine, and compares statuses, texts, series and exemplars.

Usage: otlp.py PROMETHEUS_URL ENGINE_URL
Each request is sent as JSON and as protobuf, some with gzip. Prints what differs, and passed of run.
A refused request is discarded by Prometheus. The engine stores its valid samples, so only status and text are compared.
"""
import base64, gzip, json, struct, sys, time, urllib.error, urllib.parse, urllib.request

NOW = (time.time_ns() // 10**9 - 120) * 10**9

# --- protobuf: field numbers and kinds of the members ---

ANY, PAIR = {}, {}
ANY.update(stringValue=(1, "s"), boolValue=(2, "v"), intValue=(3, "v"), doubleValue=(4, "d"),
           arrayValue=(5, {"values": (1, ANY)}), kvlistValue=(6, {"values": (1, PAIR)}), bytesValue=(7, "b"))
PAIR.update(key=(1, "s"), value=(2, ANY))
EXEMPLAR = {"timeUnixNano": (2, "f"), "asDouble": (3, "d"), "spanId": (4, "h"), "traceId": (5, "h"), "asInt": (6, "f"),
            "filteredAttributes": (7, PAIR)}
NUMBER = {"attributes": (7, PAIR), "startTimeUnixNano": (2, "f"), "timeUnixNano": (3, "f"), "asDouble": (4, "d"),
          "asInt": (6, "f"), "exemplars": (5, EXEMPLAR), "flags": (8, "v")}
BUCKETS = {"attributes": (9, PAIR), "startTimeUnixNano": (2, "f"), "timeUnixNano": (3, "f"), "count": (4, "f"),
           "sum": (5, "d"), "bucketCounts": (6, "F"), "explicitBounds": (7, "D"), "exemplars": (8, EXEMPLAR),
           "flags": (10, "v"), "min": (11, "d"), "max": (12, "d")}
SUMMARY = {"attributes": (7, PAIR), "timeUnixNano": (3, "f"), "count": (4, "f"), "sum": (5, "d"),
           "quantileValues": (6, {"quantile": (1, "d"), "value": (2, "d")}), "flags": (8, "v")}
METRIC = {"name": (1, "s"), "description": (2, "s"), "unit": (3, "s"), "gauge": (5, {"dataPoints": (1, NUMBER)}),
          "sum": (7, {"dataPoints": (1, NUMBER), "aggregationTemporality": (2, "v"), "isMonotonic": (3, "v")}),
          "histogram": (9, {"dataPoints": (1, BUCKETS), "aggregationTemporality": (2, "v")}),
          "summary": (11, {"dataPoints": (1, SUMMARY)})}
SCOPE = {"name": (1, "s"), "version": (2, "s"), "attributes": (3, PAIR)}
REQUEST = {"resourceMetrics": (1, {
    "resource": (1, {"attributes": (1, PAIR)}),
    "scopeMetrics": (2, {"scope": (1, SCOPE), "metrics": (2, METRIC), "schemaUrl": (3, "s")}),
    "schemaUrl": (3, "s")})}


def varint(n):
    out, n = b"", n & (1 << 64) - 1
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def tagged(number, wire, data):
    return varint(number << 3 | wire) + (varint(len(data)) + data if wire == 2 else data)


def encode(message, schema):
    out = b""
    for key, value in message.items():
        number, kind = schema[key]
        for item in value if isinstance(value, list) and kind not in ("F", "D") else [value]:
            if isinstance(kind, dict):
                out += tagged(number, 2, encode(item, kind))
            elif kind == "s":
                out += tagged(number, 2, item.encode())
            elif kind == "b":
                out += tagged(number, 2, base64.b64decode(item))
            elif kind == "h":
                out += tagged(number, 2, bytes.fromhex(item))
            elif kind == "v":
                out += tagged(number, 0, varint(int(item)))
            elif kind == "d":
                out += tagged(number, 1, struct.pack("<d", float(item)))
            elif kind == "f":
                out += tagged(number, 1, struct.pack("<Q", int(item) & (1 << 64) - 1))
            elif kind == "F":
                out += tagged(number, 2, b"".join(struct.pack("<Q", int(i)) for i in item))
            else:
                out += tagged(number, 2, b"".join(struct.pack("<d", float(i)) for i in item))
    return out


# --- requests ---


def value(v):
    if isinstance(v, bool):
        return {"boolValue": v}
    if isinstance(v, int):
        return {"intValue": str(v)}
    if isinstance(v, float):
        return {"doubleValue": v}
    if isinstance(v, bytes):
        return {"bytesValue": base64.b64encode(v).decode()}
    if isinstance(v, list):
        return {"arrayValue": {"values": [value(i) for i in v]}}
    if isinstance(v, dict):
        return {"kvlistValue": {"values": pairs(v)}}
    return {} if v is None else {"stringValue": v}


def pairs(attributes):
    return [{"key": k, "value": value(v)} for k, v in attributes.items()]


def point(v=1, at=0, attributes=None, **more):
    p = {"timeUnixNano": str(NOW + int(at * 10**9)), "attributes": pairs(attributes or {})}
    p.update({"asInt": str(v)} if isinstance(v, int) else {"asDouble": v} if v is not None else {})
    return p | more


def gauge(name, *points, unit=""):
    return {"name": name, "unit": unit, "gauge": {"dataPoints": list(points) or [point()]}}


def total(name, *points, unit="", monotonic=True, temporality=2):
    return {"name": name, "unit": unit, "sum": {"dataPoints": list(points) or [point()], "isMonotonic": monotonic,
                                                "aggregationTemporality": temporality}}


def histogram(name, *points, unit="", temporality=2):
    return {"name": name, "unit": unit, "histogram": {"dataPoints": list(points), "aggregationTemporality": temporality}}


def buckets(counts, bounds, at=0, attributes=None, **more):
    return {"timeUnixNano": str(NOW + at * 10**9), "attributes": pairs(attributes or {}), "count": str(sum(counts)),
            "bucketCounts": [str(c) for c in counts], "explicitBounds": bounds} | more


def exemplar(v, at=0, trace="5b8efff798038103d269b633813fc60c", span="eee19b7ec3c1b174", **attributes):
    e = {"timeUnixNano": str(NOW + int(at * 10**9)), "filteredAttributes": pairs(attributes)}
    e.update({"asInt": str(v)} if isinstance(v, int) else {"asDouble": v})
    e.update(({"traceId": trace} if trace else {}) | ({"spanId": span} if span else {}))
    return e


def summary(name, *points):
    return {"name": name, "summary": {"dataPoints": list(points)}}


def resource(attributes, *metrics, scope=None):
    return {"resource": {"attributes": pairs(attributes)}, "scopeMetrics": [{"scope": scope or {}, "metrics": list(metrics)}]}


SERVICE = {"service.name": "CASE"}
FULL = {"service.name": "CASE", "service.namespace": "shop", "service.instance.id": "i-1", "host.name": "h1", "k8s.pod.uid": "u"}


def one(*metrics, attributes=None):
    return [resource(SERVICE if attributes is None else attributes, *metrics)]


CASES = [one(gauge("CASE.queue.length")), one(gauge("CASE.g", point(2.5, attributes={"a.b": "x", "a_b": "y", "n": 3, "t": True})))]
UNITS = ["s", "ms", "By", "KiBy", "1", "%", "{requests}", "By/s", "m/s", "1/s", "{x}/min", "Cel", "foo", "foo/bar", "By/{x}",
         "a b", "s/", "/s", "W.h", "__x", "_", "GBy/d", "km/h"]
for u in UNITS:
    CASES += [one(gauge("CASE.u", unit=u)), one(total("CASE.u", unit=u)), one(total("CASE.u", unit=u, monotonic=False))]
for n in ["CASE.total", "CASE_total_x", "CASE.ratio.y", "CASE.seconds", "CASE..a", "CASE__a_", ".CASE", "9CASE", "CASE:rec", "CASE é ü",
          "CASE-bytes/x", "_CASE_"]:
    CASES += [one(gauge(n, unit="1")), one(total(n, unit="s")), one(gauge(n, unit="By"))]
for a in ["a", "a.b", "9a", "_a", "__a", "__a__", "a__b", "é", "a é b", "job", "instance", "le", "__name__", "_", "A:b", "___x"]:
    CASES.append(one(gauge("CASE.l", point(attributes={a: "v"}))))
for v in ["", 0, -5, 2**62, 1.5, 1e21, 1e-7, 1e300, 0.1, 12345678.9, True, False, b"bytes\0", [1, "a", 2.5, None, [True]], {"b": 1, "a": "<x>\n"},
          [], {}, None, 'quote " \\ \n', "é"]:
    CASES.append(one(gauge("CASE.v", point(attributes={"v": v}))))
    CASES.append([resource(dict(FULL, **{"v": v}), gauge("CASE.r"))])
CASES += [
    [resource(FULL, gauge("CASE.a"))],
    [resource({"service.name": "CASE"}, gauge("CASE.a"))],
    [resource({"service.name": "CASE", "service.namespace": "n"}, gauge("CASE.a"))],
    [resource({"service.instance.id": "CASE"}, gauge("CASE.a"))],
    [resource({"service.instance.id": "CASE", "x": "y"}, gauge("CASE.a"))],
    [resource({"host.name": "CASE"}, gauge("CASE.a"))],
    [resource({}, gauge("CASE.a"))],
    [resource(FULL, gauge("CASE.a", point(1, 0), point(2, 10), point(3, 20)))],
    [resource(FULL, gauge("CASE.a"), total("CASE.b", point(2, 5)))],
    [resource(FULL, gauge("CASE.a", point(1, 0), point(1, 9))), resource(FULL, gauge("CASE.b", point(1, 0), point(1, 9)))],
    [resource(FULL, gauge("CASE.a"), scope={"name": "lib", "version": "1", "attributes": pairs({"x": "y"})})],
    one(gauge("CASE.a", point(None))), one(gauge("CASE.a", point(1), point(2, 1, flags=1))),
    one(total("CASE.a", point(1, attributes={"k": "1"}), point(2, attributes={"k": "2"}))),
    one(total("CASE.a", point(5, exemplars=[{"timeUnixNano": str(NOW), "asDouble": 1}]))),
    one(total("CASE.x", point(5, exemplars=[exemplar(2, 3), exemplar(-4, 1, user="a", **{"http.path": "/x"})]))),
    one(total("CASE.x", point(5, exemplars=[exemplar(1.5, trace="0" * 32, n=3, l=[1], m=None), exemplar(1, 2, span="", span_id="own")]))),
    one(total("CASE.x", point(5, exemplars=[exemplar(1, trace_id="other", long="é" * 40), exemplar(2, 1, long="x" * 200)]))),
    one(total("CASE.x", point(5, exemplars=[exemplar(1), exemplar(2, 1)]), point(6, 4, exemplars=[exemplar(3, 3)]))),
    one(total("CASE.x", point(5, exemplars=[exemplar(7)]), monotonic=False)), one(gauge("CASE.x", point(5, exemplars=[exemplar(7)]))),
    one(histogram("CASE.x", buckets([1, 2, 3], [0.1, 5], exemplars=[exemplar(0.05), exemplar(0.1, -1), exemplar(4, 2, a="b"), exemplar(6, 1),
                                                                    exemplar(7.5)]))),
    one(histogram("CASE.x", buckets([3], [], exemplars=[exemplar(2, 5), exemplar(3, 4)]))),
    one(histogram("CASE.h", buckets([1, 2, 3], [0.1, 5], sum=7.5), unit="s")),
    one(histogram("CASE.h", buckets([1, 2, 3], [0.1, 5]))), one(histogram("CASE.h", buckets([4], []))),
    one(histogram("CASE.h", buckets([], [], count="7", sum=1))), one(histogram("CASE.h", buckets([1, 2], [1, 2, 3]))),
    one(histogram("CASE.h", buckets([1, 2, 3, 4], [1e-9, 1, 1e22], sum=1, min=0, max=4))),
    one(histogram("CASE.h", buckets([1, 2], [5], flags=1, sum=3))),
    one(histogram("CASE.h", buckets([1, 2], [5], attributes={"le": "x", "path": "/"}))),
    one(summary("CASE.s", {"timeUnixNano": str(NOW), "count": "3", "sum": 4.5,
                           "quantileValues": [{"quantile": 0.5, "value": 1}, {"quantile": 0.99, "value": 2.5}]})),
    one(summary("CASE.s", {"timeUnixNano": str(NOW), "count": "3", "sum": 4.5, "flags": 1, "quantileValues": []})),
    [resource({"service.name": "late"}, gauge("late.a"))],
    one({"name": "CASE.e", "gauge": {"dataPoints": []}}), [], [{"scopeMetrics": []}],
]
WRONG = [
    one(total("CASE.d", temporality=1)), one(total("CASE.d", temporality=0)), one(histogram("CASE.d", buckets([1], []), temporality=1)),
    one(total("CASE.d", temporality=1), gauge("CASE.ok"), total("CASE.f", temporality=1)),
    one({"name": "CASE.empty"}), one(gauge("...")), one(gauge("é")), one(gauge("")), one(gauge("CASE.a", point(attributes={"": "x"}))),
    [resource({"service.name": "late"}, gauge("late.a", point(1, -5)))], [resource({"service.name": "late"}, gauge("late.a", point(2)))],
    one(gauge("CASE.a", point(1, 100000))), one(gauge("CASE.a", point(1, -9000000))),
]
TYPES = [("", {}, 400), ("text/plain", {}, 400), ("application/json", {"Content-Encoding": "br"}, 400)]
BODIES = [(b"{", "application/json"), (b"[]", "application/json"), (b'{"resourceMetrics":5}', "application/json"),
          (b'{"x":[1,{"y":null}]}', "application/json"), (b"{}", "application/json"), (b'{"resource_metrics":null}', "application/json"),
          (b"\xff", "application/x-protobuf"), (b"\x08\x01", "application/x-protobuf"), (b"", "application/x-protobuf"),
          (b"\x0a\x05abc", "application/x-protobuf"), (b"\xf8\x01\x05", "application/x-protobuf")]


def push(url, body, headers):
    q = urllib.request.Request(url + "/api/v1/otlp/v1/metrics", body, {"Content-Type": "", **headers}, method="POST")
    try:
        with urllib.request.urlopen(q, timeout=60) as r:
            return r.status, ""
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(errors="replace").strip()


def series(url):
    q = urllib.parse.urlencode({"query": '{__name__=~".+"}[1h]', "time": time.time()})
    with urllib.request.urlopen(url + "/api/v1/query?" + q, timeout=60) as r:
        found = json.load(r)["data"]["result"]
    return {json.dumps(s["metric"], sort_keys=True): s["values"] for s in found}


def exemplars(url):
    q = urllib.parse.urlencode({"query": '{__name__=~".+"}', "start": NOW / 10**9 - 3600, "end": NOW / 10**9 + 3600})
    with urllib.request.urlopen(url + "/api/v1/query_exemplars?" + q, timeout=60) as r:
        found = json.load(r)["data"]
    return {"exemplars of " + json.dumps(s["seriesLabels"], sort_keys=True): s["exemplars"] for s in found}


def state(url):
    return series(url) | exemplars(url)


def main():
    urls = sys.argv[1:3]
    passed = run = 0

    def judge(what, want, got):
        nonlocal passed, run
        run += 1
        passed += want == got
        if want != got:
            print(f"differs: {what}\n  Prometheus: {want}\n  engine:     {got}")

    number = 0
    before = [state(u) for u in urls]
    for wrong, requests in ((False, CASES), (True, WRONG)):
        for template in requests:
            for form in ("json", "protobuf"):
                number += 1
                message = json.loads(json.dumps({"resourceMetrics": template}).replace("CASE", f"c{number}"))
                kind = "application/json" if form == "json" else "application/x-protobuf"
                body = json.dumps(message).encode() if form == "json" else encode(message, REQUEST)
                headers = {"Content-Type": kind}
                if number % 3 == 0:
                    body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
                answers = [push(u, body, headers) for u in urls]
                after = [state(u) for u in urls]
                fresh = [sorted((k, v) for k, v in a.items() if b.get(k) != v) for a, b in zip(after, before)]
                before = after
                if wrong:
                    fresh = [None, None]
                judge(f"{form} {json.dumps(message)}", (answers[0], fresh[0]), (answers[1], fresh[1]))
    for kind, headers, _ in TYPES:
        answers = [push(u, b"{}", {"Content-Type": kind, **headers}) for u in urls]
        judge(f"type {kind} {headers}", *answers)
    for body, kind in BODIES:  # the texts of the decoders differ
        answers = [push(u, body, {"Content-Type": kind})[0] for u in urls]
        judge(f"body {body!r}", *answers)
    print(f"otlp: {passed} of {run} requests passed")
    return passed != run


if __name__ == "__main__":
    sys.exit(main())
