"""Operators, spaces, rules and templates."""

import numpy
import pytest

import talweg

DENSE = """
dag dense {
  input A: f32[24, 40]
  const B: f32[40, 32]
  output C: f32[i=24, j=32] = sum[k=40] A[i, k] * B[k, j]
}
"""


def test_operators_have_text_schedules_and_loops():
    operator = talweg.Operator("matmul:m=24,n=32,k=40")
    assert operator.flops == 2 * 24 * 32 * 40
    same = talweg.Operator(operator.te)
    assert same.te == operator.te and same.flops > 0
    schedule = operator.default_schedule()
    assert operator.loops(schedule) == operator.loops()
    with pytest.raises(talweg.InputError, match="schedule"):
        operator.loops("split NOTHING i [4]")
    with pytest.raises(talweg.InputError, match="matmull"):
        talweg.Operator("matmull:m=1")
    with pytest.raises(talweg.InputError):
        talweg.Operator("dag broken { output C: f32[i=4] = A[i] }")


def test_spaces_hold_what_they_draw():
    space = talweg.Operator(DENSE).space()
    assert len(space) == len(space.sketches) > 0 and space.size > 100
    drawn = space.sample(20, seed=3)
    assert drawn == space.sample(20, seed=3) and len(set(drawn)) > 1
    for candidate in drawn:
        assert candidate in space
        assert talweg.Candidate.parse(str(candidate)) == candidate
        assert space.mutate(candidate, seed=1) in space
        assert space.schedule(candidate) and "nest" in space.loops(candidate)
    features, offsets = space.features(drawn)
    assert features.dtype == numpy.float32 and features.shape[0] == offsets[-1] and len(offsets) == 21
    assert numpy.isfinite(features).all()
    knobs = space.sketches[drawn[0].sketch].knobs
    assert all(value in domain for value, (_, domain) in zip(drawn[0].values, knobs))
    with pytest.raises(talweg.InputError, match="no sketch 99"):
        space.check(talweg.Candidate(99, []))


def rows_and_columns(state):
    """A template: rows in parallel, columns as vectors."""
    for stage in state.stages:
        (row, _), (column, _) = state.axes(stage)
        rows = state.open(stage, "rows", [1, 2, 3, 4, 6, 8])
        columns = state.open(stage, "columns", [state.lanes(stage), 2 * state.lanes(stage)])
        state.step(f"split {stage} {row} [{rows}]")
        state.step(f"split {stage} {column} [{columns}]")
        reduction = " ".join(axis for axis, _ in state.reduce_axes(stage))
        state.step(f"reorder {stage} {row}.0 {column}.0 {row}.1 {reduction} {column}.1")
        state.step(f"vectorize {stage} {column}.1")
        state.step(f"parallel {stage} {row}.0")
        state.limit("size of a tile", f"{rows} * {columns}", "96")
        state.decide(stage)


def test_a_template_in_python_is_a_space_and_is_tuned():
    operator = talweg.Operator(DENSE)
    space = operator.space(template=rows_and_columns)
    assert [name for name, _ in space.sketches[0].knobs] == ["$rows", "$columns"]
    assert "split C i [$rows]" in space.sketches[0].schedule
    result = talweg.tune(operator, trials=6, batch=6, template=rows_and_columns)
    assert result.trials == 6 and result.tasks[0].failures == {} and result.tasks[0].max_rel_error < 1e-4


class Plainly(talweg.SketchRule):
    """Reductions as they are, with vectors."""

    name = "Plainly"

    def condition(self, state, stage):
        return "apply" if state.is_reduction(stage) else "skip"

    def apply(self, state, stage):
        column = state.axes(stage)[-1][0]
        width = state.open(stage, "width", [8, 16])
        state.step(f"split {stage} {column} [{width}]\nvectorize {stage} {column}.1")
        state.choose("plainly")
        state.decide(stage)


def test_a_rule_in_python_adds_sketches():
    operator = talweg.Operator(DENSE)
    own, usual = operator.space(rules=[Plainly()]), operator.space()
    names = [sketch.name for sketch in own.sketches]
    assert any("plainly" in name for name in names) and len(own) > len(usual)
    result = talweg.tune(operator, trials=8, batch=8, rules=[Plainly()], strategy="random", simulated=True)
    assert result.trials == 8


def test_exceptions_of_rules_and_templates_are_raised():
    operator = talweg.Operator(DENSE)

    def broken(state):
        state.step("split C nowhere [4]")

    with pytest.raises(talweg.InputError, match="nowhere"):
        operator.space(template=broken)
    with pytest.raises(talweg.InputError, match="nowhere"):
        talweg.tune(operator, trials=4, template=broken, simulated=True)

    class Odd(Plainly):
        def condition(self, state, stage):
            return "perhaps"

    with pytest.raises(talweg.InputError, match="perhaps"):
        operator.space(rules=[Odd()])
