//! Policies: what they say, whether they would serve, which one serves, those that are published, and new ones.

mod here;
mod new;
mod published;
mod serve;

use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use incumbent::limits::COMPONENT_BYTES;
use incumbent::policies::source::{Offer, SIGNATURE_BYTES};
use incumbent::policies::{Policies, PoliciesOptions, PublicKey};
use incumbent::policy::{BUILT_IN, Version};
use serde_json::json;

use super::args::{PolicyCheck, PolicyCommand, PolicyInspect, PolicyKey};
use super::exit::{Exit, wrong};
use super::say;

pub(crate) use here::{serving, serving_line};
pub(crate) use serve::{Serves, built_in, runtime, serves};

/// `incumbent policy …`.
pub(crate) async fn policy(command: PolicyCommand) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::New(args) => new::new(&args),
        PolicyCommand::Inspect(args) => inspect(&args).await,
        PolicyCommand::Check(args) => check(&args).await,
        PolicyCommand::Publish(args) => published::publish(&args).await,
        PolicyCommand::History(args) => match &args.of {
            Some(of) => published::history(of, &args).await,
            None => here::history(&args.state),
        },
        PolicyCommand::Rollback(args) => match &args.of {
            Some(of) => published::rollback(of, &args).await,
            None => here::rollback(&args.state),
        },
        PolicyCommand::ClearQuarantine(args) => here::clear(&args),
        PolicyCommand::Status(args) => here::status(&args),
    }
}

/// `incumbent policy inspect`.
async fn inspect(args: &PolicyInspect) -> anyhow::Result<ExitCode> {
    let version = match &args.file {
        Some(file) => load(file).await?,
        None => Version::load(&runtime()?, BUILT_IN).await?,
    };
    let about = version.about();
    let (digest, bytes, needs) = (version.digest(), version.size(), about.needs.join(", "));
    say::answer(
        &format!("{} {}\nsha256:{digest}\n{bytes} bytes\nneeds {needs}", about.name, about.version),
        &json!({
            "name": about.name, "version": about.version, "digest": format!("sha256:{digest}"), "bytes": bytes,
            "needs": about.needs,
        }),
    )?;
    Ok(Exit::Done.into())
}

/// `incumbent policy check`.
async fn check(args: &PolicyCheck) -> anyhow::Result<ExitCode> {
    let state = here::existing(&args.state)?;
    let options = PoliciesOptions { state, key: key(&args.key)?, ..PoliciesOptions::default() };
    let policies = Policies::open(&runtime()?, options).await?;
    let checked = policies.check(&offer(&args.file)?).await;
    match &checked {
        Ok(checked) => {
            let (about, digest, scenes) = (checked.version.about(), checked.version.digest(), checked.scenes);
            let signed = if args.key.policy_key.is_some() { "signed, " } else { "" };
            say::answer(
                &format!(
                    "{} {} passes: {signed}it loads, and decides {scenes} scenes as it must\nsha256:{digest}",
                    about.name, about.version
                ),
                &json!({
                    "passes": true, "name": about.name, "version": about.version,
                    "digest": format!("sha256:{digest}"), "scenes": scenes,
                }),
            )?;
            Ok(Exit::Done.into())
        }
        Err(refused) => {
            // As text it is the error that ends this command.
            say::answer(
                "",
                &json!({
                    "passes": false, "step": refused.step.to_string(), "why": refused.why,
                    "digest": format!("sha256:{}", refused.digest),
                }),
            )?;
            Err(refused.clone().into())
        }
    }
}

/// The policy in a file, with its signature beside it.
fn offer(file: &Path) -> anyhow::Result<Offer> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".minisig");
    let signature = match text(Path::new(&beside)) {
        Ok(text) => Some(text),
        Err(why) if why.kind() == ErrorKind::NotFound => None,
        Err(why) => return Err(why).with_context(|| format!("the signature {}", beside.to_string_lossy())),
    };
    let bytes = read(file, COMPONENT_BYTES).with_context(|| named(file))?;
    Ok(Offer { bytes, signature, from: file.display().to_string() })
}

/// The policy in a file, loaded and not rehearsed.
pub(crate) async fn load(file: &Path) -> anyhow::Result<Version> {
    let bytes = read(file, COMPONENT_BYTES).with_context(|| named(file))?;
    Version::load(&runtime()?, &bytes).await.with_context(|| named(file))
}

fn named(file: &Path) -> String {
    format!("the policy {}", file.display())
}

/// What is in a file, up to one byte more than `most`, which tells a larger one.
fn read(file: &Path, most: usize) -> io::Result<Vec<u8>> {
    // A pipe may never end, or never begin.
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(file)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A key or a signature in a file.
fn text(file: &Path) -> io::Result<String> {
    let bytes = read(file, SIGNATURE_BYTES)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no text"))
}

/// The key that policies must be signed by, given itself or as a file.
fn key(args: &PolicyKey) -> anyhow::Result<Option<PublicKey>> {
    let Some(given) = &args.policy_key else { return Ok(None) };
    if let Ok(key) = PublicKey::parse(given) {
        return Ok(Some(key));
    }
    let named = || format!("--policy-key {given}");
    let text = text(Path::new(given))
        .map_err(|why| wrong(Exit::Data, format!("it is no minisign public key, and no file of one: {why}")))
        .with_context(named)?;
    Ok(Some(PublicKey::parse(&text).with_context(named)?))
}
