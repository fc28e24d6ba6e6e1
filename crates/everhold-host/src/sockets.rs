//! Conversions between the calls of programs and those of the kernel's model.
