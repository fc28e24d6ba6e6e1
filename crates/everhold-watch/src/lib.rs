//! Outside a deployed system: snapshots at timestamps, and checks over them.
