//! Finds the executions that break a distributed system, and shows them.
