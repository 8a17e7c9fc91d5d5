//! Progress of a run, on standard error.
//!
//! On a terminal it is a bar with the time that remains, elsewhere a single line, so that logs stay readable.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run. Dropping it removes the bar.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Announces `steps` steps that take about `total` together.
    pub fn new(title: &str, steps: usize, total: Duration) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{title}: {steps} steps, about {} s", total.as_secs_f64().ceil());
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(steps as u64);
        let style =
            ProgressStyle::with_template("{prefix} [{bar:30}] {percent:>3}% {eta:>4} left  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        Self(bar)
    }

    /// Shows the current measurement.
    pub fn show(&self, what: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(what());
        }
    }

    /// Counts a step as done.
    pub fn advance(&self) {
        self.0.inc(1);
    }

    /// Sets the number of steps that are done.
    pub fn reach(&self, steps: u64) {
        self.0.set_position(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
