//! The house rules of src/lib.rs, read off the sources: who may import what, and from which floor.
//!
//! The sources are parsed, their `#[cfg(test)]` items left out, imports resolved, and every path that
//! is written anywhere (macros too) is held against the rules. Planted violations show that each rule
//! can fail.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::Item;

/// The floors from the ground up, by the first part of a file's path in src/.
const FLOORS: &[&[&str]] = &[
    &[
        "arguments",
        "classify",
        "domain",
        "outcome",
        "schema",
        "suspension",
    ],
    &["policy"],
    &["store"],
    &["engine", "watch"],
    &["grpc"],
    &[
        "cli",
        "config",
        "listener",
        "policy_source",
        "reload",
        "server",
        "startup",
        "telemetry",
    ],
    &["main"],
];

/// What has one home: a dependency (or a module of std), and the only files that may name it.
const HOMES: &[(&str, &[&str])] = &[
    ("cel", &["policy/expression"]),
    ("redis", &["store/redis"]),
    ("rusqlite", &["store/sqlite"]),
    ("jsonschema", &["schema"]),
    ("serde_saphyr", &["policy"]),
    ("notify", &["reload"]),
    ("clap", &["cli", "config", "main"]),
    ("std::env", &["config", "main"]),
    ("std::process::exit", &["config", "main"]),
    ("crate::pb", &["grpc", "cli", "server", "lib", "pb"]),
    ("tonic::Status", &["grpc", "cli", "server"]),
    ("crate::pb::policy_port_service_client", &["grpc/port"]),
];

/// What the ground floor does not know.
const NOT_ON_THE_GROUND: &[&str] = &[
    "tonic",
    "prost",
    "redis",
    "rusqlite",
    "tokio",
    "std::env",
    "std::fs",
    "std::net",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// What makes policy impure or late.
const NOT_IN_POLICY: &[&str] = &["tokio", "tonic", "std::fs", "std::time::SystemTime"];

#[test]
fn the_sources_keep_the_house_rules() {
    let sources = sources();
    assert!(
        sources.len() > 20,
        "only {} sources were found",
        sources.len()
    );
    let violations: Vec<String> = sources
        .iter()
        .flat_map(|(file, text)| violations(file, text))
        .collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn every_source_is_on_a_floor() {
    for (file, _) in sources() {
        let known = ["lib", "pb", "codec"].contains(&root(&file)) || floor(root(&file)).is_some();
        assert!(
            known,
            "src/{file}.rs is on no floor: put it into FLOORS and src/lib.rs"
        );
    }
}

#[test]
fn planted_violations_are_found() {
    for (file, text) in [
        ("domain", "use tokio::sync::Mutex;"),
        (
            "arguments/reader",
            "fn f() { let now = std::time::SystemTime::now(); }",
        ),
        ("suspension", "use std::{fmt, env};"),
        ("suspension", "use crate::store::Commit;"),
        (
            "classify",
            "fn f() { format!(\"{}\", crate::policy::x()); }",
        ),
        ("policy/rules", "use cel::Program;"),
        ("policy/rules", "use crate::store::SuspensionStore;"),
        ("policy/rules", "pub async fn evaluate() {}"),
        ("store/sqlite", "use crate::policy::Policy;"),
        ("store/sqlite", "use redis::Client;"),
        ("store/redis", "use rusqlite as db;"),
        (
            "store/redis",
            "fn f(s: &crate::suspension::Suspension) { s.resume(); }",
        ),
        ("engine/decide", "use crate::pb;"),
        (
            "engine",
            "use tonic as t; fn f() { t::Status::internal(\"x\"); }",
        ),
        (
            "grpc",
            "use tonic::Status; fn f() -> Status { Status::internal(\"x\") }",
        ),
        (
            "grpc/convert",
            "fn f() -> tonic::Status { tonic::Status::with_details() }",
        ),
        ("engine/schemas", "use jsonschema::Validator;"),
        ("server", "fn f() { std::process::exit(1) }"),
        ("cli/show", "use std::env::var;"),
        (
            "grpc",
            "use crate::pb::policy_port_service_client::PolicyPortServiceClient;",
        ),
        ("policy_source", "use notify::Watcher;"),
    ] {
        assert!(!violations(file, text).is_empty(), "{file}: {text}");
    }
    for (file, text) in [
        (
            "domain",
            "use std::time::Duration; #[cfg(test)] mod tests { use tokio::test; }",
        ),
        (
            "store/redis/script",
            "use redis::Script; use crate::suspension::State;",
        ),
        (
            "grpc/status",
            "use tonic::Status; fn f() -> Status { Status::internal(\"x\") }",
        ),
        ("grpc", "use tonic::{Request, Response, Status};"),
        (
            "engine",
            "use crate::policy::Policy; use crate::store::Commit;",
        ),
    ] {
        assert_eq!(
            violations(file, text),
            Vec::<String>::new(),
            "{file}: {text}"
        );
    }
}

#[test]
fn the_model_is_written_from_the_rules_alone() {
    let files = files_of("tests/it/model/plain");
    assert!(files.len() > 5, "only {} files were found", files.len());
    let own = std::fs::read_to_string("tests/it/model/plain.rs").unwrap();
    for (file, text) in files.into_iter().chain([("plain".to_owned(), own)]) {
        assert_eq!(names_of_ours(&text), Vec::<String>::new(), "{file}");
    }
    let planted =
        "use assent::{pb, suspension::State}; fn f() { crate::wire::get(); assent::engine::x() }";
    let found = names_of_ours(planted);
    let wanted = [
        "assent::engine::x",
        "assent::suspension::State",
        "crate::wire::get",
    ];
    assert_eq!(found, wanted);
}

/// What a file of the model names that is ours and not of the contract's messages.
fn names_of_ours(text: &str) -> Vec<String> {
    let paths = Source::parse(text).paths.into_iter();
    let is_ours = |path: &String| ["assent", "crate"].contains(&root_segment(path));
    let is_message = |path: &String| path == "assent::pb" || path.starts_with("assent::pb::");
    paths
        .filter(|path| is_ours(path) && !is_message(path))
        .collect()
}

/// All files of src/ by their path without the ending.
fn sources() -> Vec<(String, String)> {
    files_of("src")
}

fn files_of(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && path.file_stem().is_none_or(|stem| stem != "tests")
            {
                let name = path.strip_prefix(&root).unwrap().with_extension("");
                let text = std::fs::read_to_string(&path).unwrap();
                sources.push((name.to_str().unwrap().to_owned(), text));
            }
        }
    }
    sources
}

fn root(file: &str) -> &str {
    file.split('/').next().unwrap()
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// Whether `file` is `home` or below it.
fn lives_in(file: &str, home: &str) -> bool {
    file == home
        || file
            .strip_prefix(home)
            .is_some_and(|rest| rest.starts_with('/'))
}

fn violations(file: &str, text: &str) -> Vec<String> {
    let source = Source::parse(text);
    let own = root(file);
    let mut found = Vec::new();
    let mut forbid =
        |path: &str, why: String| found.push(format!("src/{file}.rs names `{path}`: {why}"));
    for path in &source.paths {
        let names = |what: &str| path == what || path.starts_with(&format!("{what}::"));
        for (what, homes) in HOMES {
            if names(what) && !homes.iter().any(|home| lives_in(file, home)) {
                forbid(path, format!("it lives in {}", homes.join(", ")));
            }
        }
        // A type may be named in a signature; made it is in one place.
        if path.starts_with("tonic::Status::") && file != "grpc/status" {
            forbid(path, "a status is made in grpc/status.rs".to_owned());
        }
        if floor(own) == Some(0) && NOT_ON_THE_GROUND.iter().any(|what| names(what)) {
            forbid(path, "the ground floor does not know it".to_owned());
        }
        if own == "policy" && NOT_IN_POLICY.iter().any(|what| names(what)) {
            forbid(path, "policy is pure and synchronous".to_owned());
        }
        if own == "store" && path.starts_with("crate::policy") {
            forbid(path, "policy and store meet in engine.rs".to_owned());
        }
        let module = path.strip_prefix("crate::").map(root_segment);
        if let (Some(mine), Some(theirs)) = (floor(own), module.and_then(floor))
            && theirs > mine
        {
            forbid(path, "it is on a floor above".to_owned());
        }
    }
    for method in &source.methods {
        if own == "store" && TRANSITIONS.contains(&method.as_str()) {
            forbid(method, "the stores run no transition".to_owned());
        }
    }
    if own == "policy" && source.is_async {
        forbid("async", "policy is pure and synchronous".to_owned());
    }
    found
}

/// The state machine's methods, which the engine alone calls.
const TRANSITIONS: &[&str] = &["settled", "resume", "claim", "complete", "cancelled"];

fn root_segment(path: &str) -> &str {
    path.split("::").next().unwrap()
}

/// What a file says.
struct Source {
    /// Every path of two or more parts, and every import; the first part resolved by the imports.
    paths: BTreeSet<String>,
    /// Every method that is called.
    methods: BTreeSet<String>,
    is_async: bool,
}

impl Source {
    fn parse(text: &str) -> Self {
        let file = syn::parse_file(text).unwrap();
        let items: Vec<Item> = file
            .items
            .into_iter()
            .filter(|item| !is_test(item))
            .collect();
        let mut imports = HashMap::new();
        for item in &items {
            if let Item::Use(item) = item {
                import(&item.tree, String::new(), &mut imports);
            }
        }
        let mut source = Self {
            paths: imports.values().cloned().collect(),
            methods: BTreeSet::new(),
            is_async: false,
        };
        for item in items {
            if !matches!(item, Item::Use(_)) {
                source.walk(item.into_token_stream(), &imports);
            }
        }
        source
    }

    fn walk(&mut self, tokens: TokenStream, imports: &HashMap<String, String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(group) => self.walk(group.stream(), imports),
                TokenTree::Ident(ident) => {
                    let after_dot = at >= 2 && is_punct(tokens.get(at - 2), '.');
                    let called = matches!(tokens.get(at), Some(TokenTree::Group(group))
                        if group.delimiter() == Delimiter::Parenthesis);
                    if after_dot && called {
                        self.methods.insert(ident.to_string());
                    }
                    self.is_async |= ident == "async";
                    let mut path = ident.to_string();
                    while is_punct(tokens.get(at), ':')
                        && is_punct(tokens.get(at + 1), ':')
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 2)
                    {
                        path = format!("{path}::{next}");
                        at += 3;
                    }
                    let first = root_segment(&path);
                    if let Some(import) = imports.get(first) {
                        path = format!("{import}{}", path.strip_prefix(first).unwrap());
                    }
                    if path.contains("::") {
                        self.paths.insert(path);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn import(tree: &syn::UseTree, prefix: String, imports: &mut HashMap<String, String>) {
    match tree {
        syn::UseTree::Path(path) => {
            import(&path.tree, format!("{prefix}{}::", path.ident), imports)
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                import(tree, prefix.clone(), imports);
            }
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            let path = prefix.trim_end_matches("::").to_owned();
            imports.insert(path.rsplit("::").next().unwrap().to_owned(), path);
        }
        syn::UseTree::Name(name) => {
            imports.insert(name.ident.to_string(), format!("{prefix}{}", name.ident));
        }
        syn::UseTree::Rename(rename) => {
            let alias = match rename.rename.to_string().as_str() {
                // Imported for its methods only; keep it apart from other such imports.
                "_" => format!("_{}", imports.len()),
                alias => alias.to_owned(),
            };
            imports.insert(alias, format!("{prefix}{}", rename.ident));
        }
        syn::UseTree::Glob(_) => {
            imports.insert(format!("*{}", imports.len()), format!("{prefix}*"));
        }
    }
}

fn is_test(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .to_token_stream()
                .to_string()
                .contains("test")
    })
}
