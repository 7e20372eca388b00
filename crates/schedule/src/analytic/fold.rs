//! Which stages are inlined before anything else is planned.

use super::plan::Plan;
use crate::step::Step;

/// Inlines elementwise stages where computing the value again costs less than storing it: into elementwise readers
/// when it is cheap or read once, into reductions only when no element is read repeatedly.
pub(super) fn inline_stages(plan: &mut Plan) {
    for stage in plan.schedule.stage_names() {
        let id = plan.id(&stage);
        let readers = plan.readers(&stage);
        if plan.schedule.dag.tensor(id).output
            || plan.compute(&stage).reduction.is_some()
            || readers.is_empty()
        {
            continue;
        }
        let elements: i64 = plan.axes(&stage).iter().map(|(_, e)| *e).product();
        let reads: i64 = readers.iter().map(|r| plan.iterations(r)).sum();
        let reused = reads > elements + elements / 2;
        if reused && (plan.is_costly(&stage) || readers.iter().any(|r| plan.compute(r).reduction.is_some())) {
            continue;
        }
        plan.step(Step::Inline { stage });
    }
}
