//! Every question in one binary, one file a question.

mod component;
mod decisions;
mod hostile;
mod rails;
mod run_command;
mod run_takeover;
mod store_contract;
mod store_nats;
mod store_nats_faults;
mod store_sqlite;
