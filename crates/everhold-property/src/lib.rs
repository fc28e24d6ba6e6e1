//! What should hold: the property language.
