//! A candidate that crashes, hangs, eats memory or computes nonsense costs one typed error, and the batch goes on.
#![cfg(target_arch = "x86_64")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Workshop, doubled, is_busy, is_running, wait_until};
use talweg_measure::{MeasureError, Stage, WorkerCommand};

#[test]
fn every_fault_is_reported_by_its_cause_and_good_candidates_are_measured() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| {
        options.build_timeout = Duration::from_secs(3);
        options.run_timeout = Duration::from_secs(3);
        options.memory_limit = 256 << 20;
    });
    let expected = [
        ("good", "ok"),
        ("endless", "run-timeout"),
        ("good", "ok"),
        ("segfault", "run-crash-SIGSEGV"),
        ("good", "ok"),
        ("illegal", "run-crash-SIGILL"),
        ("hoarder", "run-out-of-memory"),
        ("patient_hoarder", "run-out-of-memory"),
        ("good", "ok"),
        ("wrong", "wrong-result"),
        ("lazy", "wrong-result"),
        ("forgetful", "wrong-result"),
        ("overrun", "overrun"),
        ("scribbler", "run-crash-SIGSEGV"),
        ("good", "ok"),
        ("build_abort", "build-crash-SIGABRT"),
        ("build_exit", "build-exit"),
        ("build_panic", "build"),
        ("build_hang", "build-timeout"),
        ("build_hoard", "build-out-of-memory"),
        ("not_an_object", "mismatch"),
        ("good", "ok"),
    ];
    let nests: Vec<_> = expected.iter().map(|(name, _)| doubled(name)).collect();
    let results = measurer.measure_batch(&workshop.task(), &nests);
    let causes: Vec<_> = results
        .iter()
        .zip(&expected)
        .map(|(result, (name, _))| (*name, result.as_ref().map_or_else(|e| e.cause(), |_| "ok".into())))
        .collect();
    let wanted: Vec<_> = expected.iter().map(|(name, cause)| (*name, (*cause).into())).collect();
    assert_eq!(causes, wanted, "{results:#?}");

    let good = results[0].as_ref().unwrap();
    assert!(good.samples.median() > 0.0 && good.object_bytes > 0);
    assert_eq!(good.difference.as_ref().unwrap().max_rel_error, 0.0);
    let text = |at: usize| results[at].as_ref().unwrap_err().to_string();
    assert!(text(9).contains("B[7]") && text(9).contains("instead of"), "{}", text(9));
    assert!(text(17).contains("the builder panics"), "{}", text(17));
    assert!(text(12).contains("byte 1024 of B"), "{}", text(12));
}

#[test]
fn a_worker_killed_from_outside_is_not_the_candidates_fault() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| options.run_timeout = Duration::from_secs(60));
    measurer.start().unwrap();
    let run_worker = *measurer.worker_pids().last().unwrap();
    let killer = std::thread::spawn(move || {
        wait_until("the run worker is busy", || is_busy(run_worker));
        // SAFETY: sends a signal to a process of this test.
        unsafe { libc::kill(run_worker as i32, libc::SIGKILL) }
    });
    let results = measurer.measure_batch(&workshop.task(), &[doubled("endless"), doubled("good")]);
    assert_eq!(killer.join().unwrap(), 0);
    assert_eq!(
        results[0],
        Err(MeasureError::WorkerLost { signal: libc::SIGKILL, name: "SIGKILL", stage: Stage::Run })
    );
    assert!(results[1].is_ok(), "{results:?}");
}

#[test]
fn an_idle_worker_killed_from_outside_is_replaced_silently() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|_| {});
    measurer.start().unwrap();
    for pid in measurer.worker_pids() {
        // SAFETY: sends a signal to a process of this test.
        assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGKILL) }, 0);
        wait_until("the worker has ended", || !is_running(pid));
    }
    let results = measurer.measure_batch(&workshop.task(), &[doubled("good"), doubled("good")]);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[test]
fn workers_are_reused_and_recycled() {
    let workshop = Workshop::new();
    let nests = vec![doubled("good"); 6];
    let task = workshop.task();

    let reusing = workshop.measurer(|options| options.build_workers = 1);
    assert!(reusing.measure_batch(&task, &nests).iter().all(Result::is_ok));
    assert_eq!(reusing.workers_started(), 2);

    let recycling = workshop.measurer(|options| {
        options.build_workers = 1;
        options.recycle_after = 3;
    });
    let first: BTreeSet<u32> = {
        recycling.start().unwrap();
        recycling.worker_pids().into_iter().collect()
    };
    assert!(recycling.measure_batch(&task, &nests).iter().all(Result::is_ok));
    let last: BTreeSet<u32> = recycling.worker_pids().into_iter().collect();
    assert!(first.is_disjoint(&last));
    assert!(first.iter().all(|pid| !is_running(*pid)));
    // Three requests each: six builds are two workers; a run worker's first request is the task's data.
    assert_eq!(recycling.workers_started(), 2 + 3);
}

#[test]
fn chatter_of_a_builder_does_not_disturb_the_conversation() {
    let workshop = Workshop::new();
    std::fs::copy(workshop.path("good.o"), workshop.path("build_chatter.o")).unwrap();
    let measurer = workshop.measurer(|_| {});
    assert!(measurer.build(&doubled("build_chatter")).is_ok());
}

#[test]
fn candidates_that_do_not_fit_the_task_are_refused() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|_| {});
    let built = measurer.build(&doubled("good")).unwrap();
    let mut other = built.clone();
    other.kernel.arguments[0].name = "Z".into();
    let error = measurer.run(&workshop.task(), &other).unwrap_err();
    assert_eq!(error.cause(), "mismatch");
    assert!(error.to_string().contains("`Z`"), "{error}");
    let mut other = built.clone();
    other.kernel.arguments[0].shape = vec![128, 2];
    let error = measurer.run(&workshop.task(), &other).unwrap_err();
    assert!(error.to_string().contains("f32[256] in the task and f32[128, 2]"), "{error}");
    let mut other = built.clone();
    other.kernel.scratch_bytes = 1 << 50;
    assert_eq!(measurer.run(&workshop.task(), &other).unwrap_err().cause(), "run-out-of-memory");
    assert!(measurer.run(&workshop.task(), &built).is_ok());
}

#[test]
fn a_missing_worker_program_is_an_error_for_each_candidate() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| {
        options.command = WorkerCommand { program: "/nonexistent/program".into(), args: vec![] };
    });
    let results = measurer.measure_batch(&workshop.task(), &[doubled("good"), doubled("good")]);
    assert!(results.iter().all(|r| r.as_ref().is_err_and(|e| e.cause() == "spawn")), "{results:?}");
}

#[test]
fn dropping_the_pool_ends_its_workers() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|_| {});
    measurer.start().unwrap();
    let pids = measurer.worker_pids();
    assert!(pids.len() >= 2 && pids.iter().all(|pid| is_running(*pid)));
    drop(measurer);
    assert!(pids.iter().all(|pid| !is_running(*pid)));
}

#[test]
fn no_worker_survives_a_killed_parent() {
    let workshop = Workshop::new();
    std::fs::write(workshop.path("endless.nest"), doubled("endless").to_string()).unwrap();
    let mut parent = Command::new(env!("CARGO_BIN_EXE_talweg-measure-worker"))
        .arg("parent")
        .arg(workshop.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.map(Result::unwrap).take_while(|l| l != "ready").collect();
    let pids: Vec<u32> = lines.iter().map(|l| l.parse().unwrap()).collect();
    assert!(pids.len() >= 2);
    // The run worker is in a kernel that never looks at its standard input.
    wait_until("a worker is busy", || pids.iter().any(|pid| is_busy(*pid)));
    assert!(pids.iter().all(|pid| is_running(*pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("no worker survives", || pids.iter().all(|pid| !is_running(*pid)));
}
