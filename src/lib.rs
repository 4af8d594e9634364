//! Assent decides whether an AI agent's tool call may run, must wait for a person, or is refused.
//!
//! # The house
//!
//! A file imports only from floors below its own.
//!
//! | floor | files |
//! |---|---|
//! | roof | `main.rs`, `cli`, [`server`], [`config`], [`telemetry`] |
//! | service | [`grpc`], [`engine`], [`watch`] |
//! | store | [`store`]: the contract, `sqlite` and `redis` |
//! | policy | [`policy`]: the document, its patterns and its conditions |
//! | ground | [`domain`], [`arguments`], [`classify`], [`suspension`], [`outcome`] |

pub mod arguments;
pub mod classify;
pub mod domain;
pub mod engine;
pub mod outcome;
pub mod pb;
pub mod policy;
pub mod store;
pub mod suspension;
pub mod watch;
