//! The `incumbent` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|word| word == incumbent::guard::WORD) {
        return incumbent::guard::guardian_main(args);
    }
    ExitCode::SUCCESS
}
