//! Where answers go: standard output, for people or as JSON.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use prost::Message;
use prost_types::Timestamp;

use super::error::CliError;
use super::{json, server, text};

/// What the text for people depends on beside the answer itself.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    /// The columns of the terminal; none where the output is no terminal, and lines may be of any length.
    pub(super) width: Option<usize>,
    /// Now, for relative times.
    pub(super) now: Timestamp,
    /// The ` --server ADDRESS` that a next command needs, or nothing.
    pub(super) server_flag: String,
}

/// Standard output in one of its two forms.
#[derive(Debug)]
pub(super) struct Output {
    json: bool,
    server_flag: String,
    is_unread: AtomicBool,
}

impl Output {
    pub(super) fn new(json: bool, server_flag: String) -> Self {
        Self {
            json,
            server_flag,
            is_unread: AtomicBool::new(false),
        }
    }

    /// Whether whoever read what was printed has gone, as `head` does: then there is nobody to go on for.
    pub(super) fn is_unread(&self) -> bool {
        self.is_unread.load(Ordering::Relaxed)
    }

    /// Whether answers are printed as JSON.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// Prints an answer in whichever form is wanted; `name` is the message's name in `assent.v1`.
    pub(super) fn print<M: Message>(
        &self,
        name: &str,
        answer: &M,
        text: impl FnOnce(&Screen) -> String,
    ) -> Result<(), CliError> {
        self.print_json(name, answer)?;
        self.print_text(text)
    }

    /// Prints an answer as one line if JSON is wanted, else nothing.
    pub(super) fn print_json<M: Message>(&self, name: &str, answer: &M) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        let mut line = json::to_json(name, answer)?;
        line.push('\n');
        self.write(&line)
    }

    /// Prints a document of our own as one line if JSON is wanted, else nothing.
    pub(super) fn print_json_value(&self, document: &serde_json::Value) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        self.write(&format!("{}\n", text::json_text(&document.to_string())))
    }

    /// Prints text for people unless JSON is wanted.
    pub(super) fn print_text(&self, text: impl FnOnce(&Screen) -> String) -> Result<(), CliError> {
        if self.json {
            return Ok(());
        }
        self.write(&text(&Screen {
            width: terminal_width(),
            // The answer may have been waited for: now is when it is printed.
            now: server::now(),
            server_flag: self.server_flag.clone(),
        }))
    }

    fn write(&self, text: &str) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            // `assent pending | head` has read what it wanted.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_unread.store(true, Ordering::Relaxed);
                Ok(())
            }
            written => written.map_err(CliError::Output),
        }
    }
}

fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    // A terminal that does not tell its size is taken for the narrowest usual one.
    let columns = terminal_size::terminal_size_of(&stdout).map_or(80, |(width, _)| width.0);
    Some(usize::from(columns).max(40))
}
