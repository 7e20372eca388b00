"""The virtual environment `.venv-onnx`: what writes ONNX models, and ONNX Runtime to compare with."""

import os
import subprocess
import sys
from pathlib import Path

VENV = Path(__file__).resolve().parent.parent / ".venv-onnx"
PACKAGES = ["numpy", "onnx", "onnxruntime"]
PYTHON = VENV / "bin" / "python"


class Unavailable(Exception):
    """The environment cannot be created: there is no network, or no python3-venv."""


def enter():
    """Restarts this script with the environment's Python, creating it on first use."""
    if Path(sys.prefix) == VENV:
        return
    create()
    sys.stdout.flush()
    os.execv(str(PYTHON), [str(PYTHON), *sys.argv])


def create():
    """Creates the environment unless it is complete; raises `Unavailable` when that is impossible."""
    marker = VENV / "complete"
    if marker.exists():
        return
    print(f"installing {', '.join(PACKAGES)} into {VENV.name} (about 200 MB, once)", file=sys.stderr)
    run([sys.executable, "-m", "venv", str(VENV)], "install the package python3-venv")
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    run([*pip, *PACKAGES], "PyPI must be reachable")
    run([str(PYTHON), "-c", "import " + ", ".join(PACKAGES)], f"remove {VENV.name} and try again")
    marker.touch()


def run(command, remedy):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise Unavailable(f"{error}; {remedy}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"{said[-1] if said else 'no message'}; {remedy}")
