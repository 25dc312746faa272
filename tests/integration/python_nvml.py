"""Calls each function of nvidia-ml-py without arguments, or with a device alone, on each simulated GPU. The driver must
have all that the package of its own version calls, and no answer may be an error that a driver does not give."""
import inspect
import sys

import pynvml

# Calls that end or change the connection itself.
LEFT_OUT = {"nvmlInit", "nvmlInitWithFlags", "nvmlShutdown"}
# What a driver answers for a feature that the board lacks, or that only a MIG device has.
ALLOWED = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NO_PERMISSION}


def calls():
    for name, function in sorted(vars(pynvml).items()):
        if not name.startswith("nvml") or not inspect.isfunction(function) or name in LEFT_OUT:
            continue
        needed = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        if not needed or needed in (["handle"], ["device"]):
            yield name, function, len(needed)


def main():
    pynvml.nvmlInit()
    problems, answered, unsupported = [], 0, 0
    for index in range(pynvml.nvmlDeviceGetCount()):
        device = pynvml.nvmlDeviceGetHandleByIndex(index)
        for name, function, n in calls():
            try:
                function(*[device] * n)
                answered += 1
            except pynvml.NVMLError as error:
                unsupported += 1
                if error.value not in ALLOWED:
                    problems.append(f"GPU {index}: {name}: {error}")
    print(f"{answered} answered, {unsupported} not supported")
    for problem in problems:
        print(problem)
    pynvml.nvmlShutdown()
    if problems or not answered:
        sys.exit(1)


main()
