//! The configuration as a user meets it: options, variables, the project's file, the user's file, defaults.

mod tool;

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tool::{command, fails, object, succeeds};

/// The value and the source of a setting as `talweg config` says.
fn setting(config: &Value, key: &str) -> (String, String) {
    let all = config["settings"].as_array().expect("settings");
    let found = all.iter().find(|s| s["key"] == key).unwrap_or_else(|| panic!("no setting {key}"));
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_string();
    (text("value"), text("source"))
}

/// The complaint about a missing database, which names the file that was looked for.
fn missing_db(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let mut command = command(folder, arguments);
    command.envs(variables.iter().copied());
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_option_comes_before_a_variable_that_before_the_files_and_these_before_the_default() {
    let root = TempDir::new().expect("a folder");
    let inner = root.path().join("project/inner");
    std::fs::create_dir_all(&inner).expect("folders");
    assert!(missing_db(&inner, &[], &["db", "ls"]).contains("talweg.db"));

    let user = root.path().join("config");
    std::fs::create_dir_all(user.join("talweg")).expect("folders");
    std::fs::write(user.join("talweg/config.toml"), "db = 'of-user.db'\n").expect("a file");
    let home = [("XDG_CONFIG_HOME", user.to_str().expect("a plain path"))];
    assert!(missing_db(&inner, &home, &["db", "ls"]).contains("config/talweg/of-user.db"));

    std::fs::write(root.path().join("project/talweg.toml"), "db = 'of-project.db'\n").expect("a file");
    assert!(missing_db(&inner, &home, &["db", "ls"]).contains("project/of-project.db"));

    let both = [home[0], ("TALWEG_DB", "of-variable.db")];
    assert!(missing_db(&inner, &both, &["db", "ls"]).contains("of-variable.db"));
    assert!(missing_db(&inner, &both, &["db", "ls", "--db", "of-option.db"]).contains("of-option.db"));
    let ignored = [home[0], ("TALWEG_CONFIG", "none")];
    let complaint = missing_db(&inner, &ignored, &["db", "ls"]);
    assert!(complaint.contains("talweg.db") && !complaint.contains("of-"), "{complaint}");
}

#[test]
fn config_names_every_value_and_its_source() {
    let folder = TempDir::new().expect("a folder");
    let defaults = object(folder.path(), &["config", "--json"]);
    assert_eq!(setting(&defaults, "db"), ("talweg.db".into(), "default".into()));
    assert_eq!(setting(&defaults, "tune.strategy"), ("felix".into(), "default".into()));

    std::fs::write(folder.path().join("talweg.toml"), "threads = 1\n\n[tune]\nstrategy = 'felix'\n")
        .expect("a file");
    let written = object(folder.path(), &["config", "--json"]);
    let (value, source) = setting(&written, "tune.strategy");
    assert_eq!(value, "felix");
    assert!(source.ends_with("talweg.toml:4"), "{source}");

    let text = succeeds(folder.path(), &["config"]);
    assert!(text.contains("strategy = \"felix\""), "{text}");
    // What is printed is a file with the same settings.
    let other = TempDir::new().expect("a folder");
    std::fs::write(other.path().join("talweg.toml"), text).expect("a file");
    let again = object(other.path(), &["config", "--json"]);
    assert_eq!(setting(&again, "tune.strategy").0, "felix");
    assert_eq!(setting(&again, "threads").0, "1");
}

#[test]
fn a_setting_is_the_default_of_its_option() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("talweg.toml"), "[tune]\nstrategy = 'genetic'\nbudget = '7s'\n")
        .expect("a file");
    let help = succeeds(folder.path(), &["tune", "--help"]);
    assert!(help.contains("[default: genetic]") && help.contains("[default: 7s]"), "{help}");
}

#[test]
fn wrong_files_are_refused_with_the_line_and_the_nearest_name() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("talweg.toml"), "\nthread = 2\n").expect("a file");
    let complaint = fails(folder.path(), &["db", "ls"], 2);
    assert!(complaint.contains("talweg.toml:2: there is no setting `thread`"), "{complaint}");
    assert!(complaint.contains("did you mean `threads`?"), "{complaint}");
    // Help must not depend on it.
    assert!(succeeds(folder.path(), &["tune", "--help"]).contains("--strategy"));
}

#[test]
fn config_writes_a_new_file_only() {
    let folder = TempDir::new().expect("a folder");
    succeeds(folder.path(), &["config", "-o", "talweg.toml"]);
    let written = std::fs::read_to_string(folder.path().join("talweg.toml")).expect("a file");
    assert!(written.contains("strategy = \"felix\""), "{written}");
    let complaint = fails(folder.path(), &["config", "-o", "talweg.toml"], 2);
    assert!(complaint.contains("`talweg.toml` is there already"), "{complaint}");
    assert_eq!(std::fs::read_to_string(folder.path().join("talweg.toml")).expect("a file"), written);
}
