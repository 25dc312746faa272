# NVIDIA Dynamo's planner (PyPI: ai-dynamo) for aggregated engines and a latency target, in virtual time:
# its scaling by load each five seconds, above the floor of its scaling by throughput each three minutes.
# Reads one JSON object a line and answers with the number of replicas. The traffic of the next three
# minutes is predicted as that of the last ones (its predictor "constant").
import importlib.metadata
import json
import logging
import os
import sys

os.environ.setdefault("DYN_LOG", "error")
from dynamo.common.forward_pass_metrics import ForwardPassMetrics, QueuedRequestMetrics, ScheduledRequestMetrics
from dynamo.planner.config.planner_config import PlannerConfig
from dynamo.planner.core.state_machine import PlannerScalingState
from dynamo.planner.core.types import (
    EngineCapabilities, FpmObservations, TrafficObservation, WorkerCapabilities, WorkerCounts)

logging.disable(logging.CRITICAL)
BLOCK = 16


def metrics(engine):
    kv = max(0, engine["blocks"] * BLOCK - engine["prefill"])
    return ForwardPassMetrics(
        worker_id=str(engine["id"]), dp_rank=0, wall_time=engine["seconds"],
        scheduled_requests=ScheduledRequestMetrics(
            num_prefill_requests=1 if engine["prefill"] else 0, sum_prefill_tokens=engine["prefill"],
            num_decode_requests=engine["decode"], sum_decode_kv_tokens=kv),
        queued_requests=QueuedRequestMetrics(
            num_prefill_requests=engine["waiting"], sum_prefill_tokens=engine["queued_tokens"]))


print("Dynamo planner", importlib.metadata.version("ai-dynamo"), flush=True)
for line in sys.stdin:
    view = json.loads(line)
    if view["new"]:
        config = PlannerConfig(
            mode="agg", optimization_target="sla", ttft_ms=view["ttft_ms"] * view["target"], itl_ms=view["itl_ms"],
            enable_load_scaling=True, enable_throughput_scaling=True, load_predictor="constant", max_gpu_budget=200, min_endpoint=1,
            decode_engine_num_gpu=1)
        planner = PlannerScalingState(config, WorkerCapabilities(decode=EngineCapabilities(
            num_gpu=1, max_num_batched_tokens=256, max_num_seqs=256, context_length=8192, max_kv_tokens=38192)))
        due = 180
    planner.begin_tick()
    planner.observe_worker_counts(WorkerCounts(
        ready_num_decode=view["ready"], expected_num_decode=view["replicas"]))
    seen = FpmObservations(decode={(str(e["id"]), 0): metrics(e) for e in view["engines"] if e["seconds"] > 0})
    planner.observe_fpm(seen)
    decision = None
    if view["t"] >= due:
        due += 180
        traffic = TrafficObservation(view["seconds"], view["arrived"], view["isl"], view["osl"])
        decision = planner.advance_throughput_from_prediction(
            traffic, predicted_num_req=view["arrived"], predicted_isl=view["isl"],
            predicted_osl=view["osl"], predicted_kv_hit_rate=None)
    decision = planner.advance_load(seen) or decision
    print(decision.num_decode if decision and decision.num_decode else 0, flush=True)
