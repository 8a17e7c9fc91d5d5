//! Stall reports name the threads that do not report.

use std::any::type_name;

use stillpoint::rcu::Stall;
use support::asleep::tid;
use support::prelude::*;

use crate::{known, record_stalls, stall, stalls_of};

#[test]
fn stall_report_names_only_the_unreported_thread() {
    own!(qsbr Own);
    record_stalls();
    let (line, silent) = (line!(), stall("silent", || Own::register()));
    let (online, is_online) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let reporting = thread::spawn(move || {
        let mut handle = Own::register();
        online.send(()).expect("the test listens");
        while let Err(mpsc::TryRecvError::Empty) = ended.try_recv() {
            handle.quiescent();
            thread::yield_now();
        }
    });
    is_online.recv().expect("the thread registers");
    let waiting = thread::spawn(|| Own.synchronize());
    // The first report may still name the other thread.
    let is_own = |stall: &Stall| stall.domain() == type_name::<Own>() && stall.readers().len() == 1;
    let stall = stalls_of(1, is_own).remove(0);
    let [reader] = stall.readers() else { panic!("{stall}") };
    assert_eq!((reader.thread_id(), reader.thread_name()), (silent.id, known("silent")));
    assert_eq!((reader.registered_at().file(), reader.registered_at().line()), (file!(), line));
    let text = stall.to_string();
    assert!(text.ends_with("and has not reported a quiescent state"), "{text}");
    silent.leave();
    waiting.join().expect("the grace period ends");
    drop(end);
    reporting.join().expect("no panic");
}

#[test]
fn exited_thread_with_a_leaked_handle_is_reported() {
    own!(qsbr There);
    record_stalls();
    let exits = thread::spawn(|| {
        mem::forget(There::register());
        tid().unsigned_abs()
    });
    let id = exits.join().expect("the thread ends");
    // Never returns.
    thread::spawn(|| There.synchronize());
    let stall = stalls_of(1, |stall| stall.domain() == type_name::<There>()).remove(0);
    let [reader] = stall.readers() else { panic!("{stall}") };
    assert_eq!((reader.thread_id(), reader.thread_name(), reader.has_exited()), (id, None, true));
    assert!(stall.to_string().contains("exited while it was online"), "{stall}");
}

#[test]
fn stall_report_names_the_registration_after_a_deferral() {
    own!(qsbr Own);
    record_stalls();
    let line = line!() + 3;
    let silent = stall("silent", || {
        Own.call(|| ());
        Own::register()
    });
    let waiting = thread::spawn(|| Own.synchronize());
    let stall = stalls_of(1, |stall| stall.domain() == type_name::<Own>()).remove(0);
    assert_eq!(stall.readers()[0].registered_at().line(), line, "{stall}");
    silent.leave();
    waiting.join().expect("the grace period ends");
}
