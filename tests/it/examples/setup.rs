//! Sets the examples up as `examples/README.md` says, in a copy of `proto` and `examples` under the target directory:
//! so nothing is used that is not in the repository, and what was installed serves the next run too.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A language with an example.
#[derive(Clone, Copy)]
pub enum Language {
    /// `examples/python`.
    Python,
    /// `examples/typescript`.
    TypeScript,
    /// `examples/go`.
    Go,
}

/// Sets the policy port up, if this process has not yet: where its commands are typed, and the one that starts it.
pub fn policy_port() -> &'static (PathBuf, Vec<String>) {
    static PORT: OnceLock<Result<(PathBuf, Vec<String>), String>> = OnceLock::new();
    let port = PORT.get_or_init(|| {
        let mut blocks = blocks("## Your own authorization\n").into_iter();
        run(&blocks.next().unwrap())?;
        let start = blocks.next().unwrap();
        let command = start.trim().split(' ').map(str::to_owned).collect();
        Ok((checkout().join("examples/policy-port"), command))
    });
    port.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// An example that is ready to run.
pub struct Example {
    /// Where its commands are typed.
    pub folder: PathBuf,
    /// The command of the agent, without the run's id.
    pub agent: Vec<String>,
    /// The command of the person, without what follows.
    pub answer: Vec<String>,
}

/// The folders that an installation makes.
const INSTALLED: [&str; 2] = [".venv", "node_modules"];
/// The folders that generation and building make.
const GENERATED: [&str; 8] = [
    "python/__pycache__",
    "python/assent",
    "typescript/src/gen",
    "typescript/dist",
    "go/gen",
    "go/bin",
    "policy-port/__pycache__",
    "policy-port/assent",
];

impl Language {
    /// Sets the example up, if this process has not yet.
    pub fn example(self) -> &'static Example {
        static EXAMPLES: [OnceLock<Result<Example, String>>; 3] = [const { OnceLock::new() }; 3];
        let (place, folder, title) = match self {
            Self::Python => (&EXAMPLES[0], "python", "### Python\n"),
            Self::TypeScript => (&EXAMPLES[1], "typescript", "### TypeScript\n"),
            Self::Go => {
                // It uses the buf that is installed there.
                Self::TypeScript.example();
                (&EXAMPLES[2], "go", "### Go\n")
            }
        };
        let example =
            place.get_or_init(|| Example::set_up(&checkout().join("examples").join(folder), title));
        example.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Example {
    fn set_up(folder: &Path, title: &str) -> Result<Self, String> {
        let mut blocks = blocks(title).into_iter();
        run(&blocks.next().unwrap())?;
        let commands = blocks.next().unwrap();
        let mut commands = commands.lines();
        let mut command = |end: &str| {
            let line = commands.next().unwrap();
            let (command, _) = line
                .split_once(end)
                .unwrap_or_else(|| panic!("no `{end}` in `{line}`"));
            command.split(' ').map(str::to_owned).collect()
        };
        Ok(Self {
            folder: folder.to_owned(),
            agent: command(" run-1"),
            answer: command(" SUSPENSION_ID"),
        })
    }
}

/// The blocks of commands of the README that come after a title.
fn blocks(title: &str) -> Vec<String> {
    let readme = fs::read_to_string(checkout().join("examples/README.md")).unwrap();
    let (_, section) = readme
        .split_once(title)
        .unwrap_or_else(|| panic!("no section {title}"));
    let blocks = section.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// Runs a block of commands of the README.
fn run(block: &str) -> Result<(), String> {
    let buf = checkout().join("examples/typescript/node_modules/.bin");
    let paths = env::var_os("PATH").unwrap_or_default();
    let paths = env::join_paths(env::split_paths(&paths).chain([buf])).unwrap();
    let output = Command::new("sh")
        .args(["-e", "-x", "-c", block])
        .current_dir(checkout())
        .env("PATH", paths)
        .output()
        .expect("the examples are set up with `sh`");
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "an example cannot be set up as examples/README.md says (it needs Python 3.10 with venv, or Node.js 20 with \
         npm, or Go 1.26 with those two, and their package registries or caches):\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    ))
}

/// The copy, made afresh by each process but for what was installed.
fn checkout() -> &'static Path {
    static CHECKOUT: OnceLock<(PathBuf, File)> = OnceLock::new();
    let (checkout, _) = CHECKOUT.get_or_init(|| {
        let checkout = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples-checkout");
        fs::create_dir_all(&checkout).unwrap();
        // Held as long as this process lives: another one would pull the examples from under these tests.
        let lock = File::create(checkout.join("lock")).unwrap();
        lock.lock().unwrap();
        for part in ["proto", "examples"] {
            clear(&checkout.join(part));
            copy(
                &Path::new(env!("CARGO_MANIFEST_DIR")).join(part),
                &checkout.join(part),
            );
        }
        (checkout, lock)
    });
    checkout
}

/// Empties a folder, but for what was installed in it.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            fs::remove_file(path).unwrap();
        } else if !INSTALLED.iter().any(|installed| path.ends_with(installed)) {
            clear(&path);
            // It stays if something that was installed is in it.
            let _ = fs::remove_dir(path);
        }
    }
}

/// Copies a folder, but for what was installed or generated in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let source = entry.unwrap().path();
        let target = to.join(source.file_name().unwrap());
        if source.is_file() {
            fs::copy(source, target).unwrap();
        } else if !INSTALLED
            .iter()
            .chain(&GENERATED)
            .any(|made| source.ends_with(made))
        {
            copy(&source, &target);
        }
    }
}
