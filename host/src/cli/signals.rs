//! The signals that are passed on.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
pub(crate) struct Signals([(i32, Signal); PASSED_ON.len()]);

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let listen = |kind: SignalKind| Ok::<_, io::Error>((kind.as_raw_value(), signal(kind)?));
        let [a, b, c, d, e, f] = PASSED_ON;
        Ok(Self([listen(a())?, listen(b())?, listen(c())?, listen(d())?, listen(e())?, listen(f())?]))
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
