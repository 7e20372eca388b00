//! Math functions.

use talweg_ir::MathOp;

use crate::emitter::Emitter;
use crate::ops::V;

impl<'c, 'p> Emitter<'c, 'p> {
    /// A function of one f32 operand, scalar or vector.
    pub fn math(&mut self, op: MathOp, x: V<'c>) -> V<'c> {
        let o = &self.o;
        let native = |name: &'static str| o.intrinsic(name, x.get_type(), &[x]);
        match op {
            MathOp::Neg => o.fneg(x),
            MathOp::Abs => native("llvm.fabs"),
            MathOp::Sqrt => native("llvm.sqrt"),
            MathOp::Rsqrt => o.fdiv(o.f32_like(1.0, x), native("llvm.sqrt")),
            MathOp::Floor => native("llvm.floor"),
            MathOp::Ceil => native("llvm.ceil"),
            MathOp::Round => native("llvm.roundeven"),
            _ => x,
        }
    }

    /// `a` to the power of `b`.
    pub fn power(&mut self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.lane_by_lane(a, b, |e, x, y| e.o.call_c("powf", &[x, y], e.o.ctx.f32_type().into()))
    }
}
