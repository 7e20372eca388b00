"""Schedules for a network in TVM, found by its own tuner MetaSchedule within a time limit."""

import logging
import os
import tempfile
import time

# Candidates that are measured of a task before it is another's turn.
TRIALS_PER_TURN = 8
# Of its evolution. With its default of 512 a turn takes minutes before anything is measured.
POPULATION = 64


def schedule_within(seconds):
    """What `peer_runners.tvm_runner` takes as its `schedule`: tunes a network for so many seconds and applies the best
    that was found. Functions that no candidate was measured of stay as they are."""

    def schedule(network, target):
        import tvm
        import tvm.s_tir.tensor_intrin  # takes half a minute, which is no part of the search
        from tvm import relax
        from tvm.s_tir import meta_schedule

        # With packed weights, transposed convolutions compute something else.
        packs = not any("conv2d_transpose" in name.name_hint for name in network.get_global_vars())
        if packs:
            network = relax.transform.AttachAttrLayoutFreeBuffers()(network)
        with tempfile.TemporaryDirectory() as folder:
            database = meta_schedule.database.JSONDatabase(work_dir=folder)
            search(network, target, database, folder, seconds)
            with database:
                network = relax.transform.MetaScheduleApplyDatabase()(network)
        if not packs:
            return network
        # Weights are packed now instead of in every run.
        pack = [relax.transform.SplitLayoutRewritePreproc(), relax.transform.FoldConstant()]
        return tvm.transform.Sequential(pack)(network)

    return schedule


def search(network, target, database, folder, seconds):
    """Fills the database until the time is up. All tasks have a turn with random candidates, since an evolution takes
    long before anything is measured; then it is the turn of the task whose share of the latency is largest for the turns
    it had. MetaSchedule's own order of tasks knows only limits of trials."""
    from tvm.s_tir import meta_schedule
    from tvm.s_tir.meta_schedule import relax_integration

    end = time.monotonic() + seconds
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
    tasks = relax_integration.extract_tasks(network, target)

    def contexts_with(strategy):
        return relax_integration.extracted_tasks_to_tune_contexts(tasks, folder, strategy=strategy, seed=1)

    evolution = {"population_size": POPULATION, "init_min_unmeasured": POPULATION // 4}
    evolving, weights = contexts_with(meta_schedule.search_strategy.EvolutionarySearch(**evolution))
    random, _ = contexts_with("replay-trace")
    shared = {
        "builder": builder(),
        "runner": meta_schedule.runner.LocalRunner(),
        "cost_model": meta_schedule.cost_model.XGBModel(),
        "task_scheduler": "round-robin",
        "work_dir": folder,
        "database": database,
    }
    turns = [0] * len(weights)

    def worth(at):
        best = database.query_tuning_record(evolving[at].mod, target, "main")
        measured = best is not None and best.run_secs
        return weights[at] * float(best.run_secs[0]) / turns[at] if measured else 0

    while time.monotonic() < end and turns:
        at = turns.index(0) if 0 in turns else max(range(len(turns)), key=worth)
        context = evolving[at] if turns[at] else random[at]
        turns[at] += 1
        meta_schedule.tune.tune_tasks(
            tasks=[context.clone()], task_weights=[1.0], max_trials_global=TRIALS_PER_TURN,
            num_trials_per_iter=TRIALS_PER_TURN, **shared,
        )


def builder():
    """MetaSchedule's builder, but for the import of all tensor intrinsics in every process: it takes longer than most
    builds, and nothing in f32 uses them."""
    from tvm.s_tir.meta_schedule.builder import LocalBuilder

    # Defined here, it is sent to the processes as it is; they cannot import this file.
    def build(module, target, _):
        import tvm
        from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

        return tvm.compile(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=target).mod

    return LocalBuilder(max_workers=os.cpu_count(), f_build=build)
