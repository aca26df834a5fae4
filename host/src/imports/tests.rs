//! What a call is granted, and what of its claims can be so.

use super::*;
use crate::floor::MemoryFloor;
use crate::store::memory::Memory;
use crate::store::{BucketConfig, Store as _};

const KEY: &str = "controller";
const VALIDITY: Duration = Duration::from_secs(12);

fn at(seconds: u64) -> Steady {
    Steady(seconds * 1_000_000_000)
}

/// A clock that stands at 100 s.
fn clock() -> Clock {
    Clock::by_hand(at(100))
}

async fn bucket() -> Arc<dyn Bucket> {
    let config = BucketConfig { ttl: Duration::from_secs(15), replicas: 1 };
    Memory::new(clock()).create_bucket("leases", &config).await.expect("a bucket in memory")
}

/// Standing for the lease, and nobody holds it.
async fn candidate() -> Standing {
    Standing {
        own: OwnKey {
            clock: clock(),
            bucket: bucket().await,
            key: KEY.into(),
            rails: Arc::new(Mutex::new(Rails::new(VALIDITY))),
        },
        gate: Arc::new(Gate::new()),
        floor: Arc::new(MemoryFloor::default()),
        moved: Arc::new(|_, _| ()),
        marker: 0,
        told_floor: None,
        releasing: false,
    }
}

/// One who wrote its record; with the revision.
async fn holder() -> (Standing, u64) {
    let mut io = candidate().await;
    match io.create(Role::Lease, KEY, b"{}").await {
        Ok(Write::Written(revision)) => (io, revision),
        other => panic!("{other:?}"),
    }
}

/// Refused, and no offence: what a sound policy may run into.
#[track_caller]
fn refused_only<T: std::fmt::Debug>(answer: Result<T, Fault>, says: &str) {
    match answer {
        Err(fault @ Fault::Denied(_)) => {
            assert!(!is_overstep(&fault) && fault.to_string().contains(says), "{fault}");
        }
        other => panic!("it is granted: {other:?}"),
    }
}

fn tenure(revision: u64, until: Steady) -> Tenure {
    let taken = String::new();
    Tenure { epoch: revision, revision, created: 0, taken, until_ns: until.0, certainty: Certainty::Sure }
}

#[track_caller]
fn denied<T: std::fmt::Debug>(answer: Result<T, Fault>, says: &str) {
    match answer {
        Err(fault @ Fault::Denied(_)) => {
            assert!(is_overstep(&fault) && fault.to_string().contains(says), "{fault}");
        }
        other => panic!("it is granted: {other:?}"),
    }
}

/// Grants nothing.
struct Bare;

#[async_trait]
impl Imports for Bare {
    fn clock(&self) -> Clock {
        clock()
    }
}

#[tokio::test]
async fn what_is_not_granted_is_denied_and_named() {
    let io = &mut Bare;
    denied(io.get(Role::Lease, "k").await, "to read \"k\" of the bucket Lease");
    denied(io.create(Role::Plans, "k", b"").await, "to create \"k\" in the bucket Plans");
    denied(
        io.update(Role::Running, "k", b"", 7).await,
        "to update \"k\" of the bucket Running at revision 7",
    );
    denied(io.delete(Role::Lease, "k", 7).await, "to delete \"k\" of the bucket Lease at revision 7");
    denied(io.keys(Role::Lease, None, 7).await, "to list the bucket Lease");
    denied(io.info(Role::Lease).await, "to look at the bucket Lease");
    denied(io.last_sequence().await, "to read the bucket's revisions");
    denied(io.purge_below(7).await, "to purge the bucket below revision 7");
    denied(io.oldest_waiting("q").await, "to read the queue \"q\"");
    denied(io.take("q", VALIDITY).await, "to take from the queue \"q\"");
    denied(io.hand_back(7, VALIDITY).await, "to hand back the ask 7");
    denied(io.floor().await, "to read the highest epoch issued");
    assert!(!is_overstep(&Fault::Denied("a name that is too long".into())));
    assert!(!is_overstep(&Fault::Unavailable(format!("a line down, {NOT_GRANTED}"))));
}

/// What is said goes here.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().map_err(|_| std::io::ErrorKind::Other)?.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_policy_says_is_logged_at_its_level_and_cut() {
    let said = Said::default();
    let writer = said.clone();
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let levels = [
        (Level::Trace, "TRACE"),
        (Level::Debug, "DEBUG"),
        (Level::Info, "INFO"),
        (Level::Warn, "WARN"),
        (Level::Error, "ERROR"),
        (Level::Critical, "ERROR"),
    ];
    tracing::subscriber::with_default(log, || {
        for (level, _) in levels {
            Bare.log(level, "lease", "the sky falls");
        }
        Bare.log(Level::Info, &"t".repeat(1000), &"m".repeat(10_000));
    });
    let said = said.0.lock().map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default();
    let lines: Vec<_> = said.lines().collect();
    for ((_, level), line) in levels.iter().zip(&lines) {
        let whole =
            [*level, "incumbent::policy", "the sky falls", "lease"].iter().all(|part| line.contains(part));
        assert!(whole, "{level}: {line}");
    }
    let last = lines.last().map_or("", |line| line);
    let count = |what: &str| last.matches(what).count();
    assert_eq!(count(&"m".repeat(limits::LOG_MESSAGE_CHARS)), 1, "{last}");
    assert!(!last.contains(&"m".repeat(limits::LOG_MESSAGE_CHARS + 1)));
    assert!(last.contains(&"t".repeat(limits::LOG_TARGET_CHARS)));
    assert!(!last.contains(&"t".repeat(limits::LOG_TARGET_CHARS + 1)));
}

#[tokio::test]
async fn a_gate_is_open_under_a_tenure_that_is_sure_at_its_epoch_and_no_longer() {
    let held = tenure(57, at(112));
    let open = |epoch, until: Steady| Open { epoch, until_ns: until.0 };
    let doubted = Tenure { certainty: Certainty::Doubted(7), ..held.clone() };
    for (claim, judged) in [
        (Claim::Open(open(57, at(112)), held.clone()), Ok(())),
        (Claim::Open(open(57, at(101)), held.clone()), Ok(())),
        (Claim::Open(open(58, at(112)), held.clone()), Err(Lie::OtherEpoch { said: 58, known: 57 })),
        (Claim::Open(open(56, at(112)), held.clone()), Err(Lie::OtherEpoch { said: 56, known: 57 })),
        (Claim::Open(open(57, at(113)), held.clone()), Err(Lie::TooLong { by: Duration::from_secs(1) })),
        (Claim::Open(open(57, at(112)), doubted), Err(Lie::Unheld)),
        (Claim::Opened(open(57, at(112))), Err(Lie::Unheld)),
        // Of these a call that decides from its arguments knows nothing.
        (Claim::Taken(held.clone()), Ok(())),
        (Claim::Kept(held.clone()), Ok(())),
    ] {
        assert_eq!(ClockOnly(clock()).judge(claim.clone()).await, judged, "{claim:?}");
    }
}

#[tokio::test]
async fn who_looks_sees_the_leases_only() -> Result<(), Fault> {
    let bucket = bucket().await;
    for key in ["a", "b"] {
        bucket.create(key, b"{}").await?;
    }
    let mut io = Looking { clock: clock(), bucket: bucket.clone() };
    assert_eq!(io.clock().now(), at(100));
    assert!(matches!(io.get(Role::Lease, "a").await?, Reading::Found(_)));
    assert_eq!(io.keys(Role::Lease, Some("a"), 7).await?, ["b"]);
    assert_eq!(io.info(Role::Lease).await?.created, bucket.info().await?.created);
    for role in [Role::Plans, Role::Running] {
        denied(io.get(role, "a").await, "for the bucket");
        denied(io.keys(role, None, 7).await, "for the bucket");
        denied(io.info(role).await, "for the bucket");
    }
    denied(io.update(Role::Lease, "a", b"", 1).await, "to update");
    Ok(())
}

#[tokio::test]
async fn who_stands_for_a_lease_writes_its_own_key_only() -> Result<(), Fault> {
    let (mut io, revision) = holder().await;
    io.own.bucket.create("another", b"{}").await?;
    assert!(matches!(io.get(Role::Lease, "another").await?, Reading::Found(_)), "to read is granted");
    for (role, key, says) in [
        (Role::Lease, "another", "which is not its own"),
        (Role::Plans, KEY, "for the bucket Plans"),
        (Role::Running, KEY, "for the bucket Running"),
    ] {
        denied(io.create(role, key, b"").await, says);
        denied(io.update(role, key, b"", revision).await, says);
        denied(io.delete(role, key, revision).await, says);
    }
    for role in [Role::Plans, Role::Running] {
        denied(io.get(role, KEY).await, "for the bucket");
        denied(io.keys(role, None, 7).await, "for the bucket");
        denied(io.info(role).await, "for the bucket");
    }
    assert_eq!(io.last_sequence().await?, io.own.bucket.last_revision().await?);
    // Given back or lost: the release alone may delete.
    io.own.rails().finish();
    refused_only(io.update(Role::Lease, KEY, b"", revision).await, "after the lease was given back or lost");
    refused_only(io.purge_below(7).await, "its own no more");
    io.releasing = true;
    assert!(matches!(io.delete(Role::Lease, KEY, revision).await?, Write::Written(_)));
    Ok(())
}

/// A holder whose gate is open.
async fn acting() -> (Standing, u64) {
    let (io, revision) = holder().await;
    assert!(io.gate.open(revision, at(112).0));
    (io, revision)
}

#[tokio::test]
async fn a_renewal_that_is_refused_shuts_the_gate_whatever_the_policy_makes_of_it() -> Result<(), Fault> {
    let (mut io, revision) = acting().await;
    assert!(matches!(io.update(Role::Lease, KEY, b"{}", revision).await?, Write::Written(_)));
    assert!(io.gate.until().is_some());
    let (mut io, revision) = acting().await;
    io.own.bucket.update(KEY, b"another's", revision).await?;
    assert!(matches!(io.update(Role::Lease, KEY, b"{}", revision).await?, Write::Stale(_)));
    assert_eq!(io.gate.until(), None);
    Ok(())
}

#[tokio::test]
async fn once_a_deletion_is_sent_the_gate_is_shut_and_the_key_is_nobodys() -> Result<(), Fault> {
    let (mut io, revision) = acting().await;
    assert!(io.own.rails().owns_key(at(100)));
    assert!(io.delete(Role::Lease, KEY, revision + 1).await.is_err(), "not its own revision");
    assert!(io.gate.until().is_some() && io.own.rails().owns_key(at(100)), "nothing was sent");
    assert!(matches!(io.delete(Role::Lease, KEY, revision).await?, Write::Written(_)));
    assert_eq!(io.gate.until(), None);
    assert!(!io.own.rails().owns_key(at(100)));
    denied(io.purge_below(7).await, "without owning its key");
    Ok(())
}

#[tokio::test]
async fn a_listing_is_bounded() -> Result<(), Fault> {
    let mut io = candidate().await;
    for n in 0..=limits::KEYS_A_CALL {
        io.own.bucket.create(&format!("lease-{n:04}"), b"{}").await?;
    }
    assert_eq!(io.keys(Role::Lease, None, u32::MAX).await?.len(), limits::KEYS_A_CALL);
    assert_eq!(io.keys(Role::Lease, None, 7).await?.len(), 7);
    Ok(())
}

#[tokio::test]
async fn a_purge_goes_below_no_epoch_that_is_too_high_and_raises_the_floor() -> Result<(), Fault> {
    let mut io = candidate().await;
    denied(io.purge_below(7).await, "without owning its key");
    let (mut io, _) = holder().await;
    denied(io.purge_below(limits::EPOCH_HIGHEST + 1).await, "above every epoch");
    assert_eq!(io.floor().await?, 0);
    io.marker = 7;
    io.purge_below(limits::EPOCH_HIGHEST).await?;
    assert_eq!(io.marker, 0, "it leaves none");
    assert_eq!(io.floor().await?, limits::EPOCH_HIGHEST - 1);
    assert_eq!(io.get(Role::Lease, KEY).await?, Reading::Absent);
    Ok(())
}

#[tokio::test]
async fn a_tenure_taken_is_above_the_floor_that_was_told_and_no_longer_than_its_write() -> Result<(), Fault> {
    let (mut io, revision) = holder().await;
    let taken = |until| Claim::Taken(tenure(revision, until));
    assert_eq!(io.judge(taken(at(112))).await, Ok(()));
    assert_eq!(io.judge(taken(at(113))).await, Err(Lie::TooLong { by: Duration::from_secs(1) }));
    let never = Claim::Taken(tenure(revision + 1, at(112)));
    assert_eq!(io.judge(never).await, Err(Lie::NotOurs(revision + 1)));
    // Raised after it was told: no lie of the policy's. Where it did not ask, it counts.
    assert_eq!(io.floor().await?, 0);
    io.floor.raise(revision).await.expect("memory");
    assert_eq!(io.judge(taken(at(112))).await, Ok(()));
    io.told_floor = None;
    let below = Err(Lie::BelowFloor { said: revision, floor: revision });
    assert_eq!(io.judge(taken(at(112))).await, below);
    io.told_floor = Some(revision);
    assert_eq!(io.judge(taken(at(112))).await, below);
    // Its gate is judged where the policy is asked for it.
    let open = Open { epoch: 0, until_ns: u64::MAX };
    assert_eq!(io.judge(Claim::Opened(open)).await, Ok(()));
    Ok(())
}

#[tokio::test]
async fn a_tenure_that_goes_on_is_of_the_epoch_that_was_taken() {
    let (mut io, revision) = holder().await;
    let kept = |until| Claim::Kept(tenure(revision, until));
    assert_eq!(io.judge(kept(at(112))).await, Err(Lie::OtherEpoch { said: revision, known: 0 }));
    let believed = io.own.rails().believe_taken(revision, revision, at(112), 0);
    assert_eq!(believed, Ok(at(112)));
    // The floor is at its own epoch by now.
    io.floor.raise(revision).await.expect("memory");
    assert_eq!(io.judge(kept(at(112))).await, Ok(()));
    assert_eq!(io.judge(kept(at(113))).await, Err(Lie::TooLong { by: Duration::from_secs(1) }));
}
