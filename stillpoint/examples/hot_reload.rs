//! Configuration that is changed while threads use it.
//!
//! A service reads its settings for every request, and one thread checks whether the file has changed. An invalid
//! file is refused, and the old settings stay.
//!
//! ```sh
//! cargo run -p stillpoint --example hot_reload              # edits a temporary file, and checks what the threads see
//! cargo run -p stillpoint --example hot_reload -- FILE      # runs until it is killed: edit FILE while it runs
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, error, fs, process, thread};

use stillpoint::fence;
use stillpoint::percpu::Counter;
use stillpoint::rcu::{self, Rcu};

const WORKERS: usize = 4;
const FIRST: &str = "greeting = hello\nlimit = 1\n";

#[derive(Debug, Clone, PartialEq)]
struct Settings {
    greeting: String,
    limit: usize,
}

impl Settings {
    fn parse(text: &str) -> Result<Self, Box<dyn error::Error>> {
        let value = |name| {
            let mut pairs = text.lines().filter_map(|line| line.split_once('='));
            let pair = pairs.find(|(key, _)| key.trim() == name);
            pair.map(|(_, value)| value.trim()).ok_or(format!("there is no `{name}`"))
        };
        Ok(Self { greeting: value("greeting")?.to_owned(), limit: value("limit")?.parse()? })
    }
}

/// The state that threads share.
struct Service {
    settings: Rcu<Settings>,
    requests: Counter,
    refused: Counter,
    stop: AtomicBool,
}

impl Service {
    /// Returns the answer to a request. All settings in it are of one moment.
    fn answer(&self) -> String {
        let guard = rcu::enter();
        let settings = self.settings.load(&guard);
        settings.greeting.repeat(settings.limit)
    }

    fn work(&self) {
        while !self.stop.load(Relaxed) {
            let answer = self.answer();
            // The limit is the number of greetings.
            assert_eq!(
                answer.matches("hello").count(),
                answer.len() / "hello".len(),
                "settings are mixed up"
            );
            self.requests.inc();
        }
    }

    /// Reads the file. Returns `true` if the settings have changed.
    fn reload(&self, path: &Path) -> Result<bool, Box<dyn error::Error>> {
        let new = Settings::parse(&fs::read_to_string(path)?)?;
        if new == *self.settings.load(&rcu::enter()) {
            return Ok(false);
        }
        println!("now {new:?}");
        // A thread of the library drops the old settings when no request uses them.
        self.settings.replace(new);
        Ok(true)
    }

    fn watch(&self, path: &Path) {
        let mut last_error = String::new();
        while !self.stop.load(Relaxed) {
            let error = self.reload(path).err().map_or(String::new(), |error| error.to_string());
            if error != last_error && !error.is_empty() {
                println!("the old settings stay: {}: {error}", path.display());
                self.refused.add(1);
            }
            last_error = error;
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Replaces the file atomically, as editors do.
fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).expect("the file can be written");
}

/// Edits the file a few times, as an operator would, and waits until the service uses it.
fn operate(service: &Service, path: &Path) {
    let wait_until = |what: &str, is_seen: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_seen() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the service does not see {what}");
            thread::sleep(Duration::from_millis(1));
        }
    };
    for limit in 2..=5 {
        write(path, &format!("greeting = hello\nlimit = {limit}\n"));
        wait_until("a new limit", &|| service.answer() == "hello".repeat(limit));
        let refused = service.refused.get();
        write(path, "greeting = hello\nlimit = many\n");
        wait_until("an invalid limit", &|| service.refused.get() > refused);
        assert_eq!(service.answer(), "hello".repeat(limit));
    }
}

fn main() {
    fence::report();
    let file = env::args_os().nth(1).map(PathBuf::from);
    let own = env::temp_dir().join(format!("stillpoint-hot-reload-{}", process::id()));
    if file.is_none() {
        fs::write(&own, FIRST).expect("the file can be written");
    }
    let path = file.as_ref().unwrap_or(&own);
    let settings = Settings::parse(FIRST).expect("valid settings");
    let service = Service {
        settings: Rcu::new(settings),
        requests: Counter::new(),
        refused: Counter::new(),
        stop: AtomicBool::new(false),
    };

    thread::scope(|scope| {
        (0..WORKERS).for_each(|_| _ = scope.spawn(|| service.work()));
        scope.spawn(|| service.watch(path));
        if file.is_none() {
            let operated = scope.spawn(|| operate(&service, path)).join();
            service.stop.store(true, Relaxed);
            operated.expect("the service follows the edits");
        }
    });

    rcu::barrier();
    println!("{} requests; {}", service.requests.get(), rcu::stats());
    // All settings but the last.
    assert_eq!(rcu::stats().done, 4, "old settings have not been dropped");
    fs::remove_file(own).expect("the file is there");
}
