//! The journal: what was changed, before and after; intent first.
