//! Stall reports name the threads that do not report.
#![cfg(not(loom))]

#[path = "support/deadline.rs"]
mod deadline;

use std::any::type_name;
use std::mem;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use deadline::deadline;
use stillpoint::Domain as _;
use stillpoint::qsbr;
use stillpoint::rcu::{self, Stall};

static STALLS: Mutex<Vec<Stall>> = Mutex::new(Vec::new());

fn record_stalls() {
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    rcu::set_stall_hook(Box::new(|stall| STALLS.lock().expect("no panic").push(stall.clone())));
}

#[test]
fn stall_report_names_only_the_unreported_thread() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
    record_stalls();
    let (registered, registers) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let silent = thread::Builder::new().name("silent".into());
    let silent = silent.spawn(move || {
        let handle = Own::register();
        // SAFETY: takes no arguments and cannot fail.
        registered.send((unsafe { libc::gettid() }.unsigned_abs(), line!() - 2)).expect("the test listens");
        let _ = stopped.recv();
        drop(handle);
    });
    let silent = silent.expect("a thread");
    let (id, line) = registers.recv().expect("the thread registers");
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
    let stall = loop {
        let stalls = STALLS.lock().expect("no panic").clone();
        // The first report may still name the other thread.
        if let Some(stall) = stalls
            .into_iter()
            .find(|stall| stall.domain() == type_name::<Own>() && stall.readers().len() == 1)
        {
            break stall;
        }
        thread::yield_now();
    };
    let [reader] = stall.readers() else { panic!("{stall}") };
    assert_eq!((reader.thread_id(), reader.thread_name()), (id, Some("silent")));
    assert_eq!((reader.registered_at().file(), reader.registered_at().line()), (file!(), line));
    let text = stall.to_string();
    assert!(text.ends_with("and has not reported a quiescent state"), "{text}");
    drop(stop);
    for thread in [silent, waiting] {
        thread.join().expect("no panic");
    }
    drop(end);
    reporting.join().expect("no panic");
}

#[test]
fn exited_thread_with_a_leaked_handle_is_reported() {
    qsbr::domain! { struct There; }
    let _running = deadline();
    record_stalls();
    let exits = thread::spawn(|| {
        mem::forget(There::register());
        // SAFETY: takes no arguments and cannot fail.
        unsafe { libc::gettid() }.unsigned_abs()
    });
    let id = exits.join().expect("the thread ends");
    // Never returns.
    thread::spawn(|| There.synchronize());
    let stall = loop {
        let stalls = STALLS.lock().expect("no panic").clone();
        if let Some(stall) = stalls.into_iter().find(|stall| stall.domain() == type_name::<There>()) {
            break stall;
        }
        thread::yield_now();
    };
    let [reader] = stall.readers() else { panic!("{stall}") };
    assert_eq!((reader.thread_id(), reader.thread_name(), reader.has_exited()), (id, None, true));
    assert!(stall.to_string().contains("exited while it was online"), "{stall}");
}

#[test]
fn stall_report_names_the_registration_of_a_thread_that_has_deferred_before() {
    qsbr::domain! { struct Own; }
    let _running = deadline();
    record_stalls();
    let (registered, registers) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let silent = thread::spawn(move || {
        Own.call(|| ());
        let handle = Own::register();
        registered.send(line!() - 1).expect("the test listens");
        let _ = stopped.recv();
        drop(handle);
    });
    let line = registers.recv().expect("the thread registers");
    let waiting = thread::spawn(|| Own.synchronize());
    let stall = loop {
        let stalls = STALLS.lock().expect("no panic").clone();
        if let Some(stall) = stalls.into_iter().find(|stall| stall.domain() == type_name::<Own>()) {
            break stall;
        }
        thread::yield_now();
    };
    assert_eq!(stall.readers()[0].registered_at().line(), line, "{stall}");
    drop(stop);
    silent.join().expect("no panic");
    waiting.join().expect("the grace period ends");
}
