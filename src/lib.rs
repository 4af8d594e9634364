//! Assent decides whether an AI agent's tool call may run, must wait for a person, or is refused.
//!
//! # The house
//!
//! A file imports only from floors below its own.
//!
//! | floor | files |
//! |---|---|
//! | roof | `main.rs`, [`cli`], [`startup`], [`server`], [`listener`], [`config`], [`policy_source`], [`reload`], [`telemetry`] |
//! | service | [`grpc`], [`engine`], [`watch`] |
//! | store | [`store`]: the contract, `sqlite` and `redis` |
//! | policy | [`policy`]: the document, its patterns and its conditions |
//! | ground | [`domain`], [`arguments`], [`classify`], [`schema`], [`suspension`], [`outcome`] |
//!
//! [`pb`] is the wire, generated from `proto/`, and [`codec`] how its messages are put there.
//!
//! # What holds everywhere
//!
//! 1. The ground floor knows no tonic, prost, redis, rusqlite, tokio, clock or environment; time is a
//!    parameter.
//! 2. A dependency has one home: `cel` in `policy/expression`, `redis` in `store/redis`, `rusqlite` in
//!    `store/sqlite`, `jsonschema` in `schema`, `notify` in `reload`; generated code is named in `grpc`, `cli` and
//!    `server` only. The service that the operator may put behind the policy port is called in `grpc/port.rs`.
//! 3. Policy is pure and synchronous. Policy and store do not know each other; they meet in `engine`.
//! 4. A `tonic::Status` is made in `grpc/status.rs` only, and no client reads an internal error's text.
//! 5. The state machine lives once, in `suspension`, and is run by the engine. The stores commit its
//!    results if the versions read are unchanged, and know no transition.
//! 6. One request sees one policy.
//! 7. The environment and the exit status belong to `main.rs` and `config.rs`.
//!
//! `tests/it/architecture.rs` reads the sources and holds them to this.

pub mod arguments;
pub mod classify;
pub mod cli;
pub mod codec;
pub mod config;
pub mod domain;
pub mod engine;
pub mod grpc;
pub mod listener;
pub mod outcome;
pub mod pb;
pub mod policy;
pub mod policy_source;
pub mod reload;
pub mod schema;
pub mod server;
pub mod startup;
pub mod store;
pub mod suspension;
pub mod telemetry;
pub mod watch;
