//! Case studies: real protocols with their bugs as values, each a test.
