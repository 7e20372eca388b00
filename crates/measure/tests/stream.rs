//! Streams of candidates: every result comes once, whichever way compiling and timing share the cores.
#![cfg(target_arch = "x86_64")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Workshop, doubled};
use talweg_measure::{Finished, MeasureOptions, Sampling, Sink};

/// Keeps causes by position, and ends after so many.
struct Causes {
    most: usize,
    seen: BTreeMap<usize, String>,
}

impl Sink for Causes {
    fn sampling(&mut self) -> Option<Sampling> {
        (self.seen.len() < self.most).then(|| Sampling { budget_seconds: 1e-3, ..Sampling::default() })
    }

    fn finished(&mut self, finished: Finished) {
        let cause = match &finished.outcome {
            Ok((built, ran)) => {
                assert!(!built.object.is_empty() && !ran.samples.seconds.is_empty());
                assert!(finished.compile_seconds > 0.0);
                "fine".into()
            }
            Err(error) => error.cause().into_owned(),
        };
        assert_eq!(self.seen.insert(finished.at, cause), None, "a result came twice");
    }
}

const NAMES: [&str; 7] = ["good", "wrong", "build_abort", "segfault", "good", "build_panic", "good"];
const CAUSES: [&str; 7] =
    ["fine", "wrong-result", "build-crash-SIGABRT", "run-crash-SIGSEGV", "fine", "build", "fine"];

/// The causes of a stream over `count` candidates, and how many were made.
fn stream(count: usize, most: usize, change: fn(&mut MeasureOptions)) -> (Vec<String>, usize) {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| {
        change(options);
        (options.build_timeout, options.run_timeout) = (Duration::from_secs(600), Duration::from_secs(600));
    });
    let mut sink = Causes { most, seen: BTreeMap::new() };
    let made = AtomicUsize::new(0);
    let make = |at: usize| {
        made.fetch_add(1, Ordering::Relaxed);
        match at % 9 {
            7 => Err("it has no program".to_string()),
            8 => panic!("making it goes wrong"),
            n => Ok(doubled(NAMES[n])),
        }
    };
    let phases = measurer.stream(&workshop.task(), count, &make, &mut sink);
    assert!(phases.building > 0.0 && phases.timing > 0.0);
    (sink.seen.into_values().collect(), made.into_inner())
}

/// One thread, pinned: where there is another core, it compiles meanwhile.
fn overlapping(options: &mut MeasureOptions) {
    options.pin = true;
}

fn taking_turns(options: &mut MeasureOptions) {
    options.pin = false;
}

#[test]
fn every_candidate_has_its_own_result() {
    let expected: Vec<&str> = CAUSES.into_iter().chain(["instantiate"; 2]).cycle().take(21).collect();
    for change in [overlapping, taking_turns] {
        assert_eq!(stream(21, usize::MAX, change), (expected.iter().map(|c| c.to_string()).collect(), 21));
    }
    let workshop = Workshop::new();
    let mut sink = Causes { most: 1, seen: BTreeMap::new() };
    workshop.measurer(overlapping).stream(&workshop.task(), 0, &|_| Ok(doubled("good")), &mut sink);
    assert!(sink.seen.is_empty());
}

#[test]
fn a_sink_that_wants_no_more_ends_the_stream() {
    for change in [overlapping, taking_turns] {
        let (seen, made) = stream(500, 3, change);
        assert_eq!(seen.len(), 3);
        assert!(made < 100, "{made} were made");
    }
}
