//! The line of candidates: some take their turn, some leave it while they wait.

use std::sync::Arc;
use std::task::Poll;

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

use super::stage::lease::Line;

/// Five stand in line; two of them leave it after a look, whether they had the turn by then or not.
pub(super) fn candidates_come_and_go() {
    let (line, has, served) = (Line::default(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let stand = |patient: bool| {
        let (line, has, served) = (line.clone(), has.clone(), served.clone());
        thread::spawn(move || {
            let mut behind = 0;
            let stood = async {
                let turn = line.turn(|| behind += 1).await;
                assert_eq!(has.fetch_add(1, Ordering::SeqCst), 0, "two have the turn");
                thread::yield_now();
                has.fetch_sub(1, Ordering::SeqCst);
                drop(turn);
                served.fetch_add(1, Ordering::SeqCst);
            };
            if patient {
                block_on(stood);
                assert!(behind <= 1, "told twice");
            } else {
                let mut stood = Box::pin(stood);
                // One look, and away.
                block_on(std::future::poll_fn(|context| {
                    let _ = stood.as_mut().poll(context);
                    Poll::Ready(())
                }));
                thread::yield_now();
            }
        })
    };
    let candidates = [true, false, true, false, true].map(stand);
    for candidate in candidates {
        candidate.join().expect("its turn came, or it left");
    }
    let served = served.load(Ordering::SeqCst);
    assert!((3..=5).contains(&served), "{served} were served");
    block_on(async { drop(line.turn(|| panic!("nobody is ahead")).await) });
}
