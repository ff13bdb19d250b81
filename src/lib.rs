//! delegate: hand agent work to other models, every tool call in a jail.
//!
//! The rooms stand in floors; a room may use only rooms below it. From the top:
//! [`cli`] and [`mcp`] (faces), [`run`] (one delegated run), [`agents`],
//! [`tools`], [`provider`], [`journal`], [`workspace`], [`config`], [`store`],
//! and below all of them the crate `jail`. `tests/rooms.rs` holds the arrows.

pub mod agents;
pub mod cli;
pub mod config;
pub mod journal;
pub mod mcp;
pub mod provider;
pub mod rehearsal;
pub mod run;
pub mod store;
pub mod tools;
pub mod workspace;
