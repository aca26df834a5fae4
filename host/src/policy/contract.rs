//! Which contract a component was made for, told in words when it does not fit this host.
//!
//! wasmtime links by semver: an import `incumbent:policy/kv@0.1.7` finds `kv@0.1.0` and the other way round, and so
//! do the exports that are called; another minor version finds nothing. What it then says does not name the version.

use semver::Version;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::policy::LoadError;

include!(concat!(env!("OUT_DIR"), "/contract.rs"));

/// Why a component does not link, which wasmtime says in these words.
pub(super) fn misfit(engine: &Engine, component: &Component, why: &wasmtime::Error) -> LoadError {
    let world = component.component_type();
    let names =
        world.imports(engine).map(|(name, _)| name).chain(world.exports(engine).map(|(name, _)| name));
    let mut versions: Vec<_> = names.filter_map(|name| Some(of_ours(name)?.1)).collect();
    versions.sort();
    if let Some(wants) = versions.iter().rev().find(|version| !fits(version)) {
        return LoadError::OtherContract(wants.to_string());
    }
    let missing: Vec<_> = world
        .imports(engine)
        .filter_map(|(name, item)| match item.ty {
            ComponentItem::ComponentInstance(interface) => Some((of_ours(name)?.0, interface)),
            _ => None,
        })
        .flat_map(|(interface, instance)| {
            let functions = instance
                .exports(engine)
                .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
            let missing = functions.filter(|(function, _)| !offers(interface, function));
            missing.map(|(function, _)| format!("{interface}.{function}")).collect::<Vec<_>>()
        })
        .collect();
    match versions.last() {
        Some(newest) if !missing.is_empty() => {
            LoadError::NotYetOffered { version: newest.to_string(), functions: missing.join(", ") }
        }
        _ => LoadError::OtherWorld(format!("{why:#}")),
    }
}

/// The interface and the version of a name of the contract.
fn of_ours(name: &str) -> Option<(&str, Version)> {
    let (interface, version) = name.strip_prefix("incumbent:policy/")?.split_once('@')?;
    Some((interface, Version::parse(version).ok()?))
}

/// Whether a policy of this version is linked, by wasmtime's rule: what semver calls compatible, in either
/// direction, and a pre-release is compatible with nothing but itself.
fn fits(wanted: &Version) -> bool {
    let Ok(had) = Version::parse(VERSION) else { return false };
    let track = |version: &Version| (version.major, if version.major == 0 { version.minor } else { 0 });
    let released = wanted.pre.is_empty() && had.pre.is_empty() && track(wanted) != (0, 0);
    *wanted == had || (released && track(wanted) == track(&had))
}

fn offers(interface: &str, function: &str) -> bool {
    OFFERED.iter().any(|(known, functions)| *known == interface && functions.contains(&function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_fits_and_another_minor_does_not() {
        for (version, fit) in [
            ("0.1.0", true),
            ("0.1.7", true),
            ("0.1.7+build", true),
            ("0.1.7-rc.1", false),
            ("0.0.1", false),
            ("0.2.0", false),
            ("1.1.0", false),
        ] {
            assert_eq!(Version::parse(version).map(|version| fits(&version)).ok(), Some(fit), "{version}");
        }
    }
}
