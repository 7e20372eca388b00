//! Conditions under which reads happen: the sides of a guarding `select`.

use std::collections::HashMap;

use talweg_expr::Expr;

use crate::emitter::{Emit, Emitter};
use crate::ops::V;

/// A condition in force.
#[derive(Clone)]
pub struct Guard<'c> {
    /// As written, so that it can be resolved again lane by lane.
    pub condition: Expr,
    /// Whether reads happen when it holds, or when it does not.
    pub holds: bool,
    value: V<'c>,
}

/// The conditions in force, outermost first.
#[derive(Default)]
pub struct Guards<'c> {
    stack: Vec<Guard<'c>>,
    resolved: Vec<(Expr, bool)>,
    ids: HashMap<Vec<(Expr, bool)>, u32>,
}

impl<'c> Guards<'c> {
    /// A number that tells different sets of conditions apart; 0 when there are none.
    pub fn id(&mut self) -> u32 {
        if self.stack.is_empty() {
            return 0;
        }
        let next = self.ids.len() as u32 + 1;
        *self.ids.entry(self.resolved.clone()).or_insert(next)
    }
}

impl<'c, 'p> Emitter<'c, 'p> {
    /// Emits with one more condition in force.
    pub fn guarded<R>(
        &mut self,
        condition: &Expr,
        holds: bool,
        emit: impl FnOnce(&mut Self) -> Emit<R>,
    ) -> Emit<R> {
        let resolved = self.env.resolve(condition);
        if resolved.as_bool().is_some() {
            return emit(self);
        }
        let truth = self.lane_index(&resolved)?;
        let value = if holds { truth } else { self.o.not(truth) };
        self.frame.guards.stack.push(Guard { condition: condition.clone(), holds, value });
        self.frame.guards.resolved.push((resolved, holds));
        let out = emit(self);
        self.frame.guards.stack.pop();
        self.frame.guards.resolved.pop();
        out
    }

    /// All conditions in force as one value: a bit, or a mask when one of them differs between lanes.
    pub fn guard_value(&mut self) -> Option<V<'c>> {
        let values: Vec<V> = self.frame.guards.stack.iter().map(|g| g.value).collect();
        values.into_iter().reduce(|a, b| self.o.and(a, b))
    }

    /// Emits for one lane of the current vector, in scalar code, with the conditions evaluated for that lane.
    pub fn in_lane<R>(&mut self, lane: u32, emit: impl FnOnce(&mut Self) -> Emit<R>) -> Emit<R> {
        let (Some(var), Some(vector)) = (self.env.lane().cloned(), self.frame.vector) else {
            return emit(self);
        };
        let base = self.env.lane_base();
        self.frame.vector = None;
        self.env.unbind(&var);
        self.env.bind_const(&var, base + i64::from(lane));
        let stack = std::mem::take(&mut self.frame.guards.stack);
        let resolved = std::mem::take(&mut self.frame.guards.resolved);
        let out = self.under(&stack, emit);
        self.frame.guards.stack = stack;
        self.frame.guards.resolved = resolved;
        self.env.unbind(&var);
        self.env.bind_lanes(&var, base, i64::from(vector.lanes));
        self.frame.vector = Some(vector);
        out
    }

    fn under<R>(&mut self, guards: &[Guard<'c>], emit: impl FnOnce(&mut Self) -> Emit<R>) -> Emit<R> {
        for g in guards {
            let resolved = self.env.resolve(&g.condition);
            if resolved.as_bool().is_some() {
                continue;
            }
            let truth = self.lane_index(&resolved)?;
            let value = if g.holds { truth } else { self.o.not(truth) };
            self.frame.guards.stack.push(Guard { condition: g.condition.clone(), holds: g.holds, value });
            self.frame.guards.resolved.push((resolved, g.holds));
        }
        emit(self)
    }
}
