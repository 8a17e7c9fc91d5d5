//! A panic of a broken contract has the place of the call in the program, and names the call.

use std::future::{Future, IntoFuture as _};
use std::pin::pin;

use stillpoint::arc::ArcCell;
use stillpoint::lock::{Condvar, Mutex};
use stillpoint::percpu::Histogram;
use stillpoint::rcu::{RcuOption, Shared};
use support::panics::panic_of;
use support::prelude::*;

/// Checks that the call panics where it stands, with a message that begins so.
macro_rules! refused {
    ($begin:expr, $call:expr) => {{
        // As the call is in the same line.
        let here = format!("{}:{}", file!(), line!());
        let (place, text) = panic_of(|| _ = $call);
        assert_eq!(place, here, "{text}");
        assert!(text.starts_with(&String::from($begin)), "{text}");
    }};
}

/// Polls a future once.
fn poll<F: Future>(future: F) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// Checks the message of a panic in `.await`, whose place is the executor's. It names the line of the call.
macro_rules! await_refused {
    ($what:expr, $future:expr) => {{
        let begin = format!("`.await` of {}, at {}:{}:", $what, file!(), line!());
        let (_, text) = panic_of(|| poll($future));
        assert!(text.starts_with(&begin), "{text}");
    }};
}

#[test]
fn waiting_inside_a_section_is_refused_at_the_call() {
    own!(Own);
    let number = Rcu::new_in(1, Own);
    let option: RcuOption<i32, Own> = RcuOption::empty_in(Own);
    option.replace(Some(1));
    let elapsed = GracePeriod::now_in(Own);
    Own.synchronize();
    let guard = Own::enter();
    let inside = "inside a read-side critical section of the same domain would wait for itself: drop its guard or `Ref`";
    let begin = |operation| format!("{operation} {inside}");
    refused!(begin("synchronize()"), Own.synchronize());
    refused!(begin("barrier()"), Own.barrier());
    for period in [elapsed, GracePeriod::now_in(Own), GracePeriod::start_in(Own)] {
        refused!(begin("GracePeriod::wait()"), period.wait());
    }
    refused!(begin("GracePeriod::wait_timeout()"), GracePeriod::now_in(Own).wait_timeout(Duration::ZERO));
    refused!(begin("Retired::wait()"), number.replace(2).wait());
    refused!(begin("Retired::wait()"), number.update(|_| 3).wait());
    refused!(begin("Retired::wait()"), option.replace(Some(2)).expect("a value").wait());
    refused!(begin("Retired::wait()"), option.take().expect("a value").wait());
    drop(guard);
    let reference = number.read();
    refused!(begin("synchronize()"), Own.synchronize());
    drop(reference);
    Own.barrier();
}

#[test]
fn waiting_inside_a_global_section_is_refused_at_the_call() {
    let _running = deadline();
    let number = Rcu::new(1);
    let _reference = number.read();
    refused!("synchronize() inside", rcu::synchronize());
    refused!("barrier() inside", rcu::barrier());
    refused!("GracePeriod::wait() inside", GracePeriod::now().wait());
    refused!("Retired::wait() inside", number.replace(2).wait());
}

#[test]
fn awaiting_inside_a_section_is_refused_with_its_place() {
    own!(Own);
    let number = Rcu::new_in(1, Own);
    let _guard = Own::enter();
    await_refused!("a GracePeriod", GracePeriod::now_in(Own).into_future());
    await_refused!("a GracePeriod", async { GracePeriod::now_in(Own).await });
    await_refused!("a barrier", Own.barrier_async());
    await_refused!("a Retired", async { number.replace(2).await });
}

#[test]
fn waiting_in_a_callback_of_the_domain_is_refused_at_the_call() {
    own!(Own);
    let (done, is_done) = channel();
    Own.call(move || {
        refused!("barrier() inside a callback of the same domain would wait for itself", Own.barrier());
        await_refused!("a barrier", Own.barrier_async());
        done.send(()).expect("the test waits");
    });
    is_done.recv().expect("no assertion has failed");
    let (domain, (done, is_done)) = (srcu::Domain::new(), channel());
    let other = domain.clone();
    domain.call(move || {
        refused!("barrier() inside a callback of the same domain would wait for itself", other.barrier());
        done.send(()).expect("the test waits");
    });
    is_done.recv().expect("no assertion has failed");
}

#[test]
fn waiting_while_online_is_refused_at_the_call() {
    own!(qsbr Own);
    let number = Rcu::new_in(1, Own);
    let (handle, global) = (Own::register(), qsbr::register());
    refused!("synchronize() by a thread whose handle is online", Own.synchronize());
    refused!("synchronize() by a thread whose handle is online", qsbr::Global.synchronize());
    refused!("barrier() by a thread whose handle is online", Own.barrier());
    refused!("Retired::wait() by a thread whose handle is online", number.replace(2).wait());
    refused!("GracePeriod::wait() by a thread", GracePeriod::now_in(Own).wait());
    await_refused!("a Retired", async { number.replace(2).await });
    refused!("cannot register with contracts::misuse::", Own::register());
    refused!("cannot register with stillpoint::qsbr::Global: this", qsbr::register());
    drop((handle, global));
    Own.barrier();
}

#[test]
fn section_of_another_srcu_domain_is_refused_at_the_call() {
    let (here, there) = (srcu::Domain::new(), srcu::Domain::new());
    let guard = &there.enter();
    let number = Rcu::new_in(1, here.clone());
    let option: RcuOption<i32, srcu::Domain> = RcuOption::empty_in(here.clone());
    let begin = "the guard is one of another srcu::Domain";
    refused!(begin, number.load(guard));
    refused!(begin, number.compare_exchange(guard, &1, Box::new(2)));
    refused!(begin, number.update_with(guard, |_| 2));
    refused!(begin, option.load(guard));
    refused!(begin, option.compare_exchange(guard, None, None));
    refused!(begin, option.update_with(guard, |_| None));
    refused!(begin, here.check_section(guard));
}

#[test]
fn other_broken_contracts_are_refused_at_the_call() {
    let _running = deadline();
    // SAFETY: panics before it takes a node.
    refused!("into_owned() of a null pointer", unsafe { Shared::<u64>::null().into_owned() });
    refused!("a part of all values is between 0 and 1", Histogram::new().snapshot().quantile(2.0));
    let changed = Condvar::new();
    /// What a thread waits for, and whether it does.
    #[derive(Default)]
    struct State {
        is_over: bool,
        is_awaited: bool,
    }
    let (first, second) = (Mutex::new(State::default()), Mutex::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            changed.wait_while(&mut first.lock(), |state| {
                state.is_awaited = true;
                !state.is_over
            });
        });
        // The waiter is counted before it releases the mutex.
        until(|| first.lock().is_awaited);
        let begin = "Condvar: a thread waits with another mutex";
        let time = Duration::from_millis(1);
        refused!(begin, changed.wait(&mut second.lock()));
        refused!(begin, changed.wait_for(&mut second.lock(), time));
        refused!(begin, changed.wait_while(&mut second.lock(), |is_over| !*is_over));
        refused!(begin, changed.wait_while_for(&mut second.lock(), |is_over| !*is_over, time));
        first.lock().is_over = true;
        changed.notify_all();
    });
}

#[test]
fn domains_have_public_names_in_reports() {
    assert_eq!(format!("{:?}", rcu::enter()), "Guard { domain: \"stillpoint::rcu::Global\", .. }");
    let handle = thread::spawn(|| format!("{:?}", qsbr::register())).join().expect("no panic");
    assert_eq!(handle, "Handle { domain: \"stillpoint::qsbr::Global\", .. }");
}

#[test]
fn waiting_in_a_stall_hook_is_refused_at_the_call() {
    own!(Own);
    qsbr::domain! { struct Online; }
    stillpoint::domain! { struct Other; }
    let (done, is_done) = channel();
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    rcu::set_stall_hook(Box::new(move |_| {
        assert_eq!(*Rcu::new_in(7, Own).load(&Own::enter()), 7);
        assert!(!Own.try_synchronize() && !Other.try_synchronize());
        refused!("synchronize() in a stall hook", Own.synchronize());
        refused!("synchronize() in a stall hook", Other.synchronize());
        refused!("Retired::wait() in a stall hook", Rcu::new_in((), Other).replace(()).wait());
        let (_, text) = panic_of(|| ArcCell::new(Arc::new(1)).store(Arc::new(2)));
        assert!(text.starts_with("a store to an `ArcCell` in a stall hook"), "{text}");
        refused!("barrier() in a stall hook", Own.barrier());
        refused!("GracePeriod::wait() in a stall hook", GracePeriod::now().wait());
        refused!("Handle::synchronize() in a stall hook", Online::register().synchronize());
        done.send(()).expect("the test waits");
    }));
    let guard = Own::enter();
    let writer = thread::spawn(|| {
        Own.synchronize();
        // Outside the hook, the same thread may wait.
        Other.synchronize();
    });
    is_done.recv().expect("no assertion has failed");
    rcu::set_stall_hook(Box::new(|_| ()));
    drop(guard);
    writer.join().expect("no panic");
}
