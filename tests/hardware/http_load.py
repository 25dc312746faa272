# SPDX-License-Identifier: Apache-2.0
"""Requests to a URL by 16 threads. Usage: http_load.py SECONDS URL"""

import sys
import threading
import time
import urllib.request

answered = [0] * 16


def work(number, url, end):
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                reply.read()
            answered[number] += 1
        except OSError:
            time.sleep(0.2)


end_time = time.monotonic() + float(sys.argv[1])
threads = [threading.Thread(target=work, args=(i, sys.argv[2], end_time)) for i in range(len(answered))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{sum(answered)} requests were answered")
sys.exit(0 if sum(answered) else 1)
