# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for the tests of the web interface."""
import json
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

PATIENCE = 120  # seconds


class Browser:
    """Chromium at one address. Every page must load without errors of the console and without requests to other hosts."""

    def __init__(self, base, profile):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        options.accept_insecure_certs = True  # of the adapter
        # Root has no sandbox, and the pages are ours.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                         "--disable-background-networking", "--disable-component-update", "--no-first-run", f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.base = base

    def size(self, width, height, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def js(self, code, *args):
        return self.driver.execute_script(code, *args)

    def wait(self, what, condition):
        """Waits until the JavaScript expression is true."""
        end = time.time() + PATIENCE
        while not self.js(f"return !!({condition})"):
            if time.time() > end:
                raise AssertionError(f"not reached: {what}\n{self.js('return document.body.innerText')[:2000]}")
            time.sleep(0.05)

    def open(self, path, ready="document.body.dataset.ready && !document.body.innerText.includes('Loading …') && !document.querySelector('.busy')"):
        self.driver.get(self.base + path)
        self.wait(f"{path} is drawn", ready)

    def text(self):
        return self.js("return document.body.innerText")

    def check(self, where, allow=()):
        """The page is as wide as the window, nothing was injected, and the console has no errors."""
        width, window = self.js("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert width <= window, f"{where}: {width} pixels wide in a window of {window}"
        assert self.js("return window.hacked === undefined && !document.querySelector('[onerror], img[src=x], main script')"), f"{where}: injected"
        for line in self.driver.get_log("browser"):
            # The browser requests this file for documents that are no pages.
            if line["level"] == "SEVERE" and not any(text in line["message"] for text in ("/favicon.ico", *allow)):
                raise AssertionError(f"{where}: {line['message']}")
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            url = message["params"].get("request", {}).get("url", "") if message["method"] == "Network.requestWillBeSent" else ""
            assert not url.startswith(("http", "ws")) or url.startswith(self.base) or url.endswith("/favicon.ico"), f"{where}: request to {url}"

    def forget(self):
        """Drops the messages of the console and the requests so far."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")

    def shot(self, path):
        self.driver.save_screenshot(path)

    def close(self):
        self.driver.quit()
