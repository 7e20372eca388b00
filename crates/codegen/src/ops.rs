//! A thin layer over the LLVM builder: one value type for scalars and vectors, and a count of what was emitted.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use inkwell::basic_block::BasicBlock;
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::{AsTypeRef, BasicType, BasicTypeEnum, FunctionType, IntType, VectorType};
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValue, BasicValueEnum, FunctionValue, InstructionOpcode,
    InstructionValue, IntValue, PhiValue, PointerValue, VectorValue,
};
use inkwell::{FloatPredicate, IntPredicate};
use talweg_ir::DType;

use crate::isa::Isa;

/// A scalar or vector value.
pub type V<'c> = BasicValueEnum<'c>;
/// A type.
pub type T<'c> = BasicTypeEnum<'c>;

/// Emits instructions at the current position.
pub struct Ops<'c> {
    pub ctx: &'c Context,
    pub module: Module<'c>,
    pub builder: Builder<'c>,
    count: Cell<usize>,
    count_in_block: Cell<usize>,
    intrinsics: RefCell<HashMap<(&'static str, usize), FunctionValue<'c>>>,
    invariant_kind: u32,
    /// Whether vectors of sixteen f32 can be scaled by powers of two in one instruction.
    pub scale_by_power: bool,
}

/// The builder only fails when it has no position, and the emitter always gives it one.
fn built<R>(result: Result<R, BuilderError>) -> R {
    result.expect("the emitter positions the builder before it builds")
}

impl<'c> Ops<'c> {
    pub fn new(ctx: &'c Context, name: &str, isa: &Isa) -> Ops<'c> {
        Ops {
            ctx,
            module: ctx.create_module(name),
            builder: ctx.create_builder(),
            count: Cell::new(0),
            count_in_block: Cell::new(0),
            intrinsics: RefCell::default(),
            invariant_kind: ctx.get_kind_id("invariant.load"),
            scale_by_power: isa.scale_by_power,
        }
    }

    /// How many instructions were asked for so far.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// How many of them since the current block was begun.
    pub fn count_in_block(&self) -> usize {
        self.count_in_block.get()
    }

    fn tick(&self) {
        self.count.set(self.count.get() + 1);
        self.count_in_block.set(self.count_in_block.get() + 1);
    }

    // Types.

    pub fn i64(&self) -> IntType<'c> {
        self.ctx.i64_type()
    }

    pub fn ptr(&self) -> T<'c> {
        self.ctx.ptr_type(inkwell::AddressSpace::default()).into()
    }

    /// The type an element has in registers: small floats are computed in f32, truth values are single bits.
    pub fn register_type(&self, dtype: DType, lanes: u32) -> T<'c> {
        let t: T = match dtype {
            DType::F32 | DType::F16 | DType::BF16 => self.ctx.f32_type().into(),
            DType::I8 | DType::U8 => self.ctx.i8_type().into(),
            DType::I32 => self.ctx.i32_type().into(),
            DType::I64 => self.ctx.i64_type().into(),
            DType::Bool => self.ctx.bool_type().into(),
        };
        self.widen(t, lanes)
    }

    /// The type an element has in memory.
    pub fn memory_type(&self, dtype: DType, lanes: u32) -> T<'c> {
        let t: T = match dtype {
            DType::F32 => self.ctx.f32_type().into(),
            DType::F16 => self.ctx.f16_type().into(),
            DType::BF16 => self.ctx.i16_type().into(),
            DType::I8 | DType::U8 | DType::Bool => self.ctx.i8_type().into(),
            DType::I32 => self.ctx.i32_type().into(),
            DType::I64 => self.ctx.i64_type().into(),
        };
        self.widen(t, lanes)
    }

    /// A vector of a scalar type; the type itself for one lane.
    pub fn widen(&self, t: T<'c>, lanes: u32) -> T<'c> {
        if lanes == 1 {
            return t;
        }
        match t {
            T::FloatType(t) => t.vec_type(lanes).into(),
            T::IntType(t) => t.vec_type(lanes).into(),
            T::PointerType(t) => t.vec_type(lanes).into(),
            other => other,
        }
    }

    /// The type with as many lanes as a value has.
    pub fn like(&self, scalar: T<'c>, value: V<'c>) -> T<'c> {
        self.widen(scalar, lanes(value))
    }

    // Constants.

    pub fn int(&self, value: i64) -> IntValue<'c> {
        self.i64().const_int(value as u64, true)
    }

    pub fn bool(&self, value: bool) -> V<'c> {
        self.ctx.bool_type().const_int(u64::from(value), false).into()
    }

    /// An f32 constant with as many lanes as `like`.
    pub fn f32_like(&self, value: f64, like: V<'c>) -> V<'c> {
        self.splat_const(self.ctx.f32_type().const_float(value).into(), lanes(like))
    }

    /// An f64 constant with as many lanes as `like`.
    pub fn f64_like(&self, value: f64, like: V<'c>) -> V<'c> {
        self.splat_const(self.ctx.f64_type().const_float(value).into(), lanes(like))
    }

    /// An i32 constant with as many lanes as `like`.
    pub fn i32_like(&self, value: i32, like: V<'c>) -> V<'c> {
        self.splat_const(self.ctx.i32_type().const_int(value as u64, true).into(), lanes(like))
    }

    /// A scalar constant of an integer type, given as the type of a register.
    pub fn int_of(&self, t: T<'c>, value: i64) -> V<'c> {
        match t {
            T::IntType(t) => t.const_int(value as u64, true).into(),
            T::VectorType(t) => {
                let scalar = t.get_element_type().into_int_type().const_int(value as u64, true);
                self.splat_const(scalar.into(), t.get_size())
            }
            other => other.const_zero(),
        }
    }

    fn splat_const(&self, scalar: V<'c>, lanes: u32) -> V<'c> {
        if lanes == 1 { scalar } else { VectorType::const_vector(&vec![scalar; lanes as usize]).into() }
    }

    /// A vector of integer constants.
    pub fn int_vector(&self, t: IntType<'c>, values: impl Iterator<Item = i64>) -> V<'c> {
        let values: Vec<IntValue> = values.map(|v| t.const_int(v as u64, true)).collect();
        VectorType::const_vector(&values).into()
    }

    /// A mask whose first `active` of `lanes` bits are set.
    pub fn prefix_mask(&self, lanes: u32, active: u32) -> V<'c> {
        self.int_vector(self.ctx.bool_type(), (0..lanes).map(|l| i64::from(l < active)))
    }

    pub fn poison(&self, t: T<'c>) -> V<'c> {
        match t {
            T::FloatType(t) => t.get_poison().into(),
            T::IntType(t) => t.get_poison().into(),
            T::VectorType(t) => t.get_poison().into(),
            T::PointerType(t) => t.get_poison().into(),
            other => other.const_zero(),
        }
    }

    // Shapes.

    /// The value in every lane.
    pub fn splat(&self, v: V<'c>, lanes: u32) -> V<'c> {
        if lanes == 1 || self::lanes(v) == lanes {
            return v;
        }
        if is_const(v) {
            return self.splat_const(v, lanes);
        }
        self.tick();
        let t = self.widen(v.get_type(), lanes).into_vector_type();
        let zero = self.ctx.i32_type().const_zero();
        let one = built(self.builder.build_insert_element(t.get_poison(), v, zero, ""));
        let mask = self.ctx.i32_type().vec_type(lanes).const_zero();
        built(self.builder.build_shuffle_vector(one, t.get_poison(), mask, "")).into()
    }

    /// Two values brought to the same number of lanes.
    pub fn unify(&self, a: V<'c>, b: V<'c>) -> (V<'c>, V<'c>) {
        let n = lanes(a).max(lanes(b));
        (self.splat(a, n), self.splat(b, n))
    }

    /// One lane of a vector; a scalar is its own only lane.
    pub fn extract(&self, v: V<'c>, lane: u32) -> V<'c> {
        match v {
            V::VectorValue(v) => {
                self.tick();
                let at = self.ctx.i32_type().const_int(u64::from(lane), false);
                built(self.builder.build_extract_element(v, at, ""))
            }
            scalar => scalar,
        }
    }

    pub fn insert(&self, v: V<'c>, element: V<'c>, lane: u32) -> V<'c> {
        self.tick();
        let at = self.ctx.i32_type().const_int(u64::from(lane), false);
        built(self.builder.build_insert_element(v.into_vector_value(), element, at, "")).into()
    }

    /// Lanes `from..from + count` of a vector.
    pub fn slice(&self, v: V<'c>, from: u32, count: u32) -> V<'c> {
        if count == 1 {
            return self.extract(v, from);
        }
        self.tick();
        let v = v.into_vector_value();
        let mask =
            self.int_vector(self.ctx.i32_type(), (from..from + count).map(i64::from)).into_vector_value();
        built(self.builder.build_shuffle_vector(v, v.get_type().get_poison(), mask, "")).into()
    }

    // Arithmetic.

    pub fn binary(&self, op: InstructionOpcode, a: V<'c>, b: V<'c>) -> V<'c> {
        self.tick();
        let (a, b) = self.unify(a, b);
        built(self.builder.build_binop(op, a, b, ""))
    }

    pub fn cast(&self, op: InstructionOpcode, v: V<'c>, scalar: T<'c>) -> V<'c> {
        self.tick();
        built(self.builder.build_cast(op, v, self.like(scalar, v), ""))
    }

    /// Reinterprets bits lane by lane.
    pub fn bitcast(&self, v: V<'c>, scalar: T<'c>) -> V<'c> {
        self.cast(InstructionOpcode::BitCast, v, scalar)
    }

    pub fn icmp(&self, op: IntPredicate, a: V<'c>, b: V<'c>) -> V<'c> {
        self.tick();
        match self.unify(a, b) {
            (V::VectorValue(a), V::VectorValue(b)) => {
                built(self.builder.build_int_compare(op, a, b, "")).into()
            }
            (a, b) => {
                built(self.builder.build_int_compare(op, a.into_int_value(), b.into_int_value(), "")).into()
            }
        }
    }

    pub fn fcmp(&self, op: FloatPredicate, a: V<'c>, b: V<'c>) -> V<'c> {
        self.tick();
        match self.unify(a, b) {
            (V::VectorValue(a), V::VectorValue(b)) => {
                built(self.builder.build_float_compare(op, a, b, "")).into()
            }
            (a, b) => {
                built(self.builder.build_float_compare(op, a.into_float_value(), b.into_float_value(), ""))
                    .into()
            }
        }
    }

    pub fn select(&self, c: V<'c>, a: V<'c>, b: V<'c>) -> V<'c> {
        if let V::IntValue(i) = c
            && let Some(v) = i.get_zero_extended_constant()
        {
            let (a, b) = self.unify(a, b);
            return if v != 0 { a } else { b };
        }
        self.tick();
        let (a, b) = self.unify(a, b);
        match c {
            V::VectorValue(c) => {
                let n = c.get_type().get_size();
                let (a, b) = (self.splat(a, n), self.splat(b, n));
                built(self.builder.build_select(c, a, b, ""))
            }
            c => built(self.builder.build_select(c.into_int_value(), a, b, "")),
        }
    }

    pub fn not(&self, v: V<'c>) -> V<'c> {
        let ones = self.splat(self.bool(true), lanes(v));
        self.binary(InstructionOpcode::Xor, v, ones)
    }

    pub fn fneg(&self, v: V<'c>) -> V<'c> {
        self.tick();
        match v {
            V::VectorValue(v) => built(self.builder.build_float_neg(v, "")).into(),
            v => built(self.builder.build_float_neg(v.into_float_value(), "")).into(),
        }
    }

    pub fn fadd(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::FAdd, a, b)
    }

    pub fn fsub(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::FSub, a, b)
    }

    pub fn fmul(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::FMul, a, b)
    }

    pub fn fdiv(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::FDiv, a, b)
    }

    pub fn add(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::Add, a, b)
    }

    pub fn sub(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::Sub, a, b)
    }

    pub fn mul(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::Mul, a, b)
    }

    pub fn and(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::And, a, b)
    }

    pub fn or(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.binary(InstructionOpcode::Or, a, b)
    }

    /// `a * b + c` with one rounding.
    pub fn fma(&self, a: V<'c>, b: V<'c>, c: V<'c>) -> V<'c> {
        let n = lanes(a).max(lanes(b)).max(lanes(c));
        let (a, b, c) = (self.splat(a, n), self.splat(b, n), self.splat(c, n));
        self.intrinsic("llvm.fma", a.get_type(), &[a, b, c])
    }

    /// `a * 2^b` for integral `b`, when there is one instruction for it.
    pub fn scale(&self, a: V<'c>, b: V<'c>) -> Option<V<'c>> {
        if !self.scale_by_power || lanes(a) != 16 {
            return None;
        }
        let all = self.ctx.i16_type().const_all_ones().into();
        let current_rounding = self.ctx.i32_type().const_int(4, false).into();
        let args = [a, b, a, all, current_rounding];
        Some(self.intrinsic_over("llvm.x86.avx512.mask.scalef.ps.512", a.get_type(), &[], &args))
    }

    // Calls.

    /// Calls an intrinsic overloaded on one type.
    pub fn intrinsic(&self, name: &'static str, overload: T<'c>, args: &[V<'c>]) -> V<'c> {
        self.intrinsic_over(name, overload, &[overload], args)
    }

    /// Calls an intrinsic overloaded on several types, of which `key` tells the instances apart.
    pub fn intrinsic_over(&self, name: &'static str, key: T<'c>, over: &[T<'c>], args: &[V<'c>]) -> V<'c> {
        self.tick();
        let function = self.declaration(name, key, over);
        let args: Vec<BasicMetadataValueEnum> = args.iter().map(|a| (*a).into()).collect();
        let call = built(self.builder.build_call(function, &args, ""));
        call.try_as_basic_value().basic().unwrap_or_else(|| self.bool(false))
    }

    fn declaration(&self, name: &'static str, key: T<'c>, over: &[T<'c>]) -> FunctionValue<'c> {
        *self.intrinsics.borrow_mut().entry((name, key.as_type_ref().addr())).or_insert_with(|| {
            Intrinsic::find(name)
                .and_then(|i| i.get_declaration(&self.module, over))
                .expect("the emitter only names intrinsics of this LLVM")
        })
    }

    /// Calls through a pointer a function that returns nothing.
    pub fn call_indirect(&self, t: FunctionType<'c>, function: PointerValue<'c>, args: &[V<'c>]) {
        self.tick();
        let args: Vec<BasicMetadataValueEnum> = args.iter().map(|a| (*a).into()).collect();
        built(self.builder.build_indirect_call(t, function, &args, ""));
    }

    /// Calls a function of the C library.
    pub fn call_c(&self, name: &str, args: &[V<'c>], result: T<'c>) -> V<'c> {
        self.tick();
        let function = self.module.get_function(name).unwrap_or_else(|| {
            let params: Vec<_> = args.iter().map(|a| a.get_type().into()).collect();
            self.module.add_function(name, result.fn_type(&params, false), None)
        });
        let args: Vec<BasicMetadataValueEnum> = args.iter().map(|a| (*a).into()).collect();
        let call = built(self.builder.build_call(function, &args, ""));
        call.try_as_basic_value().basic().unwrap_or_else(|| result.const_zero())
    }

    // Memory.

    /// The address `bytes` beyond a pointer.
    pub fn offset(&self, base: PointerValue<'c>, bytes: IntValue<'c>) -> PointerValue<'c> {
        if bytes.get_sign_extended_constant() == Some(0) {
            return base;
        }
        self.tick();
        // SAFETY: a byte offset with one index is a well-formed address computation for every pointer; it is not
        // `inbounds`, so intermediate sums may leave the object.
        built(unsafe { self.builder.build_gep(self.ctx.i8_type(), base, &[bytes], "") })
    }

    /// Pointers to the elements `base[indices]`.
    pub fn element_pointers(&self, t: T<'c>, base: PointerValue<'c>, indices: VectorValue<'c>) -> V<'c> {
        self.tick();
        let name = c"";
        // SAFETY: all references come from this module's context, which outlives the call; a vector of indices into
        // a scalar element type is a well-formed address computation.
        unsafe {
            let mut index = [indices.as_value_ref()];
            let value = inkwell::llvm_sys::core::LLVMBuildGEP2(
                self.builder.as_mut_ptr(),
                t.as_type_ref(),
                base.as_value_ref(),
                index.as_mut_ptr(),
                1,
                name.as_ptr(),
            );
            VectorValue::new(value).into()
        }
    }

    /// Memory on the stack: `count` elements of a type.
    pub fn alloca(&self, t: T<'c>, count: u64) -> PointerValue<'c> {
        self.tick();
        built(self.builder.build_array_alloca(t, self.i64().const_int(count, false), ""))
    }

    pub fn load(&self, t: T<'c>, at: PointerValue<'c>, align: u32, invariant: bool) -> V<'c> {
        self.tick();
        let v = built(self.builder.build_load(t, at, ""));
        if let Some(i) = v.as_instruction_value() {
            let _ = i.set_alignment(align);
            if invariant {
                let _ = i.set_metadata(self.ctx.metadata_node(&[]), self.invariant_kind);
            }
        }
        v
    }

    pub fn store(&self, v: V<'c>, at: PointerValue<'c>, align: u32) -> InstructionValue<'c> {
        self.tick();
        let i = built(self.builder.build_store(at, v));
        let _ = i.set_alignment(align);
        i
    }

    /// Loads the lanes whose mask bit is set; the others are zero.
    pub fn masked_load(&self, t: T<'c>, at: PointerValue<'c>, align: u32, mask: V<'c>) -> V<'c> {
        let align = self.ctx.i32_type().const_int(u64::from(align), false).into();
        let args = [at.into(), align, mask, t.const_zero()];
        self.intrinsic_over("llvm.masked.load", t, &[t, self.ptr()], &args)
    }

    /// Stores the lanes whose mask bit is set.
    pub fn masked_store(&self, v: V<'c>, at: PointerValue<'c>, align: u32, mask: V<'c>) {
        let t = v.get_type();
        let align = self.ctx.i32_type().const_int(u64::from(align), false).into();
        self.intrinsic_over("llvm.masked.store", t, &[t, self.ptr()], &[v, at.into(), align, mask]);
    }

    /// Asks for a line of the second cache level, to be read soon.
    pub fn prefetch(&self, at: PointerValue<'c>) {
        let number = |v| self.ctx.i32_type().const_int(v, false).into();
        let (read, second_level, data) = (number(0), number(2), number(1));
        let ptr = self.ptr();
        self.intrinsic_over("llvm.prefetch", ptr, &[ptr], &[at.into(), read, second_level, data]);
    }

    /// Loads from a vector of pointers where the mask bit is set; the others are zero.
    pub fn gather(&self, t: T<'c>, pointers: V<'c>, align: u32, mask: V<'c>) -> V<'c> {
        let align = self.ctx.i32_type().const_int(u64::from(align), false).into();
        let args = [pointers, align, mask, t.const_zero()];
        self.intrinsic_over("llvm.masked.gather", t, &[t, pointers.get_type()], &args)
    }

    /// Stores to a vector of pointers where the mask bit is set.
    pub fn scatter(&self, v: V<'c>, pointers: V<'c>, align: u32, mask: V<'c>) {
        let t = v.get_type();
        let align = self.ctx.i32_type().const_int(u64::from(align), false).into();
        self.intrinsic_over("llvm.masked.scatter", t, &[t, pointers.get_type()], &[v, pointers, align, mask]);
    }

    // Control.

    pub fn block(&self, function: FunctionValue<'c>, name: &str) -> BasicBlock<'c> {
        self.ctx.append_basic_block(function, name)
    }

    pub fn here(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().expect("the emitter positions the builder before it builds")
    }

    pub fn goto(&self, block: BasicBlock<'c>) {
        self.count_in_block.set(0);
        self.builder.position_at_end(block);
    }

    pub fn br(&self, to: BasicBlock<'c>) -> InstructionValue<'c> {
        built(self.builder.build_unconditional_branch(to))
    }

    pub fn cond_br(&self, c: V<'c>, then: BasicBlock<'c>, otherwise: BasicBlock<'c>) {
        built(self.builder.build_conditional_branch(c.into_int_value(), then, otherwise));
    }

    pub fn phi(&self, t: T<'c>) -> PhiValue<'c> {
        self.tick();
        built(self.builder.build_phi(t, ""))
    }

    /// The next value of a loop variable.
    pub fn increment(&self, v: IntValue<'c>) -> IntValue<'c> {
        self.tick();
        built(self.builder.build_int_nsw_add(v, self.int(1), ""))
    }

    pub fn ret(&self) {
        built(self.builder.build_return(None));
    }

    /// A place in the current block where instructions can be added later; removed by [`Ops::erase`].
    pub fn marker(&self) -> InstructionValue<'c> {
        let function = Intrinsic::find("llvm.donothing")
            .and_then(|i| i.get_declaration(&self.module, &[]))
            .expect("the emitter only names intrinsics of this LLVM");
        let call = built(self.builder.build_call(function, &[], ""));
        call.try_as_basic_value().instruction().expect("llvm.donothing returns nothing")
    }

    /// Removes an instruction without result.
    pub fn erase(&self, instruction: InstructionValue<'c>) {
        instruction.erase_from_basic_block();
    }

    /// Emits before an instruction, then returns to the end of the current block.
    pub fn before<R>(&self, at: InstructionValue<'c>, emit: impl FnOnce() -> R) -> R {
        let here = self.here();
        self.builder.position_before(&at);
        let out = emit();
        self.builder.position_at_end(here);
        out
    }
}

/// Number of lanes; 1 for scalars.
pub fn lanes(v: V<'_>) -> u32 {
    match v {
        V::VectorValue(v) => v.get_type().get_size(),
        _ => 1,
    }
}

/// The float that a scalar constant is; `None` for anything else.
pub fn splat_constant(v: V<'_>) -> Option<f64> {
    match v {
        V::FloatValue(v) => v.get_constant().map(|(value, _)| value),
        _ => None,
    }
}

/// Whether the value is a constant.
pub fn is_const(v: V<'_>) -> bool {
    match v {
        V::IntValue(v) => v.is_const(),
        V::FloatValue(v) => v.is_const(),
        V::VectorValue(v) => v.is_const(),
        _ => false,
    }
}
