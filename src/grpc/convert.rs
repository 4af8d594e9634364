//! Between the wire and the domain: requests in, answers out, and nothing decided.
//!
//! A wire message is taken apart whole, so that a new field breaks the build until somebody says what it
//! means; a field of the contract that this version does not honour is refused, never ignored.

pub(super) mod field;
pub(super) mod request;
pub(super) mod response;
