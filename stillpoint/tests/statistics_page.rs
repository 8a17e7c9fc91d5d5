//! With the feature `statistics-page`, other processes can read statistics. `lab/measure/tests/top.rs` reads them
//! with `stillpoint top`; here the process reads its own.
#![cfg(all(not(loom), feature = "statistics-page"))]

use stillpoint::statistics_page;
use support::prelude::*;

const INTERVAL: Duration = Duration::from_millis(10);

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;

#[test]
#[cfg(any(not(target_os = "linux"), stillpoint_portable, miri))]
fn page_is_unsupported_elsewhere_than_on_64_bit_linux() {
    let refused = statistics_page::publish(INTERVAL).expect_err("no page");
    assert_eq!(refused.kind(), std::io::ErrorKind::Unsupported);
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(any(stillpoint_portable, miri))))]
mod linux {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;
    use std::time::Instant;

    use stillpoint::Domain as _;
    use stillpoint::srcu::Domain;
    use support::counting::allocations;
    use support::fork;
    use support::until::until;

    use super::*;

    /// The links of pages in this process.
    fn pages() -> Vec<PathBuf> {
        let is_page = |path: &PathBuf| {
            fs::read_link(path)
                .is_ok_and(|link| link.to_string_lossy().starts_with("/memfd:stillpoint-statistics"))
        };
        let descriptors = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
        descriptors.map(|entry| entry.path()).filter(is_page).collect()
    }

    /// The number and the text of the last sample.
    fn sample() -> (u64, String) {
        let pages = pages();
        let [page] = &pages[..] else { panic!("one page: {pages:?}") };
        loop {
            // The whole page, whose last sample may have changed in the middle of this.
            let bytes = fs::read(page).expect("the page");
            let word = |bytes: &[u8], at| u64::from_ne_bytes(bytes[at..][..8].try_into().expect("8 bytes"));
            let number = word(&bytes, 32);
            let slot = 4096 + (number % 2) as usize * (128 << 10);
            let text = &bytes[slot + 8..][..word(&bytes, slot) as usize];
            if word(&fs::read(page).expect("the page"), 32) == number {
                return (number, std::str::from_utf8(text).expect("text").to_owned());
            }
        }
    }

    fn threads() -> usize {
        let tasks = fs::read_dir("/proc/self/task").expect("threads").flatten();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.map(name).filter(|name| name == "stillpoint-stat\n").count()
    }

    #[test]
    fn samples_follow_at_an_interval_that_can_be_changed() {
        alone!();
        // The first sample is there at once.
        statistics_page::publish(Duration::MAX).expect("a page");
        let (first, text) = sample();
        assert!(first >= 1 && text.contains("\"library\":\""), "{text}");
        for _ in 0..3 {
            statistics_page::publish(INTERVAL).expect("the same page");
        }
        until(|| sample().0 >= first + 3);
        assert_eq!(threads(), 1);
    }

    #[test]
    fn page_does_not_choose_the_fence() {
        alone!();
        statistics_page::publish(INTERVAL).expect("a page");
        assert!(sample().1.contains("\"fence\":null"));
        let chosen = format!("\"fence\":{{\"backend\":\"{}\",", stillpoint::fence::report().backend());
        until(|| sample().1.contains(&chosen));
    }

    /// Where sections began, and what happens in locks, if that is recorded.
    #[test]
    fn page_has_what_other_features_record() {
        alone!();
        let domain = Domain::new();
        let guard = domain.enter();
        domain.call(|| ());
        statistics_page::publish(INTERVAL).expect("a page");
        until(|| sample().1.contains("\"waited\""));
        let (_, text) = sample();
        assert!(text.contains("\"readers\":1") && text.contains("\"threads\":[]"), "{text}");
        let begun_here = text.contains("\"at\":\"stillpoint/tests/statistics_page.rs:");
        assert_eq!(begun_here, cfg!(feature = "section-locations"), "{text}");
        drop(guard);
    }

    #[test]
    fn file_cannot_be_shrunk_or_grown() {
        alone!();
        statistics_page::publish(INTERVAL).expect("a page");
        let page = fs::OpenOptions::new().write(true).open(&pages()[0]).expect("the page");
        let size = page.metadata().expect("its size").len();
        for other in [0, size - 1, size + 1] {
            page.set_len(other).expect_err("sealed");
        }
    }

    /// The kernel sends a signal that ends a program whose file would be larger.
    #[test]
    fn small_limit_of_files_is_an_error() {
        use rustix::process::{Resource, Rlimit, setrlimit};

        alone!();
        setrlimit(Resource::Fsize, Rlimit { current: Some(4096), maximum: None }).expect("a lower limit");
        let error = statistics_page::publish(INTERVAL).expect_err("the page is larger");
        assert_eq!((error.raw_os_error(), threads(), pages().len()), (Some(libc::EFBIG), 0, 0));
    }

    /// Domains are made, used and freed while each sample looks at them.
    #[test]
    fn domains_come_and_go_while_samples_are_taken() {
        alone!();
        statistics_page::publish(INTERVAL).expect("a page");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        let domain = Domain::new();
                        // Two threads use it for the first time.
                        thread::scope(|scope| {
                            scope.spawn(|| drop(domain.enter()));
                            domain.call(|| ());
                        });
                        domain.synchronize();
                    }
                });
            }
            let first = sample().0;
            until(|| sample().0 > first + 100);
            stop.store(true, Relaxed);
        });
    }

    #[test]
    fn page_lists_the_domains_in_which_most_waits() {
        alone!();
        let domains: Vec<_> = (0..300).map(|_| Domain::new()).collect();
        domains.iter().for_each(Domain::prepare);
        let full = &domains[200];
        let guard = full.enter();
        for _ in 0..10 {
            full.call(|| ());
        }
        statistics_page::publish(INTERVAL).expect("a page");
        until(|| {
            let text = sample().1;
            assert!(text.contains("\"domains_in_use\":300,"), "{text}");
            assert_eq!(text.matches("\"made_at\"").count(), 64);
            text.contains("\"queued\":10,") && text.contains("\"waited\"")
        });
        drop(guard);
    }

    /// Text is made of those only that are listed.
    #[test]
    fn domain_that_is_not_listed_costs_no_allocation() {
        alone!();
        let domains: Vec<_> = (0..10_000).map(|_| Domain::new()).collect();
        domains.iter().for_each(Domain::prepare);
        let before = allocations();
        // The first sample is made here.
        statistics_page::publish(Duration::MAX).expect("a page");
        let made = allocations() - before;
        assert!(made < domains.len(), "{made} allocations");
    }

    /// What is shown as the time of a callback is that of one, not of all that ran before it.
    #[test]
    fn worker_is_said_to_run_since_the_last_long_callback() {
        alone!();
        statistics_page::publish(INTERVAL).expect("a page");
        let domain = Domain::new();
        let guard = domain.enter();
        let (results, seen) = mpsc::channel();
        let end = Arc::new(Mutex::new(None::<Instant>));
        for _ in 0..5 {
            let (results, end) = (results.clone(), Arc::clone(&end));
            domain.call(move || {
                let (begin, first) = (Instant::now(), sample().0);
                // The second from here on was begun after this callback. Longer than a batch may take.
                until(|| sample().0 > first + 1 && begin.elapsed() > Duration::from_millis(30));
                let mut end = end.lock().expect("no panic");
                let (text, at_most) = (sample().1, end.map(|end| end.elapsed()));
                let _ = results.send((running(&text), at_most));
                *end = Some(Instant::now());
            });
        }
        drop(guard);
        for _ in 0..5 {
            let (running, at_most) = seen.recv().expect("all callbacks run");
            assert!(at_most.is_none_or(|most| running <= most), "{running:?}, most {at_most:?}");
        }
    }

    /// How long a worker has run callbacks, if one does.
    fn running(text: &str) -> Duration {
        let (_, time) = text.split_once("\"running\":{").expect("a worker runs");
        let part = |name| {
            let (_, number) = time.split_once(name).expect("a part of a time");
            number.split([',', '}']).next().expect("its end").parse().expect("a number")
        };
        Duration::from_secs(part("\"secs\":")) + Duration::from_nanos(part("\"nanos\":"))
    }

    #[test]
    fn page_keeps_the_domain_with_most_callbacks() {
        alone!();
        let domains: Vec<_> = (0..80).map(|_| Domain::new()).collect();
        let (last, others) = domains.split_last().expect("domains");
        let guards: Vec<_> = domains.iter().map(Domain::enter).collect();
        let waits = |domain: &Domain| !domain.stats().waiting.is_zero();
        for domain in others {
            domain.call(|| ());
        }
        until(|| others.iter().all(waits));
        for _ in 0..10 {
            last.call(|| ());
        }
        // All others have waited for longer.
        until(|| waits(last));
        statistics_page::publish(INTERVAL).expect("a page");
        let text = sample().1;
        assert_eq!(text.matches("\"made_at\"").count(), 64, "{text}");
        assert!(text.contains("\"queued\":10,"), "{text}");
        drop(guards);
    }

    #[test]
    fn child_of_a_fork_publishes_a_page_of_its_own() {
        if !fork::is_alone(child_of_a_fork_publishes_a_page_of_its_own) {
            return;
        }
        statistics_page::publish(INTERVAL).expect("a page");
        let of = |pid: u32| format!("\"pid\":{pid},");
        fork::in_child(|| {
            assert_eq!((pages().len(), threads()), (0, 0), "those of the parent");
            statistics_page::publish(INTERVAL).expect("a page");
            let (first, text) = sample();
            assert!(text.contains(&of(std::process::id())), "{text}");
            until(|| sample().0 > first + 2);
            fork::in_child(|| {
                statistics_page::publish(INTERVAL).expect("a page");
                assert!(sample().1.contains(&of(std::process::id())));
            });
        });
        let first = sample();
        assert!(first.1.contains(&of(std::process::id())));
        until(|| sample().0 > first.0 + 2);
    }
}
