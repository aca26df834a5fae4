//! Components: a damaged policy is refused, or is one that answers within its bounds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use incumbent::clock::Clock;
use incumbent::imports::Imports;
use incumbent::limits::COMPUTING;
use incumbent::policy::{BUILT_IN, Version};
use incumbent::{Policy, Runtime};

use crate::files::within;
use crate::must_refuse;

/// Compiling what is left of the built-in policy, and a call that may compute for as long as it is let.
const BOUND: Duration = Duration::from_secs(20).saturating_add(COMPUTING);

/// Bytes are refused, or are a policy of this world whose calls end.
pub(crate) fn component(input: &[u8]) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let policies = RUNTIME.get_or_init(|| Runtime::new().expect("a runtime for policies"));
    let began = Instant::now();
    within(|_, runtime| {
        let Ok(version) = runtime.block_on(Version::load(policies, input)) else { return };
        let plain = |text: &str| (1..=100).contains(&text.len()) && !text.contains(char::is_control);
        must_refuse!(plain(&version.about().name), "a policy without a name");
        let heard = runtime.block_on(Policy::of(version).admit(OnlyTheClock, 57, 41));
        if input == BUILT_IN {
            assert!(matches!(heard, Ok(Err(57))), "{heard:?}");
        }
    });
    assert!(began.elapsed() < BOUND, "it took {:?}", began.elapsed());
}

struct OnlyTheClock;

impl Imports for OnlyTheClock {
    fn clock(&self) -> Clock {
        Clock::machine()
    }
}

/// The built-in policy: too large to be kept here too.
pub(crate) fn components() -> Vec<Vec<u8>> {
    vec![BUILT_IN.to_vec()]
}
