//! The functions of a module: the exported kernel, its body, and the bodies of its parallel loops.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::Linkage;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{FunctionValue, PointerValue};
use talweg_ir::{Role, TensorId};

use crate::emitter::{Emit, Emitter, Frame, Scope, Sums};
use crate::env::Env;
use crate::isa::Isa;
use crate::layout::{ALIGNMENT, Place};
use crate::ops::{Ops, T, V};
use crate::plan::{Kind, Plan, Step, effects_of};

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
        let mut args: Vec<V> = Vec::new();
        for b in &used {
            args.push(match plan.layout.place(*b) {
                Place::Argument(at) => e.o.load(ptr, e.entry_of(table, at as usize), 8, true),
                Place::Shared(at) => e.o.offset(workspace, e.o.int(at)).into(),
                Place::Scratch(at) => e.o.offset(workspace, e.o.int(e.scratch_start() + at)).into(),
            });
        }
        if plan.body.iter().all(is_outlined) {
            // Nothing touches memory outside the outlined loops, so there is nothing to tell about aliasing.
            for (b, base) in used.iter().zip(args) {
                e.frame.bases[b.index()] = Some(base.into_pointer_value());
            }
            e.frame.scopes.push(Scope::new(e.o.marker(), None, None, 0));
        } else {
            let body = e.declare_body("body", &used, &[ptr, ptr]);
            args.push(workspace.into());
            args.push(parallel.into());
            e.o.call(body, &args);
            e.o.ret();
            e.begin_body(body, &used);
        }
        let parameter = |at: usize| e.frame.function.get_nth_param(at as u32).map(V::into_pointer_value);
        let first = if e.frame.function == exported { 1 } else { used.len() };
        (e.frame.workspace, e.frame.parallel) = (parameter(first), parameter(first + 1));
        e.block(&plan.body)?;
        e.end_body();
        Ok(e.o)
    }

    /// Where the workers' scratch begins in the workspace.
    pub fn scratch_start(&self) -> i64 {
        self.plan.layout.shared_bytes
    }

    /// Declares an internal function that takes the pointers of `buffers`, then `extra` parameters.
    pub fn declare_body(&mut self, name: &str, buffers: &[TensorId], extra: &[T<'c>]) -> FunctionValue<'c> {
        let o = &self.o;
        let mut params: Vec<BasicMetadataTypeEnum> = buffers.iter().map(|_| o.ptr().into()).collect();
        params.extend(extra.iter().map(|t| BasicMetadataTypeEnum::from(*t)));
        let name = format!("{}.{name}", self.plan.symbol);
        let t = o.ctx.void_type().fn_type(&params, false);
        let function = o.module.add_function(&name, t, Some(Linkage::Internal));
        self.function_attributes(function);
        let attribute = |name: &str, value: u64| {
            self.o.ctx.create_enum_attribute(Attribute::get_named_enum_kind_id(name), value)
        };
        for (at, b) in buffers.iter().enumerate() {
            let buffer = self.plan.buffer(*b);
            let loc = AttributeLoc::Param(at as u32);
            function.add_attribute(loc, attribute("noalias", 0));
            function.add_attribute(loc, attribute("align", ALIGNMENT as u64));
            let bytes = buffer.elements as u64 * buffer.dtype.bytes() as u64;
            if bytes > 0 {
                function.add_attribute(loc, attribute("dereferenceable", bytes));
            }
            if matches!(buffer.role, Role::Input | Role::Const | Role::Packed) {
                function.add_attribute(loc, attribute("readonly", 0));
            }
        }
        function
    }

    /// Starts to write an internal function, in a new frame that is current from now on.
    pub fn begin_body(&mut self, function: FunctionValue<'c>, buffers: &[TensorId]) -> Frame<'c, 'p> {
        let mut frame = Frame::new(function, self.plan.buffers.len());
        let entry = self.o.block(function, "entry");
        self.o.goto(entry);
        let marker = self.o.marker();
        frame.scopes.push(Scope::new(marker, None, None, 0));
        for (at, b) in buffers.iter().enumerate() {
            frame.bases[b.index()] = function.get_nth_param(at as u32).map(V::into_pointer_value);
        }
        std::mem::replace(&mut self.frame, frame)
    }

    /// Ends the internal function being written.
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

    /// A pointer stored in or loaded from a table of 8-byte entries.
    pub fn entry_of(&self, table: PointerValue<'c>, at: usize) -> PointerValue<'c> {
        self.o.offset(table, self.o.int(at as i64 * 8))
    }
}

/// Whether the step becomes a call through the table of parallel functions.
fn is_outlined(step: &Step) -> bool {
    matches!(step, Step::For(l) if l.kind == Kind::Parallel && l.extent.as_int().is_some_and(|n| n > 1))
}
