//! The rooms of the binary.
