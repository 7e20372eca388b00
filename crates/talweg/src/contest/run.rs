//! One finished run, and the folder of all of them.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use talweg_artifact::write_whole;
use talweg_search::objective::{Fork, Network};

use super::contestant::Contestant;
use super::playoff::Playoff;

/// What all runs of a comparison share. A file with settings that are not among these is of another version, and its run
/// may mean something else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Seconds of each run, from the start of its process; none where trials are counted.
    pub budget: Option<f64>,
    /// Candidates of each run, where they are counted in place of time.
    pub trials: Option<usize>,
    /// Threads of the operators' parallel loops.
    pub threads: usize,
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// Whether searches begin near the default schedule, as they do for users, or must find everything by themselves.
    #[serde(default)]
    pub from_default: bool,
    /// Whether runs use their whole budget, whatever is left to gain.
    #[serde(default)]
    pub to_the_end: bool,
}

fn whole() -> u32 {
    1
}

impl Settings {
    /// What the curves run over.
    pub fn unit(&self) -> &'static str {
        if self.simulated { "trials" } else { "seconds" }
    }
}

/// What is kept of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The operator's SPEC, or the path of a network's file.
    pub spec: String,
    /// The contestant's name.
    pub contestant: String,
    /// What names its random choices.
    pub seed: u64,
    /// What it shares with the others.
    pub settings: Settings,
    /// It had this part of the time that the reference took: half for 2.
    #[serde(default = "whole")]
    pub share: u32,
    /// Microseconds of its winner in the finals.
    pub best_us: f64,
    /// Microseconds of the default schedule in the same finals.
    pub default_us: f64,
    /// The fastest of its first batch, default schedule aside.
    pub first_batch_us: Option<f64>,
    /// Candidates it measured.
    pub trials: usize,
    /// Seconds from the start of its process to its end.
    pub seconds: f64,
    /// Why it ended.
    pub stopped_by: String,
    /// When it had a new best, in the unit of its settings, and that best in microseconds.
    pub curve: Vec<(f64, f64)>,
    /// The steps of what was best at each point of the curve; none for a network.
    pub curve_schedules: Vec<String>,
    /// The winner's steps; empty for a network.
    pub schedule: String,
    /// Where its time went.
    pub phases: Value,
}

/// Why runs cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum ContestError {
    /// A file or folder refuses.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{path} is not the result of a run: {text}; remove it, or give another --output")]
    Content {
        /// Which.
        path: String,
        /// What is wrong.
        text: String,
    },
    /// The folder holds runs with other settings.
    #[error("{path} was made with other settings ({found}, not {wanted}); give those, or another --output")]
    Settings {
        /// Which run.
        path: String,
        /// Its settings.
        found: String,
        /// Those of this comparison.
        wanted: String,
    },
    /// The search had no time to find anything, or anything for one of a network's tasks.
    #[error(
        "there was no time to measure a candidate, or one of every task of a network; give more than {limit}"
    )]
    Nothing {
        /// What it had.
        limit: String,
    },
    /// The tuner's answer lacks something.
    #[error("the tuner's report has no `{field}`; it printed: {text}")]
    Report {
        /// What is missing.
        field: &'static str,
        /// The beginning of what it printed.
        text: String,
    },
}

/// When a report has a new best, in the unit of the settings, and that best in microseconds.
fn curve_of(report: &Value, settings: &Settings) -> Option<Vec<(f64, f64)>> {
    let best = report["curve"].as_array()?.iter().map(|p| (p[0].as_f64(), p[1].as_f64()));
    let trials = report["curve_trials"].as_array()?.iter().map(Value::as_f64);
    let point = |((at, us), trial): ((Option<f64>, Option<f64>), Option<f64>)| {
        let at = if settings.simulated { trial } else { at };
        at.zip(us)
    };
    best.zip(trials).map(point).collect()
}

/// The steps of a report of several tasks.
fn steps_of(report: &Value) -> Option<Network> {
    let step = |step: &Value| {
        let way = |way: &Value| way.as_array()?.iter().map(|t| Some(t.as_u64()? as usize)).collect();
        let ways: Option<Vec<Vec<usize>>> = step["ways"].as_array()?.iter().map(way).collect();
        Some(Fork { ways: ways?, count: step["count"].as_f64()? })
    };
    let steps: Option<Vec<Fork>> = report["steps"].as_array()?.iter().map(step).collect();
    steps.map(Network::of_steps)
}

/// The time of all tasks together by the best known of each, every step in the fastest way that is known, from the moment when
/// each has one.
fn together(network: &Network, curves: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let mut moments: Vec<f64> = curves.iter().flatten().map(|point| point.0).collect();
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    let known = |curve: &Vec<(f64, f64)>, moment: f64| {
        curve.iter().take_while(|point| point.0 <= moment).last().map_or(f64::INFINITY, |point| point.1)
    };
    let all = |moment: f64| network.latency(&curves.iter().map(|c| known(c, moment)).collect::<Vec<_>>());
    let points = moments.into_iter().map(|moment| (moment, all(moment)));
    points.filter(|(_, us)| us.is_finite()).collect()
}

/// The contestants and the operators of some runs, each once, in the order in which they appear.
pub(super) fn appearing(runs: &[Run]) -> (Vec<&str>, Vec<&str>) {
    let (mut names, mut specs) = (Vec::new(), Vec::new());
    for run in runs {
        if !names.contains(&run.contestant.as_str()) {
            names.push(run.contestant.as_str());
        }
        if !specs.contains(&run.spec.as_str()) {
            specs.push(run.spec.as_str());
        }
    }
    (names, specs)
}

impl Run {
    /// Reads what `talweg tune --json` printed.
    pub fn from_report(
        spec: &str,
        contestant: &Contestant,
        seed: u64,
        settings: &Settings,
        text: &str,
    ) -> Result<Run, ContestError> {
        let report: Value = serde_json::from_str(text).unwrap_or_default();
        let missing =
            |field| ContestError::Report { field, text: text.chars().take(300).collect::<String>() };
        let number = |field| report[field].as_f64().ok_or_else(|| missing(field));
        let list = |field| -> Result<&Vec<Value>, ContestError> {
            report[field].as_array().ok_or_else(|| missing(field))
        };
        let tasks = report["tasks"].as_array();
        let curve = match tasks {
            Some(tasks) => {
                let network = steps_of(&report).ok_or_else(|| missing("steps"))?;
                let curves: Option<Vec<_>> = tasks.iter().map(|task| curve_of(task, settings)).collect();
                together(&network, &curves.ok_or_else(|| missing("curve"))?)
            }
            None => curve_of(&report, settings).ok_or_else(|| missing("curve"))?,
        };
        if curve.is_empty() {
            return Err(ContestError::Nothing { limit: describe(settings) });
        }
        let mut curve_schedules = Some(Vec::new());
        if tasks.is_none() {
            let schedules = list("curve_schedules")?.iter().map(|s| s.as_str().map(str::to_string));
            let known = schedules.collect::<Option<Vec<String>>>();
            curve_schedules = known.filter(|s| s.len() == curve.len());
        }
        let schedule = report["schedule"].as_str().or(tasks.map(|_| ""));
        Ok(Run {
            spec: spec.into(),
            contestant: contestant.name.clone(),
            seed,
            settings: settings.clone(),
            share: contestant.share,
            best_us: number("best_us")?,
            default_us: number("default_us")?,
            first_batch_us: report["first_batch_us"].as_f64(),
            trials: number("trials")? as usize,
            seconds: number("seconds")?,
            stopped_by: report["stopped_by"].as_str().ok_or_else(|| missing("stopped_by"))?.into(),
            curve,
            curve_schedules: curve_schedules.ok_or_else(|| missing("curve_schedules"))?,
            schedule: schedule.ok_or_else(|| missing("schedule"))?.into(),
            phases: report["phases"].clone(),
        })
    }

    /// The contestant's name without its share.
    pub fn search(&self) -> &str {
        self.contestant.strip_suffix(&format!("-{}", self.share)).unwrap_or(&self.contestant)
    }

    /// The end of its curve: its time, or its trials, whichever the curve runs over.
    pub fn end(&self) -> f64 {
        if self.settings.simulated { self.trials as f64 } else { self.seconds }
    }
}

/// Where runs are kept, one file each, so that a comparison that was killed goes on where it was.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens a folder, and makes it if there is none.
    pub fn open(path: &Path) -> Result<Folder, ContestError> {
        let runs = path.join("runs");
        std::fs::create_dir_all(&runs).map_err(|e| file_error(&runs, e))?;
        Ok(Folder { path: path.to_path_buf() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn run_path(&self, spec: &str, contestant: &str, seed: u64) -> PathBuf {
        self.path.join("runs").join(format!("{}.{contestant}.{seed}.json", file_name(spec)))
    }

    /// Where the database of a network's run is kept, for its playoff.
    pub fn database(&self, spec: &str, contestant: &str, seed: u64) -> PathBuf {
        self.run_path(spec, contestant, seed).with_extension("db")
    }

    /// Where the lock of what a network's run settled on is kept.
    pub fn lock(&self, spec: &str, contestant: &str, seed: u64) -> PathBuf {
        self.run_path(spec, contestant, seed).with_extension("lock")
    }

    fn playoff_path(&self, spec: &str, seed: u64) -> PathBuf {
        self.path.join("runs").join(format!("{}.playoff.{seed}.json", file_name(spec)))
    }

    /// A finished run; none if it has not been made.
    pub fn run(
        &self,
        spec: &str,
        contestant: &str,
        seed: u64,
        settings: &Settings,
    ) -> Result<Option<Run>, ContestError> {
        let path = self.run_path(spec, contestant, seed);
        let Some(run) = read::<Run>(&path)? else { return Ok(None) };
        if run.settings != *settings {
            return Err(ContestError::Settings {
                path: path.display().to_string(),
                found: describe(&run.settings),
                wanted: describe(settings),
            });
        }
        Ok(Some(run))
    }

    /// Keeps a run.
    pub fn keep(&self, run: &Run) -> Result<(), ContestError> {
        write(&self.run_path(&run.spec, &run.contestant, run.seed), &json(run))
    }

    /// The playoff of an operator and a seed that all these contestants were part of.
    pub fn playoff(
        &self,
        spec: &str,
        seed: u64,
        contestants: &[&str],
    ) -> Result<Option<Playoff>, ContestError> {
        let found = read::<Playoff>(&self.playoff_path(spec, seed))?;
        let is_whole = |p: &Playoff| contestants.iter().all(|c| p.entry(c).is_some());
        Ok(found.filter(is_whole))
    }

    /// Keeps a playoff.
    pub fn keep_playoff(&self, playoff: &Playoff) -> Result<(), ContestError> {
        write(&self.playoff_path(&playoff.spec, playoff.seed), &json(playoff))
    }

    /// Writes a report beside the runs.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), ContestError> {
        write(&self.path.join(name), content)
    }
}

fn file_error(path: &Path, source: std::io::Error) -> ContestError {
    ContestError::File { path: path.display().to_string(), source }
}

/// A SPEC as a part of a file's name.
fn file_name(spec: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=+-".contains(c) { c } else { '_' };
    spec.chars().map(plain).collect()
}

fn describe(settings: &Settings) -> String {
    let limit = match (settings.budget, settings.trials) {
        (Some(seconds), _) => format!("--budget {seconds}s"),
        (None, trials) => format!("--trials {}", trials.unwrap_or(0)),
    };
    let device = if settings.simulated { " --simulated" } else { "" };
    let start = if settings.from_default { " --from-default" } else { "" };
    let end = if settings.to_the_end { "" } else { " --ends-early" };
    format!("{limit} --threads {}{device}{start}{end}", settings.threads)
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec_pretty(value).unwrap_or_default()
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, ContestError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(file_error(path, e)),
    };
    let wrong = |e: serde_json::Error| ContestError::Content {
        path: path.display().to_string(),
        text: e.to_string(),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(wrong)
}

fn write(path: &Path, content: &[u8]) -> Result<(), ContestError> {
    write_whole(path, |mut file| file.write_all(content)).map_err(|e| file_error(path, e))
}

#[cfg(test)]
mod tests {
    use talweg_tuner::StrategyKind;

    use super::*;
    use crate::contest::playoff::Entry;

    const REPORT: &str = r#"{"best_us": 8.0, "default_us": 10.0, "first_batch_us": 9.0, "trials": 40, "seconds": 3.5,
        "stopped_by": "budget", "schedule": "split C i [4]", "phases": {"search": 1.0},
        "curve": [[0.5, 10.0], [2.0, 8.5]], "curve_trials": [0, 17],
        "curve_schedules": ["", "split C i [4]"]}"#;

    fn settings(simulated: bool) -> Settings {
        Settings {
            budget: (!simulated).then_some(3.0),
            trials: simulated.then_some(40),
            threads: 2,
            simulated,
            from_default: false,
            to_the_end: true,
        }
    }

    fn felix() -> Contestant {
        Contestant::of(StrategyKind::Felix, None)
    }

    #[test]
    fn reports_are_read_by_time_or_by_trials() {
        let run = Run::from_report("relu:n=4", &felix(), 1, &settings(false), REPORT).expect("a report");
        assert_eq!((run.curve.as_slice(), run.end()), (&[(0.5, 10.0), (2.0, 8.5)][..], 3.5));
        let run = Run::from_report("relu:n=4", &felix(), 1, &settings(true), REPORT).expect("a report");
        assert_eq!((run.curve.as_slice(), run.end()), (&[(0.0, 10.0), (17.0, 8.5)][..], 40.0));
        let mut older = serde_json::to_value(settings(false)).expect("settings");
        older["share"] = 3.0.into();
        assert!(serde_json::from_value::<Settings>(older).is_err(), "another version's");
        let bad = Run::from_report("relu:n=4", &felix(), 1, &settings(true), "{}");
        assert!(matches!(bad, Err(ContestError::Report { field: "curve", .. })), "{bad:?}");
        let none = r#"{"curve": [], "curve_trials": []}"#;
        let bad = Run::from_report("relu:n=4", &felix(), 1, &settings(false), none);
        let text = bad.expect_err("nothing was found").to_string();
        assert!(text.contains("--budget 3s"), "{text}");
    }

    #[test]
    fn the_curve_of_a_network_is_that_of_its_tasks() {
        let report = r#"{"best_us": 24.0, "default_us": 40.0, "trials": 40, "seconds": 3.5, "stopped_by": "budget",
            "phases": {}, "steps": [{"count": 2.0, "ways": [[0]]}, {"count": 1.0, "ways": [[1], [2]]}], "tasks": [
                {"curve": [[0.5, 10.0], [2.0, 8.0]], "curve_trials": [0, 17]},
                {"curve": [[2.5, 9.0]], "curve_trials": [4]},
                {"curve": [[1.0, 20.0], [3.0, 8.0]], "curve_trials": [0, 9]}]}"#;
        let run = Run::from_report("a/net.onnx", &felix(), 1, &settings(false), report).expect("a report");
        assert_eq!(run.curve, [(1.0, 40.0), (2.0, 36.0), (2.5, 25.0), (3.0, 24.0)]);
        assert!(run.curve_schedules.is_empty() && run.schedule.is_empty());
        let none = report.replace("ways", "means");
        let bad = Run::from_report("a/net.onnx", &felix(), 1, &settings(false), &none);
        assert!(matches!(bad, Err(ContestError::Report { field: "steps", .. })), "{bad:?}");
    }

    #[test]
    fn finished_runs_are_found_again_and_others_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(&dir.path().join("new")).expect("it is made");
        let run = Run::from_report("relu:n=4", &felix(), 1, &settings(false), REPORT).expect("a report");
        let find = |seed, simulated| folder.run("relu:n=4", "felix", seed, &settings(simulated));
        assert!(matches!(find(1, false), Ok(None)));
        folder.keep(&run).expect("it is kept");
        assert_eq!(find(1, false).expect("it is read"), Some(run.clone()));
        assert!(matches!(find(2, false), Ok(None)));
        let other = find(1, true).expect_err("other settings").to_string();
        assert!(other.contains("--budget 3s") && other.contains("--trials 40"), "{other}");
        std::fs::write(folder.run_path("relu:n=4", "felix", 2), "half a f").expect("a broken file");
        assert!(matches!(find(2, false), Err(ContestError::Content { .. })));
    }

    #[test]
    fn playoffs_count_when_all_were_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path()).expect("a folder");
        let entry = |name: &str| Entry {
            contestant: name.into(),
            winner_us: 3.0,
            curve_us: vec![4.0],
            moments: Vec::new(),
        };
        let entries = vec![entry("ansor"), entry("felix")];
        folder.keep_playoff(&Playoff { spec: "relu:n=4".into(), seed: 0, entries }).expect("it is kept");
        let find = |names: &[&str]| folder.playoff("relu:n=4", 0, names).expect("it is read").is_some();
        assert!(find(&["felix", "ansor"]) && find(&["felix"]) && !find(&["felix", "random"]));
    }
}
