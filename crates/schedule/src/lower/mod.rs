//! Schedule to loop nest. One code path: knobs may be open or substituted.
//!
//! Two passes. [`place`] goes from readers to producers and finds for each stage which box of it is computed where, and
//! how each axis is put together from loops. [`emit`] goes the other way and writes the statements.
//!
//! Bounds are exact without guards: an axis is `sum(stride * part)`, so a loop over one part, inside the loops over
//! others, runs while `sum < extent` can still hold. Only fused loops may need a condition.

mod emit;
mod layout;
mod place;
mod region;

use talweg_ir::{Buffer, Nest, Role, Source, TensorId};

use crate::error::ScheduleError;
use crate::state::{Attach, Schedule};
use place::Placement;

/// Where each tensor of the DAG lives in the nest.
pub(crate) struct Lowering<'a> {
    pub schedule: &'a Schedule,
    pub placement: Placement,
    pub buffers: Vec<Buffer>,
    /// Buffer of each tensor, by tensor id.
    pub buffer_of: Vec<Option<TensorId>>,
}

impl Schedule {
    /// The loop nest of this schedule. Knobs that steps left open stay symbols of the nest.
    pub fn lower(&self) -> Result<Nest, ScheduleError> {
        let placement = Placement::of(self)?;
        let mut l = Lowering {
            schedule: self,
            placement,
            buffers: Vec::new(),
            buffer_of: vec![None; self.dag.tensors.len()],
        };
        for id in self.dag.ids() {
            match self.dag.tensor(id).source {
                Source::Input => l.declare(id, Role::Input),
                Source::Const => l.declare(id, Role::Const),
                Source::Compute(_) if self.dag.tensor(id).output => l.declare(id, Role::Output),
                Source::Compute(_) => {}
            }
        }
        let packs = l.declare_packs();
        for id in &self.order {
            match self.stages[id.index()].as_ref().map(|s| &s.attach) {
                Some(Attach::Root) if !self.dag.tensor(*id).output => l.declare(*id, Role::Temp),
                Some(Attach::At(..)) => l.declare(*id, Role::Local),
                _ => {}
            }
        }
        let mut body = Vec::new();
        for id in &self.order {
            if self.stages[id.index()].as_ref().is_some_and(|s| s.attach == Attach::Root) {
                body.extend(l.emit_stage(*id));
            }
        }
        Ok(Nest { name: self.dag.name.clone(), buffers: l.buffers, packs, body })
    }
}

impl Lowering<'_> {
    fn declare(&mut self, id: TensorId, role: Role) {
        let tensor = self.schedule.dag.tensor(id);
        let shape = match role {
            Role::Local => self.placement.stage(id).space.iter().map(|a| a.tile.clone()).collect(),
            _ => tensor.shape.clone(),
        };
        self.buffers.push(Buffer { name: tensor.name.clone(), dtype: tensor.dtype, shape, role });
        self.buffer_of[id.index()] = Some(TensorId(self.buffers.len() as u32 - 1));
    }
}
