"""What the scripts that call talweg have in common: calling it, choosing models, reading times."""

import argparse
import os
import subprocess
import sys


def environment(**settings):
    """This process's environment, without what would set talweg's options otherwise than the scripts do; `settings` are
    variables of talweg that they do set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALWEG_")}
    return kept | {"TALWEG_CONFIG": "none"} | settings


def output(program, *arguments, **settings):
    """What a call of talweg with these settings prints; a failure ends the script with its words."""
    command = [str(program), *map(str, arguments)]
    result = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(**settings)
    )
    if result.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed with code {result.returncode}:\n{result.stderr.strip()}")
    return result.stdout


MORE_MODELS = "make_networks.py writes three networks, others are exports of your own"


def models(folder, only):
    """The .onnx files of a folder, or those of them that are named."""
    paths = sorted(folder.glob("*.onnx"))
    missing = set(only or []) - {path.stem for path in paths}
    if missing:
        sys.exit(f"error: no {', '.join(sorted(missing))} in {folder}; {MORE_MODELS}")
    if not paths:
        sys.exit(f"error: no .onnx files in {folder}; {MORE_MODELS}")
    return [path for path in paths if not only or path.stem in only]


def duration(text):
    """Seconds of `90s`, `5m` or `1h`, as a type of argparse."""
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        seconds = float(text[:-1]) * units[text[-1:]]
    except (KeyError, ValueError):
        seconds = 0.0
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give for example 90s, 5m or 1h")
    return seconds
