//! The orders in which threads may take their steps. Alone in its binary: loom's coroutines take the signal by which
//! a policy's access out of bounds is noticed.

mod gate_loom;
mod schedules;
