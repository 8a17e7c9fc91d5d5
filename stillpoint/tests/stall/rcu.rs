//! Reports of stalled grace periods.

use std::panic::panic_any;

use stillpoint::rcu::{Global, Guard, Stall, StaticDomain, Stats};
use support::asleep::tid;
use support::owner::busy;
use support::prelude::*;

use crate::{EXTRAS, LIMIT, StalledThread, known, record_stalls, stall, stalls_of};

/// Waits for `count` stalls of `D`, and returns them.
fn stalls<D: StaticDomain>(count: usize) -> Vec<Stall> {
    stalls_of(count, |stall| stall.domain() == D::name())
}

#[test]
fn stall_report_names_thread_id_and_site() {
    own!(Own);
    record_stalls();
    // The worker would begin a grace period for what is retired, perhaps before the thread that retires it is inside.
    let busy = busy::<Own>();
    let first_line = line!() + 1;
    let entering = stall("entering", || Own::enter());
    let registering = stall("registering", || {
        Own::register();
        Own::enter()
    });
    let retiring = stall("retiring", || {
        Own.retire(Box::new(0));
        Own::enter()
    });
    let writer = thread::spawn(|| Own.synchronize());
    let stall = stalls::<Own>(1).remove(0);
    let expected = [
        ("entering", entering.id, first_line),
        ("registering", registering.id, first_line + 2),
        ("retiring", retiring.id, first_line + 6),
    ];
    assert_eq!(stall.readers().len(), 3, "{stall:?}");
    for (reader, (name, id, line)) in stall.readers().iter().zip(expected) {
        assert_eq!((reader.thread_name(), reader.thread_id()), (known(name), id));
        let site = reader.registered_at();
        assert_eq!((site.file(), site.line()), (file!(), line));
        let name = known(name).map_or(String::new(), |name| format!(" ({name})"));
        let text = format!("thread {id}{name}, which registered at {}:{line}:", file!());
        assert!(reader.to_string().starts_with(&text), "{reader}");
        assert!(stall.to_string().contains(&reader.to_string()), "{stall}");
    }
    assert_eq!(stall.grace_period(), Own.stats().grace_periods + 1);
    drop(busy);
    [entering, registering, retiring].into_iter().for_each(StalledThread::leave);
    writer.join().expect("the grace period ends");
}

#[test]
fn stall_report_of_the_global_domain_has_the_call_site() {
    let _running = deadline();
    record_stalls();
    let (line, reader) = (line!(), stall("global", || rcu::enter()));
    let writer = waiting_synchronize::<Global>();
    let stall = stalls::<Global>(1).remove(0);
    let (site, section) = (stall.readers()[0].registered_at(), stall.readers()[0].section_at());
    assert_eq!((site.file(), site.line()), (file!(), line));
    assert_eq!(section, cfg!(feature = "section-locations").then_some(site));
    reader.leave();
    writer.join().expect("the grace period ends");
}

#[test]
fn stall_report_repeats_at_doubled_intervals() {
    own!(Own);
    const REPORTS: usize = 5;
    record_stalls();
    Own.synchronize();
    let reader = stall("again", Own::enter);
    let writer = waiting_synchronize::<Own>();
    let stalls = stalls::<Own>(REPORTS);
    assert!(stalls[0].waited() >= LIMIT);
    for pair in stalls.windows(2) {
        assert!(pair[1].waited() >= 2 * pair[0].waited(), "{pair:?}");
    }
    for stall in &stalls {
        assert_eq!((stall.grace_period(), stall.readers().len()), (2, 1), "{stall:?}");
    }
    // Also during the stall.
    let stats = Own.stats();
    assert!(stats.longest_wait >= stalls[REPORTS - 1].waited(), "{stats:?}");
    assert!(stats.stalls >= REPORTS as u64, "{stats:?}");
    assert!(stats.waiting >= stalls[REPORTS - 1].waited(), "{stats:?}");
    reader.leave();
    writer.join().expect("the grace period ends");
    let ended = Own.stats();
    assert_eq!((ended.waiting, ended.waits.iter().sum()), (Duration::ZERO, ended.grace_periods), "{ended:?}");
    let class =
        Stats::WAIT_BOUNDS.iter().rposition(|bound| stats.waiting > *bound).map_or(0, |class| class + 1);
    assert!(ended.waits[class..].iter().sum::<u64>() > 0, "{ended:?}");
}

#[test]
fn reader_that_left_is_no_longer_reported() {
    own!(Own);
    record_stalls();
    let (short, long) = (stall("short", Own::enter), stall("long", Own::enter));
    let writer = waiting_synchronize::<Own>();
    assert_eq!(stalls::<Own>(1)[0].readers().len(), 2);
    short.leave();
    let before = stalls::<Own>(1).len();
    // The first of these may have begun before the reader left.
    let stall = stalls::<Own>(before + 2).remove(before + 1);
    assert_eq!(stall.readers().len(), 1, "{stall:?}");
    assert_eq!(stall.readers()[0].thread_id(), long.id);
    long.leave();
    writer.join().expect("the grace period ends");
    let ended = stalls::<Own>(1).len();
    Own.synchronize();
    assert_eq!(stalls::<Own>(1).len(), ended);
}

#[test]
fn exited_reader_is_reported_whatever_waits() {
    stillpoint::domain! { struct Caller; }
    stillpoint::domain! { struct Worker; }
    stillpoint::domain! { struct Barrier; }
    stillpoint::domain! { struct Poller; }
    fn reports<D: StaticDomain<Section = Guard<D>>>(wait: fn()) {
        let line = line!() + 3;
        let exits = || {
            // Nested: both guards are leaked.
            mem::forget((Guard::<D>::enter(), Guard::<D>::enter()));
            tid().unsigned_abs()
        };
        let exits = thread::Builder::new().name("exits".to_owned()).spawn(exits).expect("a thread");
        let id = exits.join().expect("the thread ends");
        // Never returns, if it is the waiting thread.
        thread::spawn(wait);
        let stall = stalls::<D>(1).remove(0);
        let [reader] = stall.readers() else { panic!("{stall}") };
        assert!(reader.has_exited());
        assert_eq!((reader.thread_id(), reader.thread_name()), (id, None));
        assert_eq!(reader.registered_at().line(), line);
        assert!(reader.to_string().contains("exited inside a read-side critical section"), "{reader}");
    }
    let _running = deadline();
    record_stalls();
    reports::<Caller>(|| Caller.synchronize());
    reports::<Worker>(|| Worker.call(|| ()));
    reports::<Barrier>(|| {
        Barrier.call(|| ());
        Barrier.barrier();
    });
    reports::<Poller>(|| {
        GracePeriod::start_in(Poller);
    });
}

#[test]
fn guard_leaked_by_a_callback_is_reported_and_waited_for() {
    own!(Own);
    record_stalls();
    let (leaked, leaks) = mpsc::channel();
    let (ran, runs) = mpsc::channel();
    let leak = move || {
        mem::forget(Own::enter());
        leaked.send(tid().unsigned_abs()).expect("the test listens");
    };
    thread::spawn(|| Own.call(leak)).join().expect("no panic");
    let id = leaks.recv().expect("the callback runs");
    thread::spawn(|| Own.call(move || ran.send(()).expect("the test listens"))).join().expect("no panic");
    let stall = stalls::<Own>(2).remove(1);
    let [reader] = stall.readers() else { panic!("{stall}") };
    // The thread may have exited: of those that have no work one stays.
    assert_eq!(reader.thread_id(), id);
    assert!(runs.try_recv().is_err());
}

#[test]
fn panic_in_the_stall_hook_is_caught() {
    own!(Own);
    struct PanicsAgain;
    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            panic!("while it is dropped");
        }
    }
    record_stalls();
    let extra = (<Own as StaticDomain>::name(), (|_| panic_any(PanicsAgain)) as fn(&Stall));
    EXTRAS.lock().expect("no panic under the lock").push(extra);
    let reader = stall("panic", Own::enter);
    let writer = waiting_synchronize::<Own>();
    stalls::<Own>(2);
    reader.leave();
    writer.join().expect("the grace period ends");
    Own.synchronize();
}

#[test]
fn stderr_report_has_a_line_for_each_of_eight_readers() {
    stillpoint::domain! { struct Own; }
    const READERS: usize = 10;
    let test = stderr_report_has_a_line_for_each_of_eight_readers;
    if child::variant().is_none() {
        let output = child::stderr(test, "default", None);
        let lines: Vec<_> =
            output.lines().filter(|line| line.starts_with("stillpoint: grace period 1 of ")).collect();
        assert!(lines.len() >= 9, "{output}");
        for (index, line) in lines[..8].iter().enumerate() {
            assert!(
                line.contains(<Own as StaticDomain>::name())
                    && known("").is_none_or(|_| line.contains(&format!("(reader {index})"))),
                "{line}"
            );
            assert!(line.contains(&format!(", which registered at {}:", file!())), "{line}");
        }
        assert!(lines[8].ends_with("waits for 2 more threads"), "{output}");
        return;
    }
    let _running = deadline();
    rcu::set_stall_timeout(Some(LIMIT));
    let readers: Vec<_> =
        (0..READERS).map(|index| stall(&format!("reader {index}"), || Own::enter())).collect();
    let writer = waiting_synchronize::<Own>();
    // The report is counted before the hook is called.
    until(|| Own.stats().stalls >= 2);
    readers.into_iter().for_each(StalledThread::leave);
    writer.join().expect("the grace period ends");
}

#[test]
fn short_grace_period_is_not_reported() {
    stillpoint::domain! { struct Own; }
    let test = short_grace_period_is_not_reported;
    let limit = match child::variant().as_deref() {
        None => return ["hour", "never"].into_iter().for_each(|limit| child::run(test, limit, None)),
        Some("hour") => Some(Duration::from_secs(3600)),
        Some(_) => None,
    };
    let _running = deadline();
    record_stalls();
    rcu::set_stall_timeout(limit);
    for _ in 0..100 {
        let reader = stall("brief", Own::enter);
        let writer = waiting_synchronize::<Own>();
        reader.leave();
        writer.join().expect("the grace period ends");
    }
    let stats = Own.stats();
    assert_eq!((stats.sleeps, stats.stalls), (100, 0));
    assert!(stats.longest_wait > Duration::ZERO, "{stats:?}");
    assert!(stalls::<Own>(0).is_empty());
}
