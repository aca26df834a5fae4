//! Every question in one binary, one file a question.

mod decisions;
mod run_command;
mod run_takeover;
mod store_contract;
mod store_nats;
mod store_nats_faults;
mod store_sqlite;
