#!/usr/bin/env python3
"""Tunes the operators of the quality bar and times them against the peers, alternately, in one run.

    scripts/compare_ops.py                                # every operator, a minute of ansor each
    scripts/compare_ops.py --only softmax depthwise       # those whose name or SPEC contains one of the words
    scripts/compare_ops.py --budget 10s --json
    scripts/compare_ops.py --budget 0 --db tuned.db       # measure what an earlier run has tuned

An operator is first tuned with one thread of kernels and the machine to itself; then each round times the tuned
kernel and every peer once (see compare_peers.py). A ratio is the time of the fastest peer over talweg's: above 1
talweg is faster. The peers are installed into .venv-peers on first use.
"""

import argparse
import json
import logging
import math
import os
import sys
import tempfile
from pathlib import Path

import compare_peers
import peers_venv
import tool

OPERATORS = {
    "matmul 512": "matmul:m=512,n=512,k=512",
    "matmul 1024": "matmul:m=1024,n=1024,k=1024",
    "matmul 128x768x3072": "matmul:m=128,n=3072,k=768",
    "bmm": "bmm:b=12,m=128,n=128,k=64",
    "conv 3x3 64x56x56": "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1",
    "conv 3x3 128x28x28": "conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1",
    "conv 3x3 256x14x14": "conv2d:n=1,h=14,w=14,c=256,f=256,k=3,s=1,p=1",
    "conv 3x3 512x7x7": "conv2d:n=1,h=7,w=7,c=512,f=512,k=3,s=1,p=1",
    "pointwise 64->256": "conv2d:n=1,h=56,w=56,c=64,f=256,k=1,s=1,p=0",
    "conv 7x7 stride 2": "conv2d:n=1,h=224,w=224,c=3,f=64,k=7,s=2,p=3",
    "depthwise 32x112x112": "depthwise:n=1,h=112,w=112,c=32,k=3,s=1,p=1",
    "depthwise 96x112x112 stride 2": "depthwise:n=1,h=112,w=112,c=96,k=3,s=2,p=1",
    "depthwise 384x14x14": "depthwise:n=1,h=14,w=14,c=384,k=3,s=1,p=1",
    "conv3d": "conv3d:n=1,d=8,h=28,w=28,c=64,f=64,k=3,s=1,p=1",
    "transposed conv": "conv2d_transpose:n=1,h=4,w=4,c=512,f=256,k=4,s=2,p=1",
    "softmax": "softmax:rows=1536,n=128",
    "layer norm": "layernorm:rows=128,n=768",
}
# The bar: the geometric mean of the ratios, and the smallest of them.
MEAN_BAR, WORST_BAR = 1.0, 0.8


def chosen(words):
    """The operators whose name or SPEC contains one of the words; all without words."""
    if not words:
        return OPERATORS
    found = {n: s for n, s in OPERATORS.items() if any(word in n or word in s for word in words)}
    if not found:
        sys.exit(f"error: --only {' '.join(words)}: no such operator; known: {', '.join(OPERATORS)}")
    return found


def tune(spec, options, db):
    """Tunes one operator; what `talweg tune --json` says about it."""
    command = [str(options.talweg), "tune", spec, "--strategy", options.strategy, "--budget", options.budget]
    command += ["--threads", "1", "--seed", str(options.seed), "--db", str(db), "--json"]
    printed = tool.output(*command)
    try:
        report = json.loads(printed)
        return {key: report[key] for key in ("best_us", "default_us", "trials", "seconds", "default_won")}
    except (ValueError, KeyError) as error:
        sys.exit(f"error: {' '.join(command)} printed no report: {error!r}\n{printed[:500]}")


def tune_all(operators, options, db):
    """Tunes operator after operator, each with the machine to itself."""
    if options.budget.rstrip("smh") in ("0", "0.0"):
        return {}
    tuned = {}
    for name, spec in operators.items():
        tuned[name] = report = tune(spec, options, db)
        gain = report["default_us"] / report["best_us"]
        say(options, f"tuned {name}: {report['best_us']:.1f} us, {gain:.2f} x the default, {report['trials']} trials")
    return tuned


def measure(name, spec, options, db):
    """Times one tuned operator and its peers alternately."""
    command = [str(options.talweg), "op", spec, "--threads", "1", "--schedule", "best", "--db", str(db)]
    result = compare_peers.compare(spec, options, talweg_command=command)
    return {"name": name, **result}


def summary(results):
    """Geometric mean and worst of the ratios, and whether they meet the bars."""
    ratios = {r["name"]: r["best_peer_over_talweg"] for r in results if "best_peer_over_talweg" in r}
    if not ratios:
        sys.exit("error: no peer could be timed on any operator")
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst = min(ratios, key=ratios.get)
    return {
        "geometric_mean": mean,
        "worst": ratios[worst],
        "worst_operator": worst,
        "meets_bars": mean >= MEAN_BAR and ratios[worst] >= WORST_BAR,
    }


def print_table(results, tuned, total):
    print(f"\n{'operator':31}{'talweg us':>11}{'default us':>12}{'best peer us':>14}  {'':30}{'ratio':>6}")
    for r in results:
        default = tuned.get(r["name"], {}).get("default_us")
        default = f"{default:12.1f}" if default else f"{'-':>12}"
        line = f"{r['name']:31}{r['times']['talweg']['median_us']:11.1f}{default}"
        if r["best_peer"]:
            peer = r["times"][r["best_peer"]]["median_us"]
            line += f"{peer:14.1f}  {r['best_peer']:30}{r['best_peer_over_talweg']:6.2f}"
        else:
            line += f"{'no peer ran':>14}"
        print(line)
    print(f"\ngeometric mean {total['geometric_mean']:.2f} (bar {MEAN_BAR})")
    print(f"worst {total['worst']:.2f}, {total['worst_operator']} (bar {WORST_BAR})")


def say(options, text):
    print(text, file=sys.stderr if options.json else sys.stdout, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="choose operators by name or SPEC")
    parser.add_argument("--budget", default="60s", metavar="TIME", help="tuning time of each; 0 uses what --db has")
    parser.add_argument("--strategy", default="ansor", metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=25, help="alternating rounds of timing")
    parser.add_argument("--db", type=Path, metavar="FILE", help="keep the tuning database here")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument(
        "--talweg", type=Path, default=compare_peers.REPOSITORY / "target/release/talweg", metavar="BINARY"
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not options.talweg.is_file():
        parser.error(f"{options.talweg} does not exist: run cargo build --release")
    if options.budget.rstrip("smh") in ("0", "0.0") and not options.db:
        parser.error("--budget 0 measures what --db holds; give it")
    options.threads, options.no_talweg = 1, False
    return options


def main():
    options = parse_arguments()
    operators = chosen(options.only)
    peers_venv.enter()
    with tempfile.TemporaryDirectory() as folder:
        db = options.db or Path(folder) / "tuned.db"
        # The tuner compiles on all cores; only the timing is kept on one.
        tuned = tune_all(operators, options, db)
        compare_peers.pin(options.threads)
        logging.disable(logging.WARNING)
        results = []
        for name, spec in operators.items():
            results.append(measure(name, spec, options, db))
            if "best_peer_over_talweg" in results[-1]:
                say(options, f"timed {name}: {results[-1]['best_peer_over_talweg']:.2f}")
    total = summary(results)
    if options.json:
        report = {"versions": compare_peers.versions(), "strategy": options.strategy, "budget": options.budget}
        report |= {"cpus": os.cpu_count(), "tuned": tuned, "results": results, **total}
        print(json.dumps(report, indent=2))
    else:
        print_table(results, tuned, total)
        print(", ".join(f"{name} {version}" for name, version in compare_peers.versions().items()))


if __name__ == "__main__":
    main()
