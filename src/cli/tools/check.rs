//! `assent check`: whether a policy can be used, and what in it is hardly meant.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};

use crate::cli::output::Output;
use crate::cli::text;
use crate::cli::{CliError, Exit};
use crate::policy::{Policy, PolicyError, Warning};
use crate::policy_source::{self, PolicySourceError};

/// `assent check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  assent check policy.yaml

An error is what no server would start on. A warning is what it would serve, and is hardly meant: a rule that is
never reached, a glob that can match no arguments, an `allow` that a selector still stops. Exit codes: 0 usable,
1 an error, or with --strict a warning.")]
pub struct CheckCommand {
    /// The policy: a YAML file, or a directory of *.yaml and *.yml files
    #[arg(value_name = "FILE|DIR")]
    pub policy: PathBuf,
    /// Let a warning fail the check
    #[arg(long)]
    pub strict: bool,
}

pub(super) fn run(command: &CheckCommand, output: &Output) -> Result<Exit, CliError> {
    let CheckCommand {
        policy: path,
        strict,
    } = command;
    let sources = policy_source::read(path).map_err(CliError::Check)?;
    let policy = match Policy::compile(&sources) {
        Ok(policy) => policy,
        Err(error) if output.json() => {
            output.print_json_value(&refusal(&error))?;
            return Ok(Exit::Failed);
        }
        Err(error) => return Err(CliError::Check(PolicySourceError::Broken(error))),
    };
    let warnings = policy.warnings();
    let name = path.display().to_string();
    output.print_json_value(&report(&policy, warnings))?;
    output.print_text(|_| page(&name, &policy, warnings))?;
    Ok(if *strict && !warnings.is_empty() {
        Exit::Failed
    } else {
        Exit::Success
    })
}

fn page(name: &str, policy: &Policy, warnings: &[Warning]) -> String {
    let mut page = String::new();
    for warning in warnings {
        // Writing to a String does not fail.
        let _ = writeln!(
            page,
            "{}",
            text::line(&format!("warning: {warning} [{}]", warning.lint))
        );
    }
    let _ = writeln!(
        page,
        "{}: usable, {}, {} (revision {})",
        text::line(name),
        counted(policy.rule_ids().count(), "rule"),
        counted(warnings.len(), "warning"),
        policy.revision()
    );
    if policy.allows_everything() {
        page.push_str(
            "it refuses nothing, only its selectors ask a person: this is not a security control\n",
        );
    }
    page
}

fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

fn report(policy: &Policy, warnings: &[Warning]) -> Json {
    let warning = |warning: &Warning| {
        let Warning {
            lint,
            file,
            line,
            column,
            message,
        } = warning;
        json!({"lint": lint, "file": file, "line": line, "column": column, "message": message})
    };
    json!({
        "usable": true,
        "revision": policy.revision(),
        "rules": policy.rule_ids().count(),
        "allowsEverything": policy.allows_everything(),
        "warnings": warnings.iter().map(warning).collect::<Vec<_>>(),
    })
}

fn refusal(error: &PolicyError) -> Json {
    let PolicyError {
        file,
        line,
        column,
        message,
    } = error;
    json!({
        "usable": false,
        "error": {"file": file, "line": line, "column": column, "message": message},
    })
}
