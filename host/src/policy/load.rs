//! From bytes to a policy: each step refuses with its own words.

use std::sync::Arc;

use wasmtime::component::Component;

use crate::bindings::{About, ExportsPre};
use crate::clock::Clock;
use crate::digest;
use crate::imports::ClockOnly;
use crate::limits;
use crate::policy::contract::{self, VERSION};
use crate::policy::version::{Begun, By};
use crate::policy::{Instance, Misdeed, Runtime, Version};

/// A policy's name and version, bytes.
const NAME_BYTES: usize = 100;

/// Why bytes are no policy for this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// More bytes than a policy may have.
    #[error("it has {0} bytes; a policy has at most {max}", max = limits::COMPONENT_BYTES)]
    TooLarge(usize),
    /// Not a component at all.
    #[error("it is {0}, not a WebAssembly component")]
    NotAComponent(&'static str),
    /// A component that does not compile: cut off, damaged, or beyond what policies may use.
    #[error("it does not compile: {0}")]
    Broken(String),
    /// Made for another version of the contract: build it anew against the `wit/` of this host's release, or load it
    /// in a host of its own.
    #[error(
        "it is made for the contract incumbent:policy@{0}, and this host has {VERSION}: build it for that, or use a host that has {0}"
    )]
    OtherContract(String),
    /// Made for a later version of the same contract, and it uses what came with it: use a newer host.
    #[error(
        "it calls {functions} of the contract incumbent:policy@{version}, which this host does not have yet (it has {VERSION}): use a newer host"
    )]
    NotYetOffered {
        /// The version it was made for.
        version: String,
        /// What it calls, as `interface.function`.
        functions: String,
    },
    /// Imports what this host does not offer, or lacks an export.
    #[error("it is a component of another world: {0}")]
    OtherWorld(String),
    /// It cannot say who it is.
    #[error("it does not say who it is: {0}")]
    Undescribed(String),
}

impl Version {
    /// Load a policy. Compiles off the async threads, or takes what the runtime's cache has compiled.
    ///
    /// # Errors
    /// [`LoadError`], one for each step.
    pub async fn load(runtime: &Runtime, bytes: &[u8]) -> Result<Self, LoadError> {
        recognise(bytes)?;
        let digest = digest::of(bytes);
        let (within, owned, named) = (runtime.clone(), bytes.to_vec(), digest.clone());
        let compiled = tokio::task::spawn_blocking(move || compile(&within, &owned, &named)).await;
        let component = match compiled {
            Ok(Ok(component)) => component,
            Ok(Err(why)) => return Err(LoadError::Broken(format!("{why:#}"))),
            Err(why) => return Err(LoadError::Broken(format!("the compiler gave up: {why}"))),
        };
        let exports = runtime
            .linker()
            .instantiate_pre(&component)
            .and_then(ExportsPre::new)
            .map_err(|why| contract::misfit(runtime.engine(), &component, &why))?;
        let nobody = About { name: "not yet described".into(), version: String::new(), needs: Vec::new() };
        let mut version = Self {
            by: By::Component(runtime.clone(), Arc::new(exports)),
            about: Arc::new(nobody),
            digest: digest.into(),
            size: bytes.len(),
        };
        version.about =
            Arc::new(version.describe().await.map_err(|what| LoadError::Undescribed(what.to_string()))?);
        Ok(version)
    }

    async fn describe(&self) -> Result<About, Misdeed> {
        let imports = Box::new(ClockOnly(Clock::machine()));
        let ended = match self.begin(imports, false, None).await {
            Ok(Begun::Native(..)) => return Ok((*self.about).clone()),
            Ok(Begun::Instance(mut instance)) => {
                let made = &mut *instance.made;
                let answer = made.exports.incumbent_policy_describe().call_describe(&mut made.store).await;
                let ended = instance.end(answer);
                Instance::retire(Some(instance));
                ended
            }
            Err(ended) => ended,
        };
        let about = ended.answer?;
        let short =
            |text: &str| !text.is_empty() && text.len() <= NAME_BYTES && !text.contains(char::is_control);
        if !short(&about.name) || !short(&about.version) || !about.needs.iter().all(|need| short(need)) {
            return Err(Misdeed::Broke(format!(
                "its name, version or needs are not 1 to {NAME_BYTES} plain bytes"
            )));
        }
        Ok(about)
    }
}

/// The component as machine code.
fn compile(runtime: &Runtime, bytes: &[u8], digest: &str) -> wasmtime::Result<Component> {
    let engine = runtime.engine();
    if let Some(component) = runtime.cache().and_then(|cache| cache.load(engine, digest)) {
        return Ok(component);
    }
    // Never text, never precompiled code: that would run as it is.
    let component = Component::from_binary(engine, bytes)?;
    if let Some(cache) = runtime.cache() {
        cache.store(engine, digest, &component);
    }
    Ok(component)
}

/// What kind of file this is, by its first bytes.
fn recognise(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.len() > limits::COMPONENT_BYTES {
        return Err(LoadError::TooLarge(bytes.len()));
    }
    // "\0asm", then a version and a layer: 1 and 0 for a module, 13 and 1 for a component.
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            Err(LoadError::NotAComponent("a core module (componentise it, as host/build.rs does)"))
        }
        [0, b'a', b's', b'm', ..] => Err(LoadError::NotAComponent("WebAssembly of an unknown version")),
        [0x7f, b'E', b'L', b'F', ..] => Err(LoadError::NotAComponent("precompiled code, which is never run")),
        [] => Err(LoadError::NotAComponent("empty")),
        _ => Err(LoadError::NotAComponent("something else")),
    }
}
