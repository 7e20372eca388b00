//! What the threads of a schedule share: rows or columns, say. Two schedules that take as long alone may differ in a network,
//! where each thread finds in its caches what it wrote before.

use talweg_ir::Dag;
use talweg_schedule::{Step, Trace};

/// For each stage with a parallel loop, the outermost axis of which more than one part is shared: `Y.i` where threads share
/// rows.
///
/// ```text
/// split Y i [32];  split Y j [24, 48];  fuse Y i.0 j.0;  parallel Y i.0_j.0      Y.i for 64 rows, Y.j for 32
/// ```
pub fn shared_axes(trace: &Trace, dag: &Dag) -> String {
    let mut out = Vec::new();
    for step in &trace.steps {
        let Step::Parallel { stage, axis } = step else { continue };
        let fused = trace.steps.iter().find_map(|step| match step {
            Step::Fuse { stage: of, loops } if of == stage && loops.join("_") == *axis => Some(loops.clone()),
            _ => None,
        });
        let loops = fused.unwrap_or_else(|| vec![axis.clone()]);
        if let Some(axis) = loops.iter().find(|l| parts(trace, dag, stage, l) > 1) {
            let whole = axis.strip_suffix(".0").unwrap_or(axis);
            out.push(format!("{stage}.{whole}"));
        }
    }
    out.sort();
    out.join(" ")
}

/// Iterations of a loop that is a whole axis, or the outermost part of one.
fn parts(trace: &Trace, dag: &Dag, stage: &str, name: &str) -> i64 {
    let axis = name.strip_suffix(".0").unwrap_or(name);
    let compute = dag.find(stage).and_then(|id| dag.tensor(id).compute());
    let axes = compute.into_iter().flat_map(|c| c.axes.iter().chain(c.reduce_axes()));
    let extent = axes.filter(|a| a.symbol.name() == axis).find_map(|a| a.extent.as_int()).unwrap_or(1);
    let inside: i64 = trace
        .steps
        .iter()
        .find_map(|step| match step {
            Step::Split { stage: of, axis: split, factors } if of == stage && split == axis => {
                Some(factors.iter().map(|f| f.as_int().unwrap_or(1).max(1)).product())
            }
            _ => None,
        })
        .unwrap_or(1);
    (extent + inside - 1) / inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use talweg_ops::Spec;

    #[test]
    fn what_is_shared_depends_on_the_tiles() {
        let dag = Spec::parse("matmul:m=64,n=96,k=8").and_then(|s| s.build()).expect("an operator");
        let shared = |rows: i64| {
            let text = format!(
                "split matmul i [{rows}]\nsplit matmul j [2, 16]\nfuse matmul i.0 j.0\nparallel matmul i.0_j.0"
            );
            shared_axes(&Trace::parse(&text).expect("steps"), &dag)
        };
        assert_eq!((shared(32).as_str(), shared(64).as_str()), ("matmul.i", "matmul.j"));
        let whole = Trace::parse("parallel matmul j").expect("a step");
        assert_eq!(shared_axes(&whole, &dag), "matmul.j");
        assert_eq!(shared_axes(&Trace::default(), &dag), "");
    }
}
