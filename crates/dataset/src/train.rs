//! Training the network on stored programs.

use std::collections::{BTreeMap, BTreeSet};

use talweg_cost::metrics::pair_accuracy;
use talweg_cost::{Checkpoint, Mlp, TrainParams};

use crate::error::DatasetError;
use crate::programs::Programs;

/// The entry of a checkpoint's description that says how many operators are held out: one in so many.
pub const HELD_OUT: &str = "held out: one operator in";

/// Trains a network on all operators but those held out, one in `each`.
pub fn train(
    programs: &Programs,
    params: &TrainParams,
    each: u64,
    command: &str,
) -> Result<Checkpoint, DatasetError> {
    let kept: BTreeSet<u64> = programs.held_out(each).into_iter().collect();
    let seen = programs.only(&|info| !kept.contains(&info.operator))?;
    if seen.is_empty() {
        return Err(DatasetError::Empty { path: "training set".into(), skipped: programs.len() });
    }
    let (mlp, trained) = Mlp::train(&seen.samples(), params)?;
    let accuracy = |programs: &Programs| {
        let samples = programs.samples();
        let scores = mlp.predict(&samples.programs)?;
        Ok::<_, DatasetError>(match pair_accuracy(samples.labels, &scores, samples.tasks)? {
            Some(accuracy) => format!("{accuracy:.4}"),
            None => "unknown".into(),
        })
    };
    let unseen = programs.only(&|info| kept.contains(&info.operator))?;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for task in seen.samples().tasks {
        let info = &programs.infos()[*task as usize];
        *kinds.entry(format!("{} with {} threads", info.isa, info.threads)).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.into_iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    let operators: BTreeSet<u64> =
        programs.infos().iter().map(|i| i.operator).filter(|o| !kept.contains(o)).collect();
    let about = BTreeMap::from([
        ("programs".to_string(), seen.len().to_string()),
        ("operators".to_string(), operators.len().to_string()),
        ("kinds".to_string(), kinds.join(", ")),
        (HELD_OUT.to_string(), each.to_string()),
        ("held out operators".to_string(), kept.len().to_string()),
        ("settings".to_string(), format!("{params:?}")),
        ("steps".to_string(), trained.steps.to_string()),
        ("loss".to_string(), format!("{:.4}", trained.loss)),
        ("pair accuracy, seen operators".to_string(), accuracy(&seen)?),
        ("pair accuracy, held out operators".to_string(), accuracy(&unseen)?),
    ]);
    Ok(Checkpoint { mlp, command: command.into(), about })
}
