//! A thread that never reports is named.
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

fn note_stalls() {
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    rcu::set_stall_hook(Box::new(|stall| STALLS.lock().expect("no panic").push(stall.clone())));
}

#[test]
fn stall_report_names_only_the_unreported_thread() {
    qsbr::domain! { struct Here; }
    let _running = deadline();
    note_stalls();
    let (told, tell) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let lazy = thread::Builder::new().name("lazy".into());
    let lazy = lazy.spawn(move || {
        let handle = Here::register();
        // SAFETY: takes no arguments and cannot fail.
        told.send((unsafe { libc::gettid() }.unsigned_abs(), line!() - 2)).expect("somebody listens");
        let _ = stopped.recv();
        drop(handle);
    });
    let lazy = lazy.expect("a thread");
    let (id, line) = tell.recv().expect("it registers");
    let (online, is_online) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let diligent = thread::spawn(move || {
        let mut handle = Here::register();
        online.send(()).expect("somebody listens");
        while let Err(mpsc::TryRecvError::Empty) = ended.try_recv() {
            handle.quiescent();
            thread::yield_now();
        }
    });
    is_online.recv().expect("it registers");
    let waiting = thread::spawn(|| Here.synchronize());
    let stall = loop {
        let stalls = STALLS.lock().expect("no panic").clone();
        // The first report may still name one that is about to report.
        if let Some(stall) = stalls
            .into_iter()
            .find(|stall| stall.domain() == type_name::<Here>() && stall.readers().len() == 1)
        {
            break stall;
        }
        thread::yield_now();
    };
    let [reader] = stall.readers() else { panic!("{stall}") };
    assert_eq!((reader.thread_id(), reader.thread_name()), (id, Some("lazy")));
    assert_eq!((reader.registered_at().file(), reader.registered_at().line()), (file!(), line));
    let text = stall.to_string();
    assert!(text.ends_with("and has not reported a quiescent state"), "{text}");
    drop(stop);
    for thread in [lazy, waiting] {
        thread.join().expect("no panic");
    }
    drop(end);
    diligent.join().expect("no panic");
}

#[test]
fn exited_thread_with_a_leaked_handle_is_reported() {
    qsbr::domain! { struct There; }
    let _running = deadline();
    note_stalls();
    let exits = thread::spawn(|| {
        mem::forget(There::register());
        // SAFETY: takes no arguments and cannot fail.
        unsafe { libc::gettid() }.unsigned_abs()
    });
    let id = exits.join().expect("the thread ends");
    // Left asleep.
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
