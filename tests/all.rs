//! Every question in one binary, one file a question.

mod guardian;
mod store_contract;
mod store_nats;
mod store_sqlite;
