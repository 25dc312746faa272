#!/usr/bin/env python3
"""Measures how old samples are where they are read: each value that is read is the time of a sample, in Unix seconds.

Usage: sample_ages.py NUMBER DIRECTORY NAME=URL…
Reads all URLs this number of times, each twice a second at random times, and prints the ages when the responses arrive. URL is a query of the HTTP
API of Prometheus; a list of external metrics, with the client certificate in DIRECTORY; or a page of metrics with #SERIES, a
regular expression. Exit code 1: a URL returned no value.
"""
import http.client, json, random, re, ssl, sys, time, urllib.parse


class Reader:
    def __init__(self, name, url, tls):
        url, _, self.series = url.partition("#")
        parts = urllib.parse.urlsplit(url)
        self.name, self.ages = name, []
        self.path = parts.path + ("?" + parts.query if parts.query else "")
        self.connection = (http.client.HTTPSConnection(parts.netloc, timeout=30, context=tls) if parts.scheme == "https"
                           else http.client.HTTPConnection(parts.netloc, timeout=30))

    def time_of_sample(self):
        self.connection.request("GET", self.path)
        text = self.connection.getresponse().read().decode()
        if self.series:
            return float(re.search(f"^{self.series} (\\S+)$", text, re.M).group(1))
        answer = json.loads(text)
        if "items" not in answer and "data" not in answer:
            raise ValueError(text)
        if "data" in answer:
            return float(answer["data"]["result"][0]["value"][1])
        value = answer["items"][0]["value"]
        return float(value[:-1]) / 1000 if value.endswith("m") else float(value)

    def read(self):
        try:
            sample = self.time_of_sample()
            self.ages.append(time.time() - sample)
        except (OSError, http.client.HTTPException, ValueError, LookupError, AttributeError) as e:
            print(f"{self.name}: {e!r}", file=sys.stderr)
            self.connection.close()


def main():
    number, directory = int(sys.argv[1]), sys.argv[2]
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.load_cert_chain(f"{directory}/client-certificate.pem", f"{directory}/client-key.pem")
    readers = [Reader(*a.split("=", 1), tls) for a in sys.argv[3:]]
    for _ in range(number):
        for r in random.sample(readers, len(readers)):
            time.sleep(random.uniform(0, 1 / len(readers)))
            r.read()
    for r in readers:
        ages = sorted(r.ages)
        if ages:
            print(f"age: {r.name}: {len(ages)} values, {ages[len(ages) // 2]:.2f} s at p50, {ages[len(ages) * 9 // 10]:.2f} s at p90, {ages[-1]:.2f} s at most")
    sys.exit(any(not r.ages for r in readers))


main()
