//! The receiving side: acts arrive late and out of order, and a fence admits or refuses them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use incumbent::Policy;
use incumbent::fence::Fence;
use incumbent::floor::MemoryFloor;
use tokio::net::UnixDatagram;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::fault::Chance;
use super::log::Act;

/// One act in so many is late; the others take a moment.
const LATE: usize = 4;
/// How late it may be, ms: past a takeover, often.
const LATEST: u64 = 4000;

/// A running receiver, ended when dropped.
#[derive(Debug)]
pub struct Receiver {
    heard: Arc<Mutex<Vec<Act>>>,
    listening: JoinHandle<()>,
}

impl Receiver {
    /// Listens on a socket at this path. Without its fence it admits everything: to show that this is found.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub async fn start(path: &Path, policy: &Policy, fenced: bool, mut chance: Chance) -> Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        let fence = Arc::new(Fence::open(policy, Arc::new(MemoryFloor::default())).await?);
        let heard = Arc::<Mutex<Vec<Act>>>::default();
        let judged = heard.clone();
        let listening = tokio::spawn(async move {
            // Dropped with this task, and every act on its way with it.
            let mut on_their_way = tokio::task::JoinSet::new();
            let mut act = [0; 8];
            while let Ok(8) = socket.recv(&mut act).await {
                while on_their_way.try_join_next().is_some() {}
                let epoch = u64::from_le_bytes(act);
                let late = chance.upto(LATE - 1) == 0;
                let delay = if late { chance.millis(0, LATEST) } else { Duration::ZERO };
                let (fence, judged) = (fence.clone(), judged.clone());
                on_their_way.spawn(async move {
                    tokio::time::sleep(delay).await;
                    // Written down in the order in which they are judged.
                    let mut judged = judged.lock().await;
                    let admitted = !fenced || fence.admit(epoch).await.is_ok();
                    judged.push(Act { epoch, admitted });
                });
            }
        });
        Ok(Self { heard, listening })
    }

    /// The acts judged so far.
    pub async fn acts(&self) -> Vec<Act> {
        self.heard.lock().await.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
