"""Tuning: the search for the fastest program of operators and whole models on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _native
from .models import DEFAULT_DB, Model, Path, bindings, load


@dataclass(frozen=True)
class TaskResult:
    """What came of one task."""

    name: str
    #: How often it runs in what is tuned.
    weight: float
    #: Seconds of the winner and of the default schedule, in alternating runs.
    best_seconds: float
    default_seconds: float
    gflops: float
    #: The winner's largest relative error against the reference interpreter.
    max_rel_error: float
    #: The winner's steps.
    schedule: str
    default_won: bool
    trials: int
    resumed: int
    #: Seconds since the start, and the best so far in seconds, at every improvement.
    curve: List[Tuple[float, float]]
    curve_trials: List[int]
    failures: Dict[str, int]


@dataclass(frozen=True)
class NetworkResult:
    """What came of one model."""

    model: str
    #: The artefact's file, and the lock beside it.
    artefact: str
    lock: str
    default_won: bool
    #: Seconds of a run, in turns with the artefact of the default schedules; ``None`` after an interrupt.
    seconds: Optional[float] = None
    default_seconds: Optional[float] = None
    details: Dict[str, Any] = field(default_factory=dict, repr=False)

    def load(self, threads: Optional[int] = None) -> Model:
        """Loads the artefact."""
        return load(self.artefact, threads=threads)


@dataclass(frozen=True)
class TuneResult:
    """What came of tuning."""

    tasks: List[TaskResult]
    networks: List[NetworkResult]
    trials: int
    seconds: float
    #: Why it ended: ``budget``, ``trials``, ``forecast``, ``interrupted`` and so on.
    stopped_by: str
    strategy: str
    threads: int
    db: str

    @property
    def artefact(self) -> str:
        """The artefact of the model, if one model was tuned."""
        if len(self.networks) != 1:
            raise _native.InputError(f"{len(self.networks)} models were tuned; look at `networks`")
        return self.networks[0].artefact

    @property
    def best_seconds(self) -> float:
        """All tasks together, each as often as it runs."""
        return sum(task.weight * task.best_seconds for task in self.tasks)

    @property
    def default_seconds(self) -> float:
        """The same by the default schedules."""
        return sum(task.weight * task.default_seconds for task in self.tasks)

    @property
    def curve(self) -> List[Tuple[float, float]]:
        """Seconds since the start, and the best of all tasks together so far, from when all have been measured."""
        points = sorted((at, best, which) for which, task in enumerate(self.tasks) for at, best in task.curve)
        best: Dict[int, float] = {}
        out = []
        for at, seconds, which in points:
            best[which] = min(seconds, best.get(which, seconds))
            if len(best) == len(self.tasks):
                out.append((at, sum(self.tasks[one].weight * value for one, value in best.items())))
        return out

    def load(self, threads: Optional[int] = None) -> Model:
        """Loads the artefact of the model, to run with as many threads as it was tuned for."""
        return load(self.artefact, threads=threads or self.threads)

    @classmethod
    def _of(cls, text: str) -> "TuneResult":
        report = json.loads(text)
        tasks = []
        for task in report["tasks"]:
            task["curve"] = [tuple(point) for point in task["curve"]]
            tasks.append(TaskResult(**task))
        networks = []
        for network in report["networks"]:
            milliseconds = [network.get("tuned_ms"), network.get("default_ms")]
            seconds = [None if ms is None else ms * 1e-3 for ms in milliseconds]
            networks.append(
                NetworkResult(
                    network["model"], network["output"], network["lock"], network["default_won"], *seconds, network
                )
            )
        return cls(**{**report, "tasks": tasks, "networks": networks})


def _seconds(budget: Union[None, str, int, float]) -> Optional[str]:
    return budget if budget is None or isinstance(budget, str) else f"{float(budget)}s"


def tune(
    *subjects: Union[Path, _native.Operator],
    budget: Union[None, str, float] = None,
    trials: Optional[int] = None,
    output: Union[None, Path, Sequence[Path]] = None,
    strategy: Any = None,
    model: Any = None,
    rules: Sequence[Any] = (),
    template: Optional[Callable[[_native.SketchState], Any]] = None,
    progress: Union[bool, Callable[[Dict[str, Any]], None]] = False,
    threads: Optional[int] = None,
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    fixed: Optional[Mapping[str, Any]] = None,
    max_error: Optional[float] = None,
    db: Path = DEFAULT_DB,
    fresh: bool = False,
    seed: int = 0,
    batch: int = 32,
    least_gain: float = 0.5,
    good_enough: Optional[float] = None,
    objective: str = "sum",
    alone: bool = False,
    simulated: bool = False,
) -> TuneResult:
    """Searches for faster kernels: for models (ONNX files), operators (SPECs such as ``matmul:m=64,n=64,k=64``, or
    :class:`Operator`), or several of them together.

    ``budget`` is a time (``"90s"``, ``"5m"``, or seconds), ``trials`` a number of candidates; without either a minute is
    used. Artefacts of models go to ``output`` (``MODEL.talweg`` in the current folder unless given), with a lock beside
    each. ``progress`` prints to standard error, or is called with a dictionary for each event.

    ``strategy`` is a name (``ansor``, ``autotvm``, ``felix``, ``evolutionary``, ``annealing``, ``genetic``, ``random``,
    ``grid``) or a function of a space and a seed that makes something like :class:`Strategy`: felix unless given, and ansor
    with a model of one's own, which has no slope for felix to follow. ``model`` is a name or something like :class:`CostModel`; ``rules`` are tried before talweg's own, and a ``template`` stands in for all of them. The other
    arguments are those of ``talweg tune``.

    Ctrl-C ends the search within a batch, writes the artefact of the best so far, and raises ``KeyboardInterrupt`` with the
    result as its attribute ``result``. An exception in ``progress`` does the same.
    """
    if not subjects:
        raise _native.InputError("there is nothing to tune; give a model or an operator")
    outputs: Sequence[Path] = []
    if output is not None:
        outputs = [output] if isinstance(output, (str, os.PathLike)) else output
    own_model = None if model is None or isinstance(model, str) else model
    if strategy is None:
        strategy = "felix" if own_model is None else "ansor"
    own_strategy = None if isinstance(strategy, str) else strategy
    parts = None
    if own_strategy is not None or own_model is not None or rules or template is not None:
        own = own_strategy or own_model
        name = getattr(own, "__name__", type(own).__name__) if own is not None else str(strategy)
        parts = {
            "name": name,
            "strategy": own_strategy,
            "model": own_model,
            "rules": list(rules),
            "template": template,
        }
    settings = {
        "budget": _seconds(budget),
        "trials": trials,
        "strategy": strategy if own_strategy is None else "random",
        "model": model if own_model is None else None,
        "threads": threads,
        "seed": seed,
        "db": os.fspath(db),
        "fresh": fresh,
        "batch": batch,
        "least_gain": least_gain,
        "good_enough": good_enough,
        "objective": objective,
        "simulated": simulated,
        "alone": alone,
        "outputs": [os.fspath(path) for path in outputs],
        "progress": progress is True,
    }
    listener = progress if callable(progress) else None
    given = [one if isinstance(one, _native.Operator) else os.fspath(one) for one in subjects]
    bound = bindings(dims, shapes, fixed, max_error)
    text, error = _native.tune(given, settings, bound, listener, parts)
    result = TuneResult._of(text)
    if error is not None:  # an interrupt, or one network of several that failed after the search
        error.result = result
        raise error
    return result
