"""The command line that the package brings along."""

import json
import shutil
import subprocess
import sys

import talweg


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "talweg", *arguments], capture_output=True, text=True)


def test_it_is_the_command_line():
    assert run("--version").stdout == f"talweg {talweg.__version__}\n"
    wrong = run("op", "matmull:m=1")
    assert wrong.returncode == 2 and wrong.stderr.startswith("error:") and "matmull" in wrong.stderr
    assert run("nonsense").returncode == 2
    assert shutil.which("talweg", path=sys.prefix + "/bin") is not None


def test_it_measures_in_worker_processes():
    measured = run("op", "matmul:m=16,n=16,k=16", "--json")
    assert measured.returncode == 0, measured.stderr
    assert json.loads(measured.stdout)["median_us"] > 0
