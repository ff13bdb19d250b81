//! The backends: one for each operating system, behind the same names.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod none;

#[cfg(target_os = "linux")]
pub use linux::{Cell, Child, Killer, Plan, Survey, enter_if_asked, prepare, prepare_form, survey};
#[cfg(not(target_os = "linux"))]
pub use none::{Cell, Child, Killer, Plan, Survey, enter_if_asked, prepare, prepare_form, survey};
