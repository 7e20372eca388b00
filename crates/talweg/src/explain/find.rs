//! The task that a user means: by a node of the model, by the number that `talweg check` prints, or by its name.

use talweg_graph::{Program, Work};

use crate::network::Network;

/// Names that are offered when one is wrong.
const OFFERED: usize = 5;

/// Why a name is no task.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// Nothing has that name.
    #[error("there is no node or task `{name}`; {}", offer(.near))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest names.
        near: Vec<String>,
    },
    /// The number is too large.
    #[error("there is no task {number}; the tasks are 0 to {}, as `talweg check` numbers them", count - 1)]
    Number {
        /// What was asked for.
        number: usize,
        /// How many tasks there are.
        count: usize,
    },
    /// Several tasks have the name.
    #[error("{} tasks are called `{name}`; give a number or a node: {}", .tasks.len(), .tasks.join(", "))]
    Several {
        /// What was asked for.
        name: String,
        /// The tasks, as number and first node.
        tasks: Vec<String>,
    },
    /// The node is not computed by a kernel.
    #[error("node `{name}` {why}, so there is no schedule to explain")]
    NoKernel {
        /// The node.
        name: String,
        /// What became of it.
        why: String,
    },
}

fn offer(near: &[String]) -> String {
    match near {
        [] => "`talweg check` lists the tasks".into(),
        _ => format!(
            "the nearest are {}",
            near.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The position of the task that a text names.
pub fn find(network: &Network, text: &str) -> Result<usize, FindError> {
    let program = &network.program;
    if let Ok(number) = text.parse::<usize>() {
        let count = program.tasks.len();
        return if number < count { Ok(number) } else { Err(FindError::Number { number, count }) };
    }
    // `matmul:/layer/MatMul`, as `talweg tune` calls tasks.
    let node = text.split_once(':').filter(|(task, _)| program.tasks.iter().any(|t| t.dag.name == *task));
    for name in [Some(text), node.map(|(_, node)| node)].into_iter().flatten() {
        if let Some(found) = by_node(program, name) {
            return found;
        }
    }
    let called: Vec<usize> =
        (0..program.tasks.len()).filter(|at| program.tasks[*at].dag.name == text).collect();
    match called.as_slice() {
        [only] => return Ok(*only),
        [] => {}
        several => {
            let title =
                |at: &usize| format!("{at} ({})", network.nodes_of(*at).first().map_or("", String::as_str));
            let tasks = several.iter().map(title).collect();
            return Err(FindError::Several { name: text.into(), tasks });
        }
    }
    if network.imported.nodes.iter().any(|n| n.name == text) {
        let why = "was folded into others or into constants".into();
        return Err(FindError::NoKernel { name: text.into(), why });
    }
    let nodes = program.steps.iter().flat_map(|s| &s.nodes).flat_map(|n| n.split('+'));
    let names = nodes.chain(program.tasks.iter().map(|t| t.dag.name.as_str()));
    Err(FindError::Unknown { name: text.into(), near: nearest(text, names, OFFERED) })
}

/// The task of the step that computes a node, if a step does.
fn by_node(program: &Program, name: &str) -> Option<Result<usize, FindError>> {
    let is_part = |node: &String| node == name || node.split('+').any(|part| part == name);
    let steps = || program.steps.iter().filter(|step| step.nodes.iter().any(is_part));
    let kernel = steps().find_map(|step| match step.work {
        Work::Kernel(task) => Some(task),
        _ => None,
    });
    let why = |work: &Work| match work {
        Work::Plain(op) => format!("is computed by plain code ({})", op.name()),
        _ => "only gives its input another shape".into(),
    };
    match kernel {
        Some(task) => Some(Ok(task)),
        None => steps().next().map(|s| Err(FindError::NoKernel { name: name.into(), why: why(&s.work) })),
    }
}

/// The known names nearest to a text: those that contain it, then those that are similar.
pub fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>, count: usize) -> Vec<String> {
    let wanted = text.to_lowercase();
    let mut all: Vec<&str> = known.filter(|n| !n.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    let mut scored: Vec<(f64, &str)> = all
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let contains = !wanted.is_empty() && lower.contains(&wanted);
            (strsim::jaro_winkler(&wanted, &lower) + f64::from(u8::from(contains)), name)
        })
        .filter(|(score, _)| *score > 0.6)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(count).map(|(_, name)| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_contain_the_text_or_are_alike() {
        let known = ["/layer1/conv1/Conv", "/layer1/conv2/Conv", "/fc/Gemm", "/layer1/conv1/Conv"];
        assert_eq!(nearest("fc", known.into_iter(), 1), ["/fc/Gemm"]);
        assert_eq!(nearest("/layer1/conv1/Con", known.into_iter(), 2), known[..2]);
        assert!(nearest("zzzz", known.into_iter(), 3).is_empty());
    }
}
