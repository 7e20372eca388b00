//! The progress of tuning: one rewritten line on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use talweg_tuner::{Event, TuneOptions};

/// The line is not rewritten more often than this.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is shown.
pub struct Progress {
    terminal: bool,
    started: Instant,
    budget: Option<Duration>,
    wanted: Option<usize>,
    tuning_since: Instant,
    names: Vec<String>,
    best: Vec<f64>,
    default: Vec<f64>,
    trials: usize,
    /// Failures by cause.
    failures: BTreeMap<String, usize>,
    current: usize,
    /// The share of the time that is still expected to be gained.
    to_gain: Option<f64>,
    drawn: Option<Instant>,
}

impl Progress {
    /// Nothing has happened yet.
    pub fn new(options: &TuneOptions, tasks: usize, terminal: bool) -> Progress {
        Progress {
            terminal,
            started: options.started,
            budget: options.budget,
            wanted: options.trials,
            tuning_since: Instant::now(),
            names: vec![String::new(); tasks],
            best: vec![f64::INFINITY; tasks],
            default: vec![f64::NAN; tasks],
            trials: 0,
            failures: BTreeMap::new(),
            current: 0,
            to_gain: None,
            drawn: None,
        }
    }

    /// Shows an event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::TaskStarted { task, name, sketches, size, resumed, default_seconds, best_seconds } => {
                self.names[*task] = name.clone();
                self.best[*task] = *best_seconds;
                self.default[*task] = *default_seconds;
                self.tuning_since = Instant::now();
                self.line(&format!(
                    "{name}: {sketches} sketches, {size:.1e} candidates, {resumed} known; default {:.2} us",
                    default_seconds * 1e6
                ));
            }
            Event::SampleMeasured { task, cause, .. } => {
                self.current = *task;
                self.trials += 1;
                if let Some(cause) = cause {
                    *self.failures.entry(cause.clone()).or_default() += 1;
                }
            }
            Event::NewBest { task, seconds, at, .. } => {
                self.best[*task] = *seconds;
                if !self.terminal {
                    self.line(&format!(
                        "{at:7.1} s  {}  best {:.2} us ({:.2}x), trial {}",
                        self.names[*task],
                        seconds * 1e6,
                        self.default[*task] / seconds,
                        self.trials
                    ));
                }
            }
            Event::ErrorGrouped { cause, text, .. } => {
                self.line(&format!("first failure of the kind `{cause}`: {}", first_line(text)));
            }
            Event::GivenUp { text, .. } => {
                self.line(&format!("warning: a way that no network needs is not tuned: {text}"));
            }
            Event::ModelFailed { text, .. } => self.line(&format!("the cost model fails: {text}")),
            Event::Saved { trials, records, .. } if !self.terminal => {
                let at = self.started.elapsed().as_secs_f64();
                self.line(&format!("{at:7.1} s  saved {records} records, {trials} trials, {}", self.rate()));
            }
            Event::Forecast { latency, gain, rounds, ends } => {
                self.to_gain = Some(gain / latency.max(f64::MIN_POSITIVE));
                if *ends {
                    self.line(&format!(
                        "ends early: about {rounds:.0} more rounds are expected to gain {:.2} % of {:.3} ms",
                        100.0 * gain / latency,
                        latency * 1e3
                    ));
                }
            }
            Event::Finished { reason, trials } if !self.terminal => {
                self.line(&format!("finished after {trials} trials: {reason}"));
            }
            _ => {}
        }
        if self.terminal && self.drawn.is_none_or(|d| d.elapsed() >= INTERVAL) {
            self.drawn = Some(Instant::now());
            // Without automatic margins, so that a long line is cut off rather than wrapped.
            self.write(&format!("\r\x1b[K\x1b[?7l{}\x1b[?7h", self.status()));
        }
    }

    /// Takes the rewritten line away.
    pub fn clear(&mut self) {
        if self.terminal {
            self.write("\r\x1b[K");
        }
    }

    fn rate(&self) -> String {
        let seconds = self.tuning_since.elapsed().as_secs_f64().max(1e-3);
        format!("{:.1} trials/s", self.trials as f64 / seconds)
    }

    fn status(&self) -> String {
        let best = self.best[self.current];
        let mut out = match self.names[self.current].as_str() {
            "" => "preparing".to_string(),
            name => format!("{name}  best {:.2} us ({:.2}x)", best * 1e6, self.default[self.current] / best),
        };
        out += &format!("  {} trials, {}", self.trials, self.rate());
        if !self.failures.is_empty() {
            let causes = self.failures.iter().map(|(cause, count)| format!("{count} {cause}"));
            out += &format!("  failed: {}", causes.collect::<Vec<_>>().join(", "));
        }
        if let Some(to_gain) = self.to_gain.filter(|_| self.names.len() > 1) {
            out += &format!("  {:.1} % to gain", 100.0 * to_gain);
        }
        if let Some(budget) = self.budget {
            let left = budget.saturating_sub(self.started.elapsed()).as_secs();
            out += &format!("  {left} s left");
        } else if let Some(wanted) = self.wanted {
            out += &format!("  {} left", wanted.saturating_sub(self.trials));
        }
        out
    }

    fn line(&self, text: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        self.write(&format!("{clear}{text}\n"));
    }

    /// Progress that nobody can read is no reason to stop.
    fn write(&self, text: &str) {
        let mut out = std::io::stderr();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
