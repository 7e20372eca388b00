#!/usr/bin/env python3
"""Prints where the time of networks goes, against the roofline: one table for all kernels of a kind.

    scripts/profile_networks.py --models DIR                                 # every .onnx file in DIR, 2 threads
    scripts/profile_networks.py --models DIR --only resnet50 --db talweg.db  # by the schedules of a tuning database

`at best` is the time by the roofline: what the arithmetic takes at the measured peak or the bytes at the measured
bandwidth, whichever is longer. Steps are timed one by one, in place.
"""

import argparse
import json
from pathlib import Path

import tool

REPOSITORY = Path(__file__).resolve().parent.parent
# Kinds with a smaller share are put together.
LEAST_SHARE = 0.02


def talweg(options, *arguments):
    """The object that a verb prints."""
    database = ["--db", options.db] if options.db else []
    return json.loads(tool.output(options.talweg, *arguments, "--threads", options.threads, "--json", *database))


def kinds(profile):
    """Time, arithmetic and number of the steps of each kind, longest first; small kinds under one name."""
    found = {}
    for step in profile["steps"]:
        entry = found.setdefault(step["kernel"], [0.0, 0.0, 0])
        entry[0] += step["us"]
        entry[1] += step["gflops"] * step["us"] * 1e3
        entry[2] += 1
    least = LEAST_SHARE * profile["total_us"]
    small = [name for name, (us, _, _) in found.items() if us < least]
    if len(small) > 1:
        parts = [found.pop(name) for name in small]
        found[f"{len(small)} other kinds"] = [sum(part) for part in zip(*parts)]
    return sorted(found.items(), key=lambda item: -item[1][0])


def print_network(name, profile, roofline_us):
    total, peak = profile["total_us"], profile["peak_gflops"] * 1e3
    print(f"\n{name}: {total / 1e3:.2f} ms, at best {roofline_us / 1e3:.2f} ms ({roofline_us / total:.2f})")
    print(f"  {'kernels':28}{'steps':>6}{'ms':>9}{'share':>8}{'of peak':>9}")
    for kind, (us, flops, steps) in kinds(profile):
        print(f"  {kind:28}{steps:6}{us / 1e3:9.2f}{us / total:8.0%}{flops / us / peak:9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="the folder with the .onnx files")
    parser.add_argument("--only", nargs="+", help="names of networks, without .onnx")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=30, help="runs whose median is taken")
    parser.add_argument("--db", type=Path, help="a tuning database")
    parser.add_argument("--talweg", type=Path, default=REPOSITORY / "target/release/talweg", metavar="BINARY")
    options = parser.parse_args()
    paths = tool.models(options.models, options.only)
    for path in paths:
        roofline = talweg(options, "check", path)["roofline_us"]
        print_network(path.stem, talweg(options, "profile", path, "--runs", options.runs), roofline)


if __name__ == "__main__":
    main()
