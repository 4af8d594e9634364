//! `assent import`: a permission policy of ordered rules becomes a document, on standard output.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::input::read_text;
use crate::cli::output::Output;
use crate::cli::text;
use crate::cli::{CliError, Exit};
use crate::policy::import::{Imported, import};

/// `assent import`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  assent import permissions.json > policy.yaml && assent check policy.yaml

It reads a policy such as {\"default\": \"ask\", \"rules\": [{\"tools\": [\"docs.*\"], \"decision\": \"allow\"}]}, where a
rule may have `denylist`, `sensitive` and `allowlist`. What cannot be said in a document is refused, all of it at
once; what is said in another way is noted on standard error.")]
pub struct ImportCommand {
    /// The policy to import: a JSON file, or standard input if it is `-`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

pub(super) fn run(command: &ImportCommand, output: &Output) -> Result<Exit, CliError> {
    let ImportCommand { file } = command;
    let source = read_text(file).map_err(|source| CliError::Unreadable {
        path: file.clone(),
        source,
    })?;
    let imported = import(&source).map_err(|source| CliError::Import {
        path: file.clone(),
        source,
    })?;
    let Imported { document, notes } = imported;
    output.print_json_value(&json!({"document": document, "notes": notes}))?;
    if !output.json() {
        let mut stderr = io::stderr().lock();
        for note in &notes {
            // Whoever closed standard error does not want to know.
            let _ = writeln!(stderr, "note: {}", text::line(note));
        }
    }
    output.print_text(|_| document.clone())?;
    Ok(Exit::Success)
}
