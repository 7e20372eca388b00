"""The blocks of Python in the README and the book run, each by itself, in a folder with a small model."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import numpy
import pytest
from onnx import TensorProto, helper

from conftest import random, save

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs" / "src").rglob("*.md"))]:
        for found in re.finditer(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M):
            line = page.read_text()[: found.start()].count("\n") + 1
            yield pytest.param(found[1], id=f"{page.relative_to(ROOT)}:{line}")


def test_there_are_blocks():
    assert len(list(blocks())) >= 5


@pytest.mark.parametrize("text", list(blocks()))
def test_a_block_runs(text, tmp_path):
    if "import torch" in text and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in [("x", [4, 32]), ("y", [4, 16])]]
    save(nodes, *ports, {"w": random(32, 16), "b": random(16)}, tmp_path / "model.onnx")
    numpy.save(tmp_path / "x.npy", random(4, 32))
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
