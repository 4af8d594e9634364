//! The binary: arguments, runtime and exit status.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use assent::cli::CliError;
use assent::config::{Cli, Command, ServeFlags, Settings};
use assent::{cli, startup};
use tokio::runtime::Builder;

/// A fifth of a decision's instructions allocate and free: this allocator takes fewer of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit status when something failed.
const FAILURE: u8 = 1;
/// The exit status when the command line is wrong, as clap has it.
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
        Err(error) => return fail(FAILURE, &format_args!("cannot start threads: {error}")),
    };
    let Cli {
        command,
        serve,
        server,
        json,
    } = cli;
    let code = runtime.block_on(async {
        let failed = |error: &CliError| {
            if json {
                return say(error.code(), &error.to_json());
            }
            fail(error.code(), error)
        };
        match command {
            None => serve_with(serve).await,
            Some(Command::Serve(serve)) => serve_with(serve).await,
            Some(Command::Health(flags)) => {
                match cli::health(&server, &flags.service, json).await {
                    Ok(exit) => exit.code().into(),
                    Err(error) => failed(&error),
                }
            }
            Some(Command::Client(command)) => match cli::run(&server, command, json).await {
                Ok(exit) => exit.code().into(),
                Err(error) => failed(&error),
            },
            Some(Command::Tool(command)) => match cli::tools::run(command, json).await {
                Ok(exit) => exit.code().into(),
                Err(error) => failed(&error),
            },
        }
    });
    // Without waiting for a thread that hangs: what was acknowledged is written.
    runtime.shutdown_background();
    code
}

async fn serve_with(flags: ServeFlags) -> ExitCode {
    match Settings::from_flags(flags) {
        Err(error) => fail(USAGE, &error),
        Ok(settings) => match startup::serve(settings).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(FAILURE, &error),
        },
    }
}

/// One sentence on standard error.
fn fail(code: u8, error: &dyn Display) -> ExitCode {
    say(code, &format_args!("error: {error}"))
}

fn say(code: u8, what: &dyn Display) -> ExitCode {
    // Nobody is left to tell if it cannot be written.
    let _ = writeln!(io::stderr(), "{what}");
    code.into()
}
