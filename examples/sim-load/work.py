# SPDX-License-Identifier: Apache-2.0
"""Puts load on a simulated GPU from Python: each job keeps the GPU busy for 50 ms.

Run it in a pod of `gpuscale up`, which has gpuscale in its PATH and the GPUs in its environment, or after
`gpuscale sim create 1xTesla-T4`.
"""
import subprocess


def run_on_gpu(milliseconds, memory="256Mi"):
    """Returns when the GPU has worked that long. Jobs of several programs take turns."""
    subprocess.run(["gpuscale", "sim", "load", f"--for={milliseconds}ms", f"--memory={memory}"],
                   check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    for job in range(3):
        run_on_gpu(50)
        print("job", job, "is done", flush=True)
