# Ray Serve's default autoscaling policy (PyPI: ray) in virtual time. Reads one JSON object a line and
# answers with the number of replicas. Its controller averages the requests over the look-back period.
import collections
import json
import sys
import time

import ray
from ray.serve import autoscaling_policy
from ray.serve.config import AutoscalingConfig, AutoscalingContext

now = 0.0
time.time = lambda: now  # the policy measures its delays with it
policy = autoscaling_policy._apply_autoscaling_config(autoscaling_policy._core_replica_queue_length_policy)
print("Ray Serve", ray.__version__, flush=True)
for line in sys.stdin:
    view = json.loads(line)
    now = view["t"]
    if view["new"]:
        config = AutoscalingConfig(min_replicas=1, max_replicas=200, target_ongoing_requests=view["target"])
        state, seen = {}, collections.deque()
    seen.append((now, view["requests"]))
    while seen[0][0] <= now - config.look_back_period_s:
        seen.popleft()
    mean = sum(n for _, n in seen) / len(seen)
    context = AutoscalingContext(
        deployment_id=None, deployment_name="llm", app_name="ml", current_num_replicas=view["ready"],
        target_num_replicas=view["replicas"], running_replicas=[], total_num_requests=mean,
        total_queued_requests=view["waiting"], aggregated_metrics=None, raw_metrics=None,
        capacity_adjusted_min_replicas=1, capacity_adjusted_max_replicas=200, policy_state=state,
        last_scale_up_time=None, last_scale_down_time=None, current_time=now, config=config)
    replicas, state = policy(context)
    print(max(1, min(200, int(replicas))), flush=True)
