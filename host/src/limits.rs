//! Every limit, with its unit and its reason, in one place.

use std::time::Duration;

/// A lease's name, bytes. Three times that (every byte escaped) stays far below the 4 KiB control line
/// at which a NATS server closes the connection.
pub const NAME_BYTES: usize = 200;

/// A value read from or written to a store, bytes. A holder's record is below 1 KiB; 64 KiB leaves
/// room for plans and asks, and keeps a hostile record from filling memory.
pub const VALUE_BYTES: usize = 64 << 10;

/// Keys listed from one bucket. Beyond it the answer is an error and not a cut list.
pub const KEYS: usize = 100_000;

/// The shortest ttl a bucket is made with. NATS refuses less than 100 ms.
pub const TTL_SHORTEST: Duration = Duration::from_millis(100);

/// The longest ttl a bucket is made with: a dead holder blocks everybody else for that long.
pub const TTL_LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The highest epoch, 2⁵³: above it a JSON reader that keeps numbers as doubles confuses neighbours,
/// and from 2⁶² on a NATS file store loses what it acknowledged.
pub const EPOCH_HIGHEST: u64 = 1 << 53;

/// Keys handed to a policy in one answer. At 200 bytes a name that stays well below
/// [`HOST_CALL_BYTES`].
pub const KEYS_A_CALL: usize = 1000;

/// A policy's component, bytes. The built-in one has some 130 KB; what is compiled takes a hundred times
/// its size for a moment.
pub const COMPONENT_BYTES: usize = 4 << 20;

/// What one host call may move into or out of a policy, bytes.
pub const HOST_CALL_BYTES: usize = 1 << 20;

/// A policy's memory, bytes. A call of the built-in one stays below 2 MiB.
pub const MEMORY_BYTES: usize = 16 << 20;

/// Entries in each of a policy's tables.
pub const TABLE_ENTRIES: usize = 10_000;

/// How long a policy may compute in one call, waiting for the host not counted. A decision takes microseconds;
/// what takes this long does not end.
pub const COMPUTING: Duration = Duration::from_secs(1);

/// Rehearsing a policy, all scenes together. They take the built-in one a fraction of a second; a candidate that
/// needs this long would be late for its renewals too, and an operator waits for it.
pub const REHEARSAL: Duration = Duration::from_secs(10);

/// Imports that one policy call may use. What it asks for after that is denied without reaching the host, and charged as
/// computing: waiting for the host is not, so a call that only asks would go on for as long as it is let. The most that
/// a sound one uses is one for each key that it lists.
pub const HOST_CALLS: u32 = 10_000;

/// Policy calls at one time, in the whole process; further ones wait their turn.
pub const CALLS: u32 = 64;

/// A policy's log message, characters.
pub const LOG_MESSAGE_CHARS: usize = 1024;

/// A policy's log target, characters.
pub const LOG_TARGET_CHARS: usize = 64;

/// Giving a lease back: the acts under way, the deletion and the looks it takes.
pub const RELEASE: Duration = Duration::from_secs(5);

/// The highest revision a bucket is moved to, 2⁶¹: writes never bring it from there to 2⁶², the first that
/// a NATS file store loses, nor to 2⁶³, the first that SQLite cannot hold.
pub const REVISION_HIGHEST: u64 = 1 << 61;

/// An ask put into a work queue, bytes: what every NATS server takes unless told otherwise, less its headers.
pub const ASK_BYTES: usize = (1 << 20) - (4 << 10);

/// What a policy is shown of an ask, bytes. An ask whose id does not fit has its age from the queue. With
/// [`CHECK_QUEUES`] that stays within [`HOST_CALL_BYTES`].
pub const ASK_SHOWN_BYTES: usize = 16 << 10;

/// Check queues of one builder: each is looked at for the oldest check.
pub const CHECK_QUEUES: usize = 32;

/// A builder's name, characters. It is shown to people and stands in a key's value.
pub const BUILDER_CHARS: usize = 200;

/// How long a let-through check's fetch may wait for the queue: the ask was there a moment ago.
pub const LET_THROUGH_FETCH: Duration = Duration::from_secs(2);
