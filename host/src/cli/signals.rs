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
pub(crate) struct Signals {
    listening: [(i32, unix::Signal); PASSED_ON.len()],
    /// The first that asked to end.
    ending: Option<i32>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let listen = |kind: SignalKind| Ok::<_, io::Error>((kind.as_raw_value(), unix::signal(kind)?));
        let [a, b, c, d, e, f] = PASSED_ON;
        let listening = [listen(a())?, listen(b())?, listen(c())?, listen(d())?, listen(e())?, listen(f())?];
        Ok(Self { listening, ending: None })
    }

    /// The number of the next one that asks to end, for as long as there is no command to pass signals on to. SIGUSR1 and
    /// SIGUSR2 ask such a command for something; SIGHUP does where `reread` says so, and else says that the terminal is
    /// gone. Cancel-safe.
    pub(crate) async fn next_to_end(&mut self, reread: impl Fn() -> bool) -> i32 {
        loop {
            let signal = self.next().await;
            match Signal::from_named_raw(signal) {
                Some(Signal::USR1 | Signal::USR2) => {}
                Some(Signal::HUP) if reread() => {}
                _ => return signal,
            }
        }
    }

    /// What this comes to, or the number of the signal that asked to end meanwhile, and cut it off.
    pub(crate) async fn unless_ended<T>(
        &mut self,
        work: impl Future<Output = T>,
        reread: impl Fn() -> bool,
    ) -> Result<T, i32> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next_to_end(reread) => Err(signal),
        }
    }

    /// The number of the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> i32 {
        let heard = self.listening.iter_mut().map(|(number, signal)| {
            Box::pin(async move {
                // Ends only with the runtime.
                signal.recv().await;
                *number
            })
        });
        let number = futures_util::future::select_all(heard).await.0;
        if let Some(Signal::TERM | Signal::INT | Signal::QUIT) = Signal::from_named_raw(number) {
            self.ending.get_or_insert(number);
        }
        number
    }

    /// The first of those so far that asked to end, also of one that was passed on.
    pub(crate) fn ending(&self) -> Option<i32> {
        self.ending
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
