//! The gate in every order that the memory model allows (`schedules/src/gate_loom.rs`).

use incumbent_schedules::gate_loom::{Depth, MODELS};

#[test]
fn no_order_breaks_the_gate() {
    for model in MODELS {
        assert!(model.run(Depth::Test) > 1, "{} was run in one order only", model.name);
    }
}
