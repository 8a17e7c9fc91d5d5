//! For models, which have no pool of threads: their domains run tasks, and park, themselves.

use super::state::Task;
pub use crate::sync::ordered::Key as TimerKey;

pub fn submit_or_park(task: Task) -> Result<(), Task> {
    task();
    Ok(())
}

pub fn may_sleep() -> bool {
    true
}

pub fn in_code() {}

pub fn first_look() -> u64 {
    crate::sync::now() + 2
}

pub fn free_until() -> u64 {
    0
}

pub fn retry_delay(waited: u64, [least, most]: [u64; 2]) -> u64 {
    (waited / 4).clamp(least, most)
}

macro_rules! never {
    ($($function:ident)*) => { $(pub fn $function() -> bool { false })* };
}

never! { retry is_worker is_runner is_wanted resign may_want_timer must_wait start_spare is_stranded starts_none }

pub fn unpark(_: TimerKey) {}

pub fn is_parked(_: TimerKey) -> bool {
    false
}
