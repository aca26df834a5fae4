//! Policies other than the built-in one: crates of their own, and ones made of text, with each export's body as a
//! test wants it, in a component of the real world.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve};

/// The version of the contract that the texts of policies name.
pub const CONTRACT: &str = "0.1.0";

/// `guests/strict`: gives up at the first renewal that fails.
pub const STRICT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/strict.wasm"));

/// `guests/faulty`, with the fault of this number.
///
/// # Errors
/// It has no place for the number.
pub fn faulty(number: u8) -> Result<Vec<u8>> {
    const PLACE: &[u8] = b"FAULT=00";
    let mut bytes = include_bytes!(concat!(env!("OUT_DIR"), "/faulty.wasm")).to_vec();
    let places: Vec<_> =
        bytes.windows(PLACE.len()).enumerate().filter(|(_, at)| *at == PLACE).map(|(at, _)| at).collect();
    ensure!(places.len() == 1, "the fault's number has {} places", places.len());
    bytes[places[0]..][..PLACE.len()].copy_from_slice(format!("FAULT={number:02}").as_bytes());
    Ok(bytes)
}

/// A core module's text, export by export.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    bodies: Vec<(String, String)>,
    fields: String,
    start: Option<String>,
    realloc: Option<String>,
    version: Option<String>,
    amendments: Vec<(String, String)>,
}

impl Guest {
    /// A policy that says it is `test 0.1.0` and traps in everything else.
    #[must_use]
    pub fn new() -> Self {
        Self::default().export("describe#describe", "i32.const 64")
    }

    /// Give the export `interface#function` this body.
    #[must_use]
    pub fn export(mut self, name: &str, body: &str) -> Self {
        self.bodies.retain(|(known, _)| known != name);
        self.bodies.push((name.into(), body.into()));
        self
    }

    /// Add a field to the module: a function, a datum, an import.
    #[must_use]
    pub fn field(mut self, text: &str) -> Self {
        self.fields.push_str(text);
        self
    }

    /// Run this body whenever the module is instantiated.
    #[must_use]
    pub fn start(mut self, body: &str) -> Self {
        self.start = Some(body.into());
        self
    }

    /// Let the allocator have this body, which is asked for room for each call's arguments.
    #[must_use]
    pub fn realloc(mut self, body: &str) -> Self {
        self.realloc = Some(body.into());
        self
    }

    /// Make it for another version of the contract. Texts name the current one all the same.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Make it for a contract in which this text stands instead of that one.
    #[must_use]
    pub fn amended(mut self, was: &str, is: &str) -> Self {
        self.amendments.push((was.into(), is.into()));
        self
    }

    /// The component.
    ///
    /// # Errors
    /// The text does not assemble, or does not fit the world.
    pub fn component(&self) -> Result<Vec<u8>> {
        let package = format!("package incumbent:policy@{CONTRACT};");
        let versioned = package.replace(CONTRACT, self.version.as_deref().unwrap_or(CONTRACT));
        let mut amendments = vec![(package, versioned)];
        amendments.extend(self.amendments.iter().cloned());
        let (resolve, package) = contract(&amendments)?;
        encode(&self.text(), resolve, package, "policy")
    }

    /// The core module, not componentised.
    ///
    /// # Errors
    /// The text does not assemble.
    pub fn module(&self) -> Result<Vec<u8>> {
        Ok(wat::parse_str(self.text())?)
    }

    fn text(&self) -> String {
        // Imports come before everything else in a module.
        let mut text = format!("(module {} {FRAME}", self.fields);
        let realloc = self.realloc.as_deref().unwrap_or(REALLOC);
        let parameters =
            "(param $old i32) (param $was i32) (param $align i32) (param $size i32) (result i32)";
        // Writing to a string cannot fail.
        let _ = writeln!(text, "(func (export \"cabi_realloc\") {parameters} {realloc})");
        for (name, signature) in EXPORTS {
            let (interface, function) = name.split_once('#').unwrap_or((name, ""));
            let told = self.bodies.iter().find(|(known, _)| known == name);
            let body = told.map_or("unreachable", |(_, body)| body.as_str());
            let _ = writeln!(
                text,
                "(func (export \"incumbent:policy/{interface}@{CONTRACT}#{function}\") {signature} {body})"
            );
        }
        if let Some(body) = &self.start {
            let _ = writeln!(text, "(func $start {body}) (start $start)");
        }
        text.push(')');
        match &self.version {
            Some(version) => text.replace(&format!("@{CONTRACT}"), &format!("@{version}")),
            None => text,
        }
    }
}

/// The contract in `wit/`, with each of these texts replaced by the other, which must be there.
///
/// # Errors
/// It cannot be read, or says something else.
pub fn contract(amendments: &[(String, String)]) -> Result<(Resolve, PackageId)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    // The file that names the package comes first: together they are one.
    let mut text = std::fs::read_to_string(folder.join("world.wit"))?;
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        if file.file_name() != "world.wit" {
            text += &std::fs::read_to_string(file.path())?;
        }
    }
    for (was, is) in amendments {
        ensure!(text.contains(was), "the contract does not say {was:?}");
        text = text.replacen(was, is, 1);
    }
    let mut resolve = Resolve::default();
    let package = resolve.push_str("policy.wit", &text)?;
    Ok((resolve, package))
}

/// A component of another world than ours.
///
/// # Errors
/// The texts do not fit each other.
pub fn other_world(wit: &str, module: &str) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("other.wit", wit)?;
    encode(module, resolve, package, "other")
}

fn encode(text: &str, resolve: Resolve, package: PackageId, world: &str) -> Result<Vec<u8>> {
    let mut module = wat::parse_str(text)?;
    let world = resolve.select_world(&[package], Some(world))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode().context(text.to_owned())
}

/// Memory, and what `describe` answers at address 64.
const FRAME: &str = r#"
    (memory (export "memory") 4)
    (global $next (mut i32) (i32.const 65536))
    (data (i32.const 16) "test")
    (data (i32.const 24) "0.1.0")
    (data (i32.const 64) "\10\00\00\00\04\00\00\00\18\00\00\00\05\00\00\00\00\00\00\00\00\00\00\00")
"#;

/// An allocator that only ever moves on.
const REALLOC: &str = "
    (local $at i32)
    (local.set $at (i32.and
        (i32.sub (i32.add (global.get $next) (local.get $align)) (i32.const 1))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at)";

/// Every export of the world and its flat signature. What has more than 16 flat parameters gets a pointer.
const EXPORTS: &[(&str, &str)] = &[
    ("describe#describe", "(result i32)"),
    ("lease#check", "(param i64 i64 i64 i64) (result i32)"),
    ("lease#take", "(param i32) (result i32)"),
    ("lease#renew", "(param i32) (result i32)"),
    ("lease#release", "(param i32) (result i32)"),
    ("lease#step-down", "(param i32 i32 i32 i32) (result i32)"),
    ("lease#current", "(param i32 i32) (result i32)"),
    ("lease#list", "(param i32 i32 i32 i32) (result i32)"),
    ("gate#pass", "(param i32 i64 i64 i64 i32 i32 i64 i32 i64) (result i32)"),
    ("gate#admit", "(param i64 i64) (result i32)"),
    ("holds#assess", "(result i32)"),
    ("holds#let-one-through", "(param i32 i32 i32 i32 i64 i64) (result i32)"),
    ("holds#keep", "(param i32 i32 i32 i32 i64) (result i32)"),
    ("holds#drop", "(param i64) (result i32)"),
    ("holds#status", "(result i32)"),
    ("holds#begin", "(param i32 i32) (result i32)"),
    ("holds#seen", "(param i32 i32 i32 i32 i64) (result i32)"),
    ("holds#end", "(param i32 i32 i64) (result i32)"),
];
