"""Models: loaded, run, compiled."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _native

Path = Union[str, "os.PathLike[str]"]

#: Where tuning stores what it measured, unless told otherwise: in the current directory.
DEFAULT_DB = "talweg.db"


@dataclass(frozen=True)
class Port:
    """An input or an output of a model."""

    name: str
    shape: Tuple[int, ...]
    #: NumPy's name of the element type, ``float32`` for example.
    dtype: str


class Model:
    """A compiled model with memory and threads of its own. Made by :func:`load`.

    Runs release the interpreter's lock. Several threads may use one model: their runs take turns.
    """

    def __init__(self, native: _native.Model) -> None:
        self._native = native

    def run(self, feed: Mapping[str, Any]) -> Dict[str, Any]:
        """Runs on arrays by name and gives the outputs by name.

        Contiguous arrays are read where they lie; others are copied once. Kernels write into the arrays that are returned.
        """
        return self._native.run(feed)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._native.name

    @property
    def threads(self) -> int:
        """How many threads it runs with."""
        return self._native.threads

    @property
    def inputs(self) -> List[Port]:
        """What it is given."""
        return [Port(name, tuple(shape), dtype) for name, shape, dtype, _ in self._native.inputs]

    @property
    def outputs(self) -> List[Port]:
        """What it gives."""
        return [Port(name, tuple(shape), dtype) for name, shape, dtype, _ in self._native.output_ports]

    @property
    def kernels(self) -> List[Tuple[str, float, str]]:
        """Its kernels: what they compute, their arithmetic, and whether they are ``tuned`` or ``default``."""
        return self._native.kernels

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory: weights, arena and workspace."""
        return self._native.memory_bytes

    def time_runs(self, runs: int = 100) -> List[float]:
        """Seconds of each of so many runs, as a C program would see them: without Python in between."""
        return self._native.time_runs(runs)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, threads={self.threads})"


@dataclass(frozen=True)
class Compiled:
    """What :func:`compile` wrote."""

    model: str
    #: The artefact's file.
    artefact: str
    #: How many different kernels it has, and how many of them are tuned.
    tasks: int
    tuned: int
    steps: int
    weights_bytes: int
    arena_bytes: int
    threads: int

    def load(self, threads: Optional[int] = None) -> Model:
        """Loads the artefact."""
        return load(self.artefact, threads=threads or self.threads)


def bindings(
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    fixed: Optional[Mapping[str, Any]] = None,
    max_error: Optional[float] = None,
) -> Dict[str, Any]:
    """How open dimensions are bound, as the native module wants it."""
    contents = {}
    for name, value in (fixed or {}).items():
        import numpy

        file = io.BytesIO()
        numpy.save(file, numpy.asarray(value), allow_pickle=False)
        contents[name] = file.getvalue()
    return {
        "dims": {name: int(size) for name, size in (dims or {}).items()},
        "shapes": {name: [int(extent) for extent in shape] for name, shape in (shapes or {}).items()},
        "fixed": contents,
        "max_error": max_error,
    }


def load(
    path: Path,
    *,
    threads: Optional[int] = None,
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    fixed: Optional[Mapping[str, Any]] = None,
    db: Path = DEFAULT_DB,
    max_error: Optional[float] = None,
) -> Model:
    """Loads an artefact, or compiles an ONNX file in memory.

    ``threads`` are all cores unless given. The other arguments are for ONNX files: ``dims`` and ``shapes`` bind open
    dimensions, ``fixed`` gives values to inputs that determine shapes, ``db`` is the tuning database whose winners are used.
    """
    bound = bindings(dims, shapes, fixed, max_error)
    return Model(_native.load(os.fspath(path), bound, threads, os.fspath(db)))


def compile(
    model: Path,
    output: Optional[Path] = None,
    *,
    threads: Optional[int] = None,
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    fixed: Optional[Mapping[str, Any]] = None,
    db: Path = DEFAULT_DB,
    target: str = "host",
    max_error: Optional[float] = None,
) -> Compiled:
    """Compiles an ONNX file into an artefact: tuned kernels where the database has them, analytic defaults elsewhere.

    Without ``output`` the artefact is ``MODEL.talweg`` in the current folder.
    """
    model = os.fspath(model)
    if output is None:
        output = os.path.splitext(os.path.basename(model))[0] + ".talweg"
    bound = bindings(dims, shapes, fixed, max_error)
    text = _native.compile(model, os.fspath(output), bound, threads, os.fspath(db), target)
    report = json.loads(text)
    report["artefact"] = report.pop("output")
    return Compiled(**report)
