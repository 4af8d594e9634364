//! The wire types: what `build.rs` generates from `proto/assent/v1`, and nothing written by hand.
//!
//! Only the service floor (`grpc`) and the client commands (`cli`) use them; they are named in full, as in
//! `pb::Suspension`, and never imported by a glob. The domain has types of its own.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs,
    unreachable_pub,
    reason = "generated code, which this crate's lint table was not written for"
)]

tonic::include_proto!("assent.v1");

/// The compiled `.proto` files with their imports and comments, as an encoded `google.protobuf.FileDescriptorSet`:
/// for server reflection, and for tests that read or write proto3 JSON.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("assent_descriptor");
