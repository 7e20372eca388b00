//! Runs on memory of the caller: inputs are read where they lie, outputs are written where they are wanted.
//!
//! Kernels get their tensors as pointers, so a port of the network can lie anywhere. The places of ports are found in
//! the manifest once; for a run their pointers are put in and taken out again.

use super::manifest::{Manifest, Operand, Place, Work};

/// An argument of a kernel: the step, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub step: usize,
    pub argument: usize,
}

/// For every port, the arguments that are its memory; `None` where the port must lie in the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForeignPorts {
    pub inputs: Vec<Option<Vec<Use>>>,
    pub outputs: Vec<Option<Vec<Use>>>,
}

impl ForeignPorts {
    /// Finds the uses of all ports.
    ///
    /// An argument of a port's place and size is the port, or a value that lived there before it: either way all uses of
    /// that value move together. Ports that share a place, and those that plain code touches, stay in the arena.
    pub fn of(manifest: &Manifest) -> ForeignPorts {
        let uses = |operand: &Operand| -> Option<Vec<Use>> {
            let bytes = operand.bytes()?;
            let ports = manifest.inputs.iter().chain(&manifest.outputs);
            if ports.filter(|port| port.operand.place == operand.place).count() != 1 {
                return None;
            }
            let is_same = |place: Place, size: u64| place == operand.place && size == bytes;
            let mut found = Vec::new();
            for (at, step) in manifest.steps.iter().enumerate() {
                match &step.work {
                    Work::Kernel { kernel, arguments, .. } => {
                        let sizes = &manifest.kernels.get(*kernel)?.argument_bytes;
                        for (argument, (place, size)) in arguments.iter().zip(sizes).enumerate() {
                            if is_same(*place, *size) {
                                found.push(Use { step: at, argument });
                            }
                        }
                    }
                    Work::Plain { inputs, outputs, .. } => {
                        let mut touched = inputs.iter().chain(outputs).flatten();
                        if touched.any(|o| is_same(o.place, o.bytes().unwrap_or(0))) {
                            return None;
                        }
                    }
                }
            }
            Some(found)
        };
        ForeignPorts {
            inputs: manifest.inputs.iter().map(|port| uses(&port.operand)).collect(),
            outputs: manifest.outputs.iter().map(|port| uses(&port.operand)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::manifest::{Kernel, Port, Step};
    use talweg_tensor::op::Unary;
    use talweg_tensor::{ElementType, Op};

    fn operand(offset: u64, len: usize) -> Operand {
        Operand { place: Place::Arena(offset), element: ElementType::F32, shape: vec![len] }
    }

    fn port(name: &str, operand: Operand) -> Port {
        Port { name: name.into(), operand }
    }

    fn kernel(argument_bytes: Vec<u64>) -> Kernel {
        Kernel {
            symbol: "k".into(),
            object_offset: 0,
            object_bytes: 0,
            shared_bytes: 0,
            scratch_bytes: 0,
            argument_bytes,
            label: String::new(),
            flops: 0.0,
            schedule: "default".into(),
            threads: None,
        }
    }

    fn manifest(inputs: Vec<Port>, outputs: Vec<Port>, kernels: Vec<Kernel>, work: Vec<Work>) -> Manifest {
        let steps = work.into_iter().map(|work| Step { work, nodes: Vec::new() }).collect();
        Manifest {
            model: "m".into(),
            tool: String::new(),
            arch: String::new(),
            features: Vec::new(),
            arena_bytes: 1024,
            inputs,
            outputs,
            kernels,
            steps,
        }
    }

    #[test]
    fn uses_are_found_and_larger_values_in_the_same_place_are_left_alone() {
        let (x, y, large) = (Place::Arena(512), Place::Arena(0), Place::Arena(0));
        let call = |kernel, arguments: Vec<Place>| Work::Kernel { kernel, arguments, workspace: None };
        let found = ForeignPorts::of(&manifest(
            vec![port("x", operand(512, 16))],
            vec![port("y", operand(0, 4))],
            vec![kernel(vec![64, 256]), kernel(vec![256, 64, 16])],
            vec![call(0, vec![x, large]), call(1, vec![large, x, y])],
        ));
        let at = |step, argument| Use { step, argument };
        assert_eq!(found.inputs, [Some(vec![at(0, 0), at(1, 1)])]);
        assert_eq!(found.outputs, [Some(vec![at(1, 2)])]);
    }

    #[test]
    fn shared_places_and_plain_code_stay_in_the_arena() {
        let both = manifest(vec![port("x", operand(0, 4))], vec![port("y", operand(0, 4))], vec![], vec![]);
        assert_eq!(ForeignPorts::of(&both), ForeignPorts { inputs: vec![None], outputs: vec![None] });
        let plain = Work::Plain {
            op: Op::Unary(Unary::Identity),
            inputs: vec![Some(operand(0, 4))],
            outputs: vec![Some(operand(64, 4))],
        };
        let plain =
            manifest(vec![port("x", operand(0, 4))], vec![port("y", operand(64, 4))], vec![], vec![plain]);
        assert_eq!(ForeignPorts::of(&plain), ForeignPorts { inputs: vec![None], outputs: vec![None] });
    }
}
