//! Every question in one binary, one file a question.

mod component;
mod decisions;
mod guardian;
mod holds_input;
mod holds_keep;
mod holds_let_through;
mod holds_plans;
mod holds_taking;
mod holds_trouble;
mod hostile;
mod lease_fence;
mod lease_floor;
mod lease_input;
mod lease_keep;
mod lease_lost_answers;
mod lease_nats;
mod lease_release;
mod lease_take;
mod lease_vacancy;
mod queue_contract;
mod rails;
mod run_command;
mod run_takeover;
mod store_contract;
mod store_nats;
mod store_sqlite;
