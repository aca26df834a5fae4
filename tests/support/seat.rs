//! A build seat: asks put into its queues, builders that take them, and what ran, written down in one file.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::running::{Arena, Running, output};

/// A job that writes down its start and its end, and runs until the file `$ARENA/go` is there if its id says
/// `long`. Whatever it starts holds a lock on its id, and one on `let-through` where it is let through: a second
/// holder is an overlap.
const JOB: &str = r#"
exec 8>>"$ARENA/lock.$INCUMBENT_JOB_ID"
flock -n 8 || echo "overlap $INCUMBENT_JOB_ID" >> "$ARENA/log"
if [ "$INCUMBENT_JOB_KIND" = let-through ]; then
  exec 9>>"$ARENA/lock-let-through"
  flock -n 9 || echo "overlap let-through $INCUMBENT_JOB_ID" >> "$ARENA/log"
fi
echo "start $INCUMBENT_JOB_KIND $INCUMBENT_JOB_ID $INCUMBENT_JOB_DELIVERIES $LOOK $$ $PPID" >> "$ARENA/log"
case $INCUMBENT_JOB_ID in
  *long) setsid sleep 999 & while [ ! -e "$ARENA/go" ]; do sleep 0.1; done; kill $! ;;
  *poor) [ "$INCUMBENT_JOB_DELIVERIES" -gt 1 ] || exit 3 ;;
  *) sleep 0.3 ;;
esac
echo "end $INCUMBENT_JOB_ID $INCUMBENT_JOB_DELIVERIES" >> "$ARENA/log"
"#;

/// A taking loop: one job a process, each look with a name of its own, until `$ARENA/stop` is there.
const LOOP: &str = r#"
n=0
while [ ! -e "$ARENA/stop" ]; do
  n=$((n + 1))
  export LOOK="$BUILDER.$n"
  echo "look $LOOK" >> "$ARENA/log"
  "$@" 2> "$ARENA/said.$LOOK" &
  echo $! > "$ARENA/pid.$BUILDER"
  wait $!
  # Out of reach: not at once again.
  [ $? != 69 ] || sleep 1
done
"#;

/// Builds until the file `$ARENA/built` is there, and writes that down again and again.
const PLAN: &str = r#"
echo "begin $0" >> "$ARENA/log"
while [ ! -e "$ARENA/built" ]; do echo "builds $0" >> "$ARENA/log"; sleep 0.1; done
echo "builds $0" >> "$ARENA/log"
"#;

/// One start of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    /// The line of the log it stands on.
    pub line: usize,
    /// What it is.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// How often it was given by then.
    pub deliveries: u64,
    /// The look that took it: `builder.number`.
    pub look: String,
    /// The command's process.
    pub pid: i32,
}

impl Began {
    /// Who took it.
    #[must_use]
    pub fn builder(&self) -> &str {
        self.look.split('.').next().unwrap_or_default()
    }
}

/// A seat in an arena.
#[derive(Debug)]
pub struct Seat {
    /// Where it stands.
    pub arena: Arena,
    /// Options of `incumbent holds next`.
    pub options: Vec<&'static str>,
}

impl Seat {
    /// Run the command with these arguments to its end, which must be a good one.
    ///
    /// # Errors
    /// It failed.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        let (code, out, err) = output(&mut self.arena.command(arguments))?;
        ensure!(code == 0, "{arguments:?} ended with {code}: {out}{err}");
        Ok(out)
    }

    /// One builder that takes one job.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn next(&self, builder: &str) -> Result<Running> {
        let mut command = self.arena.command(&["holds", "next", "--builder", builder]);
        command.args(&self.options).args(["--", "sh", "-c", JOB]).env("LOOK", format!("{builder}.0"));
        Running::start(command)
    }

    /// A builder that takes one job after another.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn builder(&self, builder: &str) -> Result<Running> {
        let next = self.arena.command(&["holds", "next", "--builder", builder, "--wait", "1s"]);
        let mut command = Command::new("sh");
        command.args(["-c", LOOP, "loop"]).arg(next.get_program()).args(next.get_args());
        command.args(&self.options).args(["--", "sh", "-c", JOB]);
        for (name, value) in next.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("BUILDER", builder).stdin(Stdio::null());
        Running::start(command)
    }

    /// A holder of the lease `office` under whom a plan builds.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn plan(&self, plan: &str) -> Result<Running> {
        let incumbent = self.arena.command(&[]).get_program().to_string_lossy().into_owned();
        let run = [&incumbent, "holds", "begin", plan, "--", "sh", "-c", PLAN, plan];
        self.arena.stand_with("controller", &run)
    }

    /// The process of a looping builder's newest look.
    ///
    /// # Errors
    /// It has none.
    pub fn pid(&self, builder: &str) -> Result<i32> {
        Ok(fs::read_to_string(self.arena.folder().join(format!("pid.{builder}")))?.trim().parse()?)
    }

    /// What is written down, line by line.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.arena.folder().join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Make a file that the scripts look for.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn mark(&self, name: &str) -> Result<()> {
        Ok(fs::write(self.arena.folder().join(name), "")?)
    }

    /// Remove it.
    ///
    /// # Errors
    /// It is not there.
    pub fn unmark(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.arena.folder().join(name))?)
    }
}

/// The starts in a log.
#[must_use]
pub fn began(log: &[String]) -> Vec<Began> {
    let parse = |(line, text): (usize, &String)| {
        let mut words = text.strip_prefix("start ")?.split(' ');
        Some(Began {
            line,
            kind: words.next()?.into(),
            id: words.next()?.into(),
            deliveries: words.next()?.parse().ok()?,
            look: words.next()?.into(),
            pid: words.next()?.parse().ok()?,
        })
    };
    log.iter().enumerate().filter_map(parse).collect()
}

/// Fails when what ran broke a rule of the seat.
///
/// # Errors
/// Which, and all that was written down.
pub fn check(log: &[String]) -> Result<()> {
    let whole = || log.join("\n");
    if let Some(overlap) = log.iter().find(|line| line.starts_with("overlap")) {
        bail!("{overlap} ran beside another:\n{}", whole());
    }
    let starts = began(log);
    for start in &starts {
        // Begun before that builder began to look, and building still when the check started.
        let looked = find(log, &format!("look {}", start.look));
        let builds = |begin: &(usize, &String)| {
            let plan = begin.1.strip_prefix("begin ").unwrap_or_default();
            let last = log.iter().rposition(|line| line == &format!("builds {plan}"));
            looked.is_some_and(|looked| begin.0 < looked) && last.is_some_and(|last| last > start.line)
        };
        let mut begins = log.iter().enumerate().filter(|(_, line)| line.starts_with("begin "));
        if start.kind == "check"
            && let Some((_, plan)) = begins.find(builds)
        {
            bail!("{start:?} was taken though a plan had begun and built still: {plan}\n{}", whole());
        }
        let mut earlier = starts.iter().filter(|other| other.line < start.line && other.id == start.id);
        if let Some(other) = earlier.find(|other| other.deliveries >= start.deliveries) {
            bail!("{start:?} ran again after {other:?} without a redelivery\n{}", whole());
        }
    }
    Ok(())
}

fn find(log: &[String], line: &str) -> Option<usize> {
    log.iter().position(|other| other == line)
}

/// Put this into a queue: the exit code, what was written and what was said.
///
/// # Errors
/// The command cannot be started.
pub fn put(arena: &Arena, queue: &str, body: &[u8]) -> Result<(i32, String, String)> {
    let mut file = tempfile::tempfile()?;
    file.write_all(body)?;
    std::io::Seek::rewind(&mut file).context("a file can be rewound")?;
    output(arena.command(&["queue", "put", queue]).stdin(file))
}
