//! The command line: what it takes, what it prints, how it ends.

mod args;
mod bucket;
mod exit;
mod holds;
mod operator;
mod policy;
mod queue;
mod run;
mod say;
mod show;
mod signals;
mod simulate;
mod state;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use exit::{Exit, exit_of};

/// Parses, runs, and says what went wrong.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(why) => {
            // Help and version are no errors; clap prints each where it belongs.
            let exit = if why.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = why.print();
            return exit.into();
        }
    };
    say::log(cli.verbose);
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            say::error(&format!("no threads to run on: {why}"));
            return Exit::Internal.into();
        }
    };
    let ended = runtime.block_on(command(cli));
    // What a store still has under way must not hold the process up.
    runtime.shutdown_background();
    ended.unwrap_or_else(|why| {
        say::error(&format!("{why:#}"));
        exit_of(&why).into()
    })
}

async fn command(cli: Cli) -> anyhow::Result<ExitCode> {
    let json = cli.json;
    match cli.command {
        Command::Run(run) => run::run(run, json).await,
        Command::Status(status) => show::status(&status, json).await,
        Command::List(list) => show::list(&list, json).await,
        Command::StepDown(step_down) => operator::step_down(&step_down, json).await,
        Command::Clear(clear) => operator::clear(&clear, json).await,
        Command::Bucket { command: args::BucketCommand::Create(create) } => {
            bucket::create(&create, json).await
        }
        Command::Holds { command } => holds::holds(command, json).await,
        Command::Queue { command } => queue::queue(command, json).await,
        Command::Simulate(simulate) => simulate::simulate(simulate, json).await,
        Command::Policy { command } => policy::policy(command, json).await,
    }
}
