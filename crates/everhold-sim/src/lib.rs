//! Nodes under control: a strategy picks, findings replay and shrink.
