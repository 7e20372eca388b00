//! The expression type and its hash-consing table.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use crate::symbol::Symbol;

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnaryOp {
    /// Logical negation.
    Not,
    /// Natural logarithm.
    Log,
    /// Natural exponential.
    Exp,
    /// Square root.
    Sqrt,
    /// Absolute value.
    Abs,
}

/// Operators of two operands. Subtraction is addition of a product with -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BinaryOp {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Real quotient.
    Div,
    /// Integer quotient rounded towards minus infinity.
    FloorDiv,
    /// Integer quotient rounded towards plus infinity.
    CeilDiv,
    /// Remainder of `FloorDiv`.
    Mod,
    /// Smaller of two.
    Min,
    /// Larger of two.
    Max,
    /// Real power.
    Pow,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Both.
    And,
    /// Either.
    Or,
}

/// The type of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ty {
    /// A 64-bit integer.
    Int,
    /// A 64-bit float.
    Real,
    /// A truth value, 0 or 1 when evaluated.
    Bool,
}

/// One node of an expression; children are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// An integer constant.
    Int(i64),
    /// A real constant, by its bits so that equality is exact.
    Real(u64),
    /// A truth constant.
    Bool(bool),
    /// A knob or a variable.
    Sym(Symbol),
    /// An operator of one operand.
    Unary(UnaryOp, Expr),
    /// An operator of two operands.
    Binary(BinaryOp, Expr, Expr),
    /// `select(condition, then, otherwise)`; only the chosen side has to be defined.
    Select(Expr, Expr, Expr),
}

pub(crate) struct Inner {
    node: Node,
    hash: u64,
    height: u32,
    ty: Ty,
}

/// A hash-consed expression: equal expressions share one node, so equality and hashing are O(1).
///
/// Expressions are built through the constructors of [`crate::build`] (and the `+ - *` operators), which keep
/// integer sums and products in a canonical polynomial form.
#[derive(Clone)]
pub struct Expr(Arc<Inner>);

const SHARDS: usize = 64;
type Bucket = Vec<Weak<Inner>>;
type Shard = Mutex<HashMap<u64, Bucket, BuildHasherDefault<Identity>>>;
static TABLE: LazyLock<[Shard; SHARDS]> = LazyLock::new(|| std::array::from_fn(|_| Shard::default()));

/// Keys of the table are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = mix(self.0, u64::from(*b));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// The hash does not depend on addresses, so orders derived from it are the same in every run.
fn node_hash(node: &Node) -> u64 {
    match node {
        Node::Int(v) => mix(1, *v as u64),
        Node::Real(v) => mix(2, *v),
        Node::Bool(v) => mix(3, u64::from(*v)),
        Node::Sym(s) => s.name().bytes().fold(mix(4, s.kind() as u64), |h, b| mix(h, u64::from(b))),
        Node::Unary(op, a) => mix(mix(5, *op as u64), a.0.hash),
        Node::Binary(op, a, b) => mix(mix(mix(6, *op as u64), a.0.hash), b.0.hash),
        Node::Select(c, a, b) => mix(mix(mix(7, c.0.hash), a.0.hash), b.0.hash),
    }
}

fn node_ty(node: &Node) -> Ty {
    let join = |a: &Expr, b: &Expr| if a.ty() == Ty::Real || b.ty() == Ty::Real { Ty::Real } else { Ty::Int };
    match node {
        Node::Int(_) | Node::Sym(_) => Ty::Int,
        Node::Real(_) => Ty::Real,
        Node::Bool(_) => Ty::Bool,
        Node::Unary(UnaryOp::Not, _) => Ty::Bool,
        Node::Unary(UnaryOp::Abs, a) => a.ty(),
        Node::Unary(..) => Ty::Real,
        Node::Binary(op, a, b) => match op {
            BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max => join(a, b),
            BinaryOp::FloorDiv | BinaryOp::CeilDiv | BinaryOp::Mod => Ty::Int,
            BinaryOp::Div | BinaryOp::Pow => Ty::Real,
            _ => Ty::Bool,
        },
        Node::Select(_, a, b) if a.ty() == Ty::Bool && b.ty() == Ty::Bool => Ty::Bool,
        Node::Select(_, a, b) => join(a, b),
    }
}

fn node_height(node: &Node) -> u32 {
    let below = match node {
        Node::Int(_) | Node::Real(_) | Node::Bool(_) | Node::Sym(_) => return 0,
        Node::Unary(_, a) => a.height(),
        Node::Binary(_, a, b) => a.height().max(b.height()),
        Node::Select(c, a, b) => c.height().max(a.height()).max(b.height()),
    };
    below.saturating_add(1)
}

impl Expr {
    /// Interns a node as it is, without simplification.
    pub(crate) fn intern(node: Node) -> Expr {
        let hash = node_hash(&node);
        let shard = &TABLE[(hash >> 58) as usize % SHARDS];
        // Upgraded references that turn out to be other nodes must be dropped after the lock is released:
        // dropping the last one takes the lock again.
        let mut others = Vec::new();
        let mut table = shard.lock().unwrap_or_else(|e| e.into_inner());
        let bucket = table.entry(hash).or_default();
        for weak in bucket.iter() {
            if let Some(inner) = weak.upgrade() {
                if inner.node == node {
                    return Expr(inner);
                }
                others.push(inner);
            }
        }
        let (ty, height) = (node_ty(&node), node_height(&node));
        let inner = Arc::new(Inner { node, hash, height, ty });
        bucket.push(Arc::downgrade(&inner));
        drop(table);
        drop(others);
        Expr(inner)
    }

    /// The node at the root of this expression.
    pub fn node(&self) -> &Node {
        &self.0.node
    }

    /// The type of the value.
    pub fn ty(&self) -> Ty {
        self.0.ty
    }

    /// How many operators lie on the longest path from the root to a leaf.
    pub fn height(&self) -> u32 {
        self.0.height
    }

    /// A hash that is the same in every run of the program.
    pub fn stable_hash(&self) -> u64 {
        self.0.hash
    }

    /// How many distinct nodes the process holds; for tests of memory use.
    pub fn live_nodes() -> usize {
        TABLE
            .iter()
            .map(|s| s.lock().unwrap_or_else(|e| e.into_inner()).values().map(Vec::len).sum::<usize>())
            .sum()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let shard = &TABLE[(self.hash >> 58) as usize % SHARDS];
        let mut table = shard.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(bucket) = table.get_mut(&self.hash) {
            bucket.retain(|w| w.strong_count() > 0);
            if bucket.is_empty() {
                table.remove(&self.hash);
            }
        }
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl Expr {
    /// A structural order that reads well in text: symbols by name first, then compound terms, constants last.
    ///
    /// `Expr` does not implement `Ord`: its `min` and `max` would take the place of [`Expr::min`] and [`Expr::max`]
    /// wherever these are called on an owned expression.
    pub fn order(&self, other: &Expr) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        fn rank(n: &Node) -> u8 {
            match n {
                Node::Sym(_) => 0,
                Node::Binary(..) => 1,
                Node::Unary(..) => 2,
                Node::Select(..) => 3,
                Node::Int(_) => 4,
                Node::Real(_) => 5,
                Node::Bool(_) => 6,
            }
        }
        match (self.node(), other.node()) {
            (Node::Sym(a), Node::Sym(b)) => a.cmp(b),
            (Node::Int(a), Node::Int(b)) => a.cmp(b),
            (Node::Real(a), Node::Real(b)) => f64::from_bits(*a).total_cmp(&f64::from_bits(*b)),
            (Node::Bool(a), Node::Bool(b)) => a.cmp(b),
            (Node::Unary(p, a), Node::Unary(q, b)) => p.cmp(q).then_with(|| a.order(b)),
            (Node::Binary(p, a, b), Node::Binary(q, c, d)) => {
                p.cmp(q).then_with(|| a.order(c)).then_with(|| b.order(d))
            }
            (Node::Select(a, b, c), Node::Select(d, e, f)) => {
                a.order(d).then_with(|| b.order(e)).then_with(|| c.order(f))
            }
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}
