//! Many candidates in a row: the next ones are compiled while one is timed, on cores that timing leaves free.
//!
//! Compiling on another core was measured to disturb timing less than the timings vary by themselves, so whenever runs
//! leave a core free (fewer threads than cores, and pinned), the builders of these cores never wait. A core that runs
//! need compiles too, but only while nothing is ready to be timed. When runs need all cores, compiling and timing take
//! turns, a few candidates each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use talweg_ir::Nest;
use talweg_runtime::affinity::pin_current_thread;

use crate::error::MeasureError;
use crate::pool::{Built, Measurer, Ran, Slot, lock};
use crate::sampling::Sampling;
use crate::task::Task;

/// Candidates compiled at a time when compiling and timing take turns, at most; the first turns are shorter, so that the
/// first candidate need not wait for others.
const TURN: usize = 8;
/// Compiled candidates that wait to be timed, at most, for each builder: what an early end throws away.
const AHEAD: usize = 4;

/// What became of a candidate.
#[derive(Debug)]
pub struct Finished {
    /// Its position.
    pub at: usize,
    /// How long compiling took; zero if it failed.
    pub compile_seconds: f64,
    /// The compiled candidate with its times, or why there are none.
    pub outcome: Result<(Built, Ran), MeasureError>,
}

/// Who wants the candidates measured.
pub trait Sink {
    /// How to time the next candidate; `None` ends the stream.
    fn sampling(&mut self) -> Option<Sampling>;

    /// Takes a result.
    fn finished(&mut self, finished: Finished);
}

/// Where the time of a stream went, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Phases {
    /// Nothing was timed, for nothing was ready.
    pub building: f64,
    /// Candidates were checked and timed.
    pub timing: f64,
}

/// A program, or why there is none.
pub type Made = Result<Nest, String>;

impl Measurer {
    /// Makes, builds, checks and times `count` candidates and hands each result to the sink, roughly in their order.
    /// `make` is called once for each candidate, on threads of its own.
    pub fn stream(
        &self,
        task: &Task,
        count: usize,
        make: &(dyn Fn(usize) -> Made + Sync),
        sink: &mut dyn Sink,
    ) -> Phases {
        let line = Line { measurer: self, make, state: Mutex::default(), changed: Condvar::new() };
        let free = self.free.len().min(self.build_slots.len());
        let mut phases = Phases::default();
        if free == 0 {
            let (mut from, mut turn) = (0, self.build_slots.len().clamp(1, TURN));
            while from < count && line.turn(task, from..count.min(from + turn), sink, &mut phases) {
                from += turn;
                turn = (2 * turn).min(TURN);
            }
            return phases;
        }
        lock_state(&line.state).end = count;
        std::thread::scope(|scope| {
            for (slot, core) in self.build_slots.iter().zip(&self.free) {
                let line = &line;
                scope.spawn(move || {
                    // Making the program belongs off the timed cores too; failing to move there costs little.
                    let _ = pin_current_thread(*core);
                    line.build_ahead(slot, AHEAD * free);
                });
            }
            line.time_all(task, self.build_slots.get(free), sink, &mut phases);
            lock_state(&line.state).end = 0;
            line.changed.notify_all();
        });
        phases
    }
}

/// Candidates on their way from the builders to the run worker.
struct Line<'a> {
    measurer: &'a Measurer,
    make: &'a (dyn Fn(usize) -> Made + Sync),
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next candidate to build.
    next: usize,
    /// One beyond the last to build.
    end: usize,
    /// Candidates being built.
    building: usize,
    /// Built, and not yet timed.
    ready: BTreeMap<usize, Result<Built, MeasureError>>,
}

impl State {
    /// The next candidate to build, if any.
    fn take(&mut self) -> Option<usize> {
        let at = self.next;
        (at < self.end).then(|| {
            self.next += 1;
            self.building += 1;
            at
        })
    }
}

impl Line<'_> {
    fn build(&self, slot: &mut Slot, at: usize) -> Result<Built, MeasureError> {
        let made = catch_unwind(AssertUnwindSafe(|| (self.make)(at)));
        let made =
            made.unwrap_or_else(|_| Err("making it panicked, which is a defect; please report it".into()));
        let nest = made.map_err(|text| MeasureError::Unmade { text })?;
        self.measurer.build_on(slot, &nest)
    }

    fn deliver(&self, at: usize, built: Result<Built, MeasureError>) {
        let mut state = lock_state(&self.state);
        state.building -= 1;
        state.ready.insert(at, built);
        drop(state);
        self.changed.notify_all();
    }

    /// A builder on a free core: builds until there is nothing left to build, but not too far ahead.
    fn build_ahead(&self, slot: &Mutex<Slot>, ahead: usize) {
        let mut slot = lock(slot);
        loop {
            let mut state = lock_state(&self.state);
            while state.ready.len() >= ahead && state.next < state.end {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(at) = state.take() else { return };
            drop(state);
            self.deliver(at, self.build(&mut slot, at));
        }
    }

    /// Times what is ready; builds on the timed core, on a slot that is kept for it, while nothing is.
    fn time_all(&self, task: &Task, slot: Option<&Mutex<Slot>>, sink: &mut dyn Sink, phases: &mut Phases) {
        loop {
            let begin = Instant::now();
            let Some((at, built)) = self.next_built(slot) else { return };
            let ready = Instant::now();
            phases.building += (ready - begin).as_secs_f64();
            let goes_on = self.time(task, at, built, sink);
            phases.timing += ready.elapsed().as_secs_f64();
            if !goes_on {
                return;
            }
        }
    }

    /// The next built candidate; `None` after the last.
    fn next_built(&self, slot: Option<&Mutex<Slot>>) -> Option<(usize, Result<Built, MeasureError>)> {
        loop {
            let mut state = lock_state(&self.state);
            if let Some(first) = state.ready.pop_first() {
                drop(state);
                self.changed.notify_all();
                return Some(first);
            }
            if let Some(slot) = slot
                && let Some(at) = state.take()
            {
                drop(state);
                self.deliver(at, self.build(&mut lock(slot), at));
                continue;
            }
            if state.building == 0 && state.next >= state.end {
                return None;
            }
            drop(self.changed.wait(state));
        }
    }

    /// Times one candidate; false when the sink wants no more.
    fn time(&self, task: &Task, at: usize, built: Result<Built, MeasureError>, sink: &mut dyn Sink) -> bool {
        let Some(sampling) = sink.sampling() else { return false };
        let compile_seconds = built.as_ref().map_or(0.0, |b| b.compile_seconds);
        let outcome = built.and_then(|built| {
            let ran = self.measurer.run_with(task, &built, &sampling)?;
            Ok((built, ran))
        });
        sink.finished(Finished { at, compile_seconds, outcome });
        true
    }

    /// Builds some candidates on all builders, then times them; false when the sink wants no more.
    fn turn(
        &self,
        task: &Task,
        part: std::ops::Range<usize>,
        sink: &mut dyn Sink,
        phases: &mut Phases,
    ) -> bool {
        let begin = Instant::now();
        *lock_state(&self.state) = State { next: part.start, end: part.end, ..State::default() };
        std::thread::scope(|scope| {
            for slot in self.measurer.build_slots.iter().take(part.len()) {
                scope.spawn(move || self.build_ahead(slot, usize::MAX));
            }
        });
        let built = Instant::now();
        phases.building += (built - begin).as_secs_f64();
        let ready = std::mem::take(&mut lock_state(&self.state).ready);
        let goes_on = ready.into_iter().all(|(at, built)| self.time(task, at, built, sink));
        phases.timing += built.elapsed().as_secs_f64();
        goes_on
    }
}

fn lock_state(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
