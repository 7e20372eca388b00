//! Every setting.

use talweg_tuner::{ModelKind, StrategyKind};

use super::super::DEFAULT_DB;
use super::super::tune::parse_duration;

/// Verbs that take a model.
const MODELS: &[&str] = &["tune", "check", "compile", "run", "bench", "verify", "profile", "explain"];

/// A value that options take from files and variables.
#[derive(Debug, PartialEq)]
pub struct Setting {
    /// Its name in files; a part before a dot is a table.
    pub key: &'static str,
    /// The option it is the default of.
    pub option: &'static str,
    /// The verbs that have the option, the empty one for the tool itself.
    pub verbs: &'static [&'static str],
    /// What it may be.
    pub kind: Kind,
    /// What it is if nobody sets it; none if the verb decides.
    pub default: Option<&'static str>,
    /// What it is for.
    pub help: &'static str,
}

/// What a setting may be.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A file; in a file relative to that one's folder.
    Path,
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// A time such as `90s`.
    Time,
    /// One of these.
    Word(&'static [&'static str]),
    /// A strategy of tuning.
    Strategy,
    /// A cost model.
    Model,
}

impl Setting {
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("TALWEG_{}", self.key.to_uppercase().replace('.', "_"))
    }
}

impl Kind {
    /// Says what is wrong with a value.
    pub fn check(&self, text: &str) -> Result<(), String> {
        let when = |fine: bool, why: String| if fine { Ok(()) } else { Err(why) };
        match self {
            Kind::Text | Kind::Path => when(!text.is_empty(), "give a text".into()),
            Kind::Count(from, to) => {
                let inside = text.parse::<u64>().is_ok_and(|n| (*from..=*to).contains(&n));
                when(inside, format!("give a whole number from {from} to {to}"))
            }
            Kind::Number(from, to) => {
                let inside = text.parse::<f64>().is_ok_and(|n| (*from..=*to).contains(&n));
                when(inside, format!("give a number from {from} to {to}"))
            }
            Kind::Time => {
                when(parse_duration(text).is_some(), "give a time such as \"90s\", \"5m\" or \"1h\"".into())
            }
            Kind::Word(words) => when(words.contains(&text), format!("give {}", words.join(", "))),
            Kind::Strategy => text.parse::<StrategyKind>().map(drop).map_err(|e| e.to_string()),
            Kind::Model => text.parse::<ModelKind>().map(drop).map_err(|e| e.to_string()),
        }
    }

    /// Whether files write it without quotes.
    pub fn is_number(&self) -> bool {
        matches!(self, Kind::Count(..) | Kind::Number(..))
    }
}

/// All settings, in the order in which they are listed.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "db",
        option: "db",
        verbs: &[
            "tune", "check", "compile", "run", "bench", "verify", "profile", "explain", "op", "db", "report",
            "doctor",
        ],
        kind: Kind::Path,
        default: Some(DEFAULT_DB),
        help: "the tuning database",
    },
    Setting {
        key: "threads",
        option: "threads",
        verbs: &["tune", "check", "compile", "run", "bench", "verify", "profile", "explain", "op", "db best"],
        kind: Kind::Count(1, 4096),
        default: None,
        help: "threads of parallel loops; unset, one for operators and all cores for models",
    },
    Setting {
        key: "max_error",
        option: "max_error",
        verbs: MODELS,
        kind: Kind::Number(0.0, 1.0),
        default: Some("0.0001"),
        help: "the error that algorithms with fewer operations may bring into one operator",
    },
    Setting {
        key: "python",
        option: "python",
        verbs: &["verify", "bench", "doctor"],
        kind: Kind::Text,
        default: Some("python3"),
        help: "the Python that has other runtimes",
    },
    Setting {
        key: "color",
        option: "color",
        verbs: &[""],
        kind: Kind::Word(&["auto", "always", "never"]),
        default: Some("auto"),
        help: "colours: on a terminal, always or never",
    },
    Setting {
        key: "tune.strategy",
        option: "strategy",
        verbs: &["tune"],
        kind: Kind::Strategy,
        default: Some("felix"),
        help: "the search",
    },
    Setting {
        key: "tune.model",
        option: "model",
        verbs: &["tune"],
        kind: Kind::Model,
        default: None,
        help: "the cost model; unset, the strategy's own",
    },
    Setting {
        key: "tune.budget",
        option: "budget",
        verbs: &["tune"],
        kind: Kind::Time,
        default: None,
        help: "time of a search, also of one that is given trials; unset, a minute unless trials are given",
    },
    Setting {
        key: "tune.seed",
        option: "seed",
        verbs: &["tune"],
        kind: Kind::Count(0, u64::MAX),
        default: Some("0"),
        help: "names the random choices",
    },
    Setting {
        key: "tune.batch",
        option: "batch",
        verbs: &["tune"],
        kind: Kind::Count(1, 100_000),
        default: Some("32"),
        help: "candidates that are measured and stored together",
    },
    Setting {
        key: "tune.least_gain",
        option: "least_gain",
        verbs: &["tune"],
        kind: Kind::Number(0.0, 100.0),
        default: Some("0.5"),
        help: "end early when a model is expected to gain less than so many percent",
    },
    Setting {
        key: "op.budget",
        option: "budget",
        verbs: &["op"],
        kind: Kind::Number(0.001, 3600.0),
        default: Some("0.6"),
        help: "seconds for taking samples of an operator",
    },
    Setting {
        key: "op.patience",
        option: "patience",
        verbs: &["op"],
        kind: Kind::Number(0.0, 3600.0),
        default: Some("2"),
        help: "further seconds to wait for calm moments",
    },
    Setting {
        key: "bench.budget",
        option: "budget",
        verbs: &["bench"],
        kind: Kind::Number(0.001, 3600.0),
        default: Some("3"),
        help: "seconds for taking samples of a model",
    },
];
