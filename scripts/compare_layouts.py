#!/usr/bin/env python3
"""Tunes convolutions of networks with channels last and with channels in blocks, and times both alternately.

    scripts/compare_layouts.py                            # every convolution, ten seconds of tuning for each layout
    scripts/compare_layouts.py --only depthwise 1024      # those whose name or SPEC contains one of the words
    scripts/compare_layouts.py --threads 1 --blocks 16 --json
    scripts/compare_layouts.py --budget 0                 # default schedules

In blocks an activation is [n, c / block, h, w, block]; where a block does not divide the channels they stay last. Each
layout of a convolution is tuned on its own; then each round times all of them once. A ratio is the median over the
rounds of the time with channels last over the time in blocks: above 1 blocks are faster.
"""

import argparse
import contextlib
import json
import math
import re
import statistics
import sys
import tempfile
from pathlib import Path

import tool
import turns

REPOSITORY = Path(__file__).resolve().parent.parent
TURN_SECONDS, PAUSE_SECONDS = 0.05, 0.01

CONVOLUTIONS = {
    # ResNet-50
    "3x3 64x56x56": "conv2d:h=56,w=56,c=64,f=64,k=3,p=1,epilogue=bias+relu",
    "3x3 128x28x28": "conv2d:h=28,w=28,c=128,f=128,k=3,p=1,epilogue=bias+relu",
    "3x3 256x14x14": "conv2d:h=14,w=14,c=256,f=256,k=3,p=1,epilogue=bias+relu",
    "3x3 512x7x7": "conv2d:h=7,w=7,c=512,f=512,k=3,p=1,epilogue=bias+relu",
    "3x3 128x56x56 stride 2": "conv2d:h=56,w=56,c=128,f=128,k=3,s=2,p=1,epilogue=bias+relu",
    "1x1 64->256 56x56": "conv2d:h=56,w=56,c=64,f=256,k=1,epilogue=bias+residual+relu",
    "1x1 256->64 56x56": "conv2d:h=56,w=56,c=256,f=64,k=1,epilogue=bias+relu",
    "1x1 1024->256 14x14": "conv2d:h=14,w=14,c=1024,f=256,k=1,epilogue=bias+relu",
    "1x1 512->2048 7x7": "conv2d:h=7,w=7,c=512,f=2048,k=1,epilogue=bias+residual+relu",
    "1x1 2048->512 7x7": "conv2d:h=7,w=7,c=2048,f=512,k=1,epilogue=bias+relu",
    "1x1 512->1024 28x28 stride 2": "conv2d:h=28,w=28,c=512,f=1024,k=1,s=2,epilogue=bias",
    # MobileNet-V2
    "depthwise 144x56x56": "depthwise:h=56,w=56,c=144,k=3,p=1,epilogue=bias+relu6",
    "depthwise 384x14x14": "depthwise:h=14,w=14,c=384,k=3,p=1,epilogue=bias+relu6",
    "depthwise 960x7x7": "depthwise:h=7,w=7,c=960,k=3,p=1,epilogue=bias+relu6",
    "1x1 96->24 56x56": "conv2d:h=56,w=56,c=96,f=24,k=1,epilogue=bias",
    "1x1 64->384 14x14": "conv2d:h=14,w=14,c=64,f=384,k=1,epilogue=bias+relu6",
    "1x1 960->160 7x7": "conv2d:h=7,w=7,c=960,f=160,k=1,epilogue=bias+residual",
    # R3D-18
    "3x3x3 64x8x28x28": "conv3d:d=8,h=28,w=28,c=64,f=64,k=3,p=1,epilogue=bias+relu",
}


def chosen(words):
    """The convolutions whose name or SPEC contains one of the words; all without words."""
    if not words:
        return CONVOLUTIONS
    found = {n: s for n, s in CONVOLUTIONS.items() if any(word in n or word in s for word in words)}
    if not found:
        sys.exit(f"error: --only {' '.join(words)}: no such convolution; known: {', '.join(CONVOLUTIONS)}")
    return found


def in_blocks(spec, block):
    """The SPEC with channels in blocks, where they divide the channels; `None` where they do so nowhere."""

    def size(name):
        found = re.search(rf"\b{name}=(\d+)", spec)
        return int(found[1]) if found else 0

    blocks = [block if size(name) and size(name) % block == 0 else 0 for name in ("c", "f")]
    if not any(blocks):
        return None
    return f"{spec},block={blocks[0]}" + (f",fblock={blocks[1]}" if size("f") else "")


def is_zero(budget):
    return budget.rstrip("smh") in ("0", "0.0")


def prepare(spec, options, db):
    """Tunes one layout of a convolution; the command that times what was found."""
    command = [str(options.talweg), "op", spec, "--threads", str(options.threads), "--patience", "0"]
    if is_zero(options.budget):
        return command
    tuning = [str(options.talweg), "tune", spec, "--budget", options.budget, "--threads", str(options.threads)]
    tool.output(*tuning, "--seed", str(options.seed), "--db", str(db), "--json")
    return [*command, "--schedule", "best", "--db", str(db)]


def compare(name, spec, options, db):
    """Tunes all layouts of a convolution and times them alternately."""
    layouts = {"last": spec} | {str(block): in_blocks(spec, block) for block in options.blocks}
    commands = {layout: prepare(text, options, db) for layout, text in layouts.items() if text}
    with contextlib.ExitStack() as stack:
        running = {n: stack.enter_context(turns.Talweg(c, TURN_SECONDS)) for n, c in commands.items()}
        rounds = turns.rounds({n: t.turn for n, t in running.items()}, options.rounds, PAUSE_SECONDS)
    times = {layout: statistics.median(all_us) for layout, all_us in rounds.items()}
    ratios = {layout: turns.over(rounds["last"], rounds[layout]) for layout in times if layout != "last"}
    return {"name": name, "spec": spec, "threads": options.threads, "median_us": times, "ratios": ratios}


def line(result, blocks):
    text = f"{result['name']:30}{result['median_us']['last']:12.1f}"
    for block in map(str, blocks):
        if block in result["ratios"]:
            text += f"{result['median_us'][block]:12.1f}{result['ratios'][block]:7.3f}"
        else:
            text += f"{'-':>12}{'-':>7}"
    return text


def means(results, blocks):
    """The geometric mean of the ratios for each block."""
    out = {}
    for block in map(str, blocks):
        logs = [math.log(r["ratios"][block]) for r in results if block in r["ratios"]]
        if logs:
            out[block] = math.exp(statistics.mean(logs))
    return out


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="choose convolutions by name or SPEC")
    parser.add_argument("--blocks", nargs="+", type=int, default=[16, 32], metavar="N", help="channels of a block")
    parser.add_argument("--budget", default="10s", metavar="TIME", help="tuning time of each layout; 0 for none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=15, help="alternating rounds of timing")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--talweg", type=Path, default=REPOSITORY / "target/release/talweg", metavar="BINARY")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if min(options.blocks) < 1:
        parser.error("--blocks must be at least 1")
    if not options.talweg.is_file():
        parser.error(f"{options.talweg} does not exist: run cargo build --release")
    return options


def main():
    options = parse_arguments()
    convolutions = chosen(options.only)
    if not options.json:
        heads = "".join(f"{f'{block} us':>12}{'ratio':>7}" for block in options.blocks)
        print(f"{'convolution':30}{'last us':>12}{heads}", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, spec in convolutions.items():
            results.append(compare(name, spec, options, Path(folder) / "tuned.db"))
            if not options.json:
                print(line(results[-1], options.blocks), flush=True)
    mean = means(results, options.blocks)
    if options.json:
        print(json.dumps({"budget": options.budget, "results": results, "geometric_means": mean}, indent=2))
    else:
        print("geometric means:", ", ".join(f"blocks of {block} {value:.3f}" for block, value in mean.items()))


if __name__ == "__main__":
    main()
