//! `talweg config`: every setting, its value and where that comes from.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::settings::{FILE_VARIABLE, PROJECT_FILE, Resolved, Settings, Source};
use super::{Failure, print, write_file};

/// Arguments of `talweg config`.
#[derive(Args)]
#[command(after_help = "\
Settings are the defaults of options. An option on the command line comes first, then an environment variable
(TALWEG_DB, TALWEG_TUNE_STRATEGY, ...), then talweg.toml in the current folder or the nearest one above it, then
talweg/config.toml in $XDG_CONFIG_HOME (~/.config), then the default. TALWEG_CONFIG=FILE reads that file alone, and
TALWEG_CONFIG=none reads none. What is printed is itself a configuration file.

Examples:
  talweg config
  talweg config --json
  talweg config -o talweg.toml")]
pub struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write the settings to a file that does not exist yet, as a beginning of a configuration file.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    if arguments.json {
        let values: Vec<_> = settings
            .values
            .iter()
            .map(|v| {
                json!({
                    "key": v.setting.key, "value": v.value, "source": v.source.to_string(),
                    "variable": v.setting.variable(), "help": v.setting.help,
                })
            })
            .collect();
        return print(&format!("{}\n", json!({ "files": settings.files, "settings": values })));
    }
    let Some(path) = &arguments.output else { return print(&readable(settings)) };
    if path.symlink_metadata().is_ok() {
        let path = path.display();
        return Err(Failure::input(format!("`{path}` is there already; remove it, or give another name")));
    }
    write_file(path, readable(settings).as_bytes())
}

fn readable(settings: &Settings) -> String {
    let mut out = String::new();
    match settings.files.as_slice() {
        [] => out += &format!("# no file was read; {PROJECT_FILE} here or above, or {FILE_VARIABLE}=FILE\n"),
        files => files.iter().for_each(|f| out += &format!("# read {}\n", f.display())),
    }
    let mut table = "";
    for resolved in &settings.values {
        let (group, name) = resolved.setting.key.split_once('.').unwrap_or(("", resolved.setting.key));
        if group != table {
            out += &format!("\n[{group}]\n");
            table = group;
        }
        out += &line(name, resolved);
    }
    out
}

/// One line of the file; a comment where nobody sets the value.
fn line(name: &str, resolved: &Resolved) -> String {
    let setting = resolved.setting;
    let shown = match &resolved.value {
        Some(value) if setting.kind.is_number() => format!("{name} = {value}"),
        Some(value) => format!("{name} = {}", toml_edit::Value::from(value.as_str())),
        None => format!("# {name} ="),
    };
    let source = match &resolved.source {
        Source::Default if resolved.value.is_none() => "unset".to_string(),
        source => source.to_string(),
    };
    format!("{shown:<28} # {source}: {}\n", setting.help)
}
