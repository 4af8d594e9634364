//! The integration tests, one binary: the service as its users meet it.

mod acceptance;
mod architecture;
mod arguments;
mod durability;
mod dynamic;
mod races;
mod support;
mod wire;
