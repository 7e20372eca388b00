#!/usr/bin/env python3
"""Times whole networks in talweg and its peers, alternately, in one run, and checks that they agree.

    scripts/compare_networks.py --models DIR                      # every .onnx file in DIR, untuned, 2 threads
    scripts/compare_networks.py --models DIR --only resnet50 dcgan --threads 1 2 --rounds 5
    scripts/compare_networks.py --models DIR --tune 5m            # tune each network first
    scripts/compare_networks.py --models DIR --tune 1m 2m 5m      # and say how fast it is after each of these times
    scripts/compare_networks.py --models DIR --tune 5m --tvm-tune 5m   # TVM by its tuner MetaSchedule as well

Everybody is set up first; then each round gives talweg and every peer a turn of a fraction of a second, so that
what disturbs the machine disturbs them all. A turn's figure is the median of its runs after a warm-up, and a
ratio is the median over the rounds of the peer's time over talweg's in the same round. TVM has hardly any schedules
for CPUs without its tuner; a peer that takes seconds for a run is named, but gets no turns. The peers are installed into
.venv-peers on first use.

With --tune the untuned network, and the artefact of each time named, have turns as well, and the first that is faster
than every peer says when the best peer is beaten.
"""

import argparse
import contextlib
import filecmp
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import peers_venv
import tool
import turns

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.append(str(REPOSITORY / "crates/talweg/python"))
import peer_runners  # noqa: E402

WARM_UP_SECONDS = 0.1
TURN_SECONDS = 0.4
# Lets the idle threads of the previous peer stop spinning.
PAUSE_SECONDS = 0.25
# A peer that takes longer for one run is not given turns, which are five runs at least.
SLOW_SECONDS = 2.0


def torch_runner(path, x, threads, compiled):
    import peer_networks

    module, _ = peer_networks.load(path)
    return peer_runners.torch_runner(module, x, threads, compiled, channels_last=x.ndim >= 4)


RUNNERS = {
    "onnxruntime": lambda p, x, t: peer_runners.onnxruntime_runner(str(p), x, t),
    "openvino": lambda p, x, t: peer_runners.openvino_runner(str(p), x, t),
    "torch eager": lambda p, x, t: torch_runner(p, x, t, False),
    "torch compiled": lambda p, x, t: torch_runner(p, x, t, True),
}
PEERS = [*RUNNERS, "tvm"]


def set_up(peer, path, name, x, threads, options, folder, stack):
    """Sets a peer up; returns its output and what times a turn of it. `name` is the input's; a process that is started
    ends with the stack."""
    import numpy as np

    if peer in RUNNERS:
        run = RUNNERS[peer](path, x, threads)
        return np.array(peer_runners.as_numpy(run())), lambda: turns.turn(run, WARM_UP_SECONDS, TURN_SECONDS)
    inputs, outputs = folder / "inputs.npz", folder / f"{peer}.npz"
    np.savez(inputs, **{name: x})
    process = turns.PeerProcess(peer, path, threads, inputs, outputs, options.tvm_tune)
    stack.enter_context(process)
    if process.first_seconds > SLOW_SECONDS:
        raise TimeoutError(f"a run takes {process.first_seconds:.1f} s")
    with np.load(outputs) as archive:
        return archive["output0"], lambda: process.turn(WARM_UP_SECONDS, TURN_SECONDS)


def difference(output, ours):
    """The largest difference of a peer's output to talweg's, relative to the peer's largest element."""
    import numpy as np

    if output.shape != ours.shape:
        raise ValueError(f"its output has the shape {output.shape}, talweg's {ours.shape}")
    return float(np.abs(output - ours).max() / np.abs(output).max())


def compare(path, threads, options, folder):
    """One network with one number of threads; returns what `--json` prints for it."""
    with contextlib.ExitStack() as stack:
        return compare_with(path, threads, options, folder, stack)


def compare_with(path, threads, options, folder, stack):
    """`compare`, with processes of peers that end with the stack."""
    import numpy as np
    import onnx

    model = onnx.load(path, load_external_data=False)
    given = model.graph.input[0]
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    del model
    versions = make_versions(path, threads, options, folder)
    _, artefact, _, report = versions[-1]
    np.save(folder / "x.npy", x)
    given_by = f"{given.name}={folder / 'x.npy'}"
    tool.output(options.talweg, "run", artefact, "--threads", threads, "--input", given_by, "--output", folder / "y.npy")
    ours = np.load(folder / "y.npy")

    timers, failures, errors = {}, {}, {}
    for name in options.peers:
        try:
            output, timer = set_up(name, path, given.name, x, threads, options, folder, stack)
            errors[name] = difference(output, ours)
        except Exception as error:  # a peer may fail in any way; the others are still worth timing
            failures[name] = f"{type(error).__name__}: {error}"
            continue
        if errors[name] < 1e-3:
            timers[name] = timer
        else:
            failures[name] = f"its output differs by {errors[name]:.1e}"
    # Each version once, however often tuning left the same: weights of large networks would crowd each other out.
    own, alike = {}, {}
    for name, file, _, _ in reversed(versions):
        same = next((known for known, other in alike.items() if filecmp.cmp(file, other, shallow=False)), None)
        if same:
            own[name] = same
            continue
        own[name], alike[name] = name, file
        command = [options.talweg, "bench", file, "--threads", threads]
        timers[name] = stack.enter_context(turns.Talweg(command, WARM_UP_SECONDS + TURN_SECONDS)).turn
    rounds = turns.rounds(timers, options.rounds, PAUSE_SECONDS, failures)
    times = {
        name: {"median_ms": statistics.median(us) / 1e3, "min_ms": min(us) / 1e3, "max_ms": max(us) / 1e3}
        for name, us in rounds.items()
    }
    peers = [name for name in errors if name in rounds]
    for name in peers:
        times[name]["over_talweg"] = turns.over(rounds[name], rounds["talweg"])
    best = min(peers, key=lambda name: times[name]["over_talweg"], default=None)
    result = {"network": path.stem, "threads": threads, "times": times, "failures": failures, "errors": errors}
    result |= {"best_peer": best, "compile": report, "tvm_tune_seconds": options.tvm_tune}
    if best:
        result["ratio"] = times[best]["over_talweg"]
        lead = {
            name: min(turns.over(rounds[peer], rounds[own[name]]) for peer in peers)
            for name, *_ in versions
        }
        result["versions"] = [{"seconds": seconds, "ratio": lead[name]} for name, _, seconds, _ in versions]
        result["beaten_after"] = next((s for name, _, s, _ in versions if lead[name] > 1), None)
    return result


def make_versions(path, threads, options, folder):
    """The network untuned, and as tuning left it after each of the times wanted: name, artefact, seconds it took, report."""

    def compiled(name, by, spent):
        artefact = folder / f"{path.stem}-{threads}-{spent:.0f}.talweg"
        start = time.perf_counter()
        text = tool.output(
            options.talweg, "compile", path, "-o", artefact, "--threads", threads, *by, "--json",
            TALWEG_DB=str(database),  # an option must name a database that exists, which tuning has yet to make
        )
        return name, artefact, spent or time.perf_counter() - start, json.loads(text)

    database = folder / f"{path.stem}-{threads}.db"
    times = options.tune
    out = [compiled("untuned" if times else "talweg", [], 0.0)]
    spent = 0.0
    for mark in times:
        tuned = folder / "tuned.talweg"
        tool.output(
            options.talweg, "tune", path, "--budget", f"{mark - spent:g}s", "--threads", threads, "--db", database,
            "--strategy", options.strategy, "-o", tuned,
        )
        spent = mark
        name = "talweg" if mark == times[-1] else f"after {mark:.0f} s"
        # The lock holds what tuning settled on in place; compiling by it gives the same bits again.
        out.append(compiled(name, ["--lock", f"{tuned}.lock"], mark))
    return out


def print_table(result):
    print(f"\n{result['network']}, {result['threads']} threads, {result['compile']['tuned']} of {result['compile']['tasks']} tasks tuned")
    print(f"  {'':20}{'median ms':>11}{'min':>11}{'max':>11}{'/ talweg':>11}{'difference':>13}")
    for name, row in result["times"].items():
        error = f"{row['over_talweg']:11.3f}{result['errors'][name]:13.1e}" if "over_talweg" in row else ""
        print(f"  {name:20}{row['median_ms']:11.3f}{row['min_ms']:11.3f}{row['max_ms']:11.3f}{error}")
    for name, reason in result["failures"].items():
        print(f"  {name:20} failed: {reason.splitlines()[0][:200]}")
    if "ratio" in result:
        print(f"  best peer ({result['best_peer']}) / talweg = {result['ratio']:.3f}")
        if len(result["versions"]) > 1:
            parts = [f"{v['ratio']:.3f} after {v['seconds']:.0f} s" for v in result["versions"]]
            after = result["beaten_after"]
            beaten = "never beaten" if after is None else f"beaten after {after:.1f} s"
            print(f"  over time: {', '.join(parts)}; best peer {beaten}")
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="the folder with the .onnx files")
    parser.add_argument("--only", nargs="+", help="names of networks, without .onnx")
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    parser.add_argument(
        "--tune", type=tool.duration, nargs="+", metavar="TIME", help="tune each network for this long first, for example 5m"
    )
    parser.add_argument(
        "--tvm-tune", type=tool.duration, default=0, metavar="TIME", help="let TVM tune each network for this long"
    )
    parser.add_argument("--strategy", default="felix")
    parser.add_argument("--talweg", type=Path, default=REPOSITORY / "target/release/talweg")
    parser.add_argument("--json", type=Path, help="also write all figures to this file, after each network")
    options = parser.parse_args()
    options.tune = sorted(set(options.tune or []))
    paths = tool.models(options.models, options.only)
    peers_venv.enter()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for threads in options.threads:
            for path in paths:
                results.append(compare(path, threads, options, Path(folder)))
                print_table(results[-1])
                if options.json:  # after each, so that a later failure loses nothing
                    options.json.write_text(json.dumps(results, indent=1))
            ratios = [r["ratio"] for r in results if r["threads"] == threads and "ratio" in r]
            if ratios:
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                print(f"\n{threads} threads, best peer / talweg: geometric mean {mean:.3f}, lowest {min(ratios):.3f}")
            beaten = [r["beaten_after"] for r in results if r["threads"] == threads and r.get("beaten_after")]
            if options.tune and 2 * len(beaten) > len(paths):
                median = sorted(beaten + [math.inf] * (len(paths) - len(beaten)))[len(paths) // 2]
                print(f"{threads} threads, time until the best peer is beaten: {median:.1f} s on the median network")


if __name__ == "__main__":
    main()
