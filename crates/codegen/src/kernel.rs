//! The functions of a module: what the exported kernel and the bodies of its parallel loops have in common.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::values::{FunctionValue, PointerValue};
use talweg_ir::TensorId;

use crate::emitter::{Emit, Emitter, Frame, Scope, Sums};
use crate::env::Env;
use crate::isa::Isa;
use crate::layout::Place;
use crate::ops::{Ops, V};
use crate::plan::{Plan, effects_of};

impl<'c, 'p> Emitter<'c, 'p> {
    /// Emits the whole kernel and returns its module.
    pub fn kernel(o: Ops<'c>, plan: &'p Plan, isa: &'p Isa, limit: usize) -> Emit<Ops<'c>> {
        let ptr = o.ptr();
        let void = o.ctx.void_type();
        let exported = o.module.add_function(&plan.symbol, void.fn_type(&[ptr.into(); 3], false), None);
        let mut e = Emitter {
            frame: Frame::new(exported, plan.buffers.len()),
            o,
            plan,
            isa,
            env: Env::default(),
            sums: Sums::new(),
            limit,
            outlined: 0,
        };
        e.function_attributes(exported);
        let effects = effects_of(&plan.body);
        let used: Vec<TensorId> =
            (0..plan.buffers.len() as u32).map(TensorId).filter(|b| effects.touches(*b)).collect();
        let entry = e.o.block(exported, "entry");
        e.o.goto(entry);
        let argument = |at: u32| exported.get_nth_param(at).map(V::into_pointer_value);
        let (Some(table), Some(workspace), Some(parallel)) = (argument(0), argument(1), argument(2)) else {
            return Err(e.internal("the exported function lost its parameters"));
        };
        for b in &used {
            e.frame.bases[b.index()] = Some(match plan.layout.place(*b) {
                Place::Argument(at) => e.table_pointer(table, at as usize),
                Place::Shared(at) => e.o.offset(workspace, e.o.int(at)),
                Place::Scratch(at) => e.o.offset(workspace, e.o.int(e.scratch_start() + at)),
            });
        }
        (e.frame.workspace, e.frame.parallel) = (Some(workspace), Some(parallel));
        e.begin_body();
        e.block(&plan.body)?;
        e.end_body();
        Ok(e.o)
    }

    /// Where the workers' scratch begins in the workspace.
    pub fn scratch_start(&self) -> i64 {
        self.plan.layout.shared_bytes
    }

    /// Starts the body of a function whose pointers are known.
    pub fn begin_body(&mut self) {
        let marker = self.o.marker();
        self.frame.scopes.push(Scope::new(marker, None, None, 0));
    }

    /// Ends the function being written.
    pub fn end_body(&mut self) {
        self.o.ret();
        let scope = self.frame.scopes.pop();
        if let Some(scope) = scope {
            self.o.erase(scope.marker);
        }
    }

    pub fn function_attributes(&self, function: FunctionValue<'c>) {
        let ctx = self.o.ctx;
        let kind = Attribute::get_named_enum_kind_id("nounwind");
        function.add_attribute(AttributeLoc::Function, ctx.create_enum_attribute(kind, 0));
        let bits = (self.isa.vector_bytes * 8).to_string();
        let texts = [
            ("prefer-vector-width", bits.as_str()),
            ("target-cpu", &self.isa.cpu),
            ("target-features", &self.isa.features),
        ];
        for (key, value) in texts {
            function.add_attribute(AttributeLoc::Function, ctx.create_string_attribute(key, value));
        }
    }

    /// The pointer in an entry of a table, which never changes while the kernel runs.
    pub fn table_pointer(&self, table: PointerValue<'c>, at: usize) -> PointerValue<'c> {
        self.o.load(self.o.ptr(), self.entry_of(table, at), 8, true).into_pointer_value()
    }

    /// The place of an entry in a table of 8-byte entries.
    pub fn entry_of(&self, table: PointerValue<'c>, at: usize) -> PointerValue<'c> {
        self.o.offset(table, self.o.int(at as i64 * 8))
    }
}
