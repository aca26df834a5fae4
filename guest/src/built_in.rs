//! The policy that is built into the host: every decision as it stands here.

struct Incumbent;

impl crate::Decisions for Incumbent {
    const NAME: &'static str = "incumbent";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
}

crate::export!(Incumbent);
