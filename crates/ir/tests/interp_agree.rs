//! The two interpreters agree: a random scalar evaluated in blocks of lanes and one element at a time.

use proptest::prelude::*;
use talweg_expr::{Expr, Symbol};
use talweg_ir::{
    ArithOp, Array, Buffer, DType, Dag, Loop, LoopKind, MathOp, Nest, Reducer, Role, Scalar, Stmt, TensorId,
    compare, eval_dag, run_nest,
};

const ROWS: i64 = 3;
const COLS: i64 = 270;
const STEPS: i64 = 4;

/// Draws choices from a list of random numbers.
struct Choices(Vec<u32>);

impl Choices {
    fn below(&mut self, n: u32) -> u32 {
        self.0.pop().unwrap_or(0) % n
    }

    fn index(&mut self, depth: u32) -> Expr {
        let var = [Expr::var("i"), Expr::var("j"), Expr::var("k")][self.below(3) as usize].clone();
        match if depth == 0 { 0 } else { self.below(7) } {
            0 => var,
            1 => self.index(depth - 1) + self.index(depth - 1),
            2 => self.index(depth - 1) * i64::from(self.below(5)) - i64::from(self.below(9)),
            3 => self.index(depth - 1).floor_div(i64::from(self.below(4)) + 2),
            4 => self.index(depth - 1).rem(i64::from(self.below(4)) + 2),
            5 => Expr::max(&self.index(depth - 1), self.index(depth - 1)),
            _ => Expr::select(self.condition(), self.index(depth - 1), self.index(depth - 1)),
        }
    }

    fn condition(&mut self) -> Expr {
        let (a, b) = (self.index(1), self.index(1));
        match self.below(5) {
            0 => a.lt(&b),
            1 => a.le(&b),
            2 => a.eq_expr(&b),
            3 => a.lt(&Expr::int(20)).and(&Expr::int(3).le(&b)),
            _ => a.lt(&Expr::int(20)).or(&Expr::int(3).le(&b)),
        }
    }

    /// A read guarded wherever its index is not inside.
    fn guarded_read(&mut self, dtype: DType) -> Scalar {
        let (row, col) = (self.index(1), self.index(2));
        let zero = Expr::int(0);
        let rows = zero.le(&row).and(&row.lt(&Expr::int(ROWS)));
        let inside = rows.and(&zero.le(&col)).and(&col.lt(&Expr::int(COLS)));
        let read = Scalar::Read(TensorId(0), vec![row, col]);
        Scalar::select(Scalar::predicate(inside), read, Scalar::constant(3.0, dtype))
    }

    fn value(&mut self, dtype: DType, depth: u32) -> Scalar {
        if depth == 0 {
            return match self.below(4) {
                0 => Scalar::constant(f64::from(self.below(7)), dtype),
                1 => Scalar::Index(self.index(2), dtype),
                2 => Scalar::Read(TensorId(0), vec![Expr::var("i"), Expr::var("j")]),
                _ => self.guarded_read(dtype),
            };
        }
        match self.below(6) {
            0 => {
                let op = [MathOp::Neg, MathOp::Abs, MathOp::Floor][self.below(3) as usize];
                Scalar::unary(op, self.value(dtype, depth - 1))
            }
            1 => {
                let (a, b) = (self.value(dtype, depth - 1), self.value(dtype, depth - 1));
                let op = [ArithOp::Lt, ArithOp::Le, ArithOp::Eq, ArithOp::Ne][self.below(4) as usize];
                let c = Scalar::binary(op, a.clone(), b.clone());
                Scalar::select(c, b, a)
            }
            2 => {
                let via = DType::ALL[self.below(8) as usize];
                self.value(dtype, depth - 1).cast(via).cast(dtype)
            }
            _ => {
                use ArithOp::{Add, Div, Max, Min, Mul, Rem, Sub};
                let op = [Add, Sub, Mul, Max, Min, Div, Rem][self.below(7) as usize];
                let a = self.value(dtype, depth - 1);
                Scalar::binary(op, a, self.value(dtype, depth - 1))
            }
        }
    }
}

fn check(dtype: DType, reducer: Option<Reducer>, body: &Scalar) -> Result<(), TestCaseError> {
    let x = Array::random(dtype, &[ROWS as usize, COLS as usize], 11);
    let mut dag = Dag::new("random");
    let input = dag.input("x", dtype, &[ROWS, COLS]);
    let axes = [("i", ROWS), ("j", COLS)];
    let out = match reducer {
        Some(r) => dag.reduce("y", &axes, r, &[("k", STEPS)], |_, _| body.clone()),
        None => dag.compute("y", &axes, |v| body.subst(&|s| (s.name() == "k").then(|| v[0].clone()))),
    };
    dag.mark_output(out);
    let want =
        eval_dag(&dag, &[(input, x.clone())]).map_err(|e| TestCaseError::fail(e.to_string()))?.remove(0).1;

    let at = |value: Scalar, update| {
        let indices = vec![Expr::var("i"), Expr::var("j")];
        Stmt::Store { buffer: TensorId(1), indices, value, update }
    };
    let each = |var: &str, extent: i64, kind, body| {
        Stmt::For(Loop { var: Symbol::var(var), extent: Expr::int(extent), kind, body })
    };
    let shape = vec![Expr::int(ROWS), Expr::int(COLS)];
    let buffer = |name: &str, role| Buffer { name: name.into(), dtype, shape: shape.clone(), role };
    let inner = match reducer {
        Some(r) => vec![
            at(r.identity(dtype), None),
            each("k", STEPS, LoopKind::Serial, vec![at(body.clone(), Some(r))]),
        ],
        None => vec![at(body.subst(&|s| (s.name() == "k").then(|| Expr::var("i"))), None)],
    };
    let loops = each("i", ROWS, LoopKind::Parallel, vec![each("j", COLS, LoopKind::Vectorize, inner)]);
    let buffers = vec![buffer("x", Role::Input), buffer("y", Role::Output)];
    let nest = Nest { name: "random".into(), buffers, packs: vec![], body: vec![loops] };
    let mut args = [(TensorId(0), x), (TensorId(1), Array::zeros(dtype, &[ROWS as usize, COLS as usize]))];
    run_nest(&nest, &mut args).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let difference = compare(&want, &args[1].1);
    prop_assert!(difference.within(0.0), "{}: {:?}", difference, body);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lanes_and_single_elements(
        dtype in proptest::sample::select(vec![DType::I8, DType::U8, DType::I32, DType::I64]),
        reducer in proptest::sample::select(
            vec![None, Some(Reducer::Sum), Some(Reducer::Prod), Some(Reducer::Max), Some(Reducer::Min)]),
        choices in proptest::collection::vec(any::<u32>(), 200),
        depth in 0u32..4,
    ) {
        let body = Choices(choices).value(dtype, depth);
        check(dtype, reducer, &body)?;
    }

    #[test]
    fn lanes_and_single_elements_of_floats(
        dtype in proptest::sample::select(vec![DType::F32, DType::F16, DType::BF16]),
        choices in proptest::collection::vec(any::<u32>(), 200),
        depth in 0u32..4,
    ) {
        let body = Choices(choices).value(dtype, depth);
        check(dtype, None, &body)?;
    }
}
