#!/usr/bin/env python3
"""Compares the samples of an engine with those of another server.

Usage: compare_samples.py ENGINE SERVER FROM TO SELECTOR SELECTOR_OF_SERVER
Reads all samples with FROM < time <= TO (Unix seconds) of the series that these select from both URLs. Labels that the way to the
server adds are ignored. Prints one line with the number of series and samples, and those that are missing,
additional or different; then some of them. Exit code 0: equal, and there are some.
"""
import json, sys, urllib.parse, urllib.request

ADDED = {"cluster", "replica", "receive", "tenant_id", "via"}


def samples(url, selector, start, end):
    query = urllib.parse.urlencode({"query": f"{selector}[{end - start}s]", "time": end})
    base, _, more = url.partition("?")
    with urllib.request.urlopen(f"{base}/api/v1/query?{query}&{more}", timeout=60) as r:
        answer = json.load(r)
    out = {}
    for series in answer["data"]["result"]:
        key = json.dumps({k: v for k, v in series["metric"].items() if k not in ADDED}, sort_keys=True)
        for t, v in series["values"]:
            if (key, round(t * 1000)) in out:
                raise SystemExit(f"a sample twice: {key} at {t}")
            out[key, round(t * 1000)] = float(v)
    return out


def main():
    start, end = int(sys.argv[3]), int(sys.argv[4])
    a, b = (samples(sys.argv[i], sys.argv[i + 4], start, end) for i in (1, 2))
    missing, more = sorted(set(a) - set(b)), sorted(set(b) - set(a))
    different = [k for k in a if k in b and repr(a[k]) != repr(b[k])]
    print(f"{len({k for k, _ in a})} series, {len(a)} samples: {len(missing)} missing, {len(more)} more, {len(different)} different")
    for what, keys in (("missing", missing), ("more", more), ("different", different)):
        for k in keys[:5]:
            print(f"  {what}: {k[0][:200]} at {k[1]}: {a.get(k)} {b.get(k)}")
    sys.exit(0 if a and not missing and not more and not different else 1)


main()
