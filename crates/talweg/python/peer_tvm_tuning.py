"""Schedules for a network in TVM, found by its own tuner MetaSchedule within a time limit."""

import logging
import os
import tempfile
import time

# What MetaSchedule measures in a second, about; it decides how many candidates of a task are measured at a time, so
# that every task gets its turns.
TRIALS_PER_SECOND = 1.5
TURNS_PER_TASK = 3
TRIALS_PER_TURN = (4, 64)


class TimeIsUp(Exception):
    """Ends a search."""


def schedule_within(seconds):
    """What `peer_runners.tvm_runner` takes as its `schedule`: tunes a network for so many seconds and applies the best
    that was found. Functions that no candidate was measured of stay as they are."""

    def schedule(network, target):
        import tvm
        import tvm.s_tir.tensor_intrin  # takes half a minute, which is no part of the search
        from tvm import relax
        from tvm.s_tir import meta_schedule

        end = time.monotonic() + seconds
        network = relax.transform.AttachAttrLayoutFreeBuffers()(network)
        with tempfile.TemporaryDirectory() as folder:
            database = meta_schedule.database.JSONDatabase(work_dir=folder)
            search(network, target, database, folder, seconds, end)
            with database:
                network = relax.transform.MetaScheduleApplyDatabase()(network)
        # Weights are packed now instead of in every run.
        pack = [relax.transform.SplitLayoutRewritePreproc(), relax.transform.FoldConstant()]
        return tvm.transform.Sequential(pack)(network)

    return schedule


def search(network, target, database, folder, seconds, end):
    """Fills the database until the time is up."""
    from tvm.s_tir import meta_schedule
    from tvm.s_tir.meta_schedule import relax_integration

    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
    tasks = relax_integration.extract_tasks(network, target)
    contexts, weights = relax_integration.extracted_tasks_to_tune_contexts(tasks, folder, seed=1)
    if not contexts:
        return
    trials = int(TRIALS_PER_SECOND * seconds)
    least, most = TRIALS_PER_TURN
    per_turn = min(max(trials // (TURNS_PER_TASK * len(contexts)), least), most)
    try:
        meta_schedule.tune.tune_tasks(
            tasks=contexts, task_weights=weights, work_dir=folder, database=database, num_trials_per_iter=per_turn,
            max_trials_global=1 << 20, builder=builder(),
            measure_callbacks=[*meta_schedule.MeasureCallback.create("default"), deadline(end)],
        )
    except TimeIsUp:
        pass


def builder():
    """MetaSchedule's builder, but for the import of all tensor intrinsics in every process: it takes longer than most
    builds, and nothing in f32 uses them."""
    from tvm.s_tir.meta_schedule.builder import LocalBuilder

    # Defined here, it is sent to the processes as it is; they cannot import this file.
    def build(module, target, _):
        import tvm
        from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

        return tvm.compile(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=target)

    return LocalBuilder(max_workers=os.cpu_count(), f_build=build)


def deadline(end):
    """Ends a search after the first measurements that are complete at this time."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback

    @derived_object
    class Deadline(PyMeasureCallback):
        def apply(self, *_):
            if time.monotonic() > end:
                raise TimeIsUp

    return Deadline()
