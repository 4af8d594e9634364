//! The log: what is written to standard error, and in which form.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::LogFormat;

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// What was written is no filter.
    #[error(
        "the log cannot be filtered by `{0}`: write error, warn, info, debug or trace, or a filter such as \
         `warn,assent=debug`"
    )]
    Filter(String),
    /// Something else in this process writes a log already.
    #[error("the log is set up already")]
    Twice,
}

/// Starts the log of this process.
///
/// # Errors
/// When the filter cannot be read, or there is a log already.
pub fn start(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let filter = parse_filter(filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let started = match format {
        LogFormat::Text => builder
            .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|_| TelemetryError::Twice)
}

fn parse_filter(text: &str) -> Result<EnvFilter, TelemetryError> {
    let refused = || TelemetryError::Filter(text.to_owned());
    // A lone word that is no level would name a crate, so that `inof` silenced the log.
    let is_word = text.chars().all(char::is_alphanumeric);
    if text.is_empty() || is_word && text.parse::<LevelFilter>().is_err() {
        return Err(refused());
    }
    EnvFilter::builder().parse(text).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused_and_does_not_silence_the_log() {
        for filter in [
            "info",
            "WARN",
            "off",
            "warn,assent=debug",
            "assent::engine=trace",
        ] {
            parse_filter(filter).unwrap();
        }
        for filter in ["inof", "", "assent=loud"] {
            parse_filter(filter).unwrap_err();
        }
    }
}
