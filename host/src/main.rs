//! The `incumbent` command.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // The guardian of a command that runs: nothing else may have been started in it.
    if arguments.next().is_some_and(|word| word == incumbent::guard::WORD) {
        return incumbent::guard::guardian_main(arguments);
    }
    cli::main()
}
