"""talweg: an auto-scheduling tensor compiler.

>>> import talweg
>>> result = talweg.tune("model.onnx", budget="2m", progress=True)
>>> model = talweg.load(result.artefact)
>>> outputs = model.run({"x": array})

``talweg.InferenceSession`` stands in for ONNX Runtime's, ``torch.compile(model, backend="talweg")`` for PyTorch's compilers.
"""

from . import _processes
from ._native import Candidate, Error, InputError, Operator, Sketch, SketchState, Space, WorkError, __version__
from .inference import InferenceSession, NodeArg, SessionOptions
from .models import Compiled, Model, Port, compile, load
from .search import CostModel, SketchRule, Strategy
from .tuning import NetworkResult, TaskResult, TuneResult, tune

_processes.prepare()

__all__ = [
    "Candidate",
    "Compiled",
    "CostModel",
    "Error",
    "InferenceSession",
    "InputError",
    "Model",
    "NetworkResult",
    "NodeArg",
    "Operator",
    "Port",
    "SessionOptions",
    "Sketch",
    "SketchRule",
    "SketchState",
    "Space",
    "Strategy",
    "TaskResult",
    "TuneResult",
    "WorkError",
    "__version__",
    "compile",
    "load",
    "tune",
]
