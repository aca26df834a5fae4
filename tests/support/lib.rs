//! What the tests share: servers of their own, a proxy that loses answers, a store with faults, a world
//! and a build site whose time is moved by hand.

pub mod cluster;
pub mod command;
pub mod crew;
pub mod faulty;
pub mod fleet;
pub mod guests;
pub mod memory;
pub mod nats;
pub mod proxy;
pub mod rounds;
pub mod running;
pub mod seat;
pub mod signer;
pub mod site;
pub mod world;
