//! What the tests share: servers of their own, a proxy that loses answers, tables.

pub mod command;
pub mod guests;
pub mod nats;
pub mod proxy;
pub mod running;
pub mod script;
