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
use tracing::level_filters::LevelFilter;

use args::{Cli, Command};
use exit::{Exit, exit_of};

/// Parses, runs, and says what went wrong.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(why) => {
            // Help and version are no errors; clap prints each where it belongs.
            let exit = if why.use_stderr() { Exit::Usage } else { Exit::Done };
            if exit == Exit::Usage && asks_for_json() {
                say::begin(true, LevelFilter::OFF);
                say::failed(why.render().to_string().trim(), exit);
            } else {
                let _ = why.print();
            }
            return exit.into();
        }
    };
    say::begin(cli.json, level(&cli));
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            say::failed(&format!("no threads to run on: {why}"), Exit::Internal);
            return Exit::Internal.into();
        }
    };
    let ended = runtime.block_on(command(cli.command));
    // What a store still has under way must not hold the process up.
    runtime.shutdown_background();
    ended.unwrap_or_else(|why| {
        let exit = exit_of(&why);
        if exit != Exit::Unread {
            say::failed(&say::chain(&why), exit);
        }
        exit.into()
    })
}

/// Whether `--json` stands in a command line that cannot be taken, before what belongs to a command to run.
fn asks_for_json() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

/// From which level on what the libraries log is said.
fn level(cli: &Cli) -> LevelFilter {
    match (cli.verbose, &cli.command) {
        // It is about instances that do not exist.
        (0, Command::Simulate(_)) => LevelFilter::OFF,
        (0, _) => LevelFilter::WARN,
        (1, _) => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    }
}

async fn command(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(run) => run::run(run).await,
        Command::Status(status) => show::status(&status).await,
        Command::List(list) => show::list(&list).await,
        Command::StepDown(step_down) => operator::step_down(&step_down).await,
        Command::Clear(clear) => operator::clear(&clear).await,
        Command::Bucket { command: args::BucketCommand::Create(create) } => bucket::create(&create).await,
        Command::Holds { command } => holds::holds(command).await,
        Command::Queue { command } => queue::queue(command).await,
        Command::Simulate(simulate) => simulate::simulate(simulate).await,
        Command::Policy { command } => policy::policy(command).await,
    }
}
