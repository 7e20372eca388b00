//! `talweg man`: manual pages, one for the tool and one for each verb.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use super::{Failure, print, write_file};

/// Arguments of `talweg man`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg man -o ~/.local/share/man/man1
  talweg man -o man --json")]
pub struct Arguments {
    /// The folder to write the pages to; it is made if it is missing.
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Print the names of the pages as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Writes the pages of the whole tool.
pub fn run(arguments: &Arguments, mut tool: Command) -> Result<(), Failure> {
    // Hands the options of the tool and of groups down to their verbs.
    tool.build();
    let folder = &arguments.output;
    std::fs::create_dir_all(folder).map_err(|e| Failure::input(format!("{}: {e}", folder.display())))?;
    let mut pages = Vec::new();
    collect("talweg", tool, &mut pages)?;
    for (name, page) in &pages {
        write_file(&folder.join(name), page)?;
    }
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    if arguments.json {
        return print(&format!("{}\n", serde_json::json!({ "folder": folder, "pages": names })));
    }
    print(&format!("{} pages written to {}\n", names.len(), folder.display()))
}

/// Adds the page of a command and those of its verbs, hidden ones left out.
fn collect(name: &str, command: Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    // The page's own name, so that a verb's page says how the verb is called.
    let command =
        command.name(name.to_string()).bin_name(name.replace('-', " ")).disable_help_subcommand(true);
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        collect(&format!("{name}-{}", verb.get_name()), verb.clone(), pages)?;
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(Failure::work)?;
    pages.push((format!("{name}.1"), page));
    pages.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(())
}
