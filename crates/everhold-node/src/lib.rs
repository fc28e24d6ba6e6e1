//! What a user writes: nodes, messages, timers, disks, choices and observations.
