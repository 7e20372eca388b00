"""``torch.compile(model, backend="talweg")``: graphs that TorchDynamo captures, run by talweg.

Each graph is exported to ONNX with its weights as constants and compiled, once for each set of input shapes. Whatever talweg
cannot do runs as PyTorch would run it, with a warning that says why. For inference only: where gradients are wanted, PyTorch
runs the graph.

Options: ``torch.compile(model, backend="talweg", options={"threads": 2, "db": "talweg.db", "budget": "30s"})``. With a budget
each graph is tuned for so long when it is compiled; without, winners of the database and default schedules are used.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ._native import Error
from .models import DEFAULT_DB, Model, load
from .tuning import tune

_TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
)


class FallbackWarning(UserWarning):
    """A graph runs as PyTorch would run it; the text says why."""


class _Unsupported(Exception):
    """Why a graph is not talweg's."""


class _Frozen(torch.nn.Module):
    """A graph with some of its inputs fixed: what the exporter sees."""

    def __init__(self, graph: Callable[..., Any], values: Sequence[Any], given: Sequence[int]) -> None:
        super().__init__()
        self.graph = graph
        self.given = given
        self.values = [None if isinstance(value, torch.Tensor) else value for value in values]
        for at, value in enumerate(values):
            if isinstance(value, torch.Tensor) and at not in given:
                self.register_buffer(f"weight_{at}", value.detach())

    def forward(self, *given: torch.Tensor) -> Any:
        values = [getattr(self, f"weight_{at}", value) for at, value in enumerate(self.values)]
        for at, value in zip(self.given, given):
            values[at] = value
        return self.graph(*values)


def _is_weight(value: Any, node: Any) -> bool:
    """Whether a placeholder of the graph is a parameter or a buffer of the model."""
    if isinstance(value, torch.nn.Parameter):
        return True
    if not isinstance(value, torch.Tensor):
        return False
    if getattr(value, "_dynamo_static_input_type", None) is not None:
        return True
    return "_buffers_" in str(node.target) or "_parameters_" in str(node.target)


def _check(value: Any, name: str) -> None:
    if isinstance(value, (int, float, bool)):
        return
    if not isinstance(value, torch.Tensor):
        raise _Unsupported(f"input `{name}` is a {type(value).__name__}, not a tensor or a number")
    if value.device.type != "cpu":
        raise _Unsupported(f"input `{name}` is on {value.device}; talweg runs on the CPU")
    if value.layout != torch.strided or value.dtype not in _TYPES:
        raise _Unsupported(f"input `{name}` is {value.dtype} with layout {value.layout}")
    if not all(isinstance(extent, int) for extent in value.shape):
        raise _Unsupported(f"input `{name}` has an open shape {tuple(value.shape)}")


def _version(value: Any) -> int:
    """How often a tensor was written to, as far as PyTorch counts that."""
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _agrees(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return bool(torch.equal(found, wanted))
    finite = wanted[wanted.isfinite()].double()
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    share = 2e-2 if wanted.dtype == torch.float16 else 1e-3
    return bool(torch.allclose(found.double(), wanted.double(), rtol=0.0, atol=share * scale, equal_nan=True))


class _Compiled:
    """One graph: compiled models by the shapes of their inputs, and the graph itself to fall back on."""

    def __init__(self, graph: Any, examples: Sequence[Any], options: Dict[str, Any]) -> None:
        self.graph = graph
        self.options = options
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.names = [str(node.target) for node in nodes]
        self.weights = [at for at, value in enumerate(examples) if _is_weight(value, nodes[at])]
        fixed = set(self.weights)
        tensors = [at for at, value in enumerate(examples) if isinstance(value, torch.Tensor)]
        self.given = [at for at in tensors if at not in fixed]
        # Sizes of open shapes, and other numbers: constants of the compiled model.
        self.numbers = [at for at in range(len(examples)) if at not in tensors]
        self.models: Dict[Any, Optional[Tuple[Any, ...]]] = {}
        self.said: set = set()

    def __call__(self, *values: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values):
            self.fall_back("gradients are wanted, and talweg is for inference; call the model under torch.no_grad()")
            return self.graph(*values)
        given = [values[at] for at in self.given]
        numbers = tuple(values[at] for at in self.numbers)
        key = (tuple((tuple(v.shape), v.dtype) for v in given), numbers)
        # Weights are constants of the compiled model: others, or changed ones, are another model.
        versions = tuple((values[at].data_ptr(), _version(values[at])) for at in self.weights)
        found = self.models.get(key)
        if key not in self.models or (found is not None and found[0] != versions):
            found = self.models[key] = self.compile(values, given, versions)
        if found is None:
            return self.graph(*values)
        _, run = found
        try:
            return run(given)
        except Error as error:
            self.models[key] = None
            self.fall_back(str(error))
            return self.graph(*values)

    def fall_back(self, why: str) -> None:
        if why not in self.said:
            self.said.add(why)
            warnings.warn(f"talweg leaves a graph to PyTorch: {why}", FallbackWarning, stacklevel=4)

    def compile(self, values: Sequence[Any], given: List[Any], versions: Any) -> Optional[Tuple[Any, ...]]:
        try:
            for at, value in enumerate(values):
                _check(value, self.names[at])
            with torch.no_grad(), tempfile.TemporaryDirectory(prefix="talweg-") as folder:
                return self.build(values, given, versions, os.path.join(folder, "graph.onnx"))
        except (_Unsupported, Error) as error:
            self.fall_back(str(error))
        except Exception as error:  # The exporter raises whatever its parts raise.
            self.fall_back(f"it cannot be exported: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
        return None

    def build(self, values: Sequence[Any], given: List[Any], versions: Any, path: str) -> Tuple[Any, ...]:
        flat = self.try_out(values)
        template, count = [], 0
        for output in flat:
            if output is not None and not isinstance(output, torch.Tensor):
                raise _Unsupported(f"an output is a {type(output).__name__}, not a tensor")
            if output is not None and output.dtype not in _TYPES:
                raise _Unsupported(f"an output is {output.dtype}")
            template.append(("none", 0) if output is None else ("output", count))
            count += output is not None
        if count == 0:
            raise _Unsupported("the graph has no output")
        names = [f"input_{at}" for at in range(len(given))]
        frozen = _Frozen(self.graph, values, self.given).eval()
        # The exporter of torch.export needs another package; this one writes whatever eager mode computes.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                frozen,
                tuple(given),
                path,
                input_names=names,
                output_names=[f"output_{at}" for at in range(count)],
                opset_version=17,
                dynamo=False,
            )
        model = self.load(path)
        # Inputs that nothing depends on are gone.
        kept = {port.name for port in model.inputs}
        inputs = [name if name in kept else None for name in names]
        native = model._native.run_list

        def run(given: List[Any]) -> Tuple[Any, ...]:
            feed = {name: value.detach().numpy() for name, value in zip(inputs, given) if name is not None}
            outputs = [torch.from_numpy(array) for array in native(None, feed)]
            return tuple(outputs[at] if kind == "output" else None for kind, at in template)

        for found, wanted in zip(run(given), flat):
            if wanted is not None and not _agrees(found, wanted):
                raise _Unsupported("talweg computes something else than PyTorch does, which random numbers explain or a defect")
        return versions, run

    def try_out(self, values: Sequence[Any]) -> Sequence[Any]:
        """What PyTorch computes on copies of the inputs; a graph that writes to them is PyTorch's."""
        with torch.inference_mode(False):
            copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
            before = [_version(copy) for copy in copies]
            outputs = self.graph(*copies)
            for name, copy, version in zip(self.names, copies, before):
                if _version(copy) != version:
                    raise _Unsupported(f"it writes to its input `{name}`")
        return outputs if isinstance(outputs, (tuple, list)) else (outputs,)

    def load(self, path: str) -> Model:
        threads, db = self.options.get("threads"), self.options.get("db", DEFAULT_DB)
        budget = self.options.get("budget")
        if budget is None:
            return load(path, threads=threads, db=db)
        output = os.path.join(os.path.dirname(path), "graph.talweg")
        return tune(path, budget=budget, threads=threads, db=db, output=output).load(threads)


def talweg(graph: Any, examples: Sequence[Any], *, options: Optional[Dict[str, Any]] = None, **_: Any) -> Callable[..., Any]:
    """The backend that TorchDynamo calls with each graph."""
    return _Compiled(graph, examples, dict(options or {}))
