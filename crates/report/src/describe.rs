//! Tasks and machines as far as their texts tell, and texts that are not too long for a page.

use talweg_db::{TargetKey, TaskKey};
use talweg_ir::Dag;

use crate::report::{Machine, Task};

/// The longest trace and error text that a page holds, in bytes.
const MOST_TEXT: usize = 4000;

/// A task as far as its text tells.
pub(crate) fn described(key: &TaskKey) -> Task {
    let mut out = Task { weight: 1.0, ..Task::default() };
    if let Ok(dag) = Dag::parse(&key.text) {
        let outside = dag.tensors.iter().filter(|t| t.output || t.compute().is_none());
        let shapes = outside.map(|t| {
            let extents = t.const_shape().unwrap_or_default();
            let extents: Vec<String> = extents.iter().map(i64::to_string).collect();
            format!("{}[{}]", t.name, extents.join(","))
        });
        out.shapes = shapes.collect::<Vec<_>>().join(" ");
        (out.flops, out.bytes) = (dag.arithmetic(), dag.moved_bytes());
        out.name = dag.name;
    } else {
        out.name = key.text.lines().next().unwrap_or_default().chars().take(80).collect();
    }
    out
}

/// The machine of a fingerprint: `arch;isa;cpu;cores=N;l1d=N;...`.
pub(crate) fn machine(target: &TargetKey) -> Machine {
    let parts: Vec<&str> = target.text.split(';').collect();
    let [arch, isa, cpu, facts @ ..] = parts.as_slice() else {
        return Machine { fingerprint: target.text.to_string(), ..Machine::default() };
    };
    let fact = |fact: &&str| {
        let (name, value) = fact.split_once('=')?;
        let bytes = value.parse::<u64>().ok().filter(|_| name.starts_with('l'));
        let value = match bytes {
            Some(0) => "none".to_string(),
            Some(bytes) if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
            Some(bytes) => format!("{} KiB", bytes >> 10),
            None => value.to_string(),
        };
        let name = match name {
            "l1d" => "L1",
            "l2" => "L2",
            "l3" => "L3",
            other => other,
        };
        Some((name.to_string(), value))
    };
    Machine {
        cpu: cpu.to_string(),
        isa: format!("{arch}, {isa}"),
        facts: facts.iter().filter_map(fact).collect(),
        fingerprint: target.text.to_string(),
    }
}

/// A text, cut where it is too long for a page.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= MOST_TEXT {
        return text.to_string();
    }
    let end = (0..=MOST_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n... ({} more bytes)", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_and_tasks_that_cannot_be_read_keep_their_texts() {
        let unknown = machine(&TargetKey::new("something else"));
        assert_eq!((unknown.fingerprint.as_str(), unknown.cpu.as_str()), ("something else", ""));
        let known = machine(&TargetKey::new("x86-64;avx2;CPU;cores=4;l1d=32768;l3=0"));
        assert_eq!((known.cpu.as_str(), known.isa.as_str()), ("CPU", "x86-64, avx2"));
        let facts = [("cores", "4"), ("L1", "32 KiB"), ("L3", "none")];
        assert_eq!(known.facts, facts.map(|(name, value)| (name.to_string(), value.to_string())));
        let task = described(&TaskKey::new("not a dag\nat all", 1));
        assert_eq!((task.name.as_str(), task.flops, task.weight), ("not a dag", 0.0, 1.0));
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(cut("short"), "short");
        let long = format!("x{}", "ü".repeat(MOST_TEXT));
        let cut = cut(&long);
        assert!(cut.len() < MOST_TEXT + 40 && cut.contains("more bytes"), "{}", cut.len());
    }
}
