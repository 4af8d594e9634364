//! The commands for whoever writes a policy: all from files alone, without a server.
//!
//! What they say of a decision is said by the service itself, over a store that holds nothing (`offline`).

mod check;
mod explain;
mod import;
mod offline;
mod test;

pub use check::CheckCommand;
pub use explain::ExplainCommand;
pub use import::ImportCommand;
pub use test::TestCommand;

use super::output::Output;
use super::{CliError, Exit};

/// A command about a policy's files.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum ToolCommand {
    /// Check a policy: what is wrong in it, and what is hardly meant
    Check(CheckCommand),
    /// Run test cases against a policy
    Test(TestCommand),
    /// Explain one decision, step by step, from a policy's file alone
    Explain(Box<ExplainCommand>),
    /// Turn a permission policy of ordered rules (JSON) into a policy document
    Import(ImportCommand),
}

impl ToolCommand {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Check(_) => "check",
            Self::Test(_) => "test",
            Self::Explain(_) => "explain",
            Self::Import(_) => "import",
        }
    }
}

/// Carries out one command and prints what it found to standard output, for people or as one JSON document.
///
/// # Errors
/// When files cannot be read or used, or the answer cannot be written.
pub async fn run(command: ToolCommand, json: bool) -> Result<Exit, CliError> {
    let output = Output::new(json, String::new());
    match command {
        ToolCommand::Check(command) => check::run(&command, &output),
        ToolCommand::Test(command) => test::run(&command, &output).await,
        ToolCommand::Explain(command) => explain::run(&command, &output).await,
        ToolCommand::Import(command) => import::run(&command, &output),
    }
}
