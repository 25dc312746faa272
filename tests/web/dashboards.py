#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Imports dashboards in Chromium and reads what is drawn: all types of panels, variables, older versions of the schema, texts
that try to be HTML, files that are wrong in every place, and expressions that do not end.

Usage: dashboards.py DIR UP ENGINE   UP and ENGINE are addresses of a gpuscale up with simulated GPUs and of an engine alone.
"""
import json
import os
import random
import sys
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402  (this folder)
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402

EVIL = "<img src=x onerror=window.hacked=1>"
directory, up, engine = sys.argv[1:4]


def panel(kind, x, y, w, h, title, exprs, **more):
    """exprs: expressions, or targets."""
    targets = [{"refId": chr(65 + i), **(e if isinstance(e, dict) else {"expr": e})} for i, e in enumerate(exprs)]
    return {"type": kind, "gridPos": {"x": x, "y": y, "w": w, "h": h}, "title": title, "targets": targets, **more}


def steps(*pairs):
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in pairs]}


def override(by, name, **properties):
    return {"matcher": {"id": by, "options": name}, "properties": [{"id": key.replace("_", "."), "value": value} for key, value in properties.items()]}


NODES = [{"expr": "kube_node_info", "format": "table", "instant": True}, {"expr": 'kube_node_status_allocatable{resource="memory"}', "format": "table", "instant": True}]
HTML = f"""<h2>Heading</h2><p onclick="window.hacked=1" style="position: fixed" title=">">Paragraph <b>bold</b> &amp; more
<a href="javascript:window.hacked=1">no link</a> <a href='https://example.com/?a=1&amp;b=2'>link</a></p><script>window.hacked=1</script>
<svg onload=window.hacked=1><g></svg><iframe src="https://example.com"></iframe><unknown>kept</unknown>{EVIL}<form action=x><input value=y></form><p>end"""
MARKDOWN = f"# Heading\n\n**bold** *italic* `code` [link](https://example.com) [no link](javascript:alert) {EVIL}\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"

EVERY = {
    "title": f"Every panel {EVIL}", "uid": "every", "time": {"from": "now-5m", "to": "now"}, "refresh": "5s",
    "templating": {"list": [
        {"name": "gpu", "type": "query", "query": "label_values(DCGM_FI_DEV_GPU_TEMP, gpu)", "multi": True, "includeAll": True, "sort": 3, "current": {"value": ["$__all"]}},
        {"name": "job", "type": "query", "query": {"query": "query_result(count by (job) (up))", "refId": "x"}, "regex": '/job="([^"]+)"/', "sort": 1},
        {"name": "later", "type": "query", "query": 'label_values(up{job="$job"}, instance)'},
        {"name": "window", "type": "interval", "query": "1m,5m"},
        {"name": "what", "type": "custom", "query": "Utilization : GPU_UTIL,Temperature : GPU_TEMP", "current": {"value": "GPU_TEMP"}},
        {"name": "limit", "type": "textbox", "query": "5"}, {"name": "fixed", "type": "constant", "query": "constant value"},
        {"name": "ds", "type": "datasource", "query": "prometheus"}, {"name": "adhoc", "type": "adhoc"}]},
    "panels": [
        panel("timeseries", 0, 0, 12, 8, "$what of [[gpu]]", [{"expr": 'DCGM_FI_DEV_${what}{gpu=~"$gpu"}', "legendFormat": "GPU {{gpu}}"}],
              fieldConfig={"defaults": {"unit": "celsius", "custom": {"fillOpacity": 20}}, "overrides": [override("byRegexp", "/GPU 1/", displayName="second " + EVIL)]},
              options={"legend": {"displayMode": "table", "calcs": ["lastNotNull", "max"]}}),
        panel("stat", 12, 0, 4, 4, "Nodes", ["sum(kube_node_info) + $limit"], fieldConfig={"defaults": {"unit": "short", "thresholds": steps(("green", None), ("#d80000", 6))}}),
        panel("stat", 16, 0, 4, 4, "Mapped", ["vector(1)"], options={"colorMode": "background"}, fieldConfig={"defaults": {"mappings": [{"type": "value", "options": {"1": {"text": "OK " + EVIL}}}]}}),
        panel("gauge", 20, 0, 4, 4, "Gauge", ["vector(0.42)"], fieldConfig={"defaults": {"unit": "percentunit", "min": 0, "max": 1, "thresholds": steps(("green", None), ("red", 0.8))}}),
        panel("bargauge", 12, 4, 12, 4, "Bars", [{"expr": "DCGM_FI_DEV_FB_FREE * 2^20", "legendFormat": "free {{gpu}}", "instant": True}], fieldConfig={"defaults": {"unit": "bytes"}}),
        panel("table", 0, 8, 12, 8, "Table", NODES, transformations=[
            {"id": "joinByField", "options": {"byField": "node"}}, {"id": "filterFieldsByName", "options": {"include": {"names": ["node", "Value #B"]}}},
            {"id": "organize", "options": {"renameByName": {"node": "Node", "Value #B": "Memory"}}}, {"id": "unheardOf"}],
            fieldConfig={"overrides": [override("byName", "Memory", unit="bytes"), override("byName", "Node", links=[{"title": "x", "url": "/d/every/slug?var-what=GPU_UTIL&x=${__data.fields.Node}"}])]}),
        panel("text", 12, 8, 6, 8, "Markdown", [], options={"mode": "markdown", "content": MARKDOWN}),
        panel("text", 18, 8, 6, 8, "HTML", [], options={"mode": "html", "content": HTML}),
        {"type": "row", "title": "Row of $what", "gridPos": {"x": 0, "y": 16, "w": 24, "h": 1}, "panels": []},
        panel("heatmap", 0, 17, 12, 6, "Heatmap " + EVIL, ["sum by (le) (rate(x_bucket{gpu=~\"$gpu\"}[$__rate_interval]))"]),
        panel("timeseries", 12, 17, 12, 6, "Stacked", ["sum by (job) (scrape_samples_scraped)"], fieldConfig={"defaults": {"custom": {"stacking": {"mode": "normal"}, "fillOpacity": 40}}}),
        panel("stat", 0, 24, 6, 4, "Only $gpu", ['DCGM_FI_DEV_GPU_TEMP{gpu="$gpu"}'], repeat="gpu", maxPerRow=4),
        panel("stat", 0, 28, 6, 4, "Label", ["kube_node_info"], options={"reduceOptions": {"fields": "/^node$/"}}),
        panel("timeseries", 0, 30, 12, 6, "Wrong", ["sum("]),
        panel("timeseries", 12, 30, 12, 6, "Foreign", [{"expr": '{a="b"}', "datasource": {"type": "loki"}}]),
        {"type": "row", "title": "Closed", "collapsed": True, "gridPos": {"x": 0, "y": 40, "w": 24, "h": 1},
         "panels": [panel("timeseries", 0, 41, 24, 6, "Inside", ["vector(4711)"])]}]}

OLD = {"title": "Old", "refresh": "5s", "rows": [
    {"title": "First", "height": "250px", "panels": [
        {"type": "singlestat", "title": "Single", "span": 4, "targets": [{"expr": "vector(4)"}], "format": "bytes", "valueName": "current", "prefix": "about ", "colorBackground": True, "thresholds": "1,3", "colors": ["#299c46", "#eda128", "#d44a3a"]},
        {"type": "graph", "title": "Graph", "span": 8, "stack": True, "legend": {"show": True, "alignAsTable": True, "values": True, "current": True}, "yaxes": [{"format": "short"}],
         "targets": [{"expr": "scrape_samples_scraped", "legendFormat": "{{job}}"}], "seriesOverrides": [{"alias": "/exporter/", "color": "#ff00ff"}]},
        {"type": "table", "title": "Table", "span": 12, "styles": [{"pattern": "Time", "type": "hidden"}, {"pattern": "Value", "type": "number", "alias": "State", "unit": "bool_yes_no"}], "targets": [{"expr": "up", "format": "table", "instant": True}]}]},
    {"title": "Second", "collapse": True, "panels": [{"type": "piechart", "title": "Pie", "span": 6, "targets": [{"expr": "up"}]}]}]}


def say(text):
    print("ok:", text, flush=True)


def paste(b, dashboard):
    """Pastes a dashboard, or a text, into the page of dashboards."""
    b.open("dashboards")
    b.js("const f = document.querySelector('textarea'); f.value = arguments[0]; f.dispatchEvent(new Event('input'))", dashboard if isinstance(dashboard, str) else json.dumps(dashboard))


def click(b, text):
    b.js("[...document.querySelectorAll('button')].find((button) => button.textContent === arguments[0]).click()", text)


DRAWN = "location.pathname.endsWith('/dashboard') && document.querySelector('.dash-panel') && !document.querySelector('.busy')"


def import_here(b, dashboard):
    paste(b, dashboard)
    b.wait("the button", "[...document.querySelectorAll('button')].some((button) => button.textContent === 'Open without storing it')")
    click(b, "Open without storing it")
    b.wait("the dashboard", DRAWN)


def body(title):
    return f"[...document.querySelectorAll('.dash-panel')].find((p) => p.querySelector('h3').textContent === {title!r})?.querySelector('.dash-body')"


def shows(b, title, *texts):
    for text in texts:
        b.wait(f"{title} shows {text}", f"{body(title)}?.textContent.includes({text!r})")


def check_import(b):
    paste(b, EVERY)
    b.wait("the form", "document.querySelector('.import-form')")
    assert b.js("return document.querySelector('[aria-label=\"Name of the ConfigMap\"]').value") == "every-panel-img-src-x-onerror-window-hacked-1"
    for width in (400, 1280):
        b.size(width, 900)
        b.check(f"the import at {width} pixels")
    b.js("document.querySelector('[aria-label=\"Name of the ConfigMap\"]').value = 'every'; document.querySelector('[aria-label=Namespace]').value = 'default'")
    click(b, "Import")
    b.wait("the imported dashboard", DRAWN)
    assert "name=default%2Fevery&file=every.json" in b.js("return location.search")
    with urllib.request.urlopen(up + "api/v1/gpuscale/dashboards") as answer:
        (stored,) = [d for d in json.load(answer)["data"]["dashboards"] if d["name"] == "every"]
    assert stored["namespace"] == "default" and stored["imported"] and stored["title"] == EVERY["title"], stored
    paste(b, OLD)
    b.js("document.querySelector('[aria-label=\"Name of the ConfigMap\"]').value = 'every'; document.querySelector('[aria-label=Namespace]').value = 'default'")
    click(b, "Import")
    b.wait("a conflict", "document.querySelector('.notice.error')?.textContent.includes('ConfigMap default/every exists already')")
    b.check("a name that is taken", allow=("409",))
    for text, reason in (("12239", "Download the file of dashboard 12239"), ("{", "The text is not JSON"), ("[]", "The JSON is not a dashboard"), ("3" * 3000000, "more than 2 MiB"),
                         ('{"elements": {}, "layout": {}, "title": "x"}', "version 2 of the schema")):
        paste(b, text)
        b.wait(reason, f"document.querySelector('.notice')?.textContent.includes({reason!r})")
    b.check("texts that are no dashboards")
    say("a dashboard is imported as a ConfigMap, and wrong texts are refused with their reason")


def check_every(b):
    b.size(1280, 2000)
    b.open("dashboards/view?name=default/every&file=every.json", DRAWN)
    shows(b, "GPU_TEMP of 0 + 1", "GPU 0", "second " + EVIL, "last", "°C")
    shows(b, "Nodes", "6")
    assert b.js(f"return getComputedStyle({body('Nodes')}.querySelector('.stat-value')).color") == "rgb(216, 0, 0)", "the color of the threshold"
    shows(b, "Mapped", "OK " + EVIL)
    shows(b, "Gauge", "42%")
    shows(b, "Bars", "free 0", "free 1", "GiB")
    shows(b, "Table", "Node", "Memory", "GiB", "Not applied: unheardOf.")
    assert b.js(f"return {body('Table')}.querySelector('td a').getAttribute('href')").startswith("dashboard?name=default%2Fevery&file=every.json&var-what=GPU_UTIL")
    shows(b, "Heatmap " + EVIL, "Panels of the type “heatmap” are not drawn.", 'sum by (le) (rate(x_bucket{gpu=~"(0|1)"}[1m]))')
    assert "g0.expr=sum" in b.js("return [...document.querySelectorAll('.dash-panel')].find((p) => p.dataset.panel === 'heatmap').querySelector('a').href")
    shows(b, "Stacked", "gpuscale-exporter")
    for n in "01":
        b.wait(f"the copy for GPU {n}", f"/^[0-9]+$/.test({body('Only ' + n)}?.textContent)")
    b.wait("a label as the value", f"{body('Label')}?.textContent && {body('Label')}.textContent === {body('Table')}.querySelector('td').textContent")
    shows(b, "Wrong", "unclosed left parenthesis")
    shows(b, "Foreign", "Its data source “loki” is not Prometheus.")
    b.wait("charts", "document.querySelectorAll('.dash-panel canvas').length >= 4")
    assert "The variable adhoc has the type “adhoc”" in b.text() and "Row of GPU_TEMP" in b.text()
    for title, links in (("Markdown", ["https://example.com/"]), ("HTML", ["https://example.com/?a=1&b=2"])):
        shows(b, title, "Heading", "bold", "no link")
        assert b.js(f"return [...{body(title)}.querySelectorAll('a')].map((a) => a.href)") == links
    assert b.js(f"const node = {body('HTML')}.querySelector('.dash-prose'); return [[...node.querySelectorAll('*')].map((e) => e.localName).join(' '), node.textContent.includes('& more'), node.textContent.includes('hacked')]") == \
        ["h2 p b span a p", True, False]
    b.check("every panel", allow=("400",))
    for width, height, dark in ((400, 900, True), (2560, 1300, False)):
        b.size(width, height, dark)
        b.open("dashboard?name=default/every&file=every.json", DRAWN)
        b.check(f"every panel at {width} pixels", allow=("400",))
    say("all types of panels are drawn, and hostile texts stay texts")


REQUESTS = "performance.getEntriesByType('resource').map((e) => decodeURIComponent(e.name))"


def check_variables(b):
    b.size(1280, 2000)
    b.open("dashboard?name=default/every&file=every.json&var-gpu=1&var-job=kubelet&from=now-15m&refresh=", DRAWN)
    shows(b, "GPU_TEMP of 1", "second")
    assert b.js("return document.querySelectorAll('[data-panel=stat] h3').length") == 4, "one copy for one value"
    assert b.js("return document.querySelector('[data-variable=later]').value") == b.js("return document.querySelector('[data-variable=later] option').value") != ""
    b.js("const s = document.querySelector('[data-variable=what]'); s.value = 'GPU_UTIL'; s.dispatchEvent(new Event('change'))")
    b.wait("the other metric", f"{body('GPU_UTIL of 1')} && !document.querySelector('.busy')")
    assert b.js(f"return {REQUESTS}.some((url) => url.includes('query=DCGM_FI_DEV_GPU_UTIL{{gpu=~\"1\"}}'))"), "the value is in the query"
    b.js("const d = document.querySelector('details[data-variable=gpu]'); d.open = true; d.querySelector('input[value=\"0\"]').click(); d.querySelector('button').click()")
    b.wait("both values", f"{body('GPU_UTIL of 0 + 1')}")
    search = b.js("return location.search")
    for part in ("var-gpu=0&var-gpu=1", "var-what=GPU_UTIL", "from=now-15m&to=now"):
        assert part in search, search
    b.js("const s = document.querySelector('[aria-label=\"Time range\"]'); s.value = '30m'; s.dispatchEvent(new Event('change'))")
    b.wait("the other range", "location.search.includes('from=now-30m')")
    b.wait("the charts", "document.querySelector('.dash-panel canvas + canvas') && !document.querySelector('.busy')")
    chart = b.driver.find_element("css selector", ".dash-panel canvas + canvas")
    ActionChains(b.driver).move_to_element_with_offset(chart, 20, 0).click_and_hold().move_by_offset(100, 0).release().perform()
    b.wait("the zoom", "/from=[0-9]+&to=[0-9]+/.test(location.search)")
    click(b, "Back to live")
    b.wait("the range before", "location.search.includes('from=now-30m&to=now')")
    # A panel that is not in view waits.
    assert not b.js(f"return {REQUESTS}.some((url) => url.includes('4711'))")
    b.js("[...document.querySelectorAll('.dash-row')].find((d) => d.textContent.includes('Closed')).open = true")
    b.wait("the panel of the open row", f"{REQUESTS}.some((url) => url.includes('4711')) && {body('Inside')}?.querySelector('canvas')")
    b.check("variables", allow=("400",))
    say("variables and the time range change the queries and the address, and hidden panels wait")


def check_old(b):
    import_here(b, OLD)
    shows(b, "Single", "about 4 B")
    assert b.js(f"return getComputedStyle({body('Single')}.querySelector('.stat')).backgroundColor") == "rgb(212, 74, 58)"
    shows(b, "Graph", "gpuscale-engine", "last")
    shows(b, "Table", "State", "Yes")
    assert "Time" not in b.js(f"return {body('Table')}.querySelector('thead').textContent")
    b.driver.refresh()
    b.wait("the dashboard after a reload", DRAWN)
    b.open("dashboards")
    b.wait("the session", "document.querySelector('main').textContent.includes('this window')")
    click(b, "remove")
    assert "this window" not in b.text()
    b.check("a dashboard of an old version")
    say("dashboards of older versions are drawn, and a session keeps them")


MODULES = """const done = arguments[arguments.length - 1], base = new URL('assets/', location.href).href;
(async () => { const m = (name) => import(base + name + '.js'); %s })().then(done, (error) => done('error: ' + error.stack));"""


def module(b, code, *args):
    answer = b.driver.execute_async_script(MODULES % code, *args)
    assert not str(answer).startswith("error: "), answer
    return answer


def check_values(b):
    b.driver.set_script_timeout(120)
    b.open("dashboards")
    units = [(0.5, "percentunit", "50%"), (12.345, "percent", "12.35%"), (1536, "bytes", "1.5 KiB"), (1536, "decbytes", "1.536 kB"), (2e9, "bps", "2 Gb/s"), (3, "mbytes", "3 MiB"), (0.25, "s", "250 ms"), (7200, "s", "2 hours"), (90, "ms", "90 ms"),
             (1500, "ops", "1500 ops/s"), (1980e6, "hertz", "1.98 GHz"), (350, "watt", "350 W"), (65, "celsius", "65 °C"), (1, "bool", "True"), (3, "suffix: pods", "3 pods"), (3, "unknown unit", "3 unknown unit"), (12345678, "short", "12.35M"), (90061, "dtdurations", "1d1h1m1s")]
    for v, unit, want in units:
        got = module(b, "return (await m('units')).withUnit(arguments_[0], arguments_[1])".replace("arguments_", json.dumps([v, unit])))
        assert got == want, (v, unit, got, want)
    assert module(b, "return (await m('units')).withUnit(1.23456, 'short', 2)") == "1.23"
    texts = [("$a", "x.y|z"), ("${a}", "x.y|z"), ("[[a]]", "x.y|z"), ("${a:regex}", "(x\\.y|z)"), ("${a:pipe}", "x.y|z"), ("${a:csv}", "x.y,z"), ("${a:json}", '["x.y","z"]'), ("${a:glob}", "{x.y,z}"), ("$one", 'q"'), ("$all_", "(p|q)"),
             ("$none", "$none"), ("$__interval", "30s"), ("$__rate_interval", "1m"), ("$__range", "3600s"), ("${one.text}", 'q"')]
    code = """const {Variables, timeValues} = await m('dashboard-variables'), o = (value) => ({text: value, value});
      const usual = {type: 'custom', query: '', allValue: '', regex: ''};
      const v = new Variables([{...usual, name: 'a', multi: true, current: ['x.y', 'z'], options: [o('x.y'), o('z')]}, {...usual, name: 'one', current: ['q"'], options: [o('q"')]},
        {...usual, name: 'all_', multi: true, includeAll: true, current: ['$__all'], options: [o('p'), o('q')]}], new URLSearchParams());
      return [v.replace('$a', new Map(), true), v.replace('up{x="$one"}', new Map(), true), v.replace('$all_', new Map(), true), ...%s.map((t) => v.replace(t, timeValues(0, 3600, 30)))];""" % json.dumps([t for t, _ in texts])
    got = module(b, code)
    assert got[:3] == ["(x\\\\.y|z)", 'up{x="q\\""}', "(p|q)"], got
    for (text, want), found in zip(texts[3:], got[6:]):
        assert found == want or text == "$all_", (text, found, want)
    say("values have their units, and texts the values of variables")


def check_hostile(b):
    b.open("dashboards")
    # An expression with exponential time ends in an error; the page goes on.
    error = module(b, "return (await m('text-match')).matchTexts('/(a+)+$/', ['a'.repeat(60) + '!']).then(() => '', (e) => e.message)")
    assert "takes too long" in error, error
    assert module(b, "return (await m('text-match')).matchTexts('/b(.)/', ['abc'])")[0]["first"] == "c"
    slow = {"title": "Slow", "templating": {"list": [{"name": "v", "type": "query", "query": "query_result(label_replace(vector(1), \"l\", \"" + "a" * 60 + "\", \"\", \"\"))", "regex": "/(a+)+!/"}]}, "panels": [panel("stat", 0, 0, 6, 4, "After", ["vector(8)"])]}
    import_here(b, slow)
    shows(b, "After", "8")
    many = {"title": "Many", "panels": [panel("stat", 0, 4 * i, 4, 4, f"P {i}", ["vector(1)"]) for i in range(1000)]}
    import_here(b, many)
    assert b.js("return document.querySelectorAll('.dash-panel').length") == 200 and "800 panels are left out" in b.text()
    assert b.js(f"return {REQUESTS}.filter((url) => url.includes('vector(1)')).length") < 100, "panels that are not in view wait"
    # Values of wrong types in every place.
    random.seed(1)
    strange = (None, True, -1, 1e308, "", "x" * 100, EVIL, [], [[]], {}, {"__proto__": 1}, {"constructor": None}, ["$__all"], {"type": "value", "options": 3})

    def mutated(value):
        if random.random() < 0.04:
            return random.choice(strange)
        if isinstance(value, dict):
            return {key: mutated(v) for key, v in value.items()}
        return [mutated(v) for v in value] if isinstance(value, list) else value

    b.open("dashboards")
    files = [json.dumps(mutated(random.choice((EVERY, OLD)))) for _ in range(400)]
    wrong = module(b, "const {readDashboard} = await m('dashboard-model'); return %s.flatMap((t) => { try { readDashboard(t); return []; } catch (e) { return e.constructor === Error ? [] : [e.stack]; } })" % json.dumps(files))
    assert wrong == [], wrong[:3]
    for text in files[:12]:
        paste(b, text)
        if not b.js("return document.querySelector('.import-form')"):
            continue
        click(b, "Open without storing it")
        b.wait("the mutated dashboard", "location.pathname.endsWith('/dashboard') && document.body.dataset.ready && !document.body.innerText.includes('Loading …') && !document.querySelector('.busy')")
        assert not b.js("return [...document.querySelectorAll('.notice.error')].some((n) => /is not a function|undefined|not iterable|Cannot read/.test(n.textContent))"), b.text()
        b.check("a mutated dashboard", allow=("400", "404"))
    say("hostile files have limits, and wrong values do no harm")


def check_shipped(b):
    """The dashboards of the project's chart use only what is drawn. Those of kube-prometheus-stack are in ConfigMaps where the test has them."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/helm/gpuscale/files/dashboards")
    files = sorted(os.listdir(folder))
    assert files
    for name in files:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            import_here(b, f.read())
        b.size(1280, 4000)
        b.wait("all panels", DRAWN)
        assert b.js("return document.querySelectorAll('.dash-reason, .dash-note, .dash-panel .notice').length") == 0, f"{name}: {b.text()}"
        b.check(name)
    b.size(1280, 900)
    b.open("dashboards")
    b.wait("the list", "document.querySelector('main td a')")
    stack = b.js("return [...document.querySelectorAll('main td a')].map((a) => a.getAttribute('href')).filter((href) => href.includes('prometheus%2F'))")
    assert len(stack) in (0, 29), stack
    for href in stack[:2]:
        b.open(href)
        b.wait("its panels, or that it has none", "document.querySelector('.dash-panel, .dash-sections .empty')")
        b.check(href)
    say(f"{len(files)} dashboards of the project and {len(stack)} of kube-prometheus-stack are drawn")


def check_alone(b):
    b.driver.get("about:blank")
    b.forget()
    b.base = engine
    b.open("dashboards")
    b.wait("the list", "document.querySelector('main').textContent.includes('No dashboard was imported in this window.')")
    import_here(b, OLD)
    shows(b, "Single", "about 4 B")
    b.check("an engine without a cluster")
    b.open("dashboard?name=default/every&file=every.json")
    b.wait("the reason", "document.querySelector('.notice.error')?.textContent.includes('Only gpuscale up reads dashboards')")
    b.check("a dashboard of a cluster in an engine alone")
    say("an engine without a cluster shows dashboards of the session")


browser = Browser(up, os.path.join(directory, "profile"))
try:
    for check in (check_import, check_every, check_variables, check_old, check_values, check_shipped, check_hostile, check_alone):
        try:
            check(browser)
        except BaseException:
            browser.shot(os.path.join(directory, "failed.png"))
            raise
finally:
    browser.close()
