#!/usr/bin/env python3
"""Times single operators in talweg and its peers, alternately, in one run.

    scripts/compare_peers.py                                  # softmax and layer norm
    scripts/compare_peers.py --ops matmul:m=512,n=512,k=512 conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1
    scripts/compare_peers.py --ops matmul:m=512,n=512,k=512@my.sched --threads 2 --json

Everybody is set up first. Then each round gives talweg and every peer one short turn, so that whatever
disturbs the machine disturbs them all; a turn's figure is the median of its runs after a
warm-up, and the table gives median, minimum and maximum over the rounds. A ratio is the
median over the rounds of the peer's time over talweg's in the same round. The peers are
installed into .venv-peers on first use.
"""

import argparse
import contextlib
import json
import logging
import os
import statistics
import sys
from pathlib import Path

import peers_venv
import turns

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.append(str(REPOSITORY / "crates/talweg/python"))
import peer_runners  # noqa: E402

DEFAULT_OPS = ["softmax:rows=1536,n=128", "layernorm:rows=128,n=768"]
WARM_UP_SECONDS = 0.02
TURN_SECONDS = 0.08
# Lets the idle threads of the previous peer stop spinning.
PAUSE_SECONDS = 0.02


def torch_runner(operator, threads, compiled=False, channels_last=False):
    return peer_runners.torch_runner(operator.torch_module(), operator.x, threads, compiled, channels_last)


def peers_for(operator):
    """The peers that apply to an operator, by name."""
    peers = {
        "onnxruntime": lambda o, t: peer_runners.onnxruntime_runner(o.onnx_model(), o.x, t),
        "openvino": lambda o, t: peer_runners.openvino_runner(o.onnx_model(), o.x, t),
        "torch eager": torch_runner,
        "torch compiled": lambda o, t: torch_runner(o, t, compiled=True),
    }
    if operator.x.ndim >= 4:
        peers["torch eager, channels last"] = lambda o, t: torch_runner(o, t, channels_last=True)
        peers["torch compiled, channels last"] = lambda o, t: torch_runner(o, t, True, True)
    return peers


def prepare(operator, threads):
    """Builds all peers, checks that they agree and returns their runners and the failures."""
    import numpy as np

    runners, failures, reference = {}, {}, None
    for name, peer in peers_for(operator).items():
        try:
            run = peer(operator, threads)
            output = np.array(peer_runners.as_numpy(run()))
        except Exception as error:  # a peer may fail in any way; the others are still worth timing
            failures[name] = f"{type(error).__name__}: {error}"
            continue
        reference = output if reference is None else reference
        scale = np.abs(reference).max()
        if output.shape != reference.shape or np.abs(output - reference).max() > 1e-3 * scale:
            failures[name] = f"its output differs from that of {next(iter(runners))}"
        else:
            runners[name] = run
    return runners, failures


def compare(op, options, talweg_command=None):
    """Measures one operator, talweg by the given command if any; returns what `--json` prints for it."""
    import peer_operators

    spec, _, schedule = op.partition("@")
    runners, failures = prepare(peer_operators.parse(spec), options.threads)
    timers = {name: lambda run=run: turns.turn(run, WARM_UP_SECONDS, TURN_SECONDS) for name, run in runners.items()}
    command = talweg_command or [options.talweg, "op", spec, "--threads", options.threads]
    command = [*command, "--patience", "0", *(["--schedule", schedule] if schedule else [])]
    with contextlib.nullcontext() if options.no_talweg else turns.Talweg(command, WARM_UP_SECONDS + TURN_SECONDS) as talweg:
        if talweg:
            timers = {"talweg": talweg.turn} | timers
        rounds = turns.rounds(timers, options.rounds, PAUSE_SECONDS, failures)

    times = {
        name: {"median_us": statistics.median(all_us), "min_us": min(all_us), "max_us": max(all_us)}
        for name, all_us in rounds.items()
    }
    result = {"spec": spec, "schedule": schedule or "default", "threads": options.threads, "times": times}
    timed = [name for name in runners if name in rounds]
    if options.no_talweg:
        best = min(timed, key=lambda name: times[name]["median_us"], default=None)
        return result | {"failures": failures, "best_peer": best}
    for name in timed:
        times[name]["over_talweg"] = turns.over(rounds[name], rounds["talweg"])
    best = min(timed, key=lambda name: times[name]["over_talweg"], default=None)
    result |= {"failures": failures, "best_peer": best}
    if best:
        result["best_peer_over_talweg"] = times[best]["over_talweg"]
    return result


def print_table(result):
    print(f"\n{result['spec']}  schedule {result['schedule']}, threads {result['threads']}")
    print(f"  {'':31}{'median us':>11}{'min':>11}{'max':>11}")
    for name, row in result["times"].items():
        print(f"  {name:31}{row['median_us']:11.1f}{row['min_us']:11.1f}{row['max_us']:11.1f}")
    for name, reason in result["failures"].items():
        print(f"  {name:31} failed: {reason.splitlines()[0]}")
    if "best_peer_over_talweg" in result:
        print(f"  best peer ({result['best_peer']}) / talweg = {result['best_peer_over_talweg']:.2f}")


def versions():
    import onnxruntime
    import openvino
    import torch

    found = {"onnxruntime": onnxruntime, "openvino": openvino, "torch": torch}
    return {name: module.__version__ for name, module in found.items()}


def pin(threads):
    """Keeps this process, and the ones it starts, on as many cores as there are threads."""
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= threads <= len(cores):
        sys.exit(f"error: --threads {threads}: this machine offers 1 to {len(cores)}")
    os.sched_setaffinity(0, cores[:threads])
    os.environ |= {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", nargs="+", default=DEFAULT_OPS, metavar="SPEC[@SCHEDULE]", help="operators to time")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15, help="turns of everybody")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--talweg", type=Path, default=REPOSITORY / "target/release/talweg", metavar="BINARY")
    parser.add_argument("--no-talweg", action="store_true", help="time the peers only")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not options.no_talweg and not options.talweg.is_file():
        parser.error(f"{options.talweg} does not exist: run cargo build --release, or pass --no-talweg")
    return options


def main():
    options = parse_arguments()
    peers_venv.enter()
    pin(options.threads)
    logging.disable(logging.WARNING)
    import peer_operators

    results = []
    for op in options.ops:
        try:
            results.append(compare(op, options))
        except peer_operators.SpecError as error:
            sys.exit(f"error: {error}")
        if not options.json:
            print_table(results[-1])
    if options.json:
        print(json.dumps({"versions": versions(), "results": results}, indent=2))
    else:
        print("\n" + ", ".join(f"{name} {version}" for name, version in versions().items()))


if __name__ == "__main__":
    main()
