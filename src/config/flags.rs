//! What can be written on the command line and in the environment, as it is written; and what `--help` teaches.
//!
//! No type here has `Debug`: a store's URL may hold a password. For the same reason nothing that may be one is
//! checked by clap, whose errors quote what they refuse, nor shown by it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::cli::ClientCommand;
use crate::cli::tools::ToolCommand;

const ABOUT: &str = "May this tool call run, must a person be asked first, or is it refused?";

const EXAMPLES: &str = "\
Start here:
  assent                      serve, and ask a person about writes and destructive calls
  assent decide --tool client.issue_refund --args '{\"cents\":420000}' --destructive
  assent pending              what waits for a person
  assent approve ID --by you@example.com

With rules of your own, and with many replicas:
  assent --policy policy.yaml
  assent --policy policies/ --store redis://127.0.0.1:6379/0
  assent check policy.yaml    what is wrong in it; `assent explain` says how it decides

Give a store's password in the environment (ASSENT_STORE): other users of the
machine can read the command line.";

const SERVE_EXAMPLES: &str = "\
Examples:
  assent serve
  assent serve --policy policies/ --store sqlite:/var/lib/assent/assent.db
  assent serve --listen unix:/run/assent/assent.sock
  ASSENT_STORE=redis://:PASSWORD@redis.internal:6379/0 assent serve --policy p.yaml

Callers are not authenticated, so a plain listener beyond this machine needs
--allow-remote. SIGTERM or Ctrl-C stops the server: calls under way are answered
and waits end. A second one stops it at once. A policy that changes is reloaded,
and SIGHUP reloads it at once.";

const HEALTH_EXAMPLES: &str = "\
Examples:
  assent health                             the server as a whole
  assent health --service assent.store      whether its store answers
  assent health --service assent.policy     whether its newest policy is in use

For a container's HEALTHCHECK or an exec probe. The exit status is 0 if the
answer is SERVING, else 1.";

/// Assent's command line.
#[derive(Parser)]
#[command(name = "assent", version, about = ABOUT, after_help = EXAMPLES)]
#[command(disable_help_subcommand = true)]
pub struct Cli {
    /// What to do; serving, if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// How to serve.
    #[command(flatten)]
    pub serve: ServeFlags,

    /// The server that the other commands speak to: HOST:PORT or unix:PATH
    #[arg(
        long,
        global = true,
        env = "ASSENT_SERVER",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:50051",
        help_heading = "Client options"
    )]
    pub server: String,

    /// Print JSON, for scripts
    #[arg(long, global = true, help_heading = "Client options")]
    pub json: bool,
}

/// What Assent can do.
#[derive(Subcommand)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of these in a process"
)]
pub enum Command {
    /// Serve decisions; what `assent` does when no command is given
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeFlags),

    /// Ask a running server for its health
    #[command(after_help = HEALTH_EXAMPLES)]
    Health(HealthFlags),

    /// A command for a running server.
    #[command(flatten)]
    Client(ClientCommand),

    /// A command about a policy's files.
    #[command(flatten)]
    Tool(ToolCommand),
}

/// The flags of `assent serve`.
#[derive(Args)]
#[command(next_help_heading = "Server options")]
pub struct ServeFlags {
    /// Where to listen: IP:PORT, or unix:PATH for a socket that only this user can open
    #[arg(
        long,
        env = "ASSENT_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:50051"
    )]
    pub listen: String,

    /// The policy: a YAML file, or a directory of *.yaml and *.yml files
    ///
    /// Without it every call is allowed that is no write and not destructive, and a person is asked about the rest.
    #[arg(long, env = "ASSENT_POLICY", value_name = "FILE|DIR")]
    pub policy: Option<PathBuf>,

    // The text is for `--help`, which knows no links.
    #[allow(rustdoc::broken_intra_doc_links)]
    /// Where suspensions rest: sqlite:PATH, or redis://[USER:PASSWORD@]HOST:PORT[/DB]
    ///
    /// Without it: an SQLite file in your data directory, $XDG_DATA_HOME/assent/assent.db or
    /// ~/.local/share/assent/assent.db.
    #[arg(
        long,
        env = "ASSENT_STORE",
        value_name = "STORE",
        hide_env_values = true
    )]
    pub store: Option<OsString>,

    /// What the names of all keys in Redis begin with
    #[arg(
        long,
        env = "ASSENT_REDIS_PREFIX",
        value_name = "PREFIX",
        default_value = "assent"
    )]
    pub redis_prefix: String,

    /// Listen beyond this machine although callers are not authenticated and nothing is encrypted
    #[arg(long, env = "ASSENT_ALLOW_REMOTE", value_parser = BoolishValueParser::new())]
    pub allow_remote: bool,

    /// Use a Redis that may evict keys when it is full, and so forget what was asked or answered
    #[arg(long, env = "ASSENT_ALLOW_EVICTION", value_parser = BoolishValueParser::new())]
    pub allow_eviction: bool,

    /// How long calls under way may take to end when the server stops, as 8s or 500ms
    // Below the ten seconds after which `docker stop` kills.
    #[arg(
        long,
        env = "ASSENT_DRAIN_TIMEOUT",
        value_name = "DURATION",
        default_value = "8s"
    )]
    pub drain_timeout: String,

    /// How the log is written to standard error
    #[arg(
        long,
        env = "ASSENT_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug or trace, or a filter such as warn,assent=debug
    ///
    /// RUST_LOG is read when this is not given. [default: info]
    #[arg(long, env = "ASSENT_LOG_LEVEL", value_name = "FILTER")]
    pub log_level: Option<String>,
}

/// The flags of `assent health`.
#[derive(Args)]
pub struct HealthFlags {
    /// Of what: assent.v1.DecisionService, assent.policy or assent.store; nothing for the server as a whole
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub service: String,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Cli {
    /// Reads the command line and the environment.
    ///
    /// # Errors
    /// When it is wrong, and also when help or the version is asked for: clap's error prints itself and knows the
    /// exit status.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(arguments)?;
        if let (Some((name, _)), Some(flag)) = (matches.subcommand(), misplaced(&matches)) {
            let message = if name == "serve" {
                format!("write `{flag}` after `serve`")
            } else {
                format!("`{flag}` is a flag of the server, and `{name}` does not start one")
            };
            return Err(command.error(ErrorKind::ArgumentConflict, message));
        }
        let cli = Self::from_arg_matches(&matches)?;
        if let Some(message) = cli.without_server(&matches) {
            return Err(command.error(ErrorKind::ArgumentConflict, message));
        }
        Ok(cli)
    }
}

impl Cli {
    /// What is wrong with a client's option beside a command that asks no server: it would be passed over.
    fn without_server(&self, matches: &ArgMatches) -> Option<String> {
        let command = match &self.command {
            None => "serve",
            Some(Command::Serve(_)) => "serve",
            Some(Command::Tool(command)) => command.name(),
            Some(Command::Health(_) | Command::Client(_)) => return None,
        };
        let below = matches.subcommand().map(|(_, matches)| matches);
        let given = |flag: &str| {
            let mut all = std::iter::once(matches).chain(below);
            all.any(|matches| matches.value_source(flag) == Some(ValueSource::CommandLine))
        };
        if given("server") {
            return Some(match command {
                "serve" => "`--server` says which server a command asks: write `--listen` to say where to serve".to_owned(),
                command => format!("`{command}` asks no server: leave out `--server`"),
            });
        }
        if command == "serve" && given("json") {
            return Some(
                "`--json` is for what the commands print: write `--log-format json` for the log"
                    .to_owned(),
            );
        }
        None
    }
}

/// A server's flag that stands before a command, where it would be passed over.
fn misplaced(matches: &ArgMatches) -> Option<String> {
    let flags = ServeFlags::augment_args(clap::Command::new("serve"));
    flags
        .get_arguments()
        .find(|flag| {
            let source = matches.value_source(flag.get_id().as_str());
            source == Some(ValueSource::CommandLine)
        })
        .and_then(|flag| flag.get_long().map(|long| format!("--{long}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Cli, String> {
        let all = std::iter::once("assent").chain(arguments.iter().copied());
        Cli::read(all.map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_the_flags_are_the_servers() {
        let cli = read(&["--listen", "127.0.0.1:1"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.serve.listen, "127.0.0.1:1");
    }

    #[test]
    fn a_servers_flag_before_a_command_is_refused_and_not_passed_over() {
        let refused = read(&["--policy", "p.yaml", "serve"]).err().unwrap();
        assert!(
            refused.contains("write `--policy` after `serve`"),
            "{refused}"
        );
        let refused = read(&["--allow-remote", "health"]).err().unwrap();
        assert!(
            refused.contains("`--allow-remote` is a flag of the server"),
            "{refused}"
        );
    }

    #[test]
    fn a_clients_option_is_refused_where_no_server_is_asked() {
        for (arguments, said) in [
            (&["serve", "--server", "a:1"][..], "write `--listen`"),
            (&["--server", "a:1", "serve"], "write `--listen`"),
            (&["--server", "a:1"], "write `--listen`"),
            (&["serve", "--json"], "write `--log-format json`"),
            (
                &["check", "p.yaml", "--server", "a:1"],
                "`check` asks no server",
            ),
            (
                &["--server", "a:1", "import", "p.json"],
                "`import` asks no server",
            ),
        ] {
            let refused = read(arguments).err().unwrap();
            assert!(refused.contains(said), "{refused}");
        }
        assert!(read(&["check", "p.yaml", "--json"]).unwrap().json);
    }

    #[test]
    fn the_server_is_named_before_or_after_the_command() {
        assert_eq!(read(&["--server", "a:1", "health"]).unwrap().server, "a:1");
        assert_eq!(read(&["health", "--server", "a:1"]).unwrap().server, "a:1");
    }
}
