//! Reports of databases: what they hold, and how large their pages are.

mod common;

use common::{begin, crown, record, search, target, task};
use talweg_db::{Database, NewRecord, TargetKey};
use talweg_report::report::Report;
use talweg_report::{ReportError, RunFacts, Selection, page, peers};

fn report(db: &Database, runs: &[i64]) -> Report {
    Selection::of(db, runs).unwrap().collect(db, 1_000).unwrap().report()
}

#[test]
fn a_run_becomes_curves_samples_knobs_and_errors() {
    let mut db = Database::open_in_memory().unwrap();
    let tasks = [task(64), task(128)];
    let run = search(&mut db, "ansor", &tasks, 600, 1);
    crown(&mut db, &tasks[0]);
    let report = report(&db, &[run.get()]);

    assert_eq!(report.title, "matmul:0 and 1 more tasks");
    assert_eq!((report.machine.cpu.as_str(), report.threads), ("Test CPU", 1));
    assert!(report.machine.facts.contains(&("L2".into(), "1 MiB".into())));
    assert_eq!(report.runs.len(), 1);
    assert_eq!((report.runs[0].trials, report.runs[0].failed), (600, 7));
    assert_eq!(report.runs[0].seconds, 6.99);
    assert!(report.runs[0].environment.contains(&("peak GFLOP/s".into(), "120.5".into())));
    assert_eq!((report.measured, report.samples.len()), (593, 593));

    let first = &report.tasks[0];
    assert_eq!((first.name.as_str(), first.weight, first.flops), ("matmul:0", 1.0, 2e6));
    assert_eq!(first.bytes, 3.0 * 64.0 * 64.0 * 4.0);
    assert_eq!(first.shapes, "A[64,64] B[64,64] matmul[64,64]");
    assert_eq!((first.default_us, first.best_us, first.proven), (Some(800.0), Some(200.0), true));
    assert!(first.trace.starts_with("# candidate 0:16,"), "{}", first.trace);
    let second = &report.tasks[1];
    assert!(!second.proven && second.default_us == Some(900.0) && second.best_us < Some(260.0));

    for task in &report.tasks {
        let points = &task.curves[0].points;
        assert_eq!(points[0], (0.5, 900.0));
        assert!(
            points.len() > 3 && points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 > w[1].1),
            "{points:?}"
        );
        assert_eq!(task.importance.knobs[0].name, "matmul.i 1/2", "{:?}", task.importance);
        assert_eq!(task.importance.knobs[0].best, Some(16.0));
        assert!(task.importance.explained > 0.7, "{:?}", task.importance);
        assert!(task.accuracy.unwrap().rank > 0.8 && task.scales.is_empty());
    }
    assert!(report.accuracy.unwrap().pairs > 0.8);
    let sample = report.samples.iter().find(|s| s.4.is_some()).unwrap();
    assert!(sample.5.starts_with("0:") && (0.3..3.0).contains(&(sample.4.unwrap() / sample.3)), "{sample:?}");

    let counts: Vec<(&str, usize)> = report.errors.iter().map(|e| (e.cause.as_str(), e.count)).collect();
    assert_eq!(counts, [("timeout", 4), ("crash", 3)]);
    assert!(report.errors[0].text.contains("</script> & more"));
    assert_eq!(report.errors.iter().flat_map(|e| &e.tasks).map(|t| t.1).sum::<usize>(), 7);
}

#[test]
fn a_network_gives_its_name() {
    let mut db = Database::open_in_memory().unwrap();
    search(&mut db, "ansor", &[task(64), task(128)], 10, 1);
    let mut collector = Selection::of(&db, &[]).unwrap().collect(&db, 1_000).unwrap();
    let facts = RunFacts { command: "tune nets/a.onnx b.onnx --budget 5m".into(), ..RunFacts::default() };
    collector.add_run(facts);
    assert_eq!(collector.report().title, "a, b");
}

#[test]
fn runs_are_told_apart_and_scores_without_a_unit_get_a_scale() {
    let mut db = Database::open_in_memory().unwrap();
    let tasks = [task(64)];
    let first = search(&mut db, "ansor", &tasks, 100, 1);
    let second = search(&mut db, "ansor", &tasks, 100, 2);
    search(&mut db, "felix", &tasks, 100, 3);
    let report = report(&db, &[]);
    let labels: Vec<&str> = report.runs.iter().map(|run| run.label.as_str()).collect();
    assert_eq!(labels, [&format!("ansor #{first}"), &format!("ansor #{second}"), "felix"]);
    assert_eq!(report.tasks.len(), 1);
    assert_eq!(report.tasks[0].curves.len(), 3);
    let scales = &report.tasks[0].scales;
    assert_eq!(scales.len(), 1);
    assert!(scales[0].0 == 2 && scales[0].2 < 0.0, "larger scores are faster: {scales:?}");
}

#[test]
fn a_page_of_5000_samples_is_below_a_megabyte() {
    let mut db = Database::open_in_memory().unwrap();
    let tasks: Vec<_> = (0..20).map(|at| task(32 + 8 * at)).collect();
    search(&mut db, "ansor", &tasks, 5000, 7);
    tasks.iter().for_each(|task| crown(&mut db, task));
    let report = report(&db, &[]);
    assert_eq!((report.measured, report.samples.len()), (4948, 4948));
    let text = page(&report);
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
    assert!(text.len() > 200_000, "{} bytes: where are the samples?", text.len());
}

#[test]
fn more_samples_than_fit_are_thinned_and_improvements_stay() {
    let mut db = Database::open_in_memory().unwrap();
    search(&mut db, "ansor", &[task(64)], 12_000, 7);
    let report = report(&db, &[]);
    assert!(report.measured > 11_000 && report.samples.len() == 6000);
    let best = report.tasks[0].best_us.unwrap();
    assert!(report.samples.iter().any(|s| s.3 == best));
    assert!(page(&report).len() < 1_000_000);
}

#[test]
fn records_without_moments_and_names_are_shown_as_well() {
    let mut db = Database::open_in_memory().unwrap();
    let run = begin(&mut db, "random", "");
    let started = db.run(run).unwrap().started;
    let old = |values, seconds, after| NewRecord {
        elapsed: None,
        when: Some(started + after),
        ..record(run, &task(64), values, Ok(seconds), 0.0)
    };
    db.insert_batch(&[old([1, 1, 1, 1], 2e-3, 4), old([2, 1, 1, 1], 1e-3, 9)]).unwrap();
    let report = report(&db, &[run.get()]);
    assert_eq!(report.tasks[0].name, "matmul");
    assert_eq!(report.tasks[0].flops, 2.0 * 64f64.powi(3));
    assert_eq!(report.tasks[0].curves[0].points, [(4.0, 2000.0), (9.0, 1000.0)]);
    assert_eq!((report.tasks[0].default_us, report.tasks[0].best_us), (None, Some(1000.0)));
    assert!(report.tasks[0].importance.missing.as_deref().unwrap().contains("2 good samples"));
    assert_eq!((report.accuracy, report.errors.len()), (None, 0));
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let mut db = Database::open_in_memory().unwrap();
    assert!(matches!(Selection::of(&db, &[]), Err(ReportError::NoRecords { .. })));
    let first = search(&mut db, "ansor", &[task(64)], 10, 1);
    let bare = begin(&mut db, "ansor", "");
    assert!(matches!(Selection::of(&db, &[bare.get()]), Err(ReportError::EmptyRun { .. })));
    let error = Selection::of(&db, &[99]).unwrap_err().to_string();
    assert!(error.contains("no run 99") && error.contains("talweg db runs"), "{error}");
    let elsewhere =
        NewRecord { target: TargetKey::new("other"), ..record(bare, &task(64), [1, 1, 1, 1], Ok(1e-3), 1.0) };
    db.insert_batch(&[elsewhere]).unwrap();
    let error = Selection::of(&db, &[first.get(), bare.get()]).unwrap_err().to_string();
    assert!(error.contains("another machine"), "{error}");
    let latest = Selection::of(&db, &[]).unwrap();
    assert_eq!(latest.runs.len(), 1);
    assert!(latest.target == target() || latest.target == TargetKey::new("other"));
}

#[test]
fn peers_are_read_in_both_forms() {
    let mut db = Database::open_in_memory().unwrap();
    search(&mut db, "ansor", &[task(64)], 10, 1);
    let selection = Selection::of(&db, &[]).unwrap();
    assert_eq!(selection.stored_roofs().unwrap().peak_gflops, 120.5);
    let collector = selection.collect(&db, 0).unwrap();
    let read = |text: &str| peers::peers(text, &collector);
    let bench = r#"{"model": "m", "rows": [{"name": "talweg", "median_ms": 1.0}, {"name": "torch", "median_ms": 2.5,
        "ratio": 2.5}, {"name": "openvino", "median_ms": null}], "not_timed": []}"#;
    let found = read(bench).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].us, found[0].task), ("torch", 2500.0, None));
    let list = read(r#"[{"name": "blas", "us": 180.5, "task": "matmul:0"}]"#).unwrap();
    assert_eq!((list[0].us, list[0].task), (180.5, Some(0)));
    for (bad, expected) in [
        ("nonsense", "not as expected"),
        (r#"{"rows": 3}"#, "not as expected"),
        (r#"[{"name": "a", "us": 0}]"#, "not above zero"),
        (r#"[{"name": "a", "us": 1, "task": "conv"}]"#, "which no run of the report has"),
    ] {
        let error = read(bad).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("--against"), "{error}");
    }
}
