//! The engine that policies run on: one for the whole process, with one ticker for its time bounds.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreLimitsBuilder,
    UpdateDeadline,
};

use crate::bindings::{Exports, ExportsPre};
use crate::imports::Imports;
use crate::limits;
use crate::policies::Cache;
use crate::policy::Call;
use crate::policy::instance::Made;

/// How often the ticker advances the engine's epoch while a call is under way: the grain of the time bound.
const TICK: Duration = Duration::from_millis(20);

/// Core instances a component may consist of: its module and the adapters around it.
const CORE_INSTANCES: u32 = 8;

/// The stack of a policy's own calls, and of those together with the host's, bytes.
const WASM_STACK: usize = 256 << 10;
const STACK: usize = 1 << 20;

/// What all policies of a process run on. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    linker: Linker<Call>,
    cache: Option<Cache>,
    calls: Arc<Semaphore>,
    ticking: Arc<Ticking>,
    /// The instance that was made ahead.
    ahead: Slot,
    /// The one that is to be dropped.
    aside: Slot,
}

impl Runtime {
    /// The engine and the world that policies are linked against.
    ///
    /// # Errors
    /// The engine does not run on this machine.
    pub fn new() -> Result<Self, RuntimeError> {
        Self::made(None)
    }

    /// As [`new`](Self::new), with compiled policies kept here, and taken from here.
    ///
    /// # Errors
    /// The engine does not run on this machine.
    pub fn with_cache(cache: Cache) -> Result<Self, RuntimeError> {
        Self::made(Some(cache))
    }

    fn made(cache: Option<Cache>) -> Result<Self, RuntimeError> {
        // Pooled instances are four times as fast to make. Where the address space is limited they cannot be
        // reserved, and instances are made on demand.
        let engine = Engine::new(&config(true))
            .or_else(|_| Engine::new(&config(false)))
            .map_err(|why| RuntimeError(format!("{why:#}")))?;
        let mut linker = Linker::new(&engine);
        Exports::add_to_linker::<_, HasSelf<_>>(&mut linker, |call| call)
            .map_err(|why| RuntimeError(format!("{why:#}")))?;
        let ticking = Arc::new(Ticking::default());
        ticking.clone().start(&engine).map_err(|why| RuntimeError(why.to_string()))?;
        let calls = Arc::new(Semaphore::new(usize::try_from(limits::CALLS).unwrap_or(1)));
        let (ahead, aside) = Default::default();
        Ok(Self { shared: Arc::new(Shared { engine, linker, cache, calls, ticking, ahead, aside }) })
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(super) fn cache(&self) -> Option<&Cache> {
        self.shared.cache.as_ref()
    }

    pub(super) fn linker(&self) -> &Linker<Call> {
        &self.shared.linker
    }

    /// Waits for a call's turn; the ticker runs while one is held.
    pub(super) async fn turn(&self) -> Turn {
        // The semaphore is never closed; without a permit the pool refuses the instance, which is an error.
        let permit = self.shared.calls.clone().acquire_owned().await.ok();
        self.begun(permit)
    }

    /// A turn, unless all are taken.
    pub(super) fn turn_at_once(&self) -> Option<Turn> {
        let permit = self.shared.calls.clone().try_acquire_owned().ok()?;
        Some(self.begun(Some(permit)))
    }

    fn begun(&self, permit: Option<OwnedSemaphorePermit>) -> Turn {
        self.shared.ticking.began();
        Turn { _permit: permit, ticking: self.shared.ticking.clone() }
    }

    /// The instance that was made ahead, if it is of this version.
    pub(super) fn made_ahead(&self, of: &Arc<ExportsPre<Call>>) -> Option<Box<Made>> {
        lock(&self.shared.ahead).take_if(|made| made.is_of(of))
    }

    /// Keep it for the next call. One at a time is kept, of the version that was called last.
    pub(super) fn keep(&self, made: Box<Made>) {
        let before = lock(&self.shared.ahead).replace(made);
        drop(before);
    }

    /// To be dropped soon. What lay there is dropped now.
    pub(super) fn lay_aside(&self, ended: Box<Made>) {
        let before = lock(&self.shared.aside).replace(ended);
        drop(before);
    }

    pub(super) fn drop_aside(&self) {
        let ended = lock(&self.shared.aside).take();
        drop(ended);
    }

    /// A store for one call, with every bound set before anything of the policy runs.
    pub(super) fn store(&self, imports: Box<dyn Imports>) -> Store<Call> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(limits::MEMORY_BYTES)
            .table_elements(limits::TABLE_ENTRIES)
            .memories(1)
            .tables(8)
            .instances(16)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(
            &self.shared.engine,
            Call { imports, waited: Duration::ZERO, asked: 0, overstepped: None, limits },
        );
        store.limiter(|call| &mut call.limits);
        store.set_hostcall_fuel(limits::HOST_CALL_BYTES);
        self.charge(&mut store);
        // What was waited for the host is given back, so that only computing is charged.
        store.epoch_deadline_callback(|mut cx| {
            let waited = std::mem::take(&mut cx.data_mut().waited);
            Ok(if waited < TICK {
                UpdateDeadline::Interrupt
            } else {
                UpdateDeadline::Continue(ticks(waited))
            })
        });
        store
    }

    /// What it computes is charged from now on.
    pub(super) fn charge(&self, store: &mut Store<Call>) {
        store.set_epoch_deadline(ticks(limits::COMPUTING));
    }
}

type Slot = Mutex<Option<Box<Made>>>;

fn lock(slot: &Slot) -> MutexGuard<'_, Option<Box<Made>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine does not run here.
#[derive(Debug, thiserror::Error)]
#[error("the policy engine does not run on this machine: {0}")]
pub struct RuntimeError(String);

fn config(pooled: bool) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(STACK)
        .memory_reservation(u64::try_from(limits::MEMORY_BYTES).unwrap_or(0))
        .memory_guard_size(64 << 10)
        .memory_reservation_for_growth(0)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false);
    if pooled {
        // The calls; the instance that is made ahead and the one that it replaces; the one that is to be dropped.
        let instances = limits::CALLS + 3;
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(instances)
            .total_core_instances(instances * CORE_INSTANCES)
            .total_memories(instances)
            .total_tables(instances * 2)
            .total_stacks(instances)
            .max_core_instances_per_component(CORE_INSTANCES)
            .max_memories_per_component(1)
            .max_tables_per_component(2)
            .table_elements(limits::TABLE_ENTRIES)
            .max_memory_size(limits::MEMORY_BYTES)
            .max_unused_warm_slots(4)
            // Only what a call touched is cleared, where the kernel (6.7) tells what that was.
            .pagemap_scan(Enabled::Auto)
            .linear_memory_keep_resident(512 << 10)
            .table_keep_resident(16 << 10);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

/// Ticks that surely cover this duration: the first one may come at once.
fn ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX / 2) + 1
}

/// A call's turn.
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
    ticking: Arc<Ticking>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.ticking.ended();
    }
}

/// Advances the engine's epoch while calls are under way, and sleeps while none is.
#[derive(Default)]
struct Ticking {
    calls: Mutex<UnderWay>,
    wanted: Condvar,
}

#[derive(Default)]
struct UnderWay {
    calls: usize,
    /// Whether the ticker sleeps until there is one: waking nobody takes a call to the kernel too.
    is_idle: bool,
}

impl Ticking {
    fn start(self: Arc<Self>, engine: &Engine) -> std::io::Result<()> {
        let engine = engine.weak();
        let run = move || {
            loop {
                let mut under_way = self.under_way();
                under_way.is_idle = true;
                // Woken now and then to see whether the engine is gone.
                let idle = Duration::from_secs(60);
                let waited =
                    self.wanted.wait_timeout_while(under_way, idle, |under_way| under_way.calls == 0);
                let (mut under_way, _) = waited.unwrap_or_else(PoisonError::into_inner);
                under_way.is_idle = false;
                drop(under_way);
                std::thread::sleep(TICK);
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        };
        std::thread::Builder::new().name("policy-ticker".into()).spawn(run).map(drop)
    }

    fn began(&self) {
        let mut under_way = self.under_way();
        under_way.calls += 1;
        if under_way.is_idle {
            self.wanted.notify_one();
        }
    }

    fn ended(&self) {
        self.under_way().calls -= 1;
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
