// SPDX-License-Identifier: Apache-2.0
// The signals of all inference engines, by workload, and their history.
import {h} from "./dom.js";
import {readInference, readSearching} from "./inference-data.js";
import {inferenceTable, noInference, searchingTable, simulatedEngines} from "./inference-view.js";
import {onData} from "./live.js";
import {queryPage} from "./overview-data.js";
import {joined} from "./ranges.js";
import {color, Tracks} from "./tracks.js";
import {filterBar, liveView} from "./view.js";

export const title = "Inference";

const historyMs = 5000, leastSeconds = 0.001;
const of = (name) => `gpuscale_inference_${name}`, line = (name, query, of = color.value) => ({name, color: of, query});
const charts = [
  {title: "Requests", lines: [line("waiting", `sum(${of("waiting")})`, color.target), line("running", `sum(${of("running")})`)]},
  {title: "KV cache used, %", top: 100, lines: [line("average", `100 * avg(${of("kv_used_ratio")})`), line("maximum", `100 * max(${of("kv_used_ratio")})`, color.soft)]},
  {title: "Time to first token, p90, seconds", least: leastSeconds, lines: [line("slowest pod", `max(${of("ttft_p90_seconds")})`)]},
  {title: "Time between tokens, p90, seconds", least: leastSeconds, lines: [line("slowest pod", `max(${of("itl_p90_seconds")})`)]},
  {title: "Tokens per second", lines: [line("generated", `sum(rate(${of("generation_tokens_total")}[1m]))`), line("prompts", `sum(rate(${of("prompt_tokens_total")}[1m]))`, color.soft)]},
  {title: "Preempted and rejected per minute", lines: [line("preempted", `60 * sum(rate(${of("preemptions_total")}[1m]))`, color.warm), line("rejected", `60 * sum(rate(${of("rejections_total")}[1m]))`, color.target)]},
];

export function start(main) {
  const filter = filterBar([], "Search workloads, models and engines", () => redraw()), box = h("div");
  const timeline = new Tracks("History of all workloads", async ({start, end, step, ranges}) => ({charts: await Promise.all(charts.map(async (c) => ({...c, href: queryPage(c.lines[0].query),
    lines: await Promise.all(c.lines.map(async (l) => ({...l, values: joined(await ranges.read(l.query, start, end, step))})))})))}));
  main.append(filter.node, box);
  let any = false;
  const redraw = liveView(box, async () => {
    const [rows, searching] = await Promise.all([readInference(), readSearching()]);
    return {rows, searching};
  }, ({rows, searching}) => {
    if (rows.length && !any) {
      any = true;
      main.append(timeline.node);
      timeline.update();
    }
    const shown = rows.filter((r) => filter.matches(r.name, r.ns, r.model, r.engine, r.role));
    return [rows.length ? [rows.some((r) => r.simulated) && simulatedEngines(), h("section", {class: "group-box"}, inferenceTable(shown))] : noInference(),
      searching.length > 0 && searchingTable(searching)];
  });
  onData(() => any && timeline.live() && timeline.update(), historyMs);
}
