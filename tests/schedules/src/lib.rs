//! What several threads share, in more orders than a machine would run them in: the gate under loom, in every order that
//! the memory model allows; and gate, permits, versions of a policy, the line, the guard rails and the whole lease under
//! shuttle, in orders drawn by a seed, from the host's own sources.

pub mod drawn;
pub mod gate_loom;
