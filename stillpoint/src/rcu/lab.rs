//! What measurements of the scan need. No stable interface.

use super::Global;
use crate::domain::static_domain::StaticDomain as _;

/// Adds `count` readers without threads to [`Global`], which are active, or idle. They stay.
///
/// # Panics
///
/// If there is no memory.
pub fn add_readers(count: usize, active: bool) {
    let registry = Global::shared().readers().registry();
    for _ in 0..count {
        let Ok(reader) = registry.claim() else { panic!("out of memory") };
        if !active {
            registry.clear_active(reader);
        }
    }
}
