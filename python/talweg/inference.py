"""A stand-in for ONNX Runtime's ``InferenceSession``: existing code changes one import.

>>> import talweg as ort
>>> session = ort.InferenceSession("model.onnx")
>>> session.run(None, {"x": array})
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, List, Mapping, Optional, Sequence, Union

from . import _native
from .models import DEFAULT_DB, Model, bindings

_TYPES = {
    "f32": "tensor(float)",
    "f64": "tensor(double)",
    "f16": "tensor(float16)",
    "bf16": "tensor(bfloat16)",
    "i8": "tensor(int8)",
    "i16": "tensor(int16)",
    "i32": "tensor(int32)",
    "i64": "tensor(int64)",
    "u8": "tensor(uint8)",
    "u16": "tensor(uint16)",
    "u32": "tensor(uint32)",
    "u64": "tensor(uint64)",
    "bool": "tensor(bool)",
}


class SessionOptions:
    """Options of a session. Only ``intra_op_num_threads`` (0: all cores) means something to talweg; the others of ONNX
    Runtime can be set and are ignored, for talweg always optimises and runs one operator after the other."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0


class NodeArg:
    """An input or an output: its name, its shape and its type in ONNX's words."""

    def __init__(self, name: str, shape: List[int], type: str) -> None:
        self.name = name
        self.shape = shape
        self.type = type

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class InferenceSession:
    """Runs a model: the path of an ONNX file or of an artefact, or the bytes of an ONNX file.

    ``dims`` and ``shapes`` bind open dimensions, which ONNX Runtime leaves open and talweg compiles for; ``db`` is the
    tuning database whose winners are used. Providers are accepted and ignored.
    """

    def __init__(
        self,
        path_or_bytes: Union[str, bytes, "os.PathLike[str]"],
        sess_options: Optional[Any] = None,
        providers: Optional[Sequence[Any]] = None,
        provider_options: Optional[Sequence[Any]] = None,
        *,
        dims: Optional[Mapping[str, int]] = None,
        shapes: Optional[Mapping[str, Sequence[int]]] = None,
        fixed: Optional[Mapping[str, Any]] = None,
        db: Union[str, "os.PathLike[str]"] = DEFAULT_DB,
    ) -> None:
        threads = getattr(sess_options, "intra_op_num_threads", 0) or None
        bound = bindings(dims, shapes, fixed)
        if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            with tempfile.TemporaryDirectory(prefix="talweg-") as folder:
                is_artefact = bytes(path_or_bytes[:6]) == b"talweg"
                path = os.path.join(folder, "model.talweg" if is_artefact else "model.onnx")
                with open(path, "wb") as file:
                    file.write(path_or_bytes)
                self._native = _native.load(path, bound, threads, os.fspath(db))
        else:
            self._native = _native.load(os.fspath(path_or_bytes), bound, threads, os.fspath(db))
        self._run = self._native.run_list

    @property
    def model(self) -> Model:
        """The model behind the session."""
        return Model(self._native)

    def run(
        self,
        output_names: Optional[Sequence[str]],
        input_feed: Mapping[str, Any],
        run_options: Optional[Any] = None,
    ) -> List[Any]:
        """Runs and gives the named outputs as a list, all of them without names."""
        return self._run(output_names, input_feed)

    def get_inputs(self) -> List[NodeArg]:
        """What the model is given."""
        return [NodeArg(name, list(shape), _TYPES[kind]) for name, shape, _, kind in self._native.inputs]

    def get_outputs(self) -> List[NodeArg]:
        """What the model gives."""
        return [NodeArg(name, list(shape), _TYPES[kind]) for name, shape, _, kind in self._native.output_ports]

    def get_providers(self) -> List[str]:
        """Where it runs."""
        return ["TalwegExecutionProvider"]
