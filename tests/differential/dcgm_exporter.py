#!/usr/bin/env python3
"""Compares a page of NVIDIA's dcgm-exporter with one of gpuscale exporter, line by line.

Usage: dcgm_exporter.py PEER OURS
Lines must be equal to the byte, apart from the differences that are listed here. Prints the counts and
each difference; exit code 1: there are unexpected ones."""
import re
import sys

# Values that change between two samples, and by how much they may differ: a share of the larger
# value, and a number. Utilization of the peer is one reading of the driver, ours is a mean.
TOLERANCES = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": (0.1, 500000),
    "DCGM_FI_DEV_GPU_TEMP": (0, 1),
    "DCGM_FI_DEV_MEMORY_TEMP": (0, 1),
    "DCGM_FI_DEV_POWER_USAGE": (0.1, 0),
    "DCGM_FI_DEV_GPU_UTIL": (0, 5),
    "DCGM_FI_DEV_MEM_COPY_UTIL": (0, 3),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (0, 0.06),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (0, 0.04),
    "DCGM_FI_PROF_DRAM_ACTIVE": (0, 0.04),
}
# Families that one program has and the other has not; docs/compatibility/dcgm-exporter.md has the
# reasons.
ONLY_OURS = ("gpuscale_", "process_", "DCGM_CUSTOM_", "DCGM_FI_DEV_XID_ERRORS")
ONLY_PEER = ("DCGM_FI_DEV_VGPU_LICENSE_STATUS",)


def read(path):
    """Samples by their name with labels, and the lines of metadata."""
    samples, metadata = {}, set()
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.rstrip("\n")
            if line.startswith("#"):
                metadata.add(line)
            elif line:
                series, value = line.rsplit(" ", 1)
                # The peer calls the label Hostname, but hostname on links.
                samples[series.replace("Hostname=", "hostname=")] = value
    return samples, metadata


def family(line):
    words = line.split(" ")
    return words[2] if line.startswith("#") else re.match(r"[A-Za-z0-9_]+", line).group()


def close(series, a, b):
    share, number = TOLERANCES.get(family(series), (0, 0))
    # Also the notation must be the same: 0.000000 is not 0.
    same_form = ("." in a) == ("." in b)
    return same_form and abs(float(a) - float(b)) <= max(number, share * max(abs(float(a)), abs(float(b))))


def main():
    (peer, peer_metadata), (ours, our_metadata) = read(sys.argv[1]), read(sys.argv[2])
    problems = []
    equal = near = 0
    for series in sorted(peer.keys() | ours.keys()):
        if series not in ours:
            if not family(series).startswith(ONLY_PEER):
                problems.append(f"only in the peer: {series} {peer[series]}")
        elif series not in peer:
            if not family(series).startswith(ONLY_OURS):
                problems.append(f"only in gpuscale: {series} {ours[series]}")
        elif peer[series] == ours[series]:
            equal += 1
        elif close(series, peer[series], ours[series]):
            near += 1
        else:
            problems.append(f"peer {peer[series]}, gpuscale {ours[series]}: {series}")
    shared = {family(s) for s in peer} & {family(s) for s in ours}
    for line in sorted(peer_metadata ^ our_metadata):
        if family(line) in shared:
            problems.append(f"only in {'the peer' if line in peer_metadata else 'gpuscale'}: {line}")
    prof = sum(family(s).startswith("DCGM_FI_PROF_") for s in peer)
    print(f"{len(peer)} lines of the peer ({prof} of profiling): {equal} equal, {near} within the "
          f"tolerance, {len(problems)} differences")
    print("\n".join(problems))
    sys.exit(1 if problems or not peer else 0)


main()
