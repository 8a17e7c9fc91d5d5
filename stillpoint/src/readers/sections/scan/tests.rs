//! Leaders that have to rescan, and leaders that wait for many readers.

use core::ptr;
use std::env;
use std::process::Command;
use std::thread;

use super::ReaderProtocol::Sections;
use super::*;
use crate::fence::{Backend, report};
use crate::grace_period::engine::Engine;
use crate::readers::sections::reader::ExitPath;
use support::deadline::deadline;

#[test]
fn leader_rescans_if_the_wakeup_is_lost() {
    const NAME: &str = "readers::sections::scan::tests::leader_rescans_if_the_wakeup_is_lost";
    static ENGINE: Engine<ThreadReaders<()>> = Engine::new(ThreadReaders::new(Sections), || "test");
    let _running = deadline();
    if report().backend() != Backend::SeqCst {
        // In another process, with the backend of which this is a test.
        let program = env::current_exe().expect("this program has a path");
        let mut child = Command::new(program);
        let status = child.args(["--exact", NAME]).env("STILLPOINT_FENCE", "seqcst").status();
        assert!(status.expect("it runs").success());
        return;
    }
    let readers = ENGINE.readers();
    let reader = readers.registry().claim().expect("there is memory");
    assert!(reader.try_enter(readers.counter()));
    thread::scope(|s| {
        s.spawn(|| ENGINE.synchronize(None));
        // The leader has made its request, and has rescanned once.
        while readers.counters.sleeps.load(Relaxed) == 0 {
            thread::yield_now();
        }
        // Leaves, and misses the request.
        reader.gp_seen.store(0, Release);
    });
    assert_eq!(readers.counters.wakeups.load(Relaxed), 0, "the reader has woken no thread");
    assert_eq!(readers.awaited.load(Relaxed), 0);
    assert!(!reader.take_wake_request(), "the leader has taken the request back");
}

/// More readers than one chunk has, and in the last chunk more than one group.
const MANY: usize = 32 + 64 + 128;

/// Returns readers of a registry, in the order of their places.
fn many_readers(readers: &ThreadReaders<()>) -> Vec<&'static Reader> {
    let readers: Vec<_> = (0..MANY).map(|_| readers.registry().claim().expect("there is memory")).collect();
    assert!(readers.iter().enumerate().all(|(index, reader)| reader.index.load(Relaxed) as usize == index));
    readers
}

#[test]
fn grace_period_waits_for_each_of_many_readers() {
    static ENGINE: Engine<ThreadReaders<()>> = Engine::new(ThreadReaders::new(Sections), || "test");
    let threads = ENGINE.readers();
    for (index, reader) in many_readers(threads).into_iter().enumerate() {
        assert!(reader.try_enter(threads.counter()));
        assert_eq!(ENGINE.try_synchronize(None, None), Some(false), "it does not wait for reader {index}");
        assert_eq!(reader.leave(), ExitPath::Fast);
        assert_eq!(ENGINE.try_synchronize(None, None), Some(true));
    }
}

#[test]
fn sleeping_leader_awaits_each_of_many_readers() {
    static ENGINE: Engine<ThreadReaders<()>> = Engine::new(ThreadReaders::new(Sections), || "test");
    /// The first and the last reader of each group.
    const INSIDE: [usize; 8] = [0, 31, 32, 95, 96, 159, 160, MANY - 1];
    let _running = deadline();
    let threads = ENGINE.readers();
    let all = many_readers(threads);
    let inside = INSIDE.map(|index| all[index]);
    // Each of them as the last of all, and as the only one.
    let cases = inside.iter().flat_map(|last| [(*last, &inside[..]), (*last, core::slice::from_ref(last))]);
    for (last, inside) in cases {
        assert!(inside.iter().all(|reader| reader.try_enter(threads.counter())));
        let (completed, sleeps) = (ENGINE.completed(), threads.counters.sleeps.load(Relaxed));
        let leave = |reader: &Reader| {
            if reader.leave() == ExitPath::Slow {
                threads.exit_slow(reader);
            }
        };
        thread::scope(|s| {
            s.spawn(|| ENGINE.synchronize(None));
            while threads.counters.sleeps.load(Relaxed) == sleeps {
                thread::yield_now();
            }
            inside.iter().filter(|reader| !ptr::eq(**reader, last)).for_each(|reader| leave(reader));
            // Those that have missed the request are found by the leader.
            while threads.awaited.load(Relaxed) > 1 {
                thread::yield_now();
            }
            let last_index = last.index.load(Relaxed);
            assert_eq!(threads.awaited.load(Relaxed), 1, "the leader does not wait for reader {last_index}");
            assert_eq!(ENGINE.completed(), completed);
            leave(last);
        });
        assert_eq!(ENGINE.completed(), completed + 1);
    }
}

#[test]
fn leader_awaits_a_reader_behind_an_inactive_group() {
    static ENGINE: Engine<ThreadReaders<()>> = Engine::new(ThreadReaders::new(Sections), || "test");
    let _running = deadline();
    let threads = ENGINE.readers();
    let all = many_readers(threads);
    // The first group of the last chunk. The reader is in the second.
    all[96..160].iter().for_each(|reader| threads.registry().clear_active(reader));
    let reader = all[160];
    assert!(reader.try_enter(threads.counter()));
    let sleeps = || threads.counters.sleeps.load(Relaxed);
    let before = (ENGINE.completed(), sleeps());
    thread::scope(|s| {
        s.spawn(|| ENGINE.synchronize(None));
        while (ENGINE.completed(), sleeps()) == before {
            thread::yield_now();
        }
        assert_eq!(ENGINE.completed(), before.0, "it does not wait for the reader");
        if reader.leave() == ExitPath::Slow {
            threads.exit_slow(reader);
        }
    });
}
