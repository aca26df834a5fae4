//! The signals that are passed on.

use std::io;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{self, SignalKind};

/// Those that ask a process for something. Not those that stop it: the guardian must go on.
const PASSED_ON: [fn() -> SignalKind; 6] = [
    SignalKind::terminate,
    SignalKind::interrupt,
    SignalKind::hangup,
    SignalKind::quit,
    SignalKind::user_defined1,
    SignalKind::user_defined2,
];

/// Listens to them.
pub(crate) struct Signals([(i32, unix::Signal); PASSED_ON.len()]);

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let listen = |kind: SignalKind| Ok::<_, io::Error>((kind.as_raw_value(), unix::signal(kind)?));
        let [a, b, c, d, e, f] = PASSED_ON;
        Ok(Self([listen(a())?, listen(b())?, listen(c())?, listen(d())?, listen(e())?, listen(f())?]))
    }

    /// The number of the next one that asks to end, for as long as there is no command to pass signals on to. The others
    /// ask such a command for something; `hang_up` is done at SIGHUP. Cancel-safe.
    pub(crate) async fn next_to_end(&mut self, hang_up: impl Fn()) -> i32 {
        loop {
            let signal = self.next().await;
            match Signal::from_named_raw(signal) {
                Some(Signal::HUP) => hang_up(),
                Some(Signal::USR1 | Signal::USR2) => {}
                _ => return signal,
            }
        }
    }

    /// The number of the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> i32 {
        let heard = self.0.iter_mut().map(|(number, signal)| {
            Box::pin(async move {
                // Ends only with the runtime.
                signal.recv().await;
                *number
            })
        });
        futures_util::future::select_all(heard).await.0
    }
}

/// Passes a signal on to a child, if it is there still.
pub(crate) fn forward(child: Option<u32>, signal: i32) {
    let pid = child.and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // Gone just now: there is nobody to pass it on to.
        let _ = kill_process(pid, signal);
    }
}

/// What shells say of a process that a signal ended.
pub(crate) fn after_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128))
}
