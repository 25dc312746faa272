#!/bin/sh
# The web interface decides as the program which pod uses a GPU: both have the cases of tests/metrics/gpu_owner.json.
. "$(dirname "$0")/lib.sh"
need node
cp "$source/web/gpu-owner.js" "$dir/gpu-owner.mjs"
cat >"$dir/cases.mjs" <<'J'
import {readFileSync} from "node:fs";
import {nodeOf, ownerOf, targetsFrom} from "./gpu-owner.mjs";

const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));
let failed = cases.length > 10 ? 0 : 1;
for (const c of cases) {
  const target = c.target || undefined, owner = ownerOf(c.labels, target), node = nodeOf(c.labels, target);
  if (owner === c.owner && node === c.node) continue;
  console.log(`${c.name}: owner "${owner}", node "${node}"`);
  failed++;
}
const targetOf = targetsFrom([{job: "j", instance: "a:1", namespace: "gpu", pod: "dcgm-1"}, {job: "j", instance: "b:1"}],
  [{namespace: "gpu", pod: "dcgm-1", node: "n1"}]);
if (targetOf({job: "j", instance: "a:1"})?.node !== "n1" || targetOf({job: "j", instance: "b:1"})) failed++;
process.exit(failed ? 1 : 0);
J
node "$dir/cases.mjs" "$source/tests/metrics/gpu_owner.json" || fail "the web interface names other owners than the program: see above"
