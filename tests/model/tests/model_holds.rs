//! dev
use incumbent_model::holds::*;
use incumbent_policy::Decisions;
struct BuiltIn;
impl Decisions for BuiltIn {
    const NAME: &'static str = "incumbent";
    const VERSION: &'static str = "0.0.0";
}
#[test]
fn sizes() {
    let base = Faults { looks: 3, begins: 1, ..Faults::default() };
    for (what, h, f) in [
        ("none", 5, base),
        ("lost", 5, Faults { lost_answer: 1, ..base }),
        ("late", 5, Faults { late: 1, ..base }),
        ("kill", 5, Faults { builder_killed: 1, ..base }),
        ("refused", 5, Faults { refused: 1, ..base }),
        ("cut", 5, Faults { cut: 1, ..base }),
        ("clocks", 5, Faults { loses: 1, ..base }),
    ] {
        let mut c = Config::two(h);
        c.faults = f;
        let t = std::time::Instant::now();
        let r = explore::<BuiltIn>(&c).unwrap();
        let never: Vec<_> = Sometimes::ALL.iter().filter(|s| !r.reached.has(**s)).collect();
        println!("{what}: {} states, depth {}, {:?}; never {never:?}", r.states, r.depth, t.elapsed());
        if let Some(v) = r.violation {
            println!("{:?}\n{}", v.invariant, v.path.join("\n"));
        }
    }
}
