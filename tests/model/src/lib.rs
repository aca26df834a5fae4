//! Every state that two or three instances of a lease can reach: the real decision functions, every import one step.
