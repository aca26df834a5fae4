//! One policy as it was loaded: compiled and linked, or, in a simulation, native; and how a call of it begins and ends.

use std::fmt;
use std::sync::Arc;

use wasmtime::Trap;

use crate::bindings::{About, ExportsPre};
use crate::imports::Imports;
use crate::policy::instance::Instance;
use crate::policy::native::{Native, Noting};
use crate::policy::{Call, Misdeed, PolicyError, Runtime};

/// A policy that was loaded. Cheap to clone.
#[derive(Clone)]
pub struct Version {
    pub(super) by: By,
    pub(super) about: Arc<About>,
    pub(super) digest: Arc<str>,
    pub(super) size: usize,
}

/// Who decides.
#[derive(Clone)]
pub(super) enum By {
    /// A component, compiled and linked.
    Component(Runtime, Arc<ExportsPre<Call>>),
    /// Code of this process.
    Native(Arc<dyn Native>),
}

/// A call that has begun.
pub(super) enum Begun {
    /// In an instance.
    Instance(Instance),
    /// In this process.
    Native(Arc<dyn Native>, Noting),
}

/// How a call ended, and what it leaves.
pub(super) struct Ended<T> {
    pub(super) answer: Result<T, Misdeed>,
    /// What it was given, for another version to answer instead.
    pub(super) imports: Box<dyn Imports>,
    /// What it asked for and was not granted.
    pub(super) overstepped: Option<String>,
}

impl Version {
    /// Its name, version and needs, as it says.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The SHA-256 of its bytes, hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Its size, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// A policy that is code of this process, of this name, which stands for its digest too.
    #[must_use]
    pub fn native(name: &str, decides: Arc<dyn Native>) -> Self {
        let about = About { name: name.into(), version: env!("CARGO_PKG_VERSION").into(), needs: Vec::new() };
        Self { by: By::Native(decides), about: Arc::new(about), digest: name.into(), size: 0 }
    }

    /// A fresh instance, where it is a component; or the one whose call this one follows from.
    pub(super) async fn begin<T>(
        &self,
        imports: Box<dyn Imports>,
        again: bool,
        after: Option<Instance>,
    ) -> Result<Begun, Ended<T>> {
        let (runtime, exports) = match &self.by {
            By::Component(runtime, exports) => (runtime, exports),
            By::Native(native) => return Ok(Begun::Native(native.clone(), Noting::new(imports))),
        };
        if let Some(instance) = after.filter(|instance| instance.made.is_of(exports)) {
            return Ok(Begun::Instance(instance.follow(imports, again)));
        }
        let entered = Instance::enter(runtime, exports, imports, again).await;
        entered.map(Begun::Instance).map_err(|(why, imports)| Ended {
            answer: Err(Misdeed::of(&why)),
            imports,
            overstepped: None,
        })
    }

    pub(super) fn error(&self, export: &'static str, what: Misdeed) -> PolicyError {
        PolicyError { policy: format!("{} {}", self.about.name, self.about.version), export, what }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({} {}, {})", self.about.name, self.about.version, self.digest)
    }
}

impl Misdeed {
    pub(super) fn of(why: &wasmtime::Error) -> Self {
        match why.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => Self::Overran,
            Some(Trap::UnreachableCodeReached) => Self::Trapped("it panicked".into()),
            Some(Trap::AllocationTooLarge) => Self::OutOfMemory,
            Some(trap) => Self::Trapped(trap.to_string()),
            None => {
                let words = format!("{why:#}");
                if words.contains("forcing trap when growing") {
                    Self::OutOfMemory
                } else {
                    Self::Broke(words)
                }
            }
        }
    }
}
