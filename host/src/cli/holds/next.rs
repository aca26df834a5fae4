//! One job, and a command that runs with it: dead before another builder could be given the job, or another
//! check let through.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use incumbent::guard::{Ended, GuardOptions, Guarded, Status};
use incumbent::holds::{Builder, BuilderOptions, Job};
use incumbent::limits;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::time::timeout;

use super::super::args::HoldsNext;
use super::super::exit::Exit;
use super::super::run::{is_left, pass_on};
use super::super::say;
use super::super::signals::{Signals, after_signal};

/// `incumbent holds next`.
pub(crate) async fn next(args: HoldsNext) -> anyhow::Result<ExitCode> {
    // Listening first, so that no signal ends this process without the job being handed back.
    let mut signals = Signals::listen().context("signals cannot be listened to")?;
    let mut options = BuilderOptions::new(&args.builder);
    options.buckets = args.buckets.names();
    options.deliveries.clone_from(&args.deliveries);
    options.checks.clone_from(&args.checks);
    options.after = args.after;
    options.poll = args.poll;
    options.on_event = Arc::new(say::holds);
    let opening = async {
        let store = super::open(&args.store, &args.buckets.names()).await?;
        let policy = super::super::policy::built_in().await?;
        anyhow::Ok(Builder::open(&policy, &store, options).await?)
    };
    let builder = match signals.unless_ended(opening, || false).await {
        Ok(builder) => builder?,
        Err(signal) => return Ok(after_signal(signal).into()),
    };
    let coming = async {
        match args.wait {
            Some(wait) => timeout(wait, builder.next()).await.map_err(|_| Exit::Nobody as u8),
            None => Ok(builder.next().await),
        }
    };
    let came =
        signals.unless_ended(coming, || false).await.unwrap_or_else(|signal| Err(after_signal(signal)));
    let job = match came {
        Ok(job) => job,
        Err(code) => {
            // A look that was under way may have taken something, and hands it back.
            let _ = timeout(limits::RELEASE, builder.close()).await;
            if code == Exit::Nobody as u8 {
                say::note("no job came");
            }
            return Ok(ExitCode::from(code));
        }
    };
    say::job("taken", &job);
    let started = start(&args, &job).await;
    let command = match started {
        Ok(command) => command,
        Err(why) if is_left(&why) => {
            job.leave();
            return Err(why);
        }
        Err(why) => {
            hand_back(job, args.retry_after).await;
            return Err(why);
        }
    };
    let ended = serve(command, &job, &mut signals).await;
    finish(&args, job, ended).await
}

async fn start(args: &HoldsNext, job: &Job) -> anyhow::Result<Guarded> {
    let env = [
        ("INCUMBENT_JOB_ID", job.id().unwrap_or_default()),
        ("INCUMBENT_JOB_KIND", job.kind().to_string()),
        ("INCUMBENT_JOB_QUEUE", job.queue().to_owned()),
        ("INCUMBENT_JOB_SEQUENCE", job.ask().sequence.to_string()),
        ("INCUMBENT_JOB_DELIVERIES", job.deliveries().to_string()),
    ];
    // An id with a zero byte cannot stand in an environment.
    let env = env.map(|(name, value)| (name.into(), value.replace('\0', "")));
    let stdin = stdin(&job.ask().body).context("the job cannot be made the command's standard input")?;
    let options = GuardOptions {
        command: args.command.clone(),
        env: env.into(),
        until: job.until(),
        grace: args.grace,
        stdin: Some(Arc::new(stdin)),
        executable: None,
    };
    Ok(Guarded::spawn(options).await?)
}

/// A file in memory, since a pipe would have to be fed while the command runs.
fn stdin(body: &[u8]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("job", MemfdFlags::CLOEXEC)?);
    file.write_all(body)?;
    file.rewind()?;
    Ok(file.into())
}

async fn serve(mut command: Guarded, job: &Job, signals: &mut Signals) -> Ended {
    let (lost, mut untils) = (job.lost_token(), job.untils());
    let mut knows_lost = false;
    loop {
        tokio::select! {
            ended = command.wait() => return ended,
            // The guardian ends the command by itself, should this process not get to it.
            () = lost.cancelled(), if !knows_lost => {
                knows_lost = true;
                command.end();
            }
            signal = signals.next() => pass_on(&command, signal),
            Ok(()) = untils.changed() => {
                let until = *untils.borrow_and_update();
                if let Err(why) = command.extend(until) {
                    tracing::warn!("{why}");
                }
            }
        }
    }
}

async fn finish(args: &HoldsNext, job: Job, ended: Ended) -> anyhow::Result<ExitCode> {
    if !ended.all_gone {
        say::error("not all that the command started is gone, so the job is left to be given again later");
        say::job("lost", &job);
        job.leave();
        return Ok(Exit::Lost.into());
    }
    let lost = job.why_lost().map(|why| why.to_string());
    let overdue = ended.overdue.then(|| "its time ran out before it was kept again".into());
    if let Some(why) = lost.or(overdue) {
        say::error(&format!("the job was lost, and its command was ended: {why}"));
        say::job("lost", &job);
        // One that is somebody else's by now is left alone.
        if let Err(why) = job.hand_back(args.retry_after).await {
            tracing::info!("{why}");
        }
        return Ok(Exit::Lost.into());
    }
    let code = match ended.status {
        Status::Exit(0) => {
            say::job("done", &job);
            job.done().await.context("the job is done, and its queue was not told so")?;
            return Ok(Exit::Done.into());
        }
        Status::Exit(code) => u8::try_from(code).unwrap_or(u8::MAX),
        Status::Signal(signal) => after_signal(signal),
        Status::GuardianDied => {
            say::error("the guardian of the command was killed, and the command with it");
            Exit::Internal as u8
        }
    };
    say::job("handed back", &job);
    hand_back(job, args.retry_after).await;
    Ok(ExitCode::from(code))
}

/// The command's failure is what the caller is told by the exit code, also when the queue is not told.
async fn hand_back(job: Job, after: Duration) {
    if let Err(why) = job.hand_back(after).await {
        say::error(&format!("the job was not handed back, and is given again later: {why}"));
    }
}
