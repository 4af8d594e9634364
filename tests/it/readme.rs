//! The README is run: its commands against a real server, its policy by the compiler, its snippet by
//! Python's parser; its links lead somewhere, and its table of flags is the one of `--help`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assent::policy::{Policy, Source};
use serde_json::Value as Json;

use crate::support::server::Process;

const ASSENT: &str = env!("CARGO_BIN_EXE_assent");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The fenced blocks of a language, in order.
fn blocks(language: &str) -> Vec<String> {
    fenced(&readme(), language)
}

/// Those of one section.
fn blocks_of(heading: &str, language: &str) -> Vec<String> {
    fenced(&section(heading), language)
}

fn section(heading: &str) -> String {
    let readme = readme();
    let start = format!("\n## {heading}\n");
    let (_, rest) = readme.split_once(&start).expect("a heading");
    rest.split("\n## ").next().unwrap().to_owned()
}

fn fenced(text: &str, language: &str) -> Vec<String> {
    all_fenced(text)
        .into_iter()
        .filter_map(|(fence, block)| (fence == language).then_some(block))
        .collect()
}

/// All fenced blocks with their language, in order.
fn all_fenced(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(fence)) => open = Some((fence.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Runs a line as a shell would, with `assent` and the tools that `tests/run` installs on the path.
fn shell(line: &str, server: &str) -> Output {
    shell_in(root(), line, server)
}

fn shell_in(directory: &Path, line: &str, server: &str) -> Output {
    let mut path = vec![
        Path::new(ASSENT).parent().unwrap().to_owned(),
        root().join("target/tools"),
    ];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    Command::new("sh")
        .args(["-c", line])
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("ASSENT_SERVER", server)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_first_decision_can_be_typed_line_by_line() {
    let server = Process::start(&[]);
    let address = server.address();
    let commands: Vec<String> = blocks_of("Run it in 30 seconds", "sh")
        .iter()
        .flat_map(|block| block.lines())
        .filter(|line| line.starts_with("assent "))
        .map(str::to_owned)
        .collect();
    let verbs: Vec<&str> = commands
        .iter()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    let flow = [
        "decide", "decide", "pending", "show", "approve", "claim", "complete",
    ];
    assert_eq!(verbs, flow);

    let mut id = None;
    for command in &commands {
        if id.is_none() && command.contains(" ID") {
            let pending = shell("assent pending --json", address);
            let pending: Json = serde_json::from_slice(&pending.stdout).unwrap();
            id = pending["suspensions"][0]["id"].as_str().map(str::to_owned);
        }
        let command = match &id {
            Some(id) => command.replace(" ID", &format!(" {id}")),
            None => command.clone(),
        };
        let output = shell(&command, address);
        let suspends = command.contains("--destructive");
        let code = if suspends { 3 } else { 0 };
        assert_eq!(
            output.status.code(),
            Some(code),
            "{command}\n{}",
            text(&output)
        );
    }
    let show = shell(&format!("assent show {} --json", id.unwrap()), address);
    let shown: Json = serde_json::from_slice(&show.stdout).unwrap();
    assert_eq!(shown["resolution"]["by"], "manager-7");
    assert_eq!(shown["execution"], "EXECUTION_COMPLETED");
}

#[test]
fn grpcurl_lists_describes_and_calls_by_reflection() {
    let server = Process::start(&[]);
    let address = server.address();
    assert!(
        shell("grpcurl --version", address).status.success(),
        "grpcurl is missing: run the tests with `tests/run`, which installs it"
    );
    let commands: Vec<String> = blocks("sh")
        .iter()
        .flat_map(|block| block.lines())
        .filter(|line| line.starts_with("grpcurl "))
        .map(|line| line.replace("127.0.0.1:50051", address))
        .collect();
    let [list, decide, question, webhook] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let listed = shell(list, address);
    let services: BTreeSet<String> = text(&listed).lines().map(str::to_owned).collect();
    let expected = [
        "assent.v1.DecisionService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    assert_eq!(services, expected.map(str::to_owned).into());
    let decided = shell(decide, address);
    let answer: Json = serde_json::from_slice(&decided.stdout)
        .unwrap_or_else(|_| panic!("{decide}\n{}", text(&decided)));
    assert_eq!(answer["effect"], "EFFECT_SUSPEND");

    // Each wait is opened and answered by the two lines of its block.
    let blocks = blocks("sh");
    for (suspend, answered) in [(question, "answers"), (webhook, "payloadJson")] {
        let opened = shell(suspend, address);
        let opened: Json = serde_json::from_slice(&opened.stdout)
            .unwrap_or_else(|_| panic!("{suspend}\n{}", text(&opened)));
        assert_eq!(opened["status"], "SUSPENSION_STATUS_PENDING");
        let id = opened["id"].as_str().unwrap();
        let line = suspend.replace(address, "127.0.0.1:50051");
        let block = blocks.iter().find(|block| block.contains(&line)).unwrap();
        let answer = block.lines().nth(1).unwrap();
        let answer = format!("{} --json", answer.replace(" ID", &format!(" {id}")));
        let done = shell(&answer, address);
        let done: Json = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|_| panic!("{answer}\n{}", text(&done)));
        let resolution = &done["suspension"]["resolution"];
        assert!(!resolution[answered].is_null(), "{done}");
    }

    // Every RPC can be called with an empty request: it answers, or says what is missing.
    let methods = shell(
        &format!("grpcurl -plaintext {address} list assent.v1.DecisionService"),
        address,
    );
    let methods = text(&methods);
    assert_eq!(methods.lines().count(), 13, "{methods}");
    for method in methods.lines() {
        let (service, name) = method.rsplit_once('.').unwrap();
        // A watch goes on until its client ends it.
        let called = shell(
            &format!("grpcurl -plaintext -max-time 2 {address} {service}/{name}"),
            address,
        );
        let said = text(&called);
        let understood = called.status.success()
            || said.contains("Code: InvalidArgument")
            || name == "WatchSuspensions" && said.contains(r#""initialComplete": true"#);
        assert!(understood, "{method}: {said}");
        assert!(!said.contains("Failed to"), "{method}: {said}");
    }
}

#[test]
fn the_policy_compiles_and_needs_what_it_says() {
    let [text] = blocks_of("The policy", "yaml").try_into().unwrap();
    let source = Source {
        name: "policy.yaml".to_owned(),
        text,
    };
    let policy = Policy::compile(&[source]).unwrap();
    assert!(!policy.allows_everything());
}

#[test]
fn a_wrapper_is_judged_as_the_readme_says() {
    let [policy] = blocks_of("The policy", "yaml").try_into().unwrap();
    let [command] = blocks_of("The policy", "console").try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, policy).unwrap();
    let server = Process::start(&["--policy", file.to_str().unwrap()]);
    let output = shell(&format!("{} --json", command.trim()), server.address());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let decided: Json = serde_json::from_slice(&output.stdout).unwrap();
    let call = &decided["suspension"]["call"];
    assert_eq!(call["tool"], "github__delete_repo");
    assert_eq!(call["argumentsJson"], r#"{"name":"x"}"#);
}

#[test]
fn a_policy_is_written_tested_and_broken_line_by_line() {
    let directory = tempfile::tempdir().unwrap();
    let mut last = None;
    let mut commands = 0;
    for (language, block) in all_fenced(&section("Write a policy, test it")) {
        match language.as_str() {
            "yaml" => {
                let name = block.lines().next().unwrap().trim_start_matches("# ");
                std::fs::write(directory.path().join(name), &block).unwrap();
                let example = root().join("examples/policy").join(name);
                assert_eq!(std::fs::read_to_string(example).unwrap(), block);
            }
            "sh" => {
                for line in block.lines() {
                    last = Some((line.to_owned(), shell_in(directory.path(), line, "")));
                    commands += 1;
                    let (line, output) = last.as_ref().unwrap();
                    let expected = if line.contains("explain") {
                        3
                    } else if line.starts_with("assent") && line.contains("broken") {
                        1
                    } else {
                        0
                    };
                    assert_eq!(
                        output.status.code(),
                        Some(expected),
                        "{line}\n{}",
                        text(output)
                    );
                }
            }
            _ => {
                // What is shown is what the last command printed, or how that begins.
                let (line, output) = last.take().unwrap();
                let said = text(&output);
                assert!(said.starts_with(&block), "{line}\n{said}\n{block}");
            }
        }
    }
    assert_eq!(commands, 7);
}

#[test]
fn the_snippet_is_python() {
    let snippets = blocks("python");
    assert!(!snippets.is_empty());
    for snippet in snippets {
        let mut python = Command::new("python3")
            .args(["-c", "import ast, sys; ast.parse(sys.stdin.read())"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("python3 is missing: run the tests with `tests/run`, which installs it");
        python
            .stdin
            .take()
            .unwrap()
            .write_all(snippet.as_bytes())
            .unwrap();
        assert!(python.wait().unwrap().success(), "{snippet}");
    }
}

#[test]
fn links_lead_somewhere() {
    let readme = readme();
    let headings: BTreeSet<String> = readme
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-';
            title
                .chars()
                .filter(kept)
                .collect::<String>()
                .replace(' ', "-")
        })
        .collect();
    let mut links = 0;
    for part in readme.split("](").skip(1) {
        let target = part.split(')').next().unwrap();
        links += 1;
        if let Some(heading) = target.strip_prefix('#') {
            assert!(headings.contains(heading), "no heading for {target}");
        } else if !target.starts_with("https://") {
            let path: PathBuf = root().join(target.split('#').next().unwrap());
            assert!(path.exists(), "{target} is not there");
        }
    }
    assert!(links > 10);
}

#[test]
fn the_table_of_flags_is_that_of_help() {
    let help = shell("assent serve --help", "");
    let flags_of = |text: &str, mark: &str| -> BTreeSet<String> {
        text.lines()
            .filter_map(|line| line.trim_start().strip_prefix(mark))
            .filter_map(|rest| rest.split([' ', '`']).next())
            .filter(|flag| !flag.ends_with('.'))
            .map(str::to_owned)
            .collect()
    };
    let mut helped = flags_of(&text(&help), "--");
    for client in ["server", "json"] {
        helped.remove(client);
    }
    let told = flags_of(&readme(), "| `--");
    assert_eq!(told, helped);
}
