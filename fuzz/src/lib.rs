//! What must hold for any bytes: a function for each fuzz target, which panics where it does not.
//!
//! The tests of the repository run the same functions over the committed corpus (`tests/it/fuzz_corpus.rs`), so they
//! use nothing of libFuzzer and no clock.

pub mod arguments;
pub mod condition;
pub mod decide;
pub mod policy;
