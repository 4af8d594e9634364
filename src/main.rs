//! The binary: arguments, runtime and exit status.

use std::fmt::Display;
use std::process::ExitCode;

use assent::config::{Cli, Command, HealthFlags, ServeFlags, Settings};
use assent::{cli, probe, startup};
use tokio::runtime::Builder;

/// What clap exits with, too, when the command line is wrong.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are such an error too; nobody is left to tell if they cannot be printed.
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &format_args!("cannot start threads: {error}")),
    };
    let Cli { command, serve, server, json } = cli;
    let code = runtime.block_on(async {
        match command {
            None => run_server(serve).await,
            Some(Command::Serve(serve)) => run_server(serve).await,
            Some(Command::Health(flags)) => run_probe(&server, &flags).await,
            Some(Command::Client(command)) => match cli::run(&server, command, json).await {
                Ok(exit) => exit.code().into(),
                Err(error) => fail(error.code(), &error),
            },
        }
    });
    // Without waiting for a thread that hangs: what was acknowledged is written.
    runtime.shutdown_background();
    code
}

async fn run_server(flags: ServeFlags) -> ExitCode {
    match Settings::from_flags(flags) {
        Err(error) => fail(USAGE, &error),
        Ok(settings) => match startup::serve(settings).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error),
        },
    }
}

async fn run_probe(server: &str, flags: &HealthFlags) -> ExitCode {
    use std::io::Write as _;
    use tonic_health::pb::health_check_response::ServingStatus;
    match probe::check(server, &flags.service).await {
        Ok(status) => {
            let _ = writeln!(std::io::stdout(), "{}", status.as_str_name());
            if status == ServingStatus::Serving { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => fail(1, &error),
    }
}

/// One sentence on standard error.
fn fail(code: u8, error: &dyn Display) -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "error: {error}");
    code.into()
}
