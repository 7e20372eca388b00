//! Settings: what a user need not give with every command.
//!
//! An option on the command line comes first, then an environment variable, then the project's file, then the user's
//! file, then the default. Whatever of these applies becomes the default of the option, so that a verb sees only
//! options, and its `--help` shows what would be used.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | every setting: its key, its options, what it may be |
//! | [`file`] | reading a file, with the lines of its keys |

pub mod file;
pub mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;

use file::Entry;
use table::{Kind, SETTINGS, Setting};

/// The variable that names a file to read in place of the project's and the user's; `none` for no file.
pub const FILE_VARIABLE: &str = "TALWEG_CONFIG";
/// What the project's file is called.
pub const PROJECT_FILE: &str = "talweg.toml";

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("{}: {source}; {FILE_VARIABLE}=none ignores configuration files", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not TOML.
    #[error("{}:{line}: {message}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A key that is no setting.
    #[error("{}:{line}: there is no setting `{key}`{near}; `talweg config` lists all", .path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// `, did you mean ..?`, or empty.
        near: String,
    },
    /// A value that the setting cannot have.
    #[error("{place}: {key} = {value} is not possible: {why}")]
    Value {
        /// Where it comes from.
        place: Source,
        /// The setting.
        key: &'static str,
        /// The value.
        value: String,
        /// What it may be.
        why: String,
    },
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An environment variable.
    Variable(String),
    /// A line of a file.
    File(PathBuf, usize),
    /// Nobody set it.
    Default,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Variable(name) => write!(f, "variable {name}"),
            Source::File(path, line) => write!(f, "{}:{line}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A setting with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Which.
    pub setting: &'static Setting,
    /// The value as an option would be given; none where nobody set it and the verb decides.
    pub value: Option<String>,
    /// Who set it.
    pub source: Source,
}

/// What the outside says: variables and folders, so that tests need no process.
pub struct Surroundings<'a> {
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Where the search for the project's file begins.
    pub folder: PathBuf,
}

/// All settings, and the files that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// In the order of the table.
    pub values: Vec<Resolved>,
    /// The files, the first has precedence.
    pub files: Vec<PathBuf>,
}

impl Settings {
    /// Reads the settings of this process.
    pub fn load() -> Result<Settings, SettingsError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let folder = std::env::current_dir().unwrap_or_default();
        Settings::resolve(&Surroundings { variable: &variable, folder })
    }

    /// Reads files and variables, and decides.
    pub fn resolve(around: &Surroundings<'_>) -> Result<Settings, SettingsError> {
        let files = files(around);
        let mut entries = Vec::new();
        for path in &files {
            entries.push(file::read(path)?);
        }
        let mut values = Vec::new();
        for setting in SETTINGS {
            values.push(one(setting, around, &entries)?);
        }
        Ok(Settings { values, files })
    }

    /// The value that was set, not the default.
    pub fn set(&self, key: &str) -> Option<&str> {
        let found = self.values.iter().find(|v| v.setting.key == key && v.source != Source::Default)?;
        found.value.as_deref()
    }

    /// A command line whose options have what was set as their defaults.
    pub fn apply(&self, mut tool: Command) -> Command {
        for resolved in self.values.iter().filter(|v| v.source != Source::Default) {
            let Some(value) = &resolved.value else { continue };
            for verb in resolved.setting.verbs {
                let path: Vec<&str> = verb.split_whitespace().collect();
                tool = with_default(tool, &path, resolved.setting.option, value);
            }
        }
        tool
    }
}

/// Removes what would change the settings of a process that is started for a comparison.
pub fn without_settings(command: &mut std::process::Command) {
    SETTINGS.iter().for_each(|setting| {
        command.env_remove(setting.variable());
    });
    command.env(FILE_VARIABLE, "none");
}

/// The first setting of `--color` among arguments, for texts that are printed before these are understood.
pub fn color_of(arguments: &[OsString]) -> Option<String> {
    let texts: Vec<&str> = arguments.iter().filter_map(|a| a.to_str()).collect();
    let after = texts.windows(2).find(|w| w[0] == "--color").map(|w| w[1]);
    after.or_else(|| texts.iter().find_map(|t| t.strip_prefix("--color="))).map(str::to_string)
}

fn with_default(command: Command, path: &[&str], option: &str, value: &str) -> Command {
    match path {
        [] if command.get_arguments().any(|a| a.get_id() == option) => {
            let value = value.to_string();
            command.mut_arg(option, |argument| argument.default_value(value))
        }
        [verb, rest @ ..] if command.find_subcommand(verb).is_some() => {
            command.mut_subcommand(verb, |c| with_default(c, rest, option, value))
        }
        _ => command,
    }
}

/// The files to read, the one with precedence first.
fn files(around: &Surroundings<'_>) -> Vec<PathBuf> {
    match (around.variable)(FILE_VARIABLE).as_deref() {
        Some("none") => return Vec::new(),
        Some(path) => return vec![PathBuf::from(path)],
        None => {}
    }
    let project = around.folder.ancestors().map(|f| f.join(PROJECT_FILE)).find(|p| p.is_file());
    let home = || Some(Path::new(&(around.variable)("HOME")?).join(".config"));
    let config = (around.variable)("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let user = config.map(|c| c.join("talweg/config.toml")).filter(|p| p.is_file());
    project.into_iter().chain(user).collect()
}

fn one(
    setting: &'static Setting,
    around: &Surroundings<'_>,
    files: &[Vec<Entry>],
) -> Result<Resolved, SettingsError> {
    let variable = setting.variable();
    let given = (around.variable)(&variable).map(|value| (value, Source::Variable(variable)));
    let written = || files.iter().flatten().find(|e| e.key == setting.key).map(from_file);
    let Some((mut value, source)) = given.or_else(written) else {
        let value = setting.default.map(str::to_string);
        return Ok(Resolved { setting, value, source: Source::Default });
    };
    if let Err(why) = setting.kind.check(&value) {
        return Err(SettingsError::Value { place: source, key: setting.key, value, why });
    }
    // A path in a file is meant from where the file is.
    if let (Kind::Path, Source::File(path, _)) = (&setting.kind, &source)
        && let Some(folder) = path.parent()
    {
        value = folder.join(&value).to_string_lossy().into_owned();
    }
    Ok(Resolved { setting, value: Some(value), source })
}

fn from_file(entry: &Entry) -> (String, Source) {
    (entry.value.clone(), Source::File(entry.path.clone(), entry.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(variables: &[(&str, &str)], folder: &Path) -> Result<Settings, SettingsError> {
        let variable =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
        Settings::resolve(&Surroundings { variable: &variable, folder: folder.into() })
    }

    fn value(settings: &Settings, key: &str) -> (Option<String>, Source) {
        let found = settings.values.iter().find(|v| v.setting.key == key).expect("a setting");
        (found.value.clone(), found.source.clone())
    }

    #[test]
    fn variables_come_before_the_project_and_that_before_the_user() {
        let root = tempfile::tempdir().expect("a folder");
        let (project, inner) = (root.path().join("project"), root.path().join("project/a/b"));
        let user = root.path().join("config/talweg");
        std::fs::create_dir_all(&inner).expect("folders");
        std::fs::create_dir_all(&user).expect("folders");
        let config = root.path().join("config").to_string_lossy().into_owned();
        let (mine, theirs) = (project.join(PROJECT_FILE), user.join("config.toml"));
        std::fs::write(&theirs, "threads = 7\n[tune]\nseed = 5\nstrategy = 'random'\n").expect("a file");
        let set = [("XDG_CONFIG_HOME", config.as_str())];
        let settings = resolve(&set, &inner).expect("settings");
        assert_eq!(value(&settings, "threads"), (Some("7".into()), Source::File(theirs.clone(), 1)));
        assert_eq!(value(&settings, "tune.seed").0.as_deref(), Some("5"));
        assert_eq!(value(&settings, "tune.batch"), (Some("32".into()), Source::Default));

        std::fs::write(&mine, "threads = 3\ndb = 'x.db'\n\n[tune]\nstrategy = \"felix\"\n").expect("a file");
        let settings = resolve(&set, &inner).expect("settings");
        assert_eq!(value(&settings, "threads").0.as_deref(), Some("3"));
        assert_eq!(value(&settings, "tune.strategy"), (Some("felix".into()), Source::File(mine.clone(), 5)));
        assert_eq!(value(&settings, "tune.seed").0.as_deref(), Some("5"));
        let db = project.join("x.db").to_string_lossy().into_owned();
        assert_eq!(value(&settings, "db").0, Some(db), "a path is meant from its file");

        let set = [set[0], ("TALWEG_THREADS", "1")];
        let settings = resolve(&set, &inner).expect("settings");
        assert_eq!(
            value(&settings, "threads"),
            (Some("1".into()), Source::Variable("TALWEG_THREADS".into()))
        );
        let none = resolve(&[set[0], (FILE_VARIABLE, "none")], &inner).expect("settings");
        assert!(none.files.is_empty() && none.values.iter().all(|v| v.source == Source::Default));
    }

    #[test]
    fn wrong_keys_and_values_name_their_line() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join(PROJECT_FILE);
        let cases = [
            ("thread = 2", ":1: there is no setting `thread`, did you mean `threads`?"),
            (
                "\n[tune]\nstratgy = 'felix'",
                ":3: there is no setting `tune.stratgy`, did you mean `tune.strategy`?",
            ),
            ("threads = 0", ":1: threads = 0 is not possible: give a whole number"),
            ("threads = 'x'", ":1: threads = x is not possible"),
            ("threads = [1]", ":1: `threads` is a list"),
            ("[tune]\nstrategy = 'fast'", ":2: tune.strategy = fast is not possible"),
            ("[tune]\nbudget = '5x'", ":2: tune.budget = 5x is not possible: give a time"),
            ("a = = 1", ":1: "),
        ];
        for (text, expected) in cases {
            std::fs::write(&path, text).expect("a file");
            let error = resolve(&[], root.path()).expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        std::fs::remove_file(&path).expect("gone");
        let error = resolve(&[("TALWEG_THREADS", "many")], root.path()).expect_err("no number").to_string();
        assert!(error.starts_with("variable TALWEG_THREADS: threads = many"), "{error}");
        let error =
            resolve(&[(FILE_VARIABLE, "missing.toml")], root.path()).expect_err("no file").to_string();
        assert!(error.starts_with("missing.toml: "), "{error}");
    }

    #[test]
    fn colours_are_found_among_arguments() {
        let given = |texts: &[&str]| color_of(&texts.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(given(&["talweg", "--color", "never", "op"]).as_deref(), Some("never"));
        assert_eq!(given(&["talweg", "op", "--color=always"]).as_deref(), Some("always"));
        assert_eq!(given(&["talweg", "op"]), None);
    }
}
