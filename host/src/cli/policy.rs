//! Looking at policies.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use incumbent::limits::COMPONENT_BYTES;
use incumbent::policy::{Policy, Runtime};
use serde_json::json;

use super::args::PolicyInspect;
use super::exit::Exit;

/// `incumbent policy inspect`.
pub(crate) async fn inspect(args: &PolicyInspect, as_json: bool) -> anyhow::Result<ExitCode> {
    let policy = load(&Runtime::new()?, args.file.as_deref()).await?.version();
    let about = policy.about();
    if as_json {
        println!(
            "{}",
            json!({
                "name": about.name,
                "version": about.version,
                "digest": format!("sha256:{}", policy.digest()),
                "bytes": policy.size(),
                "needs": about.needs,
            })
        );
    } else {
        println!("{} {}", about.name, about.version);
        println!("sha256:{}", policy.digest());
        println!("{} bytes", policy.size());
        println!("needs {}", about.needs.join(", "));
    }
    Ok(Exit::Done.into())
}

/// The policy in this file, or the one built in.
pub(crate) async fn load(runtime: &Runtime, file: Option<&Path>) -> anyhow::Result<Policy> {
    let Some(file) = file else { return Ok(Policy::built_in(runtime).await?) };
    let named = || format!("the policy {}", file.display());
    let mut bytes = Vec::new();
    // One byte more than a policy may have tells a larger file without reading it whole.
    let most = u64::try_from(COMPONENT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    File::open(file).with_context(named)?.take(most).read_to_end(&mut bytes).with_context(named)?;
    Policy::load(runtime, &bytes).await.with_context(named)
}
