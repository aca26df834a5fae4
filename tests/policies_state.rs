//! What is remembered of policies: whole at every moment, shared by processes, private, bounded.

mod kept;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use incumbent::policies::FolderError;
use incumbent::policies::state::{
    Entry, Event, Known, Quarantined, Serving, State, StateDir, StateError, now,
};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Names the folder to the process that [`the_child_that_updates`] is.
const FOLDER: &str = "INCUMBENT_TEST_POLICY_STATE";

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known(bytes: &[u8], version: &str) -> Known {
    Known { digest: digest(bytes), name: "test".into(), version: version.into() }
}

fn serving(bytes: &[u8], version: &str) -> Serving {
    let Known { digest, name, version } = known(bytes, version);
    Serving { digest, name, version, since: now(), on_probation: true }
}

fn quarantined(version: &str) -> Quarantined {
    let Known { digest, name, version } = known(version.as_bytes(), version);
    Quarantined { digest, name, version, why: "it trapped".into(), when: now() }
}

fn entry(what: Event, version: &str) -> Entry {
    let Known { digest, name, version } = known(version.as_bytes(), version);
    Entry { when: now(), what, digest, name, version, why: String::new() }
}

fn fresh() -> Result<(TempDir, StateDir)> {
    let folder = TempDir::new()?;
    let state = StateDir::open(folder.path().join("a/policies"))?;
    Ok((folder, state))
}

fn age(state: &StateDir, bytes: &[u8], by: Duration) -> Result<()> {
    let file = fs::File::options().append(true).open(state.path().join(format!("{}.wasm", digest(bytes))))?;
    Ok(file.set_modified(SystemTime::now() - by)?)
}

#[test]
fn what_was_written_is_read_and_the_file_is_json_for_people() -> Result<()> {
    let (_folder, state) = fresh()?;
    ensure!(state.read()? == State::default());
    state.update(|state| {
        state.proven = Some(known(b"one", "1"));
        state.serving = Some(serving(b"two", "2"));
        state.quarantined.push(quarantined("3"));
        state.history.push(entry(Event::RolledBack, "3"));
    })?;
    let read = StateDir::open(state.path())?.read()?;
    ensure!(read.proven == Some(known(b"one", "1")));
    ensure!(read.serving.as_ref().is_some_and(|serving| serving.version == "2" && serving.on_probation));
    ensure!(read.quarantine_of(&digest(b"3")).is_some_and(|found| found.why == "it trapped"));
    ensure!(read.quarantine_of(&digest(b"1")).is_none());
    let json: serde_json::Value = serde_json::from_slice(&fs::read(state.path().join("state.json"))?)?;
    ensure!(json["layout"] == 1 && json["history"][0]["what"] == "rolled-back", "{json}");
    Ok(())
}

#[test]
fn a_folder_is_made_for_its_user_alone() -> Result<()> {
    let (_folder, state) = fresh()?;
    ensure!(fs::metadata(state.path())?.mode() & 0o777 == 0o700);
    state.update(|_| ())?;
    ensure!(fs::metadata(state.path().join("state.json"))?.mode() & 0o777 == 0o600);
    Ok(())
}

#[test]
fn a_folder_that_others_may_write_to_is_refused_at_every_use() -> Result<()> {
    let (_folder, state) = fresh()?;
    state.update(|_| ())?;
    for mode in [0o770, 0o702] {
        fs::set_permissions(state.path(), fs::Permissions::from_mode(mode))?;
        let opened = StateDir::open(state.path());
        let Err(StateError::Folder(FolderError::OpenToOthers { .. })) = &opened else { panic!("{opened:?}") };
        ensure!(opened.err().is_some_and(|why| why.to_string().contains("chmod go-w")));
        ensure!(state.read().is_err() && state.update(|_| ()).is_err());
        ensure!(state.keep(&digest(b"one"), b"one").is_err() && state.kept(&digest(b"one")).is_none());
    }
    // Reading is no harm.
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o755))?;
    StateDir::open(state.path())?.read()?;
    // The folder may be fine and the file not.
    fs::set_permissions(state.path().join("state.json"), fs::Permissions::from_mode(0o666))?;
    ensure!(matches!(state.read(), Err(StateError::Folder(FolderError::OpenToOthers { .. }))));
    Ok(())
}

#[test]
fn a_folder_or_file_of_another_user_is_refused() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can give a folder away; not tried");
        return Ok(());
    }
    let (_folder, state) = fresh()?;
    state.update(|_| ())?;
    std::os::unix::fs::chown(state.path().join("state.json"), Some(4242), None)?;
    ensure!(matches!(state.read(), Err(StateError::Folder(FolderError::OfAnother { owner: 4242, .. }))));
    std::os::unix::fs::chown(state.path().join("state.json"), Some(0), None)?;
    std::os::unix::fs::chown(state.path(), Some(4242), None)?;
    let opened = StateDir::open(state.path());
    ensure!(matches!(opened, Err(StateError::Folder(FolderError::OfAnother { .. }))), "{opened:?}");
    ensure!(state.read().is_err());
    Ok(())
}

#[test]
fn what_is_no_folder_or_no_file_is_refused() -> Result<()> {
    let (folder, state) = fresh()?;
    let file = folder.path().join("file");
    fs::write(&file, "")?;
    ensure!(StateDir::open(&file).is_err_and(|why| why.to_string().contains("no folder")));
    // A link would let another folder's file be believed, a pipe would be waited for.
    std::os::unix::fs::symlink(&file, state.path().join("state.json"))?;
    ensure!(matches!(state.read(), Err(StateError::Folder(_))));
    fs::remove_file(state.path().join("state.json"))?;
    rustix::fs::mkfifoat(rustix::fs::CWD, state.path().join("state.json"), 0o600.into())?;
    ensure!(state.read().is_err_and(|why| why.to_string().contains("no file")));
    Ok(())
}

#[test]
fn a_damaged_state_is_an_error_and_stays_as_it_is() -> Result<()> {
    let (_folder, state) = fresh()?;
    let file = state.path().join("state.json");
    state.update(|state| state.quarantined.push(quarantined("1")))?;
    let whole = fs::read_to_string(&file)?;
    let half = &whole[..whole.len() / 2];
    let unversioned = "{}";
    for damaged in ["", "[1]", half, unversioned, "{\"layout\":0}", "{\"layout\":1,\"quarantined\":7}"] {
        fs::write(&file, damaged)?;
        let why = state.read().err().context("it was read")?;
        let text = why.to_string();
        ensure!(matches!(why, StateError::Damaged { .. }), "{text}");
        ensure!(text.contains("state.json") && text.contains("move it away"), "{text}");
        ensure!(matches!(state.update(|_| ()), Err(StateError::Damaged { .. })));
        ensure!(fs::read_to_string(&file)? == damaged, "it was overwritten");
    }
    fs::write(&file, vec![b' '; (4 << 20) + 1])?;
    ensure!(matches!(state.read(), Err(StateError::Folder(FolderError::TooLarge { .. }))));
    Ok(())
}

#[test]
fn a_newer_layout_is_an_error_and_stays_as_it_is() -> Result<()> {
    let (_folder, state) = fresh()?;
    let file = state.path().join("state.json");
    let newer = "{\"layout\":2,\"proven\":\"another kind of thing\"}";
    fs::write(&file, newer)?;
    ensure!(matches!(state.read(), Err(StateError::Newer { found: 2, .. })));
    ensure!(matches!(state.update(|_| ()), Err(StateError::Newer { found: 2, .. })));
    ensure!(fs::read_to_string(&file)? == newer);
    Ok(())
}

#[test]
fn lists_and_texts_are_bounded_and_the_worst_state_is_read_again() -> Result<()> {
    let (_folder, state) = fresh()?;
    // A control character is six bytes in JSON.
    let long = "\u{1}".repeat(10_000);
    state.update(|state| {
        for number in 0..300 {
            let mut one = quarantined(&number.to_string());
            one.why.clone_from(&long);
            state.quarantined.push(one);
            let mut one = entry(Event::Refused, &number.to_string());
            for text in [&mut one.why, &mut one.name] {
                text.clone_from(&long);
            }
            state.history.push(one);
        }
    })?;
    let read = state.read()?;
    ensure!(read.quarantined.len() == 200 && read.history.len() == 200);
    ensure!(read.quarantined[0].version == "100" && read.history[199].version == "299", "the oldest go");
    ensure!(read.history[0].why.len() == 500 && read.history[0].name.len() == 100);
    Ok(())
}

#[test]
fn updates_of_several_at_once_are_all_there() -> Result<()> {
    let (_folder, state) = fresh()?;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            // A handle of its own, as another process has.
            let path = state.path();
            scope.spawn(move || {
                let state = StateDir::open(path).expect("it is private");
                for number in 0..20 {
                    let version = format!("{writer}.{number}");
                    state
                        .update(|state| state.history.push(entry(Event::Published, &version)))
                        .expect("writes");
                }
            });
        }
    });
    let mut versions: Vec<_> = state.read()?.history.into_iter().map(|entry| entry.version).collect();
    versions.sort();
    versions.dedup();
    ensure!(versions.len() == 80, "{} of 80", versions.len());
    Ok(())
}

#[test]
fn killed_at_any_point_it_leaves_the_old_state_or_the_new() -> Result<()> {
    let (_folder, state) = fresh()?;
    let mut reached = 0;
    for round in 0..50 {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "policies_state::the_child_that_updates", "--ignored", "--nocapture"])
            .env(FOLDER, state.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        // It is at work; each round is killed somewhere else in it.
        let mut acknowledged = reached;
        for _ in 0..=round % 7 {
            acknowledged = number(&mut lines).context("the child ended by itself")?.max(acknowledged);
        }
        std::thread::sleep(Duration::from_micros(round * 137 % 2_900));
        child.kill()?;
        child.wait()?;
        while let Some(number) = number(&mut lines) {
            acknowledged = number;
        }
        let read = state.read()?;
        let (proven, serving) = (read.proven.context("none")?, read.serving.context("none")?);
        ensure!(proven.version == serving.version, "a mixture: {proven:?}, {serving:?}");
        reached = proven.version.parse()?;
        ensure!(reached == acknowledged || reached == acknowledged + 1, "{reached} after {acknowledged}");
    }
    // What was being written stays nowhere for ever.
    ensure!(fs::read_dir(state.path())?.count() <= 20);
    Ok(())
}

/// The next number that the child says it has written. The test harness talks too.
fn number(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Option<u64> {
    lines.by_ref().map_while(Result::ok).find_map(|line| line.rsplit("wrote ").next()?.parse().ok())
}

#[test]
#[ignore = "a process of its own for the test above, which kills it"]
fn the_child_that_updates() -> Result<()> {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(()) };
    let state = StateDir::open(folder)?;
    loop {
        let number = state.update(|state| {
            let last = state.proven.as_ref().map_or(0, |known| known.version.parse().unwrap_or(0));
            let version = (last + 1_u64).to_string();
            state.proven = Some(known(b"one", &version));
            state.serving = Some(serving(b"one", &version));
            state.history.push(entry(Event::Proven, &version));
            last + 1
        })?;
        println!("wrote {number}");
    }
}
