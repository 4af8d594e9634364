//! The integration tests, one binary: the service as its users meet it.

#![allow(
    unreachable_pub,
    reason = "the modules of one binary, which nothing else can reach"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod acceptance;
mod architecture;
mod arguments;
mod cli;
mod durability;
mod dynamic;
mod ends;
mod errors;
mod examples;
mod explain;
mod failing_rules;
mod fuzz_corpus;
mod grants;
mod kinds;
mod lifecycle;
mod model;
mod policy_port;
mod policy_tools;
mod races;
mod readme;
mod redis_store;
mod reload;
mod serve;
mod store_contract;
mod support;
mod watching;
mod wire;
mod wrappers;
