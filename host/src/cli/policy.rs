//! Policies: what they say, whether they would serve, which one serves, those that are published, and new ones.

mod here;
mod new;
mod published;
mod serve;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use incumbent::limits::COMPONENT_BYTES;
use incumbent::policies::source::Offer;
use incumbent::policies::{Policies, PoliciesOptions, PublicKey};
use incumbent::policy::{BUILT_IN, Version};
use serde_json::json;

use super::args::{PolicyCheck, PolicyCommand, PolicyInspect, PolicyKey};
use super::exit::Exit;

pub(crate) use here::{serving, serving_line};
pub(crate) use serve::{Serves, built_in, runtime, serves};

/// `incumbent policy …`.
pub(crate) async fn policy(command: PolicyCommand, as_json: bool) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::New(args) => new::new(&args, as_json),
        PolicyCommand::Inspect(args) => inspect(&args, as_json).await,
        PolicyCommand::Check(args) => check(&args, as_json).await,
        PolicyCommand::Publish(args) => published::publish(&args, as_json).await,
        PolicyCommand::History(args) => match &args.of {
            Some(of) => published::history(of, &args, as_json).await,
            None => here::history(&args.state, as_json),
        },
        PolicyCommand::Rollback(args) => match &args.of {
            Some(of) => published::rollback(of, &args, as_json).await,
            None => here::rollback(&args.state, as_json),
        },
        PolicyCommand::ClearQuarantine(args) => here::clear(&args, as_json),
        PolicyCommand::Status(args) => here::status(&args, as_json),
    }
}

/// `incumbent policy inspect`.
async fn inspect(args: &PolicyInspect, as_json: bool) -> anyhow::Result<ExitCode> {
    let version = match &args.file {
        Some(file) => load(file).await?,
        None => Version::load(&runtime()?, BUILT_IN).await?,
    };
    let about = version.about();
    if as_json {
        println!(
            "{}",
            json!({
                "name": about.name,
                "version": about.version,
                "digest": format!("sha256:{}", version.digest()),
                "bytes": version.size(),
                "needs": about.needs,
            })
        );
    } else {
        println!("{} {}", about.name, about.version);
        println!("sha256:{}", version.digest());
        println!("{} bytes", version.size());
        println!("needs {}", about.needs.join(", "));
    }
    Ok(Exit::Done.into())
}

/// `incumbent policy check`.
async fn check(args: &PolicyCheck, as_json: bool) -> anyhow::Result<ExitCode> {
    let state = here::existing(&args.state)?;
    let options = PoliciesOptions { state, key: key(&args.key)?, ..PoliciesOptions::default() };
    let policies = Policies::open(&runtime()?, options).await?;
    let checked = policies.check(&offer(&args.file)?).await;
    match &checked {
        Ok(checked) => {
            let about = checked.version.about();
            if as_json {
                let (digest, scenes) = (checked.version.digest(), checked.scenes);
                println!(
                    "{}",
                    json!({
                        "passes": true, "name": about.name, "version": about.version,
                        "digest": format!("sha256:{digest}"), "scenes": scenes,
                    })
                );
            } else {
                let signed = if args.key.policy_key.is_some() { "signed, " } else { "" };
                println!(
                    "{} {} passes: {signed}it loads, and decides {} scenes as it must",
                    about.name, about.version, checked.scenes
                );
                println!("sha256:{}", checked.version.digest());
            }
            Ok(Exit::Done.into())
        }
        Err(refused) => {
            if as_json {
                println!(
                    "{}",
                    json!({ "passes": false, "step": refused.step.to_string(), "why": refused.why,
                            "digest": format!("sha256:{}", refused.digest) })
                );
                return Ok(Exit::Data.into());
            }
            Err(refused.clone().into())
        }
    }
}

/// The policy in a file, with its signature beside it.
fn offer(file: &Path) -> anyhow::Result<Offer> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".minisig");
    let signature = match std::fs::read_to_string(&beside) {
        Ok(text) => Some(text),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
        Err(why) => return Err(why).with_context(|| format!("the signature {}", beside.to_string_lossy())),
    };
    Ok(Offer { bytes: read(file)?, signature, from: file.display().to_string() })
}

/// The policy in a file, loaded and not rehearsed.
pub(crate) async fn load(file: &Path) -> anyhow::Result<Version> {
    Version::load(&runtime()?, &read(file)?).await.with_context(|| named(file))
}

fn named(file: &Path) -> String {
    format!("the policy {}", file.display())
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    use std::io::Read as _;

    let named = || named(file);
    let mut bytes = Vec::new();
    // One byte more than a policy may have tells a larger file without reading it whole.
    let most = u64::try_from(COMPONENT_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(file).with_context(named)?.take(most).read_to_end(&mut bytes).with_context(named)?;
    Ok(bytes)
}

/// The key that policies must be signed by, given itself or as a file.
fn key(args: &PolicyKey) -> anyhow::Result<Option<PublicKey>> {
    let Some(given) = &args.policy_key else { return Ok(None) };
    let text = match std::fs::read_to_string(given) {
        Ok(text) => text,
        Err(_) => given.clone(),
    };
    Ok(Some(PublicKey::parse(&text).with_context(|| format!("--policy-key {given}"))?))
}
