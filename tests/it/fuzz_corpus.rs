//! The corpus of the fuzz targets, replayed: what fuzzing once found, and what it reached, holds on every run.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// Runs a target over each of its files, and says which one it fails on.
fn replay(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut files = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        if std::panic::catch_unwind(|| check(&bytes)).is_err() {
            panic!("{} does not hold", path.display());
        }
        files += 1;
    }
    assert!(files >= 50, "{} has {files} files", directory.display());
}

#[test]
fn any_bytes_as_a_document_are_refused_with_a_place_or_make_a_policy_that_answers() {
    replay("policy", targets::policy::check);
}

#[test]
fn a_condition_is_true_false_or_failed_and_its_negation_with_it() {
    replay("condition", targets::condition::check);
}

#[test]
fn any_bytes_as_a_request_are_refused_as_invalid_or_answered_as_the_policy_says() {
    replay("decide", targets::decide::check);
}

#[test]
fn arguments_are_read_as_serde_json_reads_them_and_have_one_spelling() {
    replay("arguments", targets::arguments::check);
}
