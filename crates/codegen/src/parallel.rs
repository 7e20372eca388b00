//! Parallel loops: the body becomes a function that runs a range of iterations, called through the runtime's table.
//!
//! ```text
//! parallel->run(parallel->ctx, body, closure, extent)
//! body(closure, begin, end, worker)
//! ```
//! The closure is a table on the caller's stack: the pointers of the buffers, the workspace, the values of the outer
//! loop variables.

use inkwell::module::Linkage;
use inkwell::values::PointerValue;
use talweg_expr::Expr;
use talweg_ir::TensorId;

use crate::emitter::{Emit, Emitter, Frame};
use crate::layout::Place;
use crate::ops::V;
use crate::plan::For;

impl<'c, 'p> Emitter<'c, 'p> {
    /// Emits a parallel loop.
    pub fn parallel_loop(&mut self, l: &'p For, extent: &Expr) -> Emit<()> {
        let (Some(parallel), Some(workspace)) = (self.frame.parallel, self.frame.workspace) else {
            return Err(self.internal("a parallel loop without the table of parallel functions"));
        };
        let buffers: Vec<TensorId> =
            (0..self.plan.buffers.len() as u32).map(TensorId).filter(|b| l.effects.touches(*b)).collect();
        let mut outer: Vec<(Expr, usize, V)> =
            self.frame.variables.iter().map(|(e, (d, v))| (e.clone(), *d, (*v).into())).collect();
        outer.sort_by_key(|(_, depth, _)| *depth);

        // The closure, filled where the loop stands.
        let entries = buffers.len() + 1 + outer.len();
        let table = self.o.i64().into();
        let closure = self.o.before(self.frame.scopes[0].marker, || self.o.alloca(table, entries as u64));
        for (at, b) in buffers.iter().enumerate() {
            let Some(base) = self.frame.bases[b.index()] else {
                return Err(self.internal(format!("buffer {} has no memory here", b.0)));
            };
            self.o.store(base.into(), self.entry_of(closure, at), 8);
        }
        self.o.store(workspace.into(), self.entry_of(closure, buffers.len()), 8);
        for (at, (_, _, value)) in outer.iter().enumerate() {
            self.o.store(*value, self.entry_of(closure, buffers.len() + 1 + at), 8);
        }

        let n = self.index(extent)?;
        let highest = extent.bounds(&self.env.ranges).hi;
        let highest = if highest.is_finite() { highest as i64 - 1 } else { i64::MAX >> 16 };
        let resume = self.o.here();
        let body = self.outline(l, &buffers, &outer, highest)?;
        self.o.goto(resume);
        self.call_run(parallel, body, closure, n);
        self.frame.cache.end_block();
        self.frame.cache.forget_all(&l.effects.writes);
        Ok(())
    }

    fn call_run(
        &mut self,
        parallel: PointerValue<'c>,
        body: PointerValue<'c>,
        closure: PointerValue<'c>,
        n: V<'c>,
    ) {
        let o = &self.o;
        let ptr = o.ptr();
        let run = o.load(ptr, parallel, 8, false).into_pointer_value();
        let context = o.load(ptr, self.entry_of(parallel, 1), 8, false);
        let t = o.ctx.void_type().fn_type(&[ptr.into(), ptr.into(), ptr.into(), o.i64().into()], false);
        o.call_indirect(t, run, &[context, body.into(), closure.into(), n]);
    }

    /// Writes the function the runtime calls; returns its address.
    fn outline(
        &mut self,
        l: &'p For,
        buffers: &[TensorId],
        outer: &[(Expr, usize, V<'c>)],
        highest: i64,
    ) -> Emit<PointerValue<'c>> {
        let number = self.outlined;
        self.outlined += 1;
        let (ptr, int) = (self.o.ptr(), self.o.i64());
        let t = self.o.ctx.void_type().fn_type(&[ptr.into(), int.into(), int.into(), int.into()], false);
        let name = format!("{}.part{number}", self.plan.symbol);
        let part = self.o.module.add_function(&name, t, Some(Linkage::Internal));
        self.function_attributes(part);
        let saved = std::mem::replace(&mut self.frame, Frame::new(part, self.plan.buffers.len()));
        let entry = self.o.block(part, "entry");
        self.o.goto(entry);
        let (Some(closure), Some(begin), Some(end), Some(worker)) =
            (part.get_nth_param(0), part.get_nth_param(1), part.get_nth_param(2), part.get_nth_param(3))
        else {
            return Err(self.internal("a parallel body lost its parameters"));
        };
        let closure = closure.into_pointer_value();
        let mut scratch = None;
        for (at, b) in buffers.iter().enumerate() {
            self.frame.bases[b.index()] = Some(match self.plan.layout.place(*b) {
                Place::Scratch(offset) => {
                    let start =
                        *scratch.get_or_insert_with(|| self.scratch_of(closure, buffers.len(), worker));
                    self.o.offset(start, self.o.int(offset))
                }
                _ => self.table_pointer(closure, at),
            });
        }
        for (at, (var, ..)) in outer.iter().enumerate() {
            let entry = self.entry_of(closure, buffers.len() + 1 + at);
            let value = self.o.load(int.into(), entry, 8, true).into_int_value();
            self.frame.variables.insert(var.clone(), (0, value));
        }
        self.begin_body();
        self.run_loop(l, begin, end, true, highest)?;
        self.end_body();
        self.frame = saved;
        Ok(part.as_global_value().as_pointer_value())
    }

    /// Where a worker's scratch begins; the closure's entry `at` is the workspace.
    fn scratch_of(&self, closure: PointerValue<'c>, at: usize, worker: V<'c>) -> PointerValue<'c> {
        let o = &self.o;
        let workspace = self.table_pointer(closure, at);
        let stride = o.int(self.plan.layout.scratch_bytes).into();
        let start = o.add(o.mul(worker, stride), o.int(self.scratch_start()).into());
        o.offset(workspace, start.into_int_value())
    }
}
