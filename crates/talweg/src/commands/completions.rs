//! `talweg completions`: scripts with which a shell completes verbs and options.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::{Failure, print};

/// Arguments of `talweg completions`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg completions bash > ~/.local/share/bash-completion/completions/talweg
  talweg completions zsh > ~/.zfunc/_talweg
  talweg completions fish > ~/.config/fish/completions/talweg.fish")]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for the whole tool.
pub fn run(arguments: &Arguments, tool: Command) -> Result<(), Failure> {
    let verbs = tool.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let mut shown = Command::new("talweg").args(tool.get_arguments().cloned()).subcommands(verbs);
    let mut script = Vec::new();
    generate(arguments.shell, &mut shown, "talweg", &mut script);
    print(&String::from_utf8(script).map_err(Failure::work)?)
}
