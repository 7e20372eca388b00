"""Searches that are written in Python: strategies, cost models, sketch rules. Subclass these, or write anything alike."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from ._native import Candidate, SketchState, Space


class Strategy:
    """A search: asked for candidates, told what they measured. ``tune(..., strategy=MyStrategy)`` makes one a task.

    What the tuner asks for is measured and told; samples of earlier runs are told as well, before anything is asked for.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.seed = seed

    def ask(self, n: int) -> Iterable[Candidate]:
        """Up to ``n`` candidates of the space; none when there is nothing left to try. What was measured before is left out,
        and a strategy that proposes nothing else four times in a row is done."""
        raise NotImplementedError

    def tell(self, samples: Sequence[Tuple[Candidate, Optional[float]]]) -> None:
        """Candidates with their seconds; ``None`` for one that could not be built, run or verified."""


class CostModel:
    """Scores candidates by their features. ``tune(..., model=MyModel())`` lets evolution follow it.

    ``features`` is a matrix with one row for each store of a program; program ``p`` is rows ``offsets[p]`` to
    ``offsets[p + 1]``.
    """

    def fit(self, features: Any, offsets: Any, labels: Any) -> None:
        """Learns from all samples so far. A label is the task's best time divided by the program's, 0 for a failure."""
        raise NotImplementedError

    def predict(self, features: Any, offsets: Any) -> Sequence[float]:
        """One score for each program, larger for faster ones."""
        raise NotImplementedError


class SketchRule:
    """A way to schedule a stage. ``tune(..., rules=[MyRule()])`` tries it before talweg's own."""

    #: For reports.
    name = "python rule"

    def condition(self, state: SketchState, stage: str) -> Union[bool, str]:
        """Whether it applies: ``"skip"`` (or ``False``), ``"apply"`` (or ``True``; later rules apply too) or ``"only"``."""
        raise NotImplementedError

    def apply(self, state: SketchState, stage: str) -> Union[None, SketchState, List[SketchState]]:
        """The states after it, one for each structural choice; ``None`` when the given state was changed in place. Each must
        decide the stage, or change the schedule."""
        raise NotImplementedError
