#!/usr/bin/env python3
"""Checks that talweg's networks compute what ONNX Runtime computes.

    scripts/check_networks.py                      # MobileNet-V2, DCGAN and ResNet-50, written by make_networks.py
    scripts/check_networks.py --models DIR         # every .onnx file in DIR

Each network is compiled untuned and runs with 1 and with 2 threads; the largest difference of an output, relative
to the largest magnitude of that output, must stay below the tolerance. ONNX Runtime is installed into .venv-onnx on
first use; where that is impossible the reason is printed and nothing is checked (exit code 0, unless `--required`).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx_venv
import tool

REPOSITORY = Path(__file__).resolve().parent.parent


def verify(talweg, model, threads, tolerance):
    """Whether a network is right, and a line about it."""
    command = [talweg, "verify", str(model), "--against", "onnxruntime", "--python", str(onnx_venv.PYTHON)]
    command += ["--threads", str(threads), "--tolerance", str(tolerance), "--json"]
    start = time.monotonic()
    # In the model's folder there is no tuning database: every schedule is the analytic default.
    done = subprocess.run(
        command, cwd=model.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=tool.environment()
    )
    seconds = time.monotonic() - start
    try:
        found = json.loads(done.stdout)
        detail = f"largest difference {found['max_rel_error']:.2e}"
    except (ValueError, KeyError, TypeError):
        detail = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
    right = done.returncode == 0
    mark = "ok" if right else "WRONG"
    return right, f"{mark:5}  {model.stem}, {threads} thread{'s' * (threads > 1)}: {detail}  ({seconds:.1f} s)"


def check(talweg, folder, threads, tolerance):
    models = sorted(folder.glob("*.onnx"))
    if not models:
        sys.exit(f"error: there is no .onnx file in {folder}")
    wrong = 0
    for model in models:
        for count in threads:
            right, line = verify(talweg, model, count, tolerance)
            print(line, flush=True)
            wrong += not right
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, metavar="DIR", help="check every .onnx file in this folder")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--tolerance", type=float, default=1e-4, metavar="X")
    parser.add_argument("--required", action="store_true", help="fail when ONNX Runtime cannot be installed")
    parser.add_argument("--talweg", default=str(REPOSITORY / "target/release/talweg"), help="the binary to check")
    arguments = parser.parse_args()
    talweg = Path(arguments.talweg).resolve()
    if not talweg.exists():
        sys.exit(f"error: {talweg} is not there; build it with `cargo build --release`")
    try:
        onnx_venv.create()
    except onnx_venv.Unavailable as reason:
        print(f"networks not checked against ONNX Runtime: {reason}")
        sys.exit(1 if arguments.required else 0)

    with tempfile.TemporaryDirectory(prefix="talweg-networks-") as written:
        folder = arguments.models and arguments.models.resolve()
        if folder is None:
            folder = Path(written)
            maker = Path(__file__).with_name("make_networks.py")
            subprocess.run([onnx_venv.PYTHON, maker, folder], check=True, stdout=subprocess.DEVNULL)
        wrong = check(str(talweg), folder, arguments.threads, arguments.tolerance)
    if wrong:
        sys.exit(f"error: {wrong} checks failed")


if __name__ == "__main__":
    main()
