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
    let mut n = 0;
    let t0 = std::time::Instant::now();
    for mut r in runs(0) {
        r.config.most = 3_000_000;
        let t = std::time::Instant::now();
        let what = r.what;
        let r = explore::<BuiltIn>(&r.config).unwrap();
        n += r.states;
        println!(
            "{what}: {} states, exhausted {}, depth {}, {:?}; missing {:?}",
            r.states,
            r.exhausted,
            r.depth,
            t.elapsed(),
            r.missing
        );
        if let Some(v) = r.violation {
            println!("{:?}\n{}", v.invariant, v.path.join("\n"));
        }
    }
    println!("{n} {:?}", t0.elapsed());
}
